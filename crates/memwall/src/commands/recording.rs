//! What `run`, `record`, `report` and `compare` share: options, recording, reading.

use std::{
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::Duration,
};

use analysis::{reading::Reading, timer::TimerOptions};
use machine::{
    Profile, Source, Topology,
    profile::Fingerprint,
    store::{Store, StoredProfile},
};
use pmu::{NamedSampling, PerfEvents};
use record::{
    file::{self, OlderRecording},
    run::Run,
};
use recorder::{
    OnRefusal, PassingFolder, PassingUse, ProgramOutput, RecordError, RecordOutcome, RecordRequest,
    RecordTarget, RecordTrouble, SampledMoment, Watchers,
};
use report::{json::RunDocument, terminal::run::Detail};

use super::probing::Probing;
use crate::{
    failure::Failure, live::LiveVerdict, output, relieving::Relieving, source_files::Readable, trust,
};

/// The recording that `record` writes and `report` reads if none is named.
pub const DEFAULT: &str = "memwall.sqlite";

/// Samples per second if nothing else is asked for.
const DEFAULT_RATE_HZ: u32 = 1000;

/// Who waits no longer is told nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whom to record, and how.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "What is recorded")]
pub struct Recording {
    /// Attach to this process and its threads instead of starting a program
    #[arg(long, short, value_name = "PID", conflicts_with = "program")]
    pid: Option<u32>,
    /// Stop recording after so many seconds; the program goes on
    #[arg(long, value_name = "SECONDS", value_parser = seconds, alias = "duration")]
    seconds: Option<Duration>,
    /// Begin recording so many seconds after the program began
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delay: Option<Duration>,
    /// Samples per second and running thread
    #[arg(long, value_name = "HZ", default_value_t = DEFAULT_RATE_HZ)]
    rate: u32,
    /// Fail instead of running without samples where the kernel refuses them
    #[arg(long)]
    need_samples: bool,
    /// Do not have the program write down its allocations: data on the heap is then named by its mapping only
    #[arg(long)]
    no_heap: bool,
    /// Take call chains along, for flame graphs; needs programs built with frame pointers
    #[arg(long)]
    call_graph: bool,
    /// Sample loads with their latency and where their data came from, where the processor can (PEBS, IBS)
    #[arg(long)]
    precise: bool,
    /// Leave regions out until the program has said so many times that an event is done (memwall_event_done)
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_events: u64,
    /// Also sample these events, separated by commas, for 'memwall report --by symbol'; may be given several times
    #[arg(long = "event", short, value_name = "EVENTS")]
    events: Vec<String>,
    /// Sample each of these events after so many of them, instead of --rate times a second
    #[arg(long, value_name = "N", requires = "events", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// Do not probe, some 50 ms before and after the program, whether others use cache and memory
    #[arg(long)]
    no_probe: bool,
    /// How long it has gone on is told where a person watches.
    #[arg(skip = true)]
    is_told: bool,
    /// What the program has in its environment beside ours.
    #[arg(skip)]
    environment: Vec<(OsString, OsString)>,
    /// The program and its arguments; -- may stand before it
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        required_unless_present = "pid",
        help_heading = "Arguments"
    )]
    program: Vec<OsString>,
}

impl Recording {
    /// A program as little disturbed as can be: samples, and nothing of its data.
    pub fn sampled_only(program: Vec<OsString>) -> Self {
        Self { no_heap: true, no_probe: true, is_told: false, ..Self::of_program(program) }
    }

    /// A process that runs, for so long, likewise.
    pub fn attached_only(pid: u32, seconds: Duration) -> Self {
        Self { pid: Some(pid), seconds: Some(seconds), ..Self::sampled_only(Vec::new()) }
    }

    /// A program as it is recorded if nothing else is asked for.
    pub fn of_program(program: Vec<OsString>) -> Self {
        Self {
            pid: None,
            seconds: None,
            delay: None,
            rate: DEFAULT_RATE_HZ,
            need_samples: false,
            no_heap: false,
            call_graph: false,
            precise: false,
            skip_events: 0,
            events: Vec::new(),
            period: None,
            no_probe: false,
            is_told: true,
            environment: Vec::new(),
            program,
        }
    }

    /// The same program with other arguments and variables, as one of many runs: nobody is told of it, and nothing is probed.
    pub fn in_series(&self, program: Vec<OsString>, environment: Vec<(OsString, OsString)>) -> Self {
        Self { program, environment, no_probe: true, is_told: false, ..self.clone() }
    }

    /// Whether the program is of this user: it then names no file that it could not read by itself.
    pub fn is_own(&self) -> bool {
        let owner = |pid| std::fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
        let us = rustix::process::geteuid().as_raw();
        self.pid.is_none_or(|pid| owner(pid).is_ok_and(|owner| owner == us))
    }

