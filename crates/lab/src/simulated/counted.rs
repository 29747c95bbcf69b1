//! Kernels and scenarios on a simulated machine, counted and sampled by its PMU.

use std::sync::atomic::AtomicBool;

use events::{Count, Refusal, Scope};
use kernels::{Kernel, truth::Counts};
use machine::{Bytes, CpuSet, Width, model::Model};
use record::scenario::ScenarioRun;
use sim::{
    engine::Engine,
    memory::{MemorySystem, Options},
    pmu::{Pmu, Sample, SampleRequest},
};

use super::{KernelJob, Open, SimulationError, crew, crew::Crew, scenario};
use crate::scenario::{Request, RunError};

/// A kernel to be counted.
#[derive(Clone, Copy, Debug)]
pub struct KernelWork<'a> {
    /// Which, parameters set.
    pub kernel: &'a Kernel,
    /// Of its vector operations; the widest the machine has if none.
    pub width: Option<Width>,
    /// All data together.
    pub size: Bytes,
    /// One per thread.
    pub cpus: &'a [u32],
    /// Where all data lies; where its thread runs if none.
    pub node: Option<u32>,
    /// Pages of 4 KiB.
    pub small_pages: bool,
    /// Passes over the data before it is counted: caches then hold what they can.
    pub warm_up: u64,
    /// Passes that are counted; if none, as many as make a steady count of small data.
    pub passes: Option<u64>,
    /// Of every random choice.
    pub seed: u64,
}

/// What was counted of a kernel.
#[derive(Clone, Debug)]
pub struct CountedKernel {
    /// Every event at every place.
    pub counts: Vec<Count>,
    /// Simulated time of the counted passes.
    pub elapsed_ns: f64,
    /// How many these were.
    pub passes: u64,
    /// What each thread did in them, by construction.
    pub truth: Vec<Counts>,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountedError {
    /// The PMU refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel could not be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The scenario could not be run.
    #[error(transparent)]
    Scenario(#[from] RunError),
}

/// Counts passes of a kernel on the machine of `model`, whose PMU is `pmu`. `open` opens what is to be counted.
pub fn count_kernel(
    model: &Model,
    pmu: &Pmu,
    work: &KernelWork<'_>,
    open: &mut Open<'_>,
    interrupt: &AtomicBool,
) -> Result<CountedKernel, CountedError> {
    let mut stand = Stand::new(model, pmu, work)?;
    let mut counting = open(scope(work.cpus))?;
    stand.warm_up(work, interrupt)?;
    counting.start()?;
    let elapsed_ns = stand.run(interrupt);
    counting.stop()?;
    let (elapsed_ns, counts) = (elapsed_ns?, counting.read()?);
    let truth = stand.crew.counts(stand.passes);
    Ok(CountedKernel { counts, elapsed_ns, passes: stand.passes, truth })
}

/// Samples passes of a kernel; samples come with their CPUs.
pub fn sample_kernel(
    model: &Model,
    pmu: &Pmu,
    work: &KernelWork<'_>,
    request: &SampleRequest,
    interrupt: &AtomicBool,
) -> Result<Vec<(u32, Sample)>, CountedError> {
    let mut stand = Stand::new(model, pmu, work)?;
    let mut sampling = pmu.sample(request)?;
    stand.warm_up(work, interrupt)?;
    sampling.start();
    let done = stand.run(interrupt);
    sampling.stop();
    done?;
    Ok(sampling.take())
}

/// Counts a scenario from its first step to its last.
pub fn count_scenario(
    model: &Model,
    pmu: &Pmu,
    request: &Request<'_>,
    open: &mut Open<'_>,
    interrupt: &AtomicBool,
) -> Result<(ScenarioRun, Vec<Count>), CountedError> {
    let mut counting = open(scope(request.cpus))?;
    counting.start()?;
    let run = scenario::run_with(request, model, Some(pmu.bank()), interrupt);
    counting.stop()?;
    Ok((run?, counting.read()?))
}

/// Samples a scenario from its first step to its last.
pub fn sample_scenario(
    model: &Model,
    pmu: &Pmu,
    request: &Request<'_>,
    samples: &SampleRequest,
    interrupt: &AtomicBool,
) -> Result<(ScenarioRun, Vec<(u32, Sample)>), CountedError> {
    let mut sampling = pmu.sample(samples)?;
    sampling.start();
    let run = scenario::run_with(request, model, Some(pmu.bank()), interrupt);
    sampling.stop();
    Ok((run?, sampling.take()))
}

fn scope(cpus: &[u32]) -> Scope {
    Scope::Cpus(cpus.iter().copied().collect::<CpuSet>())
}

/// A machine with a kernel placed on it.
struct Stand<'a> {
    engine: Engine<MemorySystem>,
    crew: Crew<'a>,
    passes: u64,
}

impl<'a> Stand<'a> {
    fn new(model: &'a Model, pmu: &Pmu, work: &KernelWork<'a>) -> Result<Self, SimulationError> {
        let width = work.kernel.width_on(&model.isa, work.width)?;
        let KernelWork { kernel, size, cpus, node, small_pages, .. } = *work;
        let job = KernelJob { kernel, width, size, cpus, node, small_pages };
        let crew = Crew::prepare(&job, model, work.seed, 0)?;
        let options = Options { seed: work.seed, ..Options::default() };
        let mut memory = MemorySystem::new(model, options)?;
        crew.place(&mut memory);
        let mut engine = Engine::new(model, memory)?;
        engine.attach(pmu.bank());
        let passes = work.passes.unwrap_or_else(|| crew.passes()).max(1);
        Ok(Self { engine, crew, passes })
    }

