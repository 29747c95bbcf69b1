//! Values cycle by cycle, for counters that need more than their sum.
//!
//! A time-stamp simulation learns of things out of order: a µop is given its start and a load its data in one go, some of
//! it long before older things are known. So changes of values are written on a ring of cycles, and cycles are read once
//! nothing can change in them any more.

use super::shape::PmuShape;
use crate::signal::CounterTurns;

/// Cycles of the ring.
const CYCLES: u64 = 1 << 17;
/// Cycles per word of the marks.
const WORD: u64 = 64;

/// How a lane enters a counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeMoment {
    /// As it is.
    Value,
    /// 1 if it is not 0.
    Any,
    /// 1 if it is 0.
    None,
    /// 1 if it is this or more.
    AtLeast(u32),
}

impl TapeMoment {
    #[inline]
    fn of(self, value: u64) -> u64 {
        match self {
            Self::Value => value,
            Self::Any => u64::from(value > 0),
            Self::None => u64::from(value == 0),
            Self::AtLeast(least) => u64::from(value >= u64::from(least)),
        }
    }
}

/// A part of a counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePart {
    /// Which lane of the tape.
    pub lane: usize,
    /// How it enters.
    pub when: TapeMoment,
    /// How often.
    pub weight: u32,
}

/// A counter that reads the tape.
#[derive(Clone, Debug)]
pub struct TapeReader {
    parts: Vec<LanePart>,
    shape: PmuShape,
    /// Of several sets that take turns, the one it is in.
    turn: usize,
    held: bool,
    /// Its count.
    pub count: u64,
    /// Counts from one overflow to the next; none if it is only counted.
    pub period: Option<u64>,
    /// Moments of overflows that were not yet taken.
    pub overflows: Vec<u64>,
}

impl TapeReader {
    /// A counter at zero.
    pub fn new(parts: Vec<LanePart>, shape: PmuShape, turn: usize, period: Option<u64>) -> Self {
        let period = period.map(|period| period.max(1));
        Self { parts, shape, turn, held: false, count: 0, period, overflows: Vec::new() }
    }

    fn read(&mut self, values: &[i32], from: u64, cycles: u64, runs: bool) {
        let value: u64 = self
            .parts
            .iter()
            .map(|part| part.when.of(values[part.lane].max(0) as u64) * u64::from(part.weight))
            .sum();
        let added = self.shape.add(value, cycles, &mut self.held);
        if !runs || added == 0 {
            return;
        }
        if let Some(period) = self.period {
            self.overflow(period, from, cycles, added);
        }
        self.count += added;
    }

    /// Notes each time the count passes a multiple of the period.
    fn overflow(&mut self, period: u64, from: u64, cycles: u64, added: u64) {
        let mut next = (self.count / period + 1) * period;
        while next <= self.count + added {
            // What is added in several cycles is added evenly.
            self.overflows.push(from + (next - self.count - 1) * cycles / added);
            next += period;
        }
    }
}

/// A ring of cycles.
#[derive(Clone, Debug)]
pub struct Tape {
    lanes: usize,
    /// Changes against the cycle before, all lanes of a cycle side by side.
    changes: Box<[i16]>,
    /// One bit per cycle in which anything changes.
    marks: Box<[u64]>,
    /// Values in the cycle before `read`.
    values: Vec<i32>,
    /// All cycles before are read.
    read: u64,
}

impl Tape {
    /// Of so many lanes, all at 0, beginning at a cycle.
    pub fn new(lanes: usize, begin: u64) -> Self {
        Self {
            lanes,
            changes: vec![0; CYCLES as usize * lanes].into_boxed_slice(),
            marks: vec![0; (CYCLES / WORD) as usize].into_boxed_slice(),
            values: vec![0; lanes],
            read: begin,
        }
    }

    /// The first cycle that is not read.
    pub fn unread(&self) -> u64 {
        self.read
    }

    fn change(&mut self, lane: usize, cycle: u64, by: i16) {
        // What comes too late counts now; what lies too far ahead, at the end of the ring.
        let cycle = cycle.clamp(self.read, self.read + CYCLES - 1);
        let place = (cycle & (CYCLES - 1)) as usize;
        let change = &mut self.changes[place * self.lanes + lane];
        *change = change.saturating_add(by);
        self.marks[place / WORD as usize] |= 1 << (place as u64 % WORD);
    }

