//! Why nothing was imported.

use std::{io, path::PathBuf};

use record::file::FileError;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// There is no such file.
    #[error("{}: no such file; 'perf record -o {} -- PROGRAM' makes one", path.display(), path.display())]
    Missing {
        /// The file asked for.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a folder, and none that perf wrote.
    #[error(
        "{}: a folder without the file 'data' that 'perf record --threads' and '--kcore' write; give a perf.data",
        path.display()
    )]
    Folder {
        /// The file asked for.
        path: PathBuf,
    },
    /// It is none of the forms that are known.
    #[error(
        "{path}: neither perf.data nor what 'perf stat -x,' or 'perf stat -j' writes ({is}); give one of those"
    )]
    Foreign {
        /// The file asked for.
        path: String,
        /// What it looks like instead.
        is: String,
    },
    /// A perf.data whose beginning makes no sense.
    #[error("{path}: a damaged perf.data: {detail}; nothing of it can be used")]
    Damaged {
        /// The file asked for.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// A perf.data in a form that is not understood.
    #[error("{path}: {what}; {advice}")]
    Unsupported {
        /// The file asked for.
        path: String,
        /// What it is.
        what: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// Files that do not belong into one recording.
    #[error("{0}")]
    Together(String),
    /// A validation of another machine.
    #[error("{path}: {reason}")]
    Validation {
        /// The file asked for.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}
