//! Why a recording cannot be read or written.

use std::{
    io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no such file.
    #[error("{}: no such recording; make one with 'memwall record -o {} -- PROGRAM'", path.display(), path.display())]
    Missing {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file may not or cannot be read.
    #[error("{}: the recording cannot be read; check its permissions", path.display())]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{}: not a recording of memwall ({is}); give a file written by 'memwall record'", path.display())]
    Foreign {
        /// The file asked for.
        path: PathBuf,
        /// What it is instead.
        is: &'static str,
    },
    /// The file was written by a later memwall.
    #[error("{}: written in version {found} of the format, this memwall knows {known}; use a newer memwall", path.display())]
    Newer {
        /// The file asked for.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The version we write.
        known: i64,
    },
    /// The file is a recording, but parts of it are missing or contradict each other.
    #[error(
        "{}: damaged recording ({detail}); record again, or try to save what is left with \
         'sqlite3 {} .recover'",
        path.display(), path.display()
    )]
    Damaged {
        /// The file asked for.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Memwall was killed within a commit, and the journal it left cannot be applied here.
    #[error(
        "{}: memwall was killed while it wrote, and the journal beside the file cannot be applied here ({detail}); \
         copy both files to a folder you may write to, and read them there",
        path.display()
    )]
    Interrupted {
        /// The file asked for.
        path: PathBuf,
        /// What SQLite said.
        detail: String,
    },
    /// Another program holds the file.
    #[error("{}: another program is writing to the recording; try again when it is done", path.display())]
    Busy {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file to write exists and is no recording.
    #[error("{}: exists and is not a recording of memwall, so it is not overwritten; give another name", path.display())]
    Occupied {
        /// The file asked for.
        path: PathBuf,
    },
    /// Another memwall writes it.
    #[error("{}: another memwall is recording into it; give another name, or wait until it is done", path.display())]
    Taken {
        /// The file asked for.
        path: PathBuf,
    },
    /// It is not there any more.
    #[error("{}: it was removed, or another file put in its place, while it was being written", path.display())]
    Removed {
        /// The file being written.
        path: PathBuf,
    },
    /// It has another name now.
    #[error(
        "{}: it was moved while it was being written; where it is now it has what was measured until then",
        path.display()
    )]
    Moved {
        /// The file being written.
        path: PathBuf,
    },
    /// Another program does not let go of the file.
    #[error("{}: another program keeps the recording locked, so no more could be written", path.display())]
    Locked {
        /// The file being written.
        path: PathBuf,
    },
    /// The file cannot be made.
    #[error("{}: the recording cannot be made ({detail}); give a name in a folder you may write to", path.display())]
    Uncreatable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// No room is left.
    #[error(
        "{}: no room for the recording ({detail}): the disk of {} is full; free some space there, or give -o FILE in a folder \
         on another disk",
        path.display(), folder_of(path)
    )]
    Full {
        /// The file being written.
        path: PathBuf,
        /// What the system or SQLite said.
        detail: String,
    },
    /// Writing failed for another reason.
    #[error("{}: the recording cannot be written ({detail}); record to another disk", path.display())]
    Unwritable {
        /// The file being written.
        path: PathBuf,
        /// What SQLite said.
        detail: String,
    },
}

/// Where a file lies, in words.
fn folder_of(path: &Path) -> String {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => folder.display().to_string(),
        None => "this folder".to_owned(),
    }
}

impl FileError {
    /// An error of SQLite while reading.
    pub(super) fn reading(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign { path, is: "no SQLite file" },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => Self::Interrupted { path, detail },
            _ => Self::Damaged { path, detail },
        }
    }

    /// An error of SQLite while the file is made.
    pub(super) fn creating(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path, detail },
            _ => Self::Uncreatable { path, detail },
        }
    }

    /// An error of the system while the file is made.
    pub(super) fn refused(path: &Path, error: &io::Error) -> Self {
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, detail },
            _ => Self::Uncreatable { path, detail },
        }
    }

    /// An error of SQLite while writing.
    pub(super) fn writing(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path, detail },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            _ => Self::Unwritable { path, detail },
        }
    }
}
