//! The page of a program that was squeezed several times.

use machine::squeezing::SqueezeKind;
use record::squeeze::{SeriesMember, SqueezeSeries, TimedBy};

use super::figure;
use crate::{
    html::{
        curve::Curves,
        frame::PageFrame,
        markup::{Html, list, paragraph, section},
        profile::Sheet,
        tables::{CellValue, ColumnKind, DataTable, column, place},
    },
    terminal::squeeze::{HOW_OFTEN_RIGHT, class_word, most_lost, range, refusals},
};

/// Curves that one drawing holds.
const MOST_CURVES: usize = 4;

/// The page, as one file.
pub fn series(series: &SqueezeSeries) -> String {
    let notes: Vec<String> =
        std::iter::once(HOW_OFTEN_RIGHT.to_owned()).chain(series.remarks.iter().cloned()).collect();
    let body = Html::all([
        section("answer", "By value", answer(series)),
        section("cache", "With less cache", curves(series, SqueezeKind::Storage)),
        section("bandwidth", "With less bandwidth", curves(series, SqueezeKind::Bandwidth)),
        section("trust", "How far to trust the numbers", [list("notes", notes)]),
    ]);
    PageFrame {
        title: series.program.clone(),
        kind: "squeeze",
        subtitle: vec![format!("squeezed by {}", series.varied)],
        contents: vec![
            ("answer", "By value"),
            ("cache", "Cache"),
            ("bandwidth", "Bandwidth"),
            ("trust", "Trust"),
        ],
        body,
        data: Sheet { page: "sheet", tables: vec![table(series)] },
    }
    .render()
}

fn answer(series: &SqueezeSeries) -> Vec<Html> {
    let mut said = Vec::new();
    if let Some(best) = &series.best {
        said.push(paragraph(
            "verdict",
            &format!("Best: {} around each cache: {}.", best.per_socket, best.why),
        ));
    }
    let failed = series.members.iter().filter_map(|member| Some((member, member.failed.as_ref()?)));
    said.extend(
        failed
            .map(|(member, why)| paragraph("warning", &format!("{} {}: {why}", series.varied, member.value))),
    );
    said.extend(refusals(series).iter().map(|why| paragraph("warning", why)));
    said.push(place("series-table"));
    said
}

fn curves(series: &SqueezeSeries, kind: SqueezeKind) -> Vec<Html> {
    let all = series.members.iter().filter_map(|member| Some((member, member.run.as_ref()?)));
    let mut drawn: Option<Curves> = None;
    for (member, run) in all.filter(|(_, run)| !run.curve(kind).points.is_empty()).take(MOST_CURVES) {
        let mut one = figure(run.curve(kind), run.processes);
        one.guides.clear();
        one.curves.iter_mut().for_each(|curve| curve.name = format!("{} {}", series.varied, member.value));
        match &mut drawn {
            None => drawn = Some(one),
            Some(drawn) => drawn.curves.extend(one.curves),
        }
    }
    let figure = drawn.and_then(|curves| curves.figure());
    vec![figure.unwrap_or_else(|| paragraph("quiet", "Nothing was measured, or too little for a curve."))]
}

fn table(series: &SqueezeSeries) -> DataTable {
    let columns = [
        (series.varied.as_str(), ColumnKind::Text),
        ("time alone", ColumnKind::Nanos),
        ("cache used", ColumnKind::Text),
        ("lost with least cache", ColumnKind::Share),
        ("bandwidth used", ColumnKind::Text),
        ("lost with least bandwidth", ColumnKind::Share),
        ("class", ColumnKind::Text),
    ];
    let row = |member: &SeriesMember| -> Vec<CellValue> {
        let run = member.run.as_ref();
        // Only the program knows the unit of what it prints.
        let printed = run.is_some_and(|run| matches!(run.timed_by, TimedBy::PrintedTime(_)));
        let used = |kind| -> CellValue {
            run.and_then(|run| range(run.curve(kind))).unwrap_or_else(|| "not known".to_owned()).into()
        };
        let lost = |kind| -> CellValue { run.and_then(|run| most_lost(run.curve(kind))).into() };
        vec![
            member.value.clone().into(),
            member.alone_ns.filter(|_| !printed).into(),
            used(SqueezeKind::Storage),
            lost(SqueezeKind::Storage),
            used(SqueezeKind::Bandwidth),
            lost(SqueezeKind::Bandwidth),
            run.map_or("not measured", |run| class_word(run.class)).to_owned().into(),
        ]
    };
    DataTable {
        id: "series-table",
        caption: format!("By {}", series.varied),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: series.members.iter().map(row).collect(),
    }
}
