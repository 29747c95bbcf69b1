//! Text for those who asked for ASCII: `LC_ALL=C`. Each letter becomes one letter, so that tables stay tables.

use std::{borrow::Cow, sync::OnceLock};

/// The text as the locale of the user can show it.
pub fn shown(text: &str) -> Cow<'_, str> {
    static IS_WANTED: OnceLock<bool> = OnceLock::new();
    let is_wanted = *IS_WANTED.get_or_init(|| is_wanted(|name| std::env::var(name).ok()));
    if is_wanted && !text.is_ascii() {
        text.chars().map(letter).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Whether the locale has ASCII only, or another encoding than UTF-8. One that nobody set says nothing: most terminals
/// show UTF-8.
fn is_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    locale.is_some_and(|locale| !locale.to_lowercase().replace('-', "").contains("utf8"))
}

fn letter(letter: char) -> char {
    match letter {
        _ if letter.is_ascii() => letter,
        '…' | '·' | '┊' => '.',
        '–' | '−' | '─' => '-',
        '•' | '✓' | '◆' => '*',
        '±' => '~',
        '×' => 'x',
        'µ' => 'u',
        '│' | '┤' | '├' => '|',
        '└' | '┬' => '+',
        '→' => '>',
        '≤' => '<',
        '▁' | '▂' | '▃' => '_',
        '▄' | '▅' | '▆' => '=',
        '▇' | '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '▍' | '▎' | '▏' => '|',
        // The dots of curves.
        '\u{2801}'..='\u{28ff}' => '*',
        '\u{2800}' | '\u{a0}' => ' ',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_without_utf_8_wants_ascii() {
        let wants = |variables: &'static [(&str, &str)]| {
            is_wanted(|name| {
                variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(wants(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(wants(&[("LC_ALL", ""), ("LANG", "POSIX")]));
        assert!(!wants(&[("LC_ALL", "C.UTF-8")]) && !wants(&[("LC_CTYPE", "en_US.utf8"), ("LANG", "C")]));
        assert!(!wants(&[]));
    }

    #[test]
    fn letters_keep_their_number() {
        let text = "std::sort<…>(…)  5 µs ± 2 %  ██▋ ⣿ größe";
        let plain: String = text.chars().map(letter).collect();
        assert_eq!(plain, "std::sort<.>(.)  5 us ~ 2 %  ### * gr??e");
    }
}
