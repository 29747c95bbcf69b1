//! Groups: sets of events with the metrics they give, as data.
//!
//! A group names its inputs and lists, for each, the events that can stand for it; the first one a machine has is
//! taken. A metric may be written several times: the first whose inputs all exist is the one shown. So one file
//! serves many microarchitectures, and what a machine cannot count is missing, never 0.
//!
//! A metric with a key can be used in the formulas behind it. Constants of a paper (penalties) may say how they are
//! measured on a machine; a metric then has a value with the paper's and one with the machine's. Where a paper slips, the
//! right formula is computed and the printed one stands beside it, with a note.

mod file;
mod values;

use std::sync::OnceLock;

use machine::DataFileError;

use crate::{data_file::Origin, formula::Formula};

pub use values::{Chosen, FormulaInputs, MetricValue, ProfileFigures, ValueRange, WholeValue};

/// Longest text of a group file.
const LARGEST_FILE: usize = 1 << 20;

/// In formulas: seconds counted.
pub const TIME: &str = "time";
/// In formulas: cycles of the whole program, where the counts are those of a part of it.
pub const PROGRAM_CYCLES: &str = "program_cycles";
/// The input that stands for them where the counts are those of the whole program.
pub const CYCLES: &str = "cycles";

const FILES: &[(&str, &str)] = &[
    ("core.toml", include_str!("../groups/core.toml")),
    ("caches.toml", include_str!("../groups/caches.toml")),
    ("memory.toml", include_str!("../groups/memory.toml")),
    ("stalls.toml", include_str!("../groups/stalls.toml")),
    ("accounting_core.toml", include_str!("../groups/accounting_core.toml")),
    ("accounting_nehalem.toml", include_str!("../groups/accounting_nehalem.toml")),
    ("patterns.toml", include_str!("../groups/patterns.toml")),
    ("clock.toml", include_str!("../groups/clock.toml")),
    ("software.toml", include_str!("../groups/software.toml")),
];

/// A set of events and what they say together.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricGroup {
    /// What users type: `MEM`.
    pub name: String,
    /// The name under which the one that fits a machine best is found, of several groups for different machines.
    pub family: Option<String>,
    /// One sentence.
    pub about: String,
    /// The paper and its section.
    pub source: Option<String>,
    /// Name of each input in formulas, and the events that can stand for it, best first.
    pub inputs: Vec<(String, Vec<String>)>,
    /// What inputs are taken for, as the keys of purposes that events are judged for; an input without one is taken for
    /// whatever its event is best at.
    pub purposes: Vec<(String, String)>,
    /// Numbers of a paper that formulas use.
    pub constants: Vec<GroupConstant>,
    /// What comes out. Those of the same name are tried in order.
    pub metrics: Vec<Metric>,
    /// Wholes that consist of metrics.
    pub bars: Vec<MetricBar>,
    /// What can stall a program and cannot be counted, in words.
    pub uncounted: Vec<String>,
}

/// A number of a paper, and how a machine's own is found.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupConstant {
    /// Its name in formulas.
    pub name: String,
    /// What the paper has; none of a figure that every machine has its own of.
    pub value: Option<f64>,
    /// The paper, its section, and other figures it has for the same.
    pub source: String,
    /// From the figures of a profile; none where `calibrate` measures nothing like it.
    pub measured: Option<Formula>,
}

/// One quantity of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its name in formulas behind it.
    pub key: Option<String>,
    /// How it is computed.
    pub formula: Formula,
    /// Its unit: `B/s`, `cycles`, `1`.
    pub unit: String,
    /// What it tells, in a sentence.
    pub about: String,
    /// Between what the truth lies, where events tell that better than the value itself.
    pub bounds: Option<MetricBounds>,
    /// As printed in the paper, where that is not what is meant.
    pub printed: Option<PrintedFormula>,
    /// What to do where it is large.
    pub advice: Option<String>,
    /// It should be this, within so many in a hundred.
    pub check: Option<MetricCheck>,
    /// What counts as low, medium and high.
    pub reference: Option<ReferenceBands>,
}

