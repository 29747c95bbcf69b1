//! Program files, lists of generated code, and what a program writes down of its allocations.

use std::{fs::OpenOptions, os::unix::fs::FileExt as _};

use heap::NoteFile;
use symbols::{Image, PerfMap};

/// How many functions of a file are asked about.
const FUNCTIONS: usize = 200;

/// A program file, asked all that the recorder asks.
pub fn elf(bytes: &[u8]) -> bool {
    let Ok(image) = Image::from_bytes("fuzz", bytes.to_vec()) else { return false };
    let image = image.with_debug_root("/no/such/folder");
    let mut named = 0;
    for range in image.function_ranges().take(FUNCTIONS) {
        let middle = range.start + (range.end - range.start) / 2;
        named += u32::from(image.function_at(middle).is_some());
        let _ = (image.lines_at(middle), image.code_at(middle, 64, 64), image.bytes(range));
    }
    for segment in image.segments().iter().take(FUNCTIONS) {
        for address in [segment.addresses.start, segment.addresses.end.wrapping_sub(1)] {
            let _ = (image.data_object_at(address), image.section_at(address), image.lines_at(address));
        }
        let _ =
            (image.bias(0x7f00_0000_0000, segment.file.start), image.address_of_offset(segment.file.start));
    }
    let _ = (image.is_x86_64(), image.has_debug_info(), image.executable_ranges().count());
    named > 0
}

/// A list of generated code.
pub fn perf_map(bytes: &[u8]) -> bool {
    let map = PerfMap::parse(bytes);
    let _ = (map.at(0), map.at(u64::MAX), map.at(0x7f10));
    !map.is_empty()
}

/// Names of symbols, one a line.
pub fn demangle(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let short = |name: &str| report::layout::signature::shorten(&symbols::demangle(name), 60).len();
    let shorter = text.lines().take(FUNCTIONS).map(short);
    shorter.sum::<usize>() > 0
}

/// Code of a function.
pub fn machine_code(bytes: &[u8]) -> bool {
    // Also where the address space ends, and targets of jumps lie beyond.
    for address in [0x40_1000, u64::MAX - 8] {
        let decoded = code::decode_range(bytes, address, &[address.wrapping_add(5)]);
        let _ =
            (decoded.find(address), code::decode_block(bytes, address), code::disassemble(bytes, address));
    }
    !code::decode_range(bytes, 0x40_1000, &[]).blocks.is_empty()
}

/// A ring of notes, written by a program that may write anything.
pub fn notes(bytes: &[u8]) -> bool {
    let Ok(file) = NoteFile::create() else { return false };
    let Some(begin) = (0..1_u64 << 20).step_by(4096).find(|at| file.region_at(*at) == Some(0)) else {
        return false;
    };
    let descriptor = file.variable().to_string_lossy().split(':').next().unwrap_or_default().to_owned();
    let opened = OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}"));
    let Ok(mut ring) = file.ring(0) else { return false };
    let region = &bytes[..bytes.len().min(1 << 20)];
    if opened.and_then(|opened| opened.write_all_at(region, begin)).is_err() {
        return false;
    }
    let mut taken = 0;
    for is_over in [false, false, true] {
        let _ = ring.take(is_over, |note| {
            let stands = note.stands_for();
            taken += u32::from(stands.bytes.is_finite() && stands.variance >= 0.0);
        });
    }
    let _ = (ring.pid(), ring.began_ns(), ring.dropped(), ring.is_closed(), file.absences(), file.claimed());
    taken > 0
}
