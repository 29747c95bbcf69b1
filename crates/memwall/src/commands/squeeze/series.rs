//! `memwall squeeze --map` and `--vary`: the same program with more processes around the cache, or with other inputs.

use std::{ffi::OsString, process::ExitCode};

use machine::{
    CpuSet,
    squeezing::{SqueezeKind, SqueezePoint, SqueezeProfile},
};
use record::{
    predict::BestMapping,
    squeeze::{SERIES_SCHEMA, SeriesMember, SqueezeEnd, SqueezeRun, SqueezeSeries},
};

use super::{
    KeptProfile, SqueezeArgs,
    session::{self, SqueezeTask, Squeezed},
};
use crate::{failure::Failure, forms::Screen, output, placeholder::filled_in, target::Target};

/// How processes are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Launcher {
    /// So many copies of the program, each on a CPU of its own.
    Copies,
    /// Open MPI's mpirun, each rank bound to a CPU of its own.
    Mpirun,
    /// Slurm's srun, likewise.
    Srun,
}

impl Launcher {
    /// The command that starts so many on these CPUs, and how many times memwall starts it.
    fn command(self, program: &[OsString], many: usize, cpus: &CpuSet) -> (Vec<OsString>, usize) {
        let list: Vec<String> = cpus.iter().take(many).map(|cpu| cpu.to_string()).collect();
        let list = list.join(",");
        let words: Vec<String> = match self {
            Self::Copies => return (program.to_vec(), many),
            Self::Mpirun => vec![
                "mpirun".into(),
                "-n".into(),
                many.to_string(),
                "--cpu-list".into(),
                list,
                "--bind-to".into(),
                "cpu-list:ordered".into(),
            ],
            Self::Srun => {
                vec!["srun".into(), "-n".into(), many.to_string(), format!("--cpu-bind=map_cpu:{list}")]
            }
        };
        (words.into_iter().map(OsString::from).chain(program.iter().cloned()).collect(), 1)
    }
}

/// One of the runs to be made.
struct PlannedMember {
    value: String,
    command: Vec<OsString>,
    set: Vec<String>,
    own: CpuSet,
    spare: Vec<u32>,
    processes: usize,
    copies: usize,
}

/// Squeezes for each value and prints all of them together.
pub fn run(args: &SqueezeArgs, machine: &Target) -> Result<ExitCode, Failure> {
    let kept = KeptProfile::of(machine)?;
    let profile = session::calibrated(&kept, machine)?;
    let (varied, planned) = match &args.vary {
        Some(vary) => varied(args, profile, vary)?,
        None => ("processes".to_owned(), mapped(args, profile)?),
    };
    let mut plan = session::plan(args, machine);
    plan.budget_s = plan.budget_s.map(|budget| budget / planned.len().max(1) as f64);
    let (mut members, mut code, mut killed) = (Vec::new(), ExitCode::SUCCESS, None);
    for (index, planned) in planned.into_iter().enumerate() {
        output::say(&format!("{varied} {}", planned.value));
        let profile = within(profile, &planned);
        let task = SqueezeTask {
            args,
            machine,
            profile: &profile,
            plan: plan.clone(),
            command: planned.command,
            set: planned.set,
            own: planned.own,
            spare: planned.spare,
            processes: planned.processes,
            copies: planned.copies,
        };
        let mut over = false;
        let (run, failed) = match task.squeeze() {
            Ok(Squeezed::Measured(run, of_first)) => {
                if index == 0 {
                    code = of_first;
                }
                over = run.ended == SqueezeEnd::Interrupted;
                (Some(*run), None)
            }
            Ok(Squeezed::Interrupted) => {
                over = true;
                (None, Some(session::INTERRUPTED.to_owned()))
            }
            Ok(Squeezed::Killed(signal)) => {
                let (why, of_first) = session::killed(signal);
                if index == 0 {
                    (code, killed) = (of_first, Some(of_first));
                }
                (None, Some(why))
            }
            Err(Failure::Measurement(why)) => (None, Some(why)),
            // What makes no sense does not do so for any value.
            Err(failure) => return Err(failure),
        };
        let alone_ns = run.as_ref().and_then(alone_ns);
        members.push(SeriesMember { value: planned.value, alone_ns, run, failed });
        if over {
            break;
        }
    }
    if members.iter().all(|member| member.run.is_none()) {
        let why = members.into_iter().find_map(|member| member.failed).unwrap_or_default();
        let Some(code) = killed else { return Err(Failure::Measurement(why)) };
        output::say(&why);
        return Ok(code);
    }
    let best = if args.vary.is_none() { best(&members) } else { None };
    let program = match &args.scenario {
        Some(name) => name.clone(),
        None => session::words(&args.command),
    };
    let series = SqueezeSeries {
        schema: SERIES_SCHEMA.to_owned(),
        program,
        varied,
        members,
        best,
        remarks: Vec::new(),
    };
    args.page.give(|| report::html::squeeze_series(&series))?;
    let screen = if args.command.is_empty() { Screen::Out } else { Screen::BesideProgram };
    args.forms.give(screen, &series, |columns| report::terminal::squeeze::series(&series, columns))?;
    Ok(code)
}

