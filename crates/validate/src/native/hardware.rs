//! Experiments on this machine: known work on pinned threads under perf_event.

use std::sync::atomic::{AtomicBool, Ordering};

use events::{
    Catalogue, CountRefusal, CountRequest as Open, CountShare, Counting, Event, Instrument as _, Scope,
    Signal, TooMany, Unit,
};
use kernels::{Job, KernelCatalogue};
use machine::{CpuSet, Isa, Source, Topology, Width, topology::CacheKind};
use pmu::{LinuxKernel, PerfEvents};
use record::validate::{Counted, Experiment, Observation};

use host::{
    Host,
    meter::{Conditions, Meter, MeteredPart},
    native::Native,
};

use crate::{
    bench::{Bench, Machine, ObserveError, SampledLoads},
    native::{
        loads::LoadMeter,
        prefetchers::{PrefetchControl, PrefetchersOff},
    },
    simulated::sum,
    unseen::CacheSizes,
};

/// How Intel's processors call their maker.
const INTEL: &str = "GenuineIntel";

/// This machine under perf_event.
pub struct NativeBench<'k> {
    kernel: &'k dyn LinuxKernel,
    instrument: PerfEvents<'k>,
    host: Native,
    machine: Machine,
    cpus: Vec<u32>,
    /// The other threads of the first core.
    siblings: Vec<u32>,
    /// Where prefetchers can be switched.
    prefetchers: Option<PrefetchControl>,
    clock_hz: Option<f64>,
}

impl<'k> NativeBench<'k> {
    /// On a machine whose files lie under `source`, asking `kernel`. `caches` are as large as they were measured to be, where they were. None if nobody knows how large they are.
    pub fn new(
        kernel: &'k dyn LinuxKernel,
        source: Source,
        topology: &Topology,
        kernels: KernelCatalogue,
        caches: &dyn Fn(u32) -> Option<CacheSizes>,
        clock_hz: Option<f64>,
    ) -> Option<Self> {
        let cpus: Vec<u32> = topology.usable_cores().iter().collect();
        let first = *cpus.first()?;
        let package = |cpu: u32| topology.cpus.iter().find(|one| one.id == cpu).and_then(|one| one.socket);
        let beside: Vec<u32> = cpus.iter().copied().filter(|&cpu| package(cpu) == package(first)).collect();
        let claimed = |level: u32| {
            let caches = topology.data_caches_of(first);
            caches.iter().find(|cache| cache.level == level && cache.kind != CacheKind::Instruction)?.size
        };
        let [l1, l2, last] = caches(first)?.bytes;
        let own = topology.cpus.iter().find(|cpu| cpu.id == first).map(|cpu| cpu.siblings.clone());
        let usable = topology.usable_cpus();
        let siblings: Vec<u32> =
            own.iter().flat_map(CpuSet::iter).filter(|&cpu| cpu != first && usable.contains(cpu)).collect();
        // Of other makers, and of cores that nobody describes, it may be another register.
        let intel =
            topology.cpu.vendor.as_deref() == Some(INTEL) && Catalogue::for_cpu(&topology.cpu).is_some();
        let prefetchers = intel.then(|| PrefetchControl::find(source.root(), &beside)).flatten();
        let isa = Isa::native();
        let machine = Machine {
            l1,
            l2,
            l3: claimed(3).map(|_| last),
            claimed_last: claimed(3).or(claimed(2)).unwrap_or(l2),
            cores: beside.len(),
            threads_per_core: siblings.len() + 1,
            remote: topology.nodes.iter().filter(|node| node.memory.is_some()).count() > 1,
            prefetch_switch: prefetchers.is_some(),
            widths: Width::ALL.into_iter().filter(|&width| isa.supports(width)).collect(),
        };
        let host = Native::with_kernels(&source, kernels, 1);
        let instrument = PerfEvents::new(kernel, source);
        Some(Self { kernel, instrument, host, machine, cpus: beside, siblings, prefetchers, clock_hz })
    }

