//! A small plot in braille dots: one curve, two axes, linear or logarithmic, with optional upright guides.

mod canvas;
pub(crate) mod range;

use machine::{Bytes, units::significant};

use canvas::Canvas;
use range::AxisRange;

use crate::{
    layout::prose::{width, wrap_in},
    layout::style::{HEADING, QUIET, paint},
};

/// Widest plot, axis labels included: a wider one tells no more.
const WIDEST: usize = 76;
/// Narrowest drawing area that still shows a shape.
const NARROWEST: usize = 16;

/// What an axis counts; decides ticks and their labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlottedQuantity {
    /// Bytes, ticks at powers of two.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// Gigabytes per second.
    GbPerS,
    /// Events per load or store.
    PerAccess,
    /// Times of something else.
    Ratio,
}

impl PlottedQuantity {
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Self::Bytes => Bytes(value.round() as u64).to_string(),
            Self::Nanos | Self::GbPerS | Self::PerAccess | Self::Ratio if value >= 1e3 => {
                format!("{value:.0}")
            }
            // Ticks are 1, 2 or 5 times a power of ten: one digit says it all, unless steps are linear.
            Self::Nanos | Self::GbPerS | Self::PerAccess | Self::Ratio => {
                let text = significant(value, 3);
                if text.contains('.') {
                    text.trim_end_matches('0').trim_end_matches('.').to_owned()
                } else {
                    text
                }
            }
        }
    }
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero, in equal steps.
    Linear,
    /// Equal factors are equally long.
    Log,
}

/// One axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it counts.
    pub quantity: PlottedQuantity,
    /// How it is spread.
    pub scale: Scale,
}

/// An upright line at an x value, named above the plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Guide {
    /// Where.
    pub x: f64,
    /// What is there.
    pub name: String,
}

/// One curve to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What is shown, units included.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curve; order does not matter.
    pub points: Vec<(f64, f64)>,
    /// Upright lines.
    pub guides: Vec<Guide>,
}

impl Plot {
    /// The plot in at most `columns` columns with `rows` rows of drawing. `None` if there is no curve to see:
    /// fewer than two different x values, values that the scale cannot show, or too little room.
    pub fn text(&self, columns: usize, rows: usize) -> Option<String> {
        let rows = rows.max(1);
        let mut points: Vec<(f64, f64)> =
            self.points.iter().copied().filter(|p| shows(self.x, p.0) && shows(self.y, p.1)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let y = AxisRange::new(self.y, points.iter().map(|p| p.1), rows * 4, true)?;
        let y_ticks = tick_rows(&y, rows);
        let gutter = y_ticks.iter().map(|(_, label)| width(label)).max()?;
        let area = columns.min(WIDEST).checked_sub(gutter + 2).filter(|&area| area >= NARROWEST)?;
        let x = AxisRange::new(self.x, points.iter().map(|p| p.0), area * 2, false)?;

        let mut canvas = Canvas::new(area, rows);
        let dots: Vec<_> = points.iter().filter_map(|p| Some((x.dot(p.0)?, y.dot(p.1)?))).collect();
        for pair in dots.windows(2) {
            canvas.line(pair[0], pair[1]);
        }
        let guides: Vec<(usize, String)> =
            self.guides.iter().filter_map(|g| Some((x.dot(g.x)? / 2, g.name.clone()))).collect();

        let margin = " ".repeat(gutter + 2);
        let mut out = wrap_in(HEADING, "", &self.title, columns);
        if !guides.is_empty() {
            out += &format!("{margin}{}\n", place(&guides, area).0);
        }
        for (row, cells) in canvas.cells.iter().enumerate() {
            let label = y_ticks.iter().find(|(at, _)| *at == row).map(|(_, label)| label.as_str());
            out += &y_axis(label, gutter);
            out += &draw_row(cells, &guides);
            out.push('\n');
        }
        let (labels, ticks) = place(&tick_columns(&x, area), area);
        let base: String = (0..area).map(|c| if ticks.contains(&c) { '┬' } else { '─' }).collect();
        out += &paint(QUIET, &format!("{}└{base}", " ".repeat(gutter + 1)));
        out += &format!("\n{margin}{labels}\n");
        Some(out)
    }
}

/// Beyond this nothing was measured, and arithmetic on it may end at nothing or infinity.
const SHOWN: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

pub(crate) fn shows(axis: Axis, value: f64) -> bool {
    SHOWN.contains(&value) || (value == 0.0 && axis.scale == Scale::Linear)
}

/// Rows, from the top, that carry a label.
fn tick_rows(y: &AxisRange, rows: usize) -> Vec<(usize, String)> {
    let ticks = y.ticks();
    let crowded = ticks.len() > rows;
    let mut labelled: Vec<(usize, String)> = Vec::new();
    for value in ticks {
        let whole_decade = (value.log10() - value.log10().round()).abs() < 1e-9;
        let Some(row) = y.dot(value).map(|dot| rows - 1 - dot / 4) else {
            continue;
        };
        if (!crowded || whole_decade) && labelled.iter().all(|(taken, _)| *taken != row) {
            labelled.push((row, y.axis.quantity.label(value)));
        }
    }
    labelled
}

/// Columns with their labels: powers of two are thinned evenly so that neighbours do not touch.
fn tick_columns(x: &AxisRange, area: usize) -> Vec<(usize, String)> {
    let ticks = x.ticks();
    let keep: Box<dyn Fn(f64) -> bool> = match x.axis {
        Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log } => {
            let room = (area / "1000 KiB  ".len()).max(1);
            let every = ticks.len().div_ceil(room).max(1) as i32;
            // Counted from 1 MiB, so that the labels are the usual sizes.
            Box::new(move |value| (value.log2().round() as i32 - 20) % every == 0)
        }
        _ => Box::new(|_| true),
    };
    ticks
        .into_iter()
        .filter(|&value| keep(value))
        .filter_map(|value| Some((x.dot(value)? / 2, x.axis.quantity.label(value))))
        .collect()
}

