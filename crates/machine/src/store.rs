//! Where profiles are kept: one JSON file per machine fingerprint under the XDG data directory.
//!
//! A file is replaced whole or not at all, and a file that cannot be read is reported and left alone.

use std::{
    ffi::OsString,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::{
    fingerprint::{FingerprintChange, SIMULATED_ID},
    private,
    profile::{Fingerprint, Profile},
    regular::{self, LARGEST_RESULT},
};

/// The schema this version writes and reads.
pub const SCHEMA: &str = "memwall.profile/1";

/// What every version's schema begins with.
const SCHEMA_FAMILY: &str = "memwall.profile/";

/// A directory of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    directory: PathBuf,
}

/// Why a profile could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither variable names a place.
    #[error(
        "no place to keep profiles: neither XDG_DATA_HOME nor HOME is set; set XDG_DATA_HOME to a directory"
    )]
    NoPlace,
    /// The directory cannot be made or written to.
    #[error(
        "cannot write profiles to {path}: {source}; \
         make it writable or set XDG_DATA_HOME to a directory that is"
    )]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or the directory cannot be read.
    #[error("cannot read {path}: {source}; check its permissions")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file that is no profile.
    #[error("{path} is not a profile: {reason}; it was left as it is: move it away and calibrate again")]
    Corrupt {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A profile of a newer memwall.
    #[error(
        "{path} was written by a newer memwall (schema '{schema}', this one reads '{SCHEMA}'); \
         it was left as it is: update memwall or move the file away"
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// What it says it is.
        schema: String,
    },
    /// An id that cannot be a file name.
    #[error("fingerprint id '{0}' is not a plain name of letters, digits, '-' and '_'")]
    BadId(String),
}

/// A profile file, with what it holds or why it cannot be read.
pub type Stored = (PathBuf, Result<Profile, StoreError>);

/// What the store has for a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredProfile {
    /// A profile of this very machine.
    Same(Box<Profile>),
    /// None of this machine: the most recent of another, or of this one before it changed.
    Changed {
        /// That profile.
        profile: Box<Profile>,
        /// What differs between then and now.
        differs: Vec<FingerprintChange>,
    },
    /// No profile at all.
    Nothing,
}

/// What became of a profile that was to be kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Keeping {
    /// It is kept, here.
    Saved(PathBuf),
    /// A better one of the same machine stays in its place.
    BetterStays(Box<Profile>),
}

