//! Words of others: names of functions and files, remarks, messages. They may hold letters that a terminal or a browser
//! obeys instead of showing them.

/// What stands in the place of a letter that is not shown.
pub const SIGN: char = '\u{fffd}';

/// Whether a letter steers what shows it: control characters, marks that turn the direction of writing, and letters
/// without a width, which make two names look the same.
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text with signs in the place of what steers.
pub fn visible(text: &str) -> String {
    text.chars().map(|letter| if steers(letter) { SIGN } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_shown_and_words_stay() {
        assert_eq!(visible("a\u{1b}[1m\u{9b}b\u{7f}\u{202e}c\u{2066}\n"), "a�[1m�b��c��");
        assert_eq!(visible("größe::名前 שלום"), "größe::名前 שלום");
    }
}
