//! What a program loses while it is recorded, beside what it loses to `perf record`.
//!
//! Both sample the same clock with the same mean period and write the same registers and context switches:
//! `perf record -e cpu-clock:u -c 1050000 --user-regs=... --switch-events`. Runs are interleaved, forwards and backwards
//! in turn, and each is divided by the run without a watcher of the same round: what disturbs the machine for longer
//! than a round disturbs all alike.

use std::{path::Path, process::Command};

use host::statistics;
use machine::profile::Estimate;

use super::{
    built::fixed_work,
    ours,
    timed::{self, Times},
};

/// What recording may cost: a share of the program's processor time.
const MOST: f64 = 0.02;

const ROUNDS: usize = 25;

/// How long a run takes without a watcher.
const SECONDS: f64 = 0.5;

/// One that computes, one that loads from the first cache, one that waits for the second: programs whose own times
/// repeat. Beyond the second cache neighbours move times by more than any recorder does.
const PROGRAMS: [&str; 3] = ["multiply", "sum", "chase --size L2"];

const REGISTERS: &str = "--user-regs=ax,bx,cx,dx,si,di,bp,sp,ip,r8,r9,r10,r11,r12,r13,r14,r15";

/// Mean nanoseconds between samples that memwall asks for at a rate of 1000 per second.
const PERIOD: &str = "1050000";

/// Prints the table of the programs whose names hold `wanted[0]`, with `wanted[1]` rounds; gives how many cost more
/// than they may.
pub fn table(examples: &Path, folder: &Path, wanted: &[String]) -> u32 {
    let rounds = wanted.get(1).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let has_perf = perf(folder).arg("true").output().is_ok_and(|output| output.status.success());
    if !has_perf {
        println!("perf record does not run here: no comparison");
    }
    println!(
        "{rounds} interleaved rounds, medians of the ratio to the program alone and their 95 % intervals"
    );
    println!(
        "{:>32} {:12} {:>24} {:>24} {:>24}",
        "program", "watched by", "its CPU time", "wall", "CPU time of all"
    );
    let is_wanted = |name: &&&str| wanted.first().is_none_or(|wanted| name.contains(wanted.as_str()));
    PROGRAMS
        .iter()
        .filter(is_wanted)
        .map(|program| u32::from(!measure(program, examples, folder, rounds, has_perf)))
        .sum()
}

/// Measures one program; whether it costs no more than it may.
fn measure(program: &str, examples: &Path, folder: &Path, rounds: usize, has_perf: bool) -> bool {
    let command = fixed_work(program, examples, SECONDS);
    let watchers: usize = if has_perf { 3 } else { 2 };
    let watcher = |index: usize| match index {
        0 => Command::new("env"),
        1 => ours(&folder.join("a.sqlite")),
        _ => perf(folder),
    };
    let mut times: Vec<Vec<Times>> = Vec::new();
    for round in 0..rounds {
        let mut of_round: Vec<Option<Times>> = vec![None; watchers];
        for position in 0..watchers {
            let index = if round % 2 == 0 { position } else { watchers - 1 - position };
            of_round[index] = Some(timed::run(watcher(index), &command, folder));
        }
        times.push(of_round.into_iter().flatten().collect());
    }
    let ratio = |index: usize, base: usize, of: fn(&Times) -> f64| {
        let ratios: Vec<f64> = times.iter().map(|round| of(&round[index]) / of(&round[base]) - 1.0).collect();
        statistics::estimate(&ratios).unwrap()
    };
    let row = |name: &str, index: usize, base: usize| {
        let figures = [
            ratio(index, base, |times| times.program),
            ratio(index, base, |times| times.wall),
            ratio(index, base, |times| times.all),
        ];
        let [cpu, wall, all] = figures.each_ref().map(percent);
        println!("{program:>32} {name:12} {cpu:>24} {wall:>24} {all:>24}");
    };
    row("memwall", 1, 0);
    let cost = ratio(1, 0, |times| times.program);
    let mut holds = cost.value < MOST;
    if has_perf {
        row("perf record", 2, 0);
        row("memwall/perf", 1, 2);
        holds &= ratio(1, 2, |times| times.program).low <= 0.0;
    }
    if !holds {
        println!("{program:>32} BROKEN: more than {:.0} %, or more than perf record", MOST * 100.0);
    }
    holds
}

fn percent(share: &Estimate) -> String {
    format!("{:+.2} % ({:+.2} to {:+.2})", share.value * 100.0, share.low * 100.0, share.high * 100.0)
}

fn perf(folder: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "cpu-clock:u", "-c", PERIOD, REGISTERS, "--switch-events", "-o"]);
    command.arg(folder.join("perf.data")).arg("--");
    command
}
