//! What procfs says of processes, whose names, threads and files are called what others like.

use recorder::procfs;

/// A file of procfs, by its first line: `maps`, `stat`, `status`, `schedstat`, `cmdline` or `children`.
pub fn process(bytes: &[u8]) -> bool {
    let Some(at) = bytes.iter().position(|byte| *byte == b'\n') else { return false };
    let (name, rest) = (&bytes[..at], &bytes[at + 1..]);
    let text = String::from_utf8_lossy(rest);
    match name {
        b"maps" => text.lines().filter_map(procfs::MapLine::parse).count() > 0,
        b"stat" => procfs::state(&text).is_some() && procfs::began_ticks(&text).is_some(),
        b"statm" => procfs::resident_bytes(&text).is_some(),
        b"status" => procfs::real_user(&text).is_some() && procfs::own_number(&text).is_some(),
        b"schedstat" => procfs::schedstat(&text).is_some(),
        b"cmdline" => !procfs::arguments(rest).is_empty(),
        b"children" => procfs::children(&text).count() > 0,
        _ => false,
    }
}

/// `smaps`, and behind an empty line `numa_maps`.
pub fn areas(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let (smaps, numa_maps) = text.split_once("\n\n").unwrap_or((&text, ""));
    let all = procfs::areas(smaps, numa_maps);
    let mapped = all.iter().try_fold(0_u64, |sum, area| sum.checked_add(area.end - area.start));
    !all.is_empty() && (mapped.is_some() || all.len() > 1)
}
