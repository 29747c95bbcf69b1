//! What each thread does in each region, by construction.

use machine::Bytes;

use super::{
    handover,
    layout::{self, Touched},
    plan::{Plan, PlanPart, PlannedStep},
    reuse,
};
use crate::{
    draw::{DrawError, Lcg},
    geometry::LINE,
    traffic::{self, TrafficLines},
    truth::{self, TruthCounts},
};

/// What one thread does in one region, all entries and all regions inside together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTruth {
    /// Which thread.
    pub thread: usize,
    /// From call to return of each step; waiting for other threads is not counted.
    pub counts: TruthCounts,
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
            own.chain += step.chained_steps(part) * step.passes * plan.regions[step.region].entries;
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
pub fn lines_below(plan: &Plan, capacity: Bytes) -> Result<Vec<Vec<TrafficLines>>, DrawError> {
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
fn counts(plan: &Plan, index: usize, part: &PlanPart) -> TruthCounts {
    let step = &plan.steps[index];
    let entries = plan.regions[step.region].entries;
    if !step.flips_coins() {
        return step.counts(part, step.passes) * entries;
    }
    let entry = |entry| step.counts_from(part, step.passes, random_at(step, part, entry));
    (0..entries).fold(TruthCounts::default(), |sum, number| sum + entry(number))
}

/// State of a part's random sequence at its execution number `entry`, from 0: it goes on from one to the next.
fn random_at(step: &PlannedStep, part: &PlanPart, entry: u64) -> u64 {
    Lcg::new(part.random).after(step.draws(part, step.passes).wrapping_mul(entry)).state()
}

/// What one pass of a step does, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// By construction.
    pub counts: TruthCounts,
    /// Bytes that move if no cache holds anything: write-allocates and write-backs included.
    pub memory_bytes: f64,
    /// Steps of all threads that wait for each other within their thread.
    pub chain: u64,
    /// Lines that one thread writes and another reads.
    pub modified_transfers: u64,
}

impl PlannedStep {
    /// What so many passes of a part do from call to return. Exact.
    pub fn counts(&self, part: &PlanPart, passes: u64) -> TruthCounts {
        self.counts_from(part, passes, part.random)
    }

    /// The same with the random sequence of the part at `random`.
    fn counts_from(&self, part: &PlanPart, passes: u64, random: u64) -> TruthCounts {
        if self.takes_turns() {
            let turns = part.geometry.turns * passes;
            return truth::counts(&part.program, &part.geometry, 1, random) * turns;
        }
        truth::counts(&part.program, &part.geometry, passes, random)
    }

    /// What one more pass of a part does. The code around the loop is no part of it, unless threads take turns:
    /// each turn is a call.
    pub fn pass_counts(&self, part: &PlanPart) -> TruthCounts {
        let one = self.counts(part, 1);
        if self.takes_turns() { one } else { self.counts(part, 2).minus(one) }
    }

    /// Steps of one pass of a part that wait for each other.
    pub fn chained_steps(&self, part: &PlanPart) -> u64 {
        traffic::chained_steps(&self.kernel) * part.geometry.iterations * part.geometry.turns
    }

    /// What one pass does, all threads together.
    pub fn pass(&self) -> Result<Pass, DrawError> {
        let mut pass = Pass::default();
        for part in &self.parts {
            pass.counts += self.pass_counts(part);
            pass.chain += self.chained_steps(part);
            pass.memory_bytes += traffic::lines_below(&self.kernel, &part.geometry, Bytes(0))?.bytes();
        }
        if let Some(part) = self.parts.first().filter(|_| self.takes_turns()) {
            pass.modified_transfers = part.geometry.turns * part.geometry.iterations;
        }
        Ok(pass)
    }

    /// Its data set, rounded to whole iterations; what threads share is counted once.
    pub fn size(&self) -> Bytes {
        Bytes(self.parts.iter().map(|part| part.geometry.size).sum())
    }
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
    use crate::{Job, KernelCatalogue};
    use machine::Isa;

    #[test]
    fn work_that_cannot_be_told_is_no_work_of_zero_lines() {
        let kernel = KernelCatalogue::builtin().expect("kernels").get("random-uni").expect("a kernel");
        let plan = Job::new(kernel, Bytes::kib(64), &[0]).plan(&Isa::native()).expect("a plan");
        let mut step = plan.steps()[0].clone();
        assert!(step.pass().expect("a pass").memory_bytes > 0.0);
        step.parts[0].geometry.elements = 0;
        assert_eq!(step.pass(), Err(DrawError::NoElements));
    }

    #[test]
    fn every_turn_is_a_call_and_counts_as_one() {
        let kernel = KernelCatalogue::builtin().expect("kernels").get("producer-consumer").expect("a kernel");
        let plan = Job::new(kernel, Bytes::kib(4), &[0, 1]).plan(&Isa::native()).expect("a plan");
        let step = &plan.steps()[0];
        let whole = step.parts.iter().fold(TruthCounts::default(), |sum, part| sum + step.counts(part, 7));
        assert_eq!(step.pass().expect("a pass").counts * 7, whole);
    }
}
