//! What is wrong with one of the data files, and where.

use std::fmt;

/// A data file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for DataFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.origin, self.line, self.column, self.message)
    }
}

impl std::error::Error for DataFileError {}

/// A text being read, to say where in it something is wrong.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Origin<'_> {
    /// `message` about the stretch that begins at byte `at`.
    pub fn error(&self, at: usize, message: impl Into<String>) -> DataFileError {
        let at = (0..=at.min(self.text.len())).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        DataFileError {
            origin: self.name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }

    /// What the TOML parser found.
    pub fn toml(&self, error: &toml::de::Error) -> DataFileError {
        self.error(error.span().unwrap_or_default().start, error.message())
    }
}
