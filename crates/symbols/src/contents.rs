//! The bytes of a file: read into memory when small, mapped when large.
//!
//! # Safety
//!
//! A mapping may show changes that others make to the file while it is open. Its readers take the bytes for hostile
//! and check every bound against the length of the slice, not against bytes read earlier. What must hold is what
//! holds for every program that maps files: nobody rewrites a large executable in place while a report on it is
//! made (linkers and package managers write a new file). Cut short in place, it would raise SIGBUS; small files,
//! the ones that get rebuilt by hand, are therefore read instead of mapped.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

use machine::regular;

use crate::error::ImageError;
use crate::identity::FileStamp;

/// Above this size a file is mapped.
const READ_LIMIT_BYTES: u64 = 16 << 20;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Contents {
    Owned(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl Contents {
    /// The contents of the regular file at `path`, and its stamp.
    pub(crate) fn open(path: &Path) -> Result<(Self, FileStamp), ImageError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                ImageError::Missing { path: path.to_owned() }
            }
            _ if regular::is_not_regular(&source) => ImageError::NotRegular { path: path.to_owned() },
            _ => ImageError::Unreadable { path: path.to_owned(), source },
        };
        let file = regular::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let contents = if metadata.len() <= READ_LIMIT_BYTES { read(&file) } else { map(&file) };
        Ok((contents.map_err(failed)?, FileStamp::of(&metadata)))
    }
}

fn read(file: &File) -> io::Result<Contents> {
    let mut bytes = Vec::new();
    file.take(READ_LIMIT_BYTES).read_to_end(&mut bytes)?;
    Ok(Contents::Owned(bytes))
}

fn map(file: &File) -> io::Result<Contents> {
    // SAFETY: the mapping is private and read-only and owned by what hands out its slices; that the file keeps its
    // bytes is the condition in the module documentation.
    unsafe { memmap2::MmapOptions::new().map_copy_read_only(file) }.map(Contents::Mapped)
}
