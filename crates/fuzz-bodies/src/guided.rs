//! Fuzzing that sees what code an input reaches: libFuzzer over bodies compiled with counters at their edges.
//!
//! The compiler's own pass does that, which any toolchain has; only sanitizers would need a nightly one.

use std::{
    env,
    fs::{self, read_dir},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use fuzz_bodies::Target;

use crate::{
    corpus, found, root,
    spent::{Engine, Spent},
};

/// What code is compiled with: counters that libFuzzer reads, and what is compared with what.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// A run is counted when it ends: short ones lose little where somebody interrupts.
const LONGEST_RUN_S: u64 = 60;

/// Compiles all targets into one program.
pub fn build() -> io::Result<PathBuf> {
    let folder = root().join("fuzz");
    if !folder.join("Cargo.lock").exists() {
        // The versions that are shipped.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    }
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    // With a target named, programs that run while compiling have no counters.
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--bin", "any", "--target", &host])
        .env("RUSTFLAGS", FLAGS.join(" "))
        .current_dir(&folder)
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the targets could not be compiled"));
    }
    Ok(folder.join("target").join(&host).join("release/any"))
}

/// Lets it look for so much processor time; whether it found nothing.
pub fn run(engine: &Path, target: &Target, time: Duration) -> io::Result<bool> {
    let inputs = root().join("fuzz/corpus").join(target.name);
    if read_dir(&inputs).is_err() {
        corpus(target, &inputs)?;
    }
    let begin = children_time()?;
    let mut is_well = true;
    let mut used = Duration::ZERO;
    while is_well && used < time {
        let seconds = (time - used).as_secs().clamp(1, LONGEST_RUN_S);
        let before = children_time()?;
        let status = Command::new(engine)
            .arg(&inputs)
            .args([format!("-max_total_time={seconds}"), "-timeout=300".into(), "-rss_limit_mb=3000".into()])
            .arg(format!("-artifact_prefix={}/{}-", found()?.display(), target.name))
            .env("MEMWALL_FUZZ_TARGET", target.name)
            .stdout(Stdio::null())
            .status()?;
        is_well = status.success();
        let now = children_time()?;
        Spent::add(target.name, Engine::Guided, now - before)?;
        used = now - begin;
    }
    let verdict = if is_well { "nothing found" } else { "FOUND, see target/fuzz-found" };
    println!("{:<18} {:>9.1} CPU s  {verdict}", target.name, used.as_secs_f64());
    Ok(is_well)
}

/// Processor time of programs that were started and have ended.
fn children_time() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    // proc_pid_stat(5): fields 16 and 17; the third is the first behind the name.
    let ticks = behind_name.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>().map_err(io::Error::other)?;
    Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
}
