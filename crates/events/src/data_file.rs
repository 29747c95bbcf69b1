//! A data file being read, to say where in it something is wrong.

use machine::DataFileError;

/// Name and text of a file.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Origin<'_> {
    /// `message` about the stretch that begins at byte `at`.
    pub fn error(&self, at: usize, message: impl Into<String>) -> DataFileError {
        DataFileError::at(self.text, at, self.name, message)
    }

    /// What the TOML parser found.
    pub fn toml(&self, error: &toml::de::Error) -> DataFileError {
        DataFileError::toml(self.text, self.name, error)
    }
}
