//! Tables as data: the page's script shows, sorts and filters them.

use serde::Serialize;

use super::markup::{Html, element};

/// A table of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataTable {
    /// Where it goes: the `id` of its [`place`].
    pub id: &'static str,
    /// What it shows.
    pub caption: String,
    /// From left to right; the first names the row.
    pub columns: Vec<DataColumn>,
    /// From top to bottom.
    pub rows: Vec<Vec<CellValue>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataColumn {
    /// Its head.
    pub title: String,
    /// How its values are written.
    pub kind: ColumnKind,
}

/// How values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// As it is.
    Text,
    /// A word of trust, in its colour.
    Trust,
    /// Three significant digits.
    Number,
    /// Whole.
    Count,
    /// A share of 1, as per cent.
    Share,
    /// A share of 1, as whole points of a hundred.
    Points,
    /// With a binary unit.
    Bytes,
    /// Nanoseconds with a unit that fits.
    Nanos,
}

/// A value of a table. What was not measured is absent, never 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum CellValue {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A text that leads to another place of the page.
    Link {
        /// What is shown.
        text: String,
        /// Where it leads: `#region-3`.
        to: String,
    },
    /// Not there.
    Absent(()),
}

impl From<Option<f64>> for CellValue {
    /// No number is absent too.
    fn from(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Absent(()), Self::Number)
    }
}

impl From<f64> for CellValue {
    fn from(value: f64) -> Self {
        Some(value).into()
    }
}

impl From<String> for CellValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A column of this title and kind.
pub fn column(title: impl Into<String>, kind: ColumnKind) -> DataColumn {
    DataColumn { title: title.into(), kind }
}

/// An empty place that the script fills with the table of this `id`.
pub fn place(id: &'static str) -> Html {
    element("div").set("class", "table-place").set("id", id).end()
}
