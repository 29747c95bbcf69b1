//! How a command ends when it does not succeed.

use std::{error::Error, fmt::Display, process::ExitCode};

/// Why a command failed; decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// What was asked makes no sense, or cannot exist here: exit code 2.
    Usage(String),
    /// The measurement itself, or keeping it, failed: exit code 1.
    Measurement(String),
    /// The reader of our output went away, as `head` does: not a failure.
    BrokenPipe,
}

impl Failure {
    /// Bad usage, with the whole chain of causes in one line.
    pub fn usage(error: impl Display + AsChain) -> Self {
        Self::Usage(error.chain())
    }

    /// A failed measurement, with the whole chain of causes in one line.
    pub fn measurement(error: impl Display + AsChain) -> Self {
        Self::Measurement(error.chain())
    }

    /// The one clear line.
    pub fn line(self) -> String {
        match self {
            Self::BrokenPipe => "the reader of our output went away".to_owned(),
            Self::Usage(text) | Self::Measurement(text) => text,
        }
    }

    /// Prints the one clear line and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::BrokenPipe => return ExitCode::SUCCESS,
            Self::Usage(text) => (text, 2),
            Self::Measurement(text) => (text, 1),
        };
        crate::output::say(&text);
        ExitCode::from(code)
    }
}

/// Something that can say itself and its causes in one line.
pub trait AsChain {
    /// The message, then each cause that adds something.
    fn chain(&self) -> String;
}

impl<E: Error> AsChain for E {
    fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
            cause = error.source();
        }
        line.replace('\n', " ")
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Measurement(format!("cannot write the output: {error}")),
        }
    }
}
