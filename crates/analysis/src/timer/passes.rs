//! How fast a short loop turns, from the register that counts its passes.
//!
//! Between two samples such a loop begins again thousands of times, and where in it they land tells nothing of how often.
//! The counter of the loop around it does: so many passes went by in so much time of the loop, and each has as many turns as
//! its places say. Both are averages over all samples of the loop, so that it does not matter what else the passes do.

use std::collections::HashMap;

use record::{ids::ThreadId, run::Run};

use super::{pace::LoopSpeed, program::DecodedProgram};
use crate::findings::Rate;

/// Fewer say too little of how many turns a pass has.
const FEWEST: usize = 24;

/// Some counters begin again: a few distances then lead back, or are of nothing.
const MOST_BACK: f64 = 0.05;
const FAR: f64 = 8.0;

/// Of passes of one length, samples lie half-way in the mean, give or take this.
const EVEN: f64 = 0.1;

/// How many turns a pass through a loop has, by where in it samples landed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassShape {
    turns: f64,
    parts: f64,
    seen: u64,
}

impl PassShape {
    /// A sample at this part of a pass, of at least so many turns.
    pub fn push(&mut self, part: f64, turns: f64) {
        self.turns = self.turns.max(turns);
        self.parts += part;
        self.seen += 1;
    }

    /// Turns, and how far they may be off; none if passes seem to be of different lengths, or too little was seen.
    fn turns(&self) -> Option<(f64, f64)> {
        // The standard deviation of even parts.
        const SPREAD: f64 = 0.29;
        let seen = self.seen as f64;
        let is_even = (self.parts / seen - 0.5).abs() <= EVEN + 2.0 * SPREAD / seen.sqrt();
        // Places are those of the turn, give or take one.
        let error = 1.0 / self.turns + 2.0 / seen;
        (self.seen >= FEWEST as u64 && self.turns >= 2.0 && is_even).then_some((self.turns, error))
    }
}

/// By block, how fast it turns.
pub(super) fn speeds(
    run: &Run,
    program: &DecodedProgram,
    shapes: &HashMap<usize, PassShape>,
) -> HashMap<usize, LoopSpeed> {
    let speed = |(id, counted): (usize, CountedPasses)| {
        let (turns, error) = shapes.get(&id)?.turns()?;
        Some((id, counted.speed(run.about.period_ns, turns, error)?))
    };
    counted(run, program).into_iter().filter_map(speed).collect()
}

fn counted(run: &Run, program: &DecodedProgram) -> HashMap<usize, CountedPasses> {
    let mut found: HashMap<usize, CountedPasses> = HashMap::new();
    let mut last: HashMap<(ThreadId, usize), (u64, f64)> = HashMap::new();
    // Samples of before do not stand for the same time.
    let from_ns = run.about.slowed.map_or(0, |slowed| slowed.from_ns);
    let columns = run.passes.thread.iter().zip(&run.passes.place).zip(&run.passes.address);
    for (((&thread, &place), &value), _) in
        columns.zip(&run.passes.time_ns).filter(|(_, time)| **time >= from_ns)
    {
        let Some((block, step)) = program.passes.get(place.index()).copied().flatten() else { continue };
        let Some(value) = value else {
            // A counter at nothing is no count, but its time counts.
            last.entry((thread, block)).and_modify(|(_, samples)| *samples += 1.0);
            continue;
        };
        if let Some((before, samples)) = last.insert((thread, block), (value.get(), 1.0)) {
            let passes = value.get().wrapping_sub(before).cast_signed() as f64 / step as f64;
            found.entry(block).or_default().0.push((passes, samples));
        }
    }
    found
}

/// Passes that began from one sample of a loop to its next, and how many samples' time that is.
#[derive(Clone, Debug, Default)]
struct CountedPasses(Vec<(f64, f64)>);

