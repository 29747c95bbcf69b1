//! Relief piece by piece while a program runs: which loop is next, and when it is enough.

use std::time::{Duration, Instant};

use record::relief::{ReliefBarrier, ReliefCost};

use crate::{
    agreement::{LoopRelief, Measured, agree},
    cost::ReliefBudget,
    relieve::{Attempt, ReliefOptions, ReliefTarget, TickRate},
};

/// A program that ran for less is left alone.
pub const SHORTEST_RUN: Duration = Duration::from_secs(2);

/// Stretches of a loop that agree are enough; more are tried where they do not.
const ENOUGH: usize = 3;
const MOST: usize = 6;

/// Stretches of one loop are so far apart.
const APART: Duration = Duration::from_millis(150);

/// A loop that is to be relieved, with a name that whoever chose it knows.
#[derive(Debug)]
struct ListedLoop<K> {
    key: K,
    target: ReliefTarget,
    measured: Vec<Measured>,
    last: Option<Instant>,
}

impl<K> ListedLoop<K> {
    /// Another stretch would not change what it says.
    fn is_done(&self) -> bool {
        // What forbids one stretch forbids the next.
        const LASTING: [ReliefBarrier; 10] = [
            ReliefBarrier::TracingDenied,
            ReliefBarrier::TracedAlready,
            ReliefBarrier::Seccomp,
            ReliefBarrier::CopyDenied,
            ReliefBarrier::LongPause,
            ReliefBarrier::ClockRead,
            ReliefBarrier::StringInstruction,
            ReliefBarrier::SharedWrite,
            ReliefBarrier::Contention,
            ReliefBarrier::GeneratedCode,
        ];
        let lasting = |one: &&Measured| {
            one.stretch.refusal.as_ref().is_some_and(|refusal| LASTING.contains(&refusal.barrier))
        };
        let is_forbidden = self.measured.iter().filter(lasting).count() >= 2;
        let agrees = self.measured.len() >= ENOUGH && agree(self.measured.clone()).share.is_some();
        is_forbidden || agrees || self.measured.len() >= MOST
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.is_done() && self.last.is_none_or(|last| now.saturating_duration_since(last) >= APART)
    }
}

/// The loops of one run.
#[derive(Debug)]
pub struct ReliefSeries<K> {
    options: ReliefOptions,
    budget: ReliefBudget,
    rate: TickRate,
    /// The recording's zero.
    origin: Instant,
    loops: Vec<ListedLoop<K>>,
}

impl<K: PartialEq + Clone> ReliefSeries<K> {
    /// For a program that began then.
    pub fn new(options: ReliefOptions, began: Instant) -> Self {
        let (budget, rate) = (ReliefBudget::since(began), TickRate::measure());
        Self { options, budget, rate, origin: began, loops: Vec::new() }
    }

    /// A loop is hot: it is added, or where it is now is noted.
    pub fn list(&mut self, key: K, target: ReliefTarget) {
        match self.loops.iter_mut().find(|listed| listed.key == key) {
            Some(listed) => listed.target = target,
            None => self.loops.push(ListedLoop { key, target, measured: Vec::new(), last: None }),
        }
    }

    /// Whether an address of a process is in a loop already listed.
    pub fn holds(&self, pid: i32, address: u64) -> bool {
        self.loops.iter().filter(|listed| listed.target.pid == pid).any(|listed| {
            let ranges = listed.measured.iter().flat_map(|one| &one.ranges).chain([&listed.target.hot]);
            ranges.into_iter().any(|range| (range.0..range.1).contains(&address))
        })
    }

    /// Whether a loop is listed.
    pub fn has(&self, key: &K) -> bool {
        self.loops.iter().any(|listed| listed.key == *key)
    }

    /// Loops listed.
    pub fn len(&self) -> usize {
        self.loops.len()
    }