/// Labels centred on their columns, those without room left out, and the columns of those that stayed.
fn place(labels: &[(usize, String)], area: usize) -> (String, Vec<usize>) {
    let mut line = String::new();
    let mut placed = Vec::new();
    for (column, label) in labels {
        let size = width(label);
        let start = column.saturating_sub(size / 2).min(area.saturating_sub(size));
        let used = width(&line);
        if used > 0 && start < used + 1 || start + size > area {
            continue;
        }
        line += &" ".repeat(start - used);
        line += label;
        placed.push(*column);
    }
    (line, placed)
}

fn y_axis(label: Option<&str>, gutter: usize) -> String {
    match label {
        Some(label) => {
            format!("{}{label} {}", " ".repeat(gutter.saturating_sub(width(label))), paint(QUIET, "┤"))
        }
        None => format!("{} {}", " ".repeat(gutter), paint(QUIET, "│")),
    }
}

/// Dots as braille; guides show where there are none. Blanks at the end are cut.
fn draw_row(cells: &[u8], guides: &[(usize, String)]) -> String {
    let mut out = String::new();
    let mut blanks = 0;
    for (column, &bits) in cells.iter().enumerate() {
        let drawn = if bits != 0 {
            char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ').to_string()
        } else if guides.iter().any(|(at, _)| *at == column) {
            paint(QUIET, "┊")
        } else {
            blanks += 1;
            continue;
        };
        out += &" ".repeat(std::mem::take(&mut blanks));
        out += &drawn;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: Vec<(f64, f64)>, y: Scale) -> Plot {
        Plot {
            title: "latency, ns (log scale), by data set size".into(),
            x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
            y: Axis { quantity: PlottedQuantity::Nanos, scale: y },
            points,
            guides: vec![Guide { x: 48.0 * 1024.0, name: "L1".into() }],
        }
    }

    fn plain(plot: &Plot, columns: usize, rows: usize) -> Option<String> {
        plot.text(columns, rows).map(|text| anstream::adapter::strip_str(&text).to_string())
    }

    fn staircase() -> Vec<(f64, f64)> {
        (12..=28)
            .map(|e| {
                (
                    f64::from(1 << e),
                    [1.3, 4.1, 21.0, 98.0][usize::from(e > 15) + usize::from(e > 20) + usize::from(e > 24)],
                )
            })
            .collect()
    }

    #[test]
    fn a_staircase_in_log_log() {
        insta::assert_snapshot!(plain(&curve(staircase(), Scale::Log), 60, 8).unwrap_or_default());
    }

    #[test]
    fn a_ramp_from_zero_in_linear() {
        let ramp = (12..=16).map(|e| (f64::from(1 << e), f64::from(e - 12) * 10.0)).collect();
        insta::assert_snapshot!(plain(&curve(ramp, Scale::Linear), 40, 5).unwrap_or_default());
    }

    #[test]
    fn nothing_to_see_is_no_plot() {
        let none = |points: Vec<(f64, f64)>| plain(&curve(points, Scale::Log), 60, 8).is_none();
        assert!(none(vec![]));
        assert!(none(vec![(4096.0, 1.0)]));
        assert!(none(vec![(4096.0, 1.0), (4096.0, 2.0)]));
        assert!(none(vec![(4096.0, f64::NAN), (0.0, 2.0), (8192.0, f64::INFINITY)]));
        assert!(plain(&curve(staircase(), Scale::Log), 18, 8).is_none());
        assert!(plain(&curve(staircase(), Scale::Log), 60, 0).is_some(), "one row at least");
    }

    #[test]
    fn a_flat_curve_is_drawn() {
        for scale in [Scale::Log, Scale::Linear] {
            let text = plain(&curve(vec![(4096.0, 5.0), (8192.0, 5.0)], scale), 40, 6).unwrap_or_default();
            assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{text}");
        }
    }

    #[test]
    fn fits_whatever_the_room_and_the_values() {
        for columns in [24, 40, 60, 80, 200] {
            for scale in [Scale::Log, Scale::Linear] {
                for factor in [1e-6, 0.3, 1.0, 7e5] {
                    let points = staircase().into_iter().map(|(x, y)| (x, y * factor)).collect();
                    let text = plain(&curve(points, scale), columns, 10).unwrap_or_default();
                    assert!(text.lines().skip(1).all(|line| width(line) <= columns.min(WIDEST)), "{text}");
                    assert!(columns < 40 || !text.is_empty());
                }
            }
        }
    }
}
