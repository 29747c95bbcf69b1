//! The page of reproduced papers: tables of published and found, drawings from our data.

use record::reproduce::{ReproducedFigure, ReproducedItem, ReproducedRow, Reproduction};

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    markup::{Html, element, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::plot::{Axis, PlottedQuantity, Scale},
    terminal::reproduce::{note, tally},
};

/// Curves in one drawing.
const MOST_CURVES: usize = 4;
/// A largest over a smallest value above this calls for a logarithmic axis.
const WIDE_RANGE: f64 = 20.0;

/// The page, as one file.
pub fn reproduce(reproduction: &Reproduction) -> String {
    let (same, of) = tally(reproduction);
    let mut drawn = Vec::new();
    let mut notes = Vec::new();
    for paper in &reproduction.papers {
        for item in &paper.items {
            drawn.extend(item_figures(&paper.id, item));
            notes.extend(
                item.rows.iter().filter_map(|row| note(row).map(|note| format!("{}: {note}", row.claim))),
            );
            notes.extend(item.slips.iter().map(|slip| format!("{}: slip of the paper: {slip}", paper.id)));
            let filled = item
                .filled_by
                .iter()
                .map(|command| format!("{}: {}: filled by {command}", paper.id, item.title));
            notes.extend(filled);
        }
    }
    if drawn.is_empty() {
        drawn.push(paragraph("quiet", "The quick set has no drawings; --full makes them."));
    }
    let verdict = format!("{same} of {of} conclusions are those of the papers.");
    let machines: Vec<String> =
        reproduction.papers.iter().map(|paper| format!("{} on {}", paper.id, paper.machine)).collect();
    PageFrame {
        title: "Papers reproduced".to_owned(),
        kind: "reproduce",
        subtitle: machines,
        contents: vec![("rows", "Published and ours"), ("figures", "Drawings"), ("notes", "Why")],
        body: Html::all([
            section("rows", "Published and ours", [paragraph("verdict", &verdict), place("rows-table")]),
            section("figures", "The papers' plots, drawn from our data", drawn),
            section("notes", "Why numbers are off, and slips of the papers", [list("notes", notes)]),
        ]),
        data: Sheet { page: "sheet", tables: vec![table(reproduction)] },
    }
    .render()
}

fn item_figures(paper: &str, item: &ReproducedItem) -> Vec<Html> {
    if item.figures.is_empty() {
        return Vec::new();
    }
    let mut all = vec![element("h3").say(format!("{paper}, {}", item.title)).end()];
    all.extend(item.method.iter().map(|method| paragraph("quiet", method)));
    all.extend(item.figures.iter().flat_map(drawings));
    all
}

/// As many drawings as the curves need.
fn drawings(figure: &ReproducedFigure) -> Vec<Html> {
    let curves: Vec<Curve> = figure
        .curves
        .iter()
        .map(|curve| Curve {
            name: curve.name.clone(),
            points: curve.points.iter().map(|&(x, y)| Spot { x, y, interval: None }).collect(),
        })
        .collect();
    let quantity = |what: &str| match what {
        "bytes" => PlottedQuantity::Bytes,
        "GB/s" => PlottedQuantity::GbPerS,
        _ => PlottedQuantity::PerAccess,
    };
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let (low, high) = values()
        .fold((f64::INFINITY, 0.0), |(low, high), spot| (f64::min(low, spot.y), f64::max(high, spot.y)));
    let y_scale = if low > 0.0 && high > WIDE_RANGE * low { Scale::Log } else { Scale::Linear };
    let x_scale = if figure.x == "bytes" { Scale::Log } else { Scale::Linear };
    let drawing = |some: &[Curve]| {
        Curves {
            title: format!("{}, by {}", figure.title, figure.x),
            x: Axis { quantity: quantity(&figure.x), scale: x_scale },
            y: Axis { quantity: quantity(&figure.y), scale: y_scale },
            curves: some.to_vec(),
            guides: Vec::new(),
            limits: Vec::new(),
        }
        .figure()
    };
    curves.chunks(MOST_CURVES).filter_map(drawing).collect()
}

fn table(reproduction: &Reproduction) -> DataTable {
    let columns = [
        ("claim", ColumnKind::Text),
        ("", ColumnKind::Text),
        ("published", ColumnKind::Number),
        ("ours", ColumnKind::Number),
        ("off", ColumnKind::Share),
        ("the paper concludes", ColumnKind::Text),
        ("same", ColumnKind::Text),
    ];
    let row = |row: &ReproducedRow| -> Vec<CellValue> {
        let same = row.same.map(|same| if same { "yes" } else { "no" }.to_owned());
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        vec![
            row.claim.clone().into(),
            format!("{}{unit}", row.label).into(),
            row.published.into(),
            row.ours.into(),
            row.deviation.into(),
            row.concludes.clone().into(),
            same.map_or(CellValue::Absent(()), CellValue::from),
        ]
    };
    let rows = reproduction.papers.iter().flat_map(|paper| &paper.items).flat_map(|item| &item.rows);
    DataTable {
        id: "rows-table",
        caption: "Published and ours".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use record::reproduce::FigureCurve;

    use super::*;
    use crate::terminal::reproduce::tests::reproduction;

    #[test]
    fn the_page_has_every_row_what_is_to_be_said_of_it_and_a_drawing() {
        let page = reproduce(&reproduction());
        for claim in ["near", "slow", "off", "absent"] {
            assert!(page.contains(&format!("paper/table1/{claim}")), "{claim}");
        }
        for words in [
            "2 of 3 conclusions are those of the papers.",
            "paper on tiny",
            "paper/table1/slow: what slow is: the paper: as fast as that; why: channels turn",
            "paper/table1/near: what near is: not independent of l3.latency (assumed)",
            "paper: slip of the paper: the caption says eleven",
            "paper: Title of section9: filled by memwall squeeze",
            "paper, Title of figure1",
            "<svg",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("has no drawings"));
    }

    #[test]
    fn a_page_without_drawings_says_what_makes_them() {
        let mut quick = reproduction();
        quick.papers[0].items.retain(|item| item.figures.is_empty());
        assert!(reproduce(&quick).contains("The quick set has no drawings; --full makes them."));
    }

    #[test]
    fn more_curves_than_a_drawing_holds_make_more_drawings() {
        let mut many = reproduction();
        let figure = &mut many.papers[0].items[1].figures[0];
        let curve = figure.curves[0].clone();
        figure.curves = (0..=MOST_CURVES)
            .map(|at| FigureCurve { name: format!("curve {at}"), ..curve.clone() })
            .collect();
        assert_eq!(drawings(figure).len(), 2);
    }
}
