//! A scenario on a simulated machine as a recording: events sampled by code and region, loads with their latency and data.
//!
//! A simulated PMU samples one event at a time, and runs are the same to the cycle: each event has a run of its own, all on
//! one clock.

use std::{collections::HashMap, num::NonZeroU64, path::Path, sync::atomic::AtomicBool};

use events::{CountRequest, CountShare, Event, Instrument as _, TooMany};
use kernels::scenario::Plan;
use machine::{CpuSet, model::Model, profile::Fingerprint};
use record::{
    count::{Total, total},
    data::Variable,
    file::{Code, EventSample, RecordedSample, Writer},
    ids::{FunctionId, ModuleId, PlaceId, ProcessId, ThreadId},
    loads::{DataOrigin, LoadSample},
    regions::{Region, RegionId, RegionVisits},
    run::{About, Ending, Function, Module, ModuleKind, Place, Process, RecordedThread},
    sampled::{EventPace, EventUse, RecordedEvent, SampleMode},
    scenario::ScenarioRun,
};
use sim::{
    access::{Supplier, Translation},
    plan_source::{AddressOrder, PlacedPlan},
    pmu::{SampleRequest, SimulatedPmu, SimulatedSample},
};

use super::{RunError, ScenarioJob, StepPace, find_pace, plan, run_prepared};
use crate::{host::Host, meter::Meter};

/// Samples of each event that are aimed at.
const SAMPLES: f64 = 6000.0;

/// One in so many long loads: shares no factor with the strides of kernels.
const LOADS_EVERY: u64 = 7;

/// Intervals that a recording is cut into.
const INTERVALS: f64 = 60.0;

/// What is to be recorded.
pub struct ScenarioRecording<'a> {
    /// What runs.
    pub request: ScenarioJob<'a>,
    /// The machine.
    pub model: &'a Model,
    /// Its PMU.
    pub pmu: &'a SimulatedPmu,
    /// Events of the cores.
    pub events: Vec<Event>,
    /// After how many events a sample is taken; if none, so that each event has some thousands.
    pub period: Option<u64>,
    /// An event that samples long loads, if there is one.
    pub loads: Option<Event>,
    /// Seconds since 1970.
    pub started_at: u64,
}

/// What is in the recording, and how long each region took.
#[derive(Clone, Debug)]
pub struct RecordedScenario {
    /// Samples of events.
    pub samples: u64,
    /// Sampled loads.
    pub loads: u64,
    /// A run as without sampling.
    pub timed: ScenarioRun,
}

/// Records into a file.
pub fn record_scenario(
    asked: &ScenarioRecording<'_>,
    host: &mut dyn Host,
    output: &Path,
    interrupt: &AtomicBool,
) -> Result<RecordedScenario, RunError> {
    let paces = find_pace(&asked.request, host, interrupt)?;
    let mut placed_plan = plan(&asked.request, host.topology())?;
    for known in &paces {
        placed_plan.set_nops(known.step, known.pace.nops)?;
    }
    let failed = |error: sim::plan_source::PlaceError| RunError::Run {
        scenario: asked.request.scenario.name.clone(),
        source: Box::new(error),
    };
    let placed = PlacedPlan::new(placed_plan, AddressOrder::DataFirst).map_err(failed)?;
    let periods = asked.periods(host, &paces, interrupt)?;
    let mut runs = Vec::new();
    for (event, period) in asked.events.iter().zip(&periods) {
        runs.push(asked.sampled(event, *period, host, &paces, interrupt)?);
    }
    let loads = match &asked.loads {
        Some(event) => asked.sampled(event, LOADS_EVERY, host, &paces, interrupt)?.1,
        None => Vec::new(),
    };
    let timed = match runs.first() {
        Some((run, _)) => run.clone(),
        None => run_prepared(&asked.request, host, Some(&paces), None, interrupt)?,
    };
    let samples: Vec<Vec<(u32, SimulatedSample)>> = runs.into_iter().map(|(_, samples)| samples).collect();
    let mut recording = ScenarioWriter::begin(asked, &placed, &timed, output)?;
    recording.events(asked, &periods, &samples)?;
    recording.loads(&loads);
    let (samples, loads) = recording.finish()?;
    Ok(RecordedScenario { samples, loads, timed })
}

