//! The threads of a running process.

use std::{fs, io, path::Path};

/// Their numbers, as `root` has them now. An error: there is no such process.
pub(super) fn threads_of(root: &Path, pid: i32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(root.join(format!("proc/{pid}/task")))?;
    let mut threads: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    Ok(threads)
}
