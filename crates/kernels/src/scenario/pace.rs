//! How many empty operations slow a stream down to the rate asked for.
//!
//! The time of an iteration grows with the number of nops in it, first not at all (they hide behind the accesses),
//! then by about a cycle each; where it begins to grow depends on the machine. So the number is searched, by
//! running the very step with the very data, natively as on a simulated machine.

/// How close is close enough.
const CLOSE: f64 = 0.02;
/// Runs before the best number so far has to do.
const MOST_RUNS: usize = 16;
/// The largest number of nops a kernel takes.
pub const MOST_NOPS: u64 = 1_000_000;
/// A first guess: a nop and its share of the loop take about a cycle.
const GUESSED_NS_PER_NOP: f64 = 0.3;

/// A number of nops and what it came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepPace {
    /// Empty operations per iteration.
    pub nops: u64,
    /// Time of one iteration with them.
    pub ns_per_iteration: f64,
}

/// Finds the number of nops with which an iteration takes `target_ns`. `measure` runs with a number of nops and
/// gives the time of one iteration, `None` to stop the search.
///
/// A stream that is too slow without any nop stays as it is: no number makes it faster.
///
/// ```
/// use kernels::scenario::pace;
/// // Accesses take 20 ns, a nop a quarter of a nanosecond, and the two overlap.
/// let time = |nops: u64| Ok::<_, ()>(Some(f64::max(20.0, nops as f64 * 0.25)));
/// let found = pace::find(64.0, time)?.unwrap();
/// assert!((found.ns_per_iteration / 64.0 - 1.0).abs() < 0.02);
/// assert_eq!(pace::find(10.0, time)?.unwrap().nops, 0);
/// # Ok::<(), ()>(())
/// ```
pub fn find<E>(
    target_ns: f64,
    mut measure: impl FnMut(u64) -> Result<Option<f64>, E>,
) -> Result<Option<StepPace>, E> {
    let Some(bare) = measure(0)? else { return Ok(None) };
    let mut best = StepPace { nops: 0, ns_per_iteration: bare };
    let (mut low, mut high): (StepPace, Option<StepPace>) = (best, None);
    if bare >= target_ns {
        return Ok(Some(best));
    }
    for _ in 0..MOST_RUNS {
        let nops = next(target_ns, &low, high.as_ref());
        if nops == low.nops || high.is_some_and(|high| nops == high.nops) {
            break;
        }
        let Some(ns_per_iteration) = measure(nops)? else { break };
        let tried = StepPace { nops, ns_per_iteration };
        let miss = |pace: &StepPace| (pace.ns_per_iteration / target_ns - 1.0).abs();
        if miss(&tried) < miss(&best) {
            best = tried;
        }
        if miss(&best) <= CLOSE {
            break;
        }
        if ns_per_iteration < target_ns {
            low = tried;
        } else {
            high = Some(tried);
        }
    }
    Ok(Some(best))
}

/// Between two numbers by the line through them, kept off the ends; beyond the lower one by the time missing.
fn next(target_ns: f64, low: &StepPace, high: Option<&StepPace>) -> u64 {
    let missing = target_ns - low.ns_per_iteration;
    let Some(high) = high else {
        let each = if low.nops == 0 {
            GUESSED_NS_PER_NOP
        } else {
            (low.ns_per_iteration / low.nops as f64).min(GUESSED_NS_PER_NOP)
        };
        let beyond = if low.nops == 0 { target_ns / each } else { low.nops as f64 + 1.1 * missing / each };
        return (beyond.ceil() as u64).clamp(low.nops + 1, MOST_NOPS.max(low.nops + 1)).min(MOST_NOPS);
    };
    let width = (high.nops - low.nops) as f64;
    let share = missing / (high.ns_per_iteration - low.ns_per_iteration).max(f64::MIN_POSITIVE);
    low.nops + (width * share.clamp(0.1, 0.9)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_of_measuring_is_no_pace_or_the_best_so_far() {
        assert_eq!(find(10.0, |_| Ok::<_, ()>(None)), Ok(None));
        let mut runs = 0;
        let found = find(10.0, |nops| {
            runs += 1;
            Ok::<_, ()>((runs < 2).then_some(1.0 + nops as f64))
        });
        assert_eq!(found, Ok(Some(StepPace { nops: 0, ns_per_iteration: 1.0 })));
        assert_eq!(find(10.0, |_| Err::<Option<f64>, _>("broken")), Err("broken"));
    }

    #[test]
    fn a_rate_beyond_the_largest_number_gets_that() {
        let found = find(1e12, |nops| Ok::<_, ()>(Some(1.0 + nops as f64 * 0.3))).expect("no error");
        assert_eq!(found.map(|pace| pace.nops), Some(MOST_NOPS));
    }

    proptest! {
        #[test]
        fn found_on_any_machine(
            bare in 1.0f64..200.0,
            each in 0.1f64..2.0,
            hidden in 0.0f64..1.0,
            times in 1.05f64..50.0,
        ) {
            let target = bare * times;
            // The part of the nops that hides behind the accesses costs nothing.
            let time = |nops: u64| bare.max(bare * (1.0 - hidden) + nops as f64 * each);
            let found = find(target, |nops| Ok::<_, ()>(Some(time(nops)))).expect("no error").expect("a pace");
            let step = each / target;
            prop_assert!((found.ns_per_iteration / target - 1.0).abs() <= CLOSE + step, "{found:?} for {target}");
        }
    }
}
