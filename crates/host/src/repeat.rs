//! How often to repeat: warm up, choose the length of a sample, then sample until it is good enough.
//!
//! The clock is the samples' own wall time, so a scripted executor runs through years in no time.

use std::sync::atomic::{AtomicBool, Ordering};

use machine::profile::Estimate;
use record::bench::Stopped;

use crate::statistics;

/// Runs known work.
pub trait Executor {
    /// What can go wrong while running.
    type Error;

    /// Runs `passes` passes and says how long they took.
    fn execute(&mut self, passes: u64) -> Result<Sample, Self::Error>;
}

/// One timed run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// From the first thread's start to the last thread's end.
    pub wall_ns: f64,
    /// Times a thread was pushed off its CPU, if the system counts them.
    pub involuntary_switches: Option<u64>,
}

/// When to stop. Whatever comes first ends it; an absent bound never does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepeatPlan {
    /// Half the confidence interval of the median, relative to it.
    pub precision: Option<f64>,
    /// Wall time of all runs, warm-up included.
    pub time_ns: Option<f64>,
    /// Number of samples.
    pub repeats: Option<usize>,
    /// How long one sample should take: long enough that reading the clock does not show.
    pub sample_ns: f64,
}

/// A bound that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RepeatPlanError {
    /// Not a positive share.
    #[error("precision {0} is not between 0 and 1; write 0.01 for one per cent")]
    Precision(f64),
    /// Not a positive time.
    #[error("a time of {0} s is no time; write seconds such as 0.5 or 10")]
    Time(f64),
    /// No repeat at all.
    #[error("0 repeats measure nothing; ask for at least 1")]
    NoRepeats,
}

impl RepeatPlan {
    /// Two milliseconds: some ten thousand times the cost of reading the clock, short enough to repeat often.
    pub const SAMPLE_NS: f64 = 2e6;

    /// Builds a plan from what the user gave, with defaults for the rest: 1 % within 1 s.
    ///
    /// A number of repeats alone is done to the end. A precision alone gets 10 s, so that it can be reached
    /// and still never runs forever.
    pub fn asked(
        repeats: Option<usize>,
        time_s: Option<f64>,
        precision: Option<f64>,
    ) -> Result<Self, RepeatPlanError> {
        match (repeats, time_s, precision) {
            (Some(0), ..) => return Err(RepeatPlanError::NoRepeats),
            (_, Some(time), _) if !(time > 0.0 && time.is_finite()) => {
                return Err(RepeatPlanError::Time(time));
            }
            (.., Some(share)) if !(share > 0.0 && share < 1.0) => {
                return Err(RepeatPlanError::Precision(share));
            }
            _ => {}
        }
        let default_time = match (repeats, precision) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(10.0),
            (None, None) => Some(1.0),
        };
        let default_precision = if repeats.is_some() { None } else { Some(0.01) };
        Ok(Self {
            precision: precision.or(default_precision),
            time_ns: time_s.or(default_time).map(|seconds| seconds * 1e9),
            repeats,
            sample_ns: Self::SAMPLE_NS,
        })
    }

    /// One measurement of a calibration: precise to `precision` unless `time_ns` is up before.
    pub fn within(time_ns: f64, precision: f64) -> Self {
        Self { precision: Some(precision), time_ns: Some(time_ns), repeats: None, sample_ns: Self::SAMPLE_NS }
    }
}

/// What repeating gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// Passes per sample.
    pub passes: u64,
    /// Wall time of each sample over its passes.
    pub samples_ns: Vec<f64>,
    /// Why it ended.
    pub stopped: Stopped,
    /// Wall time of the samples, warm-up excluded.
    pub wall_ns: f64,
    /// Over all samples; `None` if any sample could not tell.
    pub involuntary_switches: Option<u64>,
}

impl Repeated {
    /// Median time of one pass; `None` if interrupted before the first sample.
    pub fn time_ns(&self) -> Option<Estimate> {
        statistics::estimate(&self.samples_ns)
    }
}

