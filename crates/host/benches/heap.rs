//! What writing allocations down costs a program: its own processor time with and without the library loaded, and with a
//! library that only passes calls on.
//!
//! `cargo bench -p memwall-host --bench heap` runs all examples, `-- NAME ROUNDS` those whose names hold NAME. Runs are
//! interleaved, forwards and backwards in turn, and each is compared with the others of the same round. Fails where the
//! whole 95 % interval of the median lies above what the library may cost. `-- --instructions` counts instructions of
//! `allocator` under callgrind instead, which no neighbour disturbs. `-- --processes ROUNDS [MEMWALL]` takes programs that mostly
//! start others; with the path of a memwall, it records them too, with and without `--no-heap`. `-- --starts ROUNDS` starts one short
//! program after the other, beside a library that is empty.
#![allow(clippy::unwrap_used)]

#[path = "built/mod.rs"]
mod built;
#[path = "heap/processes.rs"]
mod processes;
#[path = "heap/starts.rs"]
mod starts;
#[allow(dead_code)]
#[path = "record/timed.rs"]
mod timed;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heap::NoteFile;
use host::statistics;
use machine::profile::Estimate;
use tempfile::TempDir;

/// Program, and the share of its processor time that the library may cost above one that only passes calls on.
const PROGRAMS: [(&str, f64); 12] = [
    ("allocator", 0.01),
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
    let bench = HeapCost::new();
    if words.first().is_some_and(|first| first == "--instructions") {
        return bench.instructions();
    }
    if words.first().is_some_and(|first| first == "--processes") {
        bench.processes(rounds, words.get(2).map(Path::new));
        return ExitCode::SUCCESS;
    }
    if words.first().is_some_and(|first| first == "--starts") {
        const STARTS: usize = 2000;
        bench.starts(if words.len() > 1 { rounds } else { STARTS });
        return ExitCode::SUCCESS;
    }
    println!(
        "{rounds} interleaved rounds; what a library adds to the program's processor time: median, 95 % interval"
    );
    println!("{:>20} {:>32} {:>32}", "", "passing on, above alone", "noting, above passing on");
    let is_wanted = |name: &str| words.first().is_none_or(|wanted| name.contains(wanted.as_str()));
    let wanted = PROGRAMS.iter().filter(|(program, _)| is_wanted(program));
    let broken: u32 = wanted
        .map(|(program, most)| {
            let (passing, noting) = bench.costs(program, rounds);
            let verdict = if noting.low <= *most { "" } else { "  BROKEN" };
            println!(
                "{program:>20} {:>32} {:>32}, at most {:.0} %{verdict}",
                words_of(&passing),
                words_of(&noting),
                most * 100.0
            );
            u32::from(!verdict.is_empty())
        })
        .sum();
    println!("{broken} bounds broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words_of(cost: &Estimate) -> String {
    let [value, low, high] = [cost.value, cost.low, cost.high].map(|share| share * 100.0);
    format!("{value:+.2} % ({low:+.2} to {high:+.2})")
}

/// Does something while notes are read, as memwall does: one that finds no room costs less.
fn read_meanwhile<T>(file: Option<&NoteFile>, work: impl FnOnce() -> T) -> T {
    let Some(file) = file else { return work() };
    let (is_over, mut rings) = (AtomicBool::new(false), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let known = rings.len() as u64;
                rings.extend((known..file.claimed()).map(|region| file.ring(region).unwrap()));
                rings.iter_mut().for_each(|ring| ring.take(false, |_| {}).unwrap());
                thread::sleep(Duration::from_millis(5));
            }
        });
        let result = work();
        is_over.store(true, Relaxed);
        result
    })
}

/// What is loaded the program.
#[derive(Clone, Copy)]
enum Preloaded {
    Nothing,
    Passing,
    Noting,
}

struct HeapCost {
    folder: TempDir,
    noting: PathBuf,
    passing: PathBuf,
    examples: PathBuf,
}

impl HeapCost {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let noting = heap::install(folder.path()).unwrap();
        let examples = built::examples().unwrap();
        let mut bench = Self { folder, noting, passing: PathBuf::new(), examples };
        bench.passing = bench.compiled("pass");
        bench
    }

    /// Compiles a file beside this one: `pass` and `empty` are libraries.
    fn compiled(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/heap/{name}.c"));
        let built = self.folder.path().join(name);
        let library: &[&str] = if ["pass", "empty"].contains(&name) { &["-shared", "-fPIC"] } else { &[] };
        let mut compiler = Command::new("cc");
        let status =
            compiler.args(["-O2", "-fno-builtin", "-o"]).arg(&built).arg(source).args(library).status();
        assert!(status.unwrap().success());
        built
    }

    /// `env` with what the program needs, and the file it writes to.
    fn environment(&self, loaded: Preloaded) -> (Command, Option<NoteFile>) {
        let mut command = Command::new("env");
        match loaded {
            Preloaded::Nothing => (command, None),
            Preloaded::Passing => {
                command.arg(format!("LD_PRELOAD={}", self.passing.display()));
                (command, None)
            }
            Preloaded::Noting => {
                let file = NoteFile::create().unwrap();
                file.let_inherit(true).unwrap();
                command.arg(format!("LD_PRELOAD={}", self.noting.display()));
                command.arg(format!("{}={}", heap::VARIABLE, file.variable().display()));
                (command, Some(file))
            }
        }
    }

    /// What passing on adds to the program alone, and noting to passing on, as shares of processor time.
    fn costs(&self, program: &str, rounds: usize) -> (Estimate, Estimate) {
        let command = built::fixed_work(program, &self.examples, SECONDS);
        let run = |loaded: Preloaded| {
            let (watcher, _file) = self.environment(loaded);
            timed::run(watcher, &command, self.folder.path()).program
        };
        let mut order = [Preloaded::Nothing, Preloaded::Passing, Preloaded::Noting];
        let (mut passing, mut noting) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut times = [0.0; 3];
            order.reverse();
            order.iter().for_each(|loaded| times[*loaded as usize] = run(*loaded));
            let [alone, passed, noted] = times;
            passing.push(passed / alone - 1.0);
            noting.push(noted / passed - 1.0);
        }
        (statistics::estimate(&passing).unwrap(), statistics::estimate(&noting).unwrap())
    }

    /// Instructions of `allocator`: the library's own may be one per cent above those of passing on.
    fn instructions(&self) -> ExitCode {
        const MOST: f64 = 0.01;
        let program = [self.examples.join("allocator").into_os_string(), "--rounds".into(), "40".into()];
        let counts = [Preloaded::Nothing, Preloaded::Passing, Preloaded::Noting].map(|loaded| {
            let (mut command, file) = self.environment(loaded);
            command.args(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(&program);
            let output = read_meanwhile(file.as_ref(), || command.output().unwrap());
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let count =
                text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok());
            count.unwrap_or_else(|| panic!("no count in {text:?}"))
        });
        let [alone, passing, noting] = counts;
        let [passing_share, noting_share] =
            [passing / alone - 1.0, noting / passing - 1.0].map(|share| share * 100.0);
        println!(
            "{alone} instructions alone, {passing} passing on ({passing_share:+.2} %), {noting} noting ({noting_share:+.2} % above passing on)"
        );
        if noting / passing - 1.0 <= MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
