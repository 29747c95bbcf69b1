//! Readings as they were made, so that Ctrl-C loses none and the next call goes on.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use machine::{store::Store, value_lines};
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
        let lines = value_lines::read::<KeptReading>(&self.path());
        lines.into_iter().map(|kept| (kept.key, kept.reading)).collect()
    }

    /// Adds one.
    pub fn append(&self, key: &str, reading: &SetupReading) -> Result<(), KeepReadingError> {
        let path = self.path();
        let kept = KeptReading { key: key.to_owned(), reading: reading.clone() };
        value_lines::append(&path, &kept).map_err(|source| KeepReadingError { path, source })
    }

    /// Forgets all.
    pub fn forget(&self) -> Result<(), KeepReadingError> {
        let path = self.path();
        value_lines::forget(&path).map_err(|source| KeepReadingError { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = ReadingFile::beside(&Store::at(folder.path().join("profiles")));
        let mut reading = SetupReading::default();
        reading.values.insert("time".to_owned(), 0.1 + 0.2);
        file.append("a", &reading).expect("kept");
        file.append("c", &reading).expect("kept");
        let kept = file.readings();
        assert_eq!((kept.len(), kept.get("a"), kept.get("c")), (2, Some(&reading), Some(&reading)));
        file.forget().expect("gone");
        assert!(file.readings().is_empty());
    }
}
