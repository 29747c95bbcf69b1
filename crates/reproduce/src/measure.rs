//! One setup on one model: what it did and what its PMU counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

use events::{CountRequest, CountShare, CountedPlace, Event, Instrument as _, TooMany, Unit};
use host::{
    Host as _,
    meter::{Conditions, Interruptions, MeteredPart, MeteredRun},
    simulated::Simulated,
};
use kernels::{Job, KernelCatalogue};
use machine::model::Model;
use record::validate::{Lines, Truth};
use serde::{Deserialize, Serialize};
use sim::{
    access::{Supplier, Translation},
    memory::{Disturbance, PrefetchSwitches},
    pmu::{Flaws, SampleRequest, SimulatedPmu},
};

use crate::{
    metrics::{AskedGroup, is_group},
    paper::NoiseAmplitudes,
    setup::PaperSetup,
    squeezed,
};

/// Why there is no sampled latency.
pub(crate) const NO_SAMPLE: &str = "no load from memory was sampled";

/// The package whose memory is remote.
const REMOTE: u32 = 1;

/// What one run gave, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetupReading {
    /// What it did and what was counted.
    pub values: BTreeMap<String, f64>,
    /// What could not be counted, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Why there is no reading.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// It cannot be run.
    #[error("{setup}: {reason}")]
    Failed {
        /// What.
        setup: String,
        /// Why.
        reason: String,
    },
}

/// What is measured where.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// The machine.
    pub model: &'a Model,
    /// How much others disturb it, if it is disturbed.
    pub noise: Option<&'a NoiseAmplitudes>,
    /// What runs.
    pub setup: &'a PaperSetup,
    /// The repetition, from 0: another seed.
    pub seed: u32,
    /// What is counted, by the names that formulas use; groups for all their metrics.
    pub events: &'a [String],
    /// What some of these names stand for.
    pub aliases: &'a BTreeMap<String, String>,
}

