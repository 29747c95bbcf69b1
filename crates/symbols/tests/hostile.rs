//! Damaged and hostile files: an answer, a reason or nothing, but no panic and no flood of memory.

mod programs;

use std::sync::OnceLock;

use object::{Object as _, ObjectSection as _};
use programs::Built;
use proptest::prelude::*;
use symbols::{Image, build_id};

const TABLES: &[&str] = &[
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_aranges",
    ".debug_rnglists",
    ".eh_frame",
    ".symtab",
    ".strtab",
    ".dynsym",
    ".rela.plt",
    ".rela.dyn",
    ".plt",
    ".note.gnu.build-id",
];

/// A small program with every kind of table: symbols, stubs, frames, DWARF (plain and compressed).
fn victims() -> &'static [Vec<u8>] {
    static VICTIMS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    VICTIMS.get_or_init(|| {
        [&["-g"][..], &["-g", "-gz=zlib"], &["-g1", "-rdynamic"]]
            .iter()
            .map(|flags| std::fs::read(Built::new(flags).path).expect("readable"))
            .collect()
    })
}

/// Asks everything there is to ask.
fn interrogate(bytes: Vec<u8>) {
    let len = bytes.len();
    let _ = build_id(&bytes);
    let Ok(image) = Image::from_bytes("hostile", bytes) else { return };
    let image = image.with_debug_root("/nonexistent");
    let mut addresses: Vec<u64> = vec![0, 1, u64::MAX / 2, u64::MAX];
    for segment in image.segments() {
        addresses.extend([segment.addresses.start, segment.addresses.end, segment.file.start]);
    }
    let ranges: Vec<_> = image.function_ranges().collect();
    // Every entry is backed by bytes of a table in the file.
    assert!(ranges.len() <= len);
    let step = (ranges.len() / 64).max(1);
    addresses.extend(ranges.iter().step_by(step).flat_map(|range| [range.start, range.end - 1, range.end]));
    for address in addresses {
        if let Some(function) = image.function_at(address) {
            assert!(function.range.contains(&address));
            let _ = function.demangled();
        }
        if let Some(symbol) = image.data_object_at(address) {
            assert!(symbol.range.contains(&address));
        }
        let _ = image.lines_at(address);
        let _ = image.section_at(address);
        let _ = image.address_of_offset(address);
        let _ = image.bias(address, address);
        let _ = image.bytes(address..address.wrapping_add(64));
        if let Some(window) = image.code_at(address, 64, 64) {
            assert!(window.bytes.len() <= 128);
        }
    }
}

/// One change: where (of the whole, in parts of 2^32) and the bytes to put there.
fn change() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let extreme =
        prop_oneof![Just(vec![0xff; 8]), Just(vec![0; 8]), Just(vec![0x7f; 4]), Just(vec![0x80; 2])];
    (any::<u32>(), prop_oneof![prop::collection::vec(any::<u8>(), 1..9), extreme])
}

fn apply(bytes: &mut [u8], within: usize, (place, new): &(u32, Vec<u8>)) {
    let within = within.min(bytes.len());
    let at = ((u64::from(*place) * within as u64) >> 32) as usize;
    for (old, new) in bytes[at..].iter_mut().zip(new) {
        *old = *new;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_anywhere(victim in 0usize..3, changes in prop::collection::vec(change(), 1..40)) {
        let mut bytes = victims()[victim].clone();
        let len = bytes.len();
        for change in &changes {
            apply(&mut bytes, len, change);
        }
        interrogate(bytes);
    }

    /// The headers stay sound, so that every change reaches the parser of its table.
    #[test]
    fn changed_tables(
        victim in 0usize..3,
        table in prop::sample::select(TABLES),
        changes in prop::collection::vec(change(), 1..10),
    ) {
        let mut bytes = victims()[victim].clone();
        let place = {
            let file = object::File::parse(&*bytes).expect("sound before");
            file.section_by_name(table).and_then(|section| section.file_range())
        };
        let Some((start, len)) = place else { return Ok(()) };
        let target = &mut bytes[start as usize..(start + len) as usize];
        for change in &changes {
            apply(target, len as usize, change);
        }
        interrogate(bytes);
    }

    #[test]
    fn changed_headers(victim in 0usize..3, changes in prop::collection::vec(change(), 1..4), at_end in any::<bool>()) {
        let mut bytes = victims()[victim].clone();
        let len = bytes.len();
        // Program headers follow the file header; section headers end the file.
        let target = if at_end { &mut bytes[len - 2400..] } else { &mut bytes[..900] };
        for change in &changes {
            apply(target, 2400, change);
        }
        interrogate(bytes);
    }

    #[test]
    fn random_bytes_behind_a_magic_number(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), class in 1u8..3) {
        interrogate(bytes.clone());
        let magic = [0x7f, b'E', b'L', b'F', class, 1, 1];
        for (old, new) in bytes.iter_mut().zip(magic) {
            *old = new;
        }
        interrogate(bytes);
    }
}
