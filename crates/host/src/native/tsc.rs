//! The time stamp counter: may it be read, does it tick evenly, and how fast.
//!
//! # Safety This file reads the counter. What must hold: the instruction is only executed after the kernel
//! said that it does not fault ([`Tsc::find`]).
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use machine::Source;

/// A time stamp counter that may be read and ticks at a constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Tsc(());

impl Tsc {
    /// The counter of the CPUs at `source`; `None` where it is not constant, stops in sleep states, or
    /// faults.
    pub fn find(source: &Source) -> Option<Self> {
        let table = source.table("proc/cpuinfo").ok()?;
        let flags = table.text.lines().find(|line| line.starts_with("flags"))?;
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        (has("constant_tsc") && has("nonstop_tsc") && may_be_read()).then_some(Self(()))
    }

    /// Ticks so far.
    #[inline]
    pub fn read(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Self` exists only where the kernel lets the instruction through.
        return unsafe { core::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        0
    }

    /// Ticks per second against `CLOCK_MONOTONIC`, over about `span`.
    pub fn rate_hz(self, span: Duration) -> f64 {
        let (start, ticks) = (Instant::now(), self.read());
        while start.elapsed() < span {
            std::hint::spin_loop();
        }
        let (elapsed, ticks) = (start.elapsed(), self.read().wrapping_sub(ticks));
        ticks as f64 / elapsed.as_secs_f64()
    }
}

/// Whether the instruction is let through: a process may be set up to fault on it.
#[cfg(target_arch = "x86_64")]
fn may_be_read() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes one int to the address given, which outlives the call.
    let status = unsafe { libc::prctl(libc::PR_GET_TSC, std::ptr::from_mut(&mut mode)) };
    status == 0 && mode == libc::PR_TSC_ENABLE
}

#[cfg(not(target_arch = "x86_64"))]
fn may_be_read() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_constant_counter_is_found() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("proc")).expect("a directory");
        let source = Source::under(root.path());
        assert!(Tsc::find(&source).is_none());
        fs::write(root.path().join("proc/cpuinfo"), "processor : 0\nflags : fpu tsc constant_tsc\n")
            .expect("written");
        assert!(Tsc::find(&source).is_none());
    }

    #[test]
    fn it_moves_forward() {
        if let Some(tsc) = Tsc::find(&Source::live()) {
            let before = tsc.read();
            assert!(tsc.rate_hz(Duration::from_micros(100)) > 0.0);
            assert!(tsc.read() > before);
        }
    }
}