impl Store {
    /// The store in `directory`, which need not exist yet.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The store of this user: `$XDG_DATA_HOME/memwall/profiles`, or below `~/.local/share`.
    pub fn of_user() -> Result<Self, StoreError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// As [`Store::of_user`] with the environment handed in. Relative and empty values do not count, as the
    /// XDG specification demands.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, StoreError> {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
        absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|data| Self::at(data.join("memwall/profiles")))
            .ok_or(StoreError::NoPlace)
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of the machine with this fingerprint id.
    pub fn path_of(&self, id: &str) -> Result<PathBuf, StoreError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || id.len() > 128 || !id.chars().all(plain) {
            return Err(StoreError::BadId(id.to_owned()));
        }
        Ok(self.directory.join(format!("{id}.json")))
    }

    /// Makes the directory and writes a file there for a moment: call it before a long calibration begins.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        self.write_beside("probe", b"memwall")
            .and_then(|path| fs::remove_file(&path).map_err(|source| self.unwritable(source)))
    }

    /// Writes `profile`, replacing the one before as a whole. Returns where.
    pub fn save(&self, profile: &Profile) -> Result<PathBuf, StoreError> {
        let path = self.path_of(&profile.fingerprint.id)?;
        let mut text = serde_json::to_vec_pretty(profile).map_err(|error| self.unwritable(error.into()))?;
        text.push(b'\n');
        let temporary = self.write_beside(&profile.fingerprint.id, &text)?;
        if let Err(source) = fs::rename(&temporary, &path) {
            let _ = fs::remove_file(&temporary);
            return Err(self.unwritable(source));
        }
        // The name is durable only once the directory is; file systems that cannot do it say so and lose
        // nothing.
        if let Ok(directory) = fs::File::open(&self.directory) {
            let _ = directory.sync_all();
        }
        Ok(path)
    }

    /// Writes `profile` unless a better one of the same machine is there: what an interrupted or shorter calibration
    /// has must not take the place of a whole one.
    pub fn save_unless_better(&self, profile: &Profile) -> Result<Keeping, StoreError> {
        match self.load(&profile.fingerprint.id)? {
            Some(kept) if kept.has_more_than(profile) => Ok(Keeping::BetterStays(Box::new(kept))),
            _ => self.save(profile).map(Keeping::Saved),
        }
    }

    /// The profile with this fingerprint id; `None` if there is no file.
    pub fn load(&self, id: &str) -> Result<Option<Profile>, StoreError> {
        let path = self.path_of(id)?;
        match regular::read(&path, LARGEST_RESULT) {
            Ok(text) => parse(&path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Unreadable { path, source }),
        }
    }

    /// Every profile file with what it holds or why it cannot be read, most recent measurement first.
    pub fn list(&self) -> Result<Vec<Stored>, StoreError> {
        let unreadable = |source| StoreError::Unreadable { path: self.directory.clone(), source };
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(unreadable)?.path();
            let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            if !hidden && path.extension().is_some_and(|extension| extension == "json") {
                let profile = regular::read(&path, LARGEST_RESULT)
                    .map_err(|source| StoreError::Unreadable { path: path.clone(), source })
                    .and_then(|text| parse(&path, &text));
                files.push((path, profile));
            }
        }
        files.sort_by(|(path_a, a), (path_b, b)| {
            let when =
                |file: &Result<Profile, StoreError>| file.as_ref().map_or(0, |profile| profile.measured_at);
            when(b).cmp(&when(a)).then_with(|| path_a.cmp(path_b))
        });
        Ok(files)
    }

    /// The profile of the machine with this fingerprint, or the most recent other one and what differs.
    pub fn find(&self, now: &Fingerprint) -> Result<StoredProfile, StoreError> {
        if let Some(profile) = self.load(&now.id)? {
            return Ok(StoredProfile::Same(Box::new(profile)));
        }
        // A simulated machine and a real one are never each other's past.
        let simulated = now.id.starts_with(SIMULATED_ID);
        let comparable = |profile: &Profile| profile.simulated.is_none() && !simulated;
        let most_recent = self
            .list()?
            .into_iter()
            .filter_map(|(_, profile)| profile.ok())
            .find(|profile| comparable(profile));
        Ok(most_recent.map_or(StoredProfile::Nothing, |profile| StoredProfile::Changed {
            differs: profile.fingerprint.changes(now),
            profile: Box::new(profile),
        }))
    }

    /// Writes a new hidden file next to the profiles and makes it durable. Leaves nothing behind on failure.
    fn write_beside(&self, name: &str, text: &[u8]) -> Result<PathBuf, StoreError> {
        private::create_folders(&self.directory).map_err(|source| self.unwritable(source))?;
        let path = self.directory.join(format!(".{name}.{}.tmp", std::process::id()));
        let written = private::create_file(&path).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(path),
            Err(source) => {
                let _ = fs::remove_file(&path);
                Err(self.unwritable(source))
            }
        }
    }

    fn unwritable(&self, source: io::Error) -> StoreError {
        StoreError::Unwritable { path: self.directory.clone(), source }
    }
}

