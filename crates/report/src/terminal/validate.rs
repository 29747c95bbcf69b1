//! What a validation found, as people read it.

mod explain;
mod levels;
mod unseen;

use ::trust::{Judged, MachinePart, Purpose, Threshold, Trust, Validation};

pub use explain::explain;
pub use unseen::{cases, text as unseen_text};
pub(crate) use unseen::{in_short, promises};

use crate::{
    layout::figures::percent_text,
    layout::prose::{counted, titled, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING, paint},
    terminal::trust::error_text,
};

/// A section of the list of indicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndicatorSection {
    About(MachinePart),
    Waiting,
    Kernel,
    ClockSamples,
    Unclaimed,
    Foreign,
}

impl IndicatorSection {
    /// In the order in which they are shown.
    pub(crate) const ALL: [Self; 10] = [
        Self::About(MachinePart::Core),
        Self::About(MachinePart::FirstToSecond),
        Self::About(MachinePart::SecondToThird),
        Self::About(MachinePart::Memory),
        Self::About(MachinePart::Packages),
        Self::Waiting,
        Self::Kernel,
        Self::ClockSamples,
        Self::Unclaimed,
        Self::Foreign,
    ];

    /// Where an indicator stands.
    pub(crate) fn of(one: &Judged) -> Self {
        match &one.tried_for {
            Purpose::Volume(quantity) => Self::About(quantity.part()),
            Purpose::Stall | Purpose::NoExecution | Purpose::CycleShare | Purpose::Latency => Self::Waiting,
            Purpose::Software => Self::Kernel,
            Purpose::Timer => Self::ClockSamples,
            Purpose::Unclaimed => Self::Unclaimed,
            Purpose::Foreign(_) => Self::Foreign,
        }
    }

    /// What stands above it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::About(MachinePart::Core) => "In the core",
            Self::About(MachinePart::FirstToSecond) => "Between L1 and L2",
            Self::About(MachinePart::SecondToThird) => "Between L2 and L3",
            Self::About(MachinePart::Memory) => "To memory",
            Self::About(MachinePart::Packages) => "Between packages",
            Self::Waiting => "Waiting",
            Self::Kernel => "Events of the kernel",
            Self::ClockSamples => "Clock samples",
            Self::Unclaimed => "Nothing is claimed of these",
            Self::Foreign => "Tried for what this version does not know",
        }
    }
}

/// The whole result.
pub fn text(validation: &Validation, columns: usize) -> String {
    let mut out = head(validation, columns);
    out += &levels::table(validation, columns);
    for part in IndicatorSection::ALL {
        let here: Vec<&Judged> =
            validation.indicators.iter().filter(|one| IndicatorSection::of(one) == part).collect();
        if !here.is_empty() {
            out += &format!("\n{}\n", paint(HEADING, part.title()));
            out += &section(&here, columns);
        }
    }
    out += &unseen_text(validation.unseen.as_ref(), columns);
    out += &unseen_text(validation.unseen_with_relief.as_ref(), columns);
    out += &thresholds(validation, columns);
    out += "\n";
    out += &wrap_in(
        QUIET,
        "",
        "'memwall validate --explain NAME' shows the evidence of one indicator.",
        columns,
    );
    out
}

fn head(validation: &Validation, columns: usize) -> String {
    let words = ["trusted", "qualitative", "broken", "untested"];
    let count = |word: &str| validation.indicators.iter().filter(|one| one.trust.word() == word).count();
    let tally: Vec<String> = words.iter().map(|word| format!("{} {word}", count(word))).collect();
    let mut out = titled("Validation", &format!("{}: {}", validation.instrument, tally.join(", ")), columns);
    // Steps that lack the same are one line.
    let mut states: Vec<(String, bool, Vec<&str>)> = Vec::new();
    for step in &validation.steps {
        let state = step.missing.clone().unwrap_or_else(|| counted(step.experiments, "experiment"));
        match states.iter_mut().find(|(known, missing, _)| *missing && *known == state) {
            Some((_, _, names)) => names.push(&step.name),
            None => states.push((state, step.missing.is_some(), vec![&step.name])),
        }
    }
    for (state, missing, names) in states {
        let style = if missing { WARNING } else { QUIET };
        out += &wrap_in(style, "  ", &format!("{}: {state}", names.join(", ")), columns);
    }
    out
}

/// Values above which an indicator means something here.
fn thresholds(validation: &Validation, columns: usize) -> String {
    if validation.thresholds.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", paint(HEADING, "Thresholds of this machine"));
    for one in &validation.thresholds {
        out += &wrap("  ", &format!("{} above {}: {}", one.indicator, above(one), one.means), columns);
        out += &wrap_in(QUIET, "    ", &format!("found with {}", one.how), columns);
    }
    out
}

/// The value of a threshold: of a share in percent, otherwise in its unit.
fn above(one: &Threshold) -> String {
    match one.indicator.is_share() {
        true => format!("{} % as {}", percent_text(one.value), one.unit),
        false => format!("{:.0} {}", one.value, one.unit),
    }
}

fn section(here: &[&Judged], columns: usize) -> String {
    let mut out = String::new();
    for word in ["trusted", "qualitative", "broken"] {
        for one in here.iter().filter(|one| one.trust.word() == word) {
            out += &wrap(&verdict(word), &line(one), columns);
        }
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in here {
        let Trust::Untested { missing } = &one.trust else { continue };
        match reasons.iter_mut().find(|(known, _)| known == missing) {
            Some((_, names)) => names.push(one.name.name()),
            None => reasons.push((missing, vec![one.name.name()])),
        }
    }
    for (reason, names) in reasons {
        let text = format!("{}: {reason}", names.join(", "));
        out += &wrap_in(QUIET, &verdict("untested"), &text, columns);
    }
    out
}

/// The verdict in front of its line.
fn verdict(word: &str) -> String {
    format!("  {word:11}  ")
}

fn line(one: &Judged) -> String {
    let Judged { name, purpose, trust, .. } = one;
    let but = if one.tried_for == Purpose::Stall { one.remarks.join(" ") } else { String::new() };
    match trust {
        Trust::Trusted { error } => {
            format!("{name}: {purpose}, within {}{}. {but}", bound(one, *error), tried(one))
        }
        Trust::Qualitative { tells, misses } => format!("{name} tells {tells}, but not {misses}. {but}"),
        Trust::Broken { why, shown_by, .. } => {
            let off = match &one.without_prefetch {
                Some(trust) => format!("; with prefetchers off: {}", trust.word()),
                None => String::new(),
            };
            format!("{name} for {purpose}: {why}; shown by {shown_by}{off}")
        }
        Trust::Untested { missing } => format!("{name}: {missing}"),
    }
}

/// On how much its error stands.
fn tried(one: &Judged) -> String {
    match &one.errors {
        Some(::trust::Errors { observations, kernels: Some(kernels), worst, .. }) => {
            let (runs, kernels) = (counted(*observations, "run"), counted(*kernels, "kernel"));
            format!("; the worst of {runs} of {kernels} was off by {}", bound(one, worst.abs()))
        }
        _ => String::new(),
    }
}

/// The error of a trusted indicator: of a share in points, otherwise relative.
pub(crate) fn bound(one: &Judged, error: f64) -> String {
    match one.tried_for {
        _ if one.name.is_share() => format!("{} points", percent_text(error.max(0.001))),
        Purpose::NoExecution => format!("{} points of the cycles", percent_text(error.max(0.001))),
        _ => error_text(error),
    }
}