    /// Nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.loops.is_empty()
    }

    /// Makes room for a loop that is hot now: the first that is so no more, and was never met where it was looked for, goes.
    pub fn forget_one(&mut self, is_hot: impl Fn(&K) -> bool) {
        let was_met = |one: &Measured| {
            one.stretch.refusal.as_ref().is_none_or(|why| why.barrier != ReliefBarrier::NotThere)
        };
        let cold = |listed: &ListedLoop<K>| !is_hot(&listed.key) && !listed.measured.iter().any(was_met);
        if let Some(index) = self.loops.iter().position(cold) {
            self.loops.remove(index);
        }
    }

    fn next(&self, now: Instant) -> Option<usize> {
        let due = (0..self.loops.len()).filter(|index| self.loops[*index].is_due(now));
        due.min_by_key(|index| self.loops[*index].measured.len())
    }

    /// Does one stretch of the loop that needs it most. False: none is due now.
    pub fn go_on(&mut self) -> bool {
        let now = Instant::now();
        let Some(index) = self.next(now) else { return false };
        let Self { options, budget, rate, origin, loops } = self;
        let listed = &mut loops[index];
        let since = now.saturating_duration_since(*origin);
        let attempt = Attempt {
            target: &listed.target,
            options,
            budget,
            rate: *rate,
            time_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        };
        let measured = attempt.go();
        listed.last = Some(Instant::now());
        // Pauses come back with time: nothing was tried.
        let is_over = |barrier| barrier == ReliefBarrier::OutOfTime || barrier == ReliefBarrier::CopyOnWrite;
        let waits = measured.stretch.refusal.as_ref().is_some_and(|refusal| is_over(refusal.barrier));
        if waits && measured.stretch.pause_ns == 0 {
            listed
                .measured
                .retain(|one| one.stretch.pause_ns > 0 || one.stretch.refusal != measured.stretch.refusal);
        }
        listed.measured.push(measured);
        true
    }

    /// What came of it.
    pub fn finish(self) -> (Vec<(K, ReliefTarget, LoopRelief)>, ReliefCost) {
        let cost = self.budget.cost();
        let loops = self.loops.into_iter().map(|listed| (listed.key, listed.target, agree(listed.measured)));
        (loops.collect(), cost)
    }
}

#[cfg(test)]
mod tests {
    use record::relief::ReliefRefusal;

    use super::*;

    fn listed(measured: Vec<Measured>) -> ListedLoop<u32> {
        let target =
            ReliefTarget { pid: 1, tid: 1, mark: 0, hot: (0, 8), writes: false, sampled_turn_ns: None };
        ListedLoop { key: 0, target, measured, last: None }
    }

    fn told(near_ns: f64) -> Measured {
        let mut one = Measured::at(0);
        (one.stretch.near_ns, one.stretch.turn_ns) = (Some(near_ns), Some(10.0));
        one
    }

    fn refused(barrier: ReliefBarrier) -> Measured {
        let mut one = Measured::at(0);
        one.stretch.refusal = Some(ReliefRefusal::from(barrier));
        one
    }

    #[test]
    fn three_that_agree_are_enough_and_others_go_on() {
        assert!(!listed(vec![told(1.0), told(1.0)]).is_done());
        assert!(listed(vec![told(1.0), told(1.0), told(1.1)]).is_done());
        assert!(!listed(vec![told(1.0), told(5.0), told(9.0)]).is_done());
        assert!(listed([1.0, 5.0, 9.0, 1.0, 5.0, 9.0].map(told).to_vec()).is_done());
    }

    #[test]
    fn what_lasts_is_not_tried_a_third_time() {
        assert!(!listed(vec![refused(ReliefBarrier::Seccomp)]).is_done());
        assert!(listed(vec![refused(ReliefBarrier::Seccomp), refused(ReliefBarrier::Seccomp)]).is_done());
        assert!(!listed(vec![refused(ReliefBarrier::NotThere), refused(ReliefBarrier::NotThere)]).is_done());
    }

    #[test]
    fn a_loop_that_was_hot_once_and_never_met_makes_room() {
        let mut series = ReliefSeries::new(ReliefOptions::default(), Instant::now());
        let mut add = |key: u32, measured: Vec<Measured>| {
            series.loops.push(ListedLoop { key, ..listed(measured) });
        };
        add(0, vec![told(1.0)]);
        add(1, vec![refused(ReliefBarrier::NotThere)]);
        add(2, Vec::new());
        add(3, vec![refused(ReliefBarrier::CopyOnWrite)]);
        let keys = |series: &ReliefSeries<u32>| series.loops.iter().map(|one| one.key).collect::<Vec<_>>();
        series.forget_one(|key| *key == 1);
        assert_eq!(keys(&series), [0, 1, 3]);
        series.forget_one(|_| false);
        assert_eq!(keys(&series), [0, 3], "what was tried on is said");
        series.forget_one(|_| false);
        assert_eq!(keys(&series), [0, 3]);
    }

    #[test]
    fn stretches_of_a_loop_lie_apart() {
        let now = Instant::now();
        let mut loop_of = listed(Vec::new());
        assert!(loop_of.is_due(now));
        loop_of.last = Some(now);
        assert!(!loop_of.is_due(now + Duration::from_millis(10)));
        assert!(loop_of.is_due(now + Duration::from_millis(200)));
    }
}
