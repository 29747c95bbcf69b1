//! How close the timer instrument comes where the truth is known.
//!
//! `cargo bench -p memwall-host --bench timer` prints the table of the kernels, `-- examples` that of the example
//! programs, `-- NAME` only what holds that name. Fails where a bound is broken.

#![allow(clippy::unwrap_used)]

#[path = "../built/mod.rs"]
mod built;
mod examples;
mod kernels;

use std::{env, process::ExitCode};

use analysis::findings::Split;

/// The largest wait, if it is larger than executing.
fn largest(split: &Split) -> &'static str {
    let wait = split.largest_wait().filter(|&(_, share)| share > split.executing);
    wait.map_or("executing", |(found, _)| found.label())
}

fn main() -> ExitCode {
    let mut wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let of_examples = wanted.first().is_some_and(|first| first == "examples");
    let table = if of_examples { examples::table(&wanted.split_off(1)) } else { kernels::table(&wanted) };
    match table {
        Ok(broken) => {
            println!("{broken} bounds broken");
            if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
