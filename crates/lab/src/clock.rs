//! The core clock, estimated from two chains of register-only instructions whose cycles are known.
//!
//! A dependent register-to-register addition takes one cycle and a 64-bit multiplication three on every current
//! x86-64 core. Newer cores fold *immediate* additions at rename, so the additions take a register; if a core folded
//! those too, or multiplied at another pace, the two chains would disagree, and then no cycles are derived.

use std::sync::atomic::AtomicBool;

use machine::{Bytes, profile::Clock, units::significant};

use crate::{
    repeat::Plan,
    rig::{Job, Rig},
};

/// Cycles of one step of the addition chain.
const ADD_CYCLES: f64 = 1.0;

/// Cycles of one step of the multiplication chain.
const MUL_CYCLES: f64 = 3.0;

/// Time for each of the two chains when nothing else is said.
const CHAIN_NS: f64 = 3e7;

/// The job that runs a chain. Chains touch no memory; a line stands for "no size".
pub fn chain_job(kernel: &'static str, cpu: u32) -> Job {
    Job::new(kernel, Bytes(64), &[cpu])
}

/// The clock of `cpu` while busy; `None` if a chain could not be run or was interrupted.
pub fn estimate(rig: &mut dyn Rig, cpu: u32, interrupt: &AtomicBool) -> Option<Clock> {
    let mut step_ns = |kernel| {
        let measured = rig.measure(&chain_job(kernel, cpu), &Plan::within(CHAIN_NS, 0.01), interrupt).ok()?;
        measured.step_ns().map(|step| step.value)
    };
    let (add_ns, mul_ns) = (step_ns("add-chain")?, step_ns("mul-chain")?);
    from_chains(add_ns, mul_ns, rig.tsc_hz())
}

/// The clock that follows from the time of one step of each chain; `None` if either is not a time.
pub fn from_chains(add_step_ns: f64, mul_step_ns: f64, tsc_hz: Option<f64>) -> Option<Clock> {
    let hz =
        |cycles: f64, step_ns: f64| (step_ns > 0.0 && step_ns.is_finite()).then(|| cycles / step_ns * 1e9);
    Some(Clock { add_hz: hz(ADD_CYCLES, add_step_ns)?, mul_hz: hz(MUL_CYCLES, mul_step_ns)?, tsc_hz })
}

/// Why cycles derived from this clock cannot be believed, if so.
pub fn doubt(clock: &Clock) -> Option<String> {
    if clock.agrees() {
        return None;
    }
    let ghz = |hz: f64| significant(hz / 1e9, 3);
    let (add, mul) = (ghz(clock.add_hz), ghz(clock.mul_hz));
    let why = if clock.add_hz > clock.mul_hz {
        "this core folds additions, multiplies in more than three cycles, or changed its clock in between"
    } else {
        "this core multiplies in fewer than three cycles, or changed its clock in between"
    };
    Some(format!(
        "Additions say {add} GHz and multiplications {mul} GHz: {why}. Times are not converted to cycles."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_agree_give_a_clock() {
        let clock = from_chains(0.25, 0.75, None).expect("a clock");
        assert!((clock.add_hz - 4e9).abs() < 1.0 && clock.agrees());
        assert_eq!(doubt(&clock), None);
    }

    #[test]
    fn chains_that_disagree_are_doubted_in_words() {
        let folded = from_chains(0.125, 0.75, None).expect("a clock");
        assert!(doubt(&folded).is_some_and(|said| said.contains("8.00 GHz") && said.contains("folds")));
        let fast = from_chains(0.25, 0.5, None).expect("a clock");
        assert!(doubt(&fast).is_some_and(|said| said.contains("fewer than three")));
    }

    #[test]
    fn no_time_is_no_clock() {
        assert_eq!(from_chains(0.0, 0.75, None), None);
        assert_eq!(from_chains(0.25, f64::NAN, None), None);
    }
}
