//! What may reach a terminal. Function names, paths, remarks of recordings and messages of the system are words of others, and
//! may hold codes that a terminal obeys. In a finished text nothing marks them, and each place that puts them there could
//! forget to look: so the whole text is looked through, once, where it leaves. Line ends and the codes that we write
//! ourselves pass, all else that steers is shown as a sign.

use std::borrow::Cow;

use machine::letters::{SIGN, steers};

/// Begins a code.
const ESCAPE: char = '\u{1b}';

/// Reset, bold, dimmed, underlined, red, green, yellow: what reports and the help are painted with. Others that use them
/// can hide nothing.
const OWN: [&str; 7] = ["[0m", "[1m", "[2m", "[4m", "[31m", "[32m", "[33m"];

/// A finished text for a terminal.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let passes = |letter: char| !steers(letter) || letter == '\n' || letter == '\t';
    if text.chars().all(passes) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let own = OWN.iter().find(|code| letter == ESCAPE && rest.starts_with(**code));
        match own {
            Some(code) => {
                out.push(ESCAPE);
                out += code;
                rest = &rest[code.len()..];
            }
            None => out.push(if passes(letter) { letter } else { SIGN }),
        }
    }
    out.into()
}

/// The same of one line.
pub fn harmless_line(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

/// JSON in which what steers is written with digits: the data is the same.
pub fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            // Outside of texts, which have none.
            '\n' => out.push(letter),
            _ if steers(letter) => {
                let mut units = [0; 2];
                out.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use report::layout::style::{HEADING, QUIET, WARNING, paint};

    use super::*;

    #[test]
    fn our_own_codes_pass_and_no_others() {
        for style in [HEADING, QUIET, WARNING] {
            let painted = paint(style, "größe\n");
            assert_eq!(harmless(&painted), painted);
        }
        assert_eq!(
            harmless("a\u{1b}[8m\u{1b}]0;b\u{7}\u{1b}[1;8m\u{9b}0m\u{202e}\r"),
            "a�[8m�]0;b��[1;8m�0m��"
        );
        assert_eq!(harmless_line("a\nmemwall: b"), "a memwall: b");
    }

    #[test]
    fn json_keeps_the_data() {
        let data = vec!["a\u{1b}\u{9b}\u{202e}\u{e0001}\n".to_owned()];
        let text = escaped(&serde_json::to_string_pretty(&data).expect("JSON"));
        assert!(!text.chars().any(|letter| letter != '\n' && steers(letter)), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).expect("JSON"), data);
    }
}