impl Measurement<'_> {
    fn failed(&self, reason: impl ToString) -> MeasureError {
        MeasureError::Failed { setup: self.setup.key(), reason: reason.to_string() }
    }

    fn job(&self, kernels: &KernelCatalogue) -> Result<Job, MeasureError> {
        let setup = self.setup;
        let mut kernel = kernels.get(&setup.kernel).map_err(|error| self.failed(error))?;
        for (name, value) in &setup.parameters {
            kernel = kernel.with(name, *value).map_err(|error| self.failed(error))?;
        }
        let job = Job::new(kernel, setup.bytes(self.model), &setup.cpus(self.model));
        let job = Job { width: setup.width, ..job };
        let job = if setup.small_pages { job.on_small_pages() } else { job };
        Ok(job.on_node(setup.remote.then_some(REMOTE)).seeded(1 + u64::from(self.seed)))
    }

    /// Packages that work or have the data: what others draw from an idle one is nobody's error.
    fn packages(&self, job: &Job) -> BTreeSet<u32> {
        let per_package = self.model.cores_per_socket.max(1);
        let working = job.cpus.iter().map(|cpu| cpu % self.model.cores().max(1) / per_package);
        working.chain(self.setup.remote.then_some(REMOTE)).collect()
    }

    fn part(&self) -> MeteredPart {
        if let Some(passes) = self.setup.cold_passes {
            return MeteredPart::Passes { warm_up: 0, passes: Some(passes) };
        }
        let noise = self.noise.filter(|_| self.setup.noise);
        MeteredPart::Steady(Conditions {
            prefetchers: if self.setup.prefetch { PrefetchSwitches::ON } else { PrefetchSwitches::OFF },
            disturbance: noise.map(|noise| Disturbance {
                memory_lines_per_s: noise.memory_lines_per_s,
                l3_lines_per_s: noise.l3_lines_per_s,
            }),
            interrupts: noise.map(|noise| Interruptions {
                every_ns: noise.interrupt_every_ns,
                lasts_ns: noise.interrupt_lasts_ns,
            }),
            instructions: self.setup.instructions,
        })
    }

    /// Runs it.
    pub fn run(&self, interrupt: &AtomicBool) -> Result<SetupReading, MeasureError> {
        if let Some(squeezed) = &self.setup.squeezed {
            let values = squeezed::run(self.model, self.setup, squeezed, interrupt);
            if interrupt.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted);
            }
            let values = values.map_err(|reason| self.failed(reason))?;
            return Ok(SetupReading { values, missing: BTreeMap::new() });
        }
        let kernels = KernelCatalogue::builtin().map_err(|error| self.failed(error))?;
        let job = self.job(&kernels)?;
        let pmu = SimulatedPmu::new(self.model, Flaws::of(self.model)).map_err(|error| self.failed(error))?;
        let mut host = Simulated::with_kernels(self.model, kernels, 1).counted_by(&pmu);
        let mut reading = SetupReading::default();
        let mut resolved: Vec<(&String, Event)> = Vec::new();
        let has = |event: &str| pmu.resolve(event).is_ok();
        let groups: Vec<AskedGroup> =
            self.events.iter().filter_map(|name| AskedGroup::new(name, &has)).collect();
        let mut names: BTreeSet<String> =
            self.events.iter().filter(|name| !is_group(name)).cloned().collect();
        groups.iter().for_each(|group| group.add_events(&mut names));
        for name in &names {
            match pmu.resolve(self.aliases.get(name).unwrap_or(name)).and_then(|event| countable(&pmu, event))
            {
                Ok(event) => resolved.push((name, event)),
                Err(refusal) => _ = reading.missing.insert(name.clone(), refusal.to_string()),
            }
        }
        let request = CountRequest {
            events: resolved.iter().map(|(_, event)| event.clone()).collect(),
            scope: host.scope(&job.cpus),
            too_many: TooMany::AllAtOnce,
            share: CountShare::Each,
        };
        let mut counting = pmu.open(&request).map_err(|error| self.failed(error))?;
        let run = host.run_metered(&job, self.part(), &mut counting, interrupt);
        let run = run.map_err(|error| self.failed(error.source))?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(MeasureError::Interrupted);
        }
        let counts = counting.read().map_err(|error| self.failed(error))?;
        drop(counting);
        let packages = self.packages(&job);
        for (index, (name, event)) in resolved.iter().enumerate() {
            for count in counts.iter().filter(|count| count.event == index) {
                if matches!(&count.place, CountedPlace::Box { package, .. } if !counts_box(event, *package, &packages))
                {
                    continue;
                }
                let Some(value) = count.value.estimate() else { continue };
                *reading.values.entry((*name).clone()).or_insert(0.0) += value;
                if let (true, CountedPlace::Cpu(cpu)) = (self.setup.by_cpu, &count.place) {
                    let thread = job.cpus.iter().position(|own| own == cpu);
                    thread.map(|thread| reading.values.insert(format!("{name}@cpu{thread}"), value));
                }
            }
        }
        self.add_work(&mut reading, &run, job.cpus.len());
        groups.iter().for_each(|group| group.add_to(&mut reading));
        if let Some(period) = self.setup.sample_one_in {
            self.sample(&mut reading, &mut host, &pmu, &job, period, interrupt)?;
        }
        Ok(reading)
    }

    fn add_work(&self, reading: &mut SetupReading, run: &MeteredRun, cores: usize) {
        let Truth { instructions, loads, stores, branches, flops, cycles, below, chain, handed_over, .. } =
            run.truth;
        let mut add = |name: &str, value: f64| _ = reading.values.insert(name.to_owned(), value);
        add("time", run.elapsed_ns.iter().sum::<f64>() / 1e9);
        add("cores", cores as f64);
        add("core_hz", self.model.clock.core_hz as f64);
        for (name, value) in [
            ("instructions", instructions),
            ("loads", loads),
            ("stores", stores),
            ("branches", branches),
            ("flops", flops),
            ("chain", chain),
            ("handed_over", handed_over),
            ("past", below[2].past),
        ] {
            add(name, value);
        }
        cycles.into_iter().for_each(|cycles| add("cycles", cycles));
        for (level, Lines { read, owned, out, .. }) in ["l1", "l2", "l3"].into_iter().zip(below) {
            add(&format!("{level}_in"), read + owned);
            add(&format!("{level}_in_read"), read);
            add(&format!("{level}_in_owned"), owned);
            add(&format!("{level}_out"), out);
        }
    }

    /// Mean latency of sampled loads from memory whose translation was there, in cycles (helm2019 §6.1).
    fn sample(
        &self,
        reading: &mut SetupReading,
        host: &mut Simulated,
        pmu: &SimulatedPmu,
        job: &Job,
        period: u64,
        interrupt: &AtomicBool,
    ) -> Result<(), MeasureError> {
        let event = pmu.resolve("mem-loads").map_err(|error| self.failed(error))?;
        let request = SampleRequest { event, period, cpus: job.cpus.iter().copied().collect() };
        let mut sampling = pmu.sample(&request).map_err(|error| self.failed(error))?;
        let run = host.run_metered(job, self.part(), &mut sampling, interrupt);
        run.map_err(|error| self.failed(error.source))?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(MeasureError::Interrupted);
        }
        let samples = sampling.take();
        let from_memory = |supplier| matches!(supplier, Supplier::LocalMemory | Supplier::RemoteMemory);
        let loads = samples.iter().filter_map(|(_, sample)| sample.load);
        let kept: Vec<f64> = loads
            .filter(|load| from_memory(load.supplier) && load.translation == Translation::L1)
            .map(|load| load.latency_cycles as f64)
            .collect();
        reading.values.insert("samples".to_owned(), kept.len() as f64);
        match kept.is_empty() {
            true => _ = reading.missing.insert("sampled_latency".to_owned(), NO_SAMPLE.to_owned()),
            false => {
                let mean = kept.iter().sum::<f64>() / kept.len() as f64;
                _ = reading.values.insert("sampled_latency".to_owned(), mean);
            }
        }
        Ok(())
    }
}

/// An event that this machine can count: refusals come one by one, not for all together.
fn countable(pmu: &SimulatedPmu, event: Event) -> Result<Event, events::CountRefusal> {
    let request = CountRequest {
        events: vec![event.clone()],
        scope: events::Scope::Cpus([0].into_iter().collect()),
        too_many: TooMany::AllAtOnce,
        share: CountShare::Together,
    };
    pmu.open(&request).map(|_| event)
}

/// Whether a box of a package belongs to what is measured. A link is looked at from the package that works: the other sends what
/// this one receives.
fn counts_box(event: &Event, package: u32, packages: &BTreeSet<u32>) -> bool {
    match event.unit() {
        Some(Unit::Link) => package == 0,
        _ => packages.contains(&package),
    }
}
