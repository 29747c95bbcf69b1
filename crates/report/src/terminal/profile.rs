//! A machine's profile: claims and measurements side by side, and the sentences where they disagree.

pub(crate) mod cores;
mod levels;

use machine::{
    Bytes, Profile,
    profile::{CoreOperation, LevelName, OperationCost, Overheads, Tlb},
    units::nanos,
};

use crate::{
    layout::age,
    layout::conditions::{ConditionsSeen, clock_lines, gigahertz, noise_sentences},
    layout::figures::{ABSENT, ROUGH, ROUGH_ABOVE, UNTOLD, UNTOLD_ABOVE, percent_text},
    layout::plot::{Axis, Guide, Plot, PlottedQuantity, Scale},
    layout::prose::{counted, dotted, listed, titled, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, WARNING, paint},
};

/// Points from which on the latency curve is worth a plot.
const CURVE: usize = 4;
/// Rows of the latency plot.
const PLOT_ROWS: usize = 10;

/// What a simulated machine has not.
const NOT_SIMULATED: [&str; 3] = ["operations of the core", "cost of measuring", "noise"];

/// Said with a profile whose machine is no longer as it was.
pub const CHANGED: &str = "This machine has changed since the profile was made; its numbers may no longer hold. \
                           Run 'memwall calibrate' again.";