    fn job(&self, experiment: &Experiment) -> Result<Job, String> {
        let mut kernel = self.host.kernels().get(&experiment.kernel).map_err(|error| error.to_string())?;
        for (name, value) in &experiment.parameters {
            kernel = kernel.with(name, *value).map_err(|error| error.to_string())?;
        }
        let mut cpus = self.cpus.get(..experiment.cores).ok_or("not so many cores may be used")?.to_vec();
        if experiment.siblings {
            cpus.extend(&self.siblings);
        }
        let job = Job::new(kernel, experiment.size, &cpus).on_node(experiment.remote.then_some(1));
        Ok(Job { width: experiment.width, ..job })
    }

    /// The sets of events that are counted one after the other.
    fn sets(&self, events: &[Event]) -> Result<Vec<(Scope, Vec<usize>)>, String> {
        let mut sets = Vec::new();
        let (own, boxes): (Vec<usize>, Vec<usize>) =
            (0..events.len()).partition(|&at| matches!(self.scope(&events[at]), Scope::Process(_)));
        for group in [own, boxes] {
            let Some(scope) = group.first().map(|&at| self.scope(&events[at])) else { continue };
            let wanted: Vec<Event> = group.iter().map(|&at| events[at].clone()).collect();
            let runs = self.instrument.runs(&wanted, &scope).map_err(|refusal| refusal.to_string())?;
            let places = |set: Vec<usize>| set.iter().map(|&at| group[at]).collect();
            sets.extend(runs.into_iter().map(|set| (scope.clone(), places(set))));
        }
        Ok(sets)
    }

    /// Boxes outside the cores count everybody; events of a core only our threads.
    fn scope(&self, event: &Event) -> Scope {
        match event.unit() {
            None | Some(Unit::Core) => Scope::Process(std::process::id()),
            Some(_) => Scope::Cpus(self.cpus.iter().copied().collect::<CpuSet>()),
        }
    }

    /// Switches prefetchers off while an experiment wants them off.
    fn prefetchers_of(&self, experiment: &Experiment) -> Result<Option<PrefetchersOff>, String> {
        match (experiment.prefetch, &self.prefetchers) {
            (true, _) => Ok(None),
            (false, Some(control)) => control.off().map(Some).map_err(|error| error.to_string()),
            (false, None) => Err("prefetchers cannot be switched here".to_owned()),
        }
    }

    fn sampled(&mut self, experiment: &Experiment, interrupt: &AtomicBool) -> Result<SampledLoads, String> {
        let job = self.job(experiment)?;
        let _off = self.prefetchers_of(experiment)?;
        let cpus = job.cpus.iter().copied().collect();
        let mut meter = LoadMeter::new(self.kernel, self.instrument.pmus(), cpus);
        let part = MeteredPart::Steady(Conditions::default());
        let run = self.host.run_metered(&job, part, &mut meter, interrupt);
        run.map_err(|error| error.source.to_string())?;
        Ok(meter.taken())
    }

    fn observed(
        &mut self,
        experiment: &Experiment,
        names: &[String],
        interrupt: &AtomicBool,
    ) -> Result<Observation, String> {
        let job = self.job(experiment)?;
        let _off = self.prefetchers_of(experiment)?;
        let resolved: Result<Vec<Event>, _> =
            names.iter().map(|name| self.instrument.resolve(name)).collect();
        let events = resolved.map_err(|refusal| refusal.to_string())?;
        let sets = self.sets(&events)?;
        let counted = vec![Err("it was not counted".to_owned()); events.len()];
        let instrument = &self.instrument;
        let mut meter = SetBySet { instrument, events: &events, sets, at: 0, counting: None, counted };
        let part = MeteredPart::Steady(Conditions::default());
        let run = self.host.run_metered(&job, part, &mut meter, interrupt);
        let run = run.map_err(|error| error.source.to_string())?;
        let elapsed_ns = crate::judge::median(&run.elapsed_ns).unwrap_or(0.0);
        let mut truth = run.truth;
        truth.cycles = self.clock_hz.map(|hz| elapsed_ns * hz / 1e9 * job.cpus.len() as f64);
        Ok(Observation {
            experiment: experiment.clone(),
            elapsed_ns,
            truth,
            counts: names.iter().cloned().zip(meter.counted).collect(),
            imbalance: Vec::new(),
        })
    }
}