/// Warms up, chooses the passes per sample, and samples until `plan` or `interrupt` ends it.
///
/// At least one sample is taken however short the time, unless interrupted. The flag is looked at between
/// runs.
pub fn repeat<E: Executor + ?Sized>(
    executor: &mut E,
    plan: &RepeatPlan,
    interrupt: &AtomicBool,
) -> Result<Repeated, E::Error> {
    let warm_up = warm_up(executor, plan, interrupt)?;
    let passes = warm_up.passes;
    let mut spent_ns = warm_up.spent_ns;
    let mut result = Repeated {
        passes,
        samples_ns: Vec::new(),
        stopped: Stopped::Interrupted,
        wall_ns: 0.0,
        involuntary_switches: Some(0),
    };
    if let Some(sample) = warm_up.first {
        result.add(sample);
        if let Some(stopped) = plan.fulfilled(&result, spent_ns) {
            result.stopped = stopped;
            return Ok(result);
        }
    }
    while !interrupt.load(Ordering::Relaxed) {
        let sample = executor.execute(passes)?;
        spent_ns += sample.wall_ns;
        result.add(sample);
        if let Some(stopped) = plan.fulfilled(&result, spent_ns) {
            result.stopped = stopped;
            break;
        }
    }
    Ok(result)
}

impl Repeated {
    fn add(&mut self, sample: Sample) {
        self.wall_ns += sample.wall_ns;
        self.samples_ns.push(sample.wall_ns / self.passes as f64);
        self.involuntary_switches =
            self.involuntary_switches.zip(sample.involuntary_switches).map(|(a, b)| a + b);
    }
}

impl RepeatPlan {
    /// Why to stop after these samples, if so.
    fn fulfilled(&self, result: &Repeated, spent_ns: f64) -> Option<Stopped> {
        let taken = result.samples_ns.len();
        if worth_checking(taken) && precise_enough(&result.samples_ns, self.precision) {
            Some(Stopped::Precise)
        } else if self.repeats.is_some_and(|repeats| taken >= repeats) {
            Some(Stopped::Repeats)
        } else if self.time_ns.is_some_and(|time_ns| spent_ns >= time_ns) {
            Some(Stopped::TimeUp)
        } else {
            None
        }
    }
}

/// Sorting at every sample of a long run would cost more than the samples: look ever more rarely.
fn worth_checking(taken: usize) -> bool {
    let step = (taken / 16).next_power_of_two();
    taken >= statistics::LEAST_SAMPLES && taken.is_multiple_of(step)
}

fn precise_enough(samples_ns: &[f64], precision: Option<f64>) -> bool {
    let Some((precision, estimate)) = precision.zip(statistics::estimate(samples_ns)) else {
        return false;
    };
    statistics::has_interval(&estimate) && estimate.precision() <= precision
}

/// What warming up came to.
struct WarmUp {
    /// For one sample.
    passes: u64,
    /// Wall time it took.
    spent_ns: f64,
    /// Its last run, where it was so long that running it once more only to warm up would waste the time.
    first: Option<Sample>,
}

