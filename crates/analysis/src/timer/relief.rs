//! Relief beside the samples: where both know a loop, one bounds the other.

use record::{
    relief::{Bounded, ReliefRecord, RelievedLoop},
    run::Run,
};

use super::{
    bounds::{NARROWEST, WaitBounds},
    program::DecodedProgram,
    tally::Tally,
};
use crate::{
    findings::{Agreement, Confidence, ReliefFindings, RelievedFinding, TimeShare, Verdict},
    relief::of_tally,
};

/// Intervals this far apart still meet: neither knows its own to the point.
const NEAR: f64 = 0.05;

/// A share that is known no better than this is worth a second way.
const WIDE: f64 = 0.25;

/// Below this time a program gets no relief.
const SHORTEST_RUN_NS: u64 = 2_000_000_000;

/// The relieved loop of each block, if there is one.
pub(crate) struct RelievedBlocks<'a> {
    of_block: Vec<Option<&'a RelievedLoop>>,
}

impl<'a> RelievedBlocks<'a> {
    pub(crate) fn new(run: &'a Run, program: &DecodedProgram) -> Self {
        let find = |id: usize| {
            let function = run.functions.get(program.blocks[id].function)?;
            let address = program.block(id)?.address();
            let holds = |found: &&RelievedLoop| {
                found.module == function.module
                    && found.ranges.iter().any(|range| (range.0..range.1).contains(&address))
            };
            run.relief.loops().iter().find(holds)
        };
        Self { of_block: (0..program.blocks.len()).map(find).collect() }
    }

    /// The share of a block, if its loop was measured without a doubt about branches.
    pub(crate) fn measured(&self, id: usize) -> Option<&Bounded> {
        let found = self.of_block.get(id).copied().flatten()?;
        found.share.as_ref().filter(|_| !found.has_wild_branches)
    }

    /// What samples say of a block, held to what relief says of its loop.
    pub(crate) fn join(&self, id: usize, by_samples: WaitBounds) -> WaitBounds {
        let found = self.of_block.get(id).copied().flatten();
        match found.and_then(|found| found.share.as_ref().map(|share| (found, share))) {
            Some((found, share)) => joined(by_samples, share, found.has_wild_branches).0,
            None => by_samples,
        }
    }
}

/// Whether most of the time is in loops that were measured this way as well.
pub(crate) fn decides(run: &Run, tally: &Tally) -> bool {
    let relieved = RelievedBlocks::new(run, &tally.program);
    let measured = (0..tally.program.blocks.len()).filter(|id| relieved.measured(*id).is_some());
    let samples: f64 = measured.map(|id| tally.program.samples_of(id)).sum();
    samples * 2.0 > run.samples.place.len() as f64
}

/// Both ways together, and whether they meet.
pub(crate) fn joined(
    by_samples: WaitBounds,
    share: &Bounded,
    has_wild_branches: bool,
) -> (WaitBounds, Agreement) {
    let WaitBounds { value, low, high, is_counted } = by_samples;
    if has_wild_branches {
        // Waiting for branches is in it as well, and samples that are counted take wrong guesses for waiting.
        let high = high.min(share.high).max(share.low.min(high));
        let low = if is_counted || low > share.high { 0.0 } else { low.min(high) };
        let value = if value > high { (low + high) / 2.0 } else { value.max(low) };
        return (WaitBounds { value, low, high, is_counted }, Agreement::MemoryOrBranches);
    }
    let mean = weighted(&by_samples, share);
    // Intervals that only touch are no agreement: one way at least must hold possible what the other found.
    let is_possible = |found: f64, low: f64, high: f64| low - NEAR <= found && found <= high + NEAR;
    if !is_possible(share.value, low, high) && !is_possible(value, share.low, share.high) {
        let (low, high) = (low.min(share.low), high.max(share.high));
        let bounds = WaitBounds { value: mean, low, high, is_counted: false };
        return (bounds, Agreement::Disagree);
    }
    let (inner, outer) = (low.max(share.low), high.min(share.high));
    let (low, high) = (inner.min(outer), outer.max(inner));
    let missing = ((NARROWEST - (high - low)) / 2.0).max(0.0);
    let (low, high) = ((low - missing).max(0.0), (high + missing).min(1.0));
    (WaitBounds { value: mean.clamp(low, high), low, high, is_counted: false }, Agreement::Agree)
}

/// The mean of both: whoever knows it to half as many points counts four times.
fn weighted(by_samples: &WaitBounds, share: &Bounded) -> f64 {
    let weight = |low: f64, high: f64| (high - low).max(NARROWEST).powi(-2);
    let (sampled, relieved) = (weight(by_samples.low, by_samples.high), weight(share.low, share.high));
    (by_samples.value * sampled + share.value * relieved) / (sampled + relieved)
}