/// What people read. `now_unix` is the time of reading, in seconds since 1970.
pub fn text(profile: &Profile, now_unix: u64, columns: usize) -> String {
    let measured = [
        ("levels", false, levels::section(profile, columns)),
        ("remarks", false, Some(remarks(profile, columns))),
        ("load latency by size", false, latency_curve(profile, columns)),
        ("page translation", false, translation(profile, columns)),
        ("latency under load", true, cores::loaded_latency(profile, columns)),
        ("core to core", true, cores::core_to_core(profile, columns)),
        ("operations of the core", false, operations(profile, columns)),
        ("cost of measuring", false, overheads(profile, columns)),
        ("noise", false, noise(profile, columns)),
    ];
    // Pooled at the end, so that a partial profile stays short.
    let missing = measured.iter().filter(|(_, _, text)| text.is_none());
    let missing: Vec<(&str, bool)> =
        missing.map(|&(name, needs_two_cpus, _)| (name, needs_two_cpus)).collect();
    let mut sections = vec![header(profile, now_unix, columns)];
    sections.extend(measured.into_iter().filter_map(|(_, _, text)| text));
    sections.push(not_measured(profile, &missing, columns));
    sections.push(legend(&sections.concat(), columns));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn header(profile: &Profile, now: u64, columns: usize) -> String {
    let print = &profile.fingerprint;
    if let Some(model) = &profile.simulated {
        return simulated_header(profile, model, columns);
    }
    let first = format!("{}: measured {}", print.cpu, age::ago(profile.measured_at, now));
    let mut out = wrap_in(HEADING, "", &first, columns);
    let hypervisor = match print.hypervisor.as_str() {
        "none" | "" => "no hypervisor".to_owned(),
        name => format!("guest of {name}"),
    };
    let kernel = format!("kernel {}", print.kernel);
    let microcode = format!("microcode {}", print.microcode);
    out += &wrap_in(QUIET, "", &dotted([&*print.topology, &hypervisor, &kernel, &microcode]), columns);
    out += &provenance(profile, &[age::date(profile.measured_at)], columns);
    for warning in warnings(profile, now) {
        out += &wrap_in(WARNING, "", &format!("warning: {warning}"), columns);
    }
    out
}

/// A simulated machine has no kernel and no age.
fn simulated_header(profile: &Profile, model: &str, columns: usize) -> String {
    let print = &profile.fingerprint;
    let mut out = wrap_in(HEADING, "", &format!("simulated machine {model}: {}", print.cpu), columns);
    out += &wrap_in(QUIET, "", &print.topology, columns);
    out += &provenance(profile, &[format!("seed {}", profile.seed)], columns);
    for warning in warnings(profile, profile.measured_at) {
        out += &wrap_in(WARNING, "", &format!("warning: {warning}"), columns);
    }
    out
}

/// What made the profile, and the clock it found.
fn provenance(profile: &Profile, first: &[String], columns: usize) -> String {
    let cpus = if profile.cpus.len() == 1 { "CPU" } else { "CPUs" };
    let rest = [
        format!("memwall {}", profile.memwall),
        format!("on {cpus} {}", profile.cpus),
        format!("profile {}", profile.fingerprint.id),
    ];
    wrap_in(QUIET, "", &dotted(first.iter().chain(&rest).map(String::as_str)), columns)
        + &clock_lines(profile.clock.as_ref(), columns)
}

pub(crate) fn warnings(profile: &Profile, now: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if !profile.extent.complete {
        warnings.push(
            "incomplete: the calibration was stopped before its end; run memwall calibrate for the rest"
                .to_owned(),
        );
    }
    if profile.extent.quick {
        warnings.push("quick calibration: fewer points and samples than without --quick".to_owned());
    }
    if age::is_old(profile.measured_at, now) {
        warnings.push(format!("older than {} days; run memwall calibrate again", age::OLD_DAYS));
    }
    warnings
}

/// What the profile lacks, with why as far as it tells.
fn not_measured(profile: &Profile, missing: &[(&str, bool)], columns: usize) -> String {
    let one_cpu = profile.cpus.len() == 1;
    let (alone, rest): (Vec<_>, Vec<_>) = missing.iter().partition(|(_, needs_two)| *needs_two && one_cpu);
    let names = |items: &[&(&str, bool)]| {
        listed(&items.iter().map(|(title, _)| (*title).to_owned()).collect::<Vec<_>>())
    };
    let why = match profile.extent {
        extent if !extent.complete => " (the calibration was stopped before these)",
        extent if extent.quick => " (in this quick calibration)",
        _ => "",
    };
    let mut parts = Vec::new();
    if !alone.is_empty() {
        parts.push(format!("{} (takes a second CPU)", names(&alone)));
    }
    let (none, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(name, _)| profile.simulated.is_some() && NOT_SIMULATED.contains(name));
    if !rest.is_empty() {
        parts.push(format!("{}{why}", names(&rest)));
    }
    if !none.is_empty() {
        parts.push(format!("{} (simulated: there is none)", names(&none)));
    }
    if parts.is_empty() { String::new() } else { titled("Not measured", &parts.join("; "), columns) }
}

fn remarks(profile: &Profile, columns: usize) -> String {
    if profile.remarks.is_empty() {
        return String::new();
    }
    let lines: String = profile.remarks.iter().map(|remark| wrap("• ", remark, columns)).collect();
    format!("{}\n{lines}", paint(HEADING, "What was noticed"))
}

fn latency_curve(profile: &Profile, columns: usize) -> Option<String> {
    let title = "Load latency";
    if profile.latency_curve.is_empty() {
        return None;
    }
    let guides: Vec<Guide> = profile
        .levels
        .iter()
        .filter_map(|level| {
            let LevelName::Cache(number) = level.name else {
                return None;
            };
            Some(Guide { x: level.usable?.value, name: format!("L{number}") })
        })
        .collect();
    let dotted = if guides.is_empty() { "" } else { "; dotted: measured capacities" };
    let curve = Plot {
        title: format!("{title}, ns (log scale), by data set size{dotted}"),
        x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
        y: Axis { quantity: PlottedQuantity::Nanos, scale: Scale::Log },
        points: profile.latency_curve.iter().map(|p| (p.size.0 as f64, p.latency_ns.value)).collect(),
        guides,
    };
    let drawn = if curve.points.len() < CURVE { None } else { curve.text(columns, PLOT_ROWS) };
    let mut out = drawn.unwrap_or_else(|| {
        let points = counted(profile.latency_curve.len(), "size");
        titled(title, &format!("{points} measured, too few or too narrow a window for a plot"), columns)
    });
    let small = profile.latency_curve.iter().filter(|point| !point.huge_pages).count();
    if small > 0 {
        let of = profile.latency_curve.len();
        out += &wrap_in(
            QUIET,
            "",
            &format!("{small} of {of} sizes without huge pages: page walks included"),
            columns,
        );
    }
    Some(out)
}

fn translation(profile: &Profile, columns: usize) -> Option<String> {
    let tlb = profile.tlb.as_ref().filter(|tlb| !tlb.curve.is_empty())?;
    Some(titled("Page translation", &translation_text(tlb), columns))
}

pub(crate) fn translation_text(tlb: &Tlb) -> String {
    let reach = |pages: u64| format!("{pages} pages ({})", Bytes(pages.saturating_mul(4096)));
    let rises: Vec<String> = tlb.reach_pages.iter().map(|&pages| reach(pages)).collect();
    let most = tlb.curve.iter().map(|point| point.pages).max().unwrap_or(0);
    let rises = match rises.is_empty() {
        true => format!("with 4 KiB pages, no rise of latency up to {}", reach(most)),
        false => format!("with 4 KiB pages, latency rises after {}", listed(&rises)),
    };
    let penalty = match tlb.walk_penalty_ns {
        Some(ns) if ns <= 0.0 => format!("no dearer than huge pages at {}", reach(most)),
        Some(ns) => format!("{} more per access than on huge pages at {}", nanos(ns), reach(most)),
        None => "cost against huge pages not measured".to_owned(),
    };
    format!("{rises}; {penalty}")
}

/// `additions 3.0 cycles, 2.0 per cycle`.
fn operations(profile: &Profile, columns: usize) -> Option<String> {
    let cost = |cost: &OperationCost| {
        let latency = cost.latency_cycles.map(|cycles| format!("{cycles:.1} cycles"));
        let rate = cost.per_cycle.map(|rate| format!("{rate:.2} per cycle"));
        let both: Vec<String> = latency.into_iter().chain(rate).collect();
        (!both.is_empty()).then(|| format!("{} {}", operation_name(cost.operation), both.join(", ")))
    };
    let known: Vec<String> = profile.operations.iter().filter_map(cost).collect();
    (!known.is_empty()).then(|| titled("Operations", &dotted(known.iter().map(String::as_str)), columns))
}

fn operation_name(operation: CoreOperation) -> &'static str {
    match operation {
        CoreOperation::FpAdd => "additions",
        CoreOperation::FpMul => "multiplications",
        CoreOperation::FpDiv => "divisions",
        CoreOperation::Load => "loads",
        CoreOperation::Store => "stores",
        CoreOperation::Atomic => "atomics",
    }
}

