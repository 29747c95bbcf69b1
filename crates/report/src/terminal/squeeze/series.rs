//! A program squeezed several times: by how many of its processes share the cache, or by its input.

use machine::{squeezing::SqueezeKind, units::nanos};
use record::squeeze::{
    ProgramClass, SeriesMember, SqueezeCurve, SqueezeRun, SqueezeSeries, TimedBy, UseBounds,
};

use super::{HOW_OFTEN_RIGHT, amount};
use crate::{
    layout::figures::absent,
    layout::prose::{titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// What people read: one line for each value, the best mapping and why.
pub fn series(series: &SqueezeSeries, columns: usize) -> String {
    let mut out = titled(&series.program, &format!("squeezed by {}", series.varied), columns);
    out.push('\n');
    out += &table(series).render(columns).text;
    if let Some(best) = &series.best {
        let text = format!("{} around each cache: {}.", best.per_socket, best.why);
        out += &wrap("Best: ", &text, columns);
    }
    for member in &series.members {
        if let Some(why) = &member.failed {
            let text = format!("{} {}: {why}", series.varied, member.value);
            out += &wrap_in(WARNING, "• ", &text, columns);
        }
    }
    for sentence in refusals(series) {
        out += &wrap_in(WARNING, "• ", &sentence, columns);
    }
    let rule =
        "Uses are for each process. Losses are at the strongest interference of each kind that was measured.";
    for text in [rule, HOW_OFTEN_RIGHT].into_iter().chain(series.remarks.iter().map(String::as_str)) {
        out += &wrap_in(QUIET, "• ", text, columns);
    }
    out
}

/// Kinds that were not tried, and why; what is so for several values is said once.
pub(crate) fn refusals(series: &SqueezeSeries) -> Vec<String> {
    let mut alike: Vec<(SqueezeKind, &str, Vec<&str>)> = Vec::new();
    for member in &series.members {
        for curve in member.run.iter().flat_map(|run| SqueezeKind::ALL.map(|kind| run.curve(kind))) {
            let Some(why) = curve.refused.as_deref() else { continue };
            match alike.iter_mut().find(|(kind, known, _)| (*kind, *known) == (curve.kind, why)) {
                Some((_, _, values)) => values.push(&member.value),
                None => alike.push((curve.kind, why, vec![&member.value])),
            }
        }
    }
    let sentence = |(kind, why, values): (SqueezeKind, &str, Vec<&str>)| {
        format!("{} {}: no {kind} interference: {why}", series.varied, values.join(", "))
    };
    alike.into_iter().map(sentence).collect()
}

/// A class in a word or two.
pub(crate) fn class_word(class: ProgramClass) -> &'static str {
    match class {
        ProgramClass::LivesAbove => "lives above",
        ProgramClass::Overflows => "overflows",
        ProgramClass::Insensitive => "insensitive",
        ProgramClass::CacheSensitive => "cache",
        ProgramClass::BandwidthSensitive => "bandwidth",
        ProgramClass::Both => "both",
        ProgramClass::LosesToCache => "cache (bandwidth ?)",
        ProgramClass::LosesToBandwidth => "bandwidth (cache ?)",
        ProgramClass::CacheHarmless => "not cache",
        ProgramClass::BandwidthHarmless => "not bandwidth",
        ProgramClass::Undecided => "not decided",
    }
}

/// Loss at the strongest that was measured, as a share.
pub(crate) fn most_lost(curve: &SqueezeCurve) -> Option<f64> {
    let least = curve.points.iter().min_by(|a, b| a.left.value.total_cmp(&b.left.value))?;
    Some(least.slowdown.value - 1.0)
}

/// Bounds as a range.
pub(crate) fn range(curve: &SqueezeCurve) -> Option<String> {
    let amount = |value: f64| amount(curve.kind, value);
    Some(match curve.bounds? {
        UseBounds { at_least: Some(low), at_most: Some(high) } => {
            format!("{} to {}", amount(low), amount(high))
        }
        UseBounds { at_least: Some(low), at_most: None } => format!("more than {}", amount(low)),
        UseBounds { at_least: None, at_most: Some(high) } => format!("at most {}", amount(high)),
        UseBounds { .. } => return None,
    })
}

fn table(series: &SqueezeSeries) -> Table {
    let mut table = Table::new(vec![
        Column::new(series.varied.clone()).left(),
        Column::new("time alone"),
        Column::new("uses").group("cache"),
        Column::new("lost").group("cache"),
        Column::new("uses").group("bandwidth"),
        Column::new("lost").group("bandwidth"),
        Column::new("class").left().drop_rank(1),
    ]);
    for member in &series.members {
        table.row(row(member));
    }
    table
}

/// A time that the program printed is in a unit that only the program knows.
fn time_alone(member: &SeriesMember) -> Option<String> {
    let printed = member.run.as_ref().is_some_and(|run| matches!(run.timed_by, TimedBy::PrintedTime(_)));
    member.alone_ns.map(|time| if printed { format!("{time} as printed") } else { nanos(time) })
}

fn row(member: &SeriesMember) -> Vec<Cell> {
    let of = |kind: SqueezeKind, cell: fn(&SqueezeCurve) -> Option<String>| {
        member.run.as_ref().and_then(|run: &SqueezeRun| cell(run.curve(kind))).map_or_else(absent, Cell::from)
    };
    let lost = |curve: &SqueezeCurve| most_lost(curve).map(|lost| format!("{:.0} %", lost * 100.0));
    vec![
        member.value.clone().into(),
        time_alone(member).map_or_else(absent, Cell::from),
        of(SqueezeKind::Storage, range),
        of(SqueezeKind::Storage, lost),
        of(SqueezeKind::Bandwidth, range),
        of(SqueezeKind::Bandwidth, lost),
        member.run.as_ref().map_or_else(absent, |run| class_word(run.class).into()),
    ]
}
