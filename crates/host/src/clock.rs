//! The core clock, estimated from two chains of register-only instructions whose cycles are known.
//!
//! A dependent register-to-register addition takes one cycle and a 64-bit multiplication three on every
//! current x86-64 core. Newer cores fold *immediate* additions at rename, so the additions take a register;
//! if a core folded those too, or multiplied at another pace, the two chains would disagree, and then no
//! cycles are derived.

use std::sync::atomic::AtomicBool;

use machine::{Bytes, profile::Clock, units::significant};

use crate::{host::Host, repeat::RepeatPlan, statistics};

/// Cycles of one step of the addition chain.
const ADD_CYCLES: f64 = 1.0;

/// Cycles of one step of the multiplication chain.
const MUL_CYCLES: f64 = 3.0;

/// Time for both chains together.
const BOTH_NS: f64 = 6e7;

/// The chains take turns, so that a clock that moves meanwhile moves both.
const ROUNDS: usize = 6;

/// The clock of `cpu` while busy; `None` if a chain could not be run or was interrupted.
pub fn estimate(host: &mut dyn Host, cpu: u32, interrupt: &AtomicBool) -> Option<Clock> {
    let step_ns = |kernel, time_ns| {
        // Chains touch no memory; a line stands for "no size".
        let job = host.job(kernel, Bytes(64), &[cpu]).ok()?;
        let measured = host.measure(&job, &RepeatPlan::within(time_ns, 0.01), interrupt).ok()?;
        measured.step_ns().map(|step| step.value)
    };
    let (add_ns, mul_ns) = take_turns(BOTH_NS, step_ns)?;
    from_chains(add_ns, mul_ns, host.tsc_hz())
}

/// Nanoseconds of one step of each chain. `step_ns` runs a chain for about the given time; the first round only
/// brings an idle core up to speed.
fn take_turns(time_ns: f64, mut step_ns: impl FnMut(&'static str, f64) -> Option<f64>) -> Option<(f64, f64)> {
    let each_ns = time_ns / (2 * ROUNDS) as f64;
    let (mut adds, mut muls) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (add, mul) = (step_ns("add-chain", each_ns)?, step_ns("mul-chain", each_ns)?);
        if round > 0 {
            adds.push(add);
            muls.push(mul);
        }
    }
    Some((statistics::median(&adds)?, statistics::median(&muls)?))
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
    fn a_clock_that_rises_meanwhile_moves_both_chains() {
        // 2 % faster from one run to the next: chains run one after the other would disagree.
        let mut hz = 1e9;
        let turns = take_turns(1e6, |kernel, _| {
            hz *= 1.02;
            Some(if kernel == "add-chain" { 1e9 / hz } else { 3e9 / hz })
        });
        let (add_ns, mul_ns) = turns.expect("both ran");
        assert!(from_chains(add_ns, mul_ns, None).expect("a clock").agrees());
    }

    #[test]
    fn no_time_is_no_clock() {
        assert_eq!(from_chains(0.0, 0.75, None), None);
        assert_eq!(from_chains(0.25, f64::NAN, None), None);
    }
}
