//! A drawing of the machine's memory hierarchy: what it claims, what was measured, and how near a program comes to it.

use analysis::findings::LevelLimit;
use machine::{
    Bytes, Profile,
    profile::{Estimate, LevelName, ProfileLevel},
    units::{gb_per_s, nanos},
};

use super::markup::{Html, element};
use crate::{
    layout::figures::{marked_text, percent_text},
    layout::prose::clipped,
    terminal::run::limits::name,
};

pub(super) const WIDTH: f64 = 440.0;
pub(super) const GAP: f64 = 38.0;
const LINE: f64 = 18.0;
/// The innermost box takes this part of the width.
const NARROWEST: f64 = 0.62;

/// One level as it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub(super) name: String,
    pub(super) is_memory: bool,
    claimed: Option<String>,
    usable: Option<String>,
    usable_bytes: Option<f64>,
    pub(super) latency: Option<String>,
    one_core: Option<String>,
    all_cores: Option<String>,
}

/// How near a program comes to the machine's limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nearness {
    /// Of the bandwidth of memory: share of it, and the words.
    pub bandwidth: Option<(f64, String)>,
    /// Threads running at once, of CPUs.
    pub threads: Option<(f64, Option<usize>)>,
    /// Data the program waits for: name and size.
    pub data: Vec<(String, u64)>,
}

/// The levels of a profile: claims and measurements.
pub fn of_profile(profile: &Profile) -> Vec<Drawn> {
    profile.levels.iter().map(of_level).collect()
}

fn of_level(level: &ProfileLevel) -> Drawn {
    let marked = |estimate: Option<Estimate>, show: fn(f64) -> String| marked_text(&estimate?, show);
    Drawn {
        name: name(&level.name),
        is_memory: matches!(level.name, LevelName::Memory { .. }),
        claimed: level.claimed.map(|bytes| bytes.to_string()),
        usable: marked(level.usable, |bytes| Bytes(bytes.max(0.0) as u64).to_string()),
        usable_bytes: level.usable.map(|usable| usable.value).or(level.claimed.map(|bytes| bytes.0 as f64)),
        latency: marked(level.latency_ns, nanos),
        one_core: marked(level.one_core.load, gb_per_s),
        all_cores: marked(level.all_cores.load, gb_per_s),
    }
}

/// The levels as findings keep them: measurements only.
pub fn of_limits(levels: &[LevelLimit]) -> Vec<Drawn> {
    let drawn = |level: &LevelLimit| Drawn {
        name: name(&level.name),
        is_memory: matches!(level.name, LevelName::Memory { .. }),
        claimed: None,
        usable: level.usable_bytes.map(|bytes| Bytes(bytes.max(0.0) as u64).to_string()),
        usable_bytes: level.usable_bytes,
        latency: level.latency_ns.map(nanos),
        one_core: level.one_core_bytes_per_s.map(gb_per_s),
        all_cores: level.all_cores_bytes_per_s.map(gb_per_s),
    };
    levels.iter().map(drawn).collect()
}

/// The drawing, from the core outwards; nothing without levels.
pub fn figure(levels: &[Drawn], near: &Nearness) -> Html {
    if levels.is_empty() {
        return Html::default();
    }
    let mut pieces = Vec::new();
    let mut y = 4.0;
    let mut core = vec![("core".to_owned(), "name")];
    core.extend(running(near).map(|text| (text, "fact")));
    y = boxed(&mut pieces, y, NARROWEST - 0.1, "core", &core, near.threads.and_then(share_of_cpus));
    for (index, level) in levels.iter().enumerate() {
        pieces.push(arrow(y, level));
        let along = index as f64 / (levels.len() - 1).max(1) as f64;
        let width = NARROWEST + (1.0 - NARROWEST) * along;
        let first_memory = level.is_memory && levels[..index].iter().all(|before| !before.is_memory);
        let bandwidth = near.bandwidth.as_ref().filter(|_| first_memory);
        let lines = lines(level, levels, near, bandwidth.map(|(_, words)| words.as_str()));
        let class = if level.is_memory { "memory" } else { "cache" };
        y = boxed(&mut pieces, y + GAP, width, class, &lines, bandwidth.map(|(share, _)| *share));
    }
    let drawing = element("svg")
        .set("viewBox", format!("0 0 {WIDTH} {:.0}", y + 4.0))
        .set("role", "img")
        .set("aria-label", description(levels, near))
        .with(pieces);
    let caption = element("figcaption").say(
        "This machine's memory hierarchy. Arrows: bandwidth of loads from that level. \
         Capacity: what it claims, and what one core was measured to have.",
    );
    element("figure").set("class", "hierarchy").with([caption.end(), drawing.end()]).end()
}

