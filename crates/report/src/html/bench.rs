//! The page of timed known work.

use record::bench::{Bench, Point};

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::conditions::{believable_hz, gigahertz},
    layout::plot::{Axis, PlottedQuantity, Scale},
    layout::prose::{counted, dotted},
    terminal::bench::{cycles, ended_by, is_chain, notes::notes},
};

/// A largest over a smallest value above this calls for a logarithmic axis.
const WIDE_RANGE: f64 = 8.0;

/// The page of a sweep, as one file.
pub fn bench(bench: &Bench) -> String {
    let curve = match is_chain(bench) {
        true => latency(bench),
        false => bandwidth(bench),
    };
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
    let notes: Vec<String> = match bench.points.is_empty() {
        true => Vec::new(),
        false => notes(bench, &[]).into_iter().map(|(_, note)| note).collect(),
    };
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
        data: Sheet { page: "sheet", tables: vec![table(bench)] },
    };
    page.render()
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

fn bandwidth(bench: &Bench) -> Curves {
    let rate = |bytes: f64, time: f64| (bytes > 0.0 && time > 0.0).then(|| bytes / time);
    let program = spots(bench, |point, time| rate(point.work.program_bytes, time));
    let memory = spots(bench, |point, time| rate(point.work.memory_bytes, time));
    let mut both = vec![Curve { name: "what the program sees".to_owned(), points: program }];
    if bench.points.iter().any(|point| point.work.memory_bytes != point.work.program_bytes) {
        both.push(Curve {
            name: "with write-allocate, true where no cache holds it".to_owned(),
            points: memory,
        });
    }
    curves("Bandwidth, GB/s", PlottedQuantity::GbPerS, both)
}

fn table(bench: &Bench) -> DataTable {
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
            rate(point.memory_bytes_per_s()),
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
