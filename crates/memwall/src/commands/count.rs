//! `memwall count`: events, counted.

use std::{collections::BTreeSet, ffi::OsString, process::ExitCode, sync::atomic::Ordering, time::Duration};

use ::trust::TrustCatalogue;
use analysis::{
    lower_clock,
    marking::{Broken, mark, reason, withhold},
    patterns::{from_counts, in_regions, judge},
};
use events::{CountRefusal, CountShare, Event, Instrument, Missing, Value, catalogue::Catalogue};
use host::count::{
    CountError, CountRequest, Fit, MarkedProgram, NativeTarget, Selection, Whom, count, count_marked,
};
use machine::{CpuSet, Profile, Source, Topology, model::Model, profile::Fingerprint};
use pmu::PerfEvents;
use record::{
    count::{CountedRegion, Counts, MachineFigures},
    run::Ending,
};
use recorder::ProgramOutput;
use report::{json::CountDocument, terminal::count::CountSum};

use super::{
    count_simulated::SampledSharing,
    methods::{PurposeChoice, TopicChoice, group_for},
    recording::{milliseconds, passing, profile_of, seconds},
};
use crate::{
    failure::Failure,
    forms::{Forms, Page, Rows, Screen},
    interrupt, output, progress,
    target::Target,
    trust,
};

