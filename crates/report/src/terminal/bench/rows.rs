//! The table: one row per size, and only the columns that say something.

use machine::profile::Estimate;
use record::bench::{BackingPages, Bench, Point, Stopped};

use super::{cycles, ended_by, is_chain};
use crate::{
    layout::figures::{self, ROUGH_ABOVE, percent_text},
    layout::style::{PLAIN, WARNING},
    layout::table::{Cell, Column, Table},
};

/// How running text names the column of bandwidth with write-allocate.
pub(super) const MEMORY: &str = "memory bandwidth";
/// How running text names the column of the scatter of samples.
pub(super) const SPREAD: &str = "spread";
/// How running text names the column of the time of a pass.
pub(super) const PASS_TIME: &str = "pass time";
/// How running text names the column of time per access.
pub(super) const NS: &str = "ns per access";
/// How running text names the column of why the repeating ended.
pub(super) const ENDED_BY: &str = "ended by";
/// How running text names the column of cycles.
pub(super) const CYCLES: &str = "cycles";

/// Which columns a result needs.
pub(super) struct RowShape {
    /// Its answer is a latency.
    pub chain: bool,
    /// It loads or stores at all.
    pub moves_bytes: bool,
    /// The memory system moves other bytes than the program.
    pub memory_differs: bool,
    /// Sizes differ in their share of huge pages.
    pub mixed_pages: bool,
    /// Sizes differ in why they stopped.
    pub mixed_stops: bool,
    /// Times have a spread and an interval.
    pub samples: bool,
}

impl RowShape {
    pub(super) fn of(bench: &Bench) -> Self {
        let any = |test: fn(&Point) -> bool| bench.points.iter().any(test);
        let mut shares = bench.points.iter().filter_map(|point| huge_share(point.pages));
        let first = shares.next();
        Self {
            chain: is_chain(bench),
            moves_bytes: any(|point| point.work.program_bytes > 0.0),
            memory_differs: any(|point| point.work.memory_bytes != point.work.program_bytes),
            mixed_pages: shares.any(|share| Some(share) != first),
            mixed_stops: bench.points.windows(2).any(|pair| pair[0].stopped != pair[1].stopped),
            samples: bench.simulated.is_none(),
        }
    }
}

/// Share of the mapped bytes that is on huge pages; `None` if nothing is mapped.
pub(super) fn huge_share(pages: Option<BackingPages>) -> Option<f64> {
    let pages = pages?;
    (pages.total.0 > 0).then(|| pages.huge.0 as f64 / pages.total.0 as f64)
}

/// The table, whole; rendering leaves out what has no room.
pub(super) fn table(bench: &Bench) -> Table {
    let shape = RowShape::of(bench);
    let mut table = Table::new(columns(&shape));
    for point in &bench.points {
        table.row(row(bench, &shape, point));
    }
    table
}

fn columns(shape: &RowShape) -> Vec<Column> {
    // A chain is run for its latency, a stream for its bandwidth: the other goes first for want of room.
    let [pass, program, memory, ns, cycles] = if shape.chain { [3, 4, 5, 0, 2] } else { [5, 0, 2, 3, 4] };
    let per_access = if shape.chain { "latency" } else { "per access" };
    let both = shape.memory_differs;
    let (group, title) = if both { ("bandwidth, GB/s", "program") } else { ("bandwidth", "GB/s") };
    [
        Some(Column::new("size")),
        Some(Column::new(PASS_TIME).drop_rank(pass)),
        shape
            .moves_bytes
            .then(|| Column::new(title).called("program bandwidth").group(group).drop_rank(program)),
        (shape.moves_bytes && both)
            .then(|| Column::new("memory").called(MEMORY).group(group).drop_rank(memory)),
        Some(Column::new("ns").called(NS).group(per_access).drop_rank(ns)),
        Some(Column::new(CYCLES).group(per_access).drop_rank(cycles)),
        shape.samples.then(|| Column::new(SPREAD).group("% of median").drop_rank(7)),
        shape.samples.then(|| Column::new("±95 %").group("% of median")),
        shape.mixed_pages.then(|| Column::new("% huge").called("huge pages").group("pages").drop_rank(8)),
        shape.mixed_stops.then(|| Column::new(ENDED_BY).left().drop_rank(6)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The cells of [`columns`], in their order.
fn row(bench: &Bench, shape: &RowShape, point: &Point) -> Vec<Cell> {
    let gb = |bytes_per_s: f64| figures::number(Some(bytes_per_s / 1e9).filter(|&gb| gb > 0.0));
    [
        Some(point.size.to_string().into()),
        Some(figures::time(point.time_ns.value)),
        shape.moves_bytes.then(|| gb(point.program_bytes_per_s())),
        (shape.moves_bytes && shape.memory_differs).then(|| gb(point.memory_bytes_per_s())),
        Some(figures::number(point.ns_per_access(bench.cpus.len()))),
        Some(figures::number(cycles(bench, point))),
        shape.samples.then(|| figures::percent(point.noise.spread)),
        shape.samples.then(|| interval(&point.time_ns)),
        shape.mixed_pages.then(|| figures::percent(huge_share(point.pages))),
        shape.mixed_stops.then(|| ended(point.stopped)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Half the confidence interval in per cent; one sample has none.
fn interval(time: &Estimate) -> Cell {
    let precision = Some(time.precision()).filter(|precision| time.samples > 1 && precision.is_finite());
    match precision {
        Some(precision) if precision > ROUGH_ABOVE => Cell::styled(percent_text(precision), WARNING),
        precision => figures::percent(precision),
    }
}

fn ended(stopped: Stopped) -> Cell {
    let style = if stopped == Stopped::Interrupted { WARNING } else { PLAIN };
    Cell::styled(ended_by(stopped), style)
}
