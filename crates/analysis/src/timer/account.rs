//! Where thread time went beside user mode.

use record::run::{Run, Slice};

use crate::findings::{Account, Known};

const NO_SWITCHES: &str = "the kernel gave no context-switch records";

/// Time of all threads together.
pub(crate) fn overall(run: &Run) -> Account {
    let user_ns = run.samples.place.len() as f64 * run.about.period_ns;
    let kernel_ns = match run.about.usage {
        Some(usage) => Known::Value(usage.system_ns as f64),
        None => beyond_user(run.slices.iter(), user_ns),
    };
    account(run.slices.iter(), user_ns, kernel_ns)
}

/// Time of one thread with this many samples.
pub(crate) fn of_thread<'a>(
    run: &Run,
    slices: impl Iterator<Item = &'a Slice> + Clone,
    samples: u64,
) -> Account {
    let user_ns = samples as f64 * run.about.period_ns;
    let kernel_ns = beyond_user(slices.clone(), user_ns);
    account(slices, user_ns, kernel_ns)
}

/// What of the running time no sample stands for: samples are taken in user mode only.
fn beyond_user<'a>(slices: impl Iterator<Item = &'a Slice> + Clone, user_ns: f64) -> Known<f64> {
    match sum(slices, |slice| slice.running_ns) {
        Known::Value(running) => Known::Value((running - user_ns).max(0.0)),
        missing => missing,
    }
}

fn account<'a>(
    slices: impl Iterator<Item = &'a Slice> + Clone,
    user_ns: f64,
    kernel_ns: Known<f64>,
) -> Account {
    Account {
        user_ns,
        kernel_ns,
        blocked_ns: sum(slices.clone(), |slice| slice.blocked_ns),
        preempted_ns: sum(slices, |slice| slice.preempted_ns),
    }
}

fn sum<'a>(mut slices: impl Iterator<Item = &'a Slice>, of: impl Fn(&Slice) -> u64) -> Known<f64> {
    match slices.next() {
        Some(first) => Known::Value(slices.fold(of(first) as f64, |sum, slice| sum + of(slice) as f64)),
        None => Known::Missing(NO_SWITCHES.to_owned()),
    }
}
