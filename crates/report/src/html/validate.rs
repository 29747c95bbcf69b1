//! The page of a validation: verdicts to sort and filter, and events per access by data set size (as molka2017 Figures
//! 3 to 9).

use ::trust::{Judged, Sweep, Threshold, Trust, Validation};
use machine::units::significant;

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::plot::{Axis, PlottedQuantity, Scale},
    layout::prose::counted,
    terminal::validate::IndicatorSection,
};

/// More curves in one drawing cannot be told apart.
const MOST_CURVES: usize = 4;
/// Fewer events per access are none.
const SILENT: f64 = 0.002;
/// Curves that differ by no more than this part of their height coincide.
const ALIKE: f64 = 0.01;
/// The order in which indicators are drawn.
const TRUST_FIRST: [&str; 4] = ["trusted", "qualitative", "broken", "untested"];

/// The page, as one file.
pub fn validate(validation: &Validation) -> String {
    let notes = validation.steps.iter().map(|step| match &step.missing {
        Some(missing) => format!("{}: {missing}", step.name),
        None => format!("{}: {}", step.name, counted(step.experiments, "experiment")),
    });
    let body = Html::all([
        section("levels", "Best indicator of each level", [place("levels-table")]),
        section("verdicts", "Every indicator", [place("verdicts-table")]),
        section("thresholds", "Thresholds of this machine", [place("thresholds-table")]),
        section("curves", "Events per access, by data set size", figures(validation)),
        section("steps", "What was done", [list("notes", notes)]),
    ]);
    let page = PageFrame {
        title: "Validation".to_owned(),
        kind: "validation",
        subtitle: vec![validation.instrument.clone(), validation.fingerprint.cpu.clone()],
        contents: vec![
            ("levels", "Levels"),
            ("verdicts", "Indicators"),
            ("thresholds", "Thresholds"),
            ("curves", "Curves"),
            ("steps", "Steps"),
        ],
        body,
        data: Sheet {
            page: "sheet",
            tables: vec![levels(validation), verdicts(validation), thresholds(validation)],
        },
    };
    page.render()
}

/// Drawings per kernel and part of the machine, the most believable indicators first.
fn figures(validation: &Validation) -> Vec<Html> {
    if validation.sweeps.is_empty() {
        return vec![paragraph("quiet", "No sizes were swept; validate without --quick.")];
    }
    let mut kernels: Vec<&str> = validation.sweeps.iter().map(|sweep| sweep.kernel.as_str()).collect();
    kernels.dedup();
    let mut drawn = vec![paragraph(
        "quiet",
        "Events counted per load or store on one core, over the size of the data. An event that measures a level rises where \
         the data no longer fits into the level above it. Curves that coincide are drawn once.",
    )];
    for kernel in kernels {
        for section in IndicatorSection::ALL {
            drawn.extend(part(validation, kernel, section));
        }
    }
    drawn.extend(silent(validation));
    drawn
}

/// The drawings of one part of the machine.
fn part(validation: &Validation, kernel: &str, section: IndicatorSection) -> Vec<Html> {
    let mut here: Vec<(&Judged, &Sweep)> = validation
        .sweeps
        .iter()
        .filter(|sweep| sweep.kernel == kernel && !is_silent(sweep))
        .filter_map(|sweep| {
            Some((validation.indicators.iter().find(|one| one.name.name() == sweep.indicator)?, sweep))
        })
        .filter(|(judged, _)| IndicatorSection::of(judged) == section)
        .collect();
    here.sort_by_key(|(judged, _)| TRUST_FIRST.iter().position(|word| *word == judged.trust.word()));
    let mut together: Vec<(Vec<&str>, &Sweep)> = Vec::new();
    for (judged, sweep) in here {
        match together.iter_mut().find(|(_, other)| coincide(sweep, other)) {
            Some((names, _)) => names.push(judged.name.name()),
            None => together.push((vec![judged.name.name()], sweep)),
        }
    }
    let figure = |(number, some): (usize, &[(Vec<&str>, &Sweep)])| -> Option<Html> {
        let more = if number > 0 { ", continued" } else { "" };
        let curves = Curves {
            title: format!("{}{more}: events per access of {kernel}", section.title()),
            x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
            y: Axis { quantity: PlottedQuantity::PerAccess, scale: Scale::Linear },
            curves: some.iter().map(|(names, sweep)| curve(names, sweep)).collect(),
            guides: Vec::new(),
        };
        Some(Html::all([curves.figure()?].into_iter().chain(some.iter().filter_map(coinciding))))
    };
    together.chunks(MOST_CURVES).enumerate().filter_map(figure).collect()
}

