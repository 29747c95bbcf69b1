//! Step: capacities and latencies again, between the other steps.
//!
//! Which pages a buffer gets and what neighbours do shift where a level ends. One look tells where it ended then; the
//! interval that is quoted comes from tries at several times, each in memory of its own ([`super::holding`]).

use machine::{
    Bytes,
    probe::ProbePlan,
    profile::{LevelName, ProfileLevel},
};

use super::{
    answers,
    bandwidth::{inside, level_mut},
    curve::{largest, short, tidy, try_size},
    holding::{CacheKnowledge, held},
    knees::{Rise, rises},
    levels::{self, Claim, cache_levels, claims},
    session::Session,
    translation::against_curve,
};
use host::sizes::whole_lines;

/// Sizes tried around the end of each level, in one round; three times as many where they cost little.
const QUICK_SIZES: usize = 5;
const FULL_SIZES: usize = 9;

/// Up to here a try costs little.
const CHEAP: f64 = (2u64 << 20) as f64;

/// How far beyond the ends of the interval so far.
const BEYOND: f64 = 1.25;

/// Sizes tried where a claimed level was not seen yet.
const SEARCHED: usize = 2;

/// Rounds that are made however late it is.
const LEAST_ROUNDS: usize = 2;

/// Of each level so many sizes are tried even when time is up.
const LEAST_SIZES: usize = 2;

/// Multiples of this are spread evenly over whole numbers, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// A level whose data set should have been this many times larger or smaller is measured anew.
const MOVED: f64 = 1.5;

/// Short probes taken in one round.
const PROBES: usize = 2;

/// One round. Nothing on a simulated machine: it would give the same.
pub(super) fn again(session: &mut Session<'_>) {
    // On a machine so busy that all time is gone, two rounds have to do.
    let is_late = session.rounds >= LEAST_ROUNDS && session.elapsed_ns() > session.total_ns();
    if session.request.simulated.is_some() || session.tries.is_empty() || is_late {
        return;
    }
    let wanted = wanted_sizes(session);
    session.rounds += 1;
    let levels: Vec<LevelName> = session.profile.levels.iter().map(|level| level.name.clone()).collect();
    let total = (wanted.iter().map(Vec::len).sum::<usize>() + levels.len()).max(1);
    let mut done = 0;
    for sizes in &wanted {
        for (index, &size) in sizes.iter().enumerate() {
            if session.interrupted() || session.left_ns() <= 0.0 && index >= LEAST_SIZES {
                break;
            }
            let plan = session.plan(total - done);
            try_size(session, size, &short(&plan));
            done += 1;
            session.progress(done as f64 / total as f64);
        }
    }
    settle(session);
    for name in &levels {
        answer_again(session, name, total - done);
        done += 1;
    }
    probe(session);
}

/// What a probe beside a program is compared with: how fast cache and memory answer one as short.
fn probe(session: &mut Session<'_>) {
    let plan = ProbePlan::of(&session.profile);
    // Not before memory was measured: all that is to be probed is known then.
    let has_memory =
        session.profile.levels.iter().any(|level| matches!(level.name, LevelName::Memory { .. }));
    if !has_memory || session.interrupted() || plan.needed_bytes() > session.memory().0 {
        return;
    }
    for _ in 0..PROBES {
        match session.host.probe(&plan) {
            Some(Ok(reading)) => session.profile.probes.push(reading),
            Some(Err(error)) => session.remark(format!("{error}.")),
            None => {}
        }
    }
}

/// The level's latency once more, if there is time for it.
fn answer_again(session: &mut Session<'_>, name: &LevelName, remaining: usize) {
    let local = !matches!(name, LevelName::Memory { local: false, .. });
    let Some(size) = measured_with(session, name).filter(|_| local) else { return };
    // A pass over memory takes long; twice is enough when time is short.
    let is_memory = matches!(name, LevelName::Memory { .. });
    if session.interrupted() || is_memory && session.left_ns() <= 0.0 && session.rounds % 2 == 1 {
        return;
    }
    let Some(job) = session.job("chase", size, &[session.cpu]) else { return };
    let plan = session.plan(remaining);
    if let Some(chased) = session.measure_as(&job, &short(&plan)) {
        level_mut(session, name).measured_with = Some(size);
        answers::note(session, name, &chased);
    }
}

/// The data set a level is measured with. One that showed itself only after the others were measured, or turned out to
/// end elsewhere, gets another now, and what was measured before does not count.
fn measured_with(session: &mut Session<'_>, name: &LevelName) -> Option<Bytes> {
    let levels = &session.profile.levels;
    let index = levels.iter().position(|level| level.name == *name)?;
    let before = levels[index].measured_with;
    let Some(usable) = levels[index].usable else { return before };
    levels.iter().find_map(|level| level.measured_with)?;
    let inner = levels[..index].iter().filter_map(|level| level.usable).next_back();
    let size = whole_lines(inside(inner.map(|inner| inner.value), usable.value));
    let ratio = before.map_or(f64::INFINITY, |before| before.0 as f64 / size.0 as f64);
    if (1.0 / MOVED..=MOVED).contains(&ratio) {
        return before;
    }
    session.answers.retain(|answer| !answer.is_of(name));
    if let Some(before) = before {
        session.remark(format!(
            "{} ends elsewhere than first seen: its latency is that of {size}, its bandwidths are those of {before}.",
            if let LevelName::Cache(number) = name { format!("L{number}") } else { "Memory".to_owned() }
        ));
    }
    Some(size)
}

