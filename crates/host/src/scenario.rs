//! `memwall scenario`: a program made of kernels on a machine, timed region by region.

mod pacing;
mod placement;
mod recorded;

use std::{
    collections::BTreeMap,
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
};

use events::CountRefusal;
use kernels::{
    scenario::{
        Plan, PlanError, Scenario,
        truth::{self, ThreadTruth},
    },
    traffic::TrafficLines,
};
use machine::{Bytes, CpuSet, Topology, profile::Noise};
use record::{
    bench::Work,
    file::FileError,
    scenario::{BufferUse, RegionRun, ScenarioEntry, ScenarioPace, ScenarioRun, ThreadRun, Truth},
};
use sim::pmu::{SampleRequest, SimulatedPmu, SimulatedSample};

pub use pacing::StepPace;
pub use placement::choose_cpus;
pub use recorded::{RecordedScenario, ScenarioRecording, record_scenario};

use crate::{
    host::{Host, HostError, PlanRun, PreparedPlan, RegionEntry},
    meter::Meter,
    request_check::{BadRequest, check_size},
    statistics,
};

/// The schema of [`ScenarioRun`].
pub const SCHEMA: &str = "memwall.scenario/1";

/// What to run.
#[derive(Clone, Debug)]
pub struct ScenarioJob<'a> {
    /// The program, values set.
    pub scenario: &'a Scenario,
    /// The CPU of each thread; one may be named several times.
    pub cpus: &'a [u32],
    /// What every buffer's size is divided by.
    pub scale: u64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Something this machine does not have.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// More threads than CPUs.
    #[error(
        "scenario '{scenario}' needs {needed} threads and there are {given} CPUs for them ({cpus}); \
         name others with --cpus, or let threads share CPUs with --oversubscribe"
    )]
    TooFewCpus {
        /// The scenario.
        scenario: String,
        /// Threads.
        needed: usize,
        /// CPUs.
        given: usize,
        /// Which.
        cpus: CpuSet,
    },
    /// More CPUs were named than the scenario has threads.
    #[error("scenario '{scenario}' has {needed} threads and {given} CPUs were named; name {needed}")]
    TooManyCpus {
        /// The scenario.
        scenario: String,
        /// Threads.
        needed: usize,
        /// CPUs.
        given: usize,
    },
    /// No memory is far from where the thread runs.
    #[error(
        "buffer '{buffer}' is to lie on another NUMA node than CPU {cpu}, and this machine has no other with \
         memory; a simulated machine with two sockets does, or set its node to local"
    )]
    NoRemoteNode {
        /// The buffer.
        buffer: String,
        /// Where its owner runs.
        cpu: u32,
    },
    /// It cannot be planned for this CPU and number of threads.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It could not be prepared or run.
    #[error("scenario '{scenario}': {source}")]
    Run {
        /// The scenario.
        scenario: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The instrument refused.
    #[error(transparent)]
    Refused(#[from] CountRefusal),
    /// What it does cannot be computed for its data: an error in memwall's own limits.
    #[error("scenario '{scenario}': cannot say what it does: {source}")]
    Truth {
        /// The scenario.
        scenario: String,
        /// Why.
        source: kernels::draw::DrawError,
    },
}

impl RunError {
    /// Whether the request was bad, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, Self::Run { .. } | Self::Refused(_) | Self::Truth { .. } | Self::File(_))
    }
}

/// Checks the request against the machine; measures nothing.
pub fn plan(request: &ScenarioJob<'_>, machine: &Topology) -> Result<Plan, RunError> {
    let plan = Plan::new(request.scenario, request.cpus.len(), &machine.isa, request.scale)?;
    let all = plan.instances().iter().fold(0u64, |sum, instance| sum.saturating_add(instance.allocate.0));
    if all > 0 {
        check_size(machine, Bytes(all), None)?;
    }
    placement::nodes(&plan, request.cpus, machine)?;
    Ok(plan)
}

/// Runs. An interrupt keeps the entries that were finished.
pub fn run(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    run_metered(request, host, None, interrupt)
}

