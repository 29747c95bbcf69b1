//! The forms an answer can have, and where each goes: one set of flags for all commands.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use machine::private;
use serde::Serialize;

use crate::{failure::Failure, output};

/// Stdout, where a file is named.
const STDOUT: &str = "-";

/// Text or JSON.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Forms {
    /// Print JSON instead of text; --json=FILE writes it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT)]
    json: Option<PathBuf>,
    /// Write the text to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Where the text goes, or the JSON if that is asked for.
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "text")]
    to: Option<PathBuf>,
}

/// Rows for a spreadsheet.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Rows {
    /// Print CSV instead of text; --csv=FILE writes it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT, conflicts_with = "json")]
    csv: Option<PathBuf>,
}

/// A page.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Page {
    /// Write a page that any browser shows, without a network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Where a text goes that nobody redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Stdout.
    Out,
    /// Stderr: stdout is the measured program's.
    BesideProgram,
    /// Nowhere: another form was asked for instead.
    None,
}

impl Forms {
    /// Nothing but text is printed.
    pub fn is_text(&self) -> bool {
        self.json.is_none()
    }

    /// Gives the answer in the forms asked for. `text` takes the columns there are.
    pub fn give(
        &self,
        screen: Screen,
        document: &impl Serialize,
        text: impl FnOnce(usize) -> String,
    ) -> Result<(), Failure> {
        if let Some(file) = &self.json {
            match self.to.as_ref().or(Some(file)).filter(|file| file.as_os_str() != STDOUT) {
                Some(file) => output::json_file(file, document)?,
                None => output::json(document)?,
            }
        }
        match self.text.as_ref().or(self.to.as_ref().filter(|_| self.is_text())) {
            Some(file) => output::file(file, &text(output::FILE_COLUMNS)),
            None if !self.is_text() => Ok(()),
            None => match screen {
                Screen::Out => output::text(&text(output::columns())),
                Screen::BesideProgram => {
                    output::note(&text(output::columns()));
                    Ok(())
                }
                Screen::None => Ok(()),
            },
        }
    }

    /// Tries all files before anything is measured: a typo must not cost the measurement.
    pub fn check(&self, others: &[&Option<PathBuf>]) -> Result<(), Failure> {
        let own = [&self.json, &self.text, &self.to];
        own.into_iter().chain(others.iter().copied()).flatten().try_for_each(|path| try_out(path))
    }
}

impl Rows {
    /// Nothing but text is printed.
    pub fn is_text(&self) -> bool {
        self.csv.is_none()
    }

    /// Gives the rows if they were asked for. True: they were.
    pub fn give(&self, rows: impl FnOnce() -> String) -> Result<bool, Failure> {
        match &self.csv {
            None => return Ok(false),
            Some(file) if file.as_os_str() == STDOUT => output::data(&rows())?,
            Some(file) => output::data_file(file, &rows())?,
        }
        Ok(true)
    }

    /// The file, to be tried out.
    pub fn file(&self) -> &Option<PathBuf> {
        &self.csv
    }
}

/// Opens a file as it will be opened; one that was not there is not there afterwards.
fn try_out(path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == STDOUT {
        return Ok(());
    }
    // A pipe would wait for its reader, who would then find an end at once.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let is_new = fs::symlink_metadata(path).is_err();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(private::FILE_MODE);
    options.open(path).map_err(|error| {
        Failure::Usage(format!("cannot write {}: {error}; nothing was measured yet", path.display()))
    })?;
    if is_new {
        let _ = fs::remove_file(path);
    }
    Ok(())
}
