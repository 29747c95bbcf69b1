//! An event's control page and the ring of records behind it.
//!
//! # Safety
//! The memory is shared with the kernel, which writes while we look. Single fields of the control page are read with
//! volatile or atomic loads. Of the ring, only what lies between our tail and a head read with acquire ordering may be
//! looked at: there the kernel has finished writing and does not write again before the tail moves on. Offsets are
//! kept within the mapped length.
#![allow(unsafe_code)]

use std::{
    ptr, slice,
    sync::atomic::{AtomicU64, Ordering},
};

use perf_event_open_sys::bindings::perf_event_mmap_page as Page;
use rustix::{
    mm::{MapFlags, ProtFlags},
    param::page_size,
};

use crate::{Errno, record::Records};

/// A mapped event; unmapped when dropped.
pub struct Mapping {
    /// At least one page long, and aligned to pages.
    page: *mut Page,
    length: usize,
    /// Offset and size of the ring, never beyond what is mapped.
    data: (usize, usize),
}

impl Mapping {
    /// Takes over a mapping.
    ///
    /// # Safety
    /// `page` and `length` must be those of a readable and writable mapping of at least one page that nobody else
    /// unmaps.
    pub(crate) unsafe fn new(page: *mut Page, length: usize) -> Self {
        let mut mapping = Self { page, length, data: (length, 0) };
        mapping.data = mapping.ring();
        mapping
    }