/// What relief found, for people.
pub(crate) fn findings(run: &Run, tally: &Tally) -> ReliefFindings {
    match &run.relief {
        ReliefRecord::NotAsked => ReliefFindings { hint: hint(run, tally), ..ReliefFindings::default() },
        ReliefRecord::Refused(refusal) => {
            ReliefFindings { refusal: Some(refusal.sentence()), ..ReliefFindings::default() }
        }
        ReliefRecord::Tried { loops, cost } => {
            let mut loops: Vec<RelievedFinding> =
                loops.iter().filter_map(|found| finding(run, tally, found)).collect();
            loops.sort_by(|a, b| b.user_share.total_cmp(&a.user_share));
            ReliefFindings { loops, cost: Some(*cost), ..ReliefFindings::default() }
        }
    }
}

/// None of a loop that has no sample and no share: another of the same code has them, in a process that came before or after.
fn finding(run: &Run, tally: &Tally, found: &RelievedLoop) -> Option<RelievedFinding> {
    let program = &tally.program;
    let relieved = RelievedBlocks::new(run, program);
    let is_own = |id: &usize| relieved.of_block[*id].is_some_and(|other| std::ptr::eq(other, found));
    let blocks: Vec<usize> = (0..program.blocks.len()).filter(is_own).collect();
    let samples: f64 = blocks.iter().map(|id| program.samples_of(*id)).sum();
    if blocks.is_empty() && found.share.is_none() {
        return None;
    }
    let mean = |of: fn(&WaitBounds) -> f64| {
        let sum: f64 = blocks.iter().map(|id| of(&tally.by_samples(*id)) * program.samples_of(*id)).sum();
        if samples > 0.0 { sum / samples } else { 0.0 }
    };
    let (value, low, high) = (mean(|it| it.value), mean(|it| it.low), mean(|it| it.high));
    let by_samples = WaitBounds { value, low, high, is_counted: false };
    let agreement = found
        .share
        .as_ref()
        .map_or(Agreement::NotMeasured, |share| joined(by_samples, share, found.has_wild_branches).1);
    // A turn may run through many functions: its name is that of the one with most of the time.
    let hottest =
        blocks.iter().copied().max_by(|a, b| program.samples_of(*a).total_cmp(&program.samples_of(*b)));
    let hottest = hottest.and_then(|id| Some(program.block(id)?.address()));
    let start = hottest.or_else(|| found.ranges.first().map(|range| range.0)).unwrap_or(0);
    let is_here = |function: &record::run::Function| {
        function.module == found.module && (function.start..function.end).contains(&start)
    };
    let function = run.functions.iter().position(is_here);
    let name =
        function.map_or_else(|| format!("unknown code at {start:#x}"), |at| run.functions[at].name.clone());
    Some(RelievedFinding {
        name,
        function: function.map(record::ids::FunctionId::of),
        source: run.line_at(found.module, start).map(|(file, line)| format!("{file}:{line}")),
        user_share: samples / (run.samples.place.len().max(1) as f64),
        by_samples: TimeShare { value: by_samples.value, low: by_samples.low, high: by_samples.high },
        by_relief: found.share.map(|share| TimeShare {
            value: share.value,
            low: share.low,
            high: share.high,
        }),
        agreement,
        near_ns: found.near_ns,
        turn_ns: found.turn_ns,
        stretches: found.stretches.len() as u64,
        has_atomics: found.has_atomics,
        refusal: found.refusal.as_ref().map(record::relief::ReliefRefusal::sentence),
    })
}

