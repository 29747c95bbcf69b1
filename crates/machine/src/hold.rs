//! A mark on an open file that says that a process works on it. The kernel takes it away when the last process that has
//! the file open so ends, however it ends: unlike a number in a file it never outlives whom it stands for.
//!
//! It is a lock on one byte far behind the end of every file. A lock on the whole file would be taken for SQLite's on
//! file systems of other machines, where all locks are of one kind.
//!
//! # Safety
//! `fcntl` reads and writes one local value of the type that these commands want.
#![allow(unsafe_code)]

use std::{fs::File, io, os::fd::AsRawFd as _};

/// SQLite's own locks lie around 2³⁰.
const BYTE: i64 = 1 << 40;

/// Marks a file that was opened for writing, as long as it stays open. False: another process has it.
pub fn take(file: &File) -> io::Result<bool> {
    match lock(file, libc::F_OFD_SETLK) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another process has a file marked.
pub fn is_taken(file: &File) -> io::Result<bool> {
    lock(file, libc::F_OFD_GETLK).map(|found| found != libc::F_UNLCK)
}

/// The kind of lock that the kernel answers with.
fn lock(file: &File, command: libc::c_int) -> io::Result<libc::c_int> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: BYTE,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the value outlives the call, and the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock.l_type.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_lets_go_with_the_file() {
        let folder = tempfile::tempdir().expect("locks");
        let path = folder.path().join("a");
        let open = || File::options().write(true).create(true).truncate(false).open(&path).expect("locks");
        let (first, second) = (open(), open());
        assert!(!is_taken(&second).expect("locks"));
        assert!(take(&first).expect("locks") && take(&first).expect("locks"), "it stays ours");
        assert!(
            !take(&second).expect("locks")
                && is_taken(&second).expect("locks")
                && !is_taken(&first).expect("locks")
        );
        // Closing another description of the file takes nothing away.
        drop(open());
        assert!(is_taken(&second).expect("locks"));
        drop(first);
        assert!(take(&second).expect("locks"));
    }
}
