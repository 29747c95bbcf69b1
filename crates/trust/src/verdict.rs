//! What known work showed of each indicator: the trust it earned.

use events::Signal;
use machine::{Bytes, profile::Fingerprint};
use serde::{Deserialize, Serialize};

use crate::{Indicator, OutOfSample, Purpose, Threshold};

/// The schema of a [`Validation`].
pub const SCHEMA: &str = "memwall.validate/1";

/// Where the data of an experiment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KernelPlace {
    /// No data.
    #[serde(rename = "registers")]
    Registers,
    /// First-level cache.
    L1,
    /// Second-level cache.
    L2,
    /// Cache shared by cores.
    L3,
    /// Memory.
    #[serde(rename = "memory")]
    Memory,
}

impl KernelPlace {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Memory => "memory",
        }
    }
}

/// How a number fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Flaw {
    /// It is off by the same factor everywhere.
    Factor {
        /// Counted over true.
        ratio: f64,
    },
    /// It is right on one core and not on several.
    SeveralCores {
        /// Counted over true with several.
        ratio: f64,
        /// How many.
        cores: usize,
    },
    /// It also counts what deeper levels serve.
    Deeper {
        /// What it counts instead.
        counts: String,
    },
    /// It is right with prefetchers off and wrong with them on.
    Prefetch {
        /// Counted over true with prefetchers on, where that is furthest off.
        on: f64,
        /// And off.
        off: f64,
    },
    /// It does not depend on the work.
    Constant,
    /// It counts something else.
    Swapped {
        /// What.
        counts: String,
    },
    /// It never counted.
    Silent,
    /// It counts waiting that memory does not cause.
    OtherStalls {
        /// The kernel that shows it.
        kernel: String,
        /// Counted cycles over all cycles of it.
        share: f64,
    },
    /// Truth and count do not go together in any way that was tried.
    DoesNotFollow {
        /// Largest relative error.
        worst: f64,
    },
}

/// Whether an indicator can be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "trust")]
pub enum Trust {
    /// It can, to within this relative error.
    Trusted {
        /// Largest relative error seen.
        error: f64,
    },
    /// It moves the right way.
    Qualitative {
        /// What it can tell.
        tells: String,
        /// And what not.
        misses: String,
    },
    /// It cannot.
    Broken {
        /// In what way.
        flaw: Flaw,
        /// In words.
        why: String,
        /// The experiment that shows it.
        shown_by: String,
    },
    /// Nobody knows.
    Untested {
        /// What was missing.
        missing: String,
    },
}

impl Trust {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Trusted { .. } => "trusted",
            Self::Qualitative { .. } => "qualitative",
            Self::Broken { .. } => "broken",
            Self::Untested { .. } => "untested",
        }
    }
}

/// One line of proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What ran.
    pub experiment: String,
    /// What must have happened, in the unit of the purpose.
    pub truth: Option<f64>,
    /// What was counted.
    pub counted: Option<f64>,
    /// How far off that is, as the verdict takes it: of what is true, or of what the note says; none if nothing is known to
    /// be true here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// What follows from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The smallest, mean and largest error over all runs of all experiments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Smallest, by its size.
    pub least: f64,
    /// Mean of the signed errors.
    pub mean: f64,
    /// Largest, by its size.
    pub worst: f64,
    /// Over how many observations.
    pub observations: usize,
    /// Of how many different kernels; none in files of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<usize>,
}

impl Errors {
    /// Of errors with the kernels that showed them; none of nothing.
    pub fn of<'a>(all: impl IntoIterator<Item = (&'a str, f64)>) -> Option<Self> {
        let mut names: Vec<&str> = Vec::new();
        let mut errors: Vec<f64> = Vec::new();
        for (kernel, error) in all {
            names.push(kernel);
            errors.push(error);
        }
        names.sort_unstable();
        names.dedup();
        let by_size = |one: &&f64, other: &&f64| one.abs().total_cmp(&other.abs());
        Some(Self {
            least: *errors.iter().min_by(by_size)?,
            mean: errors.iter().sum::<f64>() / errors.len() as f64,
            worst: *errors.iter().max_by(by_size)?,
            observations: errors.len(),
            kernels: Some(names.len()),
        })
    }
}

/// What a count sees of lines of memory that stores modify.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenStores {
    /// Prefetchers are on.
    pub prefetch: bool,
    /// It is memory of another package.
    pub remote: bool,
    /// Counted per line that a store asks for to own it.
    pub owned: f64,
    /// Counted per line that is written back.
    pub out: f64,
}

/// An indicator judged for one purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Who was judged.
    pub name: Indicator,
    /// The events behind it.
    pub events: Vec<String>,
    /// What was programmed for each of them when it was tried; none in files of versions that kept names only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What it is meant to measure, in words: `lines into the L1`.
    pub purpose: String,
    /// The same as a value.
    #[serde(rename = "quantity")]
    pub tried_for: Purpose,
    /// The step that judged it.
    pub step: String,
    /// The verdict.
    pub trust: Trust,
    /// With prefetchers off, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_prefetch: Option<Box<Trust>>,
    /// Over repeated runs of the streaming kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// What it sees of lines that stores modify; empty if that was not tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sees: Vec<SeenStores>,
    /// What else should be known, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The proof.
    pub evidence: Vec<Evidence>,
}