impl ScenarioRecording<'_> {
    fn cpus(&self) -> CpuSet {
        self.request.cpus.iter().copied().collect()
    }

    /// After how many of each event a sample is taken: as asked, or by how many there are in one run.
    fn periods(
        &self,
        host: &mut dyn Host,
        paces: &[StepPace],
        interrupt: &AtomicBool,
    ) -> Result<Vec<u64>, RunError> {
        if let Some(period) = self.period {
            return Ok(vec![period; self.events.len()]);
        }
        let mut counting = self.pmu.open(&CountRequest {
            events: self.events.clone(),
            scope: host.scope(self.request.cpus),
            too_many: TooMany::AllAtOnce,
            share: CountShare::Together,
        })?;
        run_prepared(&self.request, host, Some(paces), Some(&mut counting as &mut dyn Meter), interrupt)?;
        let counts = counting.read()?;
        let period = |event: usize| match total(&counts, event, |_| true) {
            // Odd, so that it shares no factor with the strides of kernels.
            Some(Total::Counted { estimate, .. }) => (estimate / SAMPLES).max(1.0) as u64 | 1,
            _ => 1,
        };
        Ok((0..self.events.len()).map(period).collect())
    }

    fn sampled(
        &self,
        event: &Event,
        period: u64,
        host: &mut dyn Host,
        paces: &[StepPace],
        interrupt: &AtomicBool,
    ) -> Result<(ScenarioRun, Vec<(u32, SimulatedSample)>), RunError> {
        let samples = SampleRequest { event: event.clone(), period, cpus: self.cpus() };
        let mut sampling = self.pmu.sample(&samples)?;
        let run = run_prepared(&self.request, host, Some(paces), Some(&mut sampling), interrupt)?;
        Ok((run, sampling.take()))
    }
}

/// Code of a thread's part of a step.
struct PlacedCode {
    step: usize,
    address: u64,
    bytes: u64,
}

/// A recording in the making.
struct ScenarioWriter<'a> {
    writer: Writer,
    about: About,
    run: &'a ScenarioRun,
    cpus: &'a [u32],
    code: Vec<PlacedCode>,
    functions: Vec<Function>,
    places: HashMap<(Option<usize>, u64), u32>,
    function_of_place: Vec<Option<FunctionId>>,
    samples: u64,
    loads: u64,
}

impl<'a> ScenarioWriter<'a> {
    fn begin(
        asked: &ScenarioRecording<'a>,
        placed: &PlacedPlan,
        run: &'a ScenarioRun,
        output: &Path,
    ) -> Result<Self, RunError> {
        let name = &asked.request.scenario.name;
        let about = about(asked, run);
        let mut writer = Writer::create(output, &about)?;
        writer.process(
            ProcessId(0),
            &Process {
                pid: 1,
                parent: None,
                name: name.clone(),
                executable: None,
                began_ns: 0,
                ended_ns: about.elapsed_ns,
            },
        );
        for (thread, cpu) in asked.request.cpus.iter().enumerate() {
            let about = RecordedThread {
                tid: thread as u32 + 1,
                process: ProcessId(0),
                name: format!("thread {thread} on CPU {cpu}"),
                began_ns: 0,
                ended_ns: about.elapsed_ns,
            };
            writer.thread(thread as u32, &about);
        }
        let path = format!("scenario {name}");
        writer.module(
            0,
            &Module { path: path.clone(), kind: ModuleKind::Anonymous, build_id: None, problem: None },
        );
        data(placed, &path, &mut writer);
        regions(run, &mut writer);
        writer.remark(&format!(
            "Recorded on the simulated machine {}: each event in a run of its own, all the same to the cycle. Time itself was not \
             sampled; cycles were.",
            asked.model.name
        ));
        let (code, functions) = code(placed);
        let places = HashMap::new();
        Ok(Self {
            writer,
            about,
            run,
            cpus: asked.request.cpus,
            code,
            functions,
            places,
            function_of_place: Vec::new(),
            samples: 0,
            loads: 0,
        })
    }

