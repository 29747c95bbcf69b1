//! Running text that fits the terminal.

use anstyle::Style;
pub use machine::letters::visible;
use unicode_width::UnicodeWidthStr;

use crate::layout::style::{HEADING, paint};

/// Longest line of prose, however wide the terminal: longer ones are hard to read.
const READABLE: usize = 100;

/// Terminal columns a text takes. The text holds no colour codes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Whether `word` must stay on the line of the word before it: a unit after its number, a dot between parts.
fn clings(before: &str, word: &str) -> bool {
    const UNITS: [&str; 18] = [
        "B", "KiB", "MiB", "GiB", "TiB", "ns", "µs", "ms", "s", "GB/s", "GHz", "%", "pages", "second",
        "minute", "hour", "day", "sizes",
    ];
    let unit = word.trim_end_matches([',', ';', ':', '.', ')']);
    word == "·"
        || (before.ends_with(|c: char| c.is_ascii_digit())
            && (UNITS.contains(&unit) || UNITS.contains(&unit.trim_end_matches('s'))))
}

/// `text` broken between words so that no line exceeds `columns`; the first line starts with `first`, the
/// others are indented as far. A number keeps its unit. A word longer than the line keeps a line of its own. Ends with a line end.
pub fn wrap(first: &str, text: &str, columns: usize) -> String {
    let limit = columns.min(READABLE);
    let indent = " ".repeat(width(first));
    let mut chunks: Vec<String> = Vec::new();
    let mut before = "";
    for word in text.split_ascii_whitespace() {
        match chunks.last_mut() {
            Some(chunk) if clings(before, word) => *chunk += &format!(" {word}"),
            _ => chunks.push(word.to_owned()),
        }
        before = word;
    }
    let mut out = first.to_owned();
    let mut used = width(first);
    for (i, chunk) in chunks.iter().enumerate() {
        if i > 0 && used + 1 + width(chunk) > limit {
            out += &format!("\n{indent}");
            used = width(first);
        } else if i > 0 {
            out.push(' ');
            used += 1;
        }
        out += chunk;
        used += width(chunk);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// [`wrap`], painted.
pub fn wrap_in(style: Style, first: &str, text: &str, columns: usize) -> String {
    let wrapped = wrap(first, text, columns);
    format!("{}\n", paint(style, wrapped.trim_end_matches('\n')))
}

/// A heading and, on the same line, text that wraps under itself; on the next where the room is small.
pub fn titled(title: &str, text: &str, columns: usize) -> String {
    if width(title) > columns / 3 {
        return format!("{}\n{}", paint(HEADING, title), wrap("  ", text, columns));
    }
    let wrapped = wrap(&format!("{title}  "), text, columns);
    format!("{}{}", paint(HEADING, title), wrapped.strip_prefix(title).unwrap_or(&wrapped))
}

/// `parts` joined by middle dots, skipping empty ones. Spaces inside a part may still be broken.
pub fn dotted<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The beginning of a text in at most `room` letters, the last of them a sign that more follows.
pub fn clipped(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// A field of a CSV file, quoted as RFC 4180 says, where needed.
pub fn csv_field(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// `1 core`, `2 cores`, `2 processes`.
pub fn counted(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// As a sentence begins.
pub fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_exceeds_the_columns() {
        let text = "a guest often claims a last-level cache many times larger than the one it gets";
        for columns in [20, 33, 80] {
            let wrapped = wrap("• ", text, columns);
            assert!(wrapped.lines().all(|line| width(line) <= columns), "{wrapped}");
            assert_eq!(wrapped.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), text);
        }
    }

    #[test]
    fn a_long_word_and_no_text_survive() {
        assert_eq!(wrap("", "incomprehensibilities ok", 5), "incomprehensibilities\nok\n");
        assert_eq!(wrap("• ", "", 5), "•\n");
    }

    #[test]
    fn units_stay_with_their_numbers() {
        assert_eq!(wrap("", "took 12 ns, in all", 8), "took\n12 ns,\nin all\n");
        assert_eq!(wrap("", "one · two", 4), "one ·\ntwo\n");
        assert_eq!(wrap("", "measured 2 hours ago", 12), "measured\n2 hours ago\n");
    }

    #[test]
    fn lists_read_as_english() {
        let items = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert_eq!(listed(&items(0)), "");
        assert_eq!(listed(&items(1)), "0");
        assert_eq!(listed(&items(3)), "0, 1 and 2");
        assert_eq!(
            (counted(1, "process"), counted(41, "process")),
            ("1 process".into(), "41 processes".into())
        );
        assert_eq!(counted(1, "size"), "1 size");
        assert_eq!(counted(0, "size"), "0 sizes");
        assert_eq!(dotted(["a", "", "b"]), "a · b");
    }
}
