//! Experiments on a simulated machine: all events at once.

use std::sync::atomic::{AtomicBool, Ordering};

use events::{
    Count, CountRefusal, CountRequest, CountShare, CountedPlace as Where, Event, Instrument, Scope, Signal,
    TooMany, Unit,
};
use kernels::{Job, Kernel, KernelCatalogue};
use machine::{Width, model::Model};
use record::validate::{Experiment, Observation};
use sim::{
    access::{Supplier, Translation},
    memory::PrefetchSwitches,
    pmu::{SampleRequest, SimulatedPmu},
};
use trust::KernelPlace;

use host::{
    Host,
    meter::{Conditions, MeteredPart},
    simulated::Simulated,
};

use crate::{
    bench::{Bench, Machine, ObserveError, SampledLoads},
    roles::Role,
};

/// Loads from one sample to the next.
const SAMPLE_PERIOD: u64 = 13;

/// A simulated machine with its PMU.
pub struct SimulatedBench<'a> {
    model: &'a Model,
    host: Simulated,
    pmu: SimulatedPmu,
    machine: Machine,
    seed: u64,
    conditions: Conditions,
}

impl<'a> SimulatedBench<'a> {
    /// The machine of `model`, counted by `pmu`. Disturbance and interrupts are those of `conditions`.
    pub fn new(
        model: &'a Model,
        pmu: SimulatedPmu,
        kernels: KernelCatalogue,
        seed: u64,
        conditions: Conditions,
    ) -> Self {
        let machine = Machine {
            l1: model.l1d.geometry.size,
            l2: model.l2.geometry.size,
            l3: model.l3.as_ref().map(|l3| l3.geometry.size),
            claimed_last: model.l3.as_ref().map_or(model.l2.geometry.size, |l3| l3.geometry.size),
            cores: model.cores_per_socket as usize,
            threads_per_core: model.threads_per_core as usize,
            remote: model.sockets > 1,
            prefetch_switch: true,
            widths: Width::ALL.into_iter().filter(|&width| model.isa.supports(width)).collect(),
        };
        let host = Simulated::with_kernels(model, kernels, seed).counted_by(&pmu);
        Self { model, host, pmu, machine, seed, conditions }
    }

    fn kernel(&self, experiment: &Experiment) -> Result<Kernel, ObserveError> {
        let failed = |reason: String| ObserveError::Failed { experiment: experiment.label(), reason };
        let mut kernel =
            self.host.kernels().get(&experiment.kernel).map_err(|error| failed(error.to_string()))?;
        for (name, value) in &experiment.parameters {
            kernel = kernel.with(name, *value).map_err(|error| failed(error.to_string()))?;
        }
        Ok(kernel)
    }

    fn part(&self, experiment: &Experiment) -> MeteredPart {
        let prefetchers = if experiment.prefetch { PrefetchSwitches::ON } else { PrefetchSwitches::OFF };
        MeteredPart::Steady(Conditions { prefetchers, ..self.conditions })
    }

    fn job(&self, experiment: &Experiment) -> Result<Job, ObserveError> {
        let threads = if experiment.siblings { self.machine.threads_per_core as u32 } else { 1 };
        let cores = 0..experiment.cores as u32;
        let cpus: Vec<u32> = cores
            .flat_map(|core| (0..threads).map(move |thread| (thread, core)))
            .map(|(thread, core)| thread * self.model.cores() + core)
            .collect();
        let job = Job::new(self.kernel(experiment)?, experiment.size, &cpus);
        let seed = self.seed.wrapping_mul(1000) + u64::from(experiment.run);
        Ok(Job { width: experiment.width, ..job }.on_node(experiment.remote.then_some(1)).seeded(seed))
    }
}