    /// Samples of all events in the order of time.
    fn events(
        &mut self,
        asked: &ScenarioRecording<'_>,
        periods: &[u64],
        samples: &[Vec<(u32, SimulatedSample)>],
    ) -> Result<(), RunError> {
        let named = |(event, period): (&Event, &u64)| {
            RecordedEvent::new(event.name.clone(), EventUse::Counted, Some(EventPace::Every(*period)))
        };
        self.writer.begin_events()?;
        self.writer.sampled_events(asked.events.iter().zip(periods).map(named).collect());
        let mut all: Vec<(usize, u32, &SimulatedSample)> = Vec::new();
        for (event, found) in samples.iter().enumerate() {
            all.extend(found.iter().map(|(cpu, sample)| (event, *cpu, sample)));
        }
        all.sort_by(|a, b| a.2.time_ns.total_cmp(&b.2.time_ns));
        for (event, cpu, sample) in all {
            let Some(thread) = self.cpus.iter().position(|one| *one == cpu) else { continue };
            let place = self.place(sample.instruction);
            let sample_of = RecordedSample {
                time_ns: sample.time_ns.max(0.0) as u64,
                thread: ThreadId::of(thread),
                cpu: u16::try_from(cpu).unwrap_or(u16::MAX),
                place,
                address: None,
                stack: None,
            };
            self.samples += 1;
            if let Some(region) = innermost(self.run, thread, sample.time_ns) {
                self.writer.event_region(self.samples, region);
            }
            self.writer.event_sample(EventSample {
                sample: sample_of,
                event: event as u32,
                mode: SampleMode::User,
                period: Some(periods[event]),
            });
        }
        Ok(())
    }

    fn loads(&mut self, samples: &[(u32, SimulatedSample)]) {
        self.writer.loads_asked(None);
        let mut all: Vec<&(u32, SimulatedSample)> = samples.iter().collect();
        all.sort_by(|a, b| a.1.time_ns.total_cmp(&b.1.time_ns));
        for (cpu, sample) in all {
            let (Some(load), Some(thread)) = (sample.load, self.cpus.iter().position(|one| one == cpu))
            else {
                continue;
            };
            let place = self.place(sample.instruction);
            self.loads += 1;
            self.writer.load(LoadSample {
                time_ns: sample.time_ns.max(0.0) as u64,
                thread: ThreadId::of(thread),
                cpu: u16::try_from(*cpu).unwrap_or(u16::MAX),
                place,
                address: NonZeroU64::new(load.address),
                latency_cycles: Some(load.latency_cycles),
                origin: Some(origin(load.supplier)),
                translated_at_hand: Some(load.translation != Translation::Walk),
            });
        }
    }

    /// The place of an instruction: threads run copies of the same code.
    fn place(&mut self, instruction: u64) -> PlaceId {
        let found =
            self.code.iter().find(|code| (code.address..code.address + code.bytes).contains(&instruction));
        let (step, address) = match found {
            Some(code) => (Some(code.step), self.functions[code.step].start + (instruction - code.address)),
            None => (None, instruction),
        };
        let next = self.places.len() as u32;
        let index = *self.places.entry((step, address)).or_insert(next);
        if index == next {
            self.writer.place(index, &Place { module: ModuleId(0), address, function: None });
            self.function_of_place.push(step.map(FunctionId::of));
        }
        PlaceId(index)
    }

    /// Gives the numbers of samples of events and of loads.
    fn finish(mut self) -> Result<(u64, u64), RunError> {
        let code =
            Code { functions: self.functions, function_of_place: self.function_of_place, ..Code::default() };
        self.writer.finish(&self.about, &code)?;
        Ok((self.samples, self.loads))
    }
}

fn about(asked: &ScenarioRecording<'_>, run: &ScenarioRun) -> About {
    About {
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
        command: vec!["scenario".to_owned(), asked.request.scenario.name.clone()],
        attached: None,
        started_at: asked.started_at,
        fingerprint: Fingerprint::of_model(asked.model),
        // Time is not sampled; what is, comes as often as this.
        rate_hz: 1e9 * SAMPLES / run.wall_ns.max(1.0),
        period_ns: run.wall_ns.max(1.0) / SAMPLES,
        skid_instructions: 0,
        elapsed_ns: Some(run.wall_ns as u64),
        ending: Ending::Exited(0),
        usage: None,
        slowed: None,
        clock_hz: None,
        lost_samples: None,
        noise: None,
        slice_ns: (run.wall_ns / INTERVALS).max(1.0) as u64,
    }
}

