//! Where thread time went beside user mode.

use record::run::{Run, Slice};

use super::origin::RunOrigin;
use crate::findings::{Account, Estimated, KnownLimits};

/// Time of all threads together.
pub(crate) fn overall(run: &Run) -> Account {
    let (samples, slices) = (run.samples.place.len(), run.slices.iter());
    let Some(usage) = run.about.usage else { return of_thread(run, slices, samples as u64) };
    // Samples show more where children ran that nobody waited for: those are in no account.
    let user_ns = (samples as f64 * sample_ns(run)).max(usage.user_ns as f64);
    let estimated = Estimated { running: false, waiting: is_estimated(run) };
    account(run, slices, user_ns, KnownLimits::Value(usage.system_ns as f64), estimated)
}

/// Time of one thread with this many samples.
pub(crate) fn of_thread<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice> + Clone,
    samples: u64,
) -> Account {
    let (user_ns, kernel_ns) = user_and_kernel(run, slices.clone(), samples);
    let is_estimated = is_estimated(run);
    account(run, slices, user_ns, kernel_ns, Estimated { running: is_estimated, waiting: is_estimated })
}

/// Records of the kernel are missing, of whatever kind, or there were none of switches from some moment on.
fn is_estimated(run: &Run) -> bool {
    run.about.slowed.is_some() || run.about.lost_samples.is_some_and(|lost| lost > 0)
}

/// User time that one sample stands for. Where records were lost it stands for those as well: all together for what the
/// kernel says the program used, or, where that is not known, as if all that was lost had been samples.
pub(crate) fn sample_ns(run: &Run) -> f64 {
    let (samples, period_ns) = (run.samples.place.len() as f64, run.about.period_ns);
    if run.about.slowed.is_some() && samples > 0.0 {
        // Few samples miss what they stand for by chance; the kernel's account does not.
        let chance = 3.0 / samples.sqrt();
        let used = run.about.usage.map_or(period_ns, |usage| usage.user_ns as f64 / samples);
        return used.clamp(period_ns * (1.0 - chance).max(0.0), period_ns * (1.0 + chance));
    }
    let Some(lost) = run.about.lost_samples.filter(|lost| *lost > 0 && samples > 0.0) else {
        return period_ns;
    };
    let most = period_ns * (samples + lost as f64) / samples;
    let used = run.about.usage.map(|usage| usage.user_ns as f64 / samples);
    used.unwrap_or(most).clamp(period_ns, most)
}

/// Samples are taken in user mode only: what of the running time none stands for went to the kernel. Where nothing at
/// all was sampled the two cannot be told apart, and all of it counts as user time.
fn user_and_kernel<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice>,
    samples: u64,
) -> (f64, KnownLimits<f64>) {
    let user_ns = samples as f64 * sample_ns(run);
    match sum(run, slices, |slice| slice.running_ns) {
        KnownLimits::Value(running) if run.samples.place.is_empty() => {
            let why = "without samples it cannot be told from user time, and is counted there";
            (running, KnownLimits::Missing(why.to_owned()))
        }
        KnownLimits::Value(running) => (user_ns, KnownLimits::Value((running - user_ns).max(0.0))),
        missing => (user_ns, missing),
    }
}

fn account<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice> + Clone,
    user_ns: f64,
    kernel_ns: KnownLimits<f64>,
    estimated: Estimated,
) -> Account {
    Account {
        user_ns,
        kernel_ns,
        blocked_ns: sum(run, slices.clone(), |slice| slice.blocked_ns),
        preempted_ns: sum(run, slices, |slice| slice.preempted_ns),
        estimated,
    }
}

fn sum<'a>(
    run: &Run,
    mut slices: impl Iterator<Item = &'a Slice>,
    of: impl Fn(&Slice) -> u64,
) -> KnownLimits<f64> {
    match slices.next() {
        Some(first) => KnownLimits::Value(slices.fold(of(first) as f64, |sum, slice| sum + of(slice) as f64)),
        None => KnownLimits::Missing(RunOrigin::of(run).no_switches().to_owned()),
    }
}
