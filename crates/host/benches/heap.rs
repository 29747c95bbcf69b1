//! What writing allocations down costs a program: its own processor time with and without the library inside.
//!
//! `cargo bench -p memwall-host --bench heap` runs all examples, `-- NAME ROUNDS` those whose names hold NAME. Runs are
//! interleaved, forwards and backwards in turn, and each is divided by the run without the library of the same round.
//! Fails where the whole 95 % interval of the median lies above what the library may cost.
#![allow(clippy::unwrap_used)]

#[path = "built/mod.rs"]
mod built;
#[allow(dead_code)]
#[path = "record/timed.rs"]
mod timed;

use std::{
    env,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use host::statistics;

/// Program, and the share of its processor time that the library may cost.
const PROGRAMS: [(&str, f64); 12] = [
    ("allocator", 0.05),
    ("hash_join", 0.01),
    ("chase --size L3", 0.01),
    ("stream", 0.01),
    ("store_stream", 0.01),
    ("sum", 0.01),
    ("multiply", 0.01),
    ("branches", 0.01),
    ("atomics", 0.01),
    ("imbalance", 0.01),
    ("chase_rs --size L3", 0.01),
    ("hash_join_rs", 0.01),
];

const ROUNDS: usize = 21;

/// How long a run takes.
const SECONDS: f64 = 0.3;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--timed") {
        return timed::child(&arguments[1..]);
    }
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let rounds = words.get(1).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let library = heap::install(folder.path()).unwrap();
    let examples = built::examples().unwrap();
    println!("{rounds} interleaved rounds, median of the ratio to the program alone and its 95 % interval");
    let is_wanted = |name: &str| words.first().is_none_or(|wanted| name.contains(wanted.as_str()));
    let wanted = PROGRAMS.iter().filter(|(program, _)| is_wanted(program));
    let broken: u32 = wanted
        .map(|(program, most)| {
            let costs = costs(program, &examples, folder.path(), &library, rounds);
            let cost = statistics::estimate(&costs).unwrap();
            let [value, low, high] = [cost.value, cost.low, cost.high].map(|share| share * 100.0);
            let verdict = if cost.low <= *most { "" } else { "  BROKEN" };
            println!(
                "{program:>20} {value:+6.2} % ({low:+.2} to {high:+.2}), at most {:.0} %{verdict}",
                most * 100.0
            );
            u32::from(!verdict.is_empty())
        })
        .sum();
    println!("{broken} bounds broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the library adds in each round, as a share of the program's processor time.
fn costs(program: &str, examples: &Path, folder: &Path, library: &Path, rounds: usize) -> Vec<f64> {
    let command = built::fixed_work(program, examples, SECONDS);
    let run = |with_library: bool| {
        let mut watcher = Command::new("env");
        if with_library {
            watcher.arg(format!("LD_PRELOAD={}", library.display()));
            watcher.arg(format!("{}={}", heap::FOLDER_VARIABLE, folder.display()));
        }
        let times = timed::run(watcher, &command, folder);
        remove_logs(folder);
        times.program
    };
    let one = |round: usize| {
        let with_first = round.is_multiple_of(2);
        let (first, second) = (run(with_first), run(!with_first));
        let (with, without) = if with_first { (first, second) } else { (second, first) };
        with / without - 1.0
    };
    (0..rounds).map(one).collect()
}

fn remove_logs(folder: &Path) {
    let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    for log in files.filter(|path| path.extension().is_some_and(|extension| extension == "heap")) {
        fs::remove_file(log).unwrap();
    }
}
