//! Metrics over time: one strip each, all over the same intervals.

use super::markup::{Html, element, paragraph};
use crate::layout::{
    figures::{number, scaled, time},
    prose::counted,
    series::{MetricLine, TimeLines},
};

/// Parts of a strip, at most: finer than a phone shows.
const PARTS: usize = 240;
/// Size of a strip in the units of its drawing.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// A strip with the line above which values are called high, if there is one.
pub(super) struct Strip<'a> {
    pub line: &'a MetricLine,
    pub threshold: Option<f64>,
}

/// All lines and the time below them; nothing of nothing.
pub(super) fn figures(lines: &TimeLines) -> Vec<Html> {
    let (Some(end_ns), false) = (lines.ends_ns.last(), lines.lines.is_empty()) else { return Vec::new() };
    let mut drawn: Vec<Html> =
        lines.lines.iter().map(|line| strip(&Strip { line, threshold: None }, *end_ns)).collect();
    if lines.left_out > 0 {
        let more = counted(lines.left_out, "more metric");
        drawn.push(paragraph("quiet", &format!("{more} over time: --json has all of them.")));
    }
    drawn
}

/// One metric over time.
pub(super) fn strip(strip: &Strip<'_>, end_ns: u64) -> Html {
    let Strip { line, threshold } = strip;
    let values = line.parts(PARTS);
    let top = line.most().into_iter().chain(*threshold).fold(f64::MIN_POSITIVE, f64::max);
    let width = WIDTH / values.len().max(1) as f64;
    let at_ns = |part: usize| end_ns as f64 * part as f64 / values.len().max(1) as f64;
    let part = |(index, value): (usize, &Option<f64>)| {
        let value = (*value)?;
        let height = (value / top).clamp(0.0, 1.0) * HEIGHT;
        let is_high = threshold.is_some_and(|threshold| value > threshold);
        let words = format!("{} at {}", with_unit(value, &line.unit), time(at_ns(index)).text());
        let rect = element("rect")
            .set("class", if is_high { "metric high" } else { "metric" })
            .set("x", format!("{:.2}", index as f64 * width))
            .set("y", format!("{:.2}", HEIGHT - height))
            .set("width", format!("{width:.2}"))
            .set("height", format!("{height:.2}"));
        Some(rect.with([element("title").say(words).end()]).end())
    };
    let mut pieces: Vec<Html> = values.iter().enumerate().filter_map(part).collect();
    if let Some(threshold) = threshold {
        let y = format!("{:.2}", HEIGHT - threshold / top * HEIGHT);
        let rule = element("line").set("class", "threshold").set("x1", 0).set("x2", WIDTH);
        pieces.push(rule.set("y1", &y).set("y2", &y).end());
    }
    let drawing = element("svg")
        .set("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .set("preserveAspectRatio", "none")
        .set("role", "img")
        .set("aria-label", format!("Over {}, {}", time(end_ns as f64).text(), line.words()))
        .with(pieces)
        .end();
    let span = |text: &str| element("span").say(text).end();
    let frame = element("div").set("class", "strip-frame low").with([
        element("div")
            .set("class", "strip-axis")
            .with([span(&with_unit(top, short(&line.unit))), span("0")])
            .end(),
        element("div").set("class", "strip").with([drawing]).end(),
        element("div").set("class", "marks").with([span("0"), span(time(end_ns as f64).text())]).end(),
    ]);
    let caption = element("figcaption").say(line.words()).end();
    element("figure").set("class", "metric-line").with([caption, frame.end()]).end()
}

/// A value in a unit that reads well.
fn with_unit(value: f64, unit: &str) -> String {
    let (value, unit) = scaled(Some(value), unit);
    format!("{} {unit}", number(value).text()).trim_end().to_owned()
}

/// A unit where there is room for little: the caption has all of it.
fn short(unit: &str) -> &str {
    if unit.starts_with('%') {
        "%"
    } else if unit.len() > 4 {
        "1"
    } else {
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::series::tests::counts;

    #[test]
    fn strips_are_to_scale_and_gaps_stay_gaps() {
        let drawn = figures(&TimeLines::of(&counts()));
        assert_eq!(drawn.len(), 2);
        let text = drawn[0].as_str();
        assert_eq!(text.matches("<rect").count(), 3, "{text}");
        assert!(text.contains(r#"x="0.00" y="33.33" width="250.00" height="66.67""#), "{text}");
        assert!(text.contains(r#"x="500.00" y="0.00""#) && !text.contains(r#"x="250.00""#), "{text}");
        assert!(figures(&TimeLines::default()).is_empty());
    }

    #[test]
    fn what_lies_above_a_threshold_is_marked_and_the_line_is_drawn() {
        let lines = TimeLines::of(&counts());
        let drawn = strip(&Strip { line: &lines.lines[0], threshold: Some(180.0) }, 400);
        // Twice as high as the largest value: the line is at the top.
        assert!(drawn.as_str().contains(r#"y1="0.00""#) && !drawn.as_str().contains("metric high"));
        let drawn = strip(&Strip { line: &lines.lines[0], threshold: Some(75.0) }, 400);
        assert_eq!(drawn.as_str().matches("metric high").count(), 2);
    }
}
