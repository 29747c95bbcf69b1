//! Source files of measured programs.

use std::fs;

/// Longer ones are not read.
const LARGEST_BYTES: u64 = 8 << 20;

/// The text of one, if it is still where debug information says.
pub fn text(file: &str) -> Option<String> {
    let is_small = fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= LARGEST_BYTES);
    let bytes = is_small.then(|| fs::read(file).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
