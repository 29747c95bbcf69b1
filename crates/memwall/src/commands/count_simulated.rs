//! `memwall count --on sim:NAME`: events of a kernel or a scenario on a simulated machine.

use std::{collections::BTreeMap, sync::atomic::AtomicBool, time::Duration};

use analysis::patterns::{SharedLoads, SharedLoadsTally};
use events::{CountShare, Instrument};
use host::{
    count::{
        CountError, CountRequest, CountedKernel, CountedScenario, Fit, PartsRequest, RegionTimes, Selection,
        Target, count_intervals, count_regions,
    },
    simulated::{LONG_LOADS, Simulated},
};
use kernels::Job;
use machine::{Bytes, CpuSet, Topology, Width, model::Model, profile::Fingerprint};
use record::{
    count::{Counts, MachineFigures},
    scenario::{BufferUse, ScenarioRun},
};
use sim::{
    access::Supplier,
    pmu::{Flaws, SampleRequest, SimulatedPmu, SimulatedSample},
};

use crate::{failure::Failure, progress};

/// What a simulated machine runs.
#[derive(clap::Args)]
#[command(next_help_heading = "On a simulated machine")]
pub struct SimulatedCount {
    /// Count a kernel; 'memwall kernels' lists them
    #[arg(long, value_name = "NAME", conflicts_with = "scenario")]
    kernel: Option<String>,
    /// Count a scenario: a file, or the name of one that comes with memwall
    #[arg(long, value_name = "FILE|NAME")]
    scenario: Option<String>,
    /// Data set of the kernel, all threads together
    #[arg(long, value_name = "SIZE", requires = "kernel")]
    size: Option<Bytes>,
    /// Width of the kernel's vector operations [default: the widest]
    #[arg(long, requires = "kernel")]
    width: Option<Width>,
    /// Set a parameter of the kernel or a value of the scenario; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Passes over the data that are counted [default: as many as make a steady count]
    #[arg(long, value_name = "N", requires = "kernel")]
    passes: Option<u64>,
    /// Divide the size of every buffer of the scenario by this
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
    /// Share counters as real ones are shared, instead of counting everything at once
    #[arg(long)]
    multiplex: bool,
    /// Simulate the described errata of the counters, or not [default: on for models of real machines]
    #[arg(long, value_enum)]
    flaws: Option<Switch>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// As described.
    On,
    /// None.
    Off,
}

/// What is to be counted, and where.
pub struct SimulatedEvents<'a> {
    /// Lists of events.
    pub events: &'a [String],
    /// Names of groups.
    pub groups: &'a [String],
    /// Values apart or together.
    pub share: CountShare,
    /// On which CPUs.
    pub cpus: Option<&'a CpuSet>,
    /// Pass by pass instead of all at once.
    pub several_passes: bool,
    /// Also what every so much of a scenario's time added.
    pub interval: Option<Duration>,
    /// Raised to stop; one for all that is simulated, so that what comes later is not begun.
    pub interrupt: &'a AtomicBool,
}

impl SimulatedCount {
    /// Counters are shared as real ones are.
    pub fn takes_turns(&self) -> bool {
        self.multiplex
    }

