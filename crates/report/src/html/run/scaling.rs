//! Runs with several numbers of threads.

use analysis::scaling::{ScalingFindings, ScalingPoint, ScalingSpread};

use crate::html::{
    markup::{Html, paragraph, section, shown},
    tables::{CellValue, ColumnKind, DataTable, column, place},
};

/// Where the table goes; nothing of a program that was run once.
pub(super) fn html(scaling: Option<&ScalingFindings>) -> Html {
    let Some(found) = scaling else { return Html::default() };
    let what = "The program with different numbers of threads, which took turns: the middle of the runs. Ratios are of runs right \
                after each other, over those with the fewest threads.";
    let remarks = found.remarks.iter().map(|remark| paragraph("quiet", &shown(remark)));
    let parts = [paragraph("quiet", what), place("scaling-table")].into_iter().chain(remarks);
    section("scaling", "Scaling", parts.collect::<Vec<_>>())
}

/// One row for each number of threads.
pub(super) fn table(scaling: Option<&ScalingFindings>) -> Option<DataTable> {
    let columns = [
        ("threads", ColumnKind::Count),
        ("runs", ColumnKind::Count),
        ("disturbed", ColumnKind::Count),
        ("time", ColumnKind::Nanos),
        ("shortest", ColumnKind::Nanos),
        ("longest", ColumnKind::Nanos),
        ("efficiency, %", ColumnKind::Share),
        ("from", ColumnKind::Share),
        ("to", ColumnKind::Share),
        ("memory, % of user time", ColumnKind::Share),
        ("for others, % of user time", ColumnKind::Share),
        ("imbalance, %", ColumnKind::Share),
    ];
    let row = |point: &ScalingPoint| -> Vec<CellValue> {
        let value = |spread: Option<ScalingSpread>| spread.map(|spread| spread.value).into();
        vec![
            f64::from(point.threads).into(),
            (point.runs as f64).into(),
            (point.spoilt as f64).into(),
            point.elapsed_ns.value.into(),
            point.elapsed_ns.low.into(),
            point.elapsed_ns.high.into(),
            value(point.efficiency),
            point.efficiency.map(|spread| spread.low).into(),
            point.efficiency.map(|spread| spread.high).into(),
            value(point.memory),
            value(point.synchronising),
            value(point.imbalance),
        ]
    };
    scaling.map(|found| DataTable {
        id: "scaling-table",
        caption: "Numbers of threads".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: found.points.iter().map(row).collect(),
    })
}
