//! Where thread time went beside user mode.

use record::run::{Run, Slice};

use crate::findings::{Account, KnownLimits};

const NO_SWITCHES: &str = "the kernel gave no context-switch records";

/// Time of all threads together.
pub(crate) fn overall(run: &Run) -> Account {
    let (samples, slices) = (run.samples.place.len(), run.slices.iter());
    let (user_ns, kernel_ns) = match run.about.usage {
        Some(usage) if samples == 0 => (usage.user_ns as f64, KnownLimits::Value(usage.system_ns as f64)),
        Some(usage) => (samples as f64 * run.about.period_ns, KnownLimits::Value(usage.system_ns as f64)),
        None => user_and_kernel(run, slices.clone(), samples as u64),
    };
    account(slices, user_ns, kernel_ns)
}

/// Time of one thread with this many samples.
pub(crate) fn of_thread<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice> + Clone,
    samples: u64,
) -> Account {
    let (user_ns, kernel_ns) = user_and_kernel(run, slices.clone(), samples);
    account(slices, user_ns, kernel_ns)
}

/// Samples are taken in user mode only: what of the running time none stands for went to the kernel. Where nothing at
/// all was sampled the two cannot be told apart, and all of it counts as user time.
fn user_and_kernel<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice>,
    samples: u64,
) -> (f64, KnownLimits<f64>) {
    let user_ns = samples as f64 * run.about.period_ns;
    match sum(slices, |slice| slice.running_ns) {
        KnownLimits::Value(running) if run.samples.place.is_empty() => {
            let why = "without samples it cannot be told from user time, and is counted there";
            (running, KnownLimits::Missing(why.to_owned()))
        }
        KnownLimits::Value(running) => (user_ns, KnownLimits::Value((running - user_ns).max(0.0))),
        missing => (user_ns, missing),
    }
}

fn account<'a>(
    slices: impl Iterator<Item = &'a Slice> + Clone,
    user_ns: f64,
    kernel_ns: KnownLimits<f64>,
) -> Account {
    Account {
        user_ns,
        kernel_ns,
        blocked_ns: sum(slices.clone(), |slice| slice.blocked_ns),
        preempted_ns: sum(slices, |slice| slice.preempted_ns),
    }
}

fn sum<'a>(mut slices: impl Iterator<Item = &'a Slice>, of: impl Fn(&Slice) -> u64) -> KnownLimits<f64> {
    match slices.next() {
        Some(first) => KnownLimits::Value(slices.fold(of(first) as f64, |sum, slice| sum + of(slice) as f64)),
        None => KnownLimits::Missing(NO_SWITCHES.to_owned()),
    }
}
