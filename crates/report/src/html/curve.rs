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
    /// Level lines with names, over a part of the horizontal axis.
    pub limits: Vec<LimitLine>,
}

/// What the machine gives at most, or at best, over a range of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLine {
    /// From here along the horizontal axis.
    pub from: f64,
    /// To here; beyond the drawing is to its end.
    pub to: f64,
    /// As high.
    pub y: f64,
    /// What it is.
    pub name: String,
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
        let (first, last) = spots()
            .map(|spot| spot.x)
            .fold((f64::INFINITY, 0.0), |(low, high), x| (f64::min(low, x), f64::max(high, x)));
        let in_view = |limit: &&LimitLine| limit.from < last && limit.to > first && shows(self.y, limit.y);
        let limits: Vec<&LimitLine> = self.limits.iter().filter(in_view).collect();
        let heights = spots().flat_map(ends).flatten().chain(limits.iter().map(|limit| limit.y));
        let heights: Vec<f64> = heights.filter(|&y| shows(self.y, y)).collect();
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
        // Their names stand above the curves.
        drawing = drawing.with(limits.iter().filter_map(|limit| level(limit, (first, last), &scales)));
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
        let upright = element("line").set("class", "axis y-axis").set("x1", LEFT).set("x2", LEFT);
        out.push(upright.set("y1", TOP - 6.0).set("y2", floor).end());
        out.push(label(4.0, TOP - 12.0, "start", unit(self.y.quantity)));
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

/// A level line over its part of what is drawn, with its name: above it from its left end on, below it where names of
/// guides are, up to its right end where it would leave the drawing.
fn level(limit: &LimitLine, (first, last): (f64, f64), scales: &Scales) -> Option<Html> {
    /// Of a letter, on a phone.
    const LETTER: f64 = 10.0;
    let (left, y) = scales.at(limit.from.max(first), limit.y)?;
    let (right, _) = scales.at(limit.to.min(last), limit.y)?;
    let line = element("line").set("class", "limit").set("x1", rounded(left)).set("x2", rounded(right));
    let whole = element("title").say(&limit.name).end();
    let fits = left + LETTER * limit.name.chars().count() as f64 <= WIDTH;
    let (x, anchor) = if fits { (left + 3.0, "start") } else { (right, "end") };
    let under = if y < TOP + 16.0 { 15.0 } else { -5.0 };
    let name = element("text").set("class", "limit-name").set("x", rounded(x)).set("y", rounded(y + under));
    Some(Html::all([
        line.set("y1", rounded(y)).set("y2", rounded(y)).with([whole]).end(),
        name.set("text-anchor", anchor).say(&limit.name).end(),
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

/// What stands above the vertical axis.
fn unit(quantity: PlottedQuantity) -> &'static str {
    match quantity {
        PlottedQuantity::Bytes => "",
        PlottedQuantity::Nanos => "ns",
        PlottedQuantity::GbPerS => "GB/s",
        PlottedQuantity::PerAccess => "per access",
        PlottedQuantity::Ratio => "× alone",
    }
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
            limits: vec![
                LimitLine { from: 0.0, to: 8192.0, y: 40.0, name: "at best".to_owned() },
                LimitLine { from: 1e9, to: f64::INFINITY, y: 9e9, name: "elsewhere".to_owned() },
            ],
        }
    }

    #[test]
    fn axes_have_units_and_limits_are_drawn_where_they_hold() {
        let drawn = curves(&[(4096.0, 1.0), (65536.0, 20.0)]).figure().expect("a curve");
        let text = drawn.as_str();
        assert!(text.contains("y-axis") && text.contains(">ns</text>"), "{text}");
        assert!(text.contains(">at best</text>") && !text.contains("elsewhere"), "{text}");
        // From the left end of the drawing to a quarter of it: 8 KiB between 4 and 64 KiB. The limit is above all points.
        let line = text.split("class=\"limit\"").nth(1).expect("a line");
        assert!(line.starts_with(" x1=\"64.0\" x2=\"204.0\""), "{line}");
        assert!(text.contains(">50</text>"), "the axis reaches the limit: {text}");
        // A name that would leave the drawing ends where its line does.
        let mut long = curves(&[(4096.0, 1.0), (65536.0, 20.0)]);
        long.limits = vec![LimitLine {
            from: 60_000.0,
            to: f64::INFINITY,
            y: 9.0,
            name: "memory copy 23 GB/s".to_owned(),
        }];
        let drawn = long.figure().expect("a curve");
        assert!(drawn.as_str().contains("class=\"limit-name\" x=\"624.0\""), "{}", drawn.as_str());
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