/// Doubles, or better, until one run takes the asked time.
fn warm_up<E: Executor + ?Sized>(
    executor: &mut E,
    plan: &RepeatPlan,
    interrupt: &AtomicBool,
) -> Result<WarmUp, E::Error> {
    // A run that is over in no time says little about the passes needed: grow by at most this much at once.
    const MOST_GROWTH: f64 = 64.0;
    // Work that still takes no time after this many passes is not going to.
    const MOST_PASSES: u64 = 1 << 40;
    let mut passes = 1u64;
    let mut spent_ns = 0.0;
    while !interrupt.load(Ordering::Relaxed) {
        let sample = executor.execute(passes)?;
        spent_ns += sample.wall_ns;
        // A quarter of the time gone on one run: it went over all the data and has to count.
        if plan.time_ns.is_some_and(|time_ns| sample.wall_ns >= time_ns / 4.0) {
            return Ok(WarmUp { passes, spent_ns, first: Some(sample) });
        }
        let growth = plan.sample_ns / sample.wall_ns.max(1.0);
        // Within a quarter of the target is near enough.
        if growth <= 1.25 || passes >= MOST_PASSES {
            break;
        }
        passes = (passes as f64 * growth.min(MOST_GROWTH)).ceil() as u64;
    }
    Ok(WarmUp { passes, spent_ns, first: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes `pass_ns` per pass times a factor from a repeating list; raises the flag after some runs.
    struct Scripted<'a> {
        pass_ns: f64,
        factors: Vec<f64>,
        runs: usize,
        interrupt_after: Option<(usize, &'a AtomicBool)>,
    }

    impl Scripted<'_> {
        fn steady(pass_ns: f64) -> Self {
            Self { pass_ns, factors: vec![1.0], runs: 0, interrupt_after: None }
        }
    }

    impl Executor for Scripted<'_> {
        type Error = std::convert::Infallible;

        fn execute(&mut self, passes: u64) -> Result<Sample, Self::Error> {
            let factor = self.factors[self.runs % self.factors.len()];
            self.runs += 1;
            if let Some((runs, flag)) = self.interrupt_after {
                flag.store(self.runs >= runs, Ordering::Relaxed);
            }
            Ok(Sample { wall_ns: self.pass_ns * passes as f64 * factor, involuntary_switches: Some(1) })
        }
    }

    fn run(executor: &mut Scripted, plan: &RepeatPlan) -> Repeated {
        repeat(executor, plan, &AtomicBool::new(false)).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn a_steady_machine_needs_the_fewest_samples() {
        let found = run(&mut Scripted::steady(50.0), &RepeatPlan::within(1e9, 0.01));
        assert_eq!((found.stopped, found.samples_ns.len()), (Stopped::Precise, statistics::LEAST_SAMPLES));
        let estimate = found.time_ns().expect("samples");
        assert!((estimate.value - 50.0).abs() < 1e-9);
        let sample_ns = 50.0 * found.passes as f64;
        assert!(
            (RepeatPlan::SAMPLE_NS * 0.8..RepeatPlan::SAMPLE_NS * 1.3).contains(&sample_ns),
            "{sample_ns}"
        );
        assert_eq!(found.involuntary_switches, Some(6));
    }

    #[test]
    fn a_noisy_machine_runs_out_of_time() {
        let mut noisy = Scripted { factors: vec![1.0, 2.0, 1.5, 3.0], ..Scripted::steady(1e6) };
        let found = run(&mut noisy, &RepeatPlan::within(1e8, 0.01));
        assert_eq!(found.stopped, Stopped::TimeUp);
        assert!(found.wall_ns <= 1.2e8);
    }

    #[test]
    fn the_asked_repeats_are_done_to_the_end() {
        let plan = RepeatPlan::asked(Some(100), None, None).expect("a plan");
        let found = run(&mut Scripted::steady(1e6), &plan);
        assert_eq!((found.stopped, found.samples_ns.len()), (Stopped::Repeats, 100));
    }

    #[test]
    fn one_sample_even_if_a_pass_outlasts_the_time() {
        let found = run(&mut Scripted::steady(5e9), &RepeatPlan::within(1e9, 0.01));
        assert_eq!((found.stopped, found.samples_ns.len(), found.passes), (Stopped::TimeUp, 1, 1));
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let flag = AtomicBool::new(false);
        let mut executor = Scripted { interrupt_after: Some((12, &flag)), ..Scripted::steady(1e6) };
        executor.factors = vec![1.0, 1.5];
        let plan = RepeatPlan::asked(Some(1000), None, None).expect("a plan");
        let Ok(found) = repeat(&mut executor, &plan, &flag);
        assert_eq!(found.stopped, Stopped::Interrupted);
        assert!((1..12).contains(&found.samples_ns.len()));

        let raised = AtomicBool::new(true);
        let Ok(found) = repeat(&mut Scripted::steady(1.0), &plan, &raised);
        assert_eq!((found.stopped, found.time_ns()), (Stopped::Interrupted, None));
    }

    #[test]
    fn bounds_that_make_no_sense() {
        assert_eq!(RepeatPlan::asked(Some(0), None, None), Err(RepeatPlanError::NoRepeats));
        for time in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(RepeatPlan::asked(None, Some(time), None), Err(RepeatPlanError::Time(_))),
                "{time}"
            );
        }
        for precision in [0.0, -0.1, 1.0, f64::NAN] {
            assert!(matches!(
                RepeatPlan::asked(None, None, Some(precision)),
                Err(RepeatPlanError::Precision(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn always_ends_with_samples(
            pass_ns in 0.0..1e8f64,
            factors in proptest::collection::vec(0.5..4.0f64, 1..8),
            time_ns in 1e6..1e9f64,
        ) {
            let mut executor = Scripted { factors, ..Scripted::steady(pass_ns) };
            // A clock that never moves must end too.
            let plan = RepeatPlan { repeats: Some(5000), ..RepeatPlan::within(time_ns, 0.01) };
            let found = run(&mut executor, &plan);
            prop_assert!(!found.samples_ns.is_empty());
            prop_assert!(found.stopped != Stopped::Interrupted);
        }
    }
}
