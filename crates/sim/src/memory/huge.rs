//! Large tables on huge pages of the host: a simulated last-level cache is looked up at random, and with small pages
//! the host would walk its page table for nearly every lookup.
//!
//! # Safety
//! One unsafe call advises the kernel about the inside of an allocation that this module has just made and that nothing
//! else knows of; the other tells the CPU what will be read soon. Neither changes content.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};

/// Size and alignment of a huge page; smaller tables gain nothing.
const HUGE: usize = 2 << 20;

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
pub(super) fn expect<T>(item: &T) {
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
    fn every_entry_has_the_value() {
        for len in [0, 1, 1000, 3 * HUGE / 8 + 5] {
            let table = table(7u64, len);
            assert!(table.len() == len && table.iter().all(|&entry| entry == 7));
        }
    }
}
