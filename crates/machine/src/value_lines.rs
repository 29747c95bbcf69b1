//! Files of one JSON value a line, written as things happen: a crash costs the line at hand and nothing else.

use std::{fs, io, io::Write as _, path::Path};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    private,
    regular::{self, LARGEST_RESULT},
};

/// Adds a value, making the file and its folder where they are not there.
pub fn append(path: &Path, value: &impl Serialize) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::create_folders(folder)?;
    }
    // The line before may have been cut short: it must not swallow this one.
    let line = format!("\n{}\n", serde_json::to_string(value)?);
    private::append_to_file(path)?.write_all(line.as_bytes())
}

/// All values that can be understood; none where there is no file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = regular::read_text(path, LARGEST_RESULT).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Removes the file, if it is there.
pub fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cut_short_costs_neither_its_neighbours_nor_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept/values");
        append(&path, &1).expect("written");
        private::append_to_file(&path).expect("written").write_all(b"{\"cut").expect("written");
        append(&path, &2).expect("written");
        assert_eq!(read::<u32>(&path), [1, 2]);
        forget(&path).expect("written");
        forget(&path).expect("written");
        assert!(read::<u32>(&path).is_empty());
    }
}
