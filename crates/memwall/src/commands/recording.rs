//! What `run`, `record`, `report` and `compare` share: options, recording, reading.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use analysis::{
    findings::{Findings, Objects},
    reading::Reading,
    timer::Options,
};
use host::run::{OnRefusal, Outcome, Request, RunError, Target};
use machine::{
    Profile, Source,
    profile::Fingerprint,
    store::{Found, Store},
};
use record::{file, run::Run};
use report::run::Detail;
use serde::Serialize;

use crate::{failure::Failure, trust};

/// The recording that `record` writes and `report` reads if none is named.
pub const DEFAULT: &str = "memwall.sqlite";

/// Whom to record, and how.
#[derive(clap::Args)]
pub struct Recording {
    /// Attach to this process and its threads instead of starting a program
    #[arg(long, short, value_name = "PID", conflicts_with = "program")]
    pid: Option<u32>,
    /// Stop recording after so many seconds; the program goes on
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Begin recording so many seconds after the program began
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delay: Option<Duration>,
    /// Samples per second and running thread
    #[arg(long, value_name = "HZ", default_value_t = 1000)]
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
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "pid")]
    program: Vec<OsString>,
}

impl Recording {
    /// Records into a file.
    pub fn record(&self, output: &Path) -> Result<Outcome, Failure> {
        let source = Source::live();
        let target = match self.pid {
            Some(pid) => Target::Attach(pid),
            None => Target::Launch(self.program.clone()),
        };
        let request = Request {
            rate_hz: self.rate,
            delay: self.delay.unwrap_or(Duration::ZERO),
            duration: self.duration,
            heap: !self.no_heap,
            call_chains: self.call_graph,
            on_refusal: if self.need_samples { OnRefusal::Fail } else { OnRefusal::GoOn },
            skid_instructions: skid(&Fingerprint::read(&source)),
            ..Request::new(target, output)
        };
        host::run::record(&request, &pmu::Live, &source).map_err(|error| match error {
            RunError::NoProgram { .. }
            | RunError::NotExecutable { .. }
            | RunError::NoProcess { .. }
            | RunError::Rate { .. } => Failure::usage(error),
            _ => Failure::measurement(error),
        })
    }
}

/// This machine's skid; one measured now is kept in the profile that lacks it.
fn skid(fingerprint: &Fingerprint) -> u32 {
    let store = Store::of_user().ok();
    let mut profile = match store.as_ref().map(|store| store.find(fingerprint)) {
        Some(Ok(Found::Same(profile))) => Some(*profile),
        _ => None,
    };
    let skid = host::timer::skid_for(profile.as_ref(), &pmu::Live);
    if let Some((store, profile)) = store.zip(profile.as_mut()).filter(|(_, profile)| profile.timer.is_none())
        && let Some(measured) = host::timer::measured(&pmu::Live)
    {
        profile.timer = Some(*measured);
        // Measuring again next time costs little: no reason to fail.
        let _ = store.save(profile);
    }
    skid
}

/// Seconds with a fraction, not negative and not endless.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "write seconds, such as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "write seconds, not negative".to_owned())
}

/// A recording with everything the report needs.
pub struct Read {
    /// As recorded.
    pub run: Run,
    /// The profile of the machine it was recorded on.
    pub profile: Option<Profile>,
    /// What is made of it.
    pub reading: Reading,
}

/// What `--json` prints: the findings, and what they say about data.
#[derive(Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    objects: &'a Objects,
}

impl Read {
    /// For machines.
    pub fn document(&self) -> Document<'_> {
        Document { findings: &self.reading.findings, objects: &self.reading.objects }
    }

    /// For people.
    pub fn text(&self, detail: Detail, columns: usize) -> String {
        report::run::text(&self.reading.findings, Some(&self.reading.objects), detail, columns)
    }
}

/// Reads and analyses a recording.
pub fn read(path: &Path) -> Result<Read, Failure> {
    let mut run = file::read(path).map_err(Failure::measurement)?;
    host::run::complete(&mut run);
    let profile = profile_of(&run);
    let trusted = trust::of_machine(&run.about.fingerprint, None);
    let reading = Reading::of(&run, profile.as_ref(), &Options::on(&trusted));
    Ok(Read { run, profile, reading })
}

/// The profile of the very machine of a recording; none if there is none, or it cannot be read.
fn profile_of(run: &Run) -> Option<Profile> {
    match Store::of_user().ok()?.find(&run.about.fingerprint) {
        Ok(Found::Same(profile)) => Some(*profile),
        _ => None,
    }
}

/// A place for a recording that nobody asked to keep.
pub fn passing() -> Result<(tempfile::TempDir, PathBuf), Failure> {
    let folder = tempfile::Builder::new().prefix("memwall-").tempdir().map_err(|error| {
        Failure::Measurement(format!(
            "cannot make a folder for the recording: {error}; name a file with --output"
        ))
    })?;
    let path = folder.path().join(DEFAULT);
    Ok((folder, path))
}

/// One line each about what went wrong while recording, on stderr.
pub fn warn(outcome: &Outcome) {
    if let Some(refusal) = &outcome.refusal {
        anstream::eprintln!("memwall: recorded without samples: {refusal}");
    }
    if let Some(folder) = &outcome.left_behind {
        anstream::eprintln!(
            "memwall: processes of the program go on and may start others; when they are done, remove {}",
            folder.display()
        );
    }
    if let Some(trouble) = &outcome.trouble {
        anstream::eprintln!(
            "memwall: the recording stopped early: {trouble}; what was measured before is kept"
        );
    }
}
