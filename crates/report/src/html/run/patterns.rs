//! Known diseases beside the run.

use analysis::{
    findings::Confidence,
    patterns::{PatternFinding, PatternState},
};

use crate::html::{
    markup::{Html, paragraph, section, shown},
    tables::{CellValue, ColumnKind, DataTable, column, place},
};

/// Where the table goes; nothing without patterns.
pub(super) fn html(patterns: &[PatternFinding]) -> Html {
    if patterns.is_empty() {
        return Html::default();
    }
    let what =
        "Known problems of programs, each by its signs. What cannot be judged says what it would take.";
    section("patterns", "Patterns", [paragraph("quiet", what), place("patterns-table")])
}

/// One row for each pattern.
pub(super) fn table(patterns: &[PatternFinding]) -> Option<DataTable> {
    let columns = [
        ("pattern", ColumnKind::Text),
        ("kind", ColumnKind::Text),
        ("here", ColumnKind::Text),
        ("to win at most or about, %", ColumnKind::Share),
        ("in", ColumnKind::Text),
        ("evidence", ColumnKind::Text),
        ("what to do, or what it would take", ColumnKind::Text),
    ];
    let rows = patterns.iter().map(|found| -> Vec<CellValue> {
        let here = match (found.state, found.confidence) {
            (PatternState::Found, Some(Confidence::High)) => "yes, sure",
            (PatternState::Found, Some(Confidence::Medium)) => "yes, fairly sure",
            (PatternState::Found, _) => "yes, not sure",
            (PatternState::Absent, _) => "no",
            (PatternState::Unknown, _) => "cannot be judged",
        };
        let evidence = found.evidence.iter().map(|sign| format!("{}: {:.3}", sign.about, sign.value));
        let then = match found.state {
            PatternState::Found => found.advice.clone(),
            PatternState::Absent => String::new(),
            PatternState::Unknown => found.needs.join("; or "),
        };
        vec![
            shown(&found.title).into(),
            found.class.label().to_owned().into(),
            here.to_owned().into(),
            found.win_at_most.or(found.win_about).into(),
            found.place.as_ref().map_or(CellValue::Absent(()), |place| shown(place).into()),
            shown(&evidence.collect::<Vec<_>>().join("; ")).into(),
            shown(&then).into(),
        ]
    });
    (!patterns.is_empty()).then(|| DataTable {
        id: "patterns-table",
        caption: "Patterns".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    })
}
