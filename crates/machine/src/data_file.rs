//! What is wrong with a data file, and where: model, kernel, event and group files.

/// A data file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {message}")]
pub struct DataFileError {
    /// The file's name.
    pub origin: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl DataFileError {
    /// `message` about byte `at` of `text`, which is the content of `origin`.
    pub fn at(text: &str, at: usize, origin: &str, message: impl Into<String>) -> Self {
        let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            origin: origin.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    /// What the TOML parser found in `text`, in one line.
    pub fn toml(text: &str, origin: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self::at(text, at, origin, error.message().replace('\n', " "))
    }
}
