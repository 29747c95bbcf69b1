//! Random kernels on this machine, under the sampler and the recorder that programs are recorded with.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use host::{
    statistics::median,
    timer::recorded::{RecordedKernel, SampledStretch, passes_for, processor_ns_of},
};
use kernels::{Job, Workload, generate::RandomKernel};
use trust::KernelPlace;

use super::Analyse;
use crate::unseen::{CacheSizes, KernelTrial, LevelTimes, TrialOutcome};

/// Samples per second: as many as `memwall run` takes unless told otherwise, since much depends on how far apart they lie.
const RATE_HZ: u32 = 1_000;
/// One stretch of a kernel, and of its twin, which needs no samples. Short, so that a clock that changes or a neighbour that
/// comes and goes meets both.
const STRETCH_NS: f64 = 75e6;
const TWIN_STRETCH_NS: f64 = 20e6;
/// So many of each, in turn; more where a busy machine left few samples, as a program that runs for longer would have more.
const ROUNDS: usize = 8;
const MOST_ROUNDS: usize = 3 * ROUNDS;
/// A kernel that waits for less of its time is not asked where.
const WAITS: f64 = 0.2;
/// Samples that are enough, more than an answer needs to be called sure.
const ENOUGH_SAMPLES: u64 = 560;

/// Runs kernels on one CPU.
pub struct LiveTrial<'a> {
    /// Which.
    pub cpu: u32,
    /// What its caches hold.
    pub caches: CacheSizes,
    /// What is made of their recordings.
    pub analyse: &'a Analyse<'a>,
    /// A folder for the recordings, if they are to be kept.
    pub keep: Option<&'a Path>,
}

impl KernelTrial for LiveTrial<'_> {
    /// In turn with its twin, so that what disturbs the machine disturbs both. Every other round gives a truth of its own.
    fn try_kernel(&mut self, kernel: &RandomKernel) -> Result<TrialOutcome, String> {
        let mut full = TimedKernel::prepare(&kernel.job(self.cpu), self.cpu, STRETCH_NS)?;
        let mut twin = TimedKernel::prepare(&kernel.twin(self.cpu), self.cpu, TWIN_STRETCH_NS)?;
        let mut samples = 0;
        let (mut shares, mut turns): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
        for number in 0..MOST_ROUNDS {
            if number >= ROUNDS && number % 2 == 0 && samples >= ENOUGH_SAMPLES {
                break;
            }
            let (stretch, turn_ns) = full.turn_ns()?;
            samples += stretch.samples;
            let (_, twin_ns) = twin.turn_ns()?;
            shares[number % 2].push((1.0 - twin_ns / turn_ns).clamp(0.0, 1.0));
            [turn_ns, twin_ns].into_iter().zip(&mut turns).for_each(|(ns, all)| all.push(ns));
        }
        let middle = |values: Vec<f64>| median(&values).unwrap_or(0.0);
        let (truths, turn_ns) = (shares.map(middle), turns.map(middle));
        let waits = !kernel.leaves_lines_out() && truths.iter().all(|truth| *truth > WAITS);
        let levels = if waits { self.right_levels(kernel, turn_ns)? } else { Vec::new() };
        let keep = self.keep.map(|folder| folder.join(format!("{}.sqlite", kernel.seed)));
        let run = full.sampled.into_run(keep.as_deref()).map_err(|error| error.to_string())?;
        let analysed = (self.analyse)(&run).ok_or_else(|| "no sample was taken".to_owned())?;
        Ok(TrialOutcome {
            truths,
            turn_ns: Some(turn_ns),
            samples,
            answer: analysed.answer,
            levels: Some(levels).filter(|levels| !levels.is_empty()),
        })
    }
}

