//! The page of counted events: the cycle decomposition as bars, reference graphs, every metric and event, by region and socket.

mod sheets;

use record::count::{CountedBar, CountedMetric, Counts, GroupMetrics};

use super::{
    frame::PageFrame,
    lines,
    markup::{Html, element, list, paragraph, section},
    profile::Sheet,
    tables::place,
    utilisation,
};
use crate::{
    layout::{
        figures::{number, percent_text, time},
        prose::counted,
        series::{TimeLines, used_levels},
    },
    terminal::{
        count::{cut_off, unmeasured},
        trust,
    },
};

/// Size of a bar, in the units of its drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 28.0;
/// Colours of parts, in turn; the page's own.
const COLOURS: usize = 6;

/// The page, as one file.
pub fn count(counts: &Counts) -> String {
    let mean = mean(&counts.runs.iter().map(|run| run.elapsed_ns as f64).collect::<Vec<_>>());
    let mut subtitle = vec![counts.instrument.clone()];
    subtitle.extend(mean.filter(|ns| *ns > 0.0).map(|ns| time(ns).text().to_owned()));
    subtitle.push(counted(counts.runs.len(), "run"));
    let bars = counts.metrics.iter().flat_map(|group| &group.bars).filter(|bar| bar.base() > 0.0);
    let drawn: Vec<Html> = bars.map(figure).collect();
    let references: Vec<Html> =
        counts.metrics.iter().flat_map(|group| &group.metrics).filter_map(reference).collect();
    let mut sections = Vec::new();
    let mut contents = Vec::new();
    let levels = used_levels(counts);
    let over_time = lines::figures(&TimeLines::of(counts));
    if !drawn.is_empty() {
        contents.push(("cycles", "Cycles"));
        sections.push(section("cycles", "Where cycles go", drawn));
    }
    if !references.is_empty() {
        contents.push(("references", "Low to high"));
        sections.push(section("references", "Low, medium, high", references));
    }
    if !levels.is_empty() {
        contents.push(("hierarchy", "Levels"));
        sections.push(section("hierarchy", "Use of each level", [utilisation::figure(&levels)]));
    }
    if !over_time.is_empty() {
        contents.push(("time", "Over time"));
        sections.push(section("time", "Over time", over_time));
    }
    let tables = sheets::tables(counts);
    for table in &tables {
        let (id, short, title) = heading(table.id);
        contents.push((id, short));
        sections.push(section(id, title, [place(table.id)]));
    }
    contents.push(("notes", "Notes"));
    sections.push(section("notes", "What to keep in mind", [notes(counts)]));
    let page = PageFrame {
        title: counts.target.clone(),
        kind: "count",
        subtitle,
        contents,
        body: Html::all(sections),
        data: Sheet { page: "sheet", tables },
    };
    page.render()
}

/// The place of a table, and what it is called in the contents and above it.
fn heading(table: &str) -> (&'static str, &'static str, &'static str) {
    match table {
        "regions-table" => ("regions", "Regions", "By region"),
        "sockets-table" => ("sockets", "Sockets", "By socket"),
        "events-table" => ("events", "Events", "Every event"),
        "constants-table" => ("constants", "Constants", "Penalties and peaks"),
        _ => ("metrics", "Metrics", "Every metric"),
    }
}

fn notes(counts: &Counts) -> Html {
    let mut notes: Vec<String> = Vec::new();
    for group in &counts.metrics {
        notes.extend(group.source.iter().map(|source| format!("{}: after {source}.", group.group)));
        notes.extend(group.remarks.iter().cloned());
        notes.extend(printed(group));
        let unmeasured = unmeasured(group);
        if group.constants.iter().any(|constant| constant.measured.is_some()) && !unmeasured.is_empty() {
            notes.push(format!(
                "{}: only the paper's, not measured here: {}.",
                group.group,
                unmeasured.join(", ")
            ));
        }
        let cut = |metric: &CountedMetric| Some(format!("{}: {}.", metric.name, cut_off(metric)?));
        notes.extend(group.metrics.iter().filter_map(cut));
        notes.extend(group.uncounted.iter().map(|what| format!("Not counted: {what}.")));
        let advice = |metric: &CountedMetric| Some(format!("{}: {}", metric.name, metric.advice.as_ref()?));
        notes.extend(group.metrics.iter().filter_map(advice));
    }
    notes.extend(counts.remarks.iter().cloned());
    for region in &counts.regions {
        notes.extend(region.remarks.iter().map(|said| format!("{}: {said}", region.path)));
    }
    notes.extend(counts.validation.as_ref().map(|basis| format!("Trust: {}.", trust::source(basis))));
    match notes.is_empty() {
        true => paragraph("quiet", "Nothing."),
        false => list("notes", notes),
    }
}

fn printed(group: &GroupMetrics) -> impl Iterator<Item = String> + '_ {
    group.metrics.iter().filter_map(|metric| {
        let printed = metric.printed.as_ref()?;
        let value = mean(&printed.values).filter(|value| mean(&metric.values) != Some(*value))?;
        let value = number(Some(value));
        Some(format!("{} as the paper prints it: {}; {}", metric.name, value.text(), printed.note))
    })
}

