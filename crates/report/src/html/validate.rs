//! The page of a validation: verdicts to sort and filter, and events per access by data set size (as molka2017 Figures
//! 3 to 9).

use machine::units::significant;
use record::validate::{Judged, Sweep, Trust, Validation};

use super::{
    curve::{Curve, Curves, Spot},
    frame::Page,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{DataTable, Kind, Value, column, place},
};
use crate::{
    plot::{Axis, Quantity, Scale},
    prose::counted,
    validate::SECTIONS,
};

/// More curves in one drawing cannot be told apart.
const MOST_CURVES: usize = 8;

/// The page, as one file.
pub fn validate(validation: &Validation) -> String {
    let notes = validation.steps.iter().map(|step| match &step.missing {
        Some(missing) => format!("{}: {missing}", step.name),
        None => format!("{}: {}", step.name, counted(step.experiments, "experiment")),
    });
    let body = Html::all([
        section("levels", "Best indicator of each level", [place("levels-table")]),
        section("verdicts", "Every indicator", [place("verdicts-table")]),
        section("curves", "Events per access, by data set size", figures(validation)),
        section("steps", "What was done", [list("notes", notes)]),
    ]);
    let page = Page {
        title: "Validation".to_owned(),
        kind: "bench",
        subtitle: vec![validation.instrument.clone(), validation.fingerprint.cpu.clone()],
        contents: vec![
            ("levels", "Levels"),
            ("verdicts", "Indicators"),
            ("curves", "Curves"),
            ("steps", "Steps"),
        ],
        body,
        data: Sheet { page: "sheet", tables: vec![levels(validation), verdicts(validation)] },
    };
    page.render()
}

/// One drawing per kernel and part of the machine.
fn figures(validation: &Validation) -> Vec<Html> {
    if validation.sweeps.is_empty() {
        return vec![paragraph("quiet", "No sizes were swept; validate without --quick.")];
    }
    let mut kernels: Vec<&str> = validation.sweeps.iter().map(|sweep| sweep.kernel.as_str()).collect();
    kernels.dedup();
    let mut drawn = Vec::new();
    for kernel in kernels {
        for (title, quantities) in SECTIONS {
            let here = |sweep: &&Sweep| {
                let judged = validation.indicators.iter().find(|one| one.name == sweep.indicator);
                sweep.kernel == kernel
                    && judged.is_some_and(|one| quantities.contains(&one.quantity.as_str()))
            };
            let all: Vec<Curve> = validation.sweeps.iter().filter(here).map(curve).collect();
            for (part, some) in all.chunks(MOST_CURVES).enumerate() {
                let more = if part > 0 { ", continued" } else { "" };
                let curves = Curves {
                    title: format!("{title}{more}: events per access of {kernel}"),
                    x: Axis { quantity: Quantity::Bytes, scale: Scale::Log },
                    y: Axis { quantity: Quantity::Nanos, scale: Scale::Linear },
                    curves: some.to_vec(),
                    guides: Vec::new(),
                };
                drawn.extend(curves.figure());
            }
        }
    }
    drawn
}

fn curve(sweep: &Sweep) -> Curve {
    let spot = |(size, y): &(machine::Bytes, f64)| Spot { x: size.0 as f64, y: *y, interval: None };
    Curve { name: sweep.indicator.clone(), points: sweep.points.iter().map(spot).collect() }
}

fn levels(validation: &Validation) -> DataTable {
    let columns = [
        ("level", Kind::Text),
        ("cores", Kind::Count),
        ("indicator", Kind::Text),
        ("trust", Kind::Text),
        ("highest rate, M/s", Kind::Number),
        ("lines, M/s", Kind::Number),
        ("molka2017", Kind::Text),
    ];
    let rows = validation.best.iter().map(|best| -> Vec<Value> {
        let paper = best.paper.as_ref().map(|paper| format!("{}: {}", paper.indicator, paper.trust.word()));
        vec![
            format!("{} {}", best.level.name(), best.direction).into(),
            (best.cores as f64).into(),
            best.indicator.clone().unwrap_or_else(|| "none found fit".to_owned()).into(),
            best.trust.as_ref().map_or("–", Trust::word).to_owned().into(),
            best.events_per_s.map(|rate| rate / 1e6).into(),
            (best.lines_per_s / 1e6).into(),
            paper.unwrap_or_else(|| "the same, or none".to_owned()).into(),
        ]
    });
    DataTable {
        id: "levels-table",
        caption: "Best indicator of each level, and its highest rate".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}

fn verdicts(validation: &Validation) -> DataTable {
    let columns = ["indicator", "for", "trust", "worst error", "why"];
    let row = |one: &Judged| -> Vec<Value> {
        let (error, why) = match &one.trust {
            Trust::Trusted { error } => (Some(*error), one.remarks.join(" ")),
            Trust::Qualitative { tells, misses } => (None, format!("tells {tells}, but not {misses}")),
            Trust::Broken { why, shown_by, .. } => (None, format!("{why}; shown by {shown_by}")),
            Trust::Untested { missing } => (None, missing.clone()),
        };
        let error =
            error.map_or_else(|| "–".to_owned(), |error| format!("{} %", significant(error * 100.0, 2)));
        vec![
            one.name.clone().into(),
            one.purpose.clone().into(),
            one.trust.word().to_owned().into(),
            error.into(),
            why.into(),
        ]
    };
    DataTable {
        id: "verdicts-table",
        caption: "Every indicator and what it is good for".to_owned(),
        columns: columns.map(|title| column(title, Kind::Text)).to_vec(),
        rows: validation.indicators.iter().map(row).collect(),
    }
}
