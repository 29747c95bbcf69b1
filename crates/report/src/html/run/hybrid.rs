//! Code and data that wait for bandwidth, by events.

use analysis::{
    findings::KnownLimits,
    hybrid::{HybridFindings, HybridPart},
};

use super::payload::name;
use crate::{
    html::{
        lines::{Strip, strip},
        markup::{Html, list, section},
        tables::{CellValue, ColumnKind, DataTable, column, place},
    },
    layout::hybrid::{HEADING, line, sentences},
};

/// What it says and where its tables go; nothing where nobody asked.
pub(super) fn html(found: Option<&KnownLimits<HybridFindings>>) -> Html {
    let Some(found) = found else { return Html::default() };
    let mut content = vec![list("notes", sentences(found))];
    if let KnownLimits::Value(found) = found {
        let end_ns = found.intervals.last().map_or(0, |interval| interval.end_ns);
        let drawn = Strip { line: &line(found), threshold: Some(found.threshold_cycles) };
        content.extend([strip(&drawn, end_ns), place("slow-functions-table"), place("slow-objects-table")]);
    }
    section("bandwidth", HEADING, content)
}

/// One row for each function and each object.
pub(super) fn tables(found: Option<&KnownLimits<HybridFindings>>) -> Vec<DataTable> {
    let Some(KnownLimits::Value(found)) = found else { return Vec::new() };
    vec![
        table(
            "slow-functions-table",
            "Code with slow loads in flagged intervals",
            "function",
            &found.functions,
        ),
        table("slow-objects-table", "Data with slow loads in flagged intervals", "data", &found.objects),
    ]
}

fn table(id: &'static str, caption: &str, what: &str, parts: &[HybridPart]) -> DataTable {
    let columns = [
        (what, ColumnKind::Text),
        ("slow loads", ColumnKind::Count),
        ("% of them", ColumnKind::Share),
        ("from", ColumnKind::Share),
        ("to", ColumnKind::Share),
        ("in", ColumnKind::Text),
    ];
    let rows = parts.iter().map(|part| -> Vec<CellValue> {
        vec![
            name(&part.name).into(),
            (part.loads as f64).into(),
            part.share.value.into(),
            part.share.low.into(),
            part.share.high.into(),
            part.module.as_deref().map_or(CellValue::Absent(()), |module| name(module).into()),
        ]
    });
    DataTable {
        id,
        caption: caption.to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}
