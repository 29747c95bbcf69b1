//! Curves as drawings: latency and bandwidth by size, latency by load.

use std::fmt::Write;

use machine::units::significant;

use super::markup::{Html, element};
use crate::layout::plot::{Axis, Guide, PlottedQuantity, range::AxisRange, shows};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 36.0;
/// Steps of an axis; finer than any screen.
const STEPS: usize = 20_001;
/// Labels along the horizontal axis, at most.
const LABELS: usize = 7;

/// Some curves over the same axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// What is shown, with units.
    pub title: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// At most four.
    pub curves: Vec<Curve>,
    /// Upright lines with names.
    pub guides: Vec<Guide>,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// In any order.
    pub points: Vec<Spot>,
}

/// A point of a curve with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The 95 % interval of `y`, if there is one.
    pub interval: Option<(f64, f64)>,
}

struct Scales {
    x: AxisRange,
    y: AxisRange,
}

impl Scales {
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let along = self.x.dot(x)? as f64 / (STEPS - 1) as f64;
        let up = self.y.dot(y)? as f64 / (STEPS - 1) as f64;
        Some((LEFT + along * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)))
    }
}

impl Curves {
    /// The drawing; none if there is no curve to see.
    pub fn figure(&self) -> Option<Html> {
        let mut curves = self.curves.clone();
        for curve in &mut curves {
            curve.points.retain(|spot| shows(self.x, spot.x) && shows(self.y, spot.y));
            curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        curves.retain(|curve| !curve.points.is_empty());
        let spots = || curves.iter().flat_map(|curve| &curve.points);
        // Ends of intervals have to fit too.
        let ends =
            |spot: &Spot| [Some(spot.y), spot.interval.map(|ends| ends.0), spot.interval.map(|ends| ends.1)];
        let heights: Vec<f64> = spots().flat_map(ends).flatten().filter(|&y| shows(self.y, y)).collect();
        let scales = Scales {
            x: AxisRange::new(self.x, spots().map(|spot| spot.x), STEPS, false)?,
            y: AxisRange::new(self.y, heights.iter().copied(), STEPS, true)?,
        };
        let mut drawing = element("svg")
            .set("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
            .set("role", "img")
            .set("aria-label", self.description(&curves))
            .with(self.grid(&scales))
            .with(self.guides.iter().filter_map(|guide| upright(guide, &scales)));
        for (number, curve) in curves.iter().enumerate() {
            drawing = drawing.with([drawn(curve, number, &scales, self)]);
        }
        let caption = element("figcaption").say(&self.title).with(legend(&curves)).end();
        Some(element("figure").set("class", "curve").with([caption, drawing.end()]).end())
    }

    fn description(&self, curves: &[Curve]) -> String {
        let mut text = format!("{}.", self.title);
        for curve in curves {
            if let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) {
                let say = |spot: &Spot| format!("{} at {}", self.y_text(spot.y), self.x_text(spot.x));
                // Writing to a string cannot fail.
                let _ = write!(text, " {}: from {} to {}.", curve.name, say(first), say(last));
            }
        }
        text + " The numbers are in the table."
    }

    fn x_text(&self, value: f64) -> String {
        with_unit(self.x.quantity, value)
    }

    fn y_text(&self, value: f64) -> String {
        with_unit(self.y.quantity, value)
    }

    fn grid(&self, scales: &Scales) -> Vec<Html> {
        let mut out = Vec::new();
        let floor = HEIGHT - BOTTOM;
        for value in scales.y.ticks() {
            let Some(y) =
                scales.y.dot(value).map(|dot| floor - dot as f64 / (STEPS - 1) as f64 * (floor - TOP))
            else {
                continue;
            };
            let line = element("line").set("class", "grid").set("x1", LEFT).set("x2", WIDTH - RIGHT);
            out.push(line.set("y1", rounded(y)).set("y2", rounded(y)).end());
            out.push(label(LEFT - 8.0, y + 4.0, "end", &self.y.quantity.label(value)));
        }
        let ticks = scales.x.ticks();
        let each = ticks.len().div_ceil(LABELS).max(1);
        for value in ticks.iter().step_by(each) {
            let Some(dot) = scales.x.dot(*value) else { continue };
            let x = LEFT + dot as f64 / (STEPS - 1) as f64 * (WIDTH - LEFT - RIGHT);
            let tick = element("line").set("class", "axis").set("x1", rounded(x)).set("x2", rounded(x));
            out.push(tick.set("y1", floor).set("y2", floor + 5.0).end());
            let text = self.x.quantity.label(*value);
            // On a phone letters are about ten wide; the last label must not leave the drawing.
            let fits = x + 5.0 * text.chars().count() as f64 <= WIDTH;
            let (x, anchor) = if fits { (x, "middle") } else { (WIDTH, "end") };
            out.push(label(x, floor + 20.0, anchor, &text));
        }
        let axis = element("line").set("class", "axis").set("x1", LEFT).set("x2", WIDTH - RIGHT);
        out.push(axis.set("y1", floor).set("y2", floor).end());
        out
    }
}

fn upright(guide: &Guide, scales: &Scales) -> Option<Html> {
    let dot = scales.x.dot(guide.x)?;
    let x = rounded(LEFT + dot as f64 / (STEPS - 1) as f64 * (WIDTH - LEFT - RIGHT));
    let line = element("line").set("class", "guide").set("x1", &x).set("x2", &x).set("y1", TOP);
    Some(Html::all([
        line.set("y2", HEIGHT - BOTTOM).end(),
        label(x.parse().ok()?, TOP - 8.0, "middle", &guide.name),
    ]))
}

fn drawn(curve: &Curve, number: usize, scales: &Scales, axes: &Curves) -> Html {
    let line: Vec<(f64, f64)> = curve.points.iter().filter_map(|spot| scales.at(spot.x, spot.y)).collect();
    let path = |points: &[(f64, f64)]| {
        points.iter().map(|(x, y)| format!("{},{}", rounded(*x), rounded(*y))).collect::<Vec<_>>().join(" ")
    };
    let ends = |end: fn(&(f64, f64)) -> f64| {
        let point = |spot: &Spot| scales.at(spot.x, spot.interval.as_ref().map_or(spot.y, end));
        curve.points.iter().filter_map(point).collect::<Vec<_>>()
    };
    let mut band = ends(|interval| interval.1);
    band.extend(ends(|interval| interval.0).into_iter().rev());
    let spots = curve.points.iter().filter_map(|spot| {
        let (x, y) = scales.at(spot.x, spot.y)?;
        let mut words = format!("{}: {} at {}", curve.name, axes.y_text(spot.y), axes.x_text(spot.x));
        if let Some((low, high)) = spot.interval {
            let _ = write!(words, " (95 % interval {} to {})", axes.y_text(low), axes.y_text(high));
        }
        let dot = element("circle").set("cx", rounded(x)).set("cy", rounded(y)).set("r", 3.5);
        Some(dot.with([element("title").say(words).end()]).end())
    });
    element("g")
        .set("class", format!("series s{}", number % 4))
        .with([element("polygon").set("class", "band").set("points", path(&band)).end()])
        .with([element("polyline").set("points", path(&line)).end()])
        .with(spots)
        .end()
}

fn legend(curves: &[Curve]) -> Option<Html> {
    let name = |(number, curve): (usize, &Curve)| {
        let swatch = element("span").set("class", format!("swatch s{}", number % 4)).end();
        element("span").set("class", "key").with([swatch]).say(&curve.name).end()
    };
    (curves.len() > 1)
        .then(|| element("span").set("class", "legend").with(curves.iter().enumerate().map(name)).end())
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> Html {
    element("text").set("x", rounded(x)).set("y", rounded(y)).set("text-anchor", anchor).say(text).end()
}

fn rounded(value: f64) -> String {
    format!("{value:.1}")
}

fn with_unit(quantity: PlottedQuantity, value: f64) -> String {
    match quantity {
        PlottedQuantity::Bytes => quantity.label(value),
        PlottedQuantity::Nanos => machine::units::nanos(value),
        PlottedQuantity::GbPerS => machine::units::gb_per_s(value * 1e9),
        PlottedQuantity::PerAccess => format!("{} per access", quantity.label(value)),
        PlottedQuantity::Ratio => format!("{}×", significant(value, 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::plot::Scale;

    fn curves(points: &[(f64, f64)]) -> Curves {
        let spot = |&(x, y)| Spot { x, y, interval: Some((y * 0.9, y * 1.1)) };
        Curves {
            title: "latency".to_owned(),
            x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
            y: Axis { quantity: PlottedQuantity::Nanos, scale: Scale::Log },
            curves: vec![Curve { name: "<b>".to_owned(), points: points.iter().map(spot).collect() }],
            guides: vec![Guide { x: 8192.0, name: "L1".to_owned() }],
        }
    }

    #[test]
    fn every_point_is_drawn_and_named() {
        let drawn = curves(&[(4096.0, 1.0), (65536.0, 20.0), (0.0, 3.0), (8192.0, f64::NAN)])
            .figure()
            .expect("a curve");
        let text = drawn.as_str();
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
        assert!(text.contains("1.00 ns at 4 KiB (95 % interval 0.900 ns to 1.10 ns)"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("<b>"), "{text}");
    }

    #[test]
    fn nothing_to_see_draws_nothing() {
        assert!(curves(&[]).figure().is_none());
        assert!(curves(&[(4096.0, 1.0)]).figure().is_none());
    }
}
