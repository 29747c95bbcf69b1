//! The page of timed known work.

use machine::{
    Bytes, Profile,
    profile::{Bandwidths, Estimate, LevelName, ProfileLevel},
    units::{gb_per_s, nanos},
};
use record::bench::{Bench, Point};

use super::{
    curve::{Curve, Curves, LimitLine, Spot},
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::conditions::{believable_hz, gigahertz},
    layout::plot::{Axis, Guide, PlottedQuantity, Scale},
    layout::prose::{counted, dotted},
    terminal::bench::{cycles, ended_by, is_chain, notes::notes},
    terminal::run::limits::name,
};

/// A largest over a smallest value above this calls for a logarithmic axis.
const WIDE_RANGE: f64 = 8.0;

/// What is known of the machine that it ran on.
#[derive(Clone, Copy, Debug, Default)]
pub struct BenchMachine<'a> {
    /// Its profile, if it was calibrated.
    pub profile: Option<&'a Profile>,
    /// What its caches claim to hold, all that one core reaches together; for want of a profile.
    pub claimed: Option<Bytes>,
}

impl BenchMachine<'_> {
    /// Caches and memory with what `threads` of them hold together.
    fn levels(&self, threads: usize) -> Vec<(&ProfileLevel, Option<Estimate>)> {
        let together = |level: &ProfileLevel| {
            let each = level.usable?;
            let caches = level.shared_by.filter(|by| *by > 0).map_or(1, |by| threads.div_ceil(by)) as f64;
            let [value, low, high] = [each.value, each.low, each.high].map(|bytes| bytes * caches);
            Some(Estimate { value, low, high, ..each })
        };
        let levels = self.profile.map_or(&[][..], |profile| &profile.levels);
        levels.iter().map(|level| (level, together(level))).collect()
    }

    /// No cache holds data sets above this; none if that is not known.
    fn held_by_none(&self, threads: usize) -> Option<f64> {
        let is_cache =
            |level: &&(&ProfileLevel, Option<Estimate>)| matches!(level.0.name, LevelName::Cache(_));
        let levels = self.levels(threads);
        let last = levels.iter().rfind(is_cache).and_then(|(_, held)| *held);
        last.map(|held| held.high.max(held.value))
            .or(self.claimed.map(|bytes| (bytes.0 * threads as u64) as f64))
    }
}

/// The page of a sweep, as one file.
pub fn bench(bench: &Bench, machine: &BenchMachine<'_>) -> String {
    let mut curve = match is_chain(bench) {
        true => latency(bench),
        false => bandwidth(bench, machine),
    };
    curve.guides = guides(bench, machine);
    curve.limits = limits(bench, machine);
    let has_limits = !curve.limits.is_empty();
    let curve = curve.figure().unwrap_or_else(|| match bench.points.len() {
        0 => paragraph("quiet", "Nothing was measured."),
        n => paragraph("quiet", &format!("{} measured: too few for a curve.", counted(n, "size"))),
    });
    let mut said = Vec::new();
    if bench.interrupted {
        let text =
            format!("Interrupted: {} measured, the rest was not.", counted(bench.points.len(), "size"));
        said.push(paragraph("warning", &text));
    }
    let mut notes: Vec<String> = match bench.points.is_empty() {
        true => Vec::new(),
        false => notes(bench, &[]).into_iter().map(|(_, note)| note).collect(),
    };
    notes.push(drawn_in(machine, has_limits).to_owned());
    let body = Html::all([
        section(
            "curve",
            if is_chain(bench) { "Latency" } else { "Bandwidth" },
            said.into_iter().chain([curve]),
        ),
        section("numbers", "Every size", [place("points-table")]),
        section("trust", "How the numbers were obtained, and how far to trust them", [list("notes", notes)]),
    ]);
    let page = PageFrame {
        title: bench.kernel.clone(),
        kind: "bench",
        subtitle: vec![bench.summary.clone(), subtitle(bench)],
        contents: vec![("curve", "Curve"), ("numbers", "Numbers"), ("trust", "Trust")],
        body,
        data: Sheet { page: "sheet", tables: vec![table(bench, machine)] },
    };
    page.render()
}

