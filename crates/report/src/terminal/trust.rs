//! Trust beside values, in words.

use ::trust::{Basis, Standing, Trust};

use crate::{
    layout::age,
    layout::figures::percent_text,
    layout::prose::{counted, dotted, titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::Cell,
};

/// What a table shows beside a value; blank if nobody knows: that is said once, below.
pub fn cell(standing: Option<&Standing>) -> Cell {
    match standing.map(|standing| &standing.trust) {
        Some(Trust::Trusted { error }) if standing.is_some_and(|one| one.indicator.is_share()) => {
            format!("trusted, {} points", percent_text(error.max(0.001))).into()
        }
        Some(Trust::Trusted { error }) => format!("trusted, {}", error_text(*error)).into(),
        Some(Trust::Qualitative { .. }) => "qualitative".into(),
        Some(Trust::Broken { .. }) => Cell::styled("broken", WARNING),
        Some(Trust::Untested { .. }) | None => "".into(),
    }
}

/// A relative error in percent, never finer than it is known.
pub fn error_text(error: f64) -> String {
    format!("{} %", percent_text(error.max(0.001)))
}

/// One line below an event.
pub fn line(standing: &Standing) -> Option<String> {
    let purpose = &standing.purpose;
    Some(match &standing.trust {
        Trust::Trusted { error } => format!("trusted for {purpose}, within {}", error_text(*error)),
        Trust::Qualitative { tells, misses } => format!("qualitative: tells {tells}, but not {misses}"),
        Trust::Broken { why, shown_by, .. } => format!("broken for {purpose}: it {why}; shown by {shown_by}"),
        Trust::Untested { .. } => return None,
    })
}

/// Where trust comes from, in a sentence without its end: date and extent of the validation, or why there is none.
pub fn source(basis: &Basis) -> String {
    match basis {
        Basis::Validated { measured_at, simulated, quick, complete, judged } => {
            let when = match simulated {
                Some(model) => format!("validation of simulated {model}"),
                None => format!("validation of {}", age::date(*measured_at)),
            };
            let quick = if *quick { "quick" } else { "" };
            let cut = if *complete { "" } else { "interrupted" };
            dotted([when.as_str(), &format!("{} judged", counted(*judged, "indicator")), quick, cut])
        }
        Basis::Missing { reason } => reason.clone(),
    }
}

/// Whether the machine was validated, when, how far, and what to type: for commands that are about the machine.
pub fn section(basis: &Basis, now: u64, columns: usize) -> String {
    let mut out = match basis {
        Basis::Validated { measured_at, simulated: None, .. } => {
            let text = format!("{}, {}", source(basis), age::ago(*measured_at, now));
            titled("Trust", &text, columns)
        }
        _ => titled("Trust", &source(basis), columns),
    };
    if let Basis::Validated { measured_at, simulated, quick, complete, .. } = basis {
        let old = simulated.is_none() && age::is_old(*measured_at, now);
        let advice = match (complete, old, quick) {
            (false, ..) => "'memwall validate' goes on where it was interrupted",
            (_, true, _) => "it is old; run 'memwall validate' again",
            (.., true) => "'memwall validate' without --quick tries more",
            _ => "'memwall validate --explain NAME' shows the evidence of one",
        };
        out += &wrap_in(QUIET, "  ", advice, columns);
    }
    out
}

/// What could not be shown beside each value: what qualitative ones tell, what is untested, and where trust comes from.
pub fn notes<'a>(
    marked: impl Iterator<Item = (&'a str, Option<&'a Standing>)>,
    basis: &Basis,
    columns: usize,
) -> String {
    if let Basis::Missing { reason } = basis {
        return wrap_in(QUIET, "", &format!("Trust: all untested; {reason}"), columns);
    }
    let (mut rough, mut untested): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for (name, standing) in marked {
        match standing.map(|standing| &standing.trust) {
            Some(Trust::Qualitative { tells, misses }) => {
                let text = format!("{name} tells {tells}, but not {misses}");
                if !rough.contains(&text) {
                    rough.push(text);
                }
            }
            Some(Trust::Untested { .. }) | None if !untested.contains(&name) => untested.push(name),
            _ => {}
        }
    }
    let mut out: String = rough.iter().map(|text| wrap("  ", text, columns)).collect();
    let mut from = format!("Trust: {}", source(basis));
    if !untested.is_empty() {
        from += &format!("; untested: {}", untested.join(", "));
    }
    out += &wrap_in(QUIET, "", &from, columns);
    out
}

/// How many of the events listed have earned which trust.
pub fn tally<'a>(standings: impl Iterator<Item = Option<&'a Standing>>, basis: &Basis) -> String {
    if let Basis::Missing { reason } = basis {
        return format!("Trust: all untested; {reason}");
    }
    let words: Vec<&str> =
        standings.map(|standing| standing.map_or("untested", |standing| standing.trust.word())).collect();
    let count = |word: &str| words.iter().filter(|one| **one == word).count();
    let parts =
        ["trusted", "qualitative", "broken", "untested"].map(|word| format!("{} {word}", count(word)));
    format!("Trust: {}; {}", source(basis), parts.join(", "))
}
