//! The page of predictions.

use machine::squeezing::SqueezeKind;
use record::predict::{PredictAnswer, Predictions};

use super::{
    frame::PageFrame,
    markup::{Html, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::terminal::predict::{HOW_OFTEN_RIGHT, range_sentence};

/// The page, as one file.
pub fn predict(predictions: &Predictions) -> String {
    let mut said = Vec::new();
    if let Some(best) = &predictions.best {
        said.push(paragraph("verdict", &format!("Best: {} on a socket: {}.", best.per_socket, best.why)));
    }
    let refused = predictions.answers.iter().filter_map(|answer| Some((answer, answer.refused.as_ref()?)));
    said.extend(
        refused.map(|(answer, why)| paragraph("warning", &format!("{}: refused, {why}", answer.what))),
    );
    said.push(place("answers"));
    let notes: Vec<String> =
        predictions.ranges.iter().map(range_sentence).chain([HOW_OFTEN_RIGHT.to_owned()]).collect();
    PageFrame {
        title: predictions.programs.join(", "),
        kind: "predict",
        subtitle: vec!["predicted from measured curves".to_owned()],
        contents: vec![("answer", "Predicted"), ("trust", "Trust")],
        body: Html::all([
            section("answer", "Predicted", said),
            section("trust", "How far to trust the numbers", [list("notes", notes)]),
        ]),
        data: Sheet { page: "sheet", tables: vec![table(predictions)] },
    }
    .render()
}

fn table(predictions: &Predictions) -> DataTable {
    let columns = [
        ("", ColumnKind::Text),
        ("time over time as measured", ColumnKind::Number),
        ("from", ColumnKind::Number),
        ("to", ColumnKind::Number),
        ("cause", ColumnKind::Text),
    ];
    let row = |answer: &PredictAnswer| -> Vec<CellValue> {
        let slowdown = answer.slowdown.as_ref();
        let cause = match (slowdown, answer.cause) {
            (None, _) => "refused",
            (Some(_), cause) => cause.map_or("nothing lost", SqueezeKind::name),
        };
        vec![
            answer.what.clone().into(),
            slowdown.map(|slowdown| slowdown.value).into(),
            slowdown.map(|slowdown| slowdown.low).into(),
            slowdown.map(|slowdown| slowdown.high).into(),
            cause.to_owned().into(),
        ]
    };
    DataTable {
        id: "answers",
        caption: "Predictions".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: predictions.answers.iter().map(row).collect(),
    }
}
