//! Groups: sets of events with the metrics they give, as data.
//!
//! A group names its inputs and lists, for each, the events that can stand for it; the first one a machine has is
//! taken. A metric may be written several times: the first whose inputs all exist is the one shown. So one file
//! serves many microarchitectures, and what a machine cannot count is missing, never 0.

use std::{collections::BTreeMap, sync::OnceLock};

use machine::DataFileError;
use serde::Deserialize;
use toml::Spanned;

use crate::{
    data_file::Origin,
    formula::{Absent, Formula},
};

/// Longest text of a group file.
const LARGEST_FILE: usize = 1 << 20;

/// In formulas: seconds counted.
pub const TIME: &str = "time";

const FILES: &[(&str, &str)] = &[
    ("core.toml", include_str!("../groups/core.toml")),
    ("caches.toml", include_str!("../groups/caches.toml")),
    ("memory.toml", include_str!("../groups/memory.toml")),
    ("stalls.toml", include_str!("../groups/stalls.toml")),
    ("software.toml", include_str!("../groups/software.toml")),
];

/// A set of events and what they say together.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricGroup {
    /// What users type: `MEM`.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Name of each input in formulas, and the events that can stand for it, best first.
    pub inputs: Vec<(String, Vec<String>)>,
    /// What inputs are taken for, as the keys of purposes that events are judged for; an input without one is taken for
    /// whatever its event is best at.
    pub purposes: Vec<(String, String)>,
    /// What comes out. Those of the same name are tried in order.
    pub metrics: Vec<Metric>,
}

/// One quantity of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// How it is computed.
    pub formula: Formula,
    /// Its unit: `B/s`, `cycles`, `1`.
    pub unit: String,
    /// What it tells, in a sentence.
    pub about: String,
}

/// A group as one machine has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen<'a> {
    /// The group.
    pub group: &'a MetricGroup,
    /// Input and the event that stands for it.
    pub events: Vec<(&'a str, &'a str)>,
    /// Inputs for which this machine has no event.
    pub missing: Vec<&'a str>,
    /// Metrics, one of each name.
    pub metrics: Vec<&'a Metric>,
}

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// In the unit of the metric.
    pub value: f64,
    /// How much higher it would be if nothing were cut off where events contradict each other; below 0, how much lower.
    pub cut_off: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    name: Spanned<String>,
    about: String,
    inputs: BTreeMap<Spanned<String>, Vec<String>>,
    #[serde(default)]
    purposes: BTreeMap<Spanned<String>, String>,
    metric: Vec<MetricTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricTable {
    name: String,
    formula: Spanned<String>,
    unit: String,
    about: String,
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

    /// Reads a group file. `origin` is its name in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Vec<Self>, DataFileError> {
        let origin = Origin { name: origin, text };
        if text.len() > LARGEST_FILE {
            return Err(origin.error(0, format!("a group file has at most {LARGEST_FILE} bytes")));
        }
        let file: GroupFile = toml::from_str(text).map_err(|error| origin.toml(&error))?;
        let mut groups: Vec<Self> = Vec::new();
        for table in file.group {
            let at = table.name.span().start;
            if groups.iter().any(|group| group.name == *table.name.get_ref()) {
                return Err(origin.error(at, format!("a second group {}", table.name.get_ref())));
            }
            groups.push(build(table, origin)?);
        }
        Ok(groups)
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
            let possible = |metric: &Metric| {
                metric.formula.names().iter().all(|name| *name == TIME || !chosen.missing.contains(name))
            };
            let same = self.metrics.iter().filter(|other| other.name == metric.name);
            // If none is possible, the first stays, to say what is missing.
            chosen.metrics.push(same.clone().find(|metric| possible(metric)).unwrap_or(metric));
        }
        chosen
    }
}

impl Chosen<'_> {
    /// Values of all metrics, from the counts by input and the seconds counted.
    pub fn values(
        &self,
        count: &dyn Fn(&str) -> Option<f64>,
        seconds: Option<f64>,
    ) -> Vec<(&Metric, Result<MetricValue, Absent>)> {
        let input = |name: &str| if name == TIME { seconds } else { count(name) };
        // Users know events, not inputs.
        let named = |absent| match absent {
            Absent::Missing(input) => Absent::Missing(self.event(&input).unwrap_or(&input).to_owned()),
            other => other,
        };
        let value = |metric: &Metric| {
            let (value, uncapped) = (metric.formula.value(&input)?, metric.formula.uncapped(&input)?);
            Ok(MetricValue { value, cut_off: uncapped - value })
        };
        self.metrics.iter().map(|metric| (*metric, value(metric).map_err(named))).collect()
    }

    /// What an input is taken for, if its group says so.
    pub fn purpose(&self, input: &str) -> Option<&str> {
        let found = self.group.purposes.iter().find(|(name, _)| name == input);
        found.map(|(_, purpose)| purpose.as_str())
    }

    /// The event that stands for an input; if there is none, the first that could.
    pub fn event(&self, input: &str) -> Option<&str> {
        let found = self.events.iter().find(|(name, _)| *name == input).map(|(_, event)| *event);
        let first =
            || self.group.inputs.iter().find(|(name, _)| name == input)?.1.first().map(String::as_str);
        found.or_else(first)
    }
}

fn build(table: GroupTable, origin: Origin) -> Result<MetricGroup, DataFileError> {
    let mut inputs: Vec<_> = table.inputs.into_iter().collect();
    inputs.sort_by_key(|(name, _)| name.span().start);
    for (name, events) in &inputs {
        if events.is_empty() || name.get_ref() == TIME {
            let message = format!("input '{}' needs an event, and a name other than time", name.get_ref());
            return Err(origin.error(name.span().start, message));
        }
    }
    let inputs: Vec<_> = inputs.into_iter().map(|(name, events)| (name.into_inner(), events)).collect();
    let mut purposes = Vec::new();
    for (name, purpose) in table.purposes {
        if !inputs.iter().any(|(input, _)| input == name.get_ref()) {
            let message = format!("'{}' is no input of group {}", name.get_ref(), table.name.get_ref());
            return Err(origin.error(name.span().start, message));
        }
        purposes.push((name.into_inner(), purpose));
    }
    let mut metrics = Vec::new();
    for metric in table.metric {
        let at = metric.formula.span().start;
        let formula = Formula::parse(metric.formula.get_ref()).map_err(|error| {
            // Past the quote that opens the text.
            origin.error(at + error.position, error.message)
        })?;
        if let Some(name) = formula
            .names()
            .iter()
            .find(|name| **name != TIME && !inputs.iter().any(|(input, _)| input == *name))
        {
            return Err(origin.error(at, format!("'{name}' is no input of group {}", table.name.get_ref())));
        }
        metrics.push(Metric { name: metric.name, formula, unit: metric.unit, about: metric.about });
    }
    Ok(MetricGroup { name: table.name.into_inner(), about: table.about, inputs, purposes, metrics })
}
