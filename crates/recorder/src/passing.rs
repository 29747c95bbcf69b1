//! Folders that memwall needs for a while, and what is left of them where it was killed.
//!
//! In each lies a file that is marked ([`machine::hold`]) as long as its memwall lives; who can mark it knows that it was
//! left behind. The library for allocations may still be needed then: the program goes on, and so do processes that it
//! left running, and whatever they start is to load it.

mod users;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use machine::{hold, private};
use record::doctor::{Leftover, LeftoverFate};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

/// The file in each folder that is marked.
const MARK: &str = "in-use";

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassingUse {
    /// The library that is loaded into programs.
    Library,
    /// A recording that nobody asked to keep.
    Recording,
}

impl PassingUse {
    const ALL: [Self; 2] = [Self::Library, Self::Recording];

    /// How the names of such folders begin.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Library => "memwall-heap-",
            Self::Recording => "memwall-run-",
        }
    }

    fn of(name: &OsStr) -> Option<Self> {
        let name = name.as_encoded_bytes();
        Self::ALL.into_iter().find(|purpose| name.starts_with(purpose.prefix().as_bytes()))
    }
}

/// A folder of ours alone that goes away with this.
#[derive(Debug)]
pub struct PassingFolder {
    folder: TempDir,
    // Stays marked while it is open.
    _mark: File,
}

impl PassingFolder {
    /// Makes one in the folder for temporary files, or in another where that is not one.
    pub fn make(purpose: PassingUse) -> io::Result<Self> {
        let mut trouble = None;
        for place in places() {
            match Self::make_in(&place, purpose) {
                Ok(folder) => return Ok(folder),
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        Err(trouble.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    /// Makes one in this folder.
    pub fn make_in(place: &Path, purpose: PassingUse) -> io::Result<Self> {
        loop {
            let mut builder = tempfile::Builder::new();
            let folder = builder
                .prefix(purpose.prefix())
                .permissions(private::folder_permissions())
                .tempdir_in(place)?;
            // A umask may have taken rights away.
            fs::set_permissions(folder.path(), private::folder_permissions())?;
            let path = folder.path().join(MARK);
            let mut mark = private::create_new_file(&path)?;
            match hold::take(&mark) {
                Ok(true) if mark.metadata()?.nlink() > 0 => {
                    mark.write_all(FolderOrigin::here().text().as_bytes())?;
                }
                // Another memwall that begins just now took it for a leftover.
                Ok(_) => continue,
                // Without locks nobody can tell whether it is in use, so nobody may remove it.
                Err(_) => fs::remove_file(&path)?,
            }
            return Ok(Self { folder, _mark: mark });
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves it to the user: nobody removes it.
    pub fn keep(self) -> PathBuf {
        // Where there are no locks there is no mark.
        let _ = fs::remove_file(self.folder.path().join(MARK));
        self.folder.keep()
    }

    /// Leaves it to the processes that need it; when they have ended, a later recording removes it.
    pub fn leave(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Since when a folder is there, and who can tell whether processes use it.
#[derive(Debug, PartialEq, Eq)]
struct FolderOrigin {
    /// This boot of the machine, and this namespace of processes.
    world: String,
    /// Seconds since boot.
    since_s: u64,
}

impl FolderOrigin {
    fn here() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let processes = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let world = format!("{} {}", boot.trim(), processes.display());
        Self { world, since_s: clock_gettime(ClockId::Boottime).tv_sec.cast_unsigned() }
    }

    fn text(&self) -> String {
        format!("{}\n{}\n", self.world, self.since_s)
    }

    fn parse(text: &str) -> Option<Self> {
        let (world, since_s) = text.trim_end().split_once('\n')?;
        Some(Self { world: world.to_owned(), since_s: since_s.parse().ok()? })
    }
}

/// Where folders of ours may be.
pub(super) fn places() -> [PathBuf; 4] {
    [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()]
}

/// Removes what memwalls that were killed left behind and nobody needs any more. Only of this user, and only where nobody
/// else could have put something in its place.
pub fn clear_leftovers() {
    for found in found() {
        if found.fate() == LeftoverFate::NextRecording {
            // If it cannot be removed it stays a leftover, and the doctor shows it.
            let _ = fs::remove_dir_all(&found.path);
        }
    }
}

/// Folders of this user whose memwall does not live any more.
pub fn leftovers() -> Vec<Leftover> {
    let found = found();
    found
        .iter()
        .map(|one| Leftover { path: one.path.clone(), bytes: bytes_in(&one.path), fate: one.fate() })
        .collect()
}

/// A folder whose memwall is gone.
struct FoundFolder {
    path: PathBuf,
    purpose: PassingUse,
    /// None: nobody can tell.
    mark: Option<MarkedByUs>,
}

/// As long as this is there, no other memwall touches the folder.
struct MarkedByUs {
    _file: File,
    origin: Option<FolderOrigin>,
}

impl FoundFolder {
    fn fate(&self) -> LeftoverFate {
        let Some(mark) = &self.mark else { return LeftoverFate::ByHand };
        match (self.purpose, &mark.origin) {
            (PassingUse::Recording, _) => LeftoverFate::NextRecording,
            (PassingUse::Library, Some(origin)) if origin.world == FolderOrigin::here().world => {
                match users::of(&self.path, origin.since_s) {
                    users if users.is_empty() => LeftoverFate::NextRecording,
                    users => LeftoverFate::NeededBy(users),
                }
            }
            // Of another boot, machine or container, where we see no processes.
            (PassingUse::Library, _) => LeftoverFate::ByHand,
        }
    }
}

fn found() -> Vec<FoundFolder> {
    let mut places: Vec<PathBuf> =
        places().into_iter().filter_map(|place| place.canonicalize().ok()).collect();
    places.sort();
    places.dedup();
    places.retain(|place| super::heap::nobody_else_can_move(place));
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    entries.filter_map(|entry| look_at(entry.path(), PassingUse::of(&entry.file_name())?)).collect()
}

/// None if it is not ours, or its memwall lives.
fn look_at(path: PathBuf, purpose: PassingUse) -> Option<FoundFolder> {
    let about = fs::symlink_metadata(&path).ok()?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mark = match private::open_own_file(&path.join(MARK)) {
        Err(_) => None,
        Ok(file) => match hold::take(&file) {
            Ok(false) => return None,
            Ok(true) => {
                let origin = io::read_to_string(&file).ok().as_deref().and_then(FolderOrigin::parse);
                Some(MarkedByUs { _file: file, origin })
            }
            Err(_) => None,
        },
    };
    Some(FoundFolder { path, purpose, mark })
}

/// Of the files in a folder; links are not followed.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
}