    /// Of a process that is attached to: who it is, and how to end.
    fn tell_whom(&self) {
        let Some((pid, name)) = self.pid.and_then(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some((pid, name.trim_end().to_owned()))
        }) else {
            return;
        };
        let end = match self.seconds {
            Some(seconds) => format!("for {} s, or until Ctrl-C", seconds.as_secs_f64()),
            None => "until it ends, or Ctrl-C".to_owned(),
        };
        output::say(&format!("recording process {pid} ({name}) {end}; the process itself goes on"));
    }

    /// Whether a person watches a terminal.
    fn is_watched(&self) -> bool {
        self.is_told && output::has_status()
    }

    /// Tells on a terminal how long it has gone on, and what it has come to so far.
    fn clock(&self, verdict: &LiveVerdict) -> impl FnMut(Duration) + use<> {
        let (pid, seconds, verdict) = (self.pid, self.seconds, verdict.words());
        move |elapsed: Duration| {
            if elapsed < PATIENCE {
                return;
            }
            let whom = pid.map(|pid| format!(" process {pid}")).unwrap_or_default();
            let of = seconds.map(|seconds| format!(" of {:.0}", seconds.as_secs_f64())).unwrap_or_default();
            let found = verdict.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let found = found.map(|words| format!(": {words}")).unwrap_or_default();
            output::status(Some(&format!(
                "memwall: recording{whom}, {:.0}{of} s{found}",
                elapsed.as_secs_f64()
            )));
        }
    }

    /// The program with its arguments; nothing if a process is attached to.
    pub fn program(&self) -> &[OsString] {
        &self.program
    }

    /// How to sample the events that are asked for.
    fn events(&self, source: &Source) -> Result<Vec<NamedSampling>, Failure> {
        if self.events.is_empty() {
            return Ok(Vec::new());
        }
        let here = PerfEvents::new(&pmu::Live, source.clone());
        let mut all = Vec::new();
        for list in &self.events {
            let pieces = events::names::split(list).map_err(Failure::usage)?;
            for piece in pieces.iter().flatten() {
                all.push(here.sampling(piece.text).map_err(super::count::refused)?);
            }
        }
        Ok(all)
    }

    /// Records into a file, and relieves hot loops if asked to.
    pub fn record(
        &self,
        output: &Path,
        relieving: bool,
        program_output: ProgramOutput,
    ) -> Result<RecordOutcome, Failure> {
        recorder::clear_leftovers();
        let source = Source::live();
        let target = match self.pid {
            Some(pid) => RecordTarget::Attach(pid),
            None => RecordTarget::Launch(self.program.clone()),
        };
        let topology = Topology::read(&source);
        let mut profile = profile_of(&Fingerprint::with_topology(&topology, &source));
        let skid_instructions = skid(profile.as_mut());
        let probing =
            (!self.no_probe).then(|| Probing::begin(&topology, profile.as_ref(), self.pid.is_some()));
        let request = RecordRequest {
            rate_hz: self.rate,
            delay: self.delay.unwrap_or(Duration::ZERO),
            duration: self.seconds,
            heap: !self.no_heap,
            call_chains: self.call_graph,
            precise: self.precise,
            environment: self.environment.clone(),
            skip_events: self.skip_events,
            events: self.events(&source)?,
            event_period: self.period,
            program_output,
            on_refusal: if self.need_samples { OnRefusal::Fail } else { OnRefusal::GoOn },
            skid_instructions,
            ..RecordRequest::new(target, output)
        };
        let verdict = self.is_watched().then(|| LiveVerdict::begin(profile.clone()));
        let mut onlooker = relieving.then(|| Relieving::begin(profile));
        if self.is_told {
            self.tell_whom();
        }
        let mut clock = verdict.as_ref().map(|verdict| self.clock(verdict));
        let mut viewer = verdict.as_ref().map(|verdict| |moment| verdict.look(moment));
        let watchers = Watchers {
            onlooker: onlooker.as_mut().map(|onlooker| onlooker as &mut dyn recorder::Onlooker),
            viewer: viewer.as_mut().map(|viewer| viewer as &mut dyn FnMut(SampledMoment)),
            clock: clock.as_mut().map(|clock| clock as &mut dyn FnMut(Duration)),
            at_gate: None,
        };
        let outcome = recorder::record_watched(&request, &pmu::Live, &source, watchers);
        if clock.is_some() {
            output::status(None);
        }
        let outcome = outcome.map_err(|error| match error {
            RecordError::NoProgram { .. }
            | RecordError::NotExecutable { .. }
            | RecordError::NoProcess { .. }
            | RecordError::Rate { .. } => Failure::usage(error),
            _ => Failure::measurement(error),
        })?;
        if let Some(probing) = probing {
            probing.end(output, &outcome);
        }
        Ok(outcome)
    }
}

/// This machine's skid; one measured now is kept in the profile that lacks it.
fn skid(profile: Option<&mut Profile>) -> u32 {
    let skid = host::timer::skid_for(profile.as_deref(), &pmu::Live);
    if let Some(profile) = profile.filter(|profile| profile.timer.is_none())
        && let Some(measured) = host::timer::measured(&pmu::Live)
    {
        profile.timer = Some(*measured);
        // Measuring again next time costs little: no reason to fail.
        let _ = Store::of_user().map(|store| store.save(profile));
    }
    skid
}