/// For each level sizes around where it may end, in an order that says nothing about time.
fn wanted_sizes(session: &mut Session<'_>) -> Vec<Vec<Bytes>> {
    let count = if session.request.quick { QUICK_SIZES } else { FULL_SIZES };
    let round = session.rounds;
    let most = largest(session).0 as f64;
    let mut wanted = Vec::new();
    let mut outermost = 0.0f64;
    for level in session.profile.levels.iter().filter(|level| matches!(level.name, LevelName::Cache(_))) {
        let sizes = match (level.usable, level.claimed) {
            (Some(usable), _) => {
                outermost = usable.high;
                // Whether more fits at the best of times takes more tries than whether less does at the worst.
                let from = if round.is_multiple_of(2) { usable.low / BEYOND } else { usable.value };
                let count = if usable.high <= CHEAP { 3 * count } else { count };
                ladder(from, (usable.high * BEYOND).min(most), count, round)
            }
            (None, Some(claimed)) if outermost * BEYOND < most => {
                ladder(outermost * BEYOND, (claimed.0 as f64 * BEYOND).min(most), SEARCHED, round)
            }
            (None, _) => Vec::new(),
        };
        wanted.push(sizes);
    }
    wanted
}

/// `count` sizes evenly spread in octaves, others in each round, and in turn from both ends.
fn ladder(from: f64, to: f64, count: usize, round: usize) -> Vec<Bytes> {
    if !(from > 0.0 && to > from) {
        return Vec::new();
    }
    let shift = (round as f64 * GOLDEN).fract();
    let size = |step: usize| whole_lines(from * (to / from).powf((step as f64 + shift) / count as f64));
    let mut ascending: Vec<Bytes> = (0..count).map(size).collect();
    let first = round % count;
    ascending.rotate_left(first);
    let (even, odd): (Vec<_>, Vec<_>) =
        ascending.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
    even.into_iter().chain(odd).map(|(_, size)| size).collect()
}

/// The cache levels by all tries so far; what was measured of them stays.
pub(super) fn settle(session: &mut Session<'_>) {
    tidy(&mut session.profile.latency_curve);
    let translation = against_curve(&mut session.profile);
    let small = session.profile.latency_curve.iter().any(|point| !point.huge_pages);
    // Whether a guest's huge pages are huge to its host shows only in a quiet moment.
    let scattered = small || session.machine.hypervisor.is_some();
    let tries = translation.taken_from(&session.tries);
    let found = rises(&tries);
    let simulated = session.request.simulated.is_some();
    let usable = |rise: &Rise, claim: Option<&Claim>| {
        // The innermost one is indexed within a page: pages cannot fall badly on it.
        let innermost = found.first() == Some(rise);
        let known = CacheKnowledge {
            claimed: claim.and_then(|claim| claim.size).map(|size| size.0 as f64),
            ways: claim.and_then(|claim| claim.ways),
            private: claim.is_some_and(|claim| claim.private),
            scattered: scattered && !innermost,
        };
        // Nothing disturbs a simulated machine, and its pages lie as they lie.
        if simulated { rise.capacity } else { held(&tries, rise, &known) }
    };
    let mut levels = cache_levels(&found, &claims(session.machine, session.cpu), usable);
    let reasons: Vec<Option<String>> =
        (0..levels.len()).map(|index| unseen(session, &levels, index, &found)).collect();
    for (level, reason) in levels.iter_mut().zip(reasons) {
        level.unseen = reason;
        if let Some(before) = session.profile.levels.iter().find(|before| before.name == level.name) {
            level.measured_with = before.measured_with;
            level.latency_ns = before.latency_ns;
            level.one_core = before.one_core;
            level.all_cores = before.all_cores;
        }
    }
    session.profile.levels.retain(|level| matches!(level.name, LevelName::Memory { .. }));
    session.profile.levels.splice(0..0, levels);
}

/// Why a claimed level has no capacity.
fn unseen(session: &Session<'_>, levels: &[ProfileLevel], index: usize, found: &[Rise]) -> Option<String> {
    if levels[index].usable.is_some() {
        return None;
    }
    let tried = session.tries.iter().map(|point| point.size).max().unwrap_or(Bytes(0));
    if levels[index].claimed.is_some_and(|claimed| tried < claimed) && found.len() <= index {
        return Some(format!(
            "nothing larger than {tried} was tried, and up to there no latency of its own shows"
        ));
    }
    let inside = levels[..index].iter().filter_map(|level| level.usable).next_back();
    let step = inside.and_then(|usable| {
        found.iter().find(|rise| (usable.low..=usable.high).contains(&rise.capacity.value))
    });
    Some(match step {
        Some(rise) => format!(
            "beyond {} a load takes {:.1} ns in place of {:.1} at once, so that others hold all of it, or what is left of it \\
             is no larger than the level inside",
            Bytes(rise.capacity.value as u64),
            rise.outer_ns,
            rise.inner_ns
        ),
        None => "latency does not rise where it should end".to_owned(),
    })
}

/// A sentence for each cache whose claim and measurement disagree.
pub(super) fn disagreements(session: &Session<'_>) -> Vec<String> {
    levels::disagreements(&session.profile.levels, session.request.simulated.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_try_other_sizes_all_over_the_interval() {
        let mut all: Vec<u64> = Vec::new();
        for round in 0..4 {
            let sizes = ladder(1e5, 4e5, 5, round);
            assert_eq!(sizes.len(), 5);
            assert!(sizes.iter().all(|size| (99_000..=400_000).contains(&size.0)), "{sizes:?}");
            assert!(!sizes.is_sorted(), "time would tell sizes apart: {sizes:?}");
            all.extend(sizes.iter().map(|size| size.0));
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20);
        let widest = all.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64).fold(1.0, f64::max);
        assert!(widest < 1.3, "{widest}");
        assert_eq!(ladder(4e5, 1e5, 5, 0), []);
    }
}
