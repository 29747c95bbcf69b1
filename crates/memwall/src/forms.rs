//! The forms an answer can have, and where each goes: one set of flags for all commands.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use machine::private;
use recorder::ProgramOutput;
use serde::Serialize;

use crate::{failure::Failure, output};

/// Stdout, where a file is named.
const STDOUT: &str = "-";

/// Text or JSON.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
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
#[command(next_help_heading = "Output")]
pub struct Rows {
    /// Print CSV instead of text; --csv=FILE writes it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT, conflicts_with = "json")]
    csv: Option<PathBuf>,
}

/// A comment for a pull request.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Markdown {
    /// Print Markdown instead of text, for a pull request; --markdown=FILE writes it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT)]
    markdown: Option<PathBuf>,
}

impl Markdown {
    /// Gives it if it was asked for. True: it was printed.
    pub fn give(&self, text: impl FnOnce() -> String) -> Result<bool, Failure> {
        match &self.markdown {
            None => Ok(false),
            Some(file) if file.as_os_str() == STDOUT => output::data(&text()).map(|()| true),
            Some(file) => output::data_file(file, &text()).map(|()| false),
        }
    }

    /// It goes to stdout.
    pub fn is_printed(&self) -> bool {
        is_stdout(&self.markdown)
    }

    /// The file, to be tried out.
    pub fn file(&self) -> &Option<PathBuf> {
        &self.markdown
    }
}

/// A page.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Page {
    /// Write a page that any browser shows, without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Open that page in your browser
    #[arg(long, requires = "html")]
    open: bool,
}

impl Page {
    /// It goes to stdout.
    pub fn is_printed(&self) -> bool {
        is_stdout(&self.html)
    }

    /// The file, to be tried out.
    pub fn file(&self) -> &Option<PathBuf> {
        &self.html
    }

    /// Writes the page if it was asked for, says where it is, and opens it if that was asked for too. True: it was.
    pub fn give(&self, page: impl FnOnce() -> String) -> Result<bool, Failure> {
        let Some(file) = &self.html else { return Ok(false) };
        output::export(file, |out| out.write_all(page().as_bytes()))?;
        if is_stdout(&self.html) {
            return Ok(true);
        }
        // As a browser takes it from whoever copies it.
        let whole = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        output::say(&format!("the page is in {}", whole.display()));
        if self.open
            && let Err(error) = open::that_detached(&whole)
        {
            output::say(&format!("no browser could be started: {error}"));
        }
        Ok(true)
    }
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

    /// JSON goes to stdout.
    pub fn prints_json(&self) -> bool {
        is_stdout(&self.json) && (self.to.is_none() || is_stdout(&self.to))
    }

    /// Where a program's standard output goes: ours is for JSON or rows alone where they are printed, which is said.
    pub fn program_output(&self, program: &[OsString], rows: Option<&Rows>) -> ProgramOutput {
        let form = match rows {
            _ if self.prints_json() => "JSON",
            Some(rows) if is_stdout(&rows.csv) => "CSV",
            _ => return ProgramOutput::Stdout,
        };
        if !program.is_empty() {
            output::say(&format!("stdout is for the {form}: what the program writes there goes to stderr"));
        }
        ProgramOutput::Stderr
    }

    /// `--json FILE` makes the file a program, where `--json=FILE` is meant: says so.
    pub fn explained(&self, failure: Failure, program: &[OsString]) -> Failure {
        let is_json = |name: &&OsString| Path::new(name).extension().is_some_and(|end| end == "json");
        match (failure, program.first().filter(is_json)) {
            (Failure::Usage(line), Some(name)) if self.json.is_some() => {
                let name = name.display();
                Failure::Usage(format!("{line}; if it is the file for JSON, write --json={name}"))
            }
            (failure, _) => failure,
        }
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

fn is_stdout(file: &Option<PathBuf>) -> bool {
    file.as_ref().is_some_and(|file| file.as_os_str() == STDOUT)
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
    private::append_to_file(path).map_err(|error| {
        Failure::Usage(format!("cannot write {}: {error}; nothing was measured yet", path.display()))
    })?;
    if is_new {
        let _ = fs::remove_file(path);
    }
    Ok(())
}
