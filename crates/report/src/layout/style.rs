//! Colours and weights of the text reports. Codes are embedded in the text; the printer strips them off a pipe.

use anstyle::{AnsiColor, Style};

/// Section titles and column heads.
pub const HEADING: Style = Style::new().bold();
/// What helps but is not the answer: rules, axes, provenance.
pub const QUIET: Style = Style::new().dimmed();
/// What makes a number less believable.
pub const WARNING: Style = AnsiColor::Yellow.on_default();
/// The numbers people came for.
pub const PLAIN: Style = Style::new();

/// `text` in `style`; plain text stays free of codes.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_can_be_stripped_and_plain_has_none() {
        let warning = paint(WARNING, "steal");
        assert_ne!(warning, "steal");
        assert_eq!(anstream::adapter::strip_str(&warning).to_string(), "steal");
        assert_eq!(paint(PLAIN, "3.1"), "3.1");
    }
}