/// A box with lines of text and, if given, a gauge; returns where it ends.
pub(super) fn boxed(
    pieces: &mut Vec<Html>,
    y: f64,
    width: f64,
    class: &str,
    lines: &[(String, &str)],
    gauge: Option<f64>,
) -> f64 {
    let (w, h) =
        (WIDTH * width - 4.0, 14.0 + LINE * lines.len() as f64 + if gauge.is_some() { 14.0 } else { 0.0 });
    let x = (WIDTH - w) / 2.0;
    let rect = |class: &str, x: f64, y: f64, w: f64, h: f64| {
        let rect = element("rect").set("class", class).set("x", fixed(x)).set("y", fixed(y)).set("rx", 4);
        rect.set("width", fixed(w)).set("height", fixed(h)).end()
    };
    pieces.push(rect(&format!("box {class}"), x, y, w, h));
    for (number, (text, class)) in lines.iter().enumerate() {
        let line =
            element("text").set("class", class).set("x", fixed(WIDTH / 2.0)).set("text-anchor", "middle");
        pieces.push(line.set("y", fixed(y + 20.0 + LINE * number as f64)).say(text).end());
    }
    if let Some(share) = gauge {
        let (left, top, room) = (x + 16.0, y + h - 16.0, w - 32.0);
        pieces.push(rect("gauge", left, top, room, 8.0));
        pieces.push(rect("gauge-full", left, top, room * share.clamp(0.0, 1.0), 8.0));
    }
    y + h
}

fn arrow(y: f64, level: &Drawn) -> Html {
    let centre = WIDTH / 2.0;
    let line =
        element("line").set("class", "arrow").set("x1", centre).set("x2", centre).set("y1", fixed(y + 8.0));
    let head = format!("{},{} {},{} {},{}", centre - 5.0, y + 9.0, centre + 5.0, y + 9.0, centre, y + 1.0);
    let text = match (&level.one_core, &level.all_cores) {
        (Some(one), Some(all)) => (format!("one core {one}"), format!("all {all}")),
        (Some(one), None) => (format!("one core {one}"), String::new()),
        (None, Some(all)) => (String::new(), format!("all {all}")),
        (None, None) => ("bandwidth".to_owned(), "not measured".to_owned()),
    };
    let side = |x: f64, anchor: &str, text: &str| {
        let place = element("text").set("class", "fact").set("x", x).set("y", fixed(y + 24.0));
        place.set("text-anchor", anchor).say(text).end()
    };
    Html::all([
        line.set("y2", fixed(y + GAP)).end(),
        element("polygon").set("class", "arrow").set("points", head).end(),
        side(centre - 12.0, "end", &text.0),
        side(centre + 12.0, "start", &text.1),
    ])
}

fn lines(
    level: &Drawn,
    levels: &[Drawn],
    near: &Nearness,
    bandwidth: Option<&str>,
) -> Vec<(String, &'static str)> {
    let name = match &level.latency {
        Some(latency) => format!("{} · {latency}", level.name),
        None => format!("{} · latency not measured", level.name),
    };
    let mut lines = vec![(name, "name")];
    let capacity = match (&level.claimed, &level.usable) {
        (Some(claimed), Some(usable)) => Some(format!("claims {claimed}, gives one core {usable}")),
        (Some(claimed), None) if level.is_memory => Some(format!("{claimed} installed")),
        (Some(claimed), None) => Some(format!("claims {claimed}, not measured")),
        (None, Some(usable)) => Some(format!("gives one core {usable}")),
        (None, None) => None,
    };
    lines.extend(capacity.map(|text| (text, "fact")));
    for (data, bytes) in near.data.iter().filter(|(_, bytes)| home(*bytes, levels) == Some(&level.name)) {
        let text = format!("◆ {}: {}", clipped(data, 34), Bytes(*bytes));
        lines.push((text, "data"));
    }
    lines.extend(bandwidth.map(|text| (text.to_owned(), "near")));
    lines
}

/// The first level that data of this size fits in.
pub(super) fn home(bytes: u64, levels: &[Drawn]) -> Option<&String> {
    let cache =
        |level: &&Drawn| !level.is_memory && level.usable_bytes.is_some_and(|usable| bytes as f64 <= usable);
    levels.iter().find(cache).or_else(|| levels.iter().find(|level| level.is_memory)).map(|level| &level.name)
}

fn running(near: &Nearness) -> Option<String> {
    near.threads.map(|(threads, cpus)| match cpus {
        Some(cpus) => format!("{threads:.1} threads ran at once, on {cpus} CPUs"),
        None => format!("{threads:.1} threads ran at once"),
    })
}

fn share_of_cpus((threads, cpus): (f64, Option<usize>)) -> Option<f64> {
    cpus.filter(|&cpus| cpus > 0).map(|cpus| threads / cpus as f64)
}

fn description(levels: &[Drawn], near: &Nearness) -> String {
    let unknown = || "not measured".to_owned();
    let mut text = "Memory hierarchy from the core outwards.".to_owned();
    for level in levels {
        let latency = level.latency.clone().unwrap_or_else(unknown);
        let claimed = level.claimed.clone().unwrap_or_else(|| "nothing".to_owned());
        let usable = level.usable.clone().unwrap_or_else(unknown);
        text += &format!(" {}: latency {latency}, claims {claimed}, usable {usable}.", level.name);
    }
    if let Some((share, words)) = &near.bandwidth {
        text += &format!(" {words}: {} % of the limit.", percent_text(*share));
    }
    text
}

pub(super) fn fixed(value: f64) -> String {
    format!("{value:.1}")
}
