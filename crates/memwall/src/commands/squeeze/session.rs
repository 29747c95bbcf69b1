//! `memwall squeeze -- PROGRAM`, and a scenario in its place.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use host::{Host, native::Native, scenario::ScenarioJob, simulated::Simulated};
use indicatif::ProgressBar;
use kernels::{KernelCatalogue, scenario::Scenario};
use machine::{
    CpuSet, Source,
    squeezing::{SqueezeKind, SqueezeProfile},
};
use record::{
    run::Ending,
    squeeze::{SqueezeRun, TimedBy},
};
use squeeze::{
    judge::CpusDo,
    native::{FirstRun, NativeProgram, PrintedValue, ProgramMetric, ProgramPlan},
    partition::HardwarePartition,
    scenario::ScenarioSubject,
    session::{MOST_ROUNDS, SessionPlan, SessionProgress, SqueezeSubject, SubjectFacts},
};

use super::{KeptProfile, SqueezeArgs, calibrating::failure, together, waiting};
use crate::{failure::Failure, forms::Screen, interrupt, output, progress, target::Target};

/// Seconds for all runs unless more are asked for.
pub const BUDGET_S: f64 = 300.0;
/// Runs shorter than this are mostly starting and ending.
const SHORT_NS: f64 = 1e8;

/// What a program's time is.
#[derive(clap::Args)]
#[command(next_help_heading = "What is timed")]
pub struct Timing {
    /// Take the number that the program prints: the first group of this pattern, last match
    #[arg(long, value_name = "REGEX")]
    metric_regex: Option<String>,
    /// What that number is
    #[arg(long, value_enum, default_value_t = PrintedKind::Rate, requires = "metric_regex")]
    metric_is: PrintedKind,
    /// Time from the first line 'begin' to the last line 'end' that the program writes to the file $MEMWALL_MARKS
    #[arg(long, conflicts_with = "metric_regex")]
    marks: bool,
    /// What the program reads; nothing unless given
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Show the output of every run, not only of the first
    #[arg(long)]
    all_output: bool,
    /// Run so many copies at once, on CPUs of their own, and give bounds for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) copies: u16,
    /// Of a scenario, time this region only
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Set a value the scenario declares, such as w=512K; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(super) set: Vec<String>,
    /// Divide the size of every buffer of the scenario by this
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
}

/// What a printed number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PrintedKind {
    /// More is faster.
    Rate,
    /// Less is faster.
    Time,
}

/// What is squeezed, and where.
pub(super) struct SqueezeTask<'a> {
    pub args: &'a SqueezeArgs,
    pub machine: &'a Target,
    pub profile: &'a SqueezeProfile,
    pub plan: SessionPlan,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Values of the scenario, as they would be typed.
    pub set: Vec<String>,
    /// CPUs of the program.
    pub own: CpuSet,
    /// CPUs of the interference.
    pub spare: Vec<u32>,
    /// Processes that share the cache.
    pub processes: usize,
    /// Copies that are started, each with its part of the CPUs; a launcher is one.
    pub copies: usize,
}

/// What became of a squeeze.
pub(super) enum Squeezed {
    /// It was measured; with the exit code of the first run.
    Measured(Box<SqueezeRun>, ExitCode),
    /// Ctrl-C before anything was.
    Interrupted,
    /// The first run, beside nothing, was killed by this signal: there is nothing to compare with.
    Killed(i32),
}

/// Of a squeeze before whose end nothing was measured.
pub(super) const INTERRUPTED: &str = "interrupted before anything was measured";

/// What is said of a program that was killed in its first run, and its exit code.
pub(super) fn killed(signal: i32) -> (String, ExitCode) {
    let said = format!("the program was killed by signal {signal} without any interference");
    (said, ExitCode::from((128 + (signal & 0x7f)) as u8))
}

