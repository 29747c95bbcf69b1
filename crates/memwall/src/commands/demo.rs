//! `memwall demo`: memwall on a program whose truth is measured on the spot.

mod work;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use analysis::{
    findings::{KnownLimits, TimeShare},
    phase_check::{self, PhaseCheck},
};
use record::run::Run;
use recorder::ProgramOutput;
use report::{json::DemoDocument, terminal::run::Detail};

use self::work::{PHASES, PhaseTimes};
use super::recording::{self, ReadRecording, Recording};
use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    output,
    source_files::Readable,
};

/// Try memwall on a program of its own, and see how close it comes to the truth measured beside it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Seconds of processor time that each of the three phases takes
    #[arg(long, value_name = "SECONDS", default_value = "0.7", value_parser = recording::seconds)]
    seconds: Duration,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
    /// Be the program, and write here how long its steps took.
    #[arg(long, value_name = "FILE", hide = true)]
    program: Option<PathBuf>,
    /// Be its twin with little data.
    #[arg(long, hide = true, requires = "program")]
    twin: bool,
}

const EXAMPLES: &str = "\
Examples:
  memwall demo                      some five seconds: the report of a program with three phases, and how right it is
  memwall demo --html demo.html     the same as a page

The program walks through 128 MiB, walks through 64 MiB with arithmetic in between, and sums 16 KiB that stay in the first
cache. How much each waits for memory is measured on this machine, by timing the same steps on 4 KiB of data: nothing of
it is stored. Exit code: 0 also where memwall was wrong or left something open; 1 if nothing could be measured.

Schema of --json: memwall.demo/1.";

/// Measures, reports, and says how close that was.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    if let Some(file) = &args.program {
        let times = work::run(args.seconds, args.twin);
        return output::json_file(file, &times);
    }
    args.forms.check(&[args.page.file()])?;
    let (folder, _) = recording::passing()?;
    let demo = Demo { folder: folder.path(), seconds: args.seconds };
    output::say("a program with three phases runs here, and before and after it the same on little data");
    let mut near = demo.record("before", Some(demo.seconds / 4))?.0;
    let (own, recorded) = demo.record("program", None)?;
    near.extend(demo.record("after", Some(demo.seconds / 4))?.0);
    let read = recording::read(&recorded)?;
    args.page.give(|| read.page(&Readable::OwnProgram))?;
    let checks: Vec<PhaseCheck> = PHASES.iter().map(|phase| check(phase, &own, &near, &read)).collect();
    let document = DemoDocument::new(&read.reading, &checks);
    args.forms.give(Screen::Out, &document, |columns| {
        let detail = Detail { top: Some(FUNCTIONS), verbose: false };
        format!("{}\n{}", read.text(detail, columns), report::terminal::demo::text(&checks, columns))
    })
}

/// Functions listed: all phases, and what else there may be.
const FUNCTIONS: usize = 4;

/// Where it runs, and how long a phase takes.
struct Demo<'a> {
    folder: &'a Path,
    seconds: Duration,
}

impl Demo<'_> {
    /// Runs the program under the recorder, or its twin for so long; gives its own times and the recording.
    fn record(&self, name: &str, twin: Option<Duration>) -> Result<(Vec<PhaseTimes>, PathBuf), Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::Measurement(format!("cannot find memwall itself: {error}")))?;
        let times = self.folder.join(name).with_extension("json");
        let seconds = twin.unwrap_or(self.seconds).as_secs_f64();
        let mut words: Vec<OsString> =
            vec![own.into(), "demo".into(), "--program".into(), times.clone().into()];
        words.extend(["--seconds".into(), seconds.to_string().into()]);
        words.extend(twin.map(|_| OsString::from("--twin")));
        let recorded = self.folder.join(name).with_extension("sqlite");
        // Sampled alike: what sampling costs is the same in both.
        let recording = match twin {
            None => Recording::of_program(words),
            Some(_) => Recording::sampled_only(words),
        };
        let outcome = recording.record(&recorded, false, ProgramOutput::Stderr)?;
        if twin.is_none() {
            recording::warn(&outcome);
        }
        recording::kept(&outcome, &recorded)?;
        if outcome.exit_code() != 0 {
            let code = outcome.exit_code();
            return Err(Failure::Measurement(format!(
                "the program of the demo failed with exit code {code}"
            )));
        }
        let text = fs::read_to_string(&times).map_err(|error| {
            Failure::Measurement(format!("the program of the demo told no times: {error}"))
        })?;
        let times = serde_json::from_str(&text).map_err(|error| {
            Failure::Measurement(format!("the times of the demo's program make no sense: {error}"))
        })?;
        Ok((times, recorded))
    }
}

fn check(
    phase: &work::DemoPhase,
    own: &[PhaseTimes],
    near: &[PhaseTimes],
    read: &ReadRecording,
) -> PhaseCheck {
    let is_it = |times: &&PhaseTimes| times.function == phase.function;
    let own_ns = own.iter().find(is_it).map_or(f64::NAN, |times| times.step_ns);
    let near_ns: Vec<f64> =
        near.iter().filter(is_it).flat_map(|times| times.stretches_ns.iter().copied()).collect();
    PhaseCheck {
        name: phase.function.to_owned(),
        about: phase.about.to_owned(),
        truth: phase_check::truth(own_ns, &near_ns),
        answer: answer(&read.run, phase.function),
    }
}

/// What samples of one function say, as if they were all there are.
fn answer(run: &Run, function: &str) -> KnownLimits<TimeShare> {
    let verdict = recording::reading_of(only(run, function)).reading.findings.verdict;
    match verdict.memory {
        Some(share) => KnownLimits::Value(share),
        None => KnownLimits::Missing(verdict.reasons.join(" ").trim_end_matches('.').to_owned()),
    }
}

/// The run with the samples of one function only.
fn only(run: &Run, function: &str) -> Run {
    let is_in = |place: &record::ids::PlaceId| {
        let id = run.place(*place).and_then(|place| place.function);
        id.and_then(|id| run.function(id)).is_some_and(|found| found.name.contains(function))
    };
    let kept: Vec<bool> = run.samples.place.iter().map(is_in).collect();
    let mut run = run.clone();
    let samples = &mut run.samples;
    keep(&mut samples.time_ns, &kept);
    keep(&mut samples.thread, &kept);
    keep(&mut samples.cpu, &kept);
    keep(&mut samples.place, &kept);
    keep(&mut samples.address, &kept);
    keep(&mut samples.stack, &kept);
    run
}

/// Call chains may not have been recorded: what is shorter has nothing to keep.
fn keep<T>(column: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    column.retain(|_| kept.next().copied().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of `phases`, whose two functions wait nearly always and never: each answers for itself.
    #[test]
    fn an_answer_is_about_its_own_function() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings/phases.sqlite");
        let run = record::file::read(&file).expect("it is kept");
        let memory = |function| answer(&run, function).value().expect("samples").value;
        assert!(memory("waiting_phase") > 0.9, "{}", memory("waiting_phase"));
        assert!(memory("compute_phase") < 0.1, "{}", memory("compute_phase"));
        assert!(answer(&run, "no_such_function").missing().is_some());
        let all = run.samples.place.len();
        let parts = ["waiting_phase", "compute_phase"].map(|name| only(&run, name).samples.place.len());
        assert!(parts[0] > 0 && parts[1] > 0 && parts[0] + parts[1] <= all, "{parts:?} of {all}");
    }
}
