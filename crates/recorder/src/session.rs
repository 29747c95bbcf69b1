//! One recording from beginning to end.

mod ending;
mod restraining;
mod watching;

use std::{
    cell::Cell,
    ffi::OsString,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use machine::{CpuSet, Source, Topology, profile::Fingerprint, steal::StealWatch};
use pmu::{
    LinuxKernel, Pmu, Scope,
    refusal::Surroundings,
    sampling::{
        Fields, Jitter, RingActivity, Sampler, SamplerRequest, SamplingFailure, SamplingPace, Sideband,
    },
};
use record::{
    file::Writer,
    run::{About, Ending, Usage},
    sampled::RecordedEvent,
};
use rustix::{
    process::{Pid, PidfdFlags, pidfd_open},
    time::{ClockId, clock_gettime},
};

use super::{
    OnRefusal, Onlooker, RecordError, RecordOutcome, RecordRequest, RecordTarget, RecordTrouble,
    SampledMoment, Watchers,
    bursts::Bursts,
    core_clock::CoreClock,
    event_sampling::{EventSampler, EventsAsked},
    heap::{Barrier, Heap, barrier},
    loads, procfs,
    recorder::{NEVER, RecordWindow, Recorder},
    restraint::{Restraint, SLOW_PERIOD_NS},
    schedule::{self, ScheduleWatch},
};
use restraining::HoldingBack;

use crate::program::{
    launch::{Child, LaunchedProgram, NotFound},
    signals::{self, CaughtSignals},
    usage,
};

/// Periods are drawn within ±5 % of this many hundredths of the one asked for: never more samples than asked for.
const PERIOD_STRETCH: u64 = 105;

/// Length of a slice of the time line.
pub(super) const SLICE_NS: u64 = 100_000_000;

/// How often what was measured is committed.
const COMMIT_EVERY: Duration = Duration::from_millis(500);

/// Callers taken along with a sample.
const LONGEST_CHAIN: u16 = 48;

/// How often an onlooker is shown what was sampled.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// How often a viewer is shown some samples, and the part of the time that finding them may take.
const VIEW_EVERY: Duration = Duration::from_secs(2);
const VIEW_PART: u32 = 100;

/// How often we ask whether an address space is due to be looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a signal may wait to be passed on.
const TICK: Duration = Duration::from_millis(50);

/// What watches the program.
enum SessionInstrument<'k> {
    Sampler(Box<Sampler<'k>>),
    /// procfs, where sampling is refused.
    Schedule(ScheduleWatch),
    /// Nothing any more: the recording is over.
    Off,
}

struct RecordSession<'k> {
    /// Looks at the samples while the program runs.
    onlooker: Option<&'k mut dyn Onlooker>,
    /// Is shown some of the samples.
    viewer: Option<&'k mut dyn FnMut(SampledMoment)>,
    /// Not before this.
    next_view: Instant,
    /// Hears how long it has run.
    clock: Option<&'k mut dyn FnMut(Duration)>,
    instrument: SessionInstrument<'k>,
    kernel: &'k dyn LinuxKernel,
    /// Callers that samples have.
    call_chain: Option<u16>,
    /// Judges whether switches cost too much under it.
    restraint: Restraint,
    /// They did.
    held_back: Option<HoldingBack>,
    /// Sample loads beside it.
    loads: Vec<Sampler<'k>>,
    /// Sample events that were asked for, by their number.
    events: Vec<EventSampler<'k>>,
    /// Show how fast loops turn.
    bursts: Bursts<'k>,
    core_clock: CoreClock,
    /// Why none do, although they were asked for.
    no_loads: Option<String>,
    /// Events that cannot be sampled, with the reason.
    refused_events: Vec<RecordedEvent>,
    recorder: Recorder,
    /// Until the program has ended.
    signals: Option<CaughtSignals>,
    about: About,
    steal: StealWatch,
    began: Instant,
    pid: i32,
    is_child: bool,
    /// Recording begins later than the program.
    has_delay: bool,
    process: Option<OwnedFd>,
    stop_at: Option<Instant>,
    refusal: Option<String>,
    /// Why allocations are not written down.
    no_heap: Option<String>,
    trouble: Option<RecordTrouble>,
}

/// Why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The program ended.
    Ended(Ending, Option<Usage>),
    /// The time is over, or a signal said so.
    Stopped,
    /// The recording cannot be written any more.
    Unwritable,
}

