//! Experiments on this machine: known work on pinned threads under perf_event.

use std::sync::atomic::{AtomicBool, Ordering};

use events::{Event, Instrument as _, Refusal, Request as Open, Scope, Share, Signal, TooMany, Unit};
use kernels::{Catalogue, Kernel, PagePolicy, Request, Workload, traffic};
use machine::{Bytes, CpuSet, Isa, Source, Topology, Width, topology::CacheKind};
use pmu::PerfEvents;
use record::validate::{Counted, Experiment, Lines, Observation, Truth};

use crate::validate::{
    bench::{Bench, Machine, ObserveError},
    simulated::sum,
};

/// How long the counted part of an experiment takes.
const SPAN_NS: f64 = 30e6;

/// This machine under perf_event.
pub struct NativeBench {
    instrument: PerfEvents<'static>,
    kernels: Catalogue,
    machine: Machine,
    cpus: Vec<u32>,
    clock_hz: Option<f64>,
    /// Cores share the L3; each has its part.
    l3: Option<Bytes>,
}

impl NativeBench {
    /// None if the caches are not known.
    pub fn new(
        source: Source,
        topology: &Topology,
        kernels: Catalogue,
        clock_hz: Option<f64>,
    ) -> Option<Self> {
        let cpus: Vec<u32> = topology.usable_cores().iter().collect();
        let first = *cpus.first()?;
        let package = |cpu: u32| topology.cpus.iter().find(|one| one.id == cpu).and_then(|one| one.socket);
        let beside: Vec<u32> = cpus.iter().copied().filter(|&cpu| package(cpu) == package(first)).collect();
        let size = |level: u32| {
            let caches = topology.data_caches_of(first);
            caches.iter().find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?.size
        };
        let isa = Isa::native();
        let machine = Machine {
            l1: size(1)?,
            l2: size(2)?,
            l3: size(3),
            cores: beside.len(),
            remote: topology.nodes.iter().filter(|node| node.memory.is_some()).count() > 1,
            prefetch_switch: false,
            widths: Width::ALL.into_iter().filter(|&width| isa.supports(width)).collect(),
        };
        let instrument = PerfEvents::new(&pmu::Live, source);
        Some(Self { instrument, kernels, l3: machine.l3, machine, cpus: beside, clock_hz })
    }

    fn kernel(&self, experiment: &Experiment) -> Result<Kernel, String> {
        let mut kernel = self.kernels.get(&experiment.kernel).map_err(|error| error.to_string())?;
        for (name, value) in &experiment.parameters {
            kernel = kernel.with(name, *value).map_err(|error| error.to_string())?;
        }
        Ok(kernel)
    }

    /// Boxes outside the cores count everybody; events of a core only our threads.
    fn scope(&self, event: &Event) -> Scope {
        match event.unit() {
            None | Some(Unit::Core) => Scope::Process(std::process::id()),
            Some(_) => Scope::Cpus(self.cpus.iter().copied().collect::<CpuSet>()),
        }
    }

    /// Runs and counts one set of events after the other.
    fn count(
        &self,
        workload: &mut Workload,
        events: &[Event],
        passes: u64,
    ) -> Result<(f64, Vec<Counted>), String> {
        let mut counted: Vec<Counted> = vec![Err("it was not counted".to_owned()); events.len()];
        let mut times = Vec::new();
        let (own, boxes): (Vec<usize>, Vec<usize>) =
            (0..events.len()).partition(|&at| matches!(self.scope(&events[at]), Scope::Process(_)));
        for group in [own, boxes] {
            let Some(scope) = group.first().map(|&at| self.scope(&events[at])) else { continue };
            let wanted: Vec<Event> = group.iter().map(|&at| events[at].clone()).collect();
            let sets = self.instrument.runs(&wanted, &scope).map_err(|refusal| refusal.to_string())?;
            for set in sets {
                let some: Vec<Event> = set.iter().map(|&at| wanted[at].clone()).collect();
                let request = Open {
                    events: some,
                    scope: scope.clone(),
                    too_many: TooMany::Refuse,
                    share: Share::Together,
                };
                let mut counting = match self.instrument.open(&request) {
                    Ok(counting) => counting,
                    Err(refusal) => {
                        set.iter().for_each(|&at| counted[group[at]] = Err(refusal.to_string()));
                        continue;
                    }
                };
                counting.start().map_err(|refusal| refusal.to_string())?;
                let run = workload.run(passes).map_err(|error| error.to_string())?;
                counting.stop().map_err(|refusal| refusal.to_string())?;
                let counts = counting.read().map_err(|refusal| refusal.to_string())?;
                times.push(run.elapsed_ns() as f64);
                for (place, &at) in set.iter().enumerate() {
                    counted[group[at]] = sum(&counts, place);
                }
            }
        }
        let elapsed_ns = crate::validate::judge::median(&times).unwrap_or(0.0);
        Ok((elapsed_ns, counted))
    }

