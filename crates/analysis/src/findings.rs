//! What a run says: a verdict, where the time went, and how far to believe it.
//!
//! Every share names its whole. *User time* is time in user mode as the samples see it; *thread time* is the sum over
//! threads of the wall time they existed. Waiting is only what exceeds the baseline of executing.

mod flagged;
mod instruction;
mod levels;
mod limits;
mod loads;
mod objects;
mod relief;
mod timeline;
mod verdict;

use record::{
    ids::{FunctionId, ModuleId, ThreadId},
    run::{Ending, ModuleKind, Usage},
};
use serde::{Deserialize, Serialize};

pub use flagged::{Flagged, FlaggedPart};
pub use instruction::{AccessPattern, InlinedLine, InstructionFinding, Pattern, SourceLine};
pub use levels::{LevelFindings, LevelPart, WaitLevel};
pub use limits::{LevelLimit, LimitFindings, Rate, StreamLimit};
pub use loads::{FunctionLoads, LoadFindings, LoadSummary, ObjectLoads};
pub use objects::{
    AllocatedBytes, LineUse, ObjectFinding, ObjectId, ObjectKind, ObjectPages, ObjectSharing, ObjectSite,
    ObjectUse, Objects, SharedLine,
};
pub use relief::{Agreement, ReliefFindings, RelievedFinding};
pub use timeline::{Timeline, TimelineInterval};
pub use verdict::{Confidence, ConsultedPart, HeldBack, Nature, Verdict};

/// Name and version of the form in which findings are written as JSON.
pub const SCHEMA: &str = "memwall.run/1";

/// All that one run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was run, and how much was seen of it.
    pub about: FindingSubject,
    /// Is it held back by memory, how much, and how sure is that.
    pub verdict: Verdict,
    /// User time of all threads by what the core did; none if no sample was taken.
    pub overall: Option<Split>,
    /// Thread time of all threads: user, kernel, not running.
    pub account: Account,
    /// Each thread, the busiest first.
    pub threads: Vec<ThreadFinding>,
    /// Each function, the one with most samples first.
    pub symbols: Vec<SymbolFinding>,
    /// Each instruction with samples blamed on it, those with most first.
    pub instructions: Vec<InstructionFinding>,
    /// The same over time.
    pub timeline: Timeline,
    /// At which level it waits; missing without a profile.
    #[serde(default = "no_levels")]
    pub levels: KnownLimits<LevelFindings>,
    /// How far the program is from what this machine was measured to give.
    pub limits: LimitFindings,
    /// Loads that the processor sampled itself, or why there are none.
    #[serde(default = "no_loads")]
    pub loads: KnownLimits<LoadFindings>,
    /// What hot loops take with their data in the first cache, beside what samples say.
    #[serde(default, skip_serializing_if = "ReliefFindings::is_nothing")]
    pub relief: ReliefFindings,
    /// What to try next, the most promising first, in plain sentences.
    pub advice: Vec<String>,
    /// What spoils or limits these findings, in plain sentences.
    pub remarks: Vec<String>,
}

impl Findings {
    /// A thread of the recording; none if it has no such thread.
    pub fn thread(&self, id: ThreadId) -> Option<&ThreadFinding> {
        self.threads.iter().find(|thread| thread.id == id)
    }

    /// There are samples enough to say where time went.
    pub fn has_enough_samples(&self) -> bool {
        self.overall.is_some_and(|split| split.samples >= Verdict::FEWEST_SAMPLES)
    }

    /// Records of the kernel were lost: what is made from samples and context switches is estimated.
    pub fn has_losses(&self) -> bool {
        self.about.lost_samples.value().is_some_and(|lost| *lost > 0)
    }
}

/// Findings that were written before loads could be sampled have none.
fn no_loads() -> KnownLimits<LoadFindings> {
    KnownLimits::Missing("nobody asked for them".to_owned())
}

