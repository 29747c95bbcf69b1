//! `memwall-fuzz run SECONDS [TARGET...]` tries damaged inputs on each target for so much processor time and keeps those that make
//! it panic or take more than a second of it; `memwall-fuzz corpus FOLDER [TARGET...]` writes inputs for cargo-fuzz to begin with.

use std::{
    env, fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use fuzz_bodies::{
    TARGETS, Target,
    mutate::{Draw, damaged},
};
use rustix::time::{ClockId, clock_gettime};

const USAGE: &str = "memwall-fuzz run SECONDS [TARGET...]\nmemwall-fuzz corpus FOLDER [TARGET...]";

/// Inputs of a corpus beside its seeds.
const CORPUS: u64 = 100;

/// An input that takes so long is kept.
const SLOW: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let [what, argument, chosen @ ..] = words.as_slice() else { return usage() };
    let is_chosen = |target: &&Target| chosen.is_empty() || chosen.iter().any(|name| name == target.name);
    let targets = TARGETS.iter().filter(is_chosen);
    let all_well = match (what.as_str(), argument.parse()) {
        ("run", Ok(seconds)) => {
            println!("{:<18} {:>10} {:>9} {:>8} {:>8}", "target", "inputs", "CPU s", "slow", "panics");
            targets.map(|target| run(target, Duration::from_secs(seconds))).collect::<Vec<_>>()
        }
        ("corpus", _) => {
            targets.map(|target| corpus(target, &Path::new(argument).join(target.name))).collect()
        }
        _ => return usage(),
    };
    let failed = all_well.iter().filter(|result| !matches!(result, Ok(true))).count();
    all_well.iter().filter_map(|result| result.as_ref().err()).for_each(|error| eprintln!("{error}"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn corpus(target: &Target, folder: &Path) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let seeds = (target.seeds)();
    let mut draw = Draw::new(1);
    let damaged: Vec<Vec<u8>> = (0..CORPUS).map(|_| damaged(&seeds, &mut draw)).collect();
    for (index, input) in seeds.iter().chain(&damaged).enumerate() {
        fs::write(folder.join(format!("{index:04}")), input)?;
    }
    Ok(true)
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
            let folder = Path::new("target/fuzz-found");
            fs::create_dir_all(folder)?;
            let kind = if is_panic { "panic" } else { "slow" };
            fs::write(folder.join(format!("{}-{kind}-{}", target.name, panics + slow)), &input)?;
        }
    }
    let used = (processor_time() - begin).as_secs_f64();
    println!("{:<18} {inputs:>10} {used:>9.1} {slow:>8} {panics:>8}", target.name);
    Ok(panics == 0 && slow == 0)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
