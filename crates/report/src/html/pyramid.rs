//! The memory pyramid beside the verdict: at which levels a program waits, and for which data.

use analysis::findings::{LevelFindings, WaitLevel};

use super::{
    hierarchy::{Drawn, home},
    markup::{Html, element},
};
use crate::{
    layout::figures::{UNTOLD, percent_text},
    layout::signature::object_name,
};

const WIDTH: f64 = 420.0;
/// The core stands on top.
const APEX: f64 = 96.0;
const APEX_HEIGHT: f64 = 28.0;
const LINE: f64 = 17.0;
const GAP: f64 = 3.0;
/// Shares below this are not worth a colour.
const WORTH: f64 = 0.005;
/// Letters of the drawing are about so wide.
const LETTER: f64 = 6.6;

/// Data that is waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitedData {
    /// Index among the page's objects.
    pub object: usize,
    /// For people.
    pub name: String,
    /// All its blocks together.
    pub bytes: u64,
}

/// One storey as it is drawn.
struct Storey<'a> {
    title: String,
    waiting: f64,
    data: Vec<&'a WaitedData>,
}

impl Storey<'_> {
    fn height(&self) -> f64 {
        let lines = 1 + usize::from(self.waiting >= WORTH) + self.data.len();
        12.0 + LINE * lines as f64
    }
}

/// The drawing; nothing without levels.
pub fn figure(levels: &[Drawn], waits: &LevelFindings, data: &[WaitedData]) -> Html {
    if levels.is_empty() {
        return Html::default();
    }
    let storeys: Vec<Storey<'_>> = levels.iter().map(|level| storey(level, levels, waits, data)).collect();
    let height = APEX_HEIGHT + storeys.iter().map(|storey| GAP + storey.height()).sum::<f64>();
    let half = |y: f64| (APEX + (WIDTH - 4.0 - APEX) * y / height) / 2.0;
    let mut pieces =
        vec![block("storey heat-0", 0.0, APEX_HEIGHT, half), line("name", APEX_HEIGHT - 9.0, "core")];
    let mut y = APEX_HEIGHT;
    for storey in &storeys {
        y += GAP;
        pieces.push(block(&format!("storey heat-{}", heat(storey.waiting)), y, storey.height(), half));
        pieces.extend(lines(storey, y, half));
        y += storey.height();
    }
    let drawing = element("svg")
        .set("viewBox", format!("0 0 {WIDTH} {:.0}", height + 2.0))
        .set("role", "img")
        .set("aria-label", description(&storeys))
        .with(pieces);
    let caption = element("figcaption").say(caption(waits));
    element("figure").set("class", "pyramid").with([drawing.end(), caption.end()]).end()
}

fn storey<'a>(level: &Drawn, levels: &[Drawn], waits: &LevelFindings, data: &'a [WaitedData]) -> Storey<'a> {
    let is_here = |part: WaitLevel| match part {
        WaitLevel::Memory => level.is_memory && levels.iter().find(|one| one.is_memory) == Some(level),
        WaitLevel::Cache(_) => part.label() == level.name,
        WaitLevel::OtherCore | WaitLevel::Translation => false,
    };
    let told = level.latency.as_ref().filter(|latency| *latency != UNTOLD);
    let latency = told.map_or_else(String::new, |latency| format!(" · {latency}"));
    Storey {
        title: format!("{}{latency}", level.name),
        waiting: waits
            .parts
            .iter()
            .filter(|part| is_here(part.level))
            .fold(0.0, |sum, part| sum + part.share),
        data: data.iter().filter(|one| home(one.bytes, levels) == Some(&level.name)).collect(),
    }
}

/// How deep its colour is, 0 to 5.
fn heat(share: f64) -> usize {
    if share < WORTH { 0 } else { (share * 5.0).ceil().clamp(1.0, 5.0) as usize }
}

/// A part of the pyramid from `y` down.
fn block(class: &str, y: f64, height: f64, half: impl Fn(f64) -> f64) -> Html {
    let centre = WIDTH / 2.0;
    let (top, bottom) = (half(y), half(y + height));
    let corners =
        [(centre - top, y), (centre + top, y), (centre + bottom, y + height), (centre - bottom, y + height)];
    let corners = corners.map(|(x, y)| format!("{x:.1},{:.1}", y + 1.0)).join(" ");
    element("polygon").set("class", class).set("points", corners).end()
}