impl Judged {
    /// A verdict without proof or anything else to be known. `purpose` is what it was tried for, in words.
    pub fn new(name: Indicator, tried_for: Purpose, purpose: &str, step: &str, trust: Trust) -> Self {
        Self {
            events: vec![name.to_string()],
            name,
            signals: Vec::new(),
            purpose: purpose.to_owned(),
            tried_for,
            step: step.to_owned(),
            trust,
            without_prefetch: None,
            errors: None,
            sees: Vec::new(),
            remarks: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// Whether that is its name; case, and `.` or `:`, do not matter.
    pub fn is_called(&self, name: &str) -> bool {
        let plain = |text: &str| text.replace(':', ".").to_ascii_uppercase();
        plain(self.name.name()) == plain(name)
    }
}

/// The best indicator of a level and direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Which level serves.
    pub level: KernelPlace,
    /// It is the memory of another package, reached over a link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
    /// `read` or `write`.
    pub direction: String,
    /// One core, or all.
    pub cores: usize,
    /// Lines per second that the work moved at most.
    pub lines_per_s: f64,
    /// The same in both directions together, by the work that moved most so; none in files of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_lines_per_s: Option<f64>,
    /// The indicator; none if none is fit.
    pub indicator: Option<String>,
    /// Its highest rate: 100 % of utilisation.
    pub events_per_s: Option<f64>,
    /// Its trust.
    pub trust: Option<Trust>,
    /// What the paper uses here, if it is another one and was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Ranked>,
    /// What the indicator also counts of lines that other levels serve (molka2017 §3.1, step 4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlap: Vec<LevelOverlap>,
    /// The indicator that counts this level alone: the overlap is taken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Ranked>,
}

/// What an indicator of one level counts where another serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelOverlap {
    /// The other level.
    pub level: KernelPlace,
    /// It is the memory of another package.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remote: bool,
    /// Counted per line that it serves.
    pub per_line: f64,
}

impl LevelOverlap {
    /// As people call the level.
    pub fn name(&self) -> String {
        format!("{}{}", if self.remote { "remote " } else { "" }, self.level.name())
    }
}

impl Best {
    /// As people call it: `L3 read`, `remote memory write`.
    pub fn name(&self) -> String {
        let whose = if self.remote { "remote " } else { "" };
        format!("{whose}{} {}", self.level.name(), self.direction)
    }
}

/// Another indicator and how it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Its name.
    pub indicator: String,
    /// Its trust.
    pub trust: Trust,
    /// Its highest rate.
    pub events_per_s: Option<f64>,
}

/// Events per access of an indicator over data set sizes, on one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The kernel.
    pub kernel: String,
    /// The indicator.
    pub indicator: String,
    /// Data set, and events per load or store.
    pub points: Vec<(Bytes, f64)>,
}

/// A step and how far it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationStep {
    /// Its name.
    pub name: String,
    /// Whether it ran to its end.
    pub done: bool,
    /// Experiments behind it.
    pub experiments: usize,
    /// Why it was left out or cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What a validation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub fingerprint: Fingerprint,
    /// The model that was simulated; `None` of a real machine.
    pub simulated: Option<String>,
    /// What counted.
    pub instrument: String,
    /// Seconds since 1970; 0 of a simulated machine.
    pub measured_at: u64,
    /// The version of memwall.
    pub memwall: String,
    /// `--quick` was given.
    pub quick: bool,
    /// Repetitions asked for.
    pub runs: u32,
    /// All steps finished.
    pub complete: bool,
    /// What was done.
    pub steps: Vec<ValidationStep>,
    /// Per level and direction.
    pub best: Vec<Best>,
    /// All indicators.
    pub indicators: Vec<Judged>,
    /// Values above which an indicator means something here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// How right clock samples were on kernels drawn at random; none in files of versions that drew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<OutOfSample>,
    /// How right both ways together were, where hot loops were relieved as well; none if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_with_relief: Option<OutOfSample>,
    /// Curves over data set sizes; none of a quick validation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<Sweep>,
}

impl Validation {
    /// Indicators that were tried, whatever came of it.
    pub fn tried(&self) -> usize {
        self.indicators.iter().filter(|judged| !matches!(judged.trust, Trust::Untested { .. })).count()
    }

    /// Whether losing this one for `other` would be a loss: it tried more, or came to its end with as many.
    pub fn has_more_than(&self, other: &Self) -> bool {
        (self.tried(), self.complete) > (other.tried(), other.complete)
    }

    /// The verdicts on an indicator; case, and `.` or `:`, do not matter.
    pub fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Judged> {
        self.indicators.iter().filter(move |judged| judged.is_called(name))
    }
}
