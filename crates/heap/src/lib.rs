//! Who allocated what: a small library that is loaded into the measured program, and the notes it writes.
//!
//! The library is C (`preload/`): it runs inside somebody else's allocator, before any runtime is up. It is compiled with
//! the tool and carried in it. Notes go to a [`NoteFile`], memory that the program inherits; [`NoteRing`]s are its parts,
//! one for each program that is executed.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod file;
mod note;
mod ring;
mod shared;

use std::{
    fs::{OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

pub use file::{Absences, MarkedEvent, NoteFile, ReadAtMarks};
pub use note::{EventCount, Note, NoteKind, RegionMark, StandsFor, ThreadCounts};
pub use ring::{BadRing, NoteRing, PassedOver};

/// The library, ready to be preloaded.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/heap.so"));

/// What programs may link with to mark regions, where their language includes no headers.
pub const MARK_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libmemwall.a"));

/// The file name of the library.
pub const LIBRARY_NAME: &str = "memwall-heap.so";

/// The variable that tells the library which descriptor to write to.
pub const VARIABLE: &str = "MEMWALL_HEAP";

/// It is read and executed, by its owner.
const LIBRARY_MODE: u32 = 0o500;

/// Puts the library into a folder of ours and gives its path, for `LD_PRELOAD`. Nobody may write to it, whatever the umask:
/// it runs inside programs of this user.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join(LIBRARY_NAME);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(LIBRARY_MODE).open(&path)?;
    // Whatever a umask took away: the program must be able to load it.
    file.set_permissions(Permissions::from_mode(LIBRARY_MODE))?;
    file.write_all(LIBRARY)?;
    Ok(path)
}
