//! The page of a program that cache and bandwidth were taken from.

mod calibration;
mod series;

use machine::squeezing::SqueezeKind;
use record::squeeze::{SlowdownPoint, SqueezeCurve, SqueezeEnd, SqueezeRun};

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::plot::{Axis, Guide, PlottedQuantity, Scale},
    layout::prose::{capitalised, counted, dotted},
    terminal::squeeze::{
        HOW_OFTEN_RIGHT, bounds_rule, bounds_sentence, class_sentence, crashes, harm, mixture_sentence,
        ordered, resource, timed_by,
    },
};

pub use calibration::calibration;
pub use series::series;

/// The page, as one file.
pub fn squeeze(run: &SqueezeRun) -> String {
    let body = Html::all([
        section("answer", "What it needs", answer(run)),
        section("cache", "With less cache", curve(&run.storage, run.processes, "cache-table")),
        section("bandwidth", "With less bandwidth", curve(&run.bandwidth, run.processes, "bandwidth-table")),
        section(
            "trust",
            "How the numbers were obtained, and how far to trust them",
            [list("notes", notes(run))],
        ),
    ]);
    let tables = [(&run.storage, "cache-table"), (&run.bandwidth, "bandwidth-table")];
    let page = PageFrame {
        title: run.program.clone(),
        kind: "squeeze",
        subtitle: vec![subtitle(run)],
        contents: vec![
            ("answer", "Needs"),
            ("cache", "Cache"),
            ("bandwidth", "Bandwidth"),
            ("trust", "Trust"),
        ],
        body,
        data: Sheet { page: "sheet", tables: tables.map(|(curve, id)| table(curve, id)).to_vec() },
    };
    page.render()
}

fn subtitle(run: &SqueezeRun) -> String {
    let mut parts: Vec<String> = run.simulated.iter().map(|name| format!("simulated {name}")).collect();
    parts.push(format!("program on CPUs {}", run.cpus));
    parts.push(format!("interference on {}", run.spare));
    parts.push(timed_by(&run.timed_by));
    parts.push(format!("{} in {:.0} s", counted(run.runs.len(), "run"), run.spent_s));
    parts.push(format!("seed {}", run.seed));
    dotted(parts.iter().map(String::as_str))
}

fn answer(run: &SqueezeRun) -> Vec<Html> {
    let mut said = vec![paragraph("verdict", &format!("Class: {}.", class_sentence(run.class)))];
    for kind in SqueezeKind::ALL {
        if let Some(sentence) = bounds_sentence(run.curve(kind), run.processes) {
            said.push(paragraph("", &format!("{}: {sentence}.", resource(kind))));
        }
    }
    if !run.parts.is_empty() {
        said.push(paragraph("", &format!("It behaves like: {}.", mixture_sentence(&run.parts))));
    }
    said.extend(run.evidence.iter().map(|sentence| paragraph("", sentence)));
    let warning = match run.ended {
        SqueezeEnd::Told => None,
        SqueezeEnd::Budget => Some("The budget was spent before all was told."),
        SqueezeEnd::Rounds => Some("Some strengths stay open: the runs differ too much among themselves."),
        SqueezeEnd::Interrupted => Some("Interrupted: what was measured until then is shown."),
    };
    said.extend(warning.map(|text| paragraph("warning", text)));
    said
}

fn curve(curve: &SqueezeCurve, processes: usize, table: &'static str) -> Vec<Html> {
    if let Some(refused) = &curve.refused {
        return vec![paragraph("warning", refused)];
    }
    let figure = figure(curve, processes).figure().unwrap_or_else(|| match curve.points.len() {
        0 => paragraph("quiet", "Nothing was measured."),
        n => paragraph("quiet", &format!("{} measured: too few for a curve.", counted(n, "strength"))),
    });
    vec![figure, place(table)]
}

fn figure(curve: &SqueezeCurve, processes: usize) -> Curves {
    let (unit, quantity) = match curve.kind {
        SqueezeKind::Storage => (1.0, PlottedQuantity::Bytes),
        SqueezeKind::Bandwidth => (1e9, PlottedQuantity::GbPerS),
    };
    let spot = |point: &SlowdownPoint| Spot {
        x: point.left.value / unit,
        y: point.slowdown.value,
        interval: (point.slowdown.samples > 1).then_some((point.slowdown.low, point.slowdown.high)),
    };
    let mut points: Vec<Spot> = curve.points.iter().map(spot).collect();
    if !points.is_empty() {
        points.extend(curve.whole.map(|whole| Spot { x: whole / unit, y: 1.0, interval: None }));
    }
    let each = processes.max(1) as f64;
    let ends = curve.bounds.into_iter().flat_map(|bounds| {
        [bounds.at_least.map(|low| (low, "at least")), bounds.at_most.map(|high| (high, "at most"))]
    });
    Curves {
        title: format!("Time over time alone, by {} left", curve.kind),
        x: Axis { quantity, scale: Scale::Linear },
        y: Axis { quantity: PlottedQuantity::Ratio, scale: Scale::Linear },
        curves: vec![Curve { name: "slowdown".to_owned(), points }],
        guides: ends
            .flatten()
            .map(|(at, name)| Guide { x: at * each / unit, name: name.to_owned() })
            .collect(),
        limits: Vec::new(),
    }
}

fn table(curve: &SqueezeCurve, id: &'static str) -> DataTable {
    let (kind, unit, title) = match curve.kind {
        SqueezeKind::Storage => (ColumnKind::Bytes, 1.0, "cache left"),
        SqueezeKind::Bandwidth => (ColumnKind::Number, 1e9, "bandwidth left, GB/s"),
    };
    let columns = [
        (title, kind),
        ("least", kind),
        ("most", kind),
        ("slowdown", ColumnKind::Number),
        ("from", ColumnKind::Number),
        ("to", ColumnKind::Number),
        ("rounds", ColumnKind::Count),
        ("verdict", ColumnKind::Text),
    ];
    let row = |point: &&SlowdownPoint| -> Vec<CellValue> {
        vec![
            (point.left.value / unit).into(),
            (point.left.low / unit).into(),
            (point.left.high / unit).into(),
            point.slowdown.value.into(),
            point.slowdown.low.into(),
            point.slowdown.high.into(),
            (point.slowdown.samples as f64).into(),
            harm(point.verdict).to_owned().into(),
        ]
    };
    DataTable {
        id,
        caption: format!("Slowdown by {title}"),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: ordered(curve).iter().map(row).collect(),
    }
}

fn notes(run: &SqueezeRun) -> Vec<String> {
    let crashes = crashes(run).into_iter().map(|sentence| format!("{}.", capitalised(&sentence)));
    let rule = format!("Harm is more than {:.0} % of the time alone. {}", run.harm * 100.0, bounds_rule(run));
    crashes.chain([rule, HOW_OFTEN_RIGHT.to_owned()]).chain(run.remarks.iter().cloned()).collect()
}
