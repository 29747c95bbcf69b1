//! Readings as they were made, so that Ctrl-C loses none and the next call goes on.

use std::{
    collections::HashMap,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use machine::{
    private,
    regular::{self, LARGEST_RESULT},
    store::Store,
};
use serde::{Deserialize, Serialize};

use crate::{SIMULATOR, measure::SetupReading};

/// Why readings could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; make it writable or set XDG_DATA_HOME to a directory that is")]
pub struct KeepReadingError {
    /// Where.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct KeptReading {
    key: String,
    reading: SetupReading,
}

/// The file of readings of this simulator.
#[derive(Clone, Debug)]
pub struct ReadingFile {
    directory: PathBuf,
}

impl ReadingFile {
    /// In the folder `reproduce` beside the profiles of a store.
    pub fn beside(store: &Store) -> Self {
        let parent = store.directory().parent().unwrap_or(Path::new("."));
        Self { directory: parent.join("reproduce") }
    }

    /// Where it is; another simulator has another one.
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{SIMULATOR}.readings"))
    }

    /// All readings that can be understood; a line that was cut short is left out.
    pub fn readings(&self) -> HashMap<String, SetupReading> {
        let text = regular::read_text(&self.path(), LARGEST_RESULT).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<KeptReading>(line).ok());
        lines.map(|kept| (kept.key, kept.reading)).collect()
    }

    /// Adds one.
    pub fn append(&self, key: &str, reading: &SetupReading) -> Result<(), KeepReadingError> {
        let path = self.path();
        let wrong = |source: io::Error| KeepReadingError { path: path.clone(), source };
        private::create_folders(&self.directory).map_err(wrong)?;
        let kept = KeptReading { key: key.to_owned(), reading: reading.clone() };
        let line = serde_json::to_string(&kept).map_err(|error| wrong(error.into()))?;
        // The line before may have been cut short.
        let line = format!("\n{line}\n");
        private::append_to_file(&path).and_then(|mut file| file.write_all(line.as_bytes())).map_err(wrong)
    }

    /// Forgets all.
    pub fn forget(&self) -> Result<(), KeepReadingError> {
        match fs::remove_file(self.path()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(KeepReadingError { path: self.path(), source })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_and_a_cut_line_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = ReadingFile::beside(&Store::at(folder.path().join("profiles")));
        let mut reading = SetupReading::default();
        reading.values.insert("time".to_owned(), 0.1 + 0.2);
        file.append("a", &reading).expect("kept");
        fs::OpenOptions::new()
            .append(true)
            .open(file.path())
            .and_then(|mut open| open.write_all(b"{\"key\":\"b\",\"rea"))
            .expect("written");
        file.append("c", &reading).expect("kept");
        let kept = file.readings();
        assert_eq!((kept.len(), kept.get("a"), kept.get("c")), (2, Some(&reading), Some(&reading)));
        file.forget().expect("gone");
        assert!(file.readings().is_empty());
    }
}
