//! A short probe of this machine, on the calling thread. Its memory is given back when it returns.
//!
//! **A part of the cache**: its lines are linked into a random cycle and read once in order, which brings them in;
//! then some thousand links are followed. Loads that the cache no longer holds come from memory and show in the mean.
//! **Memory**: lines all over a buffer are linked, thrown out of all caches (`clflush`), and followed once. **Bandwidth**:
//! the buffer is read from end to end.
//!
//! # Safety
//! `clflush` takes an address within a slice that is borrowed meanwhile, and changes no data.
#![allow(unsafe_code)]

use std::{hint::black_box, time::Instant};

use kernels::{
    PagePolicy,
    draw::SplitMix,
    memory::{Buffer, MemoryError, Placement},
};
use machine::{
    Bytes,
    probe::{ProbePlan, ProbeReading, ProbedChase},
};

use crate::statistics;

/// Words of a line.
const LINE_WORDS: usize = 8;

/// Words of a stretch that is read at once: a megabyte.
const STRETCH_WORDS: usize = 1 << 17;

/// Links followed in a cache, each time it is timed.
const CACHE_STEPS: usize = 8192;

/// Lines followed in memory, each time it is timed.
const MEMORY_STEPS: usize = 4096;

/// Less than this is no data set.
const LEAST_BYTES: u64 = 4096;

/// How often each is timed; the fastest counts, as disturbance by interrupts only adds.
const TIMES: usize = 3;

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Lines cannot be thrown out of caches here.
    #[error("it needs x86-64")]
    Architecture,
    /// A data set that nothing can be followed through.
    #[error("{0} is too little to probe")]
    TooSmall(Bytes),
}

/// Probes.
pub fn measure(plan: &ProbePlan, seed: u64) -> Result<ProbeReading, ProbeError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(ProbeError::Architecture);
    }
    let sizes = plan.cache_bytes.iter().chain([&plan.memory_bytes]);
    if let Some(&small) = sizes.min().filter(|&&bytes| bytes < LEAST_BYTES) {
        return Err(ProbeError::TooSmall(Bytes(small)));
    }
    let begun = Instant::now();
    let mut random = SplitMix::new(seed);
    let placement = Placement { pages: PagePolicy::Huge, node: None };
    let largest = plan.cache_bytes.iter().copied().max().unwrap_or(0).max(plan.memory_bytes);
    let mut buffer = Buffer::allocate(Bytes(largest), placement)?;
    buffer.touch();
    let words = buffer.as_mut_slice::<u64>();
    let memory = &mut words[..(plan.memory_bytes / 8) as usize];
    let load_bytes_per_s = stream(memory);
    let latency_ns = chase_memory(memory, &mut random);
    let memory = ProbedChase { bytes: plan.memory_bytes, latency_ns };
    let mut chase = |&bytes: &u64| {
        let part = &mut words[..(bytes / 8) as usize];
        ProbedChase { bytes, latency_ns: chase_cache(part, &mut random) }
    };
    let chases = plan.cache_bytes.iter().map(&mut chase).collect();
    drop(buffer);
    let took_ns = begun.elapsed().as_nanos() as f64;
    Ok(ProbeReading { level: plan.level, chases, memory, load_bytes_per_s, took_ns })
}

/// Bytes per second of reading on: the median over stretches, as whoever takes the CPU meanwhile spoils only some of them.
fn stream(words: &[u64]) -> f64 {
    let rate = |stretch: &[u64]| {
        let begun = Instant::now();
        // Several sums, so that additions do not wait for each other.
        let sums = stretch.chunks_exact(LINE_WORDS).fold([0u64; LINE_WORDS], |mut sums, line| {
            sums.iter_mut().zip(line).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            sums
        });
        black_box(sums);
        size_of_val(stretch) as f64 / begun.elapsed().as_secs_f64()
    };
    let rates: Vec<f64> = words.chunks(STRETCH_WORDS).map(rate).collect();
    statistics::median(&rates).unwrap_or(f64::MIN_POSITIVE)
}