/// How steps are slowed down so that they move as much as asked, found while nothing else runs.
pub fn find_pace(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    interrupt: &AtomicBool,
) -> Result<Vec<StepPace>, RunError> {
    let failed = |error| failed(request, error);
    let plan = plan(request, host.topology())?;
    if host.simulated().is_some() {
        one_each(request)?;
    }
    let nodes = placement::nodes(&plan, request.cpus, host.topology())?;
    let mut prepared = host.prepare(plan, request.cpus, &nodes).map_err(failed)?;
    pacing::pace(&mut *prepared, interrupt).map_err(failed)
}

/// Runs at a pace that was found before: whatever runs beside it now does not change how fast it tries to be.
pub fn run_at_pace(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    paces: &[StepPace],
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    run_prepared(request, host, Some(paces), None, interrupt)
}

/// The same while a meter counts; looking for the pace of a step is not counted.
pub fn run_metered(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    meter: Option<&mut dyn Meter>,
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    run_prepared(request, host, None, meter, interrupt)
}

fn run_prepared(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    known: Option<&[StepPace]>,
    meter: Option<&mut dyn Meter>,
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    let plan = plan(request, host.topology())?;
    let simulated = host.simulated().map(str::to_owned);
    if simulated.is_some() {
        one_each(request)?;
    }
    let failed = |error| failed(request, error);
    let nodes = placement::nodes(&plan, request.cpus, host.topology())?;
    let used: CpuSet = request.cpus.iter().copied().collect();
    let steal = host.watch_steal(&used);
    let mut prepared = host.prepare(plan, request.cpus, &nodes).map_err(failed)?;
    let paces = match known {
        Some(known) => pacing::set(&mut *prepared, known).map(|()| known.to_vec()),
        None => pacing::pace(&mut *prepared, interrupt),
    };
    let paces = paces.map_err(failed)?.into_iter().map(|known| known.pace).collect();
    let ran = metered(&mut *prepared, meter, interrupt).map_err(failed)?;
    let noise = Noise {
        wall_ns: ran.wall_ns,
        steal_ns: steal.and_then(|steal| steal.stolen_ns()),
        involuntary_switches: ran.involuntary_switches,
        spread: None,
    };
    let buffers = buffers(&*prepared, &nodes, &ran.addresses);
    let recorded = Recorded { simulated, request, paces, buffers, noise };
    recorded.finish(prepared.plan(), &ran, interrupt.load(Ordering::Relaxed))
}

/// Samples a scenario from its first step to its last on a simulated machine that `pmu` counts; samples come with
/// their CPUs.
pub fn sample_scenario(
    request: &ScenarioJob<'_>,
    host: &mut dyn Host,
    pmu: &SimulatedPmu,
    samples: &SampleRequest,
    interrupt: &AtomicBool,
) -> Result<(ScenarioRun, Vec<(u32, SimulatedSample)>), RunError> {
    let mut sampling = pmu.sample(samples)?;
    let run = run_metered(request, host, Some(&mut sampling), interrupt)?;
    Ok((run, sampling.take()))
}

/// A request that is bad is told from one that failed.
fn failed(request: &ScenarioJob<'_>, error: HostError) -> RunError {
    let source = match error.source.downcast::<PlanError>() {
        Ok(error) => return RunError::Plan(*error),
        Err(source) => source,
    };
    match source.downcast::<CountRefusal>() {
        Ok(refusal) => RunError::Refused(*refusal),
        Err(source) => RunError::Run { scenario: request.scenario.name.clone(), source },
    }
}

fn metered(
    prepared: &mut dyn PreparedPlan,
    meter: Option<&mut dyn Meter>,
    interrupt: &AtomicBool,
) -> Result<PlanRun, HostError> {
    let Some(meter) = meter else { return prepared.run(interrupt) };
    let name = prepared.plan().scenario().name.clone();
    let refused = |refusal: CountRefusal| HostError::new(name.clone(), refusal);
    meter.begin().map_err(refused)?;
    let ran = prepared.run(interrupt);
    meter.end().map_err(refused)?;
    ran
}

