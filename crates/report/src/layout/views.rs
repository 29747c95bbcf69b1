//! What every form of the views says in the same words.

use analysis::views::{EventViews, StalledShare, ViewedEvent, ViewedKind, ViewedSymbol};
use machine::units::significant;
use record::sampled::EventPace;

use super::{
    figures::{percent_text, time},
    prose::visible,
};

/// The heading of an event's table, as kruse2011 Fig. 5.7: name, samples, sampling period.
pub fn event_heading(event: &ViewedEvent, samples: f64) -> String {
    let name = visible(&event.name);
    match event.kind {
        ViewedKind::Waiting => {
            format!("{name} – {} of the samples of time, by where they landed", whole(samples))
        }
        _ => format!("{name} – total samples: {} – {}", whole(samples), period(event)),
    }
}

/// How often it was sampled.
pub fn period(event: &ViewedEvent) -> String {
    if let Some(refusal) = &event.refusal {
        return format!("not sampled: {}", visible(refusal));
    }
    let mean = event.period.map(|period| match event.kind {
        ViewedKind::Event => significant(period, 4),
        _ => time(period).text().to_owned(),
    });
    match (event.kind, event.pace, mean) {
        (ViewedKind::Waiting, ..) => "estimated from samples of time".to_owned(),
        (ViewedKind::Event, Some(EventPace::Every(period)), _) => format!("sampling period: {period}"),
        (_, Some(EventPace::PerSecond(rate)), Some(mean)) => {
            format!("sampling period: {mean} on average ({rate} a second were asked for)")
        }
        (_, Some(EventPace::PerSecond(rate)), None) => {
            format!("sampling period: not known ({rate} a second were asked for)")
        }
        (_, _, Some(mean)) => format!("sampling period: {mean}"),
        (_, _, None) => "sampling period: not known".to_owned(),
    }
}

/// A number of samples; of parts of samples, to the next.
pub fn whole(samples: f64) -> String {
    format!("{samples:.0}")
}

/// The library without its folders.
pub fn library(symbol: &ViewedSymbol) -> String {
    let name = symbol.library.rsplit('/').next().filter(|name| !name.is_empty());
    visible(name.unwrap_or(&symbol.library))
}

/// What stalled cycles are called here, as a share.
pub fn stalled_title(views: &EventViews) -> &'static str {
    match views.stalled.map(|at| views.events[at].kind) {
        Some(ViewedKind::Event) => "stalled, % of its cycles",
        _ => "waiting, % of its time",
    }
}

/// A stalled share with its interval.
pub fn stalled_text(share: &StalledShare) -> String {
    format!("{} ({} to {})", percent_text(share.value), percent_text(share.low), percent_text(share.high))
}

/// Why there are no regions.
pub const NO_REGIONS: &str = "The program marked no regions, or nothing is known of them: perf records none. \
    'memwall record -e EVENTS ./app' knows the regions that a program marks (docs/regions.md), and parallel regions of gcc's \
    OpenMP by themselves.";

/// What lies in no region.
pub const OUTSIDE: &str = "outside of all regions";
