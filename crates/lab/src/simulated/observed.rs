//! A kernel in its steady state on a simulated machine: what was counted beside what must have happened.
//!
//! Unlike [`super::count_kernel`], which counts whole passes, this counts the window of a pass that a bandwidth needs
//! (see [`super`]), so that data beyond the caches of a large machine costs no more than small data. Truth is that of
//! the part done.

use std::sync::atomic::AtomicBool;

use events::{Count, Counting, Refusal, Scope};
use kernels::{description::Shape, traffic, truth::Counts};
use machine::{Bytes, CpuSet, model::Model};
use record::validate::{Lines, Truth};
use sim::{
    engine::{Engine, Interrupts},
    memory::{Disturbance, MemorySystem, Options, PrefetchSwitches},
    pmu::{Pmu, Sample, SampleRequest},
    time::Time,
};

use super::{CountedError, KernelJob, KernelWork, crew, crew::Crew};

/// How often the caches are filled anew while mixed reads and writes of data beyond them are counted.
const FILLINGS: u64 = 2;

/// Under what circumstances a kernel runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Which prefetchers are on.
    pub prefetchers: PrefetchSwitches,
    /// Traffic of others.
    pub disturbance: Option<Disturbance>,
    /// Time taken by the operating system.
    pub interrupts: Option<Interruptions>,
    /// Instructions of each thread that are counted; as many as a bandwidth needs if none.
    pub instructions: Option<u64>,
}

/// Interrupts of every core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interruptions {
    /// From one to the next, on average.
    pub every_ns: f64,
    /// What one costs.
    pub lasts_ns: f64,
}

/// A kernel that was counted in its steady state.
#[derive(Clone, Debug)]
pub struct ObservedKernel {
    /// Every event at every place.
    pub counts: Vec<Count>,
    /// Simulated time of the counted part.
    pub elapsed_ns: f64,
    /// What the counted part did.
    pub truth: Truth,
}

/// Counts a kernel in its steady state. `open` opens what is to be counted.
pub fn observe_kernel(
    model: &Model,
    pmu: &Pmu,
    work: &KernelWork<'_>,
    conditions: &Conditions,
    open: &mut super::Open<'_>,
    interrupt: &AtomicBool,
) -> Result<ObservedKernel, CountedError> {
    let mut counting: Box<dyn Counting + '_> =
        open(Scope::Cpus(work.cpus.iter().copied().collect::<CpuSet>()))?;
    let started = &mut |begin: bool| if begin { counting.start() } else { counting.stop() };
    let mut observed = steady(model, pmu, work, conditions, started, interrupt)?;
    observed.counts = counting.read()?;
    Ok(observed)
}

/// Samples a kernel in its steady state; samples come with their CPUs.
pub fn observe_samples(
    model: &Model,
    pmu: &Pmu,
    work: &KernelWork<'_>,
    conditions: &Conditions,
    request: &SampleRequest,
    interrupt: &AtomicBool,
) -> Result<Vec<(u32, Sample)>, CountedError> {
    let mut sampling = pmu.sample(request)?;
    let started = &mut |begin: bool| {
        if begin {
            sampling.start()
        } else {
            sampling.stop()
        }
        Ok(())
    };
    steady(model, pmu, work, conditions, started, interrupt)?;
    Ok(sampling.take())
}