/// Squeezes and prints.
pub fn run(args: &SqueezeArgs, machine: &Target) -> Result<ExitCode, Failure> {
    let kept = KeptProfile::of(machine)?;
    let profile = calibrated(&kept, machine)?;
    let (own, spare) = cpus(args, profile)?;
    let copies = usize::from(args.timing.copies);
    let task = SqueezeTask {
        args,
        machine,
        profile,
        plan: plan(args, machine),
        command: args.command.clone(),
        set: args.timing.set.clone(),
        own,
        spare,
        processes: copies,
        copies,
    };
    let (run, code) = match task.squeeze()? {
        Squeezed::Measured(run, code) => (*run, code),
        Squeezed::Interrupted => return Err(Failure::Measurement(INTERRUPTED.to_owned())),
        Squeezed::Killed(signal) => {
            let (said, code) = killed(signal);
            output::say(&said);
            return Ok(code);
        }
    };
    let screen = if args.command.is_empty() { Screen::Out } else { Screen::BesideProgram };
    args.page.give(|| report::html::squeeze(&run))?;
    args.forms.give(screen, &run, |columns| report::terminal::squeeze::text(&run, columns))?;
    Ok(code)
}

/// What interference takes here, if it was measured and something can be concluded from it.
pub(super) fn calibrated<'k>(kept: &'k KeptProfile, machine: &Target) -> Result<&'k SqueezeProfile, Failure> {
    let Some(profile) = kept.squeeze() else {
        let on = match machine {
            Target::Native => String::new(),
            Target::Simulated(model) => format!(" --on sim:{}", model.name),
        };
        return Err(Failure::Measurement(format!(
            "what interference takes here is not known yet: 'memwall squeeze --calibrate{on}' measures it once"
        )));
    };
    if SqueezeKind::ALL.iter().all(|kind| profile.refusal(*kind).is_some()) {
        let why = squeeze::calibrate::all_refusals(profile);
        return Err(Failure::Measurement(format!("this machine cannot be squeezed: {why}")));
    }
    Ok(profile)
}

/// How it is led.
pub(super) fn plan(args: &SqueezeArgs, machine: &Target) -> SessionPlan {
    SessionPlan {
        harm: args.harm / 100.0,
        budget_s: matches!(machine, Target::Native).then_some(args.budget),
        seed: args.seed,
        kinds: SqueezeKind::ALL.to_vec(),
        whole_curves: args.curves,
    }
}

/// The CPUs of the program and those of the interference.
fn cpus(args: &SqueezeArgs, profile: &SqueezeProfile) -> Result<(CpuSet, Vec<u32>), Failure> {
    let spare: Vec<u32> = profile.spare.iter().collect();
    let own = match &args.cpus {
        None => profile.domain.difference(&profile.spare),
        Some(own) if own.intersection(&profile.spare).is_empty() => own.clone(),
        Some(own) => {
            return Err(Failure::Usage(format!(
                "--cpus {own}: interference was calibrated on CPUs {}; name others, or calibrate with the same --cpus",
                profile.spare
            )));
        }
    };
    Ok((own, spare))
}

