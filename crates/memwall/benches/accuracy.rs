//! How often memwall names the right class and function on the machine at hand, and what it blames on a table against the
//! time that is gone without it.
//!
//! `cargo bench -p memwall --bench accuracy`. Tests hold the same expectations against recordings: what a live run shows
//! depends on who else uses the caches.

#[path = "../tests/run/expected.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod expected;
#[path = "../tests/run/place.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod place;

use std::process::Command;

use expected::{EXAMPLES, FIRST_CACHE_WAITS, IN_FIRST_CACHE, LOADS, blamed_on_customers, share};
use place::{Recorded, can_sample, example};
use serde_json::Value;

/// Of the comparison with a smaller table; the median counts.
const ROUNDS: usize = 5;

fn record(command: &str, seconds: &str) -> Value {
    let mut words = command.split(' ');
    let program = example(words.next().unwrap_or_default());
    let arguments: Vec<&str> = words.chain(["--seconds", seconds]).collect();
    Recorded::new(&[], &program, &arguments).findings()
}

fn main() {
    if !can_sample() {
        return;
    }
    let mut right = 0;
    let mut judge = |command: &str, problem: Option<String>| {
        right += usize::from(problem.is_none());
        println!("{command:<42}{}", problem.unwrap_or_else(|| "as expected".into()));
    };
    for expected in &EXAMPLES {
        judge(expected.command, expected.problem(&record(expected.command, "0.6")));
    }
    for (_, command) in IN_FIRST_CACHE {
        let waits = share(&record(command, "0.5"), LOADS);
        judge(
            command,
            (waits >= FIRST_CACHE_WAITS).then(|| format!("waits on loads {waits:.2} of user time")),
        );
    }
    println!("{right} of {} as expected", EXAMPLES.len() + IN_FIRST_CACHE.len());
    join();
}

/// CPU time that a hash join spent in its rounds, by its own account.
fn join_seconds(more: &[&str]) -> Option<f64> {
    let output = Command::new(example("hash_join")).args(["--rounds", "6"]).args(more).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.split_once(" s of CPU time")?.0.rsplit('(').next()?.parse().ok()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What is blamed on the hot table of a join, against the time that is gone with a small one; interleaved.
fn join() {
    let (mut large, mut small, mut blamed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        large.extend(join_seconds(&[]));
        small.extend(join_seconds(&["--small-table"]));
        let recorded = Recorded::new(&["--rate", "2000"], &example("hash_join"), &["--rounds", "6"]);
        blamed.extend(blamed_on_customers(&recorded.findings()));
    }
    let (Some(large), Some(small), Some(blamed)) = (median(large), median(small), median(blamed)) else {
        println!("hash_join: nothing was measured");
        return;
    };
    let gone = 1.0 - small / large;
    println!(
        "hash_join: blamed on the table {blamed:.3}, gone without it {gone:.3}, ratio {:.2}",
        blamed / gone
    );
}
