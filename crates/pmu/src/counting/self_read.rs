//! Reading one's own counter without a system call.
//!
//! # Safety
//! The control page is shared with the kernel, which writes it while we look. Fields are read one by one with
//! volatile loads, and thrown away if the page's sequence number moved meanwhile. `rdpmc` runs only for a counter
//! that the kernel says is ours and readable: it would fault otherwise.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::atomic::{Ordering, compiler_fence},
};

use crate::{CounterReading, Mapping};

/// `capabilities`: the counter may be read, the times may be computed.
const MAY_READ: u64 = 1 << 2;
const HAS_TIME: u64 = 1 << 3;

/// Tries of a read that the kernel interrupts every time.
const TRIES: usize = 64;

/// What two instructions give: a counter and the clock. Scripted in tests.
#[derive(Clone, Copy)]
pub(super) struct Instructions {
    /// `rdpmc` of a counter's number.
    pub counter: fn(u32) -> u64,
    /// `rdtsc`.
    pub clock: fn() -> u64,
}

impl Instructions {
    /// Those of this processor; `None` where it has none that we know.
    pub fn native() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(Self { counter: rdpmc, clock: rdtsc });
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// The event's reading, if it is on a counter that this thread may read. `None`: ask the kernel.
pub(super) fn self_read(page: &Mapping, instructions: Instructions) -> Option<CounterReading> {
    let page = page.control();
    macro_rules! field {
        ($($name:tt)+) => {
            // SAFETY: the page is mapped for as long as `Mapping` lives; every bit pattern is a number.
            unsafe { ptr::read_volatile(&raw const (*page).$($name)+) }
        };
    }
    for _ in 0..TRIES {
        let sequence = field!(lock);
        // ATOMICS: the kernel changes the page on this CPU only, in an interrupt, so that the compiler's order is
        // the order seen.
        compiler_fence(Ordering::SeqCst);
        let (capabilities, index) = (field!(__bindgen_anon_1.capabilities), field!(index));
        if capabilities & MAY_READ == 0 || capabilities & HAS_TIME == 0 || index == 0 {
            return None;
        }
        let (mut enabled_ns, mut running_ns) = (field!(time_enabled), field!(time_running));
        let (shift, multiplier, offset) = (field!(time_shift), field!(time_mult), field!(time_offset));
        let passed = nanoseconds((instructions.clock)(), shift, multiplier).wrapping_add(offset);
        let base = field!(offset);
        let counter = sign_extended((instructions.counter)(index - 1), field!(pmc_width));
        compiler_fence(Ordering::SeqCst);
        if field!(lock) == sequence {
            enabled_ns = enabled_ns.wrapping_add(passed);
            running_ns = running_ns.wrapping_add(passed);
            return Some(CounterReading {
                value: (base as u64).wrapping_add(counter as u64),
                enabled_ns,
                running_ns,
            });
        }
    }
    None
}

/// Clock ticks as nanoseconds, by the kernel's factor, without overflow of the product.
fn nanoseconds(ticks: u64, shift: u16, multiplier: u32) -> u64 {
    let product = u128::from(ticks) * u128::from(multiplier);
    (product >> u32::from(shift).min(127)) as u64
}

/// A counter of `width` bits as the signed number it is.
fn sign_extended(counter: u64, width: u16) -> i64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    ((counter << unused) as i64) >> unused
}

#[cfg(target_arch = "x86_64")]
fn rdpmc(index: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: called only with the number of a counter that the kernel gave to this thread; reads registers alone.
    unsafe {
        std::arch::asm!("rdpmc", in("ecx") index, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(target_arch = "x86_64")]
fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use perf_event_open_sys::bindings::perf_event_mmap_page as Page;

    use super::*;

    fn page(capabilities: u64, index: u32) -> Mapping {
        let mut page = Page {
            index,
            offset: 1_000,
            time_enabled: 50,
            time_running: 40,
            time_shift: 1,
            time_mult: 4,
            time_offset: 0u64.wrapping_sub(10),
            pmc_width: 48,
            ..Default::default()
        };
        page.__bindgen_anon_1.capabilities = capabilities;
        Mapping::from_script(page, &[]).unwrap()
    }

    /// Counter 2 stands at -3, and 15 ticks have passed.
    const SCRIPT: Instructions =
        Instructions { counter: |index| if index == 2 { (1 << 48) - 3 } else { 0 }, clock: || 15 };

    #[test]
    fn counter_offset_and_times() {
        let reading = self_read(&page(MAY_READ | HAS_TIME, 3), SCRIPT);
        assert_eq!(reading, Some(CounterReading { value: 997, enabled_ns: 70, running_ns: 60 }));
    }

    #[test]
    fn what_may_not_be_read_is_left_to_the_kernel() {
        assert_eq!(self_read(&page(0, 3), SCRIPT), None);
        assert_eq!(self_read(&page(MAY_READ, 3), SCRIPT), None, "no times, no trust in the value");
        assert_eq!(self_read(&page(MAY_READ | HAS_TIME, 0), SCRIPT), None, "not on a counter now");
    }

    #[test]
    fn numbers_at_the_edge() {
        assert_eq!(sign_extended(u64::MAX, 48), -1);
        assert_eq!(sign_extended(5, 0), -1, "a width that cannot be true does not panic");
        assert_eq!(nanoseconds(u64::MAX, 32, 1 << 31), u64::MAX >> 1);
        assert_eq!(nanoseconds(7, u16::MAX, 1), 0);
    }
}
