//! Drawing parts as a tree of lines.

use machine::CpuSet;

use super::{parts::TopologyPart, phrases, spaced};
use crate::layout::prose::width;

/// The least room left to a text, however deep it lies.
const LEAST: usize = 20;

/// The parts under a title that stands above them.
pub(super) fn draw(parts: &[TopologyPart], columns: usize) -> String {
    let mut out = String::new();
    branches(&mut out, parts, "", Some(&CpuSet::default()), columns);
    out
}

/// `around` holds the CPUs of the part these lie in, or nothing where those are not told: inside of a part that
/// stands for several.
fn branches(out: &mut String, parts: &[TopologyPart], prefix: &str, around: Option<&CpuSet>, columns: usize) {
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        let (corner, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let below = format!("{prefix}{below}");
        let mut lines = part.details.clone();
        let several = part.places.len() > 1;
        let mut title =
            if several { format!("{} × {}", part.places.len(), part.what) } else { part.what.clone() };
        match around {
            Some(_) if several => {
                let places: Vec<String> = part.places.iter().map(spaced).collect();
                lines.insert(0, format!("CPUs {}", places.join(" | ")));
            }
            Some(around) if *around != part.places[0] => {
                title += &format!(" · CPU{} {}", plural(&part.places[0]), spaced(&part.places[0]));
            }
            _ => {}
        }
        let under = format!("{below}{}", if part.inner.is_empty() { "" } else { "│  " });
        push(out, &format!("{prefix}{corner}"), &under, &title, columns);
        for line in lines {
            push(out, &under, &under, &line, columns);
        }
        let inside = if several { None } else { around.map(|_| &part.places[0]) };
        branches(out, &part.inner, &below, inside, columns);
    }
}

fn plural(set: &CpuSet) -> &'static str {
    if set.len() == 1 { "" } else { "s" }
}

/// A text behind `first`, further lines of it behind `further`.
fn push(out: &mut String, first: &str, further: &str, text: &str, columns: usize) {
    let room = columns.saturating_sub(width(first).max(width(further))).max(LEAST);
    for (index, line) in phrases(text, room).lines().enumerate() {
        *out += if index == 0 { first } else { further };
        *out += line;
        out.push('\n');
    }
}