impl SqueezeTask<'_> {
    /// Runs it.
    pub fn squeeze(&self) -> Result<Squeezed, Failure> {
        match &self.args.scenario {
            Some(name) => self.scenario(name),
            None => self.program(),
        }
    }

    /// A partition for the program's CPUs, where strengths are such.
    fn partition(&self, remarks: &mut Vec<String>) -> Option<HardwarePartition> {
        let all = SqueezeKind::ALL.into_iter().flat_map(|kind| self.profile.points(kind));
        let divided = all.filter_map(|point| point.interference).any(|one| one.left.is_some());
        let native = matches!(self.machine, Target::Native);
        let say = &mut |text| remarks.push(text);
        (divided && native)
            .then(|| HardwarePartition::make(Path::new("/"), self.profile.level, &self.own, say))
            .flatten()
    }

    fn program(&self) -> Result<Squeezed, Failure> {
        let (metric, timed_by) = metric(&self.args.timing)?;
        let mut host = Native::new(&Source::live(), self.args.seed).map_err(Failure::measurement)?;
        let program_plan = ProgramPlan {
            command: self.command.clone(),
            cpus: self.own.clone(),
            spare: self.spare.clone(),
            metric,
            input: self.args.timing.input.clone(),
            all_output: self.args.timing.all_output,
            copies: self.copies,
        };
        let mut remarks = Vec::new();
        let partition = self.partition(&mut remarks);
        let mut subject = NativeProgram::find(&mut host, partition, program_plan).map_err(failure)?;
        let Some(first) = subject.first_run().map_err(failure)? else {
            return Ok(Squeezed::Interrupted);
        };
        let FirstRun { wall_ns, ending, busy_cpus } = first;
        let code = match ending {
            Ending::Exited(code) => (code & 0xff) as u8,
            Ending::Signalled(signal) => return Ok(Squeezed::Killed(signal)),
            Ending::Detached | Ending::Unknown => 0,
        };
        say_cost(wall_ns, &self.plan, self.profile);
        let several = together::are_several(busy_cpus, self.processes);
        let input = self.args.timing.input.as_deref();
        let cpus_do = match several {
            false => CpusDo::InTurn,
            // Where nothing can be sampled it stays unknown.
            true => waiting::sampled(&self.command, input)
                .map_or(CpusDo::Apart, |(_, recording)| together::cpus_do(&recording)),
        };
        let facts = SubjectFacts {
            program: words(&self.command),
            simulated: None,
            timed_by,
            threads: (self.own.len() == 1 || !several && self.processes == 1).then_some(1),
            cpus: self.own.clone(),
            processes: self.processes,
            cpus_do,
        };
        let mut run = squeezed(&mut subject, &facts, self.profile, &self.plan, false)?;
        run.remarks.append(&mut remarks);
        if wall_ns < SHORT_NS {
            run.remarks.push(format!(
                "One run takes {}: much of that is starting and ending. A longer one tells more.",
                machine::units::nanos(wall_ns)
            ));
        }
        if waiting::tells_more(&run) {
            waiting::tell_apart(&mut run, &self.command, input);
        }
        // Ctrl-C is its until now: what was measured is kept.
        drop(subject);
        Ok(Squeezed::Measured(Box::new(run), ExitCode::from(code)))
    }

    fn scenario(&self, name: &str) -> Result<Squeezed, Failure> {
        let catalogue = crate::commands::catalogue(None)?;
        let scenario = scenario_of(name, &catalogue, &self.set)?;
        let each = scenario.threads.unwrap_or(self.own.len() / self.processes.max(1)).max(1);
        let threads = each * self.processes.max(1);
        let cpus: Vec<u32> = self.own.iter().take(threads).collect();
        if cpus.len() < threads {
            let copies =
                if self.processes > 1 { format!("{} copies with ", self.processes) } else { String::new() };
            return Err(Failure::Usage(format!(
                "scenario '{}' has {copies}{each} threads, and interference leaves CPUs {} to it; calibrate with --cpus that are \
                 enough",
                scenario.name, self.own
            )));
        }
        let scenario = squeeze::scenario::copies(&scenario, each, self.processes);
        let (mut host, simulated): (Box<dyn Host>, Option<String>) = match self.machine {
            Target::Native => {
                (Box::new(Native::with_kernels(&Source::live(), catalogue, scenario.seed)), None)
            }
            Target::Simulated(model) => {
                (Box::new(Simulated::with_kernels(model, catalogue, scenario.seed)), Some(model.name.clone()))
            }
        };
        let interrupt = interrupt::flag()?;
        let request = ScenarioJob { scenario: &scenario, cpus: &cpus, scale: self.args.timing.scale };
        let region = self.args.timing.region.clone();
        let timed_by = match (&region, &simulated) {
            (Some(region), _) => TimedBy::Region(region.clone()),
            (None, Some(_)) => TimedBy::Simulated,
            (None, None) => TimedBy::Wall,
        };
        let mut remarks = Vec::new();
        let partition = self.partition(&mut remarks);
        let mut subject =
            ScenarioSubject::prepare(&mut *host, partition, request, region, &self.spare, &interrupt)
                .map_err(failure)?;
        let set = self.set.iter().map(|set| format!(" {set}")).collect::<String>();
        let facts = SubjectFacts {
            program: format!("{}{set}", scenario.name),
            simulated,
            timed_by,
            cpus: cpus.iter().copied().collect(),
            processes: self.processes,
            threads: Some(cpus.len()),
            cpus_do: subject.cpus_do(self.processes).map_err(failure)?,
        };
        let mut run = squeezed(&mut subject, &facts, self.profile, &self.plan, true)?;
        run.remarks.append(&mut remarks);
        if waiting::tells_more(&run) {
            let brought = subject.lines_brought(self.profile.claimed, self.processes).map_err(failure)?;
            waiting::tell_scenario_apart(&mut run, brought, self.profile);
        }
        Ok(Squeezed::Measured(Box::new(run), ExitCode::SUCCESS))
    }
}