/// Seconds with a fraction, not negative and not endless.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "write seconds, such as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "write seconds, not negative".to_owned())
}

/// Milliseconds, with a fraction if need be, and more than none.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "write milliseconds, such as 100 or 0.1".to_owned())?;
    match Duration::try_from_secs_f64(number / 1e3) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("write milliseconds, more than 0".to_owned()),
    }
}

/// A recording with everything the report needs.
pub struct ReadRecording {
    /// As recorded.
    pub run: Run,
    /// The profile of the machine it was recorded on.
    pub profile: Option<Profile>,
    /// What is made of it.
    pub reading: Reading,
}

impl ReadRecording {
    /// For machines.
    pub fn document(&self) -> RunDocument<'_> {
        RunDocument::new(&self.reading)
    }

    /// For a browser, with source from files that may be read.
    pub fn page(&self, source: &Readable) -> String {
        report::html::recording(&self.run, &self.reading, self.profile.as_ref(), &source.reading())
    }

    /// For people.
    pub fn text(&self, detail: Detail, columns: usize) -> String {
        let text =
            report::terminal::run::text(&self.reading.findings, Some(&self.reading.objects), detail, columns);
        let import = self.reading.import.as_ref();
        let import = import.map(|import| report::terminal::import::text(import, detail.verbose, columns));
        let import = import.map_or_else(String::new, |text| format!("\n{text}"));
        text + &report::terminal::patterns::text(&self.reading.patterns, detail.verbose, columns)
            + &report::terminal::scaling::text(self.reading.scaling.as_ref(), columns)
            + &report::terminal::regions::text(&self.reading.regions, detail.verbose, columns)
            + &report::terminal::regions::events_text(self.reading.events.as_ref(), columns)
            + &report::terminal::hybrid::text(self.reading.hybrid.as_ref(), columns)
            + &report::terminal::surroundings::text(&self.reading.surroundings, detail.verbose, columns)
            + &import
    }
}

/// Reads and analyses a recording.
pub fn read(path: &Path) -> Result<ReadRecording, Failure> {
    let mut run = file::read(path).map_err(Failure::measurement)?;
    recorder::complete(&mut run);
    Ok(reading_of(run))
}

/// Analyses a run.
pub fn reading_of(mut run: Run) -> ReadRecording {
    let profile = profile_of(&run.about.fingerprint);
    let trusted = match run.import.as_deref_mut() {
        Some(import) => trust::of_import(import),
        None => trust::of_machine(&run.about.fingerprint, None, None),
    };
    let reading = Reading::of(&run, profile.as_ref(), &TimerOptions::on(&trusted));
    ReadRecording { run, profile, reading }
}

/// The profile of the very machine of a recording; none if there is none, or it cannot be read.
pub fn profile_of(fingerprint: &Fingerprint) -> Option<Profile> {
    match Store::of_user().ok()?.find(fingerprint) {
        Ok(StoredProfile::Same(profile)) => Some(*profile),
        _ => None,
    }
}

/// A place for a recording that nobody asked to keep.
pub fn passing() -> Result<(PassingFolder, PathBuf), Failure> {
    let folder = PassingFolder::make(PassingUse::Recording).map_err(|error| {
        Failure::Measurement(format!(
            "cannot make a folder for the recording: {error}; name a file with --output"
        ))
    })?;
    let path = folder.path().join(DEFAULT);
    Ok((folder, path))
}

/// One line each about what went wrong while recording, on stderr.
pub fn warn(outcome: &RecordOutcome) {
    if let Some(refusal) = &outcome.refusal {
        output::say(&format!("recorded without samples: {refusal}"));
    }
    // Without samples at all the reason is the same.
    if let Some(reason) = outcome.no_loads.as_ref().filter(|_| outcome.refusal.is_none()) {
        output::say(&format!("recorded without sampled loads: {reason}"));
    }
    if let Some(folder) = &outcome.left_behind {
        output::say(&format!(
            "processes of the program go on and may start others; what they need for that is in {}, and the first \
             recording after they are done removes it",
            folder.display()
        ));
    }
    if let Some(trouble) = outcome.trouble.as_ref().filter(|_| outcome.samples.is_some()) {
        output::say(&format!("the recording stopped early: {trouble}; what was measured before is kept"));
    }
    if let Some(OlderRecording { path, replaced_another }) = &outcome.older {
        let another = if *replaced_another { ", in place of the one of that name" } else { "" };
        output::say(&format!("the older recording is now {}{another}", path.display()));
    }
}

/// The number of samples that were kept in a file; a failure if they were not.
pub fn kept(outcome: &RecordOutcome, path: &Path) -> Result<u64, Failure> {
    let why = |trouble: &RecordTrouble| trouble.to_string();
    outcome.samples.ok_or_else(|| {
        let reason = outcome.trouble.as_ref().map_or_else(|| "it cannot be read back".to_owned(), why);
        Failure::Measurement(format!("nothing is kept in {}: {reason}", path.display()))
    })
}
