//! Source files of measured programs. Which files those are says debug information, perhaps in a recording that another user
//! made: it may name any file of ours, to have it in the page that we hand on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use machine::{Bytes, regular};
use report::html::SourceReading;

use crate::failure::Failure;

/// Longer ones are not read.
const LARGEST: Bytes = Bytes(8 << 20);

/// Said where a page lacks source.
const WITHHELD: &str =
    "a recording may name any file, so that only files below folders given with --sources DIR are read";

/// Folders whose files may be shown.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct SourceFolders {
    /// Show source from files below this folder in the page; may be given several times
    #[arg(long = "sources", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

/// Source files that may be read.
pub enum Readable {
    /// Wherever debug information says: it is of a program that we ran ourselves.
    OwnProgram,
    /// Those below these folders.
    Below(Vec<PathBuf>),
}

impl SourceFolders {
    /// Of a recording from anywhere.
    pub fn of_recording(&self) -> Result<Readable, Failure> {
        let found = |folder: &PathBuf| {
            let found = fs::canonicalize(folder).and_then(|found| fs::read_dir(&found).map(|_| found));
            found.map_err(|error| Failure::Usage(format!("--sources {}: {error}", folder.display())))
        };
        self.folders.iter().map(found).collect::<Result<_, _>>().map(Readable::Below)
    }

    /// Of a program that was just run.
    pub fn of_program(&self, is_own: bool) -> Result<Readable, Failure> {
        if is_own && self.folders.is_empty() { Ok(Readable::OwnProgram) } else { self.of_recording() }
    }
}

impl Readable {
    /// For a page.
    pub fn reading(&self) -> SourceReading<'_> {
        match self {
            Self::OwnProgram => {
                SourceReading { text: Box::new(|file| text(Path::new(file))), otherwise: None }
            }
            Self::Below(folders) => {
                SourceReading { text: Box::new(|file| text_below(folders, file)), otherwise: Some(WITHHELD) }
            }
        }
    }
}

/// The text of a file, if it is still where debug information says.
fn text(file: &Path) -> Option<String> {
    let bytes = regular::read(file, LARGEST).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The same, unless the file lies elsewhere, be it by way of a link.
fn text_below(folders: &[PathBuf], file: &str) -> Option<String> {
    let real = fs::canonicalize(file).ok()?;
    folders.iter().any(|folder| real.starts_with(folder)).then(|| text(&real))?
}