/// Counts one set of events after the other, each while the work runs once more.
struct SetBySet<'a> {
    instrument: &'a PerfEvents<'a>,
    events: &'a [Event],
    sets: Vec<(Scope, Vec<usize>)>,
    at: usize,
    counting: Option<Box<dyn Counting + 'a>>,
    counted: Vec<Counted>,
}

impl Meter for SetBySet<'_> {
    /// Opens the next set that is not refused.
    fn begin(&mut self) -> Result<(), CountRefusal> {
        while let Some((scope, set)) = self.sets.get(self.at) {
            let events = set.iter().map(|&at| self.events[at].clone()).collect();
            let (scope, too_many, share) = (scope.clone(), TooMany::Refuse, CountShare::Together);
            match self.instrument.open(&Open { events, scope, too_many, share }) {
                Ok(mut counting) => {
                    counting.start()?;
                    self.counting = Some(counting);
                    return Ok(());
                }
                Err(refusal) => {
                    set.iter().for_each(|&at| self.counted[at] = Err(refusal.to_string()));
                    self.at += 1;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        let Some(mut counting) = self.counting.take() else { return Ok(false) };
        counting.stop()?;
        let counts = counting.read()?;
        for (place, &at) in self.sets[self.at].1.iter().enumerate() {
            self.counted[at] = sum(&counts, place);
        }
        self.at += 1;
        Ok(self.at < self.sets.len())
    }
}

impl Bench for NativeBench<'_> {
    fn name(&self) -> String {
        self.instrument.name()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn probe(&self, event: &str) -> Result<Signal, CountRefusal> {
        let event = self.instrument.resolve(event)?;
        let scope = self.scope(&event);
        let (too_many, share) = (TooMany::Refuse, CountShare::Together);
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
        self.observed(experiment, events, interrupt)
            .map_err(|reason| ObserveError::Failed { experiment: experiment.label(), reason })
    }

    fn sampled_latency(
        &mut self,
        experiment: &Experiment,
        interrupt: &AtomicBool,
    ) -> Result<SampledLoads, ObserveError> {
        let sampled = self
            .sampled(experiment, interrupt)
            .map_err(|reason| ObserveError::Failed { experiment: experiment.label(), reason })?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(ObserveError::Interrupted);
        }
        Ok(sampled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::experiment;
    use machine::Bytes;
    use trust::KernelPlace;

    #[test]
    fn caches_are_as_large_as_they_were_measured_whatever_they_claim() {
        let source = Source::live();
        let topology = Topology::read(&source);
        let measured = [16, 100, 1000].map(Bytes::kib);
        let caches = |_: u32| Some(CacheSizes { bytes: measured });
        let kernels = KernelCatalogue::builtin().expect("kernels");
        let bench = NativeBench::new(&pmu::Live, source, &topology, kernels, &caches, None).expect("a CPU");
        let machine = bench.machine();
        assert_eq!((machine.l1, machine.l2), (measured[0], measured[1]));
        assert!(machine.l3.is_none_or(|l3| l3 == measured[2]));
        let memory = machine.size(KernelPlace::Memory, 1).expect("memory");
        assert!(memory.0 >= 4 * machine.claimed_last.0, "{memory}");
    }

    #[test]
    fn known_work_runs_here_under_an_event_that_every_kernel_has() {
        let source = Source::live();
        let topology = Topology::read(&source);
        let kernels = KernelCatalogue::builtin().expect("kernels");
        let caches = |cpu: u32| CacheSizes::of(None, &topology, cpu);
        let mut bench =
            NativeBench::new(&pmu::Live, source, &topology, kernels, &caches, Some(1e9)).expect("a CPU");
        if let Err(why) = bench.probe("task-clock") {
            prerequisites::skip(prerequisites::Need::PerfEvent, why);
            return;
        }
        let experiment = experiment(bench.machine(), "copy", KernelPlace::L2, 1).expect("a level");
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