/// `n=22,26,30` as one run for each, `{n}` in the command replaced.
fn varied(
    args: &SqueezeArgs,
    profile: &SqueezeProfile,
    vary: &str,
) -> Result<(String, Vec<PlannedMember>), Failure> {
    let wrong = |why: &str| {
        Failure::Usage(format!("--vary {vary}: {why}; write n=22,26,30 and {{n}} in the command"))
    };
    let (name, values) = vary.split_once('=').ok_or_else(|| wrong("no list"))?;
    let values: Vec<&str> = values.split(',').map(str::trim).filter(|value| !value.is_empty()).collect();
    if name.is_empty() || values.is_empty() {
        return Err(wrong("no name, or no value"));
    }
    let placeholder = format!("{{{name}}}");
    let is_there = |word: &OsString| word.to_string_lossy().contains(&placeholder);
    if !args.command.is_empty() && !args.command.iter().any(is_there) {
        return Err(wrong(&format!("the command has no {placeholder}")));
    }
    let own = args.cpus.clone().unwrap_or_else(|| profile.domain.difference(&profile.spare));
    let copies = usize::from(args.timing.copies);
    let member = |value: &&str| PlannedMember {
        value: (*value).to_owned(),
        command: args.command.iter().map(|word| filled_in(word, &placeholder, value)).collect(),
        set: match args.scenario {
            Some(_) => args.timing.set.iter().cloned().chain([format!("{name}={value}")]).collect(),
            None => args.timing.set.clone(),
        },
        own: own.clone(),
        spare: profile.spare.iter().collect(),
        processes: copies,
        copies,
    };
    Ok((name.to_owned(), values.iter().map(member).collect()))
}

/// So many processes each on CPUs of its own, the first that --cpus names or that there are; interference on the rest of the
/// cores around the cache.
fn mapped(args: &SqueezeArgs, profile: &SqueezeProfile) -> Result<Vec<PlannedMember>, Failure> {
    if args.timing.copies > 1 {
        let why = "--copies beside --map: the map says how many there are; leave out --copies";
        return Err(Failure::Usage(why.to_owned()));
    }
    let named = args.cpus.as_ref();
    if let Some(own) = named.filter(|own| !own.difference(&profile.domain).is_empty()) {
        return Err(Failure::Usage(format!(
            "--cpus {own}: interference was calibrated around the cache of CPUs {}; name some of these",
            profile.domain
        )));
    }
    let all: Vec<u32> = named.unwrap_or(&profile.domain).iter().collect();
    let each = threads_each(args)?;
    args.map
        .iter()
        .map(|&many| {
            let many = usize::from(many);
            let wanted = many * each;
            if wanted > all.len() || wanted >= profile.domain.len() {
                return Err(Failure::Usage(too_many(many, each, all.len(), profile)));
            }
            let own: CpuSet = all[..wanted].iter().copied().collect();
            let (command, copies) = args.launcher.command(&args.command, many, &own);
            let command = if args.command.is_empty() { Vec::new() } else { command };
            let spare = profile.domain.difference(&own).iter().collect();
            Ok(PlannedMember {
                value: many.to_string(),
                command,
                set: args.timing.set.clone(),
                own,
                spare,
                processes: many,
                copies,
            })
        })
        .collect()
}

/// Threads of one process, as far as memwall is to know: of a scenario those it has.
fn threads_each(args: &SqueezeArgs) -> Result<usize, Failure> {
    let Some(name) = &args.scenario else { return Ok(1) };
    if args.launcher != Launcher::Copies {
        let why =
            "--launcher starts programs; copies of a scenario memwall runs itself: leave out --launcher";
        return Err(Failure::Usage(why.to_owned()));
    }
    let catalogue = crate::commands::catalogue(None)?;
    let scenario = session::scenario_of(name, &catalogue, &args.timing.set)?;
    Ok(scenario.threads.unwrap_or(1).max(1))
}