/// Where each part's code lies, and one function for each step.
fn code(placed: &PlacedPlan) -> (Vec<PlacedCode>, Vec<Function>) {
    let plan: &Plan = placed.plan();
    let mut rooms = placed.ranges().iter().filter(|range| range.instance.is_none());
    let mut code = Vec::new();
    let mut functions: Vec<Option<Function>> = vec![None; plan.steps().len()];
    for thread in 0..plan.threads() {
        for (step, planned) in plan.steps().iter().enumerate() {
            let Some(part) = planned.part(thread) else { continue };
            let Some(room) = rooms.next() else { continue };
            let bytes = &part.program.code;
            code.push(PlacedCode { step, address: room.address, bytes: bytes.len() as u64 });
            functions[step].get_or_insert_with(|| Function {
                module: ModuleId(0),
                symbol: None,
                name: format!("{} in {}", planned.kernel.name(), plan.regions()[planned.region].path),
                start: room.address,
                end: room.address + bytes.len() as u64,
                code: Some(bytes.clone()),
            });
        }
    }
    let nobody = |step: usize| Function {
        module: ModuleId(0),
        symbol: None,
        name: format!("step {step}, which no thread takes"),
        start: 0,
        end: 0,
        code: None,
    };
    let functions =
        functions.into_iter().enumerate().map(|(step, found)| found.unwrap_or_else(|| nobody(step)));
    (code, functions.collect())
}

fn data(placed: &PlacedPlan, module: &str, writer: &mut Writer) {
    let plan = placed.plan();
    for range in placed.data() {
        let Some(instance) = range.instance.and_then(|index| plan.instances().get(index)) else { continue };
        let buffer = &plan.scenario().buffers[instance.buffer].name;
        let name = match instance.thread {
            Some(thread) => format!("{buffer} of thread {thread}"),
            None => buffer.clone(),
        };
        writer.variable(Variable {
            process: ProcessId(0),
            start: range.address,
            end: range.address + range.bytes,
            name,
            module: module.to_owned(),
        });
    }
}

fn regions(run: &ScenarioRun, writer: &mut Writer) {
    for (index, region) in run.regions.iter().enumerate() {
        let id = RegionId(index as u32);
        writer.region(id, Region { name: region.path.clone(), is_parallel: false });
        for thread in &region.threads {
            writer.region_visits(RegionVisits {
                region: id,
                thread: ThreadId::of(thread.thread),
                visits: thread.entries.len() as u64,
                unended: 0,
                wall_ns: thread.busy_ns() as u64,
                waits_ns: None,
                counts: None,
            });
        }
    }
}

/// The innermost region that a thread is in at this moment.
fn innermost(run: &ScenarioRun, thread: usize, time_ns: f64) -> Option<RegionId> {
    let is_inside = |region: &record::scenario::RegionRun| {
        let entries = region.threads.iter().filter(|one| one.thread == thread).flat_map(|one| &one.entries);
        entries.into_iter().any(|entry| (entry.start_ns..entry.end_ns).contains(&time_ns))
    };
    let inside = run.regions.iter().enumerate().filter(|(_, region)| is_inside(region));
    inside.max_by_key(|(_, region)| region.depth).map(|(index, _)| RegionId(index as u32))
}

fn origin(supplier: Supplier) -> DataOrigin {
    match supplier {
        Supplier::L1 => DataOrigin::L1,
        Supplier::FillBuffer => DataOrigin::FillBuffer,
        Supplier::L2 => DataOrigin::L2,
        Supplier::L3 => DataOrigin::L3,
        Supplier::OtherCoreClean | Supplier::OtherCoreModified => DataOrigin::OtherCore,
        Supplier::LocalMemory => DataOrigin::Dram,
        Supplier::RemoteMemory | Supplier::RemoteCacheModified | Supplier::RemoteCacheClean => {
            DataOrigin::Remote
        }
    }
}
