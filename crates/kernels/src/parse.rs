//! Kernel files: TOML with a small language for the loop body. Every error names line and column.

mod body;
mod file;
mod kernel;
mod names;

use machine::DataFileError;

use crate::description::Description;

/// No kernel file is larger than this; a larger one is a mistake.
const LARGEST_FILE: usize = 1 << 20;

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
/// # Ok::<(), machine::DataFileError>(())
/// ```
pub fn kernels(text: &str, origin: &str) -> Result<Vec<Description>, DataFileError> {
    let locate = |complaint: Complaint| DataFileError::at(text, complaint.at, origin, complaint.message);
    if text.len() > LARGEST_FILE {
        return Err(locate(Complaint::new(0, "the file is larger than 1 MiB: not a kernel file")));
    }
    let file: file::KernelFile =
        toml::from_str(text).map_err(|error| DataFileError::toml(text, origin, &error))?;
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
