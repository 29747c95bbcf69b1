//! The clock of the cores while a recording is made. It may lie a sixth away from what it was when the machine was
//! calibrated: what others on the chip do decides how fast it may go.

use std::time::Instant;

/// Additions of one measurement, each of which waits for the one before: some 4 µs.
const ADDITIONS: u32 = 16 * 1024;

/// The best of so many is undisturbed.
const TRIES: usize = 3;

/// Kept of a recording: enough for a median.
const MOST: usize = 1024;

/// What was measured now and then.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreClock {
    measured_hz: Vec<f64>,
}

impl CoreClock {
    /// Measures on the core that this thread runs on.
    pub fn measure(&mut self) {
        let once = || {
            let begun = Instant::now();
            (0..ADDITIONS / 1024).for_each(|_| add_1024());
            begun.elapsed().as_secs_f64()
        };
        let best = (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min);
        if cfg!(target_arch = "x86_64") && self.measured_hz.len() < MOST && best > 0.0 {
            self.measured_hz.push(f64::from(ADDITIONS) / best);
        }
    }

    /// Cycles per second, usually; none if nothing was measured.
    pub fn hz(&self) -> Option<f64> {
        let mut measured = self.measured_hz.clone();
        measured.sort_by(f64::total_cmp);
        measured.get(measured.len() / 2).copied()
    }
}

/// An addition of two registers takes one cycle on every x86-64 core; those of constants some cores leave out.
#[allow(unsafe_code)]
fn add_1024() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it changes a register and the flags, and says so.
    unsafe {
        std::arch::asm!(
            ".rept 1024",
            "add {sum}, {add}",
            ".endr",
            sum = inout(reg) 0u64 => _,
            add = in(reg) 3u64,
            options(nomem, nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_reading_counts() {
        let clock = CoreClock { measured_hz: vec![3.9e9, 0.8e9, 4.0e9, 4.1e9, 2.0e9] };
        assert_eq!(clock.hz(), Some(3.9e9));
        assert_eq!(CoreClock::default().hz(), None);
    }

    #[test]
    fn no_core_is_so_fast_or_so_slow() {
        let mut clock = CoreClock::default();
        (0..20).for_each(|_| clock.measure());
        assert!(clock.hz().is_some_and(|hz| (1e8..1e10).contains(&hz)), "{clock:?}");
    }
}