fn overheads(profile: &Profile, columns: usize) -> Option<String> {
    let Overheads { tsc_read_ns, clock_read_ns, syscall_ns, clock_step_ns } = profile.overheads?;
    let ticks = profile.clock.and_then(|clock| clock.tsc_hz);
    let ticks = ticks.map_or(String::new(), |hz| format!(", ticking at {}", gigahertz(hz)));
    let counter = tsc_read_ns.map_or("not measured".to_owned(), nanos);
    let text = format!(
        "time stamp counter {counter}{ticks} · clock_gettime {}, in steps of {} · system call {}",
        nanos(clock_read_ns),
        nanos(clock_step_ns),
        nanos(syscall_ns)
    );
    Some(titled("Cost of measuring", &text, columns))
}

fn noise(profile: &Profile, columns: usize) -> Option<String> {
    let noise = profile.noise.as_ref()?;
    let mut sentences = noise_sentences(&[ConditionsSeen { at: String::new(), noise }], profile.cpus.len());
    if sentences.is_empty() {
        sentences.push("no steal time and no involuntary context switches seen".to_owned());
    }
    if let Some(spread) = noise.spread {
        sentences.push(format!("spread of the samples {} % of their median", percent_text(spread)));
    }
    Some(titled("Noise", &sentences.join(" · "), columns))
}

/// What the marks mean, if any was used.
fn legend(shown: &str, columns: usize) -> String {
    let rough = format!("{ROUGH} uncertain: 95 % interval wider than ±{:.0} %", ROUGH_ABOVE * 100.0);
    let untold = format!("{UNTOLD} too noisy to tell: wider than ±{:.0} %", UNTOLD_ABOVE * 100.0);
    let dash = format!("{ABSENT} not measured");
    let marks: Vec<&str> = [(ROUGH, &*rough), (UNTOLD, &*untold), (ABSENT, &*dash)]
        .iter()
        .filter(|(mark, _)| shown.contains(mark))
        .map(|(_, text)| *text)
        .collect();
    match marks.is_empty() {
        true => String::new(),
        false => wrap_in(PLAIN, "", &dotted(marks), columns),
    }
}
