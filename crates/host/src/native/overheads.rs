//! What measuring itself costs: reading clocks, calling the kernel.

use std::{hint::black_box, time::Instant};

use machine::profile::Overheads;

use super::tsc::Tsc;
use crate::statistics::median;

/// Calls per sample: the two clock reads around them then weigh a thousandth.
const CALLS: u32 = 1000;

/// Samples; the median is taken, so that an interrupt or two do not matter.
const SAMPLES: usize = 101;

/// Measures all overheads; takes a few tens of milliseconds.
pub fn measure(tsc: Option<Tsc>) -> Overheads {
    Overheads {
        tsc_read_ns: tsc.map(|tsc| {
            per_call_ns(|| {
                black_box(tsc.read());
            })
        }),
        clock_read_ns: per_call_ns(|| {
            black_box(Instant::now());
        }),
        syscall_ns: per_call_ns(|| {
            // Has nothing to do but go there and back.
            black_box(rustix::process::getppid());
        }),
        clock_step_ns: clock_step_ns(),
    }
}

fn per_call_ns(mut call: impl FnMut()) -> f64 {
    let samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    median(&samples).expect("samples were taken above")
}

/// The smallest difference between two reads that is not zero. Includes the cost of a read where that is
/// longer than the clock's own step.
fn clock_step_ns() -> f64 {
    let (mut least, mut seen) = (f64::INFINITY, 0);
    let mut previous = Instant::now();
    for read in 0.. {
        let now = Instant::now();
        if now > previous {
            least = least.min((now - previous).as_nanos() as f64);
            seen += 1;
            previous = now;
        }
        // One step is enough of a clock so coarse that it hardly moves.
        if seen >= CALLS || (seen > 0 && read >= 100 * CALLS) {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Source;

    #[test]
    fn every_overhead_is_a_time() {
        let found = measure(Tsc::find(&Source::live()));
        for ns in [found.clock_read_ns, found.syscall_ns, found.clock_step_ns] {
            assert!(ns > 0.0 && ns.is_finite(), "{found:?}");
        }
        assert!(found.tsc_read_ns.is_none_or(|ns| ns > 0.0 && ns.is_finite()));
    }
}
