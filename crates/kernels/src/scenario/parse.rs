//! From the text of a scenario file to a checked scenario. Every error names line and column.

use std::{collections::BTreeSet, ops::RangeInclusive};

use machine::DataFileError;
use toml::Spanned;

use super::{
    definition::{Body, BufferSharing, BufferSpec, Scenario, ScenarioRegion, ScenarioStep, StepSpan},
    file,
    resolve::{Fault, Values},
};
use crate::{
    catalogue::KernelCatalogue,
    description::{KernelShape, StreamPattern, Widths},
    geometry::LINE,
    kernel::Kernel,
};

/// No scenario file is larger than this; a larger one is a mistake.
const LARGEST_FILE: usize = 1 << 20;
/// Threads of a scenario.
const THREADS: RangeInclusive<u64> = 1..=1024;
/// Buffers, regions in all, and steps in all.
const MOST_OF_EACH: usize = 256;
/// Regions inside regions.
const DEEPEST: usize = 8;
/// Region entries and step executions of all threads: each leaves a record.
const MOST_EVENTS: u64 = 1_000_000;
/// How often a region is repeated, and how often a step goes over its data.
const REPEATS: RangeInclusive<u64> = 1..=1_000_000;
const PASSES: RangeInclusive<u64> = 1..=1_000_000_000;
/// How far apart threads work in one line, in its neighbours, or in the next pages.
const SHIFTS: RangeInclusive<u64> = 0..=8192;

/// Why there is no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Something is wrong with the file.
    #[error(transparent)]
    File(#[from] DataFileError),
    /// A value was set that the scenario does not have.
    #[error("scenario '{scenario}' has no value '{name}' to set{}", known(.has))]
    UnknownVariable {
        /// The scenario.
        scenario: String,
        /// What was asked for.
        name: String,
        /// What it has.
        has: Vec<String>,
    },
}

fn known(has: &[String]) -> String {
    if has.is_empty() { ": it has none".to_owned() } else { format!("; it has {}", has.join(", ")) }
}

/// Reads a scenario. `origin` is the name shown in errors; `settings` are values for its variables.
///
/// ```
/// use kernels::{KernelCatalogue, scenario};
/// let text = r#"
/// name = "sweep"
/// about = "reads w bytes ten times"
/// threads = 1
///
/// [set]
/// w = "8M"
///
/// [[buffer]]
/// name = "data"
/// size = "$w"
///
/// [[region]]
/// name = "read"
/// repeat = 10
///
/// [[region.step]]
/// kernel = "load"
/// buffer = "data"
/// "#;
/// let catalogue = KernelCatalogue::builtin()?;
/// let scenario = scenario::parse(text, "mine.toml", &catalogue, &[("w".into(), "4M".into())])?;
/// assert_eq!(scenario.buffers[0].size, machine::Bytes::mib(4));
/// let error = scenario::parse(&text.replace("\"load\"", "\"lod\""), "mine.toml", &catalogue, &[]).unwrap_err();
/// assert!(error.to_string().starts_with("mine.toml:18:11: unknown kernel 'lod'"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse(
    text: &str,
    origin: &str,
    catalogue: &KernelCatalogue,
    settings: &[(String, String)],
) -> Result<Scenario, ScenarioError> {
    let locate = |fault: Fault| ScenarioError::from(DataFileError::at(text, fault.at, origin, fault.message));
    if text.len() > LARGEST_FILE {
        return Err(locate(Fault::new(0, "the file is larger than 1 MiB: not a scenario file")));
    }
    let file: file::ScenarioFile =
        toml::from_str(text).map_err(|error| DataFileError::toml(text, origin, &error))?;
    let values = Values::new(&file.set, settings).map_err(|name| ScenarioError::UnknownVariable {
        scenario: file.name.get_ref().clone(),
        name,
        has: file.set.keys().cloned().collect(),
    })?;
    build(&file, &values, catalogue).map_err(locate)
}