fn too_many(many: usize, each: usize, named: usize, profile: &SqueezeProfile) -> String {
    let threads = if each > 1 { format!(" with {each} threads each") } else { String::new() };
    format!(
        "--map {many}: {many} processes{threads} need {} cores; there are {named} for them, {} around the cache, and at least one \
         is needed for interference",
        many * each,
        profile.domain.len()
    )
}

/// The strengths that the spare CPUs can run; where there is none of a kind, what to calibrate.
fn within(profile: &SqueezeProfile, planned: &PlannedMember) -> SqueezeProfile {
    let spare = planned.spare.len();
    let runs = |point: &SqueezePoint| point.interference.is_none_or(|one| one.threads <= spare);
    let mut left = profile.clone();
    left.storage.retain(runs);
    left.bandwidths.retain(runs);
    for kind in SqueezeKind::ALL {
        if left.points(kind).len() < 2 && left.refusal(kind).is_none() {
            let threads = profile.points(kind).iter().filter_map(|point| point.interference);
            let fewest = threads.map(|one| one.threads).min().unwrap_or(0);
            let why = format!(
                "every strength of {kind} interference that was calibrated has {fewest} threads or more, and beside these processes \
                 {spare} cores are spare: 'memwall squeeze --calibrate --cpus {}' finds strengths for so many",
                planned.own
            );
            left.refusals.push((kind, why));
        }
    }
    left
}

/// The middle of all runs alone.
fn alone_ns(run: &SqueezeRun) -> Option<f64> {
    let mut alone: Vec<f64> =
        run.runs.iter().filter(|run| run.interference.is_none()).filter_map(|run| run.ns).collect();
    alone.sort_by(f64::total_cmp);
    alone.get(alone.len() / 2).copied()
}

/// A mapping that is slower by less than this is as good as the sparsest.
const AS_GOOD: f64 = 0.03;

/// The most around the cache that are no slower than the fewest, and why no more: the resource of which more processes want
/// more than there is.
fn best(members: &[SeriesMember]) -> Option<BestMapping> {
    let mut told: Vec<(usize, f64, &SqueezeRun)> = members
        .iter()
        .filter_map(|member| Some((member.value.parse().ok()?, member.alone_ns?, member.run.as_ref()?)))
        .collect();
    told.sort_by_key(|(many, ..)| *many);
    let (_, fewest_ns, _) = *told.first()?;
    let lost = |ns: f64| ns / fewest_ns - 1.0;
    let at = told.iter().rposition(|(_, ns, _)| lost(*ns) <= AS_GOOD)?;
    let (per_socket, ..) = told[at];
    let Some((more, ns, run)) = told.get(at + 1) else {
        let why = "no more than that were tried, and it loses nothing".to_owned();
        return Some(BestMapping { per_socket, cause: None, why });
    };
    let cause = cause(run, told[0].2, *more);
    let want = cause.map_or_else(
        || "; neither cache nor bandwidth explains that".to_owned(),
        |kind| format!(", for want of {kind}"),
    );
    let why = format!("{more} are each {:.0} % slower{want}", lost(*ns) * 100.0);
    Some(BestMapping { per_socket, cause, why })
}

/// What so many want more of than there is: of which they lose most when some more of it is taken, or of which one alone was
/// seen to use its part and more.
fn cause(crowded: &SqueezeRun, sparse: &SqueezeRun, many: usize) -> Option<SqueezeKind> {
    let wanted = |kind: SqueezeKind| {
        let curve = sparse.curve(kind);
        let used = curve.bounds?.at_most.zip(curve.bounds?.at_least).map(|(high, low)| (high + low) / 2.0)?;
        Some(used * many as f64 / curve.whole?)
    };
    let first_loss = |kind: SqueezeKind| {
        let points = &crowded.curve(kind).points;
        let weakest = points.iter().max_by(|a, b| a.left.value.total_cmp(&b.left.value))?;
        Some(weakest.slowdown.value - 1.0 - weakest.elsewhere)
    };
    let most = |of: &dyn Fn(SqueezeKind) -> Option<f64>, least: f64| {
        let all = SqueezeKind::ALL.into_iter().filter_map(|kind| Some((kind, of(kind)?)));
        all.filter(|(_, value)| *value > least).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| kind)
    };
    most(&wanted, 0.9).or_else(|| most(&first_loss, AS_GOOD))
}

#[cfg(test)]
mod tests;
