//! Relieves a loop of a running thread: `relieve PID TID MARK END`, addresses in hexadecimal digits.

use std::time::{Duration, Instant};

use relief::{ReliefBudget, ReliefOptions, ReliefTarget, relieve};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [pid, tid, mark, end] = words.as_slice() else { return Err("relieve PID TID MARK END".into()) };
    let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16);
    let target = ReliefTarget {
        pid: pid.parse()?,
        tid: tid.parse()?,
        mark: address(mark)?,
        hot: (address(mark)?, address(end)?),
        writes: false,
        sampled_turn_ns: None,
    };
    // As if the program had run for a while.
    let began = Instant::now().checked_sub(Duration::from_secs(20)).unwrap_or_else(Instant::now);
    let mut budget = ReliefBudget::since(began);
    let found = relieve(&target, &ReliefOptions::default(), 3, Duration::from_millis(100), &mut budget);
    for stretch in &found.stretches {
        println!("{stretch:?}");
    }
    println!(
        "near {:?}\nturn {:?}\nshare {:?}\nrefusal {:?}",
        found.near_ns, found.turn_ns, found.share, found.refusal
    );
    println!("wild branches {}, {:?}", found.has_wild_branches, budget.cost());
    Ok(())
}
