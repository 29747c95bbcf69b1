//! Runs the bodies for as long as one likes, and keeps account of how long that was.
//!
//! `memwall-fuzz run SECONDS [TARGET...]` tries damaged inputs on each target for so much processor time and keeps those that make
//! it panic or take more than a second of it; `memwall-fuzz guided SECONDS [TARGET...]` does so with libFuzzer, which looks for
//! inputs that reach new code; `memwall-fuzz corpus FOLDER [TARGET...]` writes inputs to begin with, `memwall-fuzz spent` says what each
//! target has had in all.

mod guided;
mod spent;

use std::{
    env, fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use fuzz_bodies::{
    TARGETS, Target,
    mutate::{Draw, damaged},
};
use rustix::time::{ClockId, clock_gettime};

use self::spent::{Engine, Spent};

const USAGE: &str = "memwall-fuzz run SECONDS [TARGET...]\nmemwall-fuzz guided SECONDS [TARGET...]\n\
                     memwall-fuzz corpus FOLDER [TARGET...]\nmemwall-fuzz spent";

/// Inputs of a corpus beside its seeds.
const CORPUS: u64 = 100;

/// An input that takes so long is kept.
const SLOW: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(Some(true)) => ExitCode::SUCCESS,
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(None) => usage(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well; none if the words make no command.
fn command(words: &[&str]) -> io::Result<Option<bool>> {
    if let ["spent"] = words {
        print!("{}", Spent::read()?.table());
        return Ok(Some(true));
    }
    let [what, argument, chosen @ ..] = words else { return Ok(None) };
    let is_chosen = |target: &&Target| chosen.is_empty() || chosen.contains(&target.name);
    let targets: Vec<&Target> = TARGETS.iter().filter(is_chosen).collect();
    if targets.is_empty() {
        return Ok(None);
    }
    match (*what, argument.parse().map(Duration::from_secs)) {
        ("run", Ok(time)) => {
            println!("{:<18} {:>10} {:>9} {:>8} {:>8}", "target", "inputs", "CPU s", "slow", "panics");
            targets.iter().map(|target| run(target, time)).collect::<io::Result<Vec<_>>>().map(all)
        }
        ("guided", Ok(time)) => {
            let engine = guided::build()?;
            let each = targets.iter().map(|target| guided::run(&engine, target, time));
            each.collect::<io::Result<Vec<_>>>().map(all)
        }
        ("corpus", _) => {
            let folder = |target: &Target| Path::new(argument).join(target.name);
            targets.iter().try_for_each(|target| corpus(target, &folder(target))).map(|()| Some(true))
        }
        _ => Ok(None),
    }
}

fn all(well: Vec<bool>) -> Option<bool> {
    Some(well.iter().all(|is_well| *is_well))
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The root of the source tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where inputs are kept that show a fault.
fn found() -> io::Result<PathBuf> {
    let folder = root().join("target/fuzz-found");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn corpus(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let seeds = (target.seeds)();
    let mut draw = Draw::new(1);
    let damaged: Vec<Vec<u8>> = (0..CORPUS).map(|_| damaged(&seeds, &mut draw)).collect();
    for (index, input) in seeds.iter().chain(&damaged).enumerate() {
        fs::write(folder.join(format!("{index:04}")), input)?;
    }
    Ok(())
}

fn run(target: &Target, time: Duration) -> io::Result<bool> {
    let seeds = (target.seeds)();
    // Another stream each time, so that a second run tries something new.
    let mut draw = Draw::new(std::process::id().into());
    let begin = processor_time();
    let (mut inputs, mut slow, mut panics) = (0_u64, 0_u64, 0_u64);
    while processor_time() - begin < time {
        let input = damaged(&seeds, &mut draw);
        let began = processor_time();
        let is_panic = catch_unwind(AssertUnwindSafe(|| (target.body)(&input))).is_err();
        let is_slow = processor_time() - began > SLOW;
        inputs += 1;
        panics += u64::from(is_panic);
        slow += u64::from(is_slow);
        if is_panic || is_slow {
            let kind = if is_panic { "panic" } else { "slow" };
            fs::write(found()?.join(format!("{}-{kind}-{}", target.name, panics + slow)), &input)?;
        }
    }
    let used = processor_time() - begin;
    println!("{:<18} {inputs:>10} {:>9.1} {slow:>8} {panics:>8}", target.name, used.as_secs_f64());
    Spent::add(target.name, Engine::Damaged, used)?;
    Ok(panics == 0 && slow == 0)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
