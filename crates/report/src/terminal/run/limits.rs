//! The program beside what its machine was measured to give.

use analysis::findings::{KnownLimits, LevelLimit, LimitFindings, StreamLimit};
use machine::{Bytes, profile::LevelName};

use crate::{
    layout::figures::{absent, number, percent_text},
    layout::prose::{wrap, wrap_in},
    layout::style::{HEADING, QUIET},
    layout::table::{Column, Table},
};

/// Streams against the machine's bandwidth, then the machine's levels; of a file that was imported it is another machine.
pub fn text(limits: &LimitFindings, is_import: bool, columns: usize) -> String {
    let whose = if is_import { "that" } else { "this" };
    let heading = format!("Against {whose} machine's measured limits");
    let mut out = wrap_in(HEADING, "", &heading, columns);
    match &limits.streams {
        KnownLimits::Value(streams) => out += &wrap("  ", &stream_sentence(streams), columns),
        KnownLimits::Missing(reason) => out += &wrap_in(QUIET, "  ", &sentence("Bandwidth", reason), columns),
    }
    match &limits.levels {
        KnownLimits::Missing(reason) => out += &wrap_in(QUIET, "  ", &sentence("Levels", reason), columns),
        KnownLimits::Value(levels) => out += &table(levels, columns),
    }
    out
}

pub(crate) fn sentence(what: &str, reason: &str) -> String {
    format!("{what}: not known, {}.", reason.trim_end_matches('.'))
}

pub(crate) fn stream_sentence(streams: &StreamLimit) -> String {
    let rate = |bytes_per_s: f64| format!("{:.1} GB/s", bytes_per_s / 1e9);
    let mut text = format!(
        "Streams advance by about {} per thread ({} to {}), {} together",
        rate(streams.per_thread.bytes_per_s),
        rate(streams.per_thread.low),
        rate(streams.per_thread.high),
        rate(streams.together_bytes_per_s)
    );
    match (&streams.limit_bytes_per_s, streams.of_limit) {
        (KnownLimits::Value(limit), Some(share)) => {
            text += &format!(
                ": {} % of the {} {} gave such a mix of loads and stores.",
                percent_text(share),
                rate(*limit),
                giver(streams)
            );
        }
        (KnownLimits::Missing(reason), _) => {
            text += &format!("; the machine's limit is not known, {reason}.")
        }
        (KnownLimits::Value(_), None) => text.push('.'),
    }
    text
}

/// Who gives it: `this machine's L3`.
pub(crate) fn giver(streams: &StreamLimit) -> String {
    streams
        .level
        .map_or_else(|| "this machine".to_owned(), |level| format!("this machine's {}", level.label()))
}

/// The same in a line: all threads together, and how much of what the machine gave that is.
pub(super) fn short_stream_sentence(streams: &StreamLimit) -> String {
    let rate = |bytes_per_s: f64| format!("{:.1} GB/s", bytes_per_s / 1e9);
    let together = rate(streams.together_bytes_per_s);
    match (&streams.limit_bytes_per_s, streams.of_limit) {
        (KnownLimits::Value(limit), Some(share)) => {
            format!(
                "streams {together}: {} % of the {} {} gave",
                percent_text(share),
                rate(*limit),
                giver(streams)
            )
        }
        _ => format!("streams {together}; how much memory could give was not measured"),
    }
}

pub(crate) fn name(level: &LevelName) -> String {
    match level {
        LevelName::Cache(number) => format!("L{number}"),
        LevelName::Memory { local: true, .. } => "memory".to_owned(),
        LevelName::Memory { node, .. } => format!("memory of node {node}"),
    }
}

/// One line: what a load that has to be waited for costs at each level.
pub(super) fn latencies(levels: &[LevelLimit]) -> String {
    let known = levels.iter().filter_map(|level| {
        level.latency_ns.map(|ns| format!("{} {ns:.*} ns", name(&level.name), usize::from(ns < 10.0)))
    });
    let known: Vec<_> = known.collect();
    if known.is_empty() {
        return "Latencies of this machine were not measured.".to_owned();
    }
    format!("A load that must be waited for costs here: {}.", known.join(", "))
}

fn table(levels: &[LevelLimit], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("level").left(),
        Column::new("usable").drop_rank(2),
        Column::new("latency ns"),
        Column::new("one core").group("loads, GB/s").drop_rank(1),
        Column::new("all cores").group("loads, GB/s").drop_rank(1),
    ]);
    for level in levels {
        let giga = |rate: Option<f64>| number(rate.map(|rate| rate / 1e9));
        table.row(vec![
            name(&level.name).into(),
            level.usable_bytes.map_or_else(absent, |bytes| Bytes(bytes as u64).to_string().into()),
            number(level.latency_ns),
            giga(level.one_core_bytes_per_s),
            giga(level.all_cores_bytes_per_s),
        ]);
    }
    table.render(columns).text
}