    fn truth(
        &self,
        kernel: &Kernel,
        workload: &Workload,
        cores: usize,
        passes: u64,
        elapsed_ns: f64,
    ) -> Truth {
        let mut truth = Truth { imbalance: 1.0, ..Truth::default() };
        for counts in workload.counts(passes) {
            truth.instructions += counts.instructions as f64;
            truth.loads += counts.loads as f64;
            truth.stores += counts.stores as f64;
            truth.branches += counts.branches as f64;
            truth.flops += counts.flops as f64;
        }
        let pass = workload.pass();
        truth.chain = pass.chain as f64 * passes as f64;
        truth.handed_over = pass.modified_transfers as f64 * passes as f64;
        truth.cycles = self.clock_hz.map(|hz| elapsed_ns * hz / 1e9 * cores as f64);
        let share = |used: bool| f64::from(u8::from(used));
        let uses = traffic::uses(kernel.description());
        let read: f64 = uses.iter().map(|used| share(used.read)).sum();
        let owned: f64 = uses.iter().map(|used| share(used.written && !used.read)).sum();
        let streams = (read + owned).max(1.0);
        let shared = self.l3.map_or(self.machine.l2.0, |l3| l3.0 / cores as u64);
        for (below, capacity) in truth.below.iter_mut().zip([self.machine.l1.0, self.machine.l2.0, shared]) {
            for member in 0..cores {
                let lines = traffic::lines_below(kernel, workload.geometry(member), Bytes(capacity));
                let lines = lines.unwrap_or_default();
                let passes = passes as f64;
                *below = Lines {
                    read: below.read + lines.inward * read / streams * passes,
                    owned: below.owned + lines.inward * owned / streams * passes,
                    out: below.out + lines.outward * passes,
                    past: below.past + lines.non_temporal * passes,
                };
            }
        }
        truth
    }

    fn observed(&self, experiment: &Experiment, names: &[String]) -> Result<Observation, String> {
        let kernel = self.kernel(experiment)?;
        let width = kernel.width_on(&Isa::native(), experiment.width).map_err(|error| error.to_string())?;
        let cpus = self.cpus.get(..experiment.cores).ok_or("not so many cores may be used")?;
        let request = Request {
            kernel: &kernel,
            width,
            size: experiment.size,
            cpus,
            node: experiment.remote.then_some(1),
            pages: PagePolicy::default(),
            seed: 1,
        };
        let mut workload = Workload::prepare(&request).map_err(|error| error.to_string())?;
        let warm = workload.run(1).map_err(|error| error.to_string())?.elapsed_ns() as f64;
        let passes = (SPAN_NS / warm.max(1.0)).clamp(1.0, 1e7) as u64;
        let resolved: Result<Vec<Event>, _> =
            names.iter().map(|name| self.instrument.resolve(name)).collect();
        let events = resolved.map_err(|refusal| refusal.to_string())?;
        let (elapsed_ns, counted) = self.count(&mut workload, &events, passes)?;
        let truth = self.truth(&kernel, &workload, experiment.cores, passes, elapsed_ns);
        Ok(Observation {
            experiment: experiment.clone(),
            elapsed_ns,
            truth,
            counts: names.iter().cloned().zip(counted).collect(),
            imbalance: Vec::new(),
        })
    }
}

impl Bench for NativeBench {
    fn name(&self) -> String {
        self.instrument.name()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn probe(&self, event: &str) -> Result<Signal, Refusal> {
        let event = self.instrument.resolve(event)?;
        let scope = self.scope(&event);
        let (too_many, share) = (TooMany::Refuse, Share::Together);
        let request = Open { events: vec![event.clone()], scope, too_many, share };
        self.instrument.open(&request).map(|_| event.signal)
    }

    fn observe(
        &mut self,
        experiment: &Experiment,
        events: &[String],
        interrupt: &AtomicBool,
    ) -> Result<Observation, ObserveError> {
        if interrupt.load(Ordering::Relaxed) {
            return Err(ObserveError::Interrupted);
        }
        self.observed(experiment, events)
            .map_err(|reason| ObserveError::Failed { experiment: experiment.label(), reason })
    }

    fn sampled_latency(&mut self, _: &Experiment, _: &AtomicBool) -> Result<Option<Vec<f64>>, ObserveError> {
        // Loads are not sampled natively by this step: the indicator stays untested.
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::simulated::experiment;
    use record::validate::Place;

    #[test]
    fn known_work_runs_here_under_an_event_that_every_kernel_has() {
        let source = Source::live();
        let topology = Topology::read(&source);
        let kernels = Catalogue::builtin().expect("kernels");
        let mut bench = NativeBench::new(source, &topology, kernels, Some(1e9)).expect("a CPU");
        if let Err(why) = bench.probe("task-clock") {
            prerequisites::skip(prerequisites::PERF_EVENT, why);
            return;
        }
        let experiment = experiment(bench.machine(), "copy", Place::L2, 1).expect("a level");
        let events = ["task-clock".to_owned()];
        let observation =
            bench.observe(&experiment, &events, &AtomicBool::new(false)).expect("an observation");
        let busy_ns = observation.count("task-clock").expect("a count");
        // How much of the elapsed time it is, is up to who else runs here.
        assert!(busy_ns > 0.0, "{busy_ns} of {}", observation.elapsed_ns);
        assert_eq!(observation.truth.below[0].read, observation.truth.below[0].owned);
        assert!(observation.truth.below[0].read > 0.0 && observation.truth.below[1].read == 0.0);
    }
}
