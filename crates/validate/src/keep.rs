//! What is kept of a validation: its result, and every observation as it was made.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use machine::{
    private,
    regular::{self, LARGEST_RESULT},
    store::Store,
    value_lines,
};
use record::validate::Observation;
use serde::Serialize;
use trust::{SCHEMA, UnseenCase, Validation};

/// Why something could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The place cannot be written to.
    #[error("cannot write {path}: {source}; make it writable or set XDG_DATA_HOME to a directory that is")]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {reason}; move it away and validate again")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Files of one machine beside its profile.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    id: String,
}

impl Files {
    /// In the folder `trust` beside the profiles of a store.
    pub fn beside(store: &Store, id: &str) -> Self {
        let parent = store.directory().parent().unwrap_or(Path::new("."));
        Self { directory: parent.join("trust"), id: id.to_owned() }
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}.{ending}", self.id))
    }

    /// Writes the result, replacing the one before as a whole. Returns where.
    pub fn save(&self, validation: &Validation) -> Result<PathBuf, KeepError> {
        let path = self.path("json");
        let unwritable = |source: io::Error| KeepError::Unwritable { path: path.clone(), source };
        private::create_folders(&self.directory).map_err(unwritable)?;
        let text = serde_json::to_vec_pretty(validation).map_err(|error| unwritable(error.into()))?;
        let temporary = self.path("new");
        private::create_file(&temporary).and_then(|mut file| file.write_all(&text)).map_err(unwritable)?;
        fs::rename(&temporary, &path).map_err(unwritable)?;
        Ok(path)
    }

    /// Writes the result unless the one that is kept has more in it, which then comes back: where the kernel refuses what it
    /// allowed before, what was found before still holds. What random kernels showed it learns: it comes of all that were ever drawn.
    pub fn save_unless_better(&self, validation: &Validation) -> Result<Option<Validation>, KeepError> {
        let Some(mut kept) = self.load()?.filter(|kept| kept.has_more_than(validation)) else {
            return self.save(validation).map(|_| None);
        };
        let known = (&kept.unseen, &kept.unseen_with_relief);
        let (unseen, relieved) = (&validation.unseen, &validation.unseen_with_relief);
        let learnt = (unseen.as_ref().or(known.0.as_ref()), relieved.as_ref().or(known.1.as_ref()));
        if learnt != (known.0.as_ref(), known.1.as_ref()) {
            (kept.unseen, kept.unseen_with_relief) = (learnt.0.cloned(), learnt.1.cloned());
            self.save(&kept)?;
        }
        Ok(Some(kept))
    }

    /// The result of the last validation; none if there was none.
    pub fn load(&self) -> Result<Option<Validation>, KeepError> {
        let path = self.path("json");
        let text = match regular::read(&path, LARGEST_RESULT) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(KeepError::Unreadable { path, reason: error.to_string() }),
        };
        let found: Validation = serde_json::from_slice(&text)
            .map_err(|error| KeepError::Unreadable { path: path.clone(), reason: error.to_string() })?;
        if found.schema != SCHEMA {
            let reason = format!("its schema is '{}', this version reads '{SCHEMA}'", found.schema);
            return Err(KeepError::Unreadable { path, reason });
        }
        Ok(Some(found))
    }

    /// Adds one observation to those of an unfinished validation.
    pub fn append(&self, observation: &Observation) -> Result<(), KeepError> {
        self.append_line("observations", observation)
    }

    /// Observations of an unfinished validation. A line cut short by a crash is left out.
    pub fn observations(&self) -> Vec<Observation> {
        value_lines::read(&self.path("observations"))
    }

    /// Adds one random kernel to those that were tried.
    pub fn append_case(&self, case: &UnseenCase) -> Result<(), KeepError> {
        self.append_line("unseen", case)
    }

    /// Random kernels that were tried on this machine, in all validations. A line cut short by a crash is left out.
    pub fn cases(&self) -> Vec<UnseenCase> {
        value_lines::read(&self.path("unseen"))
    }

    fn append_line(&self, ending: &str, value: &impl Serialize) -> Result<(), KeepError> {
        let path = self.path(ending);
        value_lines::append(&path, value).map_err(|source| KeepError::Unwritable { path, source })
    }

    /// Forgets the observations: the validation is complete, or starts anew. Random kernels stay.
    pub fn forget(&self) -> Result<(), KeepError> {
        let path = self.path("observations");
        value_lines::forget(&path).map_err(|source| KeepError::Unwritable { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Bytes;
    use trust::{AccessClass, KernelPlace, OutOfSample};

    fn case(seed: u64) -> UnseenCase {
        UnseenCase {
            rules: "r".to_owned(),
            run: 1,
            seed,
            classes: vec![AccessClass::Loads],
            level: KernelPlace::L2,
            footprint: Bytes::kib(64),
            truths: [0.5, 0.5],
            turn_ns: None,
            found: None,
            decided: false,
            sure: false,
            waits_at: None,
            samples: 3,
            with_relief: false,
        }
    }

    #[test]
    fn a_better_validation_that_stays_learns_what_new_kernels_showed() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::beside(&Store::at(folder.path().join("profiles")), "a");
        let validation = |complete: bool, cases: &[UnseenCase]| Validation {
            complete,
            unseen: OutOfSample::of(cases, "r"),
            ..crate::consult::tests::validation(Default::default(), 5)
        };
        let kernels = |validation: &Validation| validation.unseen.as_ref().map(|unseen| unseen.all.kernels);
        let cases: Vec<UnseenCase> = (0..3).map(case).collect();
        files.save(&validation(true, &cases[..1])).unwrap();
        let stays = files.save_unless_better(&validation(false, &cases)).unwrap().unwrap();
        let kept = files.load().unwrap().unwrap();
        assert!(stays.complete && kept.complete);
        assert_eq!((kernels(&stays), kernels(&kept)), (Some(3), Some(3)));
        files.save_unless_better(&validation(false, &[])).unwrap();
        assert_eq!(kernels(&files.load().unwrap().unwrap()), Some(3));
    }

    #[test]
    fn random_kernels_of_all_validations_stay_and_a_line_cut_short_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::beside(&Store::at(folder.path().join("profiles")), "a");
        assert!(files.cases().is_empty());
        (0..3).for_each(|seed| files.append_case(&case(seed)).unwrap());
        files.forget().unwrap();
        private::append_to_file(&files.path("unseen")).unwrap().write_all(b"{\"rules\":\"r\",\"ru").unwrap();
        assert_eq!(files.cases(), [case(0), case(1), case(2)]);
    }
}