    /// A mapping made by hand: `control` in front, then `ring`, whose length should be a power of two.
    pub fn from_script(mut control: Page, ring: &[u8]) -> Result<Self, Errno> {
        let length = page_size() + ring.len();
        control.data_offset = page_size() as u64;
        control.data_size = ring.len() as u64;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping overlaps nothing of ours; it has room for the page and then the ring.
        unsafe {
            let start = rustix::mm::mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE)?;
            start.cast::<Page>().write(control);
            ptr::copy_nonoverlapping(ring.as_ptr(), start.cast::<u8>().add(page_size()), ring.len());
            Ok(Self::new(start.cast(), length))
        }
    }

    /// The control page, valid as long as the mapping.
    pub(crate) fn control(&self) -> *const Page {
        self.page
    }

    /// The kernel lets this thread read the counter with the `rdpmc` instruction.
    pub fn allows_rdpmc(&self) -> bool {
        // SAFETY: the page is mapped; every bit pattern is a valid capability word.
        let capabilities =
            unsafe { ptr::read_volatile(&raw const (*self.page).__bindgen_anon_1.capabilities) };
        // cap_user_rdpmc; bit 0 had two meanings once and is not used any more.
        capabilities & (1 << 2) != 0
    }

    /// Whether the event is on a counter right now.
    pub fn is_on_a_counter(&self) -> bool {
        // SAFETY: the page is mapped; the field is a plain number: the counter's plus one, or 0.
        unsafe { ptr::read_volatile(&raw const (*self.page).index) != 0 }
    }

    /// Takes the finished records out of the ring and gives their place back to the kernel.
    pub fn take_records(&self) -> Records {
        let (offset, size) = self.data;
        let (head, tail) = self.ends();
        // ATOMICS: acquire pairs with the kernel's barrier before it moves the head; release keeps our copying
        // before the moment the kernel may overwrite.
        let end = head.load(Ordering::Acquire);
        let begin = tail.load(Ordering::Relaxed);
        let length = end.wrapping_sub(begin).min(size as u64) as usize;
        let mut bytes = vec![0; length];
        if size > 0 {
            let first = (begin % size as u64) as usize;
            let (front, wrapped) = bytes.split_at_mut(length.min(size - first));
            self.copy(offset + first, front);
            self.copy(offset, wrapped);
        }
        tail.store(end, Ordering::Release);
        Records::new(bytes)
    }

    /// Bytes of data in the ring.
    pub(crate) fn ring_size(&self) -> usize {
        self.data.1
    }

    /// How far the kernel has written.
    pub(crate) fn head(&self) -> u64 {
        // ATOMICS: pairs with the kernel's barrier before it moves the head.
        self.ends().0.load(Ordering::Acquire)
    }

    /// How far we have read.
    pub(crate) fn tail(&self) -> u64 {
        self.ends().1.load(Ordering::Relaxed)
    }

    /// Allows the kernel to overwrite what lies before `tail`. Nothing there may be borrowed any more.
    pub(crate) fn set_tail(&mut self, tail: u64) {
        // ATOMICS: release keeps our reading before the moment the kernel may overwrite.
        self.ends().1.store(tail, Ordering::Release);
    }

    /// Bytes of the ring, borrowed where they lie. The range must lie in the ring.
    ///
    /// # Safety
    /// The bytes must lie between tail and head, and the tail must not move past them while they are borrowed.
    #[inline]
    pub(crate) unsafe fn data(&self, first: usize, length: usize) -> &[u8] {
        let (offset, size) = self.data;
        assert!(first <= size && length <= size - first, "record outside the mapped ring");
        // SAFETY: the range is mapped, as just checked; the kernel has finished it and, as the caller promises, may
        // not write there while the slice lives.
        unsafe { slice::from_raw_parts(self.page.cast::<u8>().add(offset + first), length) }
    }

    /// Head and tail of the ring.
    fn ends(&self) -> (&AtomicU64, &AtomicU64) {
        // SAFETY: both fields are mapped, aligned, and outlive the references; the kernel, too, treats them as atomic.
        unsafe {
            let (head, tail) = (&raw mut (*self.page).data_head, &raw mut (*self.page).data_tail);
            (AtomicU64::from_ptr(head), AtomicU64::from_ptr(tail))
        }
    }

    /// Copies mapped bytes out; the range must lie in the ring.
    fn copy(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= self.length, "record outside the mapped ring");
        // SAFETY: the range is mapped, as just checked, and the kernel has finished writing it.
        unsafe { ptr::copy_nonoverlapping(self.page.cast::<u8>().add(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Offset and size of the ring, never beyond what is mapped.
    fn ring(&self) -> (usize, usize) {
        // SAFETY: the page is mapped; both fields are plain numbers that do not change any more.
        let (offset, size) = unsafe {
            (
                ptr::read_volatile(&raw const (*self.page).data_offset),
                ptr::read_volatile(&raw const (*self.page).data_size),
            )
        };
        let offset = usize::try_from(offset).map_or(self.length, |offset| offset.min(self.length));
        let room = self.length - offset;
        (offset, usize::try_from(size).map_or(room, |size| size.min(room)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: we own this mapping, and nothing borrows from it. Failing to unmap can only leak it.
        let _ = unsafe { rustix::mm::munmap(self.page.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode;

    #[test]
    fn records_are_copied_over_the_wrap() {
        let stream: Vec<u8> = [encode(9, 0, &[1; 8]), encode(2, 0, &[2; 24])].concat();
        // The first record begins eight bytes before the ring's end.
        let mut ring = vec![0; 64];
        let begin = 120usize;
        for (index, byte) in stream.iter().enumerate() {
            ring[(begin + index) % 64] = *byte;
        }
        let control =
            Page { data_tail: begin as u64, data_head: (begin + stream.len()) as u64, ..Default::default() };
        let mapping = Mapping::from_script(control, &ring).unwrap();
        let records = mapping.take_records();
        let seen: Vec<_> = records.iter().map(|record| (record.kind, record.body.to_vec())).collect();
        assert_eq!(seen, [(9, vec![1; 8]), (2, vec![2; 24])]);
        assert_eq!(mapping.take_records().iter().count(), 0, "the place was given back");
    }

    #[test]
    fn a_head_beyond_the_ring_stays_inside_it() {
        let control = Page { data_head: u64::MAX, data_tail: 3, ..Default::default() };
        let mapping = Mapping::from_script(control, &[0xff; 64]).unwrap();
        assert_eq!(mapping.take_records().iter().count(), 0);
        let empty = Mapping::from_script(control, &[]).unwrap();
        assert_eq!(empty.take_records().iter().count(), 0);
    }

    #[test]
    fn capabilities() {
        let mut control = Page::default();
        let none = Mapping::from_script(control, &[]).unwrap();
        assert!(!none.allows_rdpmc() && !none.is_on_a_counter());
        control.__bindgen_anon_1.capabilities = 1 << 2;
        control.index = 1;
        let both = Mapping::from_script(control, &[]).unwrap();
        assert!(both.allows_rdpmc() && both.is_on_a_counter());
    }
}
