//! Where the answer goes: stdout, colours only on a terminal, a broken pipe is no failure.

use std::io::Write;

use serde::Serialize;

use crate::failure::Failure;

/// Applies `--color` to everything printed from here on.
pub fn colour(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Width of the terminal; 80 where there is none.
pub fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
}

/// Prints a finished text; a line end is added if it lacks one.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let rendered = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Measurement(format!("cannot render JSON: {error}")))?;
    text(&rendered)
}