/// A stacked bar with a legend.
fn figure(bar: &CountedBar) -> Html {
    let base = bar.base();
    let mut x = 0.0;
    let mut parts = Vec::new();
    let mut legend = Vec::new();
    for (index, part) in bar.parts.iter().enumerate() {
        let share = part.value / base;
        let words = format!("{} {}", part.name, percent_text(share) + " %");
        let class = format!("part{}", index % COLOURS);
        let drawn = rectangle(x, share * WIDTH, &class);
        parts.push(drawn.with([element("title").say(&words).end()]).end());
        legend.push(element("li").set("class", class).say(words).end());
        x += share * WIDTH;
    }
    let described = format!(
        "{}: {}",
        bar.title,
        bar.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    let drawing = element("svg")
        .set("class", "stacked")
        .set("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .set("preserveAspectRatio", "none")
        .set("role", "img")
        .set("aria-label", described)
        .with(parts)
        .end();
    let whole =
        bar.whole.map_or_else(String::new, |whole| format!(" ({} {})", number(Some(whole)).text(), bar.unit));
    let caption = element("figcaption").say(format!("{}{whole}", bar.title)).end();
    let legend = element("ul").set("class", "legend").with(legend).end();
    element("figure").set("class", "division").with([caption, drawing, legend]).end()
}

fn rectangle(x: f64, width: f64, class: &str) -> super::markup::MarkupElement {
    element("rect")
        .set("class", class)
        .set("x", format!("{x:.1}"))
        .set("y", 0)
        .set("width", format!("{:.1}", width.max(0.0)))
        .set("height", HEIGHT)
}

/// A value between low, medium and high, with what that means.
fn reference(metric: &CountedMetric) -> Option<Html> {
    let (level, value) = (metric.level.as_ref()?, mean(&metric.values)?);
    let end = (1.5 * level.high).max(1.1 * value).max(f64::MIN_POSITIVE);
    let at = |value: f64| (value / end * WIDTH).clamp(0.0, WIDTH);
    let bands = [(0.0, level.medium, "low"), (level.medium, level.high, "medium"), (level.high, end, "high")];
    let mut drawn: Vec<Html> = bands
        .iter()
        .map(|(from, to, class)| rectangle(at(*from), at(*to) - at(*from), class).end())
        .collect();
    drawn.push(rectangle(at(value) - 1.5, 3.0, "mark").end());
    let word = ["low", "medium", "high"][usize::from(level.level.min(2))];
    let words =
        format!("{} {} {}: {word}, {}", metric.name, number(Some(value)).text(), metric.unit, level.means);
    let drawing = element("svg")
        .set("class", "reference")
        .set("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
        .set("preserveAspectRatio", "none")
        .set("role", "img")
        .set("aria-label", &words)
        .with(drawn)
        .end();
    let limits = format!("medium from {}, high from {} ({})", level.medium, level.high, level.source);
    let caption = element("figcaption").say(words).end();
    Some(
        element("figure")
            .set("class", "division")
            .with([caption, drawing, paragraph("quiet", &limits)])
            .end(),
    )
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use record::count::{BarPart, MetricLevel};

    use super::*;

    #[test]
    fn what_was_cut_off_is_among_the_notes_above_two_points() {
        let metric = |name: &str, cut_off: f64| CountedMetric {
            name: name.to_owned(),
            values: vec![40.0],
            cut_off: vec![cut_off],
            ..CountedMetric::default()
        };
        let metrics = vec![metric("productive", 1.9), metric("latency bound", -2.6)];
        let group = GroupMetrics { group: "STALLS".to_owned(), metrics, ..GroupMetrics::default() };
        let said = notes(&Counts { metrics: vec![group], ..Counts::default() });
        assert!(said.as_str().contains("latency bound: its events say 3 points less"), "{}", said.as_str());
        assert!(!said.as_str().contains("productive"), "{}", said.as_str());
    }

    #[test]
    fn bars_and_references_are_drawn_to_scale() {
        let part = |name: &str, value| BarPart { name: name.to_owned(), value, measured: None };
        let bar = CountedBar {
            title: "cycles <at> issue".to_owned(),
            of: None,
            whole: Some(400.0),
            unit: "cycles".to_owned(),
            parts: vec![part("issuing", 300.0), part("stalled", 100.0)],
            missing: Vec::new(),
        };
        let drawn = figure(&bar);
        assert!(drawn.as_str().contains(r#"x="0.0" y="0" width="540.0""#), "{}", drawn.as_str());
        assert!(drawn.as_str().contains(r#"x="540.0" y="0" width="180.0""#));
        assert!(drawn.as_str().contains("stalled 25 %") && drawn.as_str().contains("&lt;at&gt;"));
        // Parts that are more than their whole fill the bar and no more.
        let over = CountedBar { whole: Some(200.0), ..bar };
        assert!(figure(&over).as_str().contains(r#"x="540.0" y="0" width="180.0""#));
        let level = MetricLevel { level: 1, medium: 1.0, high: 2.0, means: "m".into(), source: "s".into() };
        let metric = CountedMetric {
            name: "CPI".to_owned(),
            values: vec![1.5],
            level: Some(level),
            ..CountedMetric::default()
        };
        let drawn = reference(&metric).map(|html| html.as_str().to_owned()).unwrap_or_default();
        // Three units are as wide as the drawing: the mark is in the middle of it.
        assert!(drawn.contains(r#"class="mark" x="358.5""#), "{drawn}");
        assert!(reference(&CountedMetric::default()).is_none());
    }
}