impl LiveTrial<'_> {
    /// Where a kernel waits, by the time of a turn over data of half of each capacity.
    fn right_levels(
        &self,
        kernel: &RandomKernel,
        [turn_ns, near_ns]: [f64; 2],
    ) -> Result<Vec<KernelPlace>, String> {
        let footprint = kernel.footprint();
        let mut times = LevelTimes { near_ns, beyond: Vec::new() };
        for (place, data) in LevelTimes::wanted(&self.caches, footprint) {
            let ns = match data {
                Some(data) => {
                    PlainKernel::prepare(&kernel.over(data, self.cpu), TWIN_STRETCH_NS)?.middle_ns()?
                }
                None => turn_ns,
            };
            times.beyond.push((place, ns));
        }
        Ok(times.right(&self.caches, footprint))
    }
}

/// A kernel and its twin that nobody samples from within: another process records and relieves them.
pub struct KernelBesideTwin {
    full: PlainKernel,
    twin: PlainKernel,
}

impl KernelBesideTwin {
    /// Ready to run on one CPU.
    pub fn prepare(kernel: &RandomKernel, cpu: u32) -> Result<Self, String> {
        Ok(Self {
            full: PlainKernel::prepare(&kernel.job(cpu), STRETCH_NS)?,
            twin: PlainKernel::prepare(&kernel.twin(cpu), TWIN_STRETCH_NS)?,
        })
    }

    /// The share of the kernel's time beyond that of its twin, both in turn.
    pub fn truth(&mut self) -> Result<f64, String> {
        let mut shares = Vec::new();
        for _ in 0..ROUNDS / 2 {
            let turn_ns = self.full.turn_ns()?;
            shares.push((1.0 - self.twin.turn_ns()? / turn_ns).clamp(0.0, 1.0));
        }
        median(&shares).ok_or_else(|| "nothing was timed".to_owned())
    }

    /// Runs the kernel alone until told to stop.
    pub fn go_on(&mut self, stop: &AtomicBool) -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            self.full.turn_ns()?;
        }
        Ok(())
    }
}

/// A kernel that runs by itself.
struct PlainKernel {
    workload: Workload,
    passes: u64,
}

impl PlainKernel {
    fn prepare(job: &Job, stretch_ns: f64) -> Result<Self, String> {
        let mut workload = Workload::prepare(job).map_err(|error| error.to_string())?;
        workload.go_into_copies();
        let passes = passes_for(&mut workload, stretch_ns).map_err(|error| error.to_string())?;
        Ok(Self { workload, passes })
    }

    /// The middle of three stretches.
    fn middle_ns(&mut self) -> Result<f64, String> {
        let all = [self.turn_ns()?, self.turn_ns()?, self.turn_ns()?];
        median(&all).ok_or_else(|| "nothing was timed".to_owned())
    }

    fn turn_ns(&mut self) -> Result<f64, String> {
        let ran_ns = processor_ns_of(&mut self.workload, self.passes).map_err(|error| error.to_string())?;
        turn_ns(&self.workload, self.passes, ran_ns)
    }
}

/// Processor time of one turn of a loop.
fn turn_ns(workload: &Workload, passes: u64, ran_ns: u64) -> Result<f64, String> {
    let turns = workload.geometry(0).iterations * passes;
    match ran_ns {
        0 => Err("the kernel gives no processor time".to_owned()),
        ns => Ok(ns as f64 / turns.max(1) as f64),
    }
}

/// A kernel that is timed stretch by stretch.
struct TimedKernel {
    sampled: RecordedKernel<'static>,
    passes: u64,
}

impl TimedKernel {
    fn prepare(job: &Job, cpu: u32, stretch_ns: f64) -> Result<Self, String> {
        let workload = Workload::prepare(job).map_err(|error| error.to_string())?;
        let mut sampled =
            RecordedKernel::open(&pmu::Live, workload, cpu, RATE_HZ).map_err(|error| error.to_string())?;
        let passes = sampled.passes_for(stretch_ns).map_err(|error| error.to_string())?;
        Ok(Self { sampled, passes })
    }

    /// Processor time of one turn of its loop, over a stretch.
    fn turn_ns(&mut self) -> Result<(SampledStretch, f64), String> {
        let stretch = self.sampled.stretch(self.passes).map_err(|error| error.to_string())?;
        Ok((stretch, turn_ns(self.sampled.workload(), self.passes, stretch.processor_ns)?))
    }
}
