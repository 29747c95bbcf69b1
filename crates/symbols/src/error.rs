//! Why an image cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a file cannot be used to name addresses. Each reason reads as the end of "no symbols for …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// There is no file of that name any more.
    #[error("{}: the file no longer exists; keep the program in place until its report is made", path.display())]
    Missing {
        /// The file asked for.
        path: PathBuf,
    },
    /// Another file has taken the name.
    #[error("{}: the file was replaced since the recording; record again to have its symbols", path.display())]
    Replaced {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file exists but may not or cannot be read.
    #[error("{}: the file cannot be read ({source}); read it as the user who ran the program", path.display())]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file asked for.
        path: PathBuf,
    },
    /// Somebody else wrote it, who may say what they like.
    #[error("{}: it belongs to another user ({owner}) and is not believed", path.display())]
    OtherOwner {
        /// The file asked for.
        path: PathBuf,
        /// Number of the user it belongs to.
        owner: u32,
    },
    /// The contents are not an ELF file.
    #[error("{name}: not an ELF file")]
    NotElf {
        /// The file or dump.
        name: String,
    },
    /// The file ends before what its headers promise.
    #[error("{name}: the file is truncated: its headers promise {needed} bytes, it has {actual}")]
    Truncated {
        /// The file or dump.
        name: String,
        /// The length that the headers promise.
        needed: u64,
        /// The length it has.
        actual: u64,
    },
    /// An ELF file whose headers contradict each other.
    #[error("{name}: damaged ELF file ({detail})")]
    Damaged {
        /// The file or dump.
        name: String,
        /// What the parser said.
        detail: String,
    },
}