/// Reads the schema first: a newer file may well have other fields.
fn parse(path: &Path, text: &[u8]) -> Result<Profile, StoreError> {
    let corrupt = |reason: String| StoreError::Corrupt { path: path.to_owned(), reason };
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|error| corrupt(error.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => {}
        Some(schema) if schema.starts_with(SCHEMA_FAMILY) => {
            return Err(StoreError::Newer { path: path.to_owned(), schema: schema.to_owned() });
        }
        _ => return Err(corrupt(format!("it does not say schema '{SCHEMA}'"))),
    }
    serde_json::from_value(value).map_err(|error| corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Extent;

    fn profile(id: &str, measured_at: u64) -> Profile {
        Profile {
            fingerprint: Fingerprint {
                id: id.to_owned(),
                cpu: "Example 9000".to_owned(),
                microcode: "0x1".to_owned(),
                topology: "1 socket, 2 cores".to_owned(),
                kernel: format!("6.1-{id}"),
                hypervisor: "none".to_owned(),
            },
            measured_at,
            extent: Extent { quick: true, complete: false },
            seed: 1,
            remarks: vec!["a remark".to_owned()],
            ..Profile::unmeasured()
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::at(directory.path().join("memwall/profiles"));
        (directory, store)
    }

    fn names(store: &Store) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(store.directory())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_saved_is_found_again() {
        let (_directory, store) = store();
        assert_eq!(store.find(&profile("aa", 0).fingerprint).expect("nothing"), StoredProfile::Nothing);
        store.save(&profile("aa", 1)).expect("saved");
        let again = profile("aa", 2);
        store.save(&again).expect("saved");
        assert_eq!(names(&store), ["aa.json"]);
        assert_eq!(store.find(&again.fingerprint).expect("found"), StoredProfile::Same(Box::new(again)));
    }

    #[test]
    fn a_changed_machine_gets_the_latest_profile_and_what_differs() {
        let (_directory, store) = store();
        for (id, when) in [("aa", 5), ("bb", 9), ("cc", 7)] {
            store.save(&profile(id, when)).expect("saved");
        }
        let now = profile("dd", 10).fingerprint;
        let StoredProfile::Changed { profile, differs } = store.find(&now).expect("found") else {
            panic!("same")
        };
        assert_eq!(profile.fingerprint.id, "bb");
        assert_eq!(
            differs,
            [FingerprintChange { part: "kernel", before: "6.1-bb".to_owned(), after: "6.1-dd".to_owned() }]
        );
    }

    #[test]
    fn bad_files_are_reported_and_kept() {
        let (_directory, store) = store();
        store.save(&profile("aa", 1)).expect("saved");
        let newer = fs::read_to_string(store.directory().join("aa.json"))
            .expect("text")
            .replace("memwall.profile/1", "memwall.profile/2");
        let files = [("bb", "{ \"schema\": "), ("cc", "{}"), ("dd", newer.as_str()), ("ee", "[1]")];
        for (id, text) in files {
            fs::write(store.directory().join(format!("{id}.json")), text).expect("written");
        }
        assert!(matches!(store.load("bb"), Err(StoreError::Corrupt { .. })));
        assert!(matches!(store.load("cc"), Err(StoreError::Corrupt { .. })));
        assert!(matches!(store.load("dd"), Err(StoreError::Newer { .. })));
        assert!(matches!(store.find(&profile("ee", 1).fingerprint), Err(StoreError::Corrupt { .. })));
        // One bad file does not hide the good one.
        assert_eq!(store.list().expect("a list").iter().filter(|(_, profile)| profile.is_ok()).count(), 1);
        for (id, text) in files {
            assert_eq!(fs::read_to_string(store.directory().join(format!("{id}.json"))).expect("kept"), text);
        }
    }

    #[test]
    fn an_unwritable_place_is_named_before_anything_is_measured() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("written");
        // A file in the way of a directory: refused to root as well, unlike permissions.
        let store = Store::at(file.join("memwall/profiles"));
        let error = store.check_writable().expect_err("unwritable").to_string();
        assert!(error.contains("memwall/profiles") && error.contains("XDG_DATA_HOME"), "{error}");
        assert!(store.save(&profile("aa", 1)).is_err());
    }

    #[test]
    fn a_better_profile_stays() {
        let (_directory, store) = store();
        let with = |quick, complete, remark: &str| Profile {
            extent: Extent { quick, complete },
            clock: complete.then_some(crate::profile::Clock { add_hz: 3e9, mul_hz: 3e9, tsc_hz: None }),
            remarks: vec![remark.to_owned()],
            ..profile("aa", 1)
        };
        let kept = || store.load("aa").expect("readable").expect("there").remarks[0].clone();
        let keep = |profile: &Profile| store.save_unless_better(profile).expect("kept");
        for (quick, complete, remark, stays) in [
            (true, false, "interrupted", "interrupted"),
            (true, true, "quick", "quick"),
            (false, false, "interrupted again", "quick"),
            (true, true, "quick again", "quick again"),
            (false, true, "whole", "whole"),
            (true, true, "quick once more", "whole"),
            (false, true, "whole again", "whole again"),
        ] {
            let new = with(quick, complete, remark);
            let is_saved = matches!(keep(&new), Keeping::Saved(_));
            assert_eq!((kept().as_str(), is_saved), (stays, stays == remark), "{remark}");
        }
        // Two interrupted ones: the one with more in it.
        let more = Profile { clock: with(true, true, "").clock, ..profile("bb", 1) };
        keep(&more);
        assert_eq!(keep(&profile("bb", 2)), Keeping::BetterStays(Box::new(more)));
    }

    #[test]
    fn nobody_else_can_read_or_change_a_profile() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_directory, store) = store();
        let path = store.save(&profile("aa", 1)).expect("saved");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(store.directory())), (private::FILE_MODE, private::FOLDER_MODE));
    }

    #[test]
    fn probing_leaves_nothing_behind() {
        let (_directory, store) = store();
        store.check_writable().expect("writable");
        assert!(names(&store).is_empty());
    }

    #[test]
    fn ids_cannot_leave_the_directory() {
        let (_directory, store) = store();
        for id in ["", "../x", "a/b", ".", "a b"] {
            assert!(matches!(store.load(id), Err(StoreError::BadId(_))), "{id}");
        }
    }

    #[test]
    fn the_place_follows_the_xdg_rules() {
        let place = |xdg: Option<&str>, home: Option<&str>| {
            let (xdg, home) = (xdg.map(OsString::from), home.map(OsString::from));
            Store::from_variables(|name| if name == "HOME" { home.clone() } else { xdg.clone() })
                .map(|store| store.directory().to_string_lossy().into_owned())
        };
        assert_eq!(place(Some("/data"), Some("/home/u")).ok().as_deref(), Some("/data/memwall/profiles"));
        let default = Some("/home/u/.local/share/memwall/profiles");
        for ignored in [None, Some(""), Some("relative")] {
            assert_eq!(place(ignored, Some("/home/u")).ok().as_deref(), default);
        }
        assert!(matches!(place(None, None), Err(StoreError::NoPlace)));
    }
}