impl Bench for SimulatedBench<'_> {
    fn name(&self) -> String {
        self.pmu.name()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn twin(&self) -> Option<Box<dyn Bench + Send + '_>> {
        let (pmu, kernels) = (self.pmu.twin(), self.host.kernels().clone());
        Some(Box::new(SimulatedBench::new(self.model, pmu, kernels, self.seed, self.conditions)))
    }

    fn probe(&self, event: &str) -> Result<Signal, CountRefusal> {
        let event = self.pmu.resolve(event)?;
        let request = CountRequest {
            events: vec![event.clone()],
            scope: Scope::Cpus([0].into_iter().collect()),
            too_many: TooMany::AllAtOnce,
            share: CountShare::Together,
        };
        self.pmu.open(&request).map(|_| event.signal)
    }

    fn observe(
        &mut self,
        experiment: &Experiment,
        names: &[String],
        interrupt: &AtomicBool,
    ) -> Result<Observation, ObserveError> {
        let failed = |reason: String| ObserveError::Failed { experiment: experiment.label(), reason };
        let (job, part) = (self.job(experiment)?, self.part(experiment));
        let resolved: Result<Vec<Event>, _> = names.iter().map(|name| self.pmu.resolve(name)).collect();
        let resolved = resolved.map_err(|refusal| failed(refusal.to_string()))?;
        let (too_many, share, scope) = (TooMany::AllAtOnce, CountShare::Each, self.host.scope(&job.cpus));
        let request = CountRequest { events: resolved.clone(), scope, too_many, share };
        let mut counting = self.pmu.open(&request).map_err(|refusal| failed(refusal.to_string()))?;
        let run = self.host.run_metered(&job, part, &mut counting, interrupt);
        let run = run.map_err(|error| failed(error.source.to_string()))?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(ObserveError::Interrupted);
        }
        let mut at_home = counting.read().map_err(|refusal| failed(refusal.to_string()))?;
        // A link is looked at from the package that works: the other sends what this one receives.
        at_home.retain(|count| match &count.place {
            Where::Box { package, .. } => *package == 0 || !is_link(&resolved[count.event]),
            _ => true,
        });
        let unbalanced = Role::of(self.kernel(experiment)?.description()) == Some(Role::Unbalanced);
        let counts = names.iter().enumerate().map(|(event, name)| (name.clone(), sum(&at_home, event)));
        let imbalance = names.iter().enumerate().filter_map(|(event, name)| {
            Some((name.clone(), imbalance(&at_home, event).filter(|_| unbalanced)?))
        });
        Ok(Observation {
            experiment: experiment.clone(),
            elapsed_ns: run.elapsed_ns.iter().sum(),
            truth: run.truth,
            counts: counts.collect(),
            imbalance: imbalance.collect(),
        })
    }

    fn sampled_latency(
        &mut self,
        experiment: &Experiment,
        interrupt: &AtomicBool,
    ) -> Result<SampledLoads, ObserveError> {
        let event = match self.pmu.resolve("mem-loads") {
            Ok(event) => event,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let failed = |reason: String| ObserveError::Failed { experiment: experiment.label(), reason };
        let job = self.job(experiment)?;
        let cpus = job.cpus.iter().copied().collect();
        let request = SampleRequest { event, period: SAMPLE_PERIOD, cpus };
        let part = self.part(experiment);
        let mut sampling = self.pmu.sample(&request).map_err(|refusal| failed(refusal.to_string()))?;
        let run = self.host.run_metered(&job, part, &mut sampling, interrupt);
        run.map_err(|error| failed(error.source.to_string()))?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(ObserveError::Interrupted);
        }
        let samples = sampling.take();
        let from_memory = |supplier| matches!(supplier, Supplier::LocalMemory | Supplier::RemoteMemory);
        let kept = samples
            .iter()
            .filter_map(|(_, sample)| sample.load)
            .filter(|load| from_memory(load.supplier) && load.translation == Translation::L1);
        Ok(Ok(kept.map(|load| load.latency_cycles as f64).collect()))
    }
}

fn is_link(event: &Event) -> bool {
    matches!(&event.signal, Signal::Encoded(encoding) if encoding.unit == Unit::Link)
}

/// An event over all places, or why there is no value.
pub(super) fn sum(counts: &[Count], event: usize) -> Result<f64, String> {
    let mut total = None;
    for count in counts.iter().filter(|count| count.event == event) {
        match count.value.estimate() {
            Some(value) => total = Some(total.unwrap_or(0.0) + value),
            None => return Err(format!("{:?}", count.value)),
        }
    }
    total.ok_or_else(|| "this machine has no unit that counts it".to_owned())
}

/// The busiest CPU over the idlest.
fn imbalance(counts: &[Count], event: usize) -> Option<f64> {
    let of_cpus = counts.iter().filter(|count| count.event == event && matches!(count.place, Where::Cpu(_)));
    let values: Vec<f64> = of_cpus.filter_map(|count| count.value.estimate()).collect();
    let (least, most) = values
        .iter()
        .fold((f64::INFINITY, 0.0), |(low, high), &value| (f64::min(low, value), f64::max(high, value)));
    (values.len() > 1 && least > 0.0).then(|| most / least)
}

/// Where data of a size class lies; for experiments made by hand.
pub fn experiment(machine: &Machine, kernel: &str, place: KernelPlace, cores: usize) -> Option<Experiment> {
    Some(Experiment {
        kernel: kernel.to_owned(),
        parameters: Vec::new(),
        place,
        size: machine.size(place, cores)?,
        width: None,
        cores,
        remote: false,
        siblings: false,
        prefetch: true,
        run: 0,
    })
}
