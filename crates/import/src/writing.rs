//! From the records of a perf.data to a recording.

mod pace;
mod spans;

use std::collections::BTreeMap;

use pmu::{
    bindings as b,
    sampling::{CallChain, FileSample, MappedFile, Mmap, Mode, RingRecord},
};
use record::{
    file::{EventSample, FileError, Writer},
    sampled::{EventPace, EventUse, RecordedEvent, SampleMode},
};
use recorder::{Replay, ReplayOptions};

use self::{pace::SamplePace, spans::AddressSpaces};
use crate::{
    attributes::EventAttributes,
    error::ImportError,
    images::{ImageFolders, ImportedImages},
    kernel::RecordedKernel,
    origin,
    perf_data::{PerfMachine, RecordConsumer},
};

/// As `memwall record` cuts time.
pub(crate) const SLICE_NS: u64 = 100_000_000;

/// Writes samples and tasks into a recording.
pub(crate) struct RecordingConsumer {
    /// Until the events are known.
    writer: Option<Writer>,
    pub replay: Option<Replay>,
    folders: ImageFolders,
    this_machine: ThisMachine,
    pub events: Vec<RecordedEvent>,
    pub omissions: BTreeMap<&'static str, u64>,
    pub failure: Option<FileError>,
    pub pace: SamplePace,
    pub skid_instructions: u32,
    pub lost_samples: u64,
    pub kernel: RecordedKernel,
    is_x86_64: bool,
    /// By event, whether the processor said of any sample what it accessed.
    has_accesses: Vec<bool>,
    build_ids: BTreeMap<Vec<u8>, Vec<u8>>,
    spaces: AddressSpaces,
    last_ns: u64,
}

/// What tells whether a file was recorded here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThisMachine {
    pub host: String,
    pub kernel: String,
}

impl ThisMachine {
    pub fn read() -> Self {
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self { host: text(name.nodename()), kernel: text(name.release()) }
    }

    fn is(&self, machine: &PerfMachine) -> bool {
        let same = |theirs: &Option<String>, ours: &str| theirs.as_deref() == Some(ours);
        same(&machine.host, &self.host) && same(&machine.kernel, &self.kernel)
    }
}

impl RecordingConsumer {
    pub fn new(writer: Writer, folders: ImageFolders) -> Self {
        Self {
            writer: Some(writer),
            replay: None,
            folders,
            this_machine: ThisMachine::read(),
            events: Vec::new(),
            omissions: BTreeMap::new(),
            failure: None,
            pace: SamplePace::default(),
            skid_instructions: 1,
            lost_samples: 0,
            kernel: RecordedKernel::default(),
            is_x86_64: false,
            has_accesses: Vec::new(),
            build_ids: BTreeMap::new(),
            spaces: AddressSpaces::default(),
            last_ns: 0,
        }
    }

    /// The recording, if nothing was sampled.
    pub fn into_writer(self) -> Result<Writer, ImportError> {
        self.writer.ok_or_else(|| ImportError::Together("the recording is already written".to_owned()))
    }

    /// The address spaces as they were at the end.
    pub fn write_areas(&mut self) {
        if let Some(replay) = &mut self.replay {
            self.spaces.hand_over(replay);
        }
    }

    /// Everything was read: events that had room for data sources and never said one are no loads.
    pub fn settle_uses(&mut self) {
        for (event, has_accesses) in self.events.iter_mut().zip(&self.has_accesses) {
            if event.used_for == EventUse::Loads && !has_accesses {
                event.used_for = EventUse::Counted;
            }
        }
        let has_loads = self.events.iter().any(|event| event.used_for == EventUse::Loads);
        let none = "the file has no event with data sources; 'perf mem record' makes one that has";
        if let Some(replay) = &mut self.replay {
            replay.writer().loads_asked((!has_loads).then_some(none));
        }
    }