/// There is no operating system to share a CPU out.
fn one_each(request: &ScenarioJob<'_>) -> Result<(), RunError> {
    let used: CpuSet = request.cpus.iter().copied().collect();
    if used.len() < request.cpus.len() {
        let (scenario, threads) = (request.scenario.name.clone(), request.cpus.len());
        return Err(BadRequest::Sharing { scenario, threads, cpus: used.len() }.into());
    }
    Ok(())
}

fn buffers(
    prepared: &dyn PreparedPlan,
    nodes: &[Option<u32>],
    addresses: &BTreeMap<usize, u64>,
) -> Vec<BufferUse> {
    let plan = prepared.plan();
    let instances = plan.instances().iter().enumerate();
    instances
        .map(|(index, instance)| BufferUse {
            name: plan.scenario().buffers[instance.buffer].name.clone(),
            thread: instance.thread,
            size: plan.size(instance.buffer),
            address: addresses.get(&index).copied(),
            node: nodes[index],
            pages: prepared.pages(index),
        })
        .collect()
}

/// A run but for its regions.
struct Recorded<'a> {
    simulated: Option<String>,
    request: &'a ScenarioJob<'a>,
    paces: Vec<ScenarioPace>,
    buffers: Vec<BufferUse>,
    noise: Noise,
}

impl Recorded<'_> {
    /// With the regions, from what each thread finished.
    fn finish(self, plan: &Plan, ran: &PlanRun, interrupted: bool) -> Result<ScenarioRun, RunError> {
        let scenario = self.request.scenario;
        let uncached = truth::lines_below(plan, Bytes(0))
            .map_err(|source| RunError::Truth { scenario: scenario.name.clone(), source })?;
        let truths = truth::of(plan);
        let regions = plan.regions().iter().enumerate().map(|(index, region)| {
            let threads = truths[index].iter().zip(&uncached[index]).map(|(truth, lines)| ThreadRun {
                thread: truth.thread,
                entries: entries(&ran.entries[truth.thread], index, ran.start_ns),
                truth: recorded(truth, lines),
            });
            let mut run = RegionRun {
                path: region.path.clone(),
                name: region.name.clone(),
                depth: region.depth,
                planned_entries: region.entries,
                spread: None,
                threads: threads.collect(),
            };
            run.spread = statistics::spread(&run.walls_ns());
            run
        });
        Ok(ScenarioRun {
            schema: SCHEMA.to_owned(),
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            source: scenario.source.clone(),
            simulated: self.simulated,
            seed: scenario.seed,
            scale: self.request.scale,
            values: scenario.variables.iter().map(|v| (v.name.clone(), v.value.clone())).collect(),
            cpus: self.request.cpus.to_vec(),
            regions: regions.collect(),
            buffers: self.buffers,
            paces: self.paces,
            wall_ns: ran.wall_ns,
            noise: self.noise,
            interrupted,
        })
    }
}

fn entries(all: &[RegionEntry], region: usize, start_ns: f64) -> Vec<ScenarioEntry> {
    let since = |ns: f64| (ns - start_ns).max(0.0);
    let of_region = all.iter().filter(|entry| entry.region == region);
    of_region
        .map(|entry| ScenarioEntry { start_ns: since(entry.start_ns), end_ns: since(entry.end_ns) })
        .collect()
}

/// The truth in the terms of a recording.
pub fn recorded(truth: &ThreadTruth, uncached: &TrafficLines) -> Truth {
    let counts = truth.counts;
    Truth {
        work: Work {
            instructions: counts.instructions as f64,
            accesses: (counts.loads + counts.stores) as f64,
            program_bytes: (counts.load_bytes + counts.store_bytes) as f64,
            memory_bytes: uncached.bytes(),
            flops: counts.flops as f64,
            chain: truth.chain as f64,
        },
        data: truth.data,
        least_transfers: truth.transfers.least,
        most_transfers: truth.transfers.most,
    }
}

#[cfg(test)]
mod tests;