fn line(class: &str, y: f64, text: &str) -> Html {
    let place = element("text").set("class", class).set("x", WIDTH / 2.0).set("y", format!("{y:.1}"));
    place.set("text-anchor", "middle").say(text).end()
}

fn lines(storey: &Storey<'_>, y: f64, half: impl Fn(f64) -> f64) -> Vec<Html> {
    let mut at = y + LINE + 3.0;
    let mut out = vec![line("name", at, &storey.title)];
    if storey.waiting >= WORTH {
        at += LINE;
        out.push(line("wait", at, &format!("waits here {} %", percent_text(storey.waiting))));
    }
    for data in &storey.data {
        at += LINE;
        // Two letters for the sign before it.
        let room = (2.0 * half(at - LINE) / LETTER) as usize;
        let name = format!("◆ {}", object_name(&data.name, room.saturating_sub(4)));
        let link = element("a").set("href", format!("#object-{}", data.object));
        out.push(link.with([line("data", at, &name), element("title").say(&data.name).end()]).end());
    }
    out
}

fn caption(waits: &LevelFindings) -> String {
    let elsewhere = |level: WaitLevel| matches!(level, WaitLevel::OtherCore | WaitLevel::Translation);
    let mut also: Vec<String> = waits
        .parts
        .iter()
        .filter(|part| elsewhere(part.level) && part.share >= WORTH)
        .map(|part| format!("{} {} %", part.level.label(), percent_text(part.share)))
        .collect();
    if waits.unknown >= WORTH {
        also.push(format!("at a level that is not known {} %", percent_text(waits.unknown)));
    }
    let also =
        if also.is_empty() { String::new() } else { format!(" Not in the drawing: {}.", also.join(", ")) };
    format!(
        "Where it waits, as shares of user time; ◆ data it waits for, at the level that it fits in.{also}"
    )
}

/// For whoever cannot see it; names of data are in the drawing itself.
fn description(storeys: &[Storey<'_>]) -> String {
    let said = storeys.iter().map(|storey| match storey.waiting >= WORTH {
        true => format!(" {}: waits {} % of user time.", storey.title, percent_text(storey.waiting)),
        false => format!(" {}.", storey.title),
    });
    format!("Memory pyramid from the core down.{}", said.collect::<String>())
}

#[cfg(test)]
mod tests {
    use analysis::findings::{LevelLimit, LevelPart};
    use machine::profile::LevelName;

    use super::*;
    use crate::html::hierarchy::of_limits;

    fn level(name: LevelName, usable_bytes: Option<f64>) -> LevelLimit {
        LevelLimit {
            name,
            usable_bytes,
            latency_ns: Some(4.0),
            one_core_bytes_per_s: None,
            all_cores_bytes_per_s: None,
        }
    }

    #[test]
    fn waiting_and_data_stand_at_their_level() {
        let levels = of_limits(&[
            level(LevelName::Cache(1), Some(32e3)),
            level(LevelName::Cache(2), Some(1e6)),
            level(LevelName::Memory { node: 0, local: true }, None),
        ]);
        let parts = [(WaitLevel::Memory, 0.61), (WaitLevel::Cache(2), 0.04), (WaitLevel::Translation, 0.1)];
        let waits = LevelFindings {
            parts: parts.map(|(level, share)| LevelPart { level, share }).to_vec(),
            unknown: 0.02,
            or: None,
            by_time: None,
            perhaps: None,
            earned: None,
        };
        let data = [("rows", 64 << 20), ("index<…>", 300_000)];
        let data: Vec<WaitedData> = data
            .into_iter()
            .enumerate()
            .map(|(object, (name, bytes))| WaitedData { object, name: name.to_owned(), bytes })
            .collect();
        let drawn = figure(&levels, &waits, &data);
        let text = drawn.as_str();
        let order =
            ["L1 · 4.00 ns", "L2 · 4.00 ns", "waits here 4.0 %", "◆ index&lt;…&gt;", "memory · 4.00 ns"];
        let order: Vec<usize> =
            order.iter().map(|part| text.rfind(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
        assert!(order.is_sorted(), "{order:?} {text}");
        assert!(
            text.contains("waits here 61 %")
                && text.contains("heat-4")
                && text.contains("href=\"#object-0\""),
            "{text}"
        );
        assert!(
            text.contains(
                "Not in the drawing: address translation (TLB) 10 %, at a level that is not known 2.0 %."
            ),
            "{text}"
        );
        assert_eq!(figure(&[], &waits, &data).as_str(), "");
    }
}