    fn omit(&mut self, what: &'static str) {
        *self.omissions.entry(what).or_default() += 1;
    }

    fn note(&mut self, event: usize, sample: &FileSample<'_>) {
        let Some(about) = self.events.get_mut(event) else { return };
        about.samples += 1;
        match sample.mode {
            Mode::Kernel => about.in_kernel += 1,
            Mode::User | Mode::Unknown => {}
            _ => about.in_guests += 1,
        }
        if sample.data_source.is_some_and(|source| source.access.is_some()) {
            self.has_accesses[event] = true;
        }
        if let Some(period) = sample.period {
            about.period = Some(about.period.unwrap_or(0).saturating_add(period));
        }
    }

    fn write(&mut self, event: usize, sample: &FileSample<'_>) {
        let Some(replay) = &mut self.replay else { return };
        if sample.time_ns.is_none() {
            *self.omissions.entry("times of samples ('perf record -T' keeps them)").or_default() += 1;
        }
        // What the file has no time of happened after what came before it.
        let timed = FileSample { time_ns: sample.time_ns.or(Some(self.last_ns)), ..*sample };
        let Some(mut of_ring) = timed.of_ring() else { return self.omit("samples without a thread") };
        self.last_ns = self.last_ns.max(of_ring.time_ns);
        let in_program = matches!(sample.mode, Mode::User | Mode::Unknown);
        let stack = sample.stack.filter(|_| in_program && self.is_x86_64);
        let unwound = stack.and_then(|stack| replay.unwind(&of_ring, stack));
        if sample.stack.is_some() && in_program && unwound.is_none() {
            *self.omissions.entry("stacks of samples without registers of x86-64").or_default() += 1;
        }
        if let Some(words) = &unwound {
            of_ring.call_chain = Some(CallChain::of(words));
        }
        let Some(landed) = replay.land(&of_ring) else {
            return self.omit("samples without an instruction pointer");
        };
        // A number of events is small.
        let number = event as u32;
        match self.events[event].used_for {
            EventUse::Time if in_program => {
                self.pace.sample(of_ring.tid, of_ring.time_ns, sample.period);
                replay.writer().imported_sample(landed, number, sample.period);
            }
            used_for => {
                if used_for == EventUse::Loads && in_program {
                    replay.load(&of_ring, &landed);
                }
                let mode = mode_of(sample.mode);
                let period = sample.period;
                replay.writer().event_sample(EventSample { sample: landed, event: number, mode, period });
            }
        }
        if let Err(error) = replay.flush_if_laden() {
            self.failure.get_or_insert(error);
        }
    }
}

impl RecordConsumer for RecordingConsumer {
    fn begin(&mut self, events: &[EventAttributes], machine: &PerfMachine) {
        let Some(writer) = self.writer.take() else { return };
        let described = origin::described(machine, None);
        let catalogue = described.cpu_id.as_deref().and_then(origin::catalogue);
        let named = |event: &EventAttributes| {
            RecordedEvent::new(event.name(), use_of(event, catalogue), pace_of(event))
        };
        self.events = events.iter().map(named).collect();
        self.has_accesses = vec![false; self.events.len()];
        self.pace = SamplePace::of(events, &self.events);
        let timed = events.iter().zip(&self.events).filter(|(_, about)| about.used_for == EventUse::Time);
        let mut precise = timed.map(|(event, _)| event.precise > 0 && !event.is_clock());
        // Where the processor names the instruction itself nothing lies between.
        let is_precise = precise.next().is_some_and(|first| first && precise.all(|other| other));
        self.skid_instructions = u32::from(!is_precise);
        self.build_ids.clone_from(&machine.build_ids);
        let is_this_machine = self.this_machine.is(machine);
        self.is_x86_64 = origin::is_x86_64(&described);
        let finder = Box::new(ImportedImages { folders: self.folders.clone(), is_this_machine });
        let options = ReplayOptions {
            slice_ns: SLICE_NS,
            skid_instructions: self.skid_instructions,
            has_registers: self.is_x86_64
                && events.iter().any(|event| event.layout.has(b::PERF_SAMPLE_REGS_USER)),
            has_switches: events.iter().any(|event| event.has_switches),
            most_places: None,
        };
        self.replay = Some(Replay::new(writer, finder, options));
    }