/// A scenario by its name or file, with these values.
pub(super) fn scenario_of(
    name: &str,
    catalogue: &KernelCatalogue,
    set: &[String],
) -> Result<Scenario, Failure> {
    let settings = crate::commands::scenario::settings(set)?;
    crate::commands::scenario::read(name, catalogue, &settings)
}

fn metric(timing: &Timing) -> Result<(ProgramMetric, TimedBy), Failure> {
    if timing.marks {
        return Ok((ProgramMetric::Marks, TimedBy::Marks));
    }
    let Some(pattern) = &timing.metric_regex else { return Ok((ProgramMetric::Wall, TimedBy::Wall)) };
    let is_rate = timing.metric_is == PrintedKind::Rate;
    let value = PrintedValue::new(pattern, is_rate)
        .map_err(|error| Failure::Usage(format!("--metric-regex {pattern}: {error}")))?;
    let pattern = pattern.clone();
    let timed_by = if is_rate { TimedBy::PrintedRate(pattern) } else { TimedBy::PrintedTime(pattern) };
    Ok((ProgramMetric::Printed(value), timed_by))
}

pub(super) fn words(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What it may cost, before it begins.
fn say_cost(wall_ns: f64, plan: &SessionPlan, profile: &SqueezeProfile) {
    let kinds = SqueezeKind::ALL.iter().filter(|kind| profile.refusal(**kind).is_none()).count();
    let wall_s = wall_ns / 1e9;
    // Full strength, and some four halvings, each decided at one of the first looks or the last.
    let most = MOST_ROUNDS * (kinds + 1) * 5;
    let allowed = plan.budget_s.map_or(most, |budget| ((budget / wall_s) as usize).min(most));
    let least = squeeze::slowdown::LEAST_ROUNDS * (kinds + 1);
    let in_all = |runs: usize| machine::units::nanos(runs as f64 * wall_ns);
    let (one, budget) = (machine::units::nanos(wall_ns), plan.budget_s.unwrap_or(f64::NAN));
    output::say(&match allowed < least {
        true => format!(
            "one run takes {one}; {allowed} runs follow at most, {} in all (--budget {budget:.0}): too few for an interval, which \
             needs {least} runs, {}",
            in_all(allowed),
            in_all(least),
        ),
        false => format!(
            "one run takes {one}; {least} to {allowed} runs follow, {} to {} in all (--budget {budget:.0})",
            in_all(least),
            in_all(allowed),
        ),
    });
}

/// Leads a session with a bar. `say_cost`: say after the first runs what the others will take.
fn squeezed(
    subject: &mut dyn SqueezeSubject,
    facts: &SubjectFacts,
    profile: &SqueezeProfile,
    plan: &SessionPlan,
    mut say_cost: bool,
) -> Result<SqueezeRun, Failure> {
    let bar: ProgressBar = progress::filling();
    let mut watch = |at: SessionProgress| {
        // What was not run once before is told by its first runs.
        if std::mem::take(&mut say_cost) && at.runs_left > 0 {
            let left = machine::units::nanos(at.seconds_left * 1e9);
            output::say(&format!("{} runs follow at most, about {left} in all", at.runs_left));
        }
        let share = at.runs as f64 / (at.runs + at.runs_left).max(1) as f64;
        progress::fill(&bar, share, &format!("{} runs, about {:.0} s more", at.runs, at.seconds_left));
    };
    let run = squeeze::session::squeeze(subject, facts, profile, plan, &mut watch);
    bar.finish_and_clear();
    run.map_err(failure)
}
