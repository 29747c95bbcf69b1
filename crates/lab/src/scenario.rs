//! `memwall scenario`: a program made of kernels on this machine, timed region by region.

pub(crate) mod pacing;
pub(crate) mod placement;

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::{
    scenario::{
        Event, Plan, PlanError, Scenario,
        stage::{Player, Stage},
        truth::{self, ThreadTruth},
    },
    traffic::Lines,
    workload::WorkloadError,
};
use machine::{Bytes, CpuSet, Source, Topology, profile::Noise};
use record::{
    bench::{Pages, Work},
    scenario::{BufferUse, Entry, Pace, RegionRun, ScenarioRun, ThreadRun, Truth},
};
use rustix::time::{ClockId, clock_gettime};

pub use placement::choose_cpus;

use crate::{
    noise::StealWatch,
    request_check::{BadRequest, check_size},
    statistics,
};

/// The schema of [`ScenarioRun`].
pub const SCHEMA: &str = "memwall.scenario/1";

/// What to run.
#[derive(Clone, Debug)]
pub struct Request<'a> {
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
        source: WorkloadError,
    },
    /// It could not be simulated.
    #[error("scenario '{scenario}': {source}")]
    Simulation {
        /// The scenario.
        scenario: String,
        /// Why.
        source: crate::simulated::SimulationError,
    },
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
        !matches!(self, Self::Run { .. } | Self::Simulation { .. } | Self::Truth { .. })
    }
}

/// Checks the request against the machine; measures nothing.
pub fn plan(request: &Request<'_>, machine: &Topology) -> Result<Plan, RunError> {
    let plan = Plan::new(request.scenario, request.cpus.len(), &machine.isa, request.scale)?;
    let all = plan.instances().iter().fold(0u64, |sum, instance| sum.saturating_add(instance.allocate.0));
    if all > 0 {
        check_size(machine, Bytes(all), None)?;
    }
    placement::nodes(&plan, request.cpus, machine)?;
    Ok(plan)
}

/// Runs. `source` is where steal time is read. An interrupt keeps the entries that were finished.
pub fn run(
    request: &Request<'_>,
    source: &Source,
    machine: &Topology,
    interrupt: &AtomicBool,
) -> Result<ScenarioRun, RunError> {
    let mut plan = plan(request, machine)?;
    let failed = |source| RunError::Run { scenario: request.scenario.name.clone(), source };
    let nodes = placement::nodes(&plan, request.cpus, machine)?;
    let mut stage = Stage::prepare(&plan, request.cpus, &nodes).map_err(failed)?;
    let paces = pacing::pace(&mut plan, &mut pacing::Native { stage: &mut stage, interrupt })?;
    let used: CpuSet = request.cpus.iter().copied().collect();
    let steal = StealWatch::begin(source, &used, machine.hypervisor.is_some());
    let played = stage.play(interrupt, |player| follow(player, &plan)).map_err(failed)?;
    let start_ns = played.iter().map(|thread| thread.start_ns).min().unwrap_or(0);
    let end_ns = played.iter().map(|thread| thread.end_ns).max().unwrap_or(0);
    let wall_ns = end_ns.saturating_sub(start_ns) as f64;
    let noise = Noise {
        wall_ns,
        steal_ns: steal.stolen_ns(),
        involuntary_switches: played.iter().map(|thread| thread.involuntary_switches).sum(),
        spread: None,
    };
    let buffers = buffers(&plan, &stage, &nodes);
    let stays: Vec<Vec<Stay>> = played.into_iter().map(|thread| thread.value).collect();
    let run = Recorded { simulated: None, request, paces, buffers, wall_ns, noise };
    run.finish(&plan, &stays, start_ns as f64, interrupt.load(Ordering::Relaxed))
}

/// One finished entry of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stay {
    pub region: usize,
    pub start_ns: f64,
    pub end_ns: f64,
}

/// Goes through one thread's schedule. Ends early if interrupted; what was finished is kept.
fn follow(player: &mut Player<'_>, plan: &Plan) -> Vec<Stay> {
    let entered = |event: &Event| matches!(event, Event::Enter { .. });
    // Room for all of them: growing would be timed.
    let mut stays = Vec::with_capacity(plan.schedule(player.thread()).filter(entered).count());
    let mut inside = Vec::new();
    for event in plan.schedule(player.thread()) {
        let goes_on = match event {
            Event::Enter { region } => {
                let met = player.meet(region);
                inside.push(now_ns() as f64);
                met
            }
            Event::Run { step } => player.run(step),
            Event::Leave { region } => {
                let end_ns = now_ns() as f64;
                if let Some(start_ns) = inside.pop() {
                    stays.push(Stay { region, start_ns, end_ns });
                }
                true
            }
        };
        if !goes_on {
            break;
        }
    }
    stays
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn buffers(plan: &Plan, stage: &Stage, nodes: &[Option<u32>]) -> Vec<BufferUse> {
    let instances = plan.instances().iter().enumerate();
    instances
        .map(|(index, instance)| BufferUse {
            name: plan.scenario().buffers[instance.buffer].name.clone(),
            thread: instance.thread,
            size: plan.size(instance.buffer),
            node: nodes[index],
            pages: stage.backing(index).map(|backing| Pages { huge: backing.huge, total: backing.total }),
        })
        .collect()
}

/// A run but for its regions.
pub(crate) struct Recorded<'a> {
    pub simulated: Option<String>,
    pub request: &'a Request<'a>,
    pub paces: Vec<Pace>,
    pub buffers: Vec<BufferUse>,
    pub wall_ns: f64,
    pub noise: Noise,
}

impl Recorded<'_> {
    /// With the regions, from what each thread finished. `start_ns` is when the run began.
    pub fn finish(
        self,
        plan: &Plan,
        stays: &[Vec<Stay>],
        start_ns: f64,
        interrupted: bool,
    ) -> Result<ScenarioRun, RunError> {
        let scenario = self.request.scenario;
        let uncached = truth::lines_below(plan, Bytes(0))
            .map_err(|source| RunError::Truth { scenario: scenario.name.clone(), source })?;
        let truths = truth::of(plan);
        let regions = plan.regions().iter().enumerate().map(|(index, region)| {
            let threads = truths[index].iter().zip(&uncached[index]).map(|(truth, lines)| ThreadRun {
                thread: truth.thread,
                entries: entries(&stays[truth.thread], index, start_ns),
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
            wall_ns: self.wall_ns,
            noise: self.noise,
            interrupted,
        })
    }
}

fn entries(stays: &[Stay], region: usize, start_ns: f64) -> Vec<Entry> {
    let since = |ns: f64| (ns - start_ns).max(0.0);
    let of_region = stays.iter().filter(|stay| stay.region == region);
    of_region.map(|stay| Entry { start_ns: since(stay.start_ns), end_ns: since(stay.end_ns) }).collect()
}

/// The truth in the terms of a recording.
pub fn recorded(truth: &ThreadTruth, uncached: &Lines) -> Truth {
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