fn steady(
    model: &Model,
    pmu: &Pmu,
    work: &KernelWork<'_>,
    conditions: &Conditions,
    started: &mut dyn FnMut(bool) -> Result<(), Refusal>,
    interrupt: &AtomicBool,
) -> Result<ObservedKernel, CountedError> {
    let width = work.kernel.width_on(&model.isa, work.width).map_err(super::SimulationError::from)?;
    let KernelWork { kernel, size, cpus, node, small_pages, .. } = *work;
    let job = KernelJob { kernel, width, size, cpus, node, small_pages };
    let crew = Crew::prepare(&job, model, work.seed, 0)?;
    let Conditions { prefetchers, disturbance, interrupts, instructions } = *conditions;
    let options = Options { seed: work.seed, prefetchers, disturbance, ..Options::default() };
    let mut memory = MemorySystem::new(model, options).map_err(super::SimulationError::from)?;
    crew.place(&mut memory);
    let mut engine = Engine::new(model, memory).map_err(super::SimulationError::from)?;
    engine.set_interrupts(interrupts.map(|each| Interrupts {
        seed: work.seed,
        every: Time::from_ns(each.every_ns),
        lasts: Time::from_ns(each.lasts_ns),
    }));
    engine.attach(pmu.bank());
    let whole = crew.whole.then(|| work.passes.unwrap_or_else(|| crew.passes()).max(1));
    let mut part = [crew.endless()];
    match whole {
        Some(_) => part = [crew.part(1)],
        None => part[0].limits = crew.warm_up(),
    }
    crew::run(&mut engine, &mut part, interrupt).map_err(super::SimulationError::from)?;
    match whole {
        Some(passes) => part = [crew.part(passes)],
        None => {
            part[0].limits = match instructions {
                Some(each) => vec![each; cpus.len()],
                None if crew.mixes_beyond_caches() => crew.turnover(FILLINGS),
                None => crew.timed(),
            };
        }
    }
    started(true)?;
    let outcome = crew::run(&mut engine, &mut part, interrupt);
    started(false)?;
    let outcome = outcome.map_err(super::SimulationError::from)?;
    // Of whole passes the code around them counts too.
    let (done, parts): (Vec<Counts>, Vec<f64>) = match whole {
        Some(passes) => (crew.counts(passes), vec![passes as f64; cpus.len()]),
        None => (crew.pass_counts().to_vec(), crew.parts_of(&outcome)),
    };
    let mut truth = truth_of(&done, if whole.is_some() { &[] } else { &parts });
    truth.below = crossings(model, &crew, kernel, &parts)?;
    truth.chain = crew.chain(&parts);
    if let (Shape::Turns { .. }, Some(geometry)) = (&kernel.description().shape, crew.geometries().next()) {
        truth.handed_over = (geometry.turns * geometry.iterations) as f64 * parts[0];
    }
    let cycles_per_ns = model.clock.core_hz as f64 / 1e9;
    truth.cycles =
        Some(outcome.jobs.iter().map(|job| job.end.since(outcome.start).ns() * cycles_per_ns).sum());
    Ok(ObservedKernel { counts: Vec::new(), elapsed_ns: outcome.elapsed().ns(), truth })
}

/// What so many passes of each thread do; one of each if none are given.
fn truth_of(threads: &[Counts], passes: &[f64]) -> Truth {
    let mut truth = Truth::default();
    let (mut least, mut most) = (f64::INFINITY, 0.0);
    for (thread, counts) in threads.iter().enumerate() {
        let passes = passes.get(thread).copied().unwrap_or(1.0);
        let of = |value: u64| value as f64 * passes;
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

/// Lines below each cache; a cache that is shared gives each thread its part.
fn crossings(
    model: &Model,
    crew: &Crew<'_>,
    kernel: &kernels::Kernel,
    passes: &[f64],
) -> Result<[Lines; 3], CountedError> {
    let mut below = [Lines::default(); 3];
    let uses = traffic::uses(kernel.description());
    let (mut read, mut owned) = (0.0, 0.0);
    for used in &uses {
        read += f64::from(u8::from(used.read));
        owned += f64::from(u8::from(used.written && !used.read));
    }
    let streams = f64::max(read + owned, 1.0);
    for (thread, (geometry, &passes)) in crew.geometries().zip(passes).enumerate() {
        let beside = crew.beside(thread) as u64;
        let l3 = model.l3.as_ref().map_or(0, |l3| l3.geometry.size.0 / beside.max(1));
        let l2 = model.l2.geometry.size.0 / u64::from(model.l2.shared_by_cores.max(1)).min(beside).max(1);
        let capacities = [model.l1d.geometry.size.0, l2, l3.max(l2)];
        for (crossing, capacity) in below.iter_mut().zip(capacities) {
            let lines = traffic::lines_below(kernel, geometry, Bytes(capacity))
                .map_err(super::SimulationError::from)?;
            crossing.read += lines.inward * read / streams * passes;
            crossing.owned += lines.inward * owned / streams * passes;
            crossing.out += lines.outward * passes;
            crossing.past += lines.non_temporal * passes;
        }
    }
    Ok(below)
}
