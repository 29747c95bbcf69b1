//! Kernel files: TOML with a small language for the loop body. Every error names line and column.

mod body;
mod file;
mod kernel;

use std::fmt;

use crate::description::Description;

/// No kernel file is larger than this; a larger one is a mistake.
const LARGEST_FILE: usize = 1 << 20;

/// What is wrong with a kernel file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFileError {
    /// The file's name.
    pub origin: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for KernelFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.origin, self.line, self.column, self.message)
    }
}

impl std::error::Error for KernelFileError {}

impl KernelFileError {
    /// `message` about byte `at` of `text`, which is the content of `origin`.
    pub(crate) fn at(text: &str, at: usize, origin: &str, message: String) -> Self {
        let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            origin: origin.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

/// A complaint about a stretch of the text, by byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Complaint {
    at: usize,
    message: String,
}

impl Complaint {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Reads all kernels of a file. `origin` is the name shown in errors.
///
/// ```
/// let text = r#"
/// [[kernel]]
/// name = "scale"
/// about = "A[i] = c * B[i]"
/// streams = ["A", "B"]
/// constants = { c = 3.0 }
/// body = ["x = mul c, [B]", "store A, x"]
/// "#;
/// let kernels = kernels::parse::kernels(text, "mine.toml")?;
/// assert_eq!(kernels[0].name, "scale");
/// let error = kernels::parse::kernels(&text.replace("mul c", "mul d"), "mine.toml").unwrap_err();
/// assert_eq!(error.to_string(), "mine.toml:7:18: 'd' holds nothing yet: declare it, or write it first");
/// # Ok::<(), kernels::parse::KernelFileError>(())
/// ```
pub fn kernels(text: &str, origin: &str) -> Result<Vec<Description>, KernelFileError> {
    let locate = |complaint: Complaint| KernelFileError::at(text, complaint.at, origin, complaint.message);
    if text.len() > LARGEST_FILE {
        return Err(locate(Complaint::new(0, "the file is larger than 1 MiB: not a kernel file")));
    }
    let file: file::File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        locate(Complaint::new(at, error.message().replace('\n', " ")))
    })?;
    let mut found: Vec<Description> = Vec::new();
    for raw in &file.kernel {
        let description = kernel::build(raw, text).map_err(locate)?;
        if found.iter().any(|other| other.name == description.name) {
            let message = format!("a kernel named '{}' stands above already", description.name);
            return Err(locate(Complaint::new(raw.name.span().start + 1, message)));
        }
        found.push(description);
    }
    Ok(found)
}