impl CountedPasses {
    /// How fast turns follow each other, `turns` a pass, which may be off by a part `error`.
    fn speed(mut self, sample_ns: f64, turns: f64, error: f64) -> Option<LoopSpeed> {
        let all = self.0.len();
        self.0.retain(|(passes, _)| *passes > 0.0);
        if all < FEWEST || (all - self.0.len()) as f64 > MOST_BACK * all as f64 {
            return None;
        }
        self.0.sort_by(|a, b| a.0.total_cmp(&b.0));
        let usual = self.0[self.0.len() / 2].0;
        self.0.retain(|(passes, _)| *passes <= FAR * usual);
        let samples: f64 = self.0.iter().map(|(_, samples)| samples).sum();
        let mean = self.0.iter().map(|(passes, _)| passes).sum::<f64>() / samples;
        let squares: f64 = self.0.iter().map(|(passes, samples)| (passes - mean * samples).powi(2)).sum();
        let own_error = 2.0 * squares.sqrt() / (mean * samples);
        let per_s = mean * turns / sample_ns * 1e9;
        let (low, high) = (per_s * (1.0 - own_error), per_s * (1.0 + own_error));
        let rate = Rate { bytes_per_s: per_s, low, high, pairs: self.0.len() as u64 };
        Some(LoopSpeed { rate, error: own_error + error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        findings::TimeShare,
        timer::{TimerOptions, analyse, bounds::tests::DATA, tests::run},
    };

    /// xor eax,eax; inc [r8+rax]; add rax,8; cmp rax,rsi; jb 2; dec rdx; jne 0; ret
    const NEST: [u8; 21] = [
        0x31, 0xc0, 0x49, 0xff, 0x04, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xf0, 0x72, 0xf3, 0x48, 0xff,
        0xca, 0x75, 0xec, 0xc3,
    ];

    /// The same by steps of a kilobyte.
    const COLUMNS: [u8; 23] = [
        0x31, 0xc0, 0x49, 0xff, 0x04, 0x00, 0x48, 0x05, 0x00, 0x04, 0x00, 0x00, 0x48, 0x39, 0xf0, 0x72, 0xf1,
        0x48, 0xff, 0xca, 0x75, 0xea, 0xc3,
    ];

    /// Samples behind the access, each in a turn by `turn` of 512, with counters by `counter`.
    fn nested(turn: impl Fn(u64) -> u64, counter: impl Fn(u64) -> u64) -> Run {
        nested_in(&NEST, |at| 8 * turn(at), counter)
    }

    fn nested_in(code: &[u8], place: impl Fn(u64) -> u64, counter: impl Fn(u64) -> u64) -> Run {
        let samples: Vec<_> = (0..600).map(|at| (6, Some(DATA + place(at)))).collect();
        let mut run = run(code, &samples);
        run.passes = run.samples.clone();
        run.passes.address = (0..600).map(|at| std::num::NonZeroU64::new(counter(at))).collect();
        run
    }

    fn mixed(at: u64) -> u64 {
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55
    }

    fn found(run: &Run) -> TimeShare {
        analyse(run, None, &TimerOptions::unlimited()).verdict.memory.expect("a share")
    }

    /// Four kilobytes twice: what a turn takes is known from how many passes lie between two samples.
    #[test]
    fn passes_between_samples_tell_what_a_turn_takes() {
        let period = nested(mixed, |_| 1).about.period_ns;
        let per_sample = |turn_ns: f64| (period / (512.0 * turn_ns)) as u64;
        let counted = |turn_ns: f64| nested(mixed, move |at| (1 << 40) - at * per_sample(turn_ns));
        let speed = |run: &Run| {
            let counts = vec![600; run.places.len()];
            let program = DecodedProgram::new(run, &counts);
            let mut shape = PassShape::default();
            (0..600).for_each(|at| shape.push(mixed(at) as f64 / 511.0, 512.0));
            let block = program.passes[run.passes.place[0].index()].expect("a loop within a loop").0;
            speeds(run, &program, &HashMap::from([(block, shape)])).get(&block).copied()
        };
        for turn_ns in [0.5, 3.0] {
            let found = speed(&counted(turn_ns)).expect("a speed");
            assert!((found.turn_ns() / turn_ns - 1.0).abs() < 0.02 && found.error < 0.05, "{found:?}");
        }
        let mut slowed = counted(3.0);
        let late = slowed.samples.time_ns[590];
        slowed.about.slowed = Some(record::run::SlowedSampling { from_ns: late, counted_before: 1.0 });
        assert_eq!(speed(&slowed), None, "samples of before stand for other times");
        // Half of the time is another loop's: two samples lie twice as far apart.
        let halved = nested(mixed, |at| (1 << 40) - (at + at * (mixed(at) & 1)) * per_sample(3.0));
        assert!(speed(&halved).is_none_or(|speed| speed.error > 0.1), "{:?}", speed(&halved));
        assert_eq!(speed(&nested(mixed, |at| 1 + mixed(at))), None, "it begins again and again");
        let far = |turn_ns: f64| {
            let pass_ns = 65536.0 * turn_ns;
            nested(|at| 128 * mixed(at), move |at| (1 << 40) - (at as f64 * period / pass_ns) as u64)
        };
        let (quick, slow) = (found(&far(0.5)), found(&far(3.0)));
        assert!(quick.low < 0.05 && slow.low > 0.3, "half a megabyte: {quick:?} {slow:?}");
    }

    /// Lines of few sets push each other out: how long a turn took is all that counts, not what such lines cost elsewhere.
    #[test]
    fn what_lines_of_few_sets_cost_is_no_limit() {
        let profile = crate::timer::levels::tests::profile();
        let period = nested(mixed, |_| 1).about.period_ns;
        let run = nested_in(
            &COLUMNS,
            |at| 1024 * (mixed(at) / 2),
            |at| (1 << 40) - (at as f64 * period / (256.0 * 40.0)) as u64,
        );
        let found =
            analyse(&run, Some(&profile), &TimerOptions::unlimited()).verdict.memory.expect("a share");
        assert!(found.low > 0.5 && found.high > 0.9, "{found:?}");
    }

    #[test]
    fn passes_of_different_lengths_tell_nothing() {
        let shape = |part: fn(u64) -> f64| {
            let mut shape = PassShape::default();
            (0..600).for_each(|at| shape.push(part(at), 512.0));
            shape.turns()
        };
        assert!(
            shape(|at| mixed(at) as f64 / 511.0).is_some_and(|(turns, error)| turns == 512.0 && error < 0.01)
        );
        // Of all lengths up to the longest.
        assert_eq!(shape(|at| (mixed(at) * mixed(at + 7)) as f64 / 511.0 / 511.0), None);
        let mut few = PassShape::default();
        (0..10).for_each(|at| few.push(mixed(at) as f64 / 511.0, 512.0));
        assert_eq!(few.turns(), None);
    }
}
