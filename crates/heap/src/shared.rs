//! Memory that other processes write to at any moment.
//!
//! # Safety
//! Every access is an atomic one of a whole aligned word, so that whatever others write meanwhile is no data race. The file
//! behind it is sealed against shrinking, so that every word stays where it is.
#![allow(unsafe_code)]

use std::{io, os::fd::BorrowedFd, sync::atomic::AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

const WORD: usize = size_of::<AtomicU64>();

/// A mapped stretch of a file, as words.
#[derive(Debug)]
pub(crate) struct SharedWords {
    map: MmapRaw,
}

impl SharedWords {
    /// Maps `bytes` of a file from `offset` on. The file must be sealed against shrinking.
    pub fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Self> {
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(&file)?;
        Ok(Self { map })
    }

    /// A word, by its number.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.map.len() / WORD);
        // SAFETY: within the mapping, which begins at a page and lives as long as `self`; all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }
}
