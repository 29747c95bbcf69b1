//! How far values can be believed: what a validation says of the indicators behind them.

use events::{Count, Missing, Signal, Value, names};
use record::{
    count::Counts,
    trust::{Basis, Standing, Threshold},
    validate::{Judged, Trust, Validation},
};

/// What is done with values of broken indicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// They are absent, with the reason.
    Withheld,
    /// They are kept; the trust beside them says what they are.
    Kept,
}

/// The trust that the indicators of a machine have earned.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    basis: Basis,
    validation: Option<Validation>,
}

impl Catalogue {
    /// Of a machine that was validated.
    pub fn of(validation: Validation) -> Self {
        let untested = |one: &&Judged| !matches!(one.trust, Trust::Untested { .. });
        let basis = Basis::Validated {
            measured_at: validation.measured_at,
            simulated: validation.simulated.clone(),
            quick: validation.quick,
            complete: validation.complete,
            judged: validation.indicators.iter().filter(untested).count(),
        };
        Self { basis, validation: Some(validation) }
    }

    /// Of a machine that was not, or whose validation cannot be used: why, and what to type.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { basis: Basis::Missing { reason: reason.into() }, validation: None }
    }

    /// Where it comes from.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// An indicator by its name; case, `.` or `:`, modes such as `:u` and aliases do not matter.
    pub fn indicator(&self, name: &str) -> Option<Standing> {
        let validation = self.validation.as_ref()?;
        let judged = best(validation.of(name)).or_else(|| {
            let (bare, _) = name.rsplit_once(':').filter(|(_, modes)| is_modes(modes))?;
            best(validation.of(bare))
        });
        judged.or_else(|| same_signal(validation, name)).map(standing)
    }

    /// A metric of these events, as a volume if its unit is of bytes.
    ///
    /// Some sums and quotients were judged as a whole. Otherwise a metric is as good as the weakest of its events. An event
    /// that is only wrong because it does not see prefetches still counts what the program asked for.
    pub fn metric(&self, events: &[String], unit: &str) -> Option<Standing> {
        let parts: Option<Vec<Standing>> = events.iter().map(|event| self.indicator(event)).collect();
        let is_volume = unit == "B" || unit.starts_with("B/");
        let weakest = parts.and_then(|parts| {
            let parts = parts.into_iter().map(|part| if is_volume { part } else { self.asked_for(part) });
            parts.max_by(|one, other| rank(&one.trust).total_cmp(&rank(&other.trust)))
        });
        match weakest {
            Some(part) if !part.is_broken() => Some(part),
            // Parts that are broken alone may be right together.
            part => self.whole(events).or(part),
        }
    }

    /// The threshold of an indicator, if one was found.
    pub fn threshold(&self, indicator: &str) -> Option<&Threshold> {
        self.validation.as_ref()?.thresholds.iter().find(|one| one.indicator == indicator)
    }

    /// The verdict on exactly these events together.
    fn whole(&self, events: &[String]) -> Option<Standing> {
        let sorted = |names: &[String]| {
            let mut names: Vec<String> = names.iter().map(|name| name.to_ascii_uppercase()).collect();
            names.sort();
            names
        };
        let wanted = sorted(events);
        let all = self.validation.as_ref()?.indicators.iter();
        best(all.filter(|one| one.events.len() > 1 && sorted(&one.events) == wanted)).map(standing)
    }

    /// The same as a count of what the program asked for, prefetches left out.
    fn asked_for(&self, part: Standing) -> Standing {
        let judged = self.validation.as_ref().and_then(|validation| {
            validation.of(&part.indicator).find(|one| one.trust == part.trust && one.purpose == part.purpose)
        });
        let without = judged.and_then(|one| one.without_prefetch.as_deref());
        match (&part.trust, without) {
            (Trust::Broken { .. }, Some(Trust::Trusted { .. })) => Standing {
                trust: Trust::Qualitative {
                    tells: "what the program itself asked for".to_owned(),
                    misses: "what prefetchers fetch".to_owned(),
                },
                ..part
            },
            _ => part,
        }
    }
}

fn standing(judged: &Judged) -> Standing {
    Standing { indicator: judged.name.clone(), purpose: judged.purpose.clone(), trust: judged.trust.clone() }
}

/// An event judged for several purposes is as good as for its best.
fn best<'a>(verdicts: impl Iterator<Item = &'a Judged>) -> Option<&'a Judged> {
    verdicts.min_by(|one, other| rank(&one.trust).total_cmp(&rank(&other.trust)))
}

/// From the best to the worst.
fn rank(trust: &Trust) -> f64 {
    match trust {
        Trust::Trusted { error } => error.min(1.0),
        Trust::Qualitative { .. } => 2.0,
        Trust::Untested { .. } => 3.0,
        Trust::Broken { .. } => 4.0,
    }
}

fn is_modes(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| "ukpPHG".contains(letter))
}

/// A kernel event under another of its names; any breakpoint of the kind that was tried.
fn same_signal<'a>(validation: &'a Validation, name: &str) -> Option<&'a Judged> {
    let bare = name.rsplit_once(':').filter(|(_, modes)| is_modes(modes)).map_or(name, |(bare, _)| bare);
    if let Some(breakpoint) = bare.strip_prefix("mem:") {
        let tried = match breakpoint.rsplit_once(':').map_or("rw", |(_, access)| access) {
            "w" => "breakpoint (write)",
            "x" => "breakpoint (execute)",
            _ => "breakpoint (read or write)",
        };
        return best(validation.of(tried));
    }
    let wanted = names::generic::signal(bare).filter(|signal| matches!(signal, Signal::Software(_)))?;
    best(
        validation
            .indicators
            .iter()
            .filter(|one| names::generic::signal(&one.name).as_ref() == Some(&wanted)),
    )
}

/// Why a value is withheld.
pub fn reason(standing: &Standing) -> Option<String> {
    match &standing.trust {
        Trust::Broken { why, shown_by, .. } => {
            Some(format!("withheld: broken as {}: it {why}; shown by {shown_by}", standing.purpose))
        }
        _ => None,
    }
}

/// Puts trust beside every event and metric. Values of broken ones are taken away unless they are kept.
pub fn mark(counts: &mut Counts, catalogue: &Catalogue, broken: Broken) {
    for event in &mut counts.events {
        event.trust = catalogue.indicator(&event.name);
    }
    for metric in counts.metrics.iter_mut().flat_map(|group| &mut group.metrics) {
        metric.trust = catalogue.metric(&metric.events, &metric.unit);
    }
    counts.validation = Some(catalogue.basis.clone());
    if broken == Broken::Kept {
        return;
    }
    let reasons: Vec<Option<String>> =
        counts.events.iter().map(|event| event.trust.as_ref().and_then(reason)).collect();
    for run in &mut counts.runs {
        let intervals = run.intervals.iter_mut().flat_map(|interval| &mut interval.counts);
        run.counts.iter_mut().chain(intervals).for_each(|count| withhold(count, &reasons));
    }
    for metric in counts.metrics.iter_mut().flat_map(|group| &mut group.metrics) {
        if let Some(reason) = metric.trust.as_ref().and_then(reason) {
            metric.values.clear();
            metric.missing = vec![reason];
        }
    }
}

/// Takes the value of a broken event away; `reasons` has why, event by event.
pub fn withhold(count: &mut Count, reasons: &[Option<String>]) {
    let reason = reasons.get(count.event).and_then(Option::as_ref);
    if let (Some(reason), Value::Counted { .. }) = (reason, &count.value) {
        count.value = Value::Missing(Missing::Broken(reason.clone()));
    }
}

#[cfg(test)]
mod tests;