    fn warm_up(&mut self, work: &KernelWork<'_>, interrupt: &AtomicBool) -> Result<(), SimulationError> {
        if work.warm_up > 0 {
            crew::run(&mut self.engine, &mut [self.crew.part(work.warm_up)], interrupt)?;
        }
        Ok(())
    }

    /// The passes that count; their time.
    fn run(&mut self, interrupt: &AtomicBool) -> Result<f64, SimulationError> {
        let outcome = crew::run(&mut self.engine, &mut [self.crew.part(self.passes)], interrupt)?;
        Ok(outcome.elapsed().ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{Instrument, Share, TooMany};
    use sim::{access::Supplier, pmu::Flaws};

    fn parts() -> (Model, Pmu, kernels::Catalogue) {
        let model = Model::builtin("tiny").expect("a model");
        let pmu = Pmu::new(&model, Flaws::of(&model)).expect("events");
        (model, pmu, kernels::Catalogue::builtin().expect("kernels"))
    }

    fn work<'a>(kernel: &'a Kernel, cpus: &'a [u32]) -> KernelWork<'a> {
        let (width, node, small_pages, warm_up, passes) = (None, None, false, 1, Some(2));
        KernelWork { kernel, width, size: Bytes::kib(64), cpus, node, small_pages, warm_up, passes, seed: 1 }
    }

    #[test]
    fn kernels_are_counted_without_their_warm_up() {
        let (model, pmu, kernels) = parts();
        let kernel = kernels.get("copy").expect("a kernel");
        let names = ["INST_RETIRED.ANY", "MEM_UOPS_RETIRED.ALL_STORES", "cycles"];
        let events: Vec<_> = names.iter().map(|name| pmu.resolve(name).expect("an event")).collect();
        let mut open = |scope| {
            let events = events.clone();
            let (too_many, share) = (TooMany::Refuse, Share::Each);
            pmu.open(&events::Request { events, scope, too_many, share })
        };
        let never = AtomicBool::new(false);
        let counted = count_kernel(&model, &pmu, &work(&kernel, &[0, 1]), &mut open, &never).expect("counts");
        let of = |event: usize, cpu: usize| {
            let place = events::Place::Cpu(cpu as u32);
            let found = counted.counts.iter().find(|count| count.event == event && count.place == place);
            found.and_then(|count| count.value.exact()).expect("a count")
        };
        for (cpu, truth) in counted.truth.iter().enumerate() {
            assert_eq!((of(0, cpu), of(1, cpu)), (truth.instructions, truth.stores));
            assert!(of(2, cpu) as f64 <= counted.elapsed_ns * model.clock.core_hz as f64 / 1e9 + 1.0);
        }
    }

    #[test]
    fn scenarios_are_counted_and_sampled() {
        let (model, pmu, kernels) = parts();
        let scenario = kernels::scenario::shipped::find("producer-consumer").expect("one");
        let scenario = scenario.parse(&kernels, &[]).expect("a scenario");
        let cpus = [0, 1];
        let request = Request { scenario: &scenario, cpus: &cpus, scale: 64 };
        let never = AtomicBool::new(false);
        let hitm = pmu.resolve("MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM").expect("an event");
        let mut open = |scope| {
            let (too_many, share) = (TooMany::AllAtOnce, Share::Together);
            pmu.open(&events::Request { events: vec![hitm.clone()], scope, too_many, share })
        };
        let (_, counts) = count_scenario(&model, &pmu, &request, &mut open, &never).expect("counts");
        let moved = counts[0].value.exact().expect("a count");
        let event = pmu.resolve("mem-loads").expect("an event");
        let samples = SampleRequest { event, period: 1, cpus: cpus.iter().copied().collect() };
        let (_, samples) = sample_scenario(&model, &pmu, &request, &samples, &never).expect("samples");
        let modified = samples
            .iter()
            .filter_map(|(_, sample)| sample.load)
            .filter(|load| load.supplier == Supplier::OtherCoreModified);
        assert!(moved > 0);
        assert_eq!(modified.count() as u64, moved);
    }
}