/// Between what a metric lies.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricBounds {
    /// It is as much or more.
    pub least: Formula,
    /// It is as much or less.
    pub most: Formula,
    /// The same by what can be inferred and not proved: where these are close, the value lies between them.
    pub likely: Option<[Formula; 2]>,
    /// Above 0 where its formula can be taken at its word although the bounds are far apart.
    pub clear: Formula,
    /// Why it cannot elsewhere, in words.
    pub why: String,
}

/// A formula as a paper prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedFormula {
    /// The formula.
    pub formula: Formula,
    /// What is wrong with it.
    pub note: String,
}

/// What a metric has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricCheck {
    /// The value.
    pub is: f64,
    /// How far it may be off, in the metric's own unit.
    pub within: f64,
}

/// Where a metric is low, medium and high, and what that means.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceBands {
    /// Medium from here on.
    pub medium: f64,
    /// High from here on.
    pub high: f64,
    /// What low, medium and high mean.
    pub means: [String; 3],
    /// Where the limits come from.
    pub source: String,
}

/// A whole that consists of metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricBar {
    /// What is divided: `cycles at issue`.
    pub title: String,
    /// Key of the metric that is the whole; none if the parts are all there is.
    pub of: Option<String>,
    /// Keys of its parts.
    pub parts: Vec<String>,
}

impl MetricGroup {
    /// Those that come with the program.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load every file.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<MetricGroup>> = OnceLock::new();
        ALL.get_or_init(|| {
            let load = |(name, text): &(&str, &str)| match Self::parse(text, name) {
                Ok(groups) => groups,
                Err(error) => panic!("built-in group file: {error}"),
            };
            FILES.iter().flat_map(load).collect()
        })
    }

    /// By name; case does not matter.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|group| group.name.eq_ignore_ascii_case(name))
    }

    /// By name, or of a family the one of which a machine has the most; `has` says whether it has an event.
    pub fn fitting(name: &str, has: &dyn Fn(&str) -> bool) -> Option<&'static Self> {
        let named = Self::named(name);
        let family =
            |group: &&&Self| group.family.as_deref().is_some_and(|family| family.eq_ignore_ascii_case(name));
        named.or_else(|| {
            let share = |group: &&Self| {
                let missing = group.choose(has).missing.len();
                (1000 - 1000 * missing / group.inputs.len().max(1), std::cmp::Reverse(missing))
            };
            Self::all().iter().filter(|group| family(&group)).max_by_key(share)
        })
    }

    /// Reads a group file. `origin` is its name in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Vec<Self>, DataFileError> {
        let origin = Origin { name: origin, text };
        if text.len() > LARGEST_FILE {
            return Err(origin.error(0, format!("a group file has at most {LARGEST_FILE} bytes")));
        }
        file::read(text, origin)
    }

    /// What of it a machine can count; `has` says whether it has an event.
    pub fn choose(&self, has: &dyn Fn(&str) -> bool) -> Chosen<'_> {
        let mut chosen = Chosen { group: self, events: Vec::new(), missing: Vec::new(), metrics: Vec::new() };
        for (input, events) in &self.inputs {
            match events.iter().find(|event| has(event)) {
                Some(event) => chosen.events.push((input, event)),
                None => chosen.missing.push(input),
            }
        }
        for metric in &self.metrics {
            if chosen.metrics.iter().any(|other| other.name == metric.name) {
                continue;
            }
            let possible =
                |metric: &Metric| metric.formula.names().iter().all(|name| !chosen.missing.contains(name));
            let same = self.metrics.iter().filter(|other| other.name == metric.name);
            // If none is possible, the first stays, to say what is missing.
            chosen.metrics.push(same.clone().find(|metric| possible(metric)).unwrap_or(metric));
        }
        chosen
    }

    /// The metric of a key.
    pub fn keyed(&self, key: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.key.as_deref() == Some(key))
    }
}