fn chase_cache(words: &mut [u64], random: &mut SplitMix) -> f64 {
    let lines: Vec<u32> = (0..(words.len() / LINE_WORDS) as u32).collect();
    link(words, lines, random);
    let mut fastest_ns = f64::INFINITY;
    let mut at = 0;
    for _ in 0..TIMES {
        black_box(words.iter().step_by(LINE_WORDS).fold(0u64, |sum, word| sum.wrapping_add(*word)));
        let (ns, end) = follow(words, at, CACHE_STEPS);
        (fastest_ns, at) = (fastest_ns.min(ns), end);
    }
    fastest_ns
}

fn chase_memory(words: &mut [u64], random: &mut SplitMix) -> f64 {
    let all = words.len() / LINE_WORDS;
    let apart = (all / MEMORY_STEPS).max(1);
    // One line somewhere in each stretch, so that none comes twice.
    let one_of = |stretch: usize| (stretch * apart + random.next_u64() as usize % apart) as u32;
    let lines: Vec<u32> = (0..all / apart).map(one_of).collect();
    let first = lines[0] as usize * LINE_WORDS;
    let steps = lines.len();
    link(words, lines.clone(), random);
    let mut fastest_ns = f64::INFINITY;
    for _ in 0..TIMES {
        lines.iter().for_each(|&line| throw_out(&words[line as usize * LINE_WORDS]));
        fence();
        fastest_ns = fastest_ns.min(follow(words, first, steps).0);
    }
    fastest_ns
}

/// Links lines into one random cycle (Sattolo's shuffle): the first word of each is the index of the next one's.
fn link(words: &mut [u64], mut lines: Vec<u32>, random: &mut SplitMix) {
    let start = lines.clone();
    for last in (1..lines.len()).rev() {
        lines.swap(last, random.next_u64() as usize % last);
    }
    for (from, to) in start.iter().zip(&lines) {
        words[*from as usize * LINE_WORDS] = u64::from(*to) * LINE_WORDS as u64;
    }
}

/// Nanoseconds per link, and where it ended.
fn follow(words: &[u64], start: usize, steps: usize) -> (f64, usize) {
    let begun = Instant::now();
    let mut at = start;
    for _ in 0..steps {
        at = words[at] as usize;
    }
    let at = black_box(at);
    (begun.elapsed().as_nanos() as f64 / steps as f64, at)
}

#[cfg(target_arch = "x86_64")]
fn throw_out(word: &u64) {
    // SAFETY: the address is that of a borrowed word; every x86-64 has the instruction, which changes no data.
    unsafe { std::arch::x86_64::_mm_clflush(std::ptr::from_ref(word).cast()) };
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every x86-64 has the instruction.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn throw_out(_: &u64) {}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_one_cycle_through_all_lines() {
        let mut words = vec![0u64; 64 * LINE_WORDS];
        link(&mut words, (0..64).collect(), &mut SplitMix::new(3));
        let (mut at, mut seen) = (0usize, std::collections::BTreeSet::new());
        for _ in 0..64 {
            at = words[at] as usize;
            assert!(at.is_multiple_of(LINE_WORDS) && seen.insert(at), "{at} twice");
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn a_probe_gives_a_number_for_all_it_was_asked() {
        let plan =
            ProbePlan { level: Some(3), cache_bytes: vec![64 << 10, 128 << 10], memory_bytes: 4 << 20 };
        let reading = measure(&plan, 1).expect("a reading");
        assert_eq!(reading.chases.iter().map(|chase| chase.bytes).collect::<Vec<_>>(), plan.cache_bytes);
        let numbers = reading.chases.iter().map(|chase| chase.latency_ns);
        let numbers = numbers.chain([reading.memory.latency_ns, reading.load_bytes_per_s, reading.took_ns]);
        assert!(numbers.into_iter().all(|number| number.is_finite() && number > 0.0), "{reading:?}");
    }
}
