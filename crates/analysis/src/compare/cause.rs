//! Why it changed: which part of the change of thread time is what, and where.

use serde::{Deserialize, Serialize};

use super::{ComparedRun, joining::JoinedFunction};
use crate::findings::{Account, KnownLimits, ThreadActivity};

/// A time of an account.
type AccountTime = fn(&Account) -> &KnownLimits<f64>;

/// Parts that are kept.
const MOST: usize = 8;

/// What threads did with the time that was added or saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// User time of a function.
    Activity {
        /// What the core did.
        activity: ThreadActivity,
        /// In which function.
        function: String,
    },
    /// Time in the kernel.
    Kernel,
    /// Waiting off the CPU.
    Blocked,
    /// Waiting for a CPU.
    Preempted,
}

/// A part of the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePart {
    /// What it is.
    pub cause: ChangeCause,
    /// After minus before, of all threads of a run.
    pub ns: f64,
    /// Of the whole change of thread time; more than 1 where other parts went the other way.
    pub share: f64,
}

/// The parts that go the way of the whole, the largest first; none if thread time did not change, or is not known.
pub(super) fn causes(both: [&[ComparedRun]; 2], functions: &[JoinedFunction]) -> Vec<ChangePart> {
    let mut parts: Vec<(ChangeCause, f64)> = Vec::new();
    for function in functions {
        for (index, activity) in ThreadActivity::ALL.into_iter().enumerate() {
            let cause = || ChangeCause::Activity { activity, function: function.name.clone() };
            let means = [0, 1].map(|side| {
                let sampled = both[side].iter().enumerate().filter(|(_, run)| run.has_samples());
                let times = sampled.map(|(run, about)| {
                    let samples = function.activities[side].get(&run).map_or(0.0, |samples| samples[index]);
                    samples * about.findings.about.period_ns
                });
                mean(times)
            });
            parts.extend(difference(means).map(|ns| (cause(), ns)));
        }
    }
    let off: [(ChangeCause, AccountTime); 3] = [
        (ChangeCause::Kernel, |account| &account.kernel_ns),
        (ChangeCause::Blocked, |account| &account.blocked_ns),
        (ChangeCause::Preempted, |account| &account.preempted_ns),
    ];
    for (cause, time) in off {
        let known = |run: &ComparedRun| time(&run.findings.account).value().copied();
        let means = both.map(|runs| mean(runs.iter().filter_map(known)));
        parts.extend(difference(means).map(|ns| (cause.clone(), ns)));
    }
    let whole: f64 = parts.iter().map(|(_, ns)| ns).sum();
    let mut found: Vec<ChangePart> = parts
        .into_iter()
        .filter(|(_, ns)| ns * whole > 0.0)
        .map(|(cause, ns)| ChangePart { cause, ns, share: ns / whole })
        .collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found.truncate(MOST);
    found
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn difference([before, after]: [Option<f64>; 2]) -> Option<f64> {
    before.zip(after).map(|(before, after)| after - before)
}