/// Findings that were written before levels were told apart have none.
fn no_levels() -> KnownLimits<LevelFindings> {
    KnownLimits::Missing("this version of memwall did not tell levels apart".to_owned())
}

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownLimits<T> {
    /// It was measured, or follows from what was.
    Value(T),
    /// It is not known, for this reason.
    Missing(String),
}

impl<T> KnownLimits<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// Why there is no value.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Missing(reason) => Some(reason),
        }
    }
}

/// What was run, and how much was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingSubject {
    /// The version of memwall that recorded.
    pub memwall: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Attached to this process instead of starting one.
    pub attached: Option<u32>,
    /// Seconds since 1970 when it began.
    pub started_at: u64,
    /// Short hash that identifies the machine.
    pub machine: String,
    /// Wall time recorded; missing if memwall itself was killed.
    pub elapsed_ns: KnownLimits<u64>,
    /// How it ended.
    pub ending: Ending,
    /// Processor time and faults as the kernel counts them; missing if attached.
    pub usage: KnownLimits<Usage>,
    /// Samples taken.
    pub samples: u64,
    /// Samples the kernel could not store; missing if it was never asked.
    pub lost_samples: KnownLimits<u64>,
    /// User time one sample stands for; more than the time between two where records were lost.
    pub period_ns: f64,
    /// Processes seen.
    pub processes: u64,
    /// Threads seen.
    pub threads: u64,
}

/// What a core was doing in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadActivity {
    /// Waiting for loaded data.
    Loads,
    /// Waiting to store: the store buffer is full, or a string instruction writes.
    Stores,
    /// Waiting for an atomic or a fence.
    Atomics,
    /// Waiting for a division or a square root.
    Divides,
    /// Waiting for one result after the other in a chain of other operations.
    Chains,
    /// Waiting for the first cache: a load that lies there but feeds the next one, or an atomic on a line of one's own.
    FirstCache,
    /// Waiting for the front of the core after a branch, a call or a return.
    Branches,
    /// Spinning until another thread goes on: in the runtime of OpenMP, or in a loop that nothing else can end.
    OtherThreads,
    /// Retiring instructions.
    Executing,
    /// The samples do not tell.
    Undecided,
}

impl ThreadActivity {
    /// All of them, in the order reports show them.
    pub const ALL: [Self; 10] = [
        Self::Loads,
        Self::Stores,
        Self::Atomics,
        Self::Divides,
        Self::Chains,
        Self::FirstCache,
        Self::Branches,
        Self::OtherThreads,
        Self::Executing,
        Self::Undecided,
    ];

    /// For people: `waiting on loads`, `executing`, `undecided`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Loads => "waiting on loads",
            Self::Stores => "waiting on stores",
            Self::Atomics => "waiting on atomics and fences",
            Self::Divides => "waiting on divide/sqrt",
            Self::Chains => "waiting on dependency chains",
            Self::FirstCache => "waiting on the first cache",
            Self::Branches => "waiting on branches and calls",
            Self::OtherThreads => "waiting for other threads",
            Self::Executing => "executing",
            Self::Undecided => "undecided",
        }
    }

    /// Whether the core waits.
    pub const fn is_waiting(self) -> bool {
        !matches!(self, Self::Executing | Self::Undecided)
    }

    /// Whether it waits for memory: loads, stores, atomics and fences.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Loads | Self::Stores | Self::Atomics)
    }
}

/// Some user time by what the core did: shares of that time, which sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Samples behind it, at least one.
    pub samples: u64,
    /// Share of [`ThreadActivity::Loads`], and so on.
    pub loads: f64,
    /// Waiting on stores.
    pub stores: f64,
    /// Waiting on atomics and fences.
    pub atomics: f64,
    /// Waiting on divide and square root.
    pub divides: f64,
    /// Waiting on dependency chains.
    pub chains: f64,
    /// Waiting on the first cache: no part of waiting for memory.
    #[serde(default)]
    pub first_cache: f64,
    /// Waiting on branches and calls.
    pub branches: f64,
    /// Waiting for other threads: no part of waiting for memory.
    #[serde(default)]
    pub other_threads: f64,
    /// Executing.
    pub executing: f64,
    /// Undecided.
    pub undecided: f64,
}