fn drawn_in(machine: &BenchMachine<'_>, has_limits: bool) -> &'static str {
    match (machine.profile, has_limits) {
        (None, _) => {
            "the machine was not calibrated: 'memwall calibrate' would draw its levels and limits into the curve"
        }
        (Some(_), true) => {
            "dotted: capacities that were measured; dashed: what calibration measured at each level"
        }
        (Some(_), false) => {
            "dotted: capacities that were measured; limits are known for one core and for all cores only, and this ran on others"
        }
    }
}

fn guides(bench: &Bench, machine: &BenchMachine<'_>) -> Vec<Guide> {
    let levels = machine.levels(bench.cpus.len());
    let guide = |(level, held): &(&ProfileLevel, Option<Estimate>)| {
        Some(Guide { x: held.as_ref()?.value, name: name(&level.name) })
    };
    levels.iter().filter_map(guide).collect()
}

/// What each level gave when it was calibrated, over the sizes that live there.
fn limits(bench: &Bench, machine: &BenchMachine<'_>) -> Vec<LimitLine> {
    let Some(profile) = machine.profile else { return Vec::new() };
    let threads = bench.cpus.len();
    let mut from = 0.0;
    let mut lines = Vec::new();
    for (level, held) in machine.levels(threads) {
        let to = held.map_or(f64::INFINITY, |held| held.value);
        let is_far = matches!(level.name, LevelName::Memory { local: false, .. });
        let limit = limit(bench, level, threads, profile.cpus.len()).filter(|_| !is_far);
        lines.extend(limit.map(|(y, words)| LimitLine {
            from,
            to,
            y,
            name: format!("{} {words}", name(&level.name)),
        }));
        from = if to.is_finite() { to } else { from };
    }
    lines
}

/// The height of one level's limit and its words.
fn limit(bench: &Bench, level: &ProfileLevel, threads: usize, cores: usize) -> Option<(f64, String)> {
    if is_chain(bench) {
        let latency = level.latency_ns?.value;
        return Some((latency, nanos(latency)));
    }
    let Bandwidths { load, store, copy } = match threads {
        1 => level.one_core,
        threads if threads == cores => level.all_cores,
        _ => return None,
    };
    let (what, rate) = match bench.kernel.as_str() {
        "load" => ("load", load),
        "store" => ("store", store),
        _ => ("copy", copy),
    };
    let rate = rate?.value;
    Some((rate / 1e9, format!("{what} {}", gb_per_s(rate))))
}

fn subtitle(bench: &Bench) -> String {
    let mut parts: Vec<String> = bench.simulated.iter().map(|name| format!("simulated {name}")).collect();
    parts.push(format!("width {}", bench.width));
    parts.push(match bench.cpus.len() {
        1 => format!("one thread on CPU {}", bench.cpus),
        n => format!("{n} threads on CPUs {}", bench.cpus),
    });
    parts.push(match bench.node {
        Some(node) => format!("memory of node {node}"),
        None => "memory not bound to a node".to_owned(),
    });
    parts.extend(bench.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    parts.extend(believable_hz(bench.clock.as_ref()).map(gigahertz));
    parts.push(format!("seed {}", bench.seed));
    dotted(parts.iter().map(String::as_str))
}

fn scale(curve: &Curve) -> Scale {
    let low = curve.points.iter().map(|spot| spot.y).fold(f64::INFINITY, f64::min);
    let high = curve.points.iter().map(|spot| spot.y).fold(0.0, f64::max);
    if high > WIDE_RANGE * low { Scale::Log } else { Scale::Linear }
}

fn curves(title: &str, quantity: PlottedQuantity, curves: Vec<Curve>) -> Curves {
    let scale = curves.first().map_or(Scale::Linear, scale);
    let how = if scale == Scale::Log { " (log scale)" } else { "" };
    Curves {
        title: format!("{title}{how}, by data set size"),
        x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
        y: Axis { quantity, scale },
        curves,
        guides: Vec::new(),
        limits: Vec::new(),
    }
}

/// Times become values by `value`, which falls or rises with them.
fn spots(bench: &Bench, value: impl Fn(&Point, f64) -> Option<f64>) -> Vec<Spot> {
    let spot = |point: &Point| {
        let time = &point.time_ns;
        let ends = value(point, time.low).zip(value(point, time.high));
        let interval = ends.filter(|_| time.samples > 1).map(|(a, b)| (a.min(b), a.max(b)));
        Some(Spot { x: point.size.0 as f64, y: value(point, time.value)?, interval })
    };
    bench.points.iter().filter_map(spot).collect()
}

fn latency(bench: &Bench) -> Curves {
    let threads = bench.cpus.len();
    let value = |point: &Point, time: f64| Some(point.ns_per_access(threads)? * time / point.time_ns.value);
    let curve = Curve { name: "latency".to_owned(), points: spots(bench, value) };
    curves("Latency, ns", PlottedQuantity::Nanos, vec![curve])
}

fn bandwidth(bench: &Bench, machine: &BenchMachine<'_>) -> Curves {
    let rate = |bytes: f64, time: f64| (bytes > 0.0 && time > 0.0).then(|| bytes / time);
    let program = spots(bench, |point, time| rate(point.work.program_bytes, time));
    // In a cache lines are written without being read first from memory.
    let beyond = machine.held_by_none(bench.cpus.len());
    let memory = spots(bench, |point, time| {
        rate(point.work.memory_bytes, time).filter(|_| beyond.is_some_and(|held| point.size.0 as f64 > held))
    });
    let mut both = vec![Curve { name: "what the program sees".to_owned(), points: program }];
    let differs = bench.points.iter().any(|point| point.work.memory_bytes != point.work.program_bytes);
    if differs && !memory.is_empty() {
        both.push(Curve { name: "with write-allocate, where no cache holds it".to_owned(), points: memory });
    }
    curves("Bandwidth, GB/s", PlottedQuantity::GbPerS, both)
}

fn table(bench: &Bench, machine: &BenchMachine<'_>) -> DataTable {
    let beyond = machine.held_by_none(bench.cpus.len());
    let columns = [
        ("size", ColumnKind::Bytes),
        ("pass", ColumnKind::Nanos),
        ("program, GB/s", ColumnKind::Number),
        ("memory, GB/s", ColumnKind::Number),
        (if is_chain(bench) { "latency, ns" } else { "per access, ns" }, ColumnKind::Number),
        ("cycles", ColumnKind::Number),
        ("samples", ColumnKind::Count),
        ("spread", ColumnKind::Share),
        ("±95 %", ColumnKind::Share),
        ("ended by", ColumnKind::Text),
    ];
    let row = |point: &Point| -> Vec<CellValue> {
        let rate = |bytes_per_s: f64| CellValue::from(Some(bytes_per_s / 1e9).filter(|&gb| gb > 0.0));
        let precision = Some(point.time_ns.precision()).filter(|_| point.time_ns.samples > 1);
        vec![
            (point.size.0 as f64).into(),
            point.time_ns.value.into(),
            rate(point.program_bytes_per_s()),
            match beyond.is_some_and(|held| point.size.0 as f64 > held) {
                true => rate(point.memory_bytes_per_s()),
                false => CellValue::Absent(()),
            },
            point.ns_per_access(bench.cpus.len()).into(),
            cycles(bench, point).into(),
            (point.time_ns.samples as f64).into(),
            point.noise.spread.into(),
            precision.into(),
            ended_by(point.stopped).to_owned().into(),
        ]
    };
    DataTable {
        id: "points-table",
        caption: format!("{} by size", bench.kernel),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: bench.points.iter().map(row).collect(),
    }
}
