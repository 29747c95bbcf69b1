//! Where a recording is while it is written: beside its place at first, and in it as soon as there is something worth
//! keeping. What was there before is moved, not removed.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use machine::{hold, private};

use super::{FileError, read::is_recording};

/// What SQLite keeps beside a file, and would apply to another one of its name.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A recording being written. Unless it takes its place it goes away with this.
pub(super) struct RecordingFile {
    /// Where it was asked for.
    place: PathBuf,
    /// Where it is until then.
    part: PathBuf,
    /// Has our mark: nobody else records here.
    file: File,
    is_settled: bool,
    /// An older recording is kept under another name.
    keeps_older: bool,
}

/// What is where a recording is to be.
enum Occupant {
    Nothing,
    OlderRecording,
}

impl RecordingFile {
    /// Begins an empty recording that is to be at `place`; any other file there is left alone.
    pub fn begin(place: &Path) -> Result<Self, FileError> {
        if let Occupant::OlderRecording = occupant(place)? {
            occupant(&older_name(place))?;
        }
        nobody_writes(place)?;
        let begun = Self::part(place, true)?;
        // Again: whoever had the part before us has it in its place by now.
        nobody_writes(place)?;
        Ok(begun)
    }

    /// Begins an empty one that takes the place of this one.
    pub fn successor(&self) -> Result<Self, FileError> {
        Self::part(&self.place, false)
    }

    fn part(place: &Path, keeps_older: bool) -> Result<Self, FileError> {
        let part = with_ending(place, ".part");
        let failed = |error: io::Error| uncreatable(place, &error);
        loop {
            // Left by a memwall that was killed, or another's.
            occupant(&part)?;
            let file = private::make_own_file(&part).map_err(failed)?;
            // Where there are no locks nobody can be told apart.
            if !hold::take(&file).unwrap_or(true) {
                return Err(FileError::Taken { path: place.to_owned() });
            }
            // Whoever had it may just have put it in its place.
            if !is_at(&file, &part).map_err(failed)? {
                continue;
            }
            let begun = Self { place: place.to_owned(), part, file, is_settled: false, keeps_older };
            begun.file.set_len(0).map_err(failed)?;
            remove_companions(&begun.part).map_err(failed)?;
            return Ok(begun);
        }
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        if self.is_settled { &self.place } else { &self.part }
    }

    /// Where it was asked for.
    pub fn place(&self) -> &Path {
        &self.place
    }

    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Puts it in its place. Gives the new name of an older recording that was there.
    pub fn settle(&mut self) -> Result<Option<OlderRecording>, FileError> {
        let failed = |error: io::Error| uncreatable(&self.place, &error);
        let older = match occupant(&self.place)? {
            Occupant::OlderRecording if self.keeps_older => Some(self.move_older()?),
            _ => None,
        };
        remove_companions(&self.place).map_err(failed)?;
        fs::rename(&self.part, &self.place).map_err(failed)?;
        self.is_settled = true;
        Ok(older)
    }

    fn move_older(&self) -> Result<OlderRecording, FileError> {
        let failed = |error: io::Error| uncreatable(&self.place, &error);
        let path = older_name(&self.place);
        let replaced_another = matches!(occupant(&path)?, Occupant::OlderRecording);
        remove_companions(&path).map_err(failed)?;
        for companion in COMPANIONS {
            let (from, to) = (with_ending(&self.place, companion), with_ending(&path, companion));
            if_there(fs::rename(from, to)).map_err(failed)?;
        }
        fs::rename(&self.place, &path).map_err(failed)?;
        Ok(OlderRecording { path, replaced_another })
    }

    /// Whether what we write to is still what is found under its name.
    pub fn check(&self) -> Result<(), FileError> {
        let path = self.place.clone();
        match is_at(&self.file, self.path()) {
            Ok(true) => Ok(()),
            _ if self.file.metadata().is_ok_and(|about| about.nlink() > 0) => Err(FileError::Moved { path }),
            _ => Err(FileError::Removed { path }),
        }
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        if !self.is_settled && is_at(&self.file, &self.part).unwrap_or(false) {
            // Nobody misses it; the next recording of that name would use it again.
            let _ = fs::remove_file(&self.part).and_then(|()| remove_companions(&self.part));
        }
    }
}

/// A recording that had the name before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OlderRecording {
    /// Its name now.
    pub path: PathBuf,
    /// There was a still older one of that name, which is gone.
    pub replaced_another: bool,
}

fn older_name(place: &Path) -> PathBuf {
    with_ending(place, ".old")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn uncreatable(path: &Path, error: &io::Error) -> FileError {
    FileError::refused(path, error)
}

/// What is at `path`; an error if it is anything that is not ours to replace. An empty file is nothing.
fn occupant(path: &Path) -> Result<Occupant, FileError> {
    let occupied = || FileError::Occupied { path: path.to_owned() };
    let is_there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Occupant::Nothing),
        Err(error) => return Err(uncreatable(path, &error)),
        Ok(_) => fs::metadata(path),
    };
    // A link that leads nowhere is a user's all the same.
    match is_there.map_err(|_| occupied())? {
        about if about.is_file() && about.len() == 0 => Ok(Occupant::Nothing),
        about if about.is_file() && is_recording(path) => Ok(Occupant::OlderRecording),
        _ => Err(occupied()),
    }
}

/// An error if a recorder has marked what is at `path`.
fn nobody_writes(path: &Path) -> Result<(), FileError> {
    match File::open(path).and_then(|file| hold::is_taken(&file)) {
        Ok(true) => Err(FileError::Taken { path: path.to_owned() }),
        _ => Ok(()),
    }
}

/// Whether an open file is the one found at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, found) = (file.metadata()?, if_there(fs::symlink_metadata(path).map(Some))?);
    Ok(found.is_some_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())))
}

fn remove_companions(path: &Path) -> io::Result<()> {
    COMPANIONS.iter().try_for_each(|companion| if_there(fs::remove_file(with_ending(path, companion))))
}

/// What is not there is no error.
fn if_there<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}
