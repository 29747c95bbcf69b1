//! The program of `memwall demo`: three phases whose waiting depends on their data alone, timed by the processor's clock.
//!
//! Each takes as many steps as its time allows. With little data the same steps wait for nothing but the first cache.

use std::{
    cell::Cell,
    hint::black_box,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Fits any first cache.
const LITTLE_BYTES: usize = 4 << 10;

/// Stretches that a phase is timed in.
const STRETCHES: u32 = 8;

/// A busy machine may stretch the program by this; then there is less of it.
const LONGEST_STRETCHED: u32 = 4;

/// Between two looks at the clock, at least.
const CHUNK: Duration = Duration::from_micros(500);

/// A cache line that leads to the next, by itself and by its number.
#[derive(Debug)]
#[repr(align(64))]
struct DemoLine<'a> {
    next: Cell<Option<&'a DemoLine<'a>>>,
    next_index: u64,
    index: u64,
}

/// Takes so many steps from a line on, and says where that led.
type PhaseWork = for<'a> fn(&'a [DemoLine<'a>], u64, u64) -> u64;

/// A phase: one function over its data.
pub struct DemoPhase {
    /// The name of its function.
    pub function: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    bytes: usize,
    work: PhaseWork,
}

/// In the order they run in.
pub const PHASES: [DemoPhase; 3] = [
    DemoPhase {
        function: "chase_through_memory",
        about: "each load needs the one before, all over 128 MiB",
        bytes: 128 << 20,
        work: chase_through_memory,
    },
    DemoPhase {
        function: "walk_and_compute",
        about: "a walk all over 64 MiB and arithmetic in turn",
        bytes: 64 << 20,
        work: walk_and_compute,
    },
    DemoPhase {
        function: "sum_in_first_cache",
        about: "one load a step, none of which is waited for: 16 KiB",
        bytes: 16 << 10,
        work: sum_in_first_cache,
    },
];

/// How long the steps of one phase took, each number the nanoseconds of a step in one stretch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Of which function.
    pub function: String,
    /// Of all of it.
    pub step_ns: f64,
    /// Of each stretch.
    pub stretches_ns: Vec<f64>,
}

/// Runs all phases, each for about `time` of the processor's; with little data instead of its own if asked to.
pub fn run(time: Duration, is_little: bool) -> Vec<PhaseTimes> {
    let times = PHASES.iter().map(|phase| {
        let lines = allocate_lines(if is_little { LITTLE_BYTES } else { phase.bytes });
        link_lines(&lines);
        phase.times(&lines, time)
    });
    times.collect()
}

impl DemoPhase {
    fn times<'a>(&self, lines: &'a [DemoLine<'a>], time: Duration) -> PhaseTimes {
        // Finds how many steps make a chunk, and warms up.
        let (mut steps, mut at) = (1_u64 << 4, 0);
        loop {
            let began = processor_time();
            at = (self.work)(lines, at, steps);
            if processor_time() - began >= CHUNK {
                break;
            }
            steps *= 2;
        }
        let (mut all_steps, mut all_time) = (0_u64, Duration::ZERO);
        let mut stretches_ns = Vec::new();
        let began = Instant::now();
        for _ in 0..STRETCHES {
            let (start, mut taken) = (processor_time(), 0_u64);
            let spent = loop {
                at = (self.work)(lines, at, steps);
                taken += steps;
                let spent = processor_time() - start;
                if spent >= time / STRETCHES {
                    break spent;
                }
            };
            (all_steps, all_time) = (all_steps + taken, all_time + spent);
            stretches_ns.push(spent.as_nanos() as f64 / taken as f64);
            if began.elapsed() > time.saturating_mul(LONGEST_STRETCHED) {
                break;
            }
        }
        black_box(at);
        let step_ns = all_time.as_nanos() as f64 / all_steps as f64;
        PhaseTimes { function: self.function.to_owned(), step_ns, stretches_ns }
    }
}

/// Of this thread, so that others who run on its processor do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Lines that lead from one to the next through all of them, in an order that no prefetcher guesses: a linear
/// congruential sequence of full period. Their number is a power of two.
#[inline(never)]
fn allocate_lines<'a>(bytes: usize) -> Vec<DemoLine<'a>> {
    const FACTOR: u64 = 1_664_525;
    const STEP: u64 = 1_013_904_223;
    let count = (bytes / size_of::<DemoLine>()) as u64;
    let next = |index: u64| index.wrapping_mul(FACTOR).wrapping_add(STEP) & (count - 1);
    (0..count).map(|index| DemoLine { next: Cell::new(None), next_index: next(index), index }).collect()
}

#[inline(never)]
fn link_lines<'a>(lines: &'a [DemoLine<'a>]) {
    lines.iter().for_each(|line| line.next.set(lines.get(line.next_index as usize)));
}

#[inline(never)]
fn chase_through_memory<'a>(lines: &'a [DemoLine<'a>], start: u64, steps: u64) -> u64 {
    let first = &lines[start as usize & (lines.len() - 1)];
    let mut at = first;
    for _ in 0..steps {
        at = at.next.get().unwrap_or(first);
    }
    at.index
}

/// A step is so many lines, and then so many multiplications: about the same time on most machines.
const WALKED_LINES: u32 = 64;
const MULTIPLICATIONS: u32 = 8192;

/// The arithmetic gives back what it is given, which the compiler does not know.
#[inline(never)]
fn walk_and_compute<'a>(lines: &'a [DemoLine<'a>], start: u64, steps: u64) -> u64 {
    let (flip, factor) = black_box((0_u64, 1_u64));
    let first = &lines[start as usize & (lines.len() - 1)];
    let (mut at, mut value) = (first, 0_u64);
    for _ in 0..steps {
        for _ in 0..WALKED_LINES {
            at = at.next.get().unwrap_or(first);
        }
        value ^= at.index;
        for _ in 0..MULTIPLICATIONS {
            value = (value ^ flip).wrapping_mul(factor);
        }
    }
    at.index ^ (value & flip)
}

#[inline(never)]
fn sum_in_first_cache<'a>(lines: &'a [DemoLine<'a>], start: u64, steps: u64) -> u64 {
    let mut sum = start;
    for round in 0..steps / lines.len() as u64 {
        for line in lines {
            sum = sum.wrapping_add(line.index ^ round);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_visited_before_one_is_seen_again() {
        for bytes in [LITTLE_BYTES, 1 << 20] {
            let lines = allocate_lines(bytes);
            link_lines(&lines);
            let mut is_seen = vec![false; lines.len()];
            let mut at = 0;
            for _ in 0..lines.len() {
                assert!(!std::mem::replace(&mut is_seen[at as usize], true), "line {at} of {}", lines.len());
                at = chase_through_memory(&lines, at, 1);
            }
            assert_eq!(at, 0);
            // With arithmetic in between it leads as far as without.
            let steps = u64::from(WALKED_LINES);
            assert_eq!(walk_and_compute(&lines, 0, 2), chase_through_memory(&lines, 0, 2 * steps));
        }
    }

    #[test]
    fn all_phases_are_timed() {
        let times = run(Duration::from_millis(4), true);
        let functions: Vec<&str> = times.iter().map(|phase| phase.function.as_str()).collect();
        assert_eq!(functions, PHASES.map(|phase| phase.function));
        assert!(times.iter().all(|phase| phase.step_ns > 0.0 && !phase.stretches_ns.is_empty()), "{times:?}");
    }
}