    /// On the real machine these mean nothing.
    pub fn refuse_natively(&self) -> Result<(), Failure> {
        if self.kernel.is_some() || self.scenario.is_some() || self.multiplex || self.flaws.is_some() {
            return Err(Failure::Usage(
                "--kernel, --scenario, --multiplex and --flaws are for simulated machines: add --on sim:NAME"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// The PMU of a model, flaws as usual for it.
pub fn instrument(model: &Model) -> Result<SimulatedPmu, Failure> {
    SimulatedPmu::new(model, Flaws::of(model)).map_err(Failure::usage)
}

/// Counts.
pub fn count(
    options: &SimulatedCount,
    asked: &SimulatedEvents<'_>,
    model: &Model,
) -> Result<Counts, Failure> {
    if let Some(every) = asked.interval {
        return intervals(options, asked, every, model);
    }
    let pmu = SimulatedPmu::new(model, flaws(options, model)).map_err(Failure::usage)?;
    let selection = selection(&pmu, asked)?;
    let topology = model.topology();
    let measured = figures(model, &topology);
    let fit = match (options.multiplex, asked.several_passes) {
        (_, true) => Fit::SeveralPasses,
        (true, false) => Fit::TakeTurns,
        (false, false) => Fit::AllAtOnce,
    };
    let request = |cpus: &[u32]| CountRequest {
        selection: &selection,
        // It repeats to the bit.
        runs: 1,
        at_once: 1,
        fit,
        share: asked.share,
        interval: None,
        packages: topology.cpus.iter().filter_map(|cpu| Some((cpu.id, cpu.socket?))).collect(),
        measured: Some(&measured),
        memory_share: super::count::memory_share(&topology, cpus.iter().copied()),
    };
    let catalogue = super::catalogue(None)?;
    let mut host = Simulated::with_kernels(model, catalogue.clone(), 1).counted_by(&pmu);
    let _watched = progress::Watched::new(host.progress(), "");
    let run = |target: &mut dyn Target, cpus: &[u32]| {
        host::count::count(&request(cpus), &pmu, target, &mut |_, _| {}).map_err(|error| match error {
            CountError::Refused(refusal) => super::count::refused(refusal),
            _ => Failure::measurement(error),
        })
    };
    if let Some(name) = &options.scenario {
        let settings = super::scenario::settings(&options.set)?;
        let scenario = super::scenario::read(name, &catalogue, &settings)?;
        let cpus =
            host::scenario::choose_cpus(&scenario, &topology, asked.cpus, false).map_err(Failure::usage)?;
        let request = host::scenario::ScenarioJob { scenario: &scenario, cpus: &cpus, scale: options.scale };
        return run(&mut CountedScenario { host: &mut host, request, interrupt: asked.interrupt }, &cpus);
    }
    let Some(name) = &options.kernel else {
        return Err(Failure::Usage(
            "count what? on a simulated machine write --kernel NAME --size SIZE, or --scenario NAME"
                .to_owned(),
        ));
    };
    let kernel = super::bench::with_settings(catalogue.get(name).map_err(Failure::usage)?, &options.set)?;
    let needed = kernel.description().fixed_threads().unwrap_or(1);
    let cpus: Vec<u32> = match asked.cpus {
        Some(cpus) => cpus.iter().collect(),
        None => topology.usable_cores().iter().take(needed).collect(),
    };
    let size = match options.size {
        Some(size) => size,
        None if kernel.description().is_register_only() => Bytes(0),
        None => return Err(Failure::Usage("how much data? add --size, such as --size 8M".to_owned())),
    };
    let job = Job { width: options.width, ..Job::new(kernel, size, &cpus) };
    let (warm_up, passes) = (1, options.passes);
    run(&mut CountedKernel { host: &mut host, job, warm_up, passes, interrupt: asked.interrupt }, &cpus)
}

/// Counts every innermost region of a scenario: its path and its counts.
pub fn regions(
    options: &SimulatedCount,
    asked: &SimulatedEvents<'_>,
    model: &Model,
) -> Result<Vec<(String, Counts)>, Failure> {
    let lacking = "--per-region needs --scenario NAME: a kernel has no regions";
    let count = |request: &PartsRequest<'_>, host: &mut Simulated, pmu: &SimulatedPmu| {
        count_regions(request, host, pmu, asked.interrupt)
    };
    in_parts(options, asked, model, lacking, &count)
}

/// Counts a scenario as a whole, and what every interval added.
fn intervals(
    options: &SimulatedCount,
    asked: &SimulatedEvents<'_>,
    every: Duration,
    model: &Model,
) -> Result<Counts, Failure> {
    let lacking = "--interval needs --scenario NAME: a kernel does the same all the time";
    let count = |request: &PartsRequest<'_>, host: &mut Simulated, pmu: &SimulatedPmu| {
        count_intervals(request, every, host, pmu, asked.interrupt)
    };
    in_parts(options, asked, model, lacking, &count)
}

/// Counts parts of a scenario; `lacking` says why there must be one.
fn in_parts<T>(
    options: &SimulatedCount,
    asked: &SimulatedEvents<'_>,
    model: &Model,
    lacking: &str,
    count: &dyn Fn(&PartsRequest<'_>, &mut Simulated, &SimulatedPmu) -> Result<T, CountError>,
) -> Result<T, Failure> {
    let Some(name) = &options.scenario else { return Err(Failure::Usage(lacking.to_owned())) };
    let pmu = SimulatedPmu::new(model, flaws(options, model)).map_err(Failure::usage)?;
    let selection = selection(&pmu, asked)?;
    let topology = model.topology();
    let measured = figures(model, &topology);
    let catalogue = super::catalogue(None)?;
    let scenario = super::scenario::read(name, &catalogue, &super::scenario::settings(&options.set)?)?;
    let mut host = Simulated::with_kernels(model, catalogue, 1).counted_by(&pmu);
    let cpus =
        host::scenario::choose_cpus(&scenario, &topology, asked.cpus, false).map_err(Failure::usage)?;
    let request = PartsRequest {
        job: host::scenario::ScenarioJob { scenario: &scenario, cpus: &cpus, scale: options.scale },
        selection: &selection,
        share: asked.share,
        measured: Some(&measured),
        memory_share: super::count::memory_share(&topology, cpus.iter().copied()),
        packages: topology.cpus.iter().filter_map(|cpu| Some((cpu.id, cpu.socket?))).collect(),
    };
    let _watched = progress::Watched::new(host.progress(), "parts");
    count(&request, &mut host, &pmu).map_err(Failure::measurement)
}

/// What was measured of a simulated machine.
fn figures(model: &Model, topology: &Topology) -> MachineFigures {
    let fingerprint = Fingerprint::of_model(model);
    let events = events::Catalogue::for_model(model);
    let trusted = crate::trust::of_machine(&fingerprint, Some(&model.name), events);
    super::count::figures(super::recording::profile_of(&fingerprint), &trusted, topology)
}

/// Whether errata are simulated.
fn flaws(options: &SimulatedCount, model: &Model) -> Flaws {
    match options.flaws {
        Some(Switch::On) => Flaws::On,
        Some(Switch::Off) => Flaws::Off,
        None => Flaws::of(model),
    }
}

/// Events and groups as asked for; cycles if nothing was.
fn selection(pmu: &SimulatedPmu, asked: &SimulatedEvents<'_>) -> Result<Selection, Failure> {
    let default = ["CYCLES".to_owned()];
    let groups = if asked.events.is_empty() && asked.groups.is_empty() { &default[..] } else { asked.groups };
    Selection::new(pmu, asked.events, groups).map_err(super::count::refused)
}

/// All stores, each with its address.
const STORES: [&str; 2] = ["MEM_UOPS_RETIRED.ALL_STORES:pp", "MEM_INST_RETIRED.ALL_STORES:pp"];

/// Every how many long loads, or stores, one is looked at: shares no factor with the strides of kernels.
const EVERY: u64 = 7;

/// The event that samples long loads on a simulated machine, if it has one.
pub fn long_loads(pmu: &SimulatedPmu) -> Option<events::Event> {
    LONG_LOADS.iter().find_map(|event| pmu.resolve(event).ok())
}

/// A scenario once more with its long loads sampled: those that found their line modified by another core. Where nothing was loaded
/// from afar, a second time with its stores sampled. None of kernels, and of models that sample no loads.
pub fn shared_loads(
    options: &SimulatedCount,
    asked: &SimulatedEvents<'_>,
    model: &Model,
) -> Result<SampledSharing, Failure> {
    let none = SampledSharing::default;
    let Some(name) = &options.scenario else { return Ok(none()) };
    let pmu = SimulatedPmu::new(model, Flaws::Off).map_err(Failure::usage)?;
    let Some(event) = long_loads(&pmu) else { return Ok(none()) };
    let catalogue = super::catalogue(None)?;
    let scenario = super::scenario::read(name, &catalogue, &super::scenario::settings(&options.set)?)?;
    let mut host = Simulated::with_kernels(model, catalogue, 1).counted_by(&pmu);
    let cpus = host::scenario::choose_cpus(&scenario, &model.topology(), asked.cpus, false)
        .map_err(Failure::usage)?;
    let request = host::scenario::ScenarioJob { scenario: &scenario, cpus: &cpus, scale: options.scale };
    let _watched = progress::Watched::new(host.progress(), "shared lines");
    let mut sampled = |event| {
        let samples = SampleRequest { event, period: EVERY, cpus: cpus.iter().copied().collect() };
        host::scenario::sample_scenario(&request, &mut host, &pmu, &samples, asked.interrupt)
            .map_err(Failure::measurement)
    };
    let (run, samples) = sampled(event)?;
    let mut found = SharingTallies::default();
    found.add(&run, &samples);
    if let Some(stores) =
        STORES.iter().find_map(|event| pmu.resolve(event).ok()).filter(|_| found.lacks_loads(&run))
    {
        let (run, samples) = sampled(stores)?;
        found.add(&run, &samples);
    }
    Ok(found.finish())
}

/// Sampled loads, of all and by region.
#[derive(Default)]
pub struct SampledSharing {
    pub all: Option<SharedLoads>,
    pub by_region: BTreeMap<String, SharedLoads>,
}

/// What was sampled, by data; of loads of lines that another core had modified how those are shared.
#[derive(Default)]
struct SharingTallies {
    all: SharedLoadsTally,
    by_region: BTreeMap<String, SharedLoadsTally>,
}

impl SharingTallies {
    fn add(&mut self, run: &ScenarioRun, samples: &[(u32, SimulatedSample)]) {
        let times = RegionTimes::of(run);
        let object = |address: u64| {
            let is_of = |buffer: &&BufferUse| {
                buffer.address.is_some_and(|start| (start..start + buffer.size.0).contains(&address))
            };
            run.buffers.iter().find(is_of).map(|buffer| buffer.name.as_str())
        };
        for (cpu, sample) in samples {
            let in_region = times
                .region_at(sample.time_ns)
                .map(|region| self.by_region.entry(region.to_owned()).or_default());
            for tally in in_region.into_iter().chain([&mut self.all]) {
                if let Some(load) = sample.load {
                    let object = object(load.address);
                    object.into_iter().for_each(|object| tally.took(object, load.latency_cycles));
                    if matches!(load.supplier, Supplier::OtherCoreModified | Supplier::RemoteCacheModified) {
                        tally.add(*cpu, load.address, object);
                    }
                }
                sample.stored.and_then(object).into_iter().for_each(|object| tally.stored(object));
            }
        }
    }

    /// A region, or all of it, has loaded nothing from afar.
    fn lacks_loads(&self, run: &ScenarioRun) -> bool {
        let has_loads = |path: &str| self.by_region.get(path).is_some_and(SharedLoadsTally::has_loads);
        !self.all.has_loads() || RegionTimes::of(run).paths().any(|path| !has_loads(path))
    }

    fn finish(self) -> SampledSharing {
        let by_region = self.by_region.into_iter().map(|(region, tally)| (region, tally.finish())).collect();
        SampledSharing { all: Some(self.all.finish()), by_region }
    }
}
