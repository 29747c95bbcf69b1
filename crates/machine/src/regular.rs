//! Files that another user may have put in their place. A pipe or a device there must not make us wait, and a file
//! without an end must not fill the memory.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crate::Bytes;

/// More than any data file that people write: models, kernels, scenarios.
pub const LARGEST_DATA_FILE: Bytes = Bytes(16 << 20);

/// More than any file of results that memwall writes and reads again.
pub const LARGEST_RESULT: Bytes = Bytes(256 << 20);

/// Opens a regular file for reading, without waiting for anybody; anything else is an error.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

/// The same, of what is no symbolic link either: for names that others may give to files.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    open_with(path, libc::O_NOFOLLOW)
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Devices may do something when they are opened, so they are asked for before; a pipe put there meanwhile is not
    // waited for.
    check(&if flags & libc::O_NOFOLLOW == 0 { path.metadata()? } else { path.symlink_metadata()? })?;
    let file = options.read(true).custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let kind = if found.is_dir() { "a directory" } else { "not a regular file" };
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}")))
        }
    }
}

/// Whether an error of these functions says that the file is none, rather than that it cannot be read.
pub fn is_not_regular(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// The content of a regular file; an error if that is more than `most`.
pub fn read(path: &Path, most: Bytes) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.0.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most.0 {
        return Err(io::Error::other(format!("it is longer than {most}")));
    }
    Ok(bytes)
}

/// The same as text.
pub fn read_text(path: &Path, most: Bytes) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::other("not a text file in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").expect("written");
        std::os::unix::fs::symlink("file", path("link")).expect("made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        assert_eq!(read_text(&path("link"), Bytes(5)).expect("read"), "12345");
        assert!(
            read(&path("file"), Bytes(4)).is_err_and(|error| error.to_string().contains("longer than 4 B"))
        );
        assert!(open_unlinked(&path("file")).is_ok());
        assert!(open_unlinked(&path("link")).is_err_and(|error| is_not_regular(&error)));
        for other in [path("pipe"), folder.path().to_owned(), "/dev/zero".into()] {
            assert!(open(&other).is_err_and(|error| is_not_regular(&error)), "{}", other.display());
        }
        assert!(open(&path("none")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }
}
