//! What a validation found, as people read it.

mod explain;
mod levels;

use record::validate::{Judged, Trust, Validation};

pub use explain::explain;

use crate::{
    prose::{counted, titled, wrap, wrap_in},
    style::{HEADING, QUIET, WARNING, paint},
};

/// Sections of the list of indicators, and the quantities that belong to each.
pub(crate) const SECTIONS: &[(&str, &[&str])] = &[
    ("In the core", &["instructions", "loads", "stores", "branches", "cycles", "flops", "software", "timer"]),
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
    for step in &validation.steps {
        let state = match (&step.missing, step.done) {
            (Some(missing), _) => missing.clone(),
            (None, _) => counted(step.experiments, "experiment"),
        };
        let style = if step.missing.is_some() { WARNING } else { QUIET };
        out += &wrap_in(style, "  ", &format!("{}: {state}", step.name), columns);
    }
    out
}

fn section(here: &[&Judged], columns: usize) -> String {
    let mut out = String::new();
    for word in ["trusted", "qualitative", "broken"] {
        for one in here.iter().filter(|one| one.trust.word() == word) {
            out += &wrap("  ", &line(one), columns);
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
        out += &wrap_in(QUIET, "  ", &format!("untested  {shown}: {reason}"), columns);
    }
    out
}

fn line(one: &Judged) -> String {
    let Judged { name, purpose, trust, .. } = one;
    match trust {
        Trust::Trusted { error } => {
            let but = if one.step == "stalls" { one.remarks.join(" ") } else { String::new() };
            format!("trusted  {name}: {purpose}, within {}. {but}", percent(*error)).trim_end().to_owned()
        }
        Trust::Qualitative { tells, misses } => {
            let but = if one.step == "stalls" { one.remarks.join(" ") } else { String::new() };
            format!("qualitative  {name} tells {tells}, but not {misses}. {but}").trim_end().to_owned()
        }
        Trust::Broken { why, shown_by, .. } => {
            let off = match &one.without_prefetch {
                Some(trust) => format!("; with prefetchers off: {}", trust.word()),
                None => String::new(),
            };
            format!("broken  {name} for {purpose}: {why}; shown by {shown_by}{off}")
        }
        Trust::Untested { missing } => format!("untested  {name}: {missing}"),
    }
}

/// A relative error in percent, never finer than it is known.
fn percent(error: f64) -> String {
    match error * 100.0 {
        small if small < 0.1 => "0.1 %".to_owned(),
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}