    fn sample(&mut self, _events: &[EventAttributes], event: usize, sample: &FileSample<'_>) {
        self.note(event, sample);
        self.write(event, sample);
    }

    fn beside(&mut self, _events: &[EventAttributes], time_ns: u64, record: RingRecord<'_>) {
        self.last_ns = self.last_ns.max(time_ns);
        let record = match record {
            RingRecord::Mmap(mmap) => {
                self.kernel.note(&mmap);
                self.spaces.map(&mmap);
                RingRecord::Mmap(identified(mmap, &self.build_ids))
            }
            RingRecord::Comm { pid, exec: true, .. } => {
                self.spaces.forget(pid);
                record
            }
            RingRecord::Lost { records: lost, .. } | RingRecord::LostSamples { samples: lost, .. } => {
                self.lost_samples = self.lost_samples.saturating_add(lost);
                record
            }
            RingRecord::Exit { pid, tid, .. } => {
                if let (true, Some(replay)) = (pid == tid, &mut self.replay) {
                    self.spaces.end(pid, replay);
                }
                record
            }
            other => other,
        };
        if let Some(replay) = &mut self.replay {
            replay.take(time_ns, record);
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// Perf lists the build ids of files with samples behind the records.
fn identified<'a>(mmap: Mmap<'a>, build_ids: &'a BTreeMap<Vec<u8>, Vec<u8>>) -> Mmap<'a> {
    match (mmap.file, build_ids.get(mmap.path)) {
        (MappedFile::BuildId(_), _) | (_, None) => mmap,
        (_, Some(id)) => Mmap { file: MappedFile::BuildId(id), ..mmap },
    }
}

fn pace_of(event: &EventAttributes) -> Option<EventPace> {
    let per_second = || (event.is_frequency && event.pace > 0).then_some(EventPace::PerSecond(event.pace));
    event.fixed_period().map(EventPace::Every).or_else(per_second)
}

fn mode_of(mode: Mode) -> SampleMode {
    match mode {
        Mode::Kernel => SampleMode::Kernel,
        Mode::User => SampleMode::User,
        Mode::Hypervisor => SampleMode::Hypervisor,
        Mode::GuestKernel => SampleMode::GuestKernel,
        Mode::GuestUser => SampleMode::GuestUser,
        _ => SampleMode::Unknown,
    }
}

/// What an event's samples are good for.
fn use_of(event: &EventAttributes, catalogue: Option<&'static events::Catalogue>) -> EventUse {
    /// Numbers of the generic events that tick as long as a core runs.
    const TICKING: [u64; 2] = [0, 9];
    let is_generic = event.kind == b::PERF_TYPE_HARDWARE && TICKING.contains(&(event.config & 0xff));
    let has = |field| event.layout.has(field);
    let ticks = || {
        let context = events::names::Context { catalogue, pmus: &[], libpfm: false };
        let name = event.name();
        let name = name.split(':').next().unwrap_or_default();
        let parsed = events::names::parse(name, &context).ok()?;
        let id = events::SignalId::new(&parsed.event.signal, catalogue);
        let generic =
            TICKING.map(|number| events::SignalId::new(&events::Signal::Hardware(number), catalogue));
        Some(generic.contains(&id))
    };
    if event.is_clock() || is_generic {
        EventUse::Time
    } else if has(b::PERF_SAMPLE_DATA_SRC) {
        EventUse::Loads
    } else if event.kind > b::PERF_TYPE_HW_CACHE && ticks() == Some(true) {
        EventUse::Time
    } else {
        EventUse::Counted
    }
}