pub(super) fn record<'k>(
    request: &RecordRequest,
    kernel: &'k dyn LinuxKernel,
    source: &Source,
    watchers: Watchers<'k>,
) -> Result<RecordOutcome, RecordError> {
    let topology = Topology::read(source);
    let cpus: CpuSet = topology.cpus.iter().map(|cpu| cpu.id).collect();
    let signals = CaughtSignals::catch().map_err(system("catch signals"))?;
    let at_gate = Cell::new(watchers.at_gate);
    let begin = Begin { request, kernel, source, topology: &topology, cpus: &cpus, at_gate: &at_gate };
    let mut session = match &request.target {
        RecordTarget::Launch(command) => begin.launch(command, signals)?,
        RecordTarget::Attach(pid) => begin.attach(*pid, signals)?,
    };
    session.clock = watchers.clock;
    session.viewer = watchers.viewer;
    if let Some(onlooker) = watchers.onlooker {
        session.recorder.be_watched(onlooker.copies());
        session.onlooker = Some(onlooker);
    }
    if session.viewer.is_some() {
        session.recorder.be_viewed();
    }
    session.run()
}

fn system(what: &'static str) -> impl Fn(io::Error) -> RecordError {
    move |source| RecordError::System { what, source }
}

/// `CLOCK_MONOTONIC`, the clock of the kernel's records.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The clock, sampled so often. Whatever is recorded is recorded with this.
pub(super) fn clock(rate_hz: u32, call_chain: Option<u16>, scope: Scope, cpus: CpuSet) -> SamplerRequest {
    SamplerRequest {
        pace: SamplingPace::Period(PERIOD_STRETCH * 1_000_000_000 / (100 * u64::from(rate_hz).max(1))),
        jitter: Some(Jitter { share: 0.05, seed: 0x5eed }),
        sideband: Sideband { switches: true, ..Sideband::for_symbols() },
        fields: Fields { call_chain, period: false, ..Fields::clock() },
        ..SamplerRequest::clock(scope, cpus)
    }
}

/// Lets the child end at its gate.
fn call_off(child: Child) {
    let pid = child.pid;
    drop(child);
    // Not ours any more only if another thread has waited for it.
    let _ = usage::wait(pid, true);
}

/// What it takes to begin.
struct Begin<'a, 'k> {
    request: &'a RecordRequest,
    kernel: &'k dyn LinuxKernel,
    source: &'a Source,
    topology: &'a Topology,
    cpus: &'a CpuSet,
    at_gate: &'a Cell<Option<&'k mut dyn FnMut(u32)>>,
}

