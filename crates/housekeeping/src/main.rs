//! `scripts/names`: prints which names several types have, and fails where there are too many.

use std::{path::Path, process::ExitCode};

use housekeeping::{census::Census, source_tree};

const USAGE: &str = "usage: scripts/names [--limit PERCENT] [--once NAME,NAME...] [ROOT]";

/// What was asked for.
struct Arguments {
    limit_percent: Option<f64>,
    once: Vec<String>,
    root: String,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { limit_percent: None, once: Vec::new(), root: ".".into() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--limit" => {
                let text = value()?;
                let limit = text.parse().map_err(|_| format!("--limit {text}: not a number"))?;
                arguments.limit_percent = Some(limit);
            }
            "--once" => arguments.once.extend(value()?.split(',').map(str::to_owned)),
            _ if word.starts_with('-') => return Err(format!("{word}: unknown")),
            _ => arguments.root = word,
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let files = match source_tree::read(Path::new(&arguments.root)) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let census = Census::of(&files);
    println!("{census}");
    let complaints = census.complaints(arguments.limit_percent, &arguments.once);
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
