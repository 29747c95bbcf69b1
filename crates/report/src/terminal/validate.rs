//! What a validation found, as people read it.

mod explain;
mod levels;

use record::validate::{Judged, Trust, Validation};

pub use explain::explain;

use crate::{
    layout::figures::percent_text,
    layout::prose::{counted, titled, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING, paint},
    terminal::trust::error_text,
};

/// Sections of the list of indicators, and the quantities that belong to each.
pub(crate) const SECTIONS: &[(&str, &[&str])] = &[
    ("In the core", &["instructions", "loads", "stores", "branches", "cycles", "flops"]),
    (
        "Between L1 and L2",
        &["l1_in", "l1_in_read", "l1_in_owned", "l1_out", "l2_served", "l2_served_read", "l2_served_owned"],
    ),
    (
        "Between L2 and L3",
        &[
            "l2_in",
            "l2_in_read",
            "l2_in_owned",
            "l2_out",
            "l3_served",
            "l3_served_read",
            "l3_served_owned",
            "handed_over",
        ],
    ),
    ("To memory", &["l3_in", "l3_in_read", "l3_in_owned", "l3_out", "memory_out", "memory_all"]),
    ("Between packages", &["link_in", "link_out"]),
    ("Waiting", &["stall", "latency"]),
    ("Events of the kernel", &["software"]),
    ("Clock samples", &["timer"]),
    ("Nothing is claimed of these", &["unknown"]),
];

/// The whole result.
pub fn text(validation: &Validation, columns: usize) -> String {
    let mut out = head(validation, columns);
    out += &levels::table(validation, columns);
    for (title, quantities) in SECTIONS {
        let here: Vec<&Judged> =
            validation.indicators.iter().filter(|one| quantities.contains(&one.quantity.as_str())).collect();
        if !here.is_empty() {
            out += &format!("\n{}\n", paint(HEADING, title));
            out += &section(&here, columns);
        }
    }
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
        let value = if one.unit == "cycles" {
            format!("{:.0} cycles", one.value)
        } else {
            format!("{} % as {}", percent_text(one.value), one.unit)
        };
        out += &wrap("  ", &format!("{} above {value}: {}", one.indicator, one.means), columns);
        out += &wrap_in(QUIET, "    ", &format!("found with {}", one.how), columns);
    }
    out
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
            Some((_, names)) => names.push(&one.name),
            None => reasons.push((missing, vec![&one.name])),
        }
    }
    for (reason, names) in reasons {
        let shown = if names.len() > 3 {
            format!("{} and {} more", names[..3].join(", "), names.len() - 3)
        } else {
            names.join(", ")
        };
        out += &wrap_in(QUIET, &verdict("untested"), &format!("{shown}: {reason}"), columns);
    }
    out
}

/// The verdict in front of its line.
fn verdict(word: &str) -> String {
    format!("  {word:11}  ")
}

fn line(one: &Judged) -> String {
    let Judged { name, purpose, trust, .. } = one;
    let but = if one.step == "stalls" { one.remarks.join(" ") } else { String::new() };
    match trust {
        Trust::Trusted { error } => format!("{name}: {purpose}, within {}. {but}", bound(one, *error)),
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

/// The error of a trusted indicator: of a share in points, otherwise relative.
fn bound(one: &Judged, error: f64) -> String {
    match one.purpose.starts_with("share of") {
        true => format!("{} points", percent_text(error.max(0.001))),
        false => error_text(error),
    }
}