/// Count events of a program, a process, or the whole machine
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CountArgs {
    /// Events, separated by commas: names of 'memwall events', perf's notations, breakpoints; may be given several times
    #[arg(long = "event", short, value_name = "EVENTS")]
    events: Vec<String>,
    /// Groups of events with their metrics, such as MEM; may be given several times
    #[arg(long = "group", short, value_name = "GROUP")]
    groups: Vec<String>,
    /// Look for known problems of programs by their events ('memwall patterns' lists them)
    #[arg(long)]
    patterns: bool,
    /// Let memwall choose the group that answers a question best here, as 'memwall methods' would
    #[arg(long, value_enum, value_name = "QUESTION")]
    about: Option<TopicChoice>,
    /// What the answer is for
    #[arg(long, value_enum, requires = "about", default_value_t = PurposeChoice::Diagnose)]
    purpose: PurposeChoice,
    /// Count a running process and its threads
    #[arg(long, short, value_name = "PID", conflicts_with_all = ["program", "all_cpus", "cpus", "cgroup"])]
    pid: Option<u32>,
    /// Count everything on all CPUs; while PROGRAM runs, if one is given
    #[arg(long, short, conflicts_with = "cpus")]
    all_cpus: bool,
    /// Count everything on these CPUs, such as 0-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Count a control group, by its path below the cgroup mount
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// One row per socket
    #[arg(long)]
    per_socket: bool,
    /// One row per thread, CPU or box of the uncore
    #[arg(long, conflicts_with = "per_socket")]
    per_place: bool,
    /// Also count each region that the program marks (docs/regions.md), or each of a scenario on a simulated machine
    #[arg(long, conflicts_with_all = ["pid", "all_cpus", "cgroup", "interval", "seconds", "several_passes"])]
    per_region: bool,
    /// Also show what every so many milliseconds added, while counting goes on; on a simulated machine at its end, and of a
    /// scenario: 0.05, say
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    interval: Option<Duration>,
    /// Stop counting after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, alias = "duration")]
    seconds: Option<Duration>,
    /// Repeat; shows the spread
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
    /// With more events than counters, run the program several times instead of letting events take turns: at least five times,
    /// and events that change from run to run more often than others
    #[arg(long)]
    several_passes: bool,
    /// Of several passes make up to N at the same time, each on cores of its own; what they write to files must not clash
    #[arg(long, value_name = "N", requires = "several_passes", conflicts_with_all = ["pid", "all_cpus", "cpus", "cgroup", "interval", "seconds"], value_parser = clap::value_parser!(u32).range(1..))]
    at_once: Option<u32>,
    /// Also show values of events that 'memwall validate' found broken here
    #[arg(long)]
    even_broken: bool,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    page: Page,
    #[command(flatten)]
    simulated: super::count_simulated::SimulatedCount,
    /// The program and its arguments; -- may stand before it
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  memwall count -g SOFTWARE ./app                      time, switches and faults; works everywhere
  memwall count -e page-faults,task-clock --runs 5 ./app
  memwall count -g MEM --per-socket -a --seconds 10    memory traffic of the machine for ten seconds
  memwall count -e mem:0x404040/8:w --pid 4242         writes to an address
  memwall count -g L2 --on sim:haswell-ep-e5-2680v3 --kernel load --size 8M
  memwall count -g SOFTWARE --per-region ./app         the same of each region that the program marks
  memwall count -g STALLS --interval 0.05 --on sim:haswell-ep-e5-2680v3/16 --scenario load-store-phases --scale 16
  memwall count -g CLOCK --per-region --on sim:haswell-ep-e5-2680v3/16 --scenario load-store-phases --scale 16
  memwall count --patterns ./app                       known problems of programs, by their events
  memwall count -g ACCOUNTING --on sim:nehalem-ep-x5570 --kernel chase --size 64M --html accounting.html

What cannot be counted is shown as not counted, with the reason, never as 0. Beside each value stands the trust that its
event earned in 'memwall validate'; values of broken ones are withheld. The table goes to stderr, JSON and CSV
to stdout, and the program's own stdout then to stderr. Exit code: the program's own if it failed; else 1 if nothing could be counted, 2 if the question was wrong.

Schema of --json: memwall.count/1.";

/// Counts and prints.
pub fn run(args: &CountArgs, machine: &Target) -> Result<ExitCode, Failure> {
    args.forms.check(&[args.rows.file(), args.page.file()])?;
    let mut groups = args.groups.clone();
    let mut choice = None;
    if let Some(topic) = args.about {
        let (group, remark) = group_for(machine, topic, args.purpose)?;
        groups.push(group);
        choice = Some(remark);
    }
    if args.patterns {
        groups.extend(super::patterns::groups());
    }
    match machine {
        Target::Native => native(args, &groups, choice),
        Target::Simulated(model) => {
            if !args.program.is_empty() || args.pid.is_some() || args.all_cpus || args.cgroup.is_some() {
                return Err(Failure::Usage(
                    "a simulated machine runs kernels and scenarios: write --kernel NAME --size SIZE or --scenario FILE"
                        .to_owned(),
                ));
            }
            if args.at_once.is_some() {
                return Err(Failure::Usage(
                    "a simulated machine counts everything at once, and passes that differ are the same to the bit: leave out \
                     --at-once"
                        .to_owned(),
                ));
            }
            if args.seconds.is_some() {
                return Err(Failure::Usage(
                    "what a simulated machine runs is counted to its end: leave out --seconds".to_owned(),
                ));
            }
            if args.interval.is_some() && (args.several_passes || args.simulated.takes_turns()) {
                return Err(Failure::Usage(
                    "--interval on a simulated machine counts everything at once: leave out --several-passes and --multiplex"
                        .to_owned(),
                ));
            }
            let interrupt = interrupt::flag()?;
            let asked = super::count_simulated::SimulatedEvents {
                events: &args.events,
                groups: &groups,
                share: share(args),
                cpus: args.cpus.as_ref(),
                several_passes: args.several_passes,
                interval: args.interval,
                interrupt: &interrupt,
            };
            let mut counts = super::count_simulated::count(&args.simulated, &asked, model)?;
            counts.remarks.extend(choice);
            if args.runs > 1 {
                counts
                    .remarks
                    .push("A simulated machine repeats to the bit: nothing was repeated.".to_owned());
            }
            mark(&mut counts, &trust::of(machine), broken(args));
            lower_clock::judge(&mut counts, Catalogue::for_model(model));
            if args.per_region && !counts.interrupted {
                counts.regions = regions(args, &asked, machine, model)?;
            }
            let shared = match args.patterns && !interrupt.load(Ordering::Relaxed) {
                true => super::count_simulated::shared_loads(&args.simulated, &asked, model)?,
                false => SampledSharing::default(),
            };
            counts.interrupted |= interrupt.load(Ordering::Relaxed);
            if args.per_region && counts.regions.is_empty() {
                counts.remarks.push("It was stopped before its regions were counted.".to_owned());
            }
            print(args, &counts, &shared)?;
            Ok(ending(&counts))
        }
    }
}

/// What was counted in each region, with its trust.
fn regions(
    args: &CountArgs,
    asked: &super::count_simulated::SimulatedEvents<'_>,
    machine: &Target,
    model: &Model,
) -> Result<Vec<CountedRegion>, Failure> {
    let found = super::count_simulated::regions(&args.simulated, asked, model)?;
    let trusted = trust::of(machine);
    let judged = |(path, mut counts): (String, Counts)| {
        mark(&mut counts, &trusted, broken(args));
        lower_clock::judge(&mut counts, Catalogue::for_model(model));
        CountedRegion::new(path, counts)
    };
    Ok(found.into_iter().map(judged).collect())
}

fn native(args: &CountArgs, groups: &[String], choice: Option<String>) -> Result<ExitCode, Failure> {
    args.simulated.refuse_natively()?;
    if args.interval.is_some_and(|every| every < Duration::from_millis(1)) {
        return Err(Failure::Usage(
            "--interval below 1 is for simulated machines: add --on sim:NAME".to_owned(),
        ));
    }
    let source = Source::live();
    let topology = Topology::read(&source);
    let whom = whom(args, &topology)?;
    if args.runs == 0 {
        return Err(Failure::Usage("--runs 0 counts nothing".to_owned()));
    }
    if args.runs > 1 && args.program.is_empty() {
        return Err(Failure::Usage("--runs repeats a program; give one".to_owned()));
    }
    let cores = cores(args, &topology)?;
    let trusted = trust::of(&Target::Native);
    let measured = figures(profile_of(&Fingerprint::read(&source)), &trusted, &topology);
    let instrument = PerfEvents::new(&pmu::Live, source);
    let selection = selection(args, groups, &instrument)?;
    let request = CountRequest {
        selection: &selection,
        runs: args.runs,
        at_once: cores.len().max(1),
        fit: if args.several_passes { Fit::SeveralPasses } else { Fit::TakeTurns },
        share: share(args),
        interval: args.interval,
        packages: topology.cpus.iter().filter_map(|cpu| Some((cpu.id, cpu.socket?))).collect(),
        measured: Some(&measured),
        memory_share: args.cpus.as_ref().map_or(1.0, |cpus| memory_share(&topology, cpus.iter())),
    };
    let printing = args.forms.program_output(&args.program, Some(&args.rows));
    if args.per_region {
        let mut counts = marked(args, &request, &instrument, printing)?;
        counts.remarks.extend(choice);
        judged(&mut counts, args, &topology);
        print(args, &counts, &SampledSharing::default())?;
        return Ok(ending(&counts));
    }
    let bar = progress::counting(args.runs);
    let mut watch = |done: usize, all: usize| {
        if all > 1 {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    };
    // JSON and CSV hold all intervals at the end.
    let live = args.interval.is_some() && !args.several_passes && args.forms.is_text() && args.rows.is_text();
    let reasons: Vec<Option<String>> = match broken(args) {
        Broken::Kept => Vec::new(),
        Broken::Withheld => {
            let standing = |event: &Event| trusted.event(&event.signal);
            selection.events().iter().map(|event| standing(event).as_ref().and_then(reason)).collect()
        }
    };
    let target = NativeTarget::new(whom, args.seconds).printing_to(printing).at_once_on(cores);
    let mut target = target.telling(|end_ns, counts| {
        if live {
            let mut counts = counts.to_vec();
            counts.iter_mut().for_each(|count| withhold(count, &reasons));
            output::note(&report::terminal::count::interval(selection.events(), end_ns, &counts));
        }
    });
    let counts = count(&request, &instrument, &mut target, &mut watch);
    bar.finish_and_clear();
    let mut counts = counts.map_err(|error| match error {
        CountError::Program { .. } => args.forms.explained(Failure::usage(error), &args.program),
        _ => Failure::measurement(error),
    })?;
    drop(target);
    counts.remarks.extend(choice);
    judged(&mut counts, args, &topology);
    print(args, &counts, &SampledSharing::default())?;
    Ok(ending(&counts))
}

/// Counts with their trust, and what follows from them.
fn judged(counts: &mut Counts, args: &CountArgs, topology: &Topology) {
    mark(counts, &trust::of(&Target::Native), broken(args));
    lower_clock::judge(counts, Catalogue::for_cpu(&topology.cpu));
}

/// A program that marks its regions: as a whole, and region by region.
fn marked(
    args: &CountArgs,
    request: &CountRequest<'_>,
    here: &PerfEvents<'_>,
    output: ProgramOutput,
) -> Result<Counts, Failure> {
    if args.program.is_empty() || args.cpus.is_some() || args.runs > 1 {
        return Err(Failure::Usage(
            "--per-region counts one run of a program by the regions it marks: give the program, without --cpus and --runs; \
             scenarios of a simulated machine need --on sim:NAME --scenario NAME"
                .to_owned(),
        ));
    }
    recorder::clear_leftovers();
    let (_folder, recording) = passing()?;
    let source = Source::live();
    let program = MarkedProgram {
        command: &args.program,
        output,
        recording: &recording,
        kernel: &pmu::Live,
        source: &source,
    };
    let (mut counts, regions) = count_marked(request, here, &program).map_err(|error| match error {
        CountError::Program { .. } => args.forms.explained(Failure::usage(error), &args.program),
        _ => Failure::measurement(error),
    })?;
    let topology = Topology::read(&source);
    for (path, mut of_region) in regions {
        judged(&mut of_region, args, &topology);
        counts.regions.push(CountedRegion::new(path, of_region));
    }
    Ok(counts)
}

/// What was measured of a machine: its profile, and what its validation found that it moves at most.
pub fn figures(profile: Option<Profile>, trusted: &TrustCatalogue, topology: &Topology) -> MachineFigures {
    let packages: BTreeSet<u32> = topology.cpus.iter().filter_map(|cpu| cpu.socket).collect();
    MachineFigures::of(profile, trusted, packages.len())
}

/// Share of the machine's packages that these CPUs are on; all of it where that is not known.
pub fn memory_share(topology: &Topology, cpus: impl Iterator<Item = u32>) -> f64 {
    let package = |id: u32| topology.cpus.iter().find(|cpu| cpu.id == id).and_then(|cpu| cpu.socket);
    let all: BTreeSet<u32> = topology.cpus.iter().filter_map(|cpu| cpu.socket).collect();
    let used: BTreeSet<u32> = cpus.filter_map(package).collect();
    if used.is_empty() { 1.0 } else { used.len() as f64 / all.len() as f64 }
}

/// The program's own code if it failed, 1 if nothing was counted.
fn ending(counts: &Counts) -> ExitCode {
    match counts.runs.last().and_then(|run| run.ending) {
        Some(Ending::Exited(code)) if code != 0 => ExitCode::from((code & 0xff) as u8),
        Some(Ending::Signalled(signal)) => ExitCode::from((128 + (signal & 0x7f)) as u8),
        _ if is_empty(counts) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// Events and groups as asked for; what works everywhere if nothing was.
fn selection(args: &CountArgs, groups: &[String], instrument: &dyn Instrument) -> Result<Selection, Failure> {
    let default = ["SOFTWARE".to_owned()];
    let groups = if args.events.is_empty() && groups.is_empty() { &default[..] } else { groups };
    Selection::new(instrument, &args.events, groups).map_err(refused)
}

/// A name that means nothing is a mistake; an event that is not here is not.
pub(super) fn refused(refusal: CountRefusal) -> Failure {
    match refusal {
        CountRefusal::UnknownEvent { .. } => Failure::usage(refusal),
        _ => Failure::measurement(refusal),
    }
}

/// Whether something was asked for and nothing came of it, although the target ran.
fn is_empty(counts: &Counts) -> bool {
    let mut values = counts.runs.iter().flat_map(|run| &run.counts).map(|count| &count.value);
    let lacks = |value: &Value| match value {
        Value::Missing(Missing::NeverEnabled | Missing::Broken(_)) => false,
        value => value.estimate().is_none(),
    };
    values.all(lacks)
}

fn broken(args: &CountArgs) -> Broken {
    if args.even_broken { Broken::Kept } else { Broken::Withheld }
}

fn share(args: &CountArgs) -> CountShare {
    if args.per_place || args.per_socket || args.patterns { CountShare::Each } else { CountShare::Together }
}

/// The cores of each pass that is made at the same time as others, as many for each; none where they follow each other.
fn cores(args: &CountArgs, topology: &Topology) -> Result<Vec<CpuSet>, Failure> {
    let Some(wanted) = args.at_once.filter(|wanted| *wanted > 1) else { return Ok(Vec::new()) };
    let all: Vec<u32> = topology.usable_cores().iter().collect();
    let each = all.len() / wanted as usize;
    if each == 0 {
        return Err(Failure::Usage(format!(
            "--at-once {wanted} needs {wanted} cores, and there are {} to run on",
            all.len()
        )));
    }
    let siblings = |id: &u32| topology.cpus.iter().find(|cpu| cpu.id == *id).map(|cpu| cpu.siblings.clone());
    let usable = topology.usable_cpus();
    let whole = |cores: &[u32]| {
        let with_threads = cores.iter().filter_map(siblings).flat_map(|cpus| cpus.iter().collect::<Vec<_>>());
        with_threads.chain(cores.iter().copied()).filter(|cpu| usable.contains(*cpu)).collect::<CpuSet>()
    };
    Ok(all.chunks(each).take(wanted as usize).map(whole).collect())
}

fn whom(args: &CountArgs, topology: &Topology) -> Result<Whom, Failure> {
    let all = || topology.cpus.iter().map(|cpu| cpu.id).collect::<CpuSet>();
    if let Some(pid) = args.pid {
        return Ok(Whom::Process(pid));
    }
    if let Some(path) = &args.cgroup {
        let cpus = args.cpus.clone().unwrap_or_else(all);
        return Ok(Whom::Cgroup(path.clone(), cpus, args.program.clone()));
    }
    if args.all_cpus || args.cpus.is_some() {
        return Ok(Whom::Cpus(args.cpus.clone().unwrap_or_else(all), args.program.clone()));
    }
    if args.program.is_empty() {
        return Err(Failure::Usage(
            "count what? give a program, or --pid PID, or --all-cpus; 'memwall count --help' has examples"
                .to_owned(),
        ));
    }
    Ok(Whom::Program(args.program.clone()))
}

fn print(args: &CountArgs, counts: &Counts, shared: &SampledSharing) -> Result<(), Failure> {
    let patterns = args.patterns.then(|| judge(&from_counts(counts, shared.all.as_ref())));
    let by_region = if args.patterns { in_regions(counts, &shared.by_region) } else { Vec::new() };
    let sum = match (args.per_place, args.per_socket) {
        (true, _) => CountSum::PerPlace,
        (_, true) => CountSum::PerPackage,
        _ => CountSum::Whole,
    };
    let page_only = args.page.give(|| report::html::count(counts))? && args.page.is_printed();
    if page_only {
        return Ok(());
    }
    let screen = match (args.rows.give(|| report::terminal::count::csv(counts))?, args.program.is_empty()) {
        (true, _) => Screen::None,
        (false, true) => Screen::Out,
        // Beside a program's own output, as everybody expects of a counter.
        (false, false) => Screen::BesideProgram,
    };
    let document = CountDocument::new(counts, patterns.as_deref(), &by_region);
    args.forms.give(screen, &document, |columns| {
        let found = patterns.as_deref().unwrap_or_default();
        report::terminal::count::text(counts, sum, columns)
            + &report::terminal::patterns::text(found, args.patterns, columns)
            + &report::terminal::patterns::by_region(&by_region, columns)
    })
}
