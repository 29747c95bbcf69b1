//! Walking along a ring: look at a record where it lies, then give its place back.
//!
//! # Safety
//! A [`Ring`] owns its mapping. It looks only at bytes between the tail it has given back and a head it has read, and
//! gives a place back only through `&mut self`, when no record is borrowed any more.
#![allow(unsafe_code)]

use std::mem;

use super::RecordLayout;
use crate::{
    Errno, Mapping,
    record::{self, HEADER},
};

/// A ring and how far it has been read.
pub(super) struct Ring {
    mapping: Mapping,
    /// Of the data, a power of two.
    size: u64,
    /// Our place; the kernel is told with [`Ring::give_back`].
    at: u64,
    /// What the kernel had finished when we last looked.
    end: u64,
    /// The place the kernel knows of.
    given_back: u64,
    /// A record that wraps around the ring's end is put together here.
    whole: Vec<u8>,
}

/// The record at the ring's current place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A record that lies in the ring as a whole.
    Record {
        kind: u32,
        misc: u16,
        size: usize,
        /// `None`: too short to have one, so it goes first.
        time_ns: Option<u64>,
    },
    /// From here on the lengths make no sense.
    Garbage,
}

impl Ring {
    pub fn new(mapping: Mapping) -> Result<Self, Errno> {
        let size = mapping.ring_size() as u64;
        if !size.is_power_of_two() || size < HEADER as u64 {
            return Err(Errno(libc::EINVAL));
        }
        let at = mapping.tail();
        // A record's size has 16 bits: no record is longer.
        let whole = Vec::with_capacity(usize::from(u16::MAX));
        Ok(Self { mapping, size, at, end: at, given_back: at, whole })
    }

    /// Takes note of what the kernel has finished by now.
    pub fn look(&mut self) {
        self.end = self.mapping.head();
    }

    /// More than half of it is waiting to be read.
    pub fn is_filling_up(&self) -> bool {
        self.end.wrapping_sub(self.at) > self.size / 2
    }

    /// The record at a place before the end.
    #[inline]
    fn next_at(&self, at: u64, layout: &RecordLayout) -> Option<Next> {
        let left = self.end.wrapping_sub(at);
        if left == 0 {
            return None;
        }
        if left > self.size || left < HEADER as u64 {
            return Some(Next::Garbage);
        }
        let header = self.word(at).to_ne_bytes();
        let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
        let size = usize::from(u16::from_ne_bytes([s0, s1]));
        if size < HEADER || size as u64 > left {
            return Some(Next::Garbage);
        }
        let kind = u32::from_ne_bytes([k0, k1, k2, k3]);
        let time_ns = layout.time_offset(kind, size).map(|offset| self.word(at.wrapping_add(offset as u64)));
        Some(Next::Record { kind, misc: u16::from_ne_bytes([m0, m1]), size, time_ns })
    }

    /// What comes next of what was noted.
    #[inline]
    pub fn next(&self, layout: &RecordLayout) -> Option<Next> {
        self.next_at(self.at, layout)
    }

    /// The record that [`Ring::next`] announced.
    #[inline]
    pub fn record(&mut self, kind: u32, misc: u16, size: usize) -> record::Record<'_> {
        let first = (self.at & (self.size - 1)) as usize;
        let straight = (self.size as usize - first).min(size);
        let mut whole = mem::take(&mut self.whole);
        if straight < size {
            whole.clear();
            whole.extend_from_slice(self.bytes(first, straight));
            whole.extend_from_slice(self.bytes(0, size - straight));
        }
        self.whole = whole;
        let bytes = if straight < size { &self.whole } else { self.bytes(first, size) };
        record::Record { kind, misc, body: bytes.get(HEADER..).unwrap_or_default() }
    }

    /// Steps over `size` bytes.
    #[inline]
    pub fn step(&mut self, size: usize) {
        self.at = self.at.wrapping_add(size as u64);
        // So that the kernel does not run out of room during a long drain.
        if self.at.wrapping_sub(self.given_back) > self.size / 4 {
            self.give_back();
        }
    }

    /// Steps over all that was noted; gives how many bytes that were.
    pub fn skip_all(&mut self) -> usize {
        let skipped = self.end.wrapping_sub(self.at);
        self.at = self.end;
        usize::try_from(skipped.min(self.size)).unwrap_or(usize::MAX)
    }

    /// Tells the kernel that everything before the current place may be overwritten.
    pub fn give_back(&mut self) {
        if self.given_back != self.at {
            self.mapping.set_tail(self.at);
            self.given_back = self.at;
        }
    }

    /// Looks at each record that lies in the ring without taking it.
    pub fn scan(&mut self, layout: &RecordLayout, mut each: impl FnMut(record::Record<'_>)) {
        self.look();
        let begin = self.at;
        while let Some(Next::Record { kind, misc, size, .. }) = self.next(layout) {
            each(self.record(kind, misc, size));
            self.at = self.at.wrapping_add(size as u64);
        }
        self.at = begin;
    }

    /// Part of a record that [`Ring::next_at`] has found between our place and the end.
    #[inline]
    fn bytes(&self, first: usize, length: usize) -> &[u8] {
        // SAFETY: callers stay between `at` and `end`; `given_back` is not beyond `at`, and moving it needs `&mut`.
        unsafe { self.mapping.data(first, length) }
    }

    /// Eight bytes of the ring, wherever they lie.
    #[inline]
    fn word(&self, at: u64) -> u64 {
        let first = (at & (self.size - 1)) as usize;
        let mut word = [0; 8];
        if first + 8 <= self.size as usize {
            word.copy_from_slice(self.bytes(first, 8));
        } else {
            let straight = self.size as usize - first;
            word[..straight].copy_from_slice(self.bytes(first, straight));
            word[straight..].copy_from_slice(self.bytes(0, 8 - straight));
        }
        u64::from_ne_bytes(word)
    }
}
