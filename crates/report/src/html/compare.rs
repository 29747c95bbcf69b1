//! The page of a comparison: the sentence, the whole program, every function to sort and filter.

use analysis::compare::{CompareRow, ComparedChange, Comparison};

use super::{
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::layout::{
    change::{cause, sentence, sides},
    figures::percent_text,
};

/// The page, as one file.
pub fn compare(comparison: &Comparison) -> String {
    let parts = comparison
        .causes
        .iter()
        .map(|part| format!("{} % of the change: {}", percent_text(part.share), cause(&part.cause)));
    let body = Html::all([
        section(
            "answer",
            "What changed",
            [paragraph("verdict", &sentence(comparison)), list("notes", parts)],
        ),
        section("whole", "Whole program", [place("whole-table")]),
        section("functions", "Functions, user time", [place("functions-table")]),
        section("remarks", "Keep in mind", [list("notes", &comparison.remarks)]),
    ]);
    let page = PageFrame {
        title: "Comparison".to_owned(),
        kind: "comparison",
        subtitle: vec![sides(comparison)],
        contents: vec![
            ("answer", "What changed"),
            ("whole", "Whole program"),
            ("functions", "Functions"),
            ("remarks", "Keep in mind"),
        ],
        body,
        data: Sheet {
            page: "sheet",
            tables: vec![
                table("whole-table", "The whole program before and after", &comparison.whole),
                table(
                    "functions-table",
                    "User time of each function before and after",
                    &comparison.functions,
                ),
            ],
        },
    };
    page.render()
}

fn table(id: &'static str, caption: &str, rows: &[CompareRow]) -> DataTable {
    DataTable {
        id,
        caption: caption.to_owned(),
        columns: vec![
            column("what", ColumnKind::Text),
            column("before", ColumnKind::Nanos),
            column("after", ColumnKind::Nanos),
            column("change", ColumnKind::Share),
            column("±", ColumnKind::Nanos),
            column("beyond noise", ColumnKind::Text),
        ],
        rows: rows.iter().map(cells).collect(),
    }
}

fn cells(row: &CompareRow) -> Vec<CellValue> {
    let change = row.change.as_ref();
    vec![
        row.name.clone().into(),
        row.before_ns.into(),
        row.after_ns.into(),
        change.and_then(|change| change.ratio).into(),
        change.and_then(|change| change.uncertainty_ns).into(),
        change.map_or(CellValue::Absent(()), |change| meaning(change).to_owned().into()),
    ]
}

fn meaning(change: &ComparedChange) -> &'static str {
    match change.is_beyond_noise() {
        Some(true) if change.ns > 0.0 => "slower",
        Some(true) => "faster",
        Some(false) => "within noise",
        None => "noise not known",
    }
}
