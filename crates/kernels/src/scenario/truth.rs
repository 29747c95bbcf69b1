//! What each thread does in each region, by construction.

use machine::Bytes;

use super::{
    handover,
    layout::{self, Touched},
    plan::{Part, Plan, PlannedStep},
    reuse,
};
use crate::{
    draw::{DrawError, LCG_INCREMENT, LCG_MULTIPLIER},
    geometry::LINE,
    traffic::{self, Lines},
    truth::{self, Counts},
};

/// What one thread does in one region, all entries and all regions inside together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTruth {
    /// Which thread.
    pub thread: usize,
    /// From call to return of each step; waiting for other threads is not counted.
    pub counts: Counts,
    /// Bytes touched at least once, in whole lines.
    pub data: Bytes,
    /// Steps that wait for each other.
    pub chain: u64,
    /// Lines that were last written by another thread.
    pub transfers: Transfers,
}

/// Lines that a thread reads or writes after another thread wrote them. Each is one transfer of a modified line
/// from core to core if the other core's caches still hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// As many in any case.
    pub least: u64,
    /// No more than this: threads that write the same lines at the same time may find them gone at each access.
    pub most: u64,
}

impl Transfers {
    /// The number, if it does not depend on timing.
    pub fn exact(self) -> Option<u64> {
        (self.least == self.most).then_some(self.most)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.least += other.least;
        self.most = self.most.saturating_add(other.most);
    }
}

/// The truth of a plan: for each of [`Plan::regions`] one entry for each of its threads, in their order.
pub fn of(plan: &Plan) -> Vec<Vec<ThreadTruth>> {
    let mut touched: Vec<Vec<Vec<(usize, Touched)>>> = per_thread(plan);
    let mut truth: Vec<Vec<ThreadTruth>> = per_thread(plan);
    for (region, threads) in plan.regions.iter().zip(&mut truth) {
        for (&thread, own) in region.threads.iter().zip(threads) {
            own.thread = thread;
        }
    }
    for (index, step) in plan.steps.iter().enumerate() {
        for part in &step.parts {
            let slot = slot(plan, step.region, part.thread);
            let own = &mut truth[step.region][slot];
            own.counts += counts(plan, index, part);
            let iterations = part.geometry.iterations * part.geometry.turns * step.passes;
            own.chain +=
                traffic::chained_steps(&step.kernel) * iterations * plan.regions[step.region].entries;
            if let Some(instance) = part.instance {
                let ranges = layout::touched(&step.kernel, part).into_iter().map(|range| (instance, range));
                touched[step.region][slot].extend(ranges);
            }
        }
    }
    let transfers = handover::count(plan);
    for (region, threads) in truth.iter_mut().enumerate() {
        for (slot, own) in threads.iter_mut().enumerate() {
            own.transfers = transfers[region][slot];
        }
    }
    // Inner regions stand behind those around them.
    for outer in (0..plan.regions.len()).rev() {
        for &inner in &plan.regions[outer].inside {
            for from in 0..plan.regions[inner].threads.len() {
                let to = slot(plan, outer, plan.regions[inner].threads[from]);
                let (part, ranges) = (truth[inner][from].clone(), touched[inner][from].clone());
                let whole = &mut truth[outer][to];
                whole.counts += part.counts;
                whole.chain += part.chain;
                whole.transfers.add(part.transfers);
                touched[outer][to].extend(ranges);
            }
        }
    }
    for (own, ranges) in truth.iter_mut().flatten().zip(touched.into_iter().flatten()) {
        own.data = distinct(ranges);
    }
    truth
}

/// Lines that cross below a cache of this capacity, as [`of`] is ordered. Caches are empty at first and replace
/// the line unused for longest; each thread has a cache of its own of this capacity.
pub fn lines_below(plan: &Plan, capacity: Bytes) -> Result<Vec<Vec<Lines>>, DrawError> {
    reuse::lines(plan, capacity)
}

/// A default for each thread of each region.
pub(super) fn per_thread<T: Default + Clone>(plan: &Plan) -> Vec<Vec<T>> {
    plan.regions.iter().map(|region| vec![T::default(); region.threads.len()]).collect()
}

/// Where a thread stands among those of a region; it takes part in it.
pub(super) fn slot(plan: &Plan, region: usize, thread: usize) -> usize {
    plan.regions[region].threads.iter().position(|&other| other == thread).unwrap_or(0)
}

/// All executions of a part.
fn counts(plan: &Plan, index: usize, part: &Part) -> Counts {
    let step = &plan.steps[index];
    let entries = plan.regions[step.region].entries;
    if !step.flips_coins() {
        return once(step, part, part.random) * entries;
    }
    (0..entries).fold(Counts::default(), |sum, entry| sum + once(step, part, random_at(step, part, entry)))
}

/// One execution of a part whose random sequence is at `random`.
pub fn once(step: &PlannedStep, part: &Part, random: u64) -> Counts {
    if step.takes_turns() {
        let turns = part.geometry.turns * step.passes;
        return truth::counts(&part.program, &part.geometry, 1, random) * turns;
    }
    truth::counts(&part.program, &part.geometry, step.passes, random)
}

/// State of a part's random sequence at its execution number `entry`, from 0: it goes on from one to the next.
pub fn random_at(step: &PlannedStep, part: &Part, entry: u64) -> u64 {
    jumped(part.random, step.draws(part).wrapping_mul(entry))
}

/// The state of the generator after `steps` steps: x → ax + c composed with itself by squaring.
fn jumped(state: u64, mut steps: u64) -> u64 {
    let (mut factor, mut addend) = (1u64, 0u64);
    let (mut a, mut c) = (LCG_MULTIPLIER, LCG_INCREMENT);
    while steps > 0 {
        if steps & 1 == 1 {
            factor = factor.wrapping_mul(a);
            addend = addend.wrapping_mul(a).wrapping_add(c);
        }
        c = a.wrapping_mul(c).wrapping_add(c);
        a = a.wrapping_mul(a);
        steps >>= 1;
    }
    state.wrapping_mul(factor).wrapping_add(addend)
}

/// Lines of ranges that may overlap, each counted once, in bytes.
fn distinct(mut ranges: Vec<(usize, Touched)>) -> Bytes {
    ranges.sort_by_key(|(instance, range)| (*instance, range.start));
    let (mut lines, mut at) = (0, (usize::MAX, 0));
    for (instance, range) in ranges {
        let from = if at.0 == instance { range.start.max(at.1) } else { range.start };
        if range.end > from {
            lines += range.lines_between(from, range.end);
            at = (instance, range.end);
        }
    }
    Bytes(lines * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Lcg;

    #[test]
    fn a_jump_is_that_many_steps() {
        let mut walked = Lcg::new(7);
        for steps in 0..200 {
            assert_eq!(jumped(7, steps), walked.state());
            walked.next();
        }
    }
}
