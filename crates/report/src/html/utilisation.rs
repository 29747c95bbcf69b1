//! The memory hierarchy with how much of each level, controller and link is used.

use super::{
    hierarchy::{GAP, WIDTH, boxed, fixed},
    markup::{Html, element},
};
use crate::layout::{
    figures::{number, percent_text, scaled},
    prose::clipped,
    series::UsedLevel,
};

/// Width of the innermost box, of the drawing's.
const INNERMOST: f64 = 0.52;

/// From the core outwards; nothing without levels.
pub(super) fn figure(levels: &[UsedLevel]) -> Html {
    if levels.is_empty() {
        return Html::default();
    }
    let mut pieces = Vec::new();
    let core = [("cores".to_owned(), "name")];
    let mut y = boxed(&mut pieces, 4.0, INNERMOST, "core", &core, None);
    for (index, level) in levels.iter().enumerate() {
        let along = (index + 1) as f64 / levels.len() as f64;
        let share = level.used.as_ref().ok().copied();
        pieces.push(arrow(y, level));
        let class = if matches!(level.name.as_str(), "memory" | "link") { "memory" } else { "cache" };
        let width = INNERMOST + (1.0 - INNERMOST) * along;
        y = boxed(&mut pieces, y + GAP, width, class, &lines(level), share);
    }
    let words: Vec<String> = levels
        .iter()
        .map(|level| lines(level).iter().map(|(text, _)| text.clone()).collect::<Vec<_>>().join(" "))
        .collect();
    let drawing = element("svg")
        .set("viewBox", format!("0 0 {WIDTH} {:.0}", y + 4.0))
        .set("role", "img")
        .set("aria-label", format!("Use of each level from the cores outwards. {}", words.join(". ")))
        .with(pieces);
    let caption = element("figcaption").say(
        "How much of what each level, the memory controllers and the links give is used: the rate over the most that was \
         measured on this machine. High alone is no harm.",
    );
    element("figure").set("class", "hierarchy").with([caption.end(), drawing.end()]).end()
}

fn lines(level: &UsedLevel) -> Vec<(String, &'static str)> {
    match &level.used {
        Ok(share) => vec![(format!("{} · {} % used", level.name, percent_text(*share)), "name")],
        Err(reason) => {
            vec![(format!("{} · use not known", level.name), "name"), (clipped(reason, 58), "fact")]
        }
    }
}

fn arrow(y: f64, level: &UsedLevel) -> Html {
    let centre = WIDTH / 2.0;
    let line = element("line").set("class", "arrow").set("x1", centre).set("x2", centre);
    let mut pieces = vec![line.set("y1", fixed(y)).set("y2", fixed(y + GAP)).end()];
    if let Some((rate, unit)) = &level.rate {
        let (value, unit) = scaled(Some(*rate), unit);
        let text = element("text").set("class", "fact").set("x", centre + 12.0).set("y", fixed(y + 24.0));
        pieces.push(text.say(format!("{} {unit}", number(value).text())).end());
    }
    Html::all(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::series::{tests::counts, used_levels};

    #[test]
    fn a_gauge_is_as_full_as_the_level_and_missing_is_said() {
        let drawn = figure(&used_levels(&counts()));
        let text = drawn.as_str();
        assert!(text.contains("memory · 80 % used") && text.contains("8.00 GB/s"), "{text}");
        assert!(text.contains("L2 · use not known") && text.contains("no peak was measured"), "{text}");
        assert_eq!((text.matches("\"gauge\"").count(), text.matches("gauge-full").count()), (1, 1));
        // The outermost box is 436 wide, its gauge 404 of which four fifths are filled.
        assert!(text.contains(r#"width="323.2""#), "{text}");
        assert_eq!(figure(&[]).as_str(), "");
    }
}
