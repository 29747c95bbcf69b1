//! What was kept of a validation, for whoever uses indicators later.

use std::{fs, path::Path};

use machine::{
    fingerprint::FingerprintChange,
    profile::Fingerprint,
    regular::{self, LARGEST_RESULT},
    store::Store,
};
use trust::Validation;

use super::keep::{Files, KeepError};

/// What is kept for a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// A validation of this very machine.
    Same(Box<Validation>),
    /// None of this machine: the most recent of another, or of this one before it changed. It must not be used.
    Other {
        /// When it was made: seconds since 1970, 0 of a simulated machine.
        measured_at: u64,
        /// What differs between then and now.
        differs: Vec<FingerprintChange>,
    },
    /// None at all.
    Nothing,
}

/// Finds the validation of a machine. `simulated` is the name of its model, if it is one.
pub fn consult(store: &Store, now: &Fingerprint, simulated: Option<&str>) -> Result<Kept, KeepError> {
    // A recording of somebody else says whose it is, and may write a path there.
    if store.path_of(&now.id).is_err() {
        return Ok(Kept::Nothing);
    }
    let files = Files::beside(store, &now.id);
    match files.load()? {
        // A file under this name that was made elsewhere, as when a home directory moves.
        Some(found) if found.fingerprint.id != now.id => Ok(other(&found, now)),
        Some(found) => Ok(Kept::Same(Box::new(found))),
        None => {
            let comparable = |found: &Validation| found.simulated.as_deref() == simulated;
            let all = all(files.directory()).into_iter().filter(comparable);
            Ok(all.max_by_key(|found| found.measured_at).map_or(Kept::Nothing, |found| other(&found, now)))
        }
    }
}

fn other(found: &Validation, now: &Fingerprint) -> Kept {
    Kept::Other { measured_at: found.measured_at, differs: found.fingerprint.changes(now) }
}

/// All that can be read.
fn all(directory: &Path) -> Vec<Validation> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    files
        .filter_map(|path| serde_json::from_slice(&regular::read(&path, LARGEST_RESULT).ok()?).ok())
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use trust::SCHEMA;

    fn fingerprint(id: &str, kernel: &str) -> Fingerprint {
        let text = |text: &str| text.to_owned();
        Fingerprint {
            id: text(id),
            cpu: text("a CPU"),
            microcode: text("1"),
            topology: text("1 socket"),
            kernel: text(kernel),
            hypervisor: text("none"),
        }
    }

    pub(crate) fn validation(of: Fingerprint, measured_at: u64) -> Validation {
        Validation {
            schema: SCHEMA.to_owned(),
            fingerprint: of,
            simulated: None,
            instrument: "perf_event".to_owned(),
            measured_at,
            memwall: "0".to_owned(),
            quick: false,
            runs: 1,
            complete: true,
            steps: Vec::new(),
            best: Vec::new(),
            indicators: Vec::new(),
            thresholds: Vec::new(),
            unseen: None,
            unseen_with_relief: None,
            sweeps: Vec::new(),
        }
    }

    #[test]
    fn only_the_validation_of_the_same_machine_is_used_and_a_changed_one_says_what_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::at(folder.path().join("profiles"));
        let now = fingerprint("b", "6.2");
        assert_eq!(consult(&store, &now, None).expect("an answer"), Kept::Nothing);
        let old = fingerprint("a", "6.1");
        Files::beside(&store, "a").save(&validation(old.clone(), 5)).expect("kept");
        match consult(&store, &now, None).expect("an answer") {
            Kept::Other { measured_at: 5, differs } => assert_eq!(differs[0].part, "kernel"),
            other => panic!("{other:?}"),
        }
        assert_eq!(consult(&store, &now, Some("tiny")).expect("an answer"), Kept::Nothing);
        // Copied under our name.
        Files::beside(&store, "b").save(&validation(old, 6)).expect("kept");
        assert!(matches!(consult(&store, &now, None), Ok(Kept::Other { measured_at: 6, .. })));
        Files::beside(&store, "b").save(&validation(now.clone(), 7)).expect("kept");
        assert!(matches!(consult(&store, &now, None), Ok(Kept::Same(_))));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::at(folder.path().join("profiles"));
        fs::create_dir_all(folder.path().join("trust")).expect("a folder");
        fs::write(folder.path().join("trust/b.json"), "{").expect("a file");
        let error = consult(&store, &fingerprint("b", "6.2"), None).expect_err("corrupt").to_string();
        assert!(error.contains("trust/b.json") && error.contains("validate again"), "{error}");
    }
}