/// For which loops relief would decide, and what it would cost; none where nothing is open or the run was too short.
fn hint(run: &Run, tally: &Tally) -> Option<String> {
    const NAMED: usize = 2;
    if run.about.elapsed_ns.is_none_or(|elapsed| elapsed < SHORTEST_RUN_NS) {
        return None;
    }
    let open = |bounds: (f64, f64)| bounds.1 - bounds.0 > WIDE;
    let hot = of_tally(run, tally);
    let mut names: Vec<&str> = Vec::new();
    for block in hot.iter().filter(|block| open(block.bounds)) {
        let name = run.function(block.function).map(|function| function.name.as_str());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    let share: f64 = hot.iter().filter(|block| open(block.bounds)).map(|block| block.user_share).sum();
    if names.is_empty() {
        return None;
    }
    let more = names.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names.iter().take(NAMED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let cost = run.about.usage.map_or_else(
        || "at most a hundredth of the run".to_owned(),
        |usage| {
            let pause_ns = 3 * record::relief::pause_ns(usage.peak_resident_bytes);
            format!(
                "about {:.0} ms in all, never more than a hundredth of the run",
                (pause_ns as f64 / 1e6).max(1.0)
            )
        },
    );
    Some(format!(
        "Of {names}{rest} ({:.0} % of user time) samples leave much open; 'memwall run --relief' measures what it takes \
         with its data in the first cache, and stops the program for {cost}.",
        share * 100.0
    ))
}

/// Where two ways disagree nobody is sure.
pub(crate) fn weigh(verdict: &mut Verdict, relief: &ReliefFindings) {
    const MUCH: f64 = 0.1;
    let percent = |share: &TimeShare| format!("{:.0} to {:.0} %", share.low * 100.0, share.high * 100.0);
    for found in relief.loops.iter().filter(|found| found.user_share >= MUCH) {
        let Some(by_relief) = &found.by_relief else { continue };
        match found.agreement {
            Agreement::Disagree => {
                verdict.confidence = verdict.confidence.min(Confidence::Medium);
                verdict.reasons.push(format!(
                    "Two ways disagree on '{}': samples say {}, relief {}.",
                    found.name,
                    percent(&found.by_samples),
                    percent(by_relief)
                ));
            }
            Agreement::MemoryOrBranches => verdict.reasons.push(format!(
                "Relief of '{}' takes away {} of its time, of memory or branches: it has branches that look unpredictable.",
                found.name,
                percent(by_relief)
            )),
            Agreement::Agree | Agreement::NotMeasured => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(value: f64, low: f64, high: f64) -> WaitBounds {
        WaitBounds { value, low, high, is_counted: false }
    }

    /// mov r8,[r8]; jmp back.
    const CHASE: [u8; 5] = [0x4d, 0x8b, 0x00, 0xeb, 0xfb];

    #[test]
    fn a_loop_is_called_by_where_its_time_is_and_one_without_any_is_left_out() {
        let mut run = super::super::tests::run(&CHASE, &[(3, None); 40]);
        let function = &run.functions[0];
        let name = function.name.clone();
        // A turn that runs through a stub far before it.
        let ranges = vec![(function.start - 4096, function.start - 4090), (function.start, function.end)];
        let found = RelievedLoop {
            module: function.module,
            ranges,
            tid: 1,
            stretches: Vec::new(),
            near_ns: None,
            turn_ns: None,
            share: None,
            has_wild_branches: false,
            has_atomics: false,
            refusal: None,
        };
        let loops = vec![found.clone(), found];
        run.relief = ReliefRecord::Tried { loops, cost: Default::default() };
        let named: Vec<_> =
            findings(&run, &Tally::new(&run, None)).loops.into_iter().map(|found| found.name).collect();
        assert_eq!(named, [name]);
    }

    #[test]
    fn ways_that_meet_narrow_each_other() {
        let share = Bounded { value: 0.7, low: 0.6, high: 0.8 };
        let (found, agreement) = joined(bounds(0.5, 0.3, 0.75), &share, false);
        assert_eq!(agreement, Agreement::Agree);
        assert_eq!((found.low, found.high), (0.6, 0.75));
        assert!((found.value - 0.667).abs() < 0.01, "{found:?}");
        // Who knows it better counts.
        let vague = Bounded { value: 0.21, low: 0.0, high: 0.47 };
        let (found, agreement) = joined(bounds(0.02, 0.0, 0.1), &vague, false);
        assert_eq!(agreement, Agreement::Agree);
        assert!(found.value < 0.04 && found.high <= 0.1, "{found:?}");
        // Never to a point.
        let (found, _) = joined(bounds(0.5, 0.3, 0.7), &Bounded { value: 0.7, low: 0.7, high: 0.8 }, false);
        assert!(found.high - found.low >= NARROWEST - 1e-9, "{found:?}");
    }

    #[test]
    fn ways_that_do_not_meet_leave_all_between_them_open() {
        let share = Bounded { value: 0.7, low: 0.6, high: 0.8 };
        let (found, agreement) = joined(bounds(0.1, 0.0, 0.2), &share, false);
        assert_eq!(agreement, Agreement::Disagree);
        assert_eq!((found.low, found.high), (0.0, 0.8));
        assert!((found.value - 0.4).abs() < 1e-9, "{found:?}");
    }

    /// Each calls impossible what the other found: that their intervals touch makes it no narrower.
    #[test]
    fn ways_that_only_touch_do_not_narrow_each_other() {
        let share = Bounded { value: 0.27, low: 0.15, high: 0.37 };
        let (found, agreement) = joined(bounds(0.08, 0.0, 0.19), &share, false);
        assert_eq!(agreement, Agreement::Disagree);
        assert_eq!((found.low, found.high), (0.0, 0.37));
    }

    #[test]
    fn with_wild_branches_relief_says_only_how_much_it_is_at_most() {
        let share = Bounded { value: 0.5, low: 0.4, high: 0.6 };
        let (found, agreement) = joined(bounds(0.1, 0.05, 0.9), &share, true);
        assert_eq!(agreement, Agreement::MemoryOrBranches);
        assert_eq!(found, bounds(0.1, 0.05, 0.6));
    }

    /// A loop in the second cache whose guesses are wrong: samples behind them said that it waits 77 % of its time, and all of
    /// that was the branch.
    #[test]
    fn with_wild_branches_samples_set_no_lower_end() {
        let share = Bounded { value: 0.18, low: 0.11, high: 0.26 };
        let counted = WaitBounds { is_counted: true, ..bounds(0.77, 0.24, 0.86) };
        for by_samples in [bounds(0.77, 0.4, 0.86), counted] {
            let (found, _) = joined(by_samples, &share, true);
            assert_eq!((found.value, found.low, found.high), (0.13, 0.0, 0.26), "{by_samples:?}");
        }
    }
}
