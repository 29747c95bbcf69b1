//! Large tables on huge pages of the host: a simulated last-level cache is looked up at random, and with small pages
//! the host would walk its page table for nearly every lookup.
//!
//! # Safety
//! One unsafe call advises the kernel about the inside of an allocation that this module has just made and that nothing
//! else knows of; one tells the CPU what will be read soon; neither changes content. Two look at lines of the host as
//! the words they are made of.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};

/// Size and alignment of a huge page; smaller tables gain nothing.
const HUGE: usize = 2 << 20;

/// A line of the host.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct HostLine([u64; 8]);

/// The words of lines, one after the other.
#[inline]
pub(super) fn words(lines: &[HostLine]) -> &[u64] {
    // SAFETY: a line is eight words and nothing else, as large as its alignment: no padding within or between.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), 8 * lines.len()) }
}

/// The same, to be changed.
#[inline]
pub(super) fn words_mut(lines: &mut [HostLine]) -> &mut [u64] {
    // SAFETY: as above; the lines are borrowed for as long as the words, and any word is a valid one.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), 8 * lines.len()) }
}

/// A table of `len` times `value`, on huge pages where it is large and the host gives them.
pub(super) fn table<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut table: Vec<T> = Vec::with_capacity(len);
    let start = table.as_ptr() as usize;
    let (first, end) = (start.next_multiple_of(HUGE), (start + len * size_of::<T>()) / HUGE * HUGE);
    if first < end {
        let inside = table.as_mut_ptr().wrapping_byte_add(first - start);
        // SAFETY: whole pages inside the capacity just allocated, not yet written; a refusal leaves small pages.
        let _ = unsafe { madvise(inside.cast(), end - first, Advice::LinuxHugepage) };
    }
    table.resize(len, value);
    table
}

/// Asks the host for the memory of `item`, which will be needed soon. Changes nothing but time.
#[inline]
pub(crate) fn expect<T>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing a program can see, and the address is that of a reference.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(item).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words() {
        let mut lines = vec![HostLine::default(); 3];
        words_mut(&mut lines).iter_mut().enumerate().for_each(|(at, word)| *word = at as u64);
        assert_eq!(words(&lines), (0..24).collect::<Vec<u64>>());
        assert_eq!((lines[1].0[0], lines[2].0[7]), (8, 23));
    }

    #[test]
    fn every_entry_has_the_value() {
        for len in [0, 1, 1000, 3 * HUGE / 8 + 5] {
            let table = table(7u64, len);
            assert!(table.len() == len && table.iter().all(|&entry| entry == 7));
        }
    }
}
