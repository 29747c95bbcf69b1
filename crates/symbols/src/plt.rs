//! Names for the stubs through which a program calls shared libraries: `malloc@plt`.
//!
//! A stub jumps through a slot that the dynamic linker fills; the relocation of the slot names the function. Reading
//! the jump works for every layout of stubs (lazy, bound at start, with and without branch-tracking marks), where
//! counting entries would need to know the layout.

use std::collections::HashMap;

use object::elf;
use object::{Architecture, Object as _, ObjectSection as _, SectionFlags};

use crate::symtab::Names;
use crate::table::{Binding, NameRef, SymbolCandidate, SymbolKind, SymbolOrigin};

/// `jmp *displacement(%rip)`: two bytes and the displacement.
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_BYTES: usize = 6;
/// `endbr64`
const BRANCH_MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Stubs are 16 bytes long, except bare jumps in `.plt.got`.
const STUB_BYTES: usize = 16;
const BARE_STUB_BYTES: usize = 8;
/// One relocation with addend in a 64-bit file.
const RELOCATION_BYTES: usize = 24;

/// The stubs of an x86-64 image. `functions` name the targets in static programs, whose slots are filled by
/// resolvers.
pub(crate) fn candidates(
    file: &object::File<'_>,
    names: &Names<'_>,
    functions: &[SymbolCandidate],
) -> Vec<SymbolCandidate> {
    if file.architecture() != Architecture::X86_64 || !file.is_64() {
        return Vec::new();
    }
    let slots = slots(file, names, functions);
    let sections = file.sections().filter(|section| is_stub_section(section));
    sections.flat_map(|section| stubs_in(&section, &slots)).collect()
}

fn is_stub_section(section: &object::Section<'_, '_>) -> bool {
    section.name_bytes().is_ok_and(|name| name.starts_with(b".plt") || name == b".iplt")
}

/// The function each slot will hold.
fn slots(file: &object::File<'_>, names: &Names<'_>, functions: &[SymbolCandidate]) -> HashMap<u64, NameRef> {
    let mut slots = HashMap::new();
    let mut resolvers: Option<HashMap<u64, NameRef>> = None;
    for section in file.sections() {
        let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
        if sh_type != elf::SHT_RELA || !sh_flags.contains(elf::SHF_ALLOC) {
            continue;
        }
        for raw in section.data().unwrap_or_default().chunks_exact(RELOCATION_BYTES) {
            let Some([slot, info, addend]) = words(raw) else { continue };
            let name = match elf::RelocationType((info & 0xffff_ffff) as u32) {
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => {
                    names.of_dynamic(file, (info >> 32) as usize)
                }
                elf::R_X86_64_IRELATIVE => {
                    resolvers.get_or_insert_with(|| by_address(functions)).get(&addend).copied()
                }
                _ => None,
            };
            slots.extend(name.map(|name| (slot, name)));
        }
    }
    slots
}

fn by_address(functions: &[SymbolCandidate]) -> HashMap<u64, NameRef> {
    let mut names: HashMap<u64, NameRef> = HashMap::new();
    for function in functions.iter().filter(|function| function.kind == SymbolKind::Resolver) {
        let Some(name) = function.name else { continue };
        let known = names.entry(function.start).or_insert(name);
        // Aliases add underscores and suffixes: the shortest is the one that programs call.
        if name.len < known.len {
            *known = name;
        }
    }
    names
}

fn words(raw: &[u8]) -> Option<[u64; 3]> {
    let word = |index: usize| Some(u64::from_le_bytes(*raw.get(8 * index..)?.first_chunk()?));
    Some([word(0)?, word(1)?, word(2)?])
}

fn stubs_in(section: &object::Section<'_, '_>, slots: &HashMap<u64, NameRef>) -> Vec<SymbolCandidate> {
    let data = section.data().unwrap_or_default();
    let base = section.address();
    let bare_section = section.name_bytes().is_ok_and(|name| name == b".plt.got");
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(jump) = data.get(position..position + JUMP_BYTES) {
        let target = jump.strip_prefix(&JUMP).and_then(<[u8]>::first_chunk).map(|raw| {
            let next = base.wrapping_add((position + JUMP_BYTES) as u64);
            next.wrapping_add_signed(i64::from(i32::from_le_bytes(*raw)))
        });
        let Some(name) = target.and_then(|target| slots.get(&target)) else {
            position += 1;
            continue;
        };
        let aligned = position - position % STUB_BYTES;
        let bare = bare_section && !data[aligned..].starts_with(&BRANCH_MARK);
        let (offset, size) = if bare {
            (position - position % BARE_STUB_BYTES, BARE_STUB_BYTES)
        } else {
            (aligned, STUB_BYTES)
        };
        found.push(SymbolCandidate {
            start: base.wrapping_add(offset as u64),
            size: size as u64,
            limit: base.saturating_add(data.len() as u64),
            name: Some(*name),
            kind: SymbolKind::Proper,
            binding: Binding::Global,
            origin: SymbolOrigin::Plt,
        });
        position = (offset + size).max(position + 1);
    }
    found
}
