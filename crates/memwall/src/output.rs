//! Where the answer goes: stdout, colours only on a terminal, a broken pipe is no failure. Nothing is printed but from
//! here, and nothing from here that a terminal would obey.

use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
    process::ExitCode,
};

use machine::private;
use serde::Serialize;

use crate::{
    ascii,
    failure::Failure,
    harmless::{escaped, harmless, harmless_line},
};

/// Applies `--color` to everything printed from here on.
pub fn colour(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Width of the terminal; where there is none what `COLUMNS` says, or 80.
pub fn columns() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).or_else(told).unwrap_or(80)
}

/// Width of a report that goes into a file.
pub const FILE_COLUMNS: usize = 100;

/// Prints a finished text beside the output of a program: on stderr. A reader that went away is no failure.
pub fn note(text: &str) {
    let mut out = anstream::stderr().lock();
    let _ = out.write_all(ascii::shown(&harmless(text)).as_bytes()).and_then(|()| out.flush());
}

/// One line about ourselves, on stderr. Nobody may be there to read it: a terminal that hung up is no failure.
pub fn say(line: &str) {
    note(&format!("memwall: {}\n", harmless_line(line)));
}

/// Whether a person sees [`status`]: on a terminal that no program has taken over for itself.
pub fn has_status() -> bool {
    io::stderr().is_terminal() && is_line_by_line()
}

/// Programs that fill the screen switch off echo and lines.
fn is_line_by_line() -> bool {
    let lines = rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO;
    rustix::termios::tcgetattr(io::stderr()).is_ok_and(|modes| modes.local_modes.contains(lines))
}

/// A line on the terminal that the next one takes the place of, as does whatever the program writes; none clears it.
pub fn status(line: Option<&str>) {
    if !has_status() {
        return;
    }
    let shown: String =
        harmless_line(line.unwrap_or_default()).chars().take(columns().saturating_sub(1)).collect();
    let mut out = io::stderr().lock();
    // Clears the line, writes, and goes back to where the program would write.
    let _ = write!(out, "\r\u{1b}[2K{shown}\r").and_then(|()| out.flush());
}

/// What the command line was answered with: help on stdout, complaints on stderr.
pub fn usage(answer: &clap::Error) -> ExitCode {
    let words = answer.render().ansi().to_string();
    if answer.use_stderr() {
        note(&words);
    } else if let Err(failure) = text(&words) {
        return failure.report();
    }
    ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(1))
}

/// Writes a finished text into a file, without colours; people send it to terminals too.
pub fn file(path: &Path, text: &str) -> Result<(), Failure> {
    data_file(path, &anstream::adapter::strip_str(&harmless(text)).to_string())
}

/// Writes data or a page into a file, as it is. A new file is the user's alone: reports show arguments.
pub fn data_file(path: &Path, data: &str) -> Result<(), Failure> {
    private::create_file(path)
        .and_then(|mut file| file.write_all(data.as_bytes()))
        .map_err(|error| Failure::Measurement(format!("cannot write {}: {error}", path.display())))
}

/// Prints data for another tool, as it is; to a terminal, harmless to that.
pub fn data(data: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return text(data);
    }
    let mut out = io::stdout().lock();
    Ok(out.write_all(data.as_bytes()).and_then(|()| out.flush())?)
}

/// Writes what another tool reads, as it is: into a file, or to stdout if that is called `-`.
pub fn export(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        let mut out = Vec::new();
        write(&mut out)?;
        return data(&String::from_utf8_lossy(&out));
    }
    let work = || {
        let mut out = BufWriter::new(private::create_file(path)?);
        write(&mut out)?;
        out.flush()
    };
    work().map_err(|error| Failure::Measurement(format!("cannot write {}: {error}", path.display())))
}

/// Writes `value` into a file as indented JSON.
pub fn json_file(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    data_file(path, &(rendered(value)? + "\n"))
}

/// Prints a finished text; a line end is added if it lacks one.
pub fn text(text: &str) -> Result<(), Failure> {
    print(&ascii::shown(&harmless(text)))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    // Data, whatever the locale: what a terminal would obey is written with digits.
    print(&rendered(value)?)
}

fn rendered(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map(|json| escaped(&json))
        .map_err(|error| Failure::Measurement(format!("cannot render JSON: {error}")))
}