    /// Adds to a lane's value from one cycle up to another.
    #[inline]
    pub fn span(&mut self, lane: usize, from: u64, until: u64, by: u16) {
        if until > from && by > 0 {
            let by = by.min(i16::MAX as u16) as i16;
            // A span that was known too late keeps its length.
            let late = self.read.saturating_sub(from);
            self.change(lane, from + late, by);
            self.change(lane, until + late, -by);
        }
    }

    /// Adds one to a lane's value from now on.
    pub fn raise(&mut self, lane: usize) {
        self.values[lane] += 1;
    }

    /// Reads all cycles before `upto`.
    pub fn advance(&mut self, upto: u64, turns: &CounterTurns, readers: &mut [TapeReader]) {
        while self.read < upto {
            if self.marked(self.read) {
                self.apply(self.read);
            }
            let (turn, end) = turns.at(self.read);
            let until = self.next_mark(self.read + 1, upto.min(end));
            for reader in readers.iter_mut() {
                let runs = reader.turn == turn;
                reader.read(&self.values, self.read, until - self.read, runs);
            }
            self.read = until;
        }
    }

    fn marked(&self, cycle: u64) -> bool {
        let place = cycle & (CYCLES - 1);
        self.marks[(place / WORD) as usize] >> (place % WORD) & 1 == 1
    }

    fn apply(&mut self, cycle: u64) {
        let place = (cycle & (CYCLES - 1)) as usize;
        let changes = &mut self.changes[place * self.lanes..(place + 1) * self.lanes];
        for (value, change) in self.values.iter_mut().zip(changes) {
            *value += i32::from(std::mem::take(change));
        }
        self.marks[place / WORD as usize] &= !(1 << (place as u64 % WORD));
    }

