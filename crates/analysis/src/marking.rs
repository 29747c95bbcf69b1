//! Counts beside the trust of what counted them; values of broken indicators are withheld.

mod pressure;

use events::{Count, Missing, Value};
use record::count::{BarPart, CountedEvent, CountedMetric, Counts, GroupMetrics};
use trust::{Claimed, Purpose, Standing, Trust, TrustCatalogue};

/// What is done with values of broken indicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// They are absent, with the reason.
    Withheld,
    /// They are kept; the trust beside them says what they are.
    Kept,
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
pub fn mark(counts: &mut Counts, catalogue: &TrustCatalogue, broken: Broken) {
    for event in &mut counts.events {
        event.trust = catalogue.event(&event.signal);
    }
    for group in &mut counts.metrics {
        for metric in &mut group.metrics {
            let as_whole = catalogue.share(&group.group, &metric.name);
            let by_events = || catalogue.metric(&claimed(metric, &counts.events)?, &metric.unit);
            metric.trust = as_whole.or_else(by_events);
        }
    }
    counts.validation = Some(catalogue.basis().clone());
    let remarks = pressure::remarks(counts, catalogue);
    counts.remarks.extend(remarks);
    if broken == Broken::Kept {
        return;
    }
    let reasons: Vec<Option<String>> =
        counts.events.iter().map(|event| event.trust.as_ref().and_then(reason)).collect();
    for run in &mut counts.runs {
        let intervals = run.intervals.iter_mut().flat_map(|interval| &mut interval.counts);
        run.counts.iter_mut().chain(intervals).for_each(|count| withhold(count, &reasons));
    }
    counts.metrics.iter_mut().for_each(withhold_metrics);
}

/// Takes away all that a group says by its broken metrics: their values in every form, parts of bars, sentences about them.
fn withhold_metrics(group: &mut GroupMetrics) {
    for at in 0..group.metrics.len() {
        let Some(why) = group.metrics[at].trust.as_ref().and_then(reason) else { continue };
        let metric = &mut group.metrics[at];
        let name = metric.name.clone();
        *metric = CountedMetric {
            missing: vec![why],
            name: name.clone(),
            unit: std::mem::take(&mut metric.unit),
            about: std::mem::take(&mut metric.about),
            events: std::mem::take(&mut metric.events),
            purposes: std::mem::take(&mut metric.purposes),
            trust: metric.trust.take(),
            ..CountedMetric::default()
        };
        for package in &mut group.packages {
            if let Some(value) = package.values.get_mut(at) {
                *value = None;
            }
        }
        group.remarks.retain(|said| !said.starts_with(&format!("{name}: ")));
        withhold_in_bars(group, &name);
    }
}

/// A part of a bar becomes a missing one; without its whole nothing is left of it. What was said of its sum is no longer true.
fn withhold_in_bars(group: &mut GroupMetrics, metric: &str) {
    for bar in &mut group.bars {
        let is_whole = bar.of.as_deref() == Some(metric);
        let is_gone = |part: &BarPart| is_whole || part.name == metric;
        if !is_whole && !bar.parts.iter().any(is_gone) {
            continue;
        }
        bar.missing.extend(bar.parts.iter().filter(|part| is_gone(part)).map(|part| part.name.clone()));
        bar.parts.retain(|part| !is_gone(part));
        if is_whole {
            bar.whole = None;
        }
        let title = format!("'{}'", bar.title);
        group.remarks.retain(|said| !said.contains(&title));
    }
}

/// The events of a metric with what it takes them for; none if one of them was not asked for.
fn claimed<'a>(metric: &'a CountedMetric, events: &'a [CountedEvent]) -> Option<Vec<Claimed<'a>>> {
    let purpose = |at: usize| metric.purposes.get(at)?.clone().map(Purpose::from);
    let event = |(at, name): (usize, &String)| {
        let event = events.iter().find(|event| event.name == *name)?;
        Some(Claimed { name: &event.name, signal: &event.signal, purpose: purpose(at) })
    };
    metric.events.iter().enumerate().map(event).collect()
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