fn build(file: &file::ScenarioFile, values: &Values, catalogue: &KernelCatalogue) -> Result<Scenario, Fault> {
    let threads = match values.word(&file.threads, "threads") {
        Ok(("any", _)) => None,
        Ok((_, at)) => return Err(Fault::new(at, "threads is a number, or any: one for each CPU named")),
        Err(_) => Some(values.number(&file.threads, "threads", THREADS)? as usize),
    };
    let mut scenario = Scenario {
        name: name(&file.name, "scenario", &mut BTreeSet::new())?,
        about: file.about.clone(),
        source: file.source.clone().unwrap_or_else(|| "user's file".to_owned()),
        seed: file.seed.as_ref().map_or(Ok(1), |seed| values.number(seed, "seed", 0..=i64::MAX as u64))?,
        threads,
        variables: values.list(),
        buffers: buffers(file, values)?,
        regions: Vec::new(),
    };
    let mut builder =
        ScenarioBuilder { values, catalogue, scenario: &scenario, regions: 0, steps: 0, events: 0 };
    let all = threads.map(|threads| (0..threads).collect::<Vec<_>>());
    let at = file.name.span().start + 1;
    scenario.regions = builder.regions(&file.region, all.as_deref(), 1, 1, at)?;
    Ok(scenario)
}

/// A name that can be typed, and that no sibling has.
fn name(given: &Spanned<String>, what: &str, taken: &mut BTreeSet<String>) -> Result<String, Fault> {
    let name = given.get_ref();
    let well_named = !name.is_empty()
        && name.len() <= 40
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let at = given.span().start + 1;
    if !well_named {
        let message = format!("'{name}' is no {what} name: up to 40 lower-case letters, digits and dashes");
        return Err(Fault::new(at, message));
    }
    if !taken.insert(name.clone()) {
        return Err(Fault::new(at, format!("a {what} named '{name}' stands here already")));
    }
    Ok(name.clone())
}

fn buffers(file: &file::ScenarioFile, values: &Values) -> Result<Vec<BufferSpec>, Fault> {
    if let Some(extra) = file.buffer.get(MOST_OF_EACH) {
        return Err(Fault::new(extra.name.span().start, format!("at most {MOST_OF_EACH} buffers")));
    }
    let mut taken = BTreeSet::new();
    let sharings = [("private", BufferSharing::Private), ("shared", BufferSharing::Shared)];
    let build = |raw: &file::BufferEntry| {
        Ok(BufferSpec {
            name: name(&raw.name, "buffer", &mut taken)?,
            size: values.size(&raw.size)?,
            sharing: values.choice(raw.sharing.as_ref(), "sharing", &sharings, BufferSharing::Private)?,
            home: values.home(raw.node.as_ref())?,
            pages: values.pages(raw.pages.as_ref())?,
        })
    };
    file.buffer.iter().map(build).collect()
}

/// Builds regions and steps, counting what they come to.
struct ScenarioBuilder<'a> {
    values: &'a Values,
    catalogue: &'a KernelCatalogue,
    scenario: &'a Scenario,
    regions: usize,
    steps: usize,
    events: u64,
}

