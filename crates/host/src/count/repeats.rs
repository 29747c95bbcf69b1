//! Which passes are made once more: events that change from run to run are counted more often than those that do not.
//!
//! kruse2011 §5.1 counts cycles, which change by some 3 %, in five runs and everything else once. Here cycles are counted in
//! every pass, in five at least, and whatever else turns out to change is counted as often.

use record::count::{CountedEvent, CountedRun, PassWitness, total};

use super::{
    known_work::in_words,
    witnesses::{UNSTEADY, spread},
};

/// Runs in which cycles, and events that change, are counted at least (kruse2011 §5.1).
const OFTEN: usize = 5;
/// Below this share of the cycles an event explains nothing, whatever penalty it is given: its noise is let be.
const MATTERS: f64 = 1e-5;

/// What was counted so far, and in which passes it is counted.
pub(super) struct CountedSoFar<'a> {
    /// Events of each pass.
    pub passes: &'a [Vec<usize>],
    /// Repetitions asked for.
    pub asked: usize,
    /// All that was counted.
    pub runs: &'a [CountedRun],
    /// Cycles and instructions of every pass made.
    pub witnesses: &'a [PassWitness],
}

impl CountedSoFar<'_> {
    /// Counts of an event, one of each run that has it.
    fn values(&self, event: usize) -> Vec<f64> {
        let counted = |run: &CountedRun| total(&run.counts, event, |_| true)?.estimate();
        self.runs.iter().filter_map(counted).collect()
    }

    /// Whether an event changes from run to run, and enough of it to matter.
    pub fn changes(&self, event: usize) -> bool {
        let values = self.values(event);
        let cycles = self.witnesses.iter().filter_map(|witness| witness.cycles).fold(0.0, f64::max);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        mean > MATTERS * cycles && spread(values.into_iter().map(Some)).is_some_and(|share| share > UNSTEADY)
    }

    /// The pass to make again, if any is.
    pub fn again(&self) -> Option<usize> {
        if self.passes.len() < 2 {
            return None;
        }
        let most = OFTEN.max(2 * self.asked);
        let unsteady = |events: &Vec<usize>| {
            events.iter().any(|&event| self.values(event).len() < most && self.changes(event))
        };
        self.passes.iter().position(unsteady).or_else(|| self.for_cycles())
    }

    /// The pass made least often, as long as cycles were counted too seldom.
    fn for_cycles(&self) -> Option<usize> {
        let counted = self.witnesses.iter().filter(|witness| witness.cycles.is_some()).count();
        let made = |pass: &usize| {
            self.passes[*pass].iter().map(|&event| self.values(event).len()).max().unwrap_or(0)
        };
        (1..OFTEN).contains(&counted).then(|| (0..self.passes.len()).min_by_key(made))?
    }
}

/// What was counted more often than asked, in a sentence.
pub(super) fn remark(so_far: &CountedSoFar<'_>, events: &[CountedEvent], more: usize) -> String {
    let often = |event: usize| so_far.values(event).len();
    let changing: Vec<String> = (0..events.len())
        .filter(|&event| often(event) > so_far.asked && so_far.changes(event))
        .map(|event| format!("{} ({} runs)", events[event].name, often(event)))
        .collect();
    let limit = 100.0 * UNSTEADY;
    let what = match changing.is_empty() {
        true => String::new(),
        false => format!(" Events that change by more than {limit:.0} %: {}.", changing.join(", ")),
    };
    format!(
        "{} more than asked for: cycles are counted in at least {OFTEN} runs (kruse2011 §5.1), and so is what changes from \
         run to run.{what}",
        in_words(more as u64)
    )
}

#[cfg(test)]
mod tests {
    use events::{Count, CountedPlace, Value};

    use super::*;

    /// A run in which some events were counted.
    fn run(counts: &[(usize, u64)]) -> CountedRun {
        let count = |&(event, raw): &(usize, u64)| Count {
            event,
            place: CountedPlace::Target,
            value: Value::Counted { raw, enabled_ns: 1, running_ns: 1 },
        };
        let counts = counts.iter().map(count).collect();
        CountedRun { elapsed_ns: 1, ending: None, usage: None, counts, intervals: Vec::new() }
    }

    fn again(asked: usize, runs: &[CountedRun], cycles_counted: usize) -> Option<usize> {
        let passes = [vec![0], vec![1, 2]];
        let witness = PassWitness { cycles: Some(1e6), instructions: None };
        let witnesses = vec![witness; cycles_counted];
        CountedSoFar { passes: &passes, asked, runs, witnesses: &witnesses }.again()
    }

    #[test]
    fn what_changes_is_counted_five_times_and_what_does_not_twice() {
        let steady = [run(&[(0, 1000), (1, 5000), (2, 70)]), run(&[(0, 1001), (1, 5002), (2, 70)])];
        assert_eq!(again(2, &steady, 5), None);
        let mut runs = vec![run(&[(0, 1000), (1, 5000), (2, 70)]), run(&[(0, 1001), (1, 6000), (2, 70)])];
        for more in 2..5 {
            assert_eq!(again(2, &runs, 4 + more), Some(1), "counted in {more} runs");
            runs.push(run(&[(1, 5400), (2, 70)]));
        }
        assert_eq!(again(2, &runs, 9), None, "five are enough");
        assert_eq!(again(3, &runs, 9), Some(1), "twice as often as the rest");
    }

    #[test]
    fn noise_that_explains_nothing_is_let_be() {
        let noise = [run(&[(0, 1000), (1, 5000), (2, 3)]), run(&[(0, 1000), (1, 5000), (2, 9)])];
        assert_eq!(again(2, &noise, 5), None);
    }

    #[test]
    fn cycles_are_counted_in_five_runs() {
        let once = [run(&[(0, 1000), (1, 5000), (2, 70)])];
        assert_eq!(again(1, &once, 2), Some(0), "the pass made least often, the first of several");
        let more = [run(&[(0, 1000), (1, 5000), (2, 70)]), run(&[(0, 1000)])];
        assert_eq!(again(1, &more, 3), Some(1));
        assert_eq!(again(1, &more, 5), None);
        assert_eq!(again(1, &once, 0), None, "nobody counts cycles here");
    }
}