impl Split {
    /// The share of one activity.
    pub const fn share(&self, activity: ThreadActivity) -> f64 {
        match activity {
            ThreadActivity::Loads => self.loads,
            ThreadActivity::Stores => self.stores,
            ThreadActivity::Atomics => self.atomics,
            ThreadActivity::Divides => self.divides,
            ThreadActivity::Chains => self.chains,
            ThreadActivity::FirstCache => self.first_cache,
            ThreadActivity::Branches => self.branches,
            ThreadActivity::OtherThreads => self.other_threads,
            ThreadActivity::Executing => self.executing,
            ThreadActivity::Undecided => self.undecided,
        }
    }

    /// Waiting on loads, stores, atomics and fences together.
    pub fn memory(&self) -> f64 {
        self.loads + self.stores + self.atomics
    }

    /// Waiting on anything.
    pub fn waiting(&self) -> f64 {
        ThreadActivity::ALL
            .iter()
            .filter(|activity| activity.is_waiting())
            .map(|&activity| self.share(activity))
            .sum()
    }

    /// What the core waited for most, with its share; none if it did not wait.
    pub fn largest_wait(&self) -> Option<(ThreadActivity, f64)> {
        ThreadActivity::ALL
            .into_iter()
            .filter(|activity| activity.is_waiting())
            .map(|activity| (activity, self.share(activity)))
            .filter(|&(_, share)| share > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// A share with its 95 % confidence interval, by the number of samples (Wilson's score interval).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeShare {
    /// The share, 0 to 1.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Where thread time went: user, kernel, blocked and preempted sum to it where all are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// In user mode: by the kernel's accounts where those are known, else by samples.
    pub user_ns: f64,
    /// In the kernel on behalf of the program.
    pub kernel_ns: KnownLimits<f64>,
    /// Off the CPU because it waited for something.
    pub blocked_ns: KnownLimits<f64>,
    /// Off the CPU because another ran there.
    pub preempted_ns: KnownLimits<f64>,
    /// Which of these are no more than estimates.
    #[serde(default, skip_serializing_if = "Estimated::is_nothing")]
    pub estimated: Estimated,
}

/// Times that are made from samples or context-switch records of which some were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimated {
    /// User and kernel time.
    pub running: bool,
    /// Time off the CPU.
    pub waiting: bool,
}

impl Estimated {
    /// Nothing was lost, or it does not matter.
    pub const fn is_nothing(&self) -> bool {
        !self.running && !self.waiting
    }
}

impl Account {
    /// User, kernel, blocked and preempted time together; none unless all are known.
    pub fn total_ns(&self) -> Option<f64> {
        Some(self.user_ns + self.kernel_ns.value()? + self.blocked_ns.value()? + self.preempted_ns.value()?)
    }
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadFinding {
    /// Which one it is in the recording: a number may have been used again.
    pub id: ThreadId,
    /// Its number.
    pub tid: u32,
    /// The number of its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Share of the samples of all threads.
    pub user_share: f64,
    /// Its user time; none without samples.
    pub split: Option<Split>,
    /// Its whole time.
    pub account: Account,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SymbolFinding {
    /// The name for people: demangled, `unnamed at 0x…`, or `unknown code`.
    pub name: String,
    /// Which function of the recording it is; none of code that belongs to no known function.
    pub function: Option<FunctionId>,
    /// As linked, if it has a name there.
    pub symbol: Option<String>,
    /// Path of the file it is in, or what the kernel calls the memory.
    pub module: String,
    /// Which module of the recording that is: a file may have been built anew.
    pub module_id: ModuleId,
    /// What the module is.
    pub module_kind: ModuleKind,
    /// Share of the samples of all threads.
    pub user_share: TimeShare,
    /// Its user time.
    pub split: Split,
    /// Share of its samples inside intervals flagged in the time line.
    pub flagged_share: f64,
    /// Its hottest instructions by samples blamed on them, the first first: indices into
    /// [`Findings::instructions`].
    pub top: Vec<usize>,
}