    /// The first marked cycle from `from` on, `until` at the latest.
    fn next_mark(&self, from: u64, until: u64) -> u64 {
        // Nothing is written further ahead than the ring is long.
        let ring = self.read + CYCLES;
        let mut cycle = from;
        while cycle < until {
            if cycle >= ring {
                return until;
            }
            let place = cycle & (CYCLES - 1);
            let word = self.marks[(place / WORD) as usize] >> (place % WORD);
            if word != 0 {
                return (cycle + u64::from(word.trailing_zeros())).min(until);
            }
            cycle += WORD - place % WORD;
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Value per cycle, summed from the spans.
    fn values(spans: &[(u64, u64, u16)], cycles: u64) -> Vec<u64> {
        (0..cycles)
            .map(|cycle| {
                spans
                    .iter()
                    .filter(|(from, long, _)| (*from..from + long).contains(&cycle))
                    .map(|span| u64::from(span.2))
                    .sum()
            })
            .collect()
    }

    /// One cycle after the other, as a manual says it.
    fn naive(values: &[u64], shape: PmuShape) -> u64 {
        let (mut count, mut before) = (0, false);
        for &value in values {
            if shape.threshold == 0 && !shape.edge {
                count += value;
                continue;
            }
            let reached = value >= u64::from(shape.threshold.max(1));
            let now = if shape.inverted { !reached } else { reached };
            count += match shape.edge {
                true => u64::from(now && !before),
                false => u64::from(now),
            };
            before = now;
        }
        count
    }

    fn spans() -> impl Strategy<Value = Vec<(u64, u64, u16)>> {
        prop::collection::vec((0u64..900, 1u64..60, 1u16..5), 0..80)
    }

    proptest! {
        /// However the reading is cut into pieces, and whatever order the spans come in.
        #[test]
        fn counters_agree_with_a_model_that_goes_cycle_by_cycle(
            spans in spans(),
            threshold in 0u32..8,
            inverted in any::<bool>(),
            edge in any::<bool>(),
            cuts in prop::collection::vec(0u64..1000, 0..6),
        ) {
            let shape = PmuShape { threshold, inverted, edge };
            let mut tape = Tape::new(1, 0);
            let part = LanePart { lane: 0, when: TapeMoment::Value, weight: 1 };
            let mut readers = [TapeReader::new(vec![part], shape, 0, None)];
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut written = 0;
            let mut spans = spans;
            spans.sort_by_key(|span| span.0);
            for cut in cuts {
                // All that begins before the cut must be there when it is read.
                while written < spans.len() && spans[written].0 < cut {
                    let (from, long, by) = spans[written];
                    tape.span(0, from, from + long, by);
                    written += 1;
                }
                tape.advance(cut, &CounterTurns::ONE, &mut readers);
            }
            for &(from, long, by) in spans[written..].iter().rev() {
                tape.span(0, from, from + long, by);
            }
            tape.advance(1000, &CounterTurns::ONE, &mut readers);
            prop_assert_eq!(readers[0].count, naive(&values(&spans, 1000), shape));
        }

        /// Sets that take turns see what happens in their turns and nothing else.
        #[test]
        fn turns_divide_the_cycles(spans in spans(), tick in 10u64..200, sets in 2usize..4) {
            let turns = CounterTurns { origin: 0, tick, sets, planned: None };
            let mut tape = Tape::new(1, 0);
            let part = LanePart { lane: 0, when: TapeMoment::Any, weight: 1 };
            let mut readers: Vec<_> = (0..sets).map(|set| TapeReader::new(vec![part], PmuShape::default(), set, None)).collect();
            for &(from, long, by) in &spans {
                tape.span(0, from, from + long, by);
            }
            tape.advance(1000, &turns, &mut readers);
            let values = values(&spans, 1000);
            for (set, reader) in readers.iter().enumerate() {
                let busy = |cycle: &u64| values[*cycle as usize] > 0 && (cycle / tick) as usize % sets == set;
                prop_assert_eq!(reader.count, (0..1000u64).filter(busy).count() as u64);
            }
        }
    }

    #[test]
    fn weights_tell_conditions_apart() {
        // The activity event of Haswell: 4 for no execution, 1 for a pending miss; both is 5.
        let parts = vec![
            LanePart { lane: 0, when: TapeMoment::None, weight: 4 },
            LanePart { lane: 1, when: TapeMoment::Any, weight: 1 },
        ];
        let shape = PmuShape { threshold: 5, ..PmuShape::default() };
        let mut readers = [TapeReader::new(parts, shape, 0, None)];
        let mut tape = Tape::new(2, 0);
        tape.span(0, 5, 8, 1);
        tape.span(1, 2, 10, 3);
        tape.advance(20, &CounterTurns::ONE, &mut readers);
        assert_eq!(readers[0].count, 3 + 2, "cycles 2 to 4 and 8 to 9");
    }

    #[test]
    fn overflows_are_told_with_their_cycle() {
        let part = LanePart { lane: 0, when: TapeMoment::Value, weight: 1 };
        let mut readers = [TapeReader::new(vec![part], PmuShape::default(), 0, Some(10))];
        let mut tape = Tape::new(1, 0);
        tape.span(0, 100, 103, 4);
        tape.span(0, 200, 208, 1);
        tape.advance(300, &CounterTurns::ONE, &mut readers);
        assert_eq!(readers[0].count, 20);
        assert_eq!(readers[0].overflows, [102, 207]);
    }

    #[test]
    fn what_comes_late_keeps_its_length_and_rounds_are_skipped() {
        let part = LanePart { lane: 0, when: TapeMoment::Value, weight: 1 };
        let mut readers = [TapeReader::new(vec![part], PmuShape::default(), 0, None)];
        let mut tape = Tape::new(1, 0);
        tape.advance(50, &CounterTurns::ONE, &mut readers);
        tape.span(0, 40, 45, 1);
        tape.advance(10 * CYCLES, &CounterTurns::ONE, &mut readers);
        assert_eq!(readers[0].count, 5);
        tape.span(0, 10 * CYCLES, 10 * CYCLES + 7, 1);
        tape.advance(20 * CYCLES, &CounterTurns::ONE, &mut readers);
        assert_eq!(readers[0].count, 12);
    }
}
