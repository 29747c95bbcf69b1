//! What a metered part of known work did, in the terms of a validation.

use kernels::{
    description::StreamPattern, draw::DrawError, scenario::PlannedStep, traffic, truth::TruthCounts,
};
use machine::Bytes;
use record::validate::{Lines, Truth};

/// Passes that were metered.
#[derive(Clone, Copy, Debug)]
pub enum Done<'a> {
    /// Whole ones: the code around them was metered too.
    Whole(u64),
    /// So much of each thread's, from the middle.
    Parts(&'a [f64]),
}

/// What these passes of a step did; `caches` has the capacity of each cache that a thread has to itself.
pub fn of_step(
    step: &PlannedStep,
    done: Done<'_>,
    caches: &dyn Fn(usize) -> [u64; 3],
) -> Result<Truth, DrawError> {
    let (counts, passes): (Vec<TruthCounts>, Vec<f64>) = match done {
        Done::Whole(passes) => {
            let counts = step.parts.iter().map(|part| step.counts(part, passes));
            (counts.collect(), vec![passes as f64; step.parts.len()])
        }
        Done::Parts(parts) => {
            (step.parts.iter().map(|part| step.pass_counts(part)).collect(), parts.to_vec())
        }
    };
    let times: &[f64] = if matches!(done, Done::Whole(_)) { &[] } else { &passes };
    let mut truth = counted(&counts, times);
    truth.below = crossings(step, &passes, caches)?;
    let chains = step.parts.iter().zip(&passes);
    truth.chain = chains.map(|(part, passes)| step.chained_steps(part) as f64 * passes).sum();
    let first = passes.first().copied().unwrap_or(0.0);
    truth.handed_over = step.pass()?.modified_transfers as f64 * first;
    let description = step.kernel.description();
    truth.single = description.element == SINGLE_BYTES;
    let fixed = description.streams.iter().all(|stream| matches!(stream.pattern, StreamPattern::Fixed));
    truth.contended = step.parts.len() > 1 && fixed && !description.streams.is_empty();
    Ok(truth)
}

/// An element of single precision.
const SINGLE_BYTES: u64 = 4;

/// Each thread's counts so many times; once if no number is given.
fn counted(threads: &[TruthCounts], times: &[f64]) -> Truth {
    let mut truth = Truth::default();
    let (mut least, mut most) = (f64::INFINITY, 0.0);
    for (thread, counts) in threads.iter().enumerate() {
        let times = times.get(thread).copied().unwrap_or(1.0);
        let of = |value: u64| value as f64 * times;
        truth.instructions += of(counts.instructions);
        truth.loads += of(counts.loads);
        truth.stores += of(counts.stores);
        truth.branches += of(counts.branches);
        truth.flops += of(counts.flops);
        least = f64::min(least, of(counts.flops));
        most = f64::max(most, of(counts.flops));
    }
    truth.imbalance = if least > 0.0 { most / least } else { 1.0 };
    truth
}

/// Lines below each cache. Streams that are stored to without being read are owned, the others read.
fn crossings(
    step: &PlannedStep,
    passes: &[f64],
    caches: &dyn Fn(usize) -> [u64; 3],
) -> Result<[Lines; 3], DrawError> {
    let mut below = [Lines::default(); 3];
    let (mut read, mut owned) = (0.0, 0.0);
    for used in traffic::uses(step.kernel.description()) {
        read += f64::from(u8::from(used.read));
        owned += f64::from(u8::from(used.written && !used.read));
    }
    let streams = f64::max(read + owned, 1.0);
    for (thread, (part, &passes)) in step.parts.iter().zip(passes).enumerate() {
        for (crossing, capacity) in below.iter_mut().zip(caches(thread)) {
            let lines = traffic::lines_below(&step.kernel, &part.geometry, Bytes(capacity))?;
            crossing.read += lines.inward * read / streams * passes;
            crossing.owned += lines.inward * owned / streams * passes;
            crossing.out += lines.outward * passes;
            crossing.past += lines.non_temporal * passes;
        }
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::{Job, KernelCatalogue};
    use machine::Isa;

    fn step(kernel: &str, size: Bytes, cpus: &[u32]) -> PlannedStep {
        let kernel = KernelCatalogue::builtin().expect("kernels").get(kernel).expect("a kernel");
        let plan = Job::new(kernel, size, cpus).plan(&Isa::native()).expect("a plan");
        plan.steps()[0].clone()
    }

    #[test]
    fn two_halves_of_a_triangle_are_not_alike() {
        // So many rows that what vectors round up hardly matters: three times the work, as in roehl2016.
        let step = step("triangle", Bytes::mib(64), &[0, 1]);
        let truth = of_step(&step, Done::Whole(1), &|_| [1 << 15; 3]).expect("a truth");
        assert!((2.8..3.2).contains(&truth.imbalance), "{}", truth.imbalance);
    }

    #[test]
    fn draws_that_fail_are_not_lines_that_stay() {
        let mut step = step("random-uni", Bytes::kib(256), &[0]);
        step.parts[0].geometry.elements = 0;
        assert_eq!(of_step(&step, Done::Whole(1), &|_| [0; 3]), Err(DrawError::NoElements));
    }
}