impl ScenarioBuilder<'_> {
    /// Siblings. `threads` are those of the region around them, `entries` how often that is entered, `at` where
    /// it is named.
    fn regions(
        &mut self,
        raw: &[file::RegionEntry],
        threads: Option<&[usize]>,
        entries: u64,
        depth: usize,
        at: usize,
    ) -> Result<Vec<ScenarioRegion>, Fault> {
        if raw.is_empty() {
            return Err(Fault::new(at, "nothing happens here: add a region or, within one, a step"));
        }
        if depth > DEEPEST {
            return Err(Fault::new(at, format!("regions are nested at most {DEEPEST} deep")));
        }
        let mut taken = BTreeSet::new();
        raw.iter().map(|raw| self.region(raw, threads, entries, depth, &mut taken)).collect()
    }

    fn region(
        &mut self,
        raw: &file::RegionEntry,
        around: Option<&[usize]>,
        entries: u64,
        depth: usize,
        taken: &mut BTreeSet<String>,
    ) -> Result<ScenarioRegion, Fault> {
        let name = name(&raw.name, "region", taken)?;
        let at = raw.name.span().start + 1;
        let repeat = self.optional(raw.repeat.as_ref(), "repeat", REPEATS, 1)?;
        let threads = self.threads(raw.threads.as_ref(), around)?;
        let around = threads.as_deref().or(around);
        self.regions += 1;
        if self.regions > MOST_OF_EACH {
            return Err(Fault::new(at, format!("at most {MOST_OF_EACH} regions")));
        }
        let entries = entries.saturating_mul(repeat);
        self.happens(entries.saturating_mul(around.map_or(1, |threads| threads.len() as u64)), at)?;
        let body = match (raw.step.as_slice(), raw.region.as_slice()) {
            ([], inner) => Body::Regions(self.regions(inner, around, entries, depth + 1, at)?),
            (steps, []) => Body::Steps(
                steps.iter().map(|raw| self.step(raw, around, entries)).collect::<Result<_, _>>()?,
            ),
            _ => {
                return Err(Fault::new(
                    at,
                    "a region holds steps or regions, not both: put the steps in a region",
                ));
            }
        };
        Ok(ScenarioRegion { name, repeat, threads, body })
    }

    fn happens(&mut self, times: u64, at: usize) -> Result<(), Fault> {
        self.events = self.events.saturating_add(times);
        if self.events > MOST_EVENTS {
            let message = format!(
                "regions and steps happen more than {MOST_EVENTS} times in all: repeat less, or raise passes"
            );
            return Err(Fault::new(at, message));
        }
        Ok(())
    }

    fn optional(
        &self,
        given: Option<&Spanned<file::Scalar>>,
        what: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Fault> {
        given.map_or(Ok(default), |given| self.values.number(given, what, range))
    }

    /// A list of threads, each of which takes part in what is around.
    fn threads(
        &self,
        given: Option<&Spanned<Vec<u64>>>,
        around: Option<&[usize]>,
    ) -> Result<Option<Vec<usize>>, Fault> {
        let Some(given) = given else { return Ok(None) };
        let at = given.span().start;
        let threads: BTreeSet<u64> = given.get_ref().iter().copied().collect();
        if threads.is_empty() || threads.len() != given.get_ref().len() {
            return Err(Fault::new(at, "threads is a list of different thread numbers, from 0"));
        }
        for &thread in &threads {
            let known = around.map_or(thread < *THREADS.end(), |around| around.contains(&(thread as usize)));
            if !known {
                return Err(Fault::new(at, format!("thread {thread} does not take part here")));
            }
        }
        Ok(Some(given.get_ref().iter().map(|&thread| thread as usize).collect()))
    }

    fn step(
        &mut self,
        raw: &file::StepEntry,
        around: Option<&[usize]>,
        entries: u64,
    ) -> Result<ScenarioStep, Fault> {
        let (name, at) = self.values.word(&raw.kernel, "kernel")?;
        self.steps += 1;
        if self.steps > MOST_OF_EACH {
            return Err(Fault::new(at, format!("at most {MOST_OF_EACH} steps")));
        }
        let mut kernel = self.catalogue.get(name).map_err(|error| Fault::new(at, error.to_string()))?;
        for (name, value) in &raw.parameters {
            let number = self.values.number(value, name, 0..=1_000_000)?;
            kernel = kernel
                .with(name, number)
                .map_err(|error| Fault::new(value.span().start, error.to_string()))?;
        }
        let width = self.values.width(raw.width.as_ref())?;
        if let Some(width) = width.filter(|width| !kernel.widths().contains(width)) {
            return Err(Fault::new(at, format!("kernel '{}' has no {width} version", kernel.name())));
        }
        let threads = self.threads(raw.threads.as_ref(), around)?;
        let taking_part = threads.as_deref().or(around).map(<[usize]>::len);
        if let (Some(needed), Some(given)) = (kernel.description().fixed_threads(), taking_part)
            && needed != given
        {
            let message = format!(
                "kernel '{}' needs {needed} threads, not {given}: name them in threads",
                kernel.name()
            );
            return Err(Fault::new(at, message));
        }
        self.happens(entries.saturating_mul(taking_part.unwrap_or(1) as u64), at)?;
        let spans = [("own", StepSpan::Own), ("whole", StepSpan::Whole)];
        let step = ScenarioStep {
            width,
            buffer: self.buffer(raw, &kernel, at)?,
            passes: self.optional(raw.passes.as_ref(), "passes", PASSES, 1)?,
            threads,
            span: self.values.choice(raw.span.as_ref(), "span", &spans, StepSpan::Own)?,
            shift: self.optional(raw.shift.as_ref(), "shift", SHIFTS, 0)?,
            rate_bytes_per_s: self.values.rate(raw.rate.as_ref())?,
            kernel,
        };
        self.check(raw, &step)?;
        Ok(step)
    }

    fn buffer(&self, raw: &file::StepEntry, kernel: &Kernel, at: usize) -> Result<Option<usize>, Fault> {
        let none = kernel.description().is_register_only();
        let Some(given) = &raw.buffer else {
            let message = format!("kernel '{}' needs a buffer", kernel.name());
            return if none { Ok(None) } else { Err(Fault::new(at, message)) };
        };
        let at = given.span().start + 1;
        if none {
            return Err(Fault::new(
                at,
                format!("kernel '{}' touches no memory: leave the buffer out", kernel.name()),
            ));
        }
        let index = self.scenario.buffers.iter().position(|buffer| buffer.name == *given.get_ref());
        index.map(Some).ok_or_else(|| {
            Fault::new(at, format!("there is no buffer '{}'; add a [[buffer]]", given.get_ref()))
        })
    }

    /// What goes together and what does not.
    fn check(&self, raw: &file::StepEntry, step: &ScenarioStep) -> Result<(), Fault> {
        let description = step.kernel.description();
        let at = |field: &Option<Spanned<file::Scalar>>| field.as_ref().unwrap_or(&raw.kernel).span().start;
        let shared =
            step.buffer.is_some_and(|index| self.scenario.buffers[index].sharing == BufferSharing::Shared);
        let together = !matches!(description.shape, KernelShape::Private(_));
        if together && !shared {
            let at = raw.buffer.as_ref().map_or(at(&None), |buffer| buffer.span().start + 1);
            let message =
                format!("kernel '{}' works on one buffer together: it must be shared", step.kernel.name());
            return Err(Fault::new(at, message));
        }
        if step.span == StepSpan::Whole && (together || !shared) {
            return Err(Fault::new(
                at(&raw.span),
                "span = \"whole\" is for shared buffers and kernels of one thread",
            ));
        }
        let fixed = description.streams.first().is_some_and(|stream| stream.pattern == StreamPattern::Fixed);
        if step.shift > 0 && !(fixed && step.span == StepSpan::Whole) {
            let message = "shift is for kernels at a fixed place of a shared buffer with span = \"whole\"";
            return Err(Fault::new(at(&raw.shift), message));
        }
        let unit = if description.widths == Widths::ScalarOnly { 8 } else { LINE };
        if !step.shift.is_multiple_of(unit) {
            let message = format!("shift is a multiple of {unit} for this kernel");
            return Err(Fault::new(at(&raw.shift), message));
        }
        let paced = step.kernel.parameters().any(|(name, _)| name == "nops");
        if step.rate_bytes_per_s.is_some() && !(paced && !together && step.buffer.is_some()) {
            let message = "a rate needs a kernel with a parameter nops, such as delayed-read";
            return Err(Fault::new(at(&raw.rate), message));
        }
        Ok(())
    }
}