impl<'k> Begin<'_, 'k> {
    fn launch(&self, command: &[OsString], signals: CaughtSignals) -> Result<RecordSession<'k>, RecordError> {
        let name = || command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let program = LaunchedProgram::find(command).map_err(|error| match error {
            NotFound::Missing => RecordError::NoProgram { program: name() },
            NotFound::Forbidden(source) => RecordError::NotExecutable { program: name(), source },
        })?;
        let program = program.printing_to(self.request.program_output);
        let command = command.iter().map(|text| text.to_string_lossy().into_owned()).collect();
        let about = self.about(command, None);
        let writer = Writer::create(&self.request.output, &about)?;
        let (heap, no_heap) = self.heap(program.path());
        let of_heap = heap.iter().flat_map(Heap::environment);
        let variables: Vec<_> = self.request.environment.iter().cloned().chain(of_heap).collect();
        // The program inherits what allocations are written to; whatever else we start does not.
        let let_inherit = |is_inherited| heap.as_ref().map_or(Ok(()), |heap| heap.let_inherit(is_inherited));
        let forked = let_inherit(true).and_then(|()| program.fork_with(signals.mask_before(), &variables));
        let forked = forked.and_then(|child| let_inherit(false).map(|()| child));
        let mut child = forked.map_err(system("start a process"))?;
        let scope = Scope::Child(child.pid.cast_unsigned());
        let instrument = self.instrument(&scope);
        let (instrument, refusal) = match instrument {
            Ok(found) => found,
            Err(error) => {
                call_off(child);
                return Err(error);
            }
        };
        let window = RecordWindow {
            origin_ns: now_ns(),
            delay_after_exec_ns: matches!(instrument, SessionInstrument::Sampler(_))
                .then(|| nanos(self.request.delay)),
            end_ns: NEVER,
        };
        let mut recorder = Recorder::new(writer, child.pid, window, SLICE_NS, self.request.skid_instructions);
        let has_heap = heap.is_some();
        recorder.heap = heap;
        recorder.regions.skip_events(self.request.skip_events);
        let mut session = self.session(instrument, recorder, signals, about, child.pid, true);
        let untold = "whose they are stands in the kernel's records, which it refused";
        session.no_heap =
            no_heap.or_else(|| refusal.as_ref().filter(|_| has_heap).map(|_| untold.to_owned()));
        session.refusal = refusal;
        self.sample_loads(&mut session, &scope);
        self.sample_events(&mut session, &scope)?;
        self.prepare_bursts(&mut session, &scope);
        if let Some(at_gate) = self.at_gate.take() {
            at_gate(child.pid.cast_unsigned());
        }
        if let Err(source) = child.go() {
            call_off(child);
            return Err(RecordError::NotExecutable { program: name(), source });
        }
        session.settle();
        Ok(session)
    }

    fn attach(&self, pid: u32, signals: CaughtSignals) -> Result<RecordSession<'k>, RecordError> {
        let gone = || RecordError::NoProcess { pid };
        let number = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or_else(gone)?;
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| gone())?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| gone())?;
        let name = name.trim_end();
        let mut command = procfs::arguments(&arguments);
        if command.is_empty() {
            command.push(name.to_owned());
        }
        let about = self.about(command, Some(pid));
        let (instrument, refusal) = self.instrument(&Scope::Process(pid)).map_err(|error| match error {
            RecordError::Refused(_) if !Path::new(&format!("/proc/{pid}")).exists() => gone(),
            error => error,
        })?;
        let writer = Writer::create(&self.request.output, &about)?;
        let origin_ns = now_ns().saturating_add(nanos(self.request.delay));
        let window = RecordWindow { origin_ns, delay_after_exec_ns: None, end_ns: NEVER };
        let mut recorder = Recorder::new(writer, number, window, SLICE_NS, self.request.skid_instructions);
        recorder.known(number, None, name, &schedule::threads(number).map_err(|_| gone())?);
        let mut session = self.session(instrument, recorder, signals, about, number, false);
        session.refusal = refusal;
        self.sample_loads(&mut session, &Scope::Process(pid));
        self.sample_events(&mut session, &Scope::Process(pid))?;
        self.prepare_bursts(&mut session, &Scope::Process(pid));
        let words = "it was running already when memwall came";
        session.no_heap = self.request.heap.then(|| words.to_owned());
        session.settle();
        Ok(session)
    }

    /// The library for a program, or why the program cannot have it; neither if nobody wants it.
    fn heap(&self, program: &Path) -> (Option<Heap>, Option<String>) {
        if !self.request.heap {
            return (None, None);
        }
        let barrier = barrier(program);
        let reason = |barrier: &Barrier| format!("{} {}", program.display(), barrier.words());
        if let Some(barrier) = barrier.as_ref().filter(|barrier| barrier.is_harmful()) {
            return (None, Some(reason(barrier)));
        }
        // The kernel tells nothing of such a program: nobody will miss its log later.
        let hidden = barrier.filter(|barrier| *barrier == Barrier::OtherRights);
        match Heap::prepare(&self.request.at_marks) {
            Ok(heap) => (Some(heap), hidden.as_ref().map(reason)),
            Err(error) => (None, Some(format!("the library for it cannot be put down ({error})"))),
        }
    }

    fn session(
        &self,
        instrument: SessionInstrument<'k>,
        recorder: Recorder,
        signals: CaughtSignals,
        about: About,
        pid: i32,
        is_child: bool,
    ) -> RecordSession<'k> {
        let began = Instant::now();
        let process = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        RecordSession {
            onlooker: None,
            viewer: None,
            next_view: Instant::now() + VIEW_EVERY,
            clock: None,
            instrument,
            kernel: self.kernel,
            call_chain: self.call_chain(),
            restraint: Restraint::default(),
            held_back: None,
            loads: Vec::new(),
            events: Vec::new(),
            bursts: Bursts::none(),
            core_clock: CoreClock::default(),
            no_loads: None,
            refused_events: Vec::new(),
            recorder,
            signals: Some(signals),
            about,
            steal: StealWatch::begin(self.source, self.cpus, self.topology.hypervisor.is_some()),
            began,
            pid,
            is_child,
            has_delay: !self.request.delay.is_zero(),
            process,
            // A time beyond what the clock can tell never comes.
            stop_at: self.request.duration.and_then(|duration| {
                began.checked_add(self.request.delay).and_then(|start| start.checked_add(duration))
            }),
            refusal: None,
            no_heap: None,
            trouble: None,
        }
    }

    fn call_chain(&self) -> Option<u16> {
        self.request.call_chains.then_some(LONGEST_CHAIN)
    }

    /// Sampling, or what is left without it and why.
    fn instrument(&self, scope: &Scope) -> Result<(SessionInstrument<'k>, Option<String>), RecordError> {
        let request = SamplerRequest {
            slower: Some(SLOW_PERIOD_NS),
            ..clock(self.request.rate_hz, self.call_chain(), scope.clone(), self.cpus.clone())
        };
        match Sampler::open(self.kernel, &request) {
            Ok(sampler) => Ok((SessionInstrument::Sampler(Box::new(sampler)), None)),
            Err(failure) => {
                let words = self.refusal(&failure);
                match self.request.on_refusal {
                    OnRefusal::GoOn => {
                        Ok((SessionInstrument::Schedule(ScheduleWatch::default()), Some(words)))
                    }
                    OnRefusal::Fail => Err(RecordError::Refused(words)),
                }
            }
        }
    }

    /// Has loads sampled beside the clock, if that is asked for; without the clock nobody tells who runs what.
    fn sample_loads(&self, session: &mut RecordSession<'k>, scope: &Scope) {
        if !self.request.precise {
            return;
        }
        let opened = match &session.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => {
                let pmus = Pmu::list(self.source.root());
                let explain = |failure: &SamplingFailure| self.refusal(failure);
                loads::open(self.kernel, &pmus, self.request.rate_hz, scope, self.cpus, explain)
            }
        };
        match opened {
            Ok(samplers) => session.loads = samplers,
            Err(reason) => session.no_loads = Some(reason),
        }
        session.recorder.writer.loads_asked(session.no_loads.as_deref());
    }

    /// Has events sampled beside the clock, if any are asked for. Those that cannot be had are kept with the reason.
    fn sample_events(&self, session: &mut RecordSession<'k>, scope: &Scope) -> Result<(), RecordError> {
        let asked = EventsAsked {
            kernel: self.kernel,
            rate_hz: self.request.rate_hz,
            period: self.request.event_period,
            scope,
            cpus: self.cpus,
        };
        let mut list = Vec::new();
        for (number, named) in self.request.events.iter().enumerate() {
            let opened = match &session.refusal {
                Some(refusal) => Err(refusal.clone()),
                None => asked.open(named).map_err(|failure| self.refusal(&failure)),
            };
            let mut event = asked.about(named);
            match opened {
                Ok(samplers) => {
                    let numbered = |sampler| EventSampler { event: number as u32, sampler };
                    session.events.extend(samplers.into_iter().map(numbered));
                }
                Err(reason) => event.refusal = Some(reason),
            }
            list.push(event);
        }
        if !list.is_empty() {
            session.recorder.writer.begin_events()?;
            session.recorder.writer.sampled_events(list.clone());
            session.refused_events = list.into_iter().filter(|event| event.refusal.is_some()).collect();
        }
        Ok(())
    }

    /// Bursts beside the clock, which tells who runs what.
    fn prepare_bursts(&self, session: &mut RecordSession<'k>, scope: &Scope) {
        if matches!(session.instrument, SessionInstrument::Sampler(_)) {
            session.bursts = Bursts::open(self.kernel, scope, self.cpus);
        }
    }

    fn refusal(&self, failure: &SamplingFailure) -> String {
        let here = Surroundings::read(self.source.root(), "sudo memwall run");
        failure.explain(&here).sentence()
    }

    fn about(&self, command: Vec<String>, attached: Option<u32>) -> About {
        let kernel = self.source.kernel_release().unwrap_or_else(|_| "unknown".into());
        About {
            memwall: self.request.memwall.clone(),
            command,
            attached,
            started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            fingerprint: Fingerprint::of(self.topology, &kernel),
            rate_hz: self.request.rate_hz.into(),
            period_ns: 1e9 / f64::from(self.request.rate_hz),
            skid_instructions: self.request.skid_instructions,
            elapsed_ns: None,
            ending: Ending::Unknown,
            usage: None,
            slowed: None,
            clock_hz: None,
            lost_samples: None,
            noise: None,
            slice_ns: SLICE_NS,
        }
    }
}
