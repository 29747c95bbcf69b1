//! Who allocated what: a small library that is loaded into the measured program, and the log it writes.
//!
//! The library is C (`preload/heap.c`): it runs inside somebody else's allocator, before any runtime is up. It is
//! compiled with the tool and carried in it.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod log;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

pub use log::{Log, LogError, LogReader, LogState, Note, NoteKind};

/// The library, ready to be preloaded.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heap.so"));

/// The variable that tells the library where to write.
pub const FOLDER_VARIABLE: &str = "MEMWALL_HEAP";

/// Puts the library into a folder of ours and gives its path, for `LD_PRELOAD`. Nobody may write to it, whatever the umask:
/// it runs inside programs of this user.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("memwall-heap.so");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(&path)?;
    file.write_all(LIBRARY)?;
    Ok(path)
}

/// A log that cannot be read, and why.
pub type BadLog = (PathBuf, LogError);

/// All logs of a folder, in the order their programs began, and those that cannot be read.
pub fn read_folder(folder: &Path) -> io::Result<(Vec<Log>, Vec<BadLog>)> {
    let (mut logs, mut bad) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "heap") {
            continue;
        }
        match std::fs::read(&path).map_err(LogError::from).and_then(|bytes| Log::parse(&bytes)) {
            Ok(log) => logs.push(log),
            Err(error) => bad.push((path, error)),
        }
    }
    logs.sort_by_key(|log| log.began_ns);
    Ok((logs, bad))
}