/// Which indicators a curve stands for, if it is more than one.
fn coinciding((names, _): &(Vec<&str>, &Sweep)) -> Option<Html> {
    let (first, rest) = names.split_first().filter(|(_, rest)| !rest.is_empty())?;
    Some(paragraph("quiet", &format!("{first} coincides with {}.", rest.join(", "))))
}

/// Whether an indicator hardly counted at any size.
fn is_silent(sweep: &Sweep) -> bool {
    sweep.points.iter().all(|(_, events)| events.abs() < SILENT)
}

/// Whether two curves cannot be told apart in a drawing.
fn coincide(one: &Sweep, other: &Sweep) -> bool {
    let highest = one.points.iter().map(|(_, events)| events.abs()).fold(SILENT, f64::max);
    let near =
        |(a, b): (&(machine::Bytes, f64), &(machine::Bytes, f64))| (a.1 - b.1).abs() <= ALIKE * highest;
    one.points.len() == other.points.len() && one.points.iter().zip(&other.points).all(near)
}

/// What is not drawn because it lies on the axis.
fn silent(validation: &Validation) -> Option<Html> {
    let is_heard =
        |name: &str| validation.sweeps.iter().any(|sweep| sweep.indicator == name && !is_silent(sweep));
    let mut names: Vec<&str> = validation.sweeps.iter().map(|sweep| sweep.indicator.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !is_heard(name));
    (!names.is_empty())
        .then(|| paragraph("quiet", &format!("Hardly counted at any size: {}.", names.join(", "))))
}

fn curve(names: &[&str], sweep: &Sweep) -> Curve {
    let spot = |(size, y): &(machine::Bytes, f64)| Spot { x: size.0 as f64, y: *y, interval: None };
    let name = match names {
        [first, rest @ ..] if !rest.is_empty() => format!("{first} and {} more", rest.len()),
        names => names.concat(),
    };
    Curve { name, points: sweep.points.iter().map(spot).collect() }
}

fn levels(validation: &Validation) -> DataTable {
    let columns = [
        ("level", ColumnKind::Text),
        ("cores", ColumnKind::Count),
        ("indicator", ColumnKind::Text),
        ("trust", ColumnKind::Text),
        ("highest rate, M/s", ColumnKind::Number),
        ("lines, M/s", ColumnKind::Number),
        ("molka2017", ColumnKind::Text),
    ];
    let rows = validation.best.iter().map(|best| -> Vec<CellValue> {
        let paper = best.paper.as_ref().map(|paper| format!("{}: {}", paper.indicator, paper.trust.word()));
        vec![
            best.name().into(),
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
    let row = |one: &Judged| -> Vec<CellValue> {
        let (error, why) = match &one.trust {
            Trust::Trusted { error } => (Some(*error), one.remarks.join(" ")),
            Trust::Qualitative { tells, misses } => (None, format!("tells {tells}, but not {misses}")),
            Trust::Broken { why, shown_by, .. } => (None, format!("{why}; shown by {shown_by}")),
            Trust::Untested { missing } => (None, missing.clone()),
        };
        let error =
            error.map_or_else(|| "–".to_owned(), |error| format!("{} %", significant(error * 100.0, 2)));
        vec![
            one.name.to_string().into(),
            one.purpose.clone().into(),
            one.trust.word().to_owned().into(),
            error.into(),
            why.into(),
        ]
    };
    DataTable {
        id: "verdicts-table",
        caption: "Every indicator and what it is good for".to_owned(),
        columns: columns.map(|title| column(title, ColumnKind::Text)).to_vec(),
        rows: validation.indicators.iter().map(row).collect(),
    }
}

fn thresholds(validation: &Validation) -> DataTable {
    let columns = [
        ("indicator", ColumnKind::Text),
        ("above", ColumnKind::Number),
        ("unit", ColumnKind::Text),
        ("means", ColumnKind::Text),
        ("found with", ColumnKind::Text),
    ];
    let row = |one: &Threshold| -> Vec<CellValue> {
        vec![
            one.indicator.to_string().into(),
            one.value.into(),
            one.unit.clone().into(),
            one.means.clone().into(),
            one.how.clone().into(),
        ]
    };
    DataTable {
        id: "thresholds-table",
        caption: "Values above which an indicator means something here".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: validation.thresholds.iter().map(row).collect(),
    }
}
