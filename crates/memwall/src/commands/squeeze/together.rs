//! Whether the threads of a program are at the same code at the same time, from samples of one run.

use std::collections::HashMap;

use record::{ids::ModuleId, run::Run};
use squeeze::judge::CpusDo;

/// A thread that takes more than this of one CPU has a second one beside it.
const BUSY: f64 = 1.15;
/// Stretches of a run in which threads are compared, at most.
const STRETCHES: usize = 20;
/// Samples of a thread in a stretch below which nothing is said of it.
const LEAST: usize = 25;
/// Share of its samples that each thread has in code where the others have theirs.
const ALIKE: f64 = 0.65;
/// Code that is taken for the same, in bits of its address.
const NEAR: u32 = 8;

/// A sample: of which thread, in which code.
type Sampled = (usize, (ModuleId, u64));

/// Whether more CPUs than processes were busy.
pub(super) fn are_several(busy_cpus: f64, processes: usize) -> bool {
    busy_cpus > BUSY * processes.max(1) as f64
}

/// Whether threads do the same at any time, or at least in all.
pub(super) fn cpus_do(run: &Run) -> CpusDo {
    let samples = &run.samples;
    let mut all: Vec<(u64, Sampled)> = Vec::new();
    for ((&time, thread), &place) in samples.time_ns.iter().zip(&samples.thread).zip(&samples.place) {
        if let Some(place) = run.place(place) {
            all.push((time, (thread.index(), (place.module, place.address >> NEAR))));
        }
    }
    told(&mut all)
}

fn told(all: &mut [(u64, Sampled)]) -> CpusDo {
    all.sort_unstable_by_key(|(time, _)| *time);
    let samples: Vec<Sampled> = all.iter().map(|(_, sample)| *sample).collect();
    let busiest = by_thread(&samples).values().map(Vec::len).max().unwrap_or(0);
    let stretches = (busiest / (2 * LEAST)).min(STRETCHES);
    let in_turn = stretches > 1 && {
        let each = samples.len().div_ceil(stretches);
        let shares: Vec<f64> = samples.chunks(each).filter_map(least_shared).collect();
        2 * shares.len() > stretches && shares.iter().sum::<f64>() > ALIKE * shares.len() as f64
    };
    match least_shared(&samples) {
        _ if in_turn => CpusDo::InTurn,
        Some(share) if share > ALIKE => CpusDo::Alike,
        _ => CpusDo::Apart,
    }
}

fn by_thread(samples: &[Sampled]) -> HashMap<usize, Vec<(ModuleId, u64)>> {
    let mut threads: HashMap<usize, Vec<_>> = HashMap::new();
    samples.iter().for_each(|(thread, code)| threads.entry(*thread).or_default().push(*code));
    threads
}

/// Of the thread that is least like the others, the share of its samples that lie where theirs do; all of it where one thread
/// alone ran. `None` of too few samples.
fn least_shared(samples: &[Sampled]) -> Option<f64> {
    let shares_of = |codes: &Vec<(ModuleId, u64)>| {
        let mut shares: HashMap<(ModuleId, u64), f64> = HashMap::new();
        codes.iter().for_each(|code| *shares.entry(*code).or_default() += 1.0 / codes.len() as f64);
        shares
    };
    let threads: Vec<_> =
        by_thread(samples).values().filter(|codes| codes.len() >= LEAST).map(shares_of).collect();
    let others = threads.len().saturating_sub(1).max(1) as f64;
    let shared = threads.iter().enumerate().map(|(own, shares)| {
        let theirs = |code| {
            let others_of = threads.iter().enumerate().filter(|(other, _)| *other != own);
            others_of.filter_map(|(_, shares)| shares.get(code)).sum::<f64>() / others
        };
        shares.iter().map(|(code, share)| share.min(theirs(code))).sum::<f64>()
    });
    match threads.len() {
        0 => None,
        1 => Some(1.0),
        _ => shared.min_by(f64::total_cmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of three threads over three seconds, each in the code that is said of it and the time.
    fn samples(code: impl Fn(usize, u64) -> Option<u64>) -> Vec<(u64, Sampled)> {
        let at = |time: u64| (0..3).map(move |thread| (thread, time));
        let all = (0..3000).flat_map(at);
        all.filter_map(|(thread, time)| Some((time, (thread, (ModuleId::of(0), code(thread, time)?)))))
            .collect()
    }

    #[test]
    fn threads_that_take_turns_together_are_told_from_those_that_do_not() {
        let in_turn = |_, time: u64| Some(time / 500 % 2);
        assert_eq!(told(&mut samples(in_turn)), CpusDo::InTurn);
        // One CPU is busy at a time.
        let single = |thread, time: u64| (thread as u64 == time / 1000).then_some(thread as u64);
        assert_eq!(told(&mut samples(single)), CpusDo::InTurn);
        let each_when_it_comes_to_it = |thread, time: u64| Some((time + 500 * thread as u64) / 500 % 2);
        assert_eq!(told(&mut samples(each_when_it_comes_to_it)), CpusDo::Alike);
        let one_at_its_own = |thread, _| Some(u64::from(thread == 0));
        assert_eq!(told(&mut samples(one_at_its_own)), CpusDo::Apart);
        let hardly_any = |_, time| (time < 10).then_some(0);
        assert_eq!(told(&mut samples(hardly_any)), CpusDo::Apart);
    }

    #[test]
    fn a_copy_for_each_process_is_one_cpu_each() {
        assert!(!are_several(1.02, 1) && are_several(1.9, 1) && !are_several(2.0, 2) && are_several(4.0, 2));
    }
}
