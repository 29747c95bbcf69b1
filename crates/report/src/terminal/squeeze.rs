//! What a program lost when cache or bandwidth was taken from it, and what can be taken of a machine.

mod calibration;
mod series;

use machine::{
    Bytes,
    squeezing::{KnownPattern, SqueezeKind},
    units::gb_per_s,
};
use record::{
    run::Ending,
    squeeze::{
        HarmVerdict, ProgramClass, ProgramPart, SlowdownPoint, SqueezeCrash, SqueezeCurve, SqueezeEnd,
        SqueezeRun, SqueezedRun, TimedBy, UseBounds,
    },
};

pub use calibration::calibration;
pub(crate) use calibration::{described, remarks};
pub use series::series;
pub(crate) use series::{class_word, most_lost, range, refusals};

use crate::{
    layout::plot::{Axis, Guide, Plot, PlottedQuantity, Scale},
    layout::prose::{counted, dotted, titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// Rows of a plot.
const PLOT_ROWS: usize = 8;
/// What bounds are worth, as docs/squeeze.md has it.
pub(crate) const HOW_OFTEN_RIGHT: &str = "For 21 unseen programs of known need on a simulated machine 39 of 42 bounds held: all 38 of programs that do one thing \
     or nothing, and one of four where random reads over a working set come in turn with a stream (docs/squeeze.md).";
/// Points from which on a curve is worth a plot.
const PLOTTED: usize = 3;

/// What people read: the class, bounds, curves and what has to be said about them.
pub fn text(run: &SqueezeRun, columns: usize) -> String {
    let mut sections = vec![header(run, columns), answer(run, columns)];
    for kind in SqueezeKind::ALL {
        sections.push(curve(run, run.curve(kind), columns));
    }
    sections.push(notes(run, columns));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn header(run: &SqueezeRun, columns: usize) -> String {
    let machine = run.simulated.as_ref().map_or(String::new(), |name| format!("simulated {name}"));
    let alone = run.runs.iter().filter(|run| run.interference.is_none()).count();
    let parts = [
        machine,
        format!("program on CPUs {}", run.cpus),
        format!("interference on {}", run.spare),
        timed_by(&run.timed_by),
        format!("{}, {alone} of them alone, in {:.0} s", counted(run.runs.len(), "run"), run.spent_s),
    ];
    let mut out = titled(&run.program, "squeezed", columns);
    out += &wrap("", &dotted(parts.iter().map(String::as_str)), columns);
    let ended = match run.ended {
        SqueezeEnd::Told => return out,
        SqueezeEnd::Budget => "the budget is spent: --budget allows more",
        SqueezeEnd::Rounds => "some strengths stay open: the runs differ too much among themselves",
        SqueezeEnd::Interrupted => "interrupted: what was measured until then is below",
    };
    out += &wrap_in(WARNING, "", &format!("warning: {ended}"), columns);
    out
}

pub(crate) fn timed_by(timed_by: &TimedBy) -> String {
    match timed_by {
        TimedBy::Wall => "timed from start to end".to_owned(),
        TimedBy::Marks => "timed between its marks".to_owned(),
        TimedBy::PrintedRate(pattern) => format!("by the rate it prints ({pattern})"),
        TimedBy::PrintedTime(pattern) => format!("by the time it prints ({pattern})"),
        TimedBy::Region(region) => format!("simulated time of region {region}"),
        TimedBy::Simulated => "simulated time".to_owned(),
    }
}

/// The class in a sentence.
pub(crate) fn class_sentence(class: ProgramClass) -> &'static str {
    match class {
        ProgramClass::LivesAbove => "needs neither: it lives in caches of its own",
        ProgramClass::Overflows => {
            "needs neither: its data overflows the cache, and memory is fast enough for it"
        }
        ProgramClass::Insensitive => {
            "needs neither: it lives in caches of its own, or overflows the shared one; 'memwall run' tells which"
        }
        ProgramClass::CacheSensitive => "cache-sensitive: slower with less cache, not with less bandwidth",
        ProgramClass::BandwidthSensitive => {
            "bandwidth-sensitive: slower with less bandwidth, not with less cache (its data overflows it)"
        }
        ProgramClass::Both => "sensitive to both: slower with less cache and with less bandwidth",
        ProgramClass::LosesToCache => "cache-sensitive: slower with less cache (bandwidth: not known)",
        ProgramClass::LosesToBandwidth => {
            "bandwidth-sensitive: slower with less bandwidth (cache: not known)"
        }
        ProgramClass::CacheHarmless => {
            "insensitive to cache: not slower with less of it (bandwidth: not known)"
        }
        ProgramClass::BandwidthHarmless => {
            "insensitive to bandwidth: not slower with less of it (cache: not known)"
        }
        ProgramClass::Undecided => "not decided",
    }
}

fn answer(run: &SqueezeRun, columns: usize) -> String {
    let mut out = wrap("Class: ", class_sentence(run.class), columns);
    for kind in SqueezeKind::ALL {
        let curve = run.curve(kind);
        if let Some(sentence) = bounds_sentence(curve, run.processes) {
            out += &wrap(&format!("{}: ", resource(kind)), &sentence, columns);
        }
    }
    if !run.parts.is_empty() {
        out += &wrap("Behaves like: ", &mixture_sentence(&run.parts), columns);
    }
    for sentence in &run.evidence {
        out += &wrap("", sentence, columns);
    }
    out
}

/// The known programs that it behaves like, with shares of its time.
pub(crate) fn mixture_sentence(parts: &[ProgramPart]) -> String {
    let one = |part: &ProgramPart| {
        let what = match (part.pattern, part.overflows) {
            (KnownPattern::Stream, _) => format!("a stream of {}", gb_per_s(part.bytes_per_s)),
            (KnownPattern::Private, _) => "data in caches of its own".to_owned(),
            (KnownPattern::Chase, true) => "waiting for memory, one access after the other".to_owned(),
            (KnownPattern::Random, true) => "random accesses to memory".to_owned(),
            (KnownPattern::Chase, false) => format!("a chase through {}", rounded(part.size.0 as f64)),
            (KnownPattern::Random, false) => format!("random accesses to {}", rounded(part.size.0 as f64)),
        };
        format!("{:.0} % {what}", part.share * 100.0)
    };
    let rest = 1.0 - parts.iter().map(|part| part.share).sum::<f64>();
    let mut said: Vec<String> = parts.iter().map(one).collect();
    if rest > 0.02 {
        said.push(format!("{:.0} % what nothing slows", rest * 100.0));
    }
    said.join(", ")
}

pub(crate) fn resource(kind: SqueezeKind) -> &'static str {
    match kind {
        SqueezeKind::Storage => "Cache",
        SqueezeKind::Bandwidth => "Bandwidth",
    }
}

/// An amount of a resource with its unit.
pub(crate) fn amount(kind: SqueezeKind, value: f64) -> String {
    match kind {
        SqueezeKind::Storage => rounded(value).to_string(),
        SqueezeKind::Bandwidth => gb_per_s(value),
    }
}

/// To three digits or so: victims tell no more.
fn rounded(bytes: f64) -> Bytes {
    let unit = if bytes >= 1048576.0 { 1048576.0 / 8.0 } else { 1024.0 };
    Bytes(((bytes / unit).round() * unit) as u64)
}

/// What bounds rest on.
pub(crate) fn bounds_rule(run: &SqueezeRun) -> &'static str {
    match run.parts.is_empty() {
        true => {
            "Bounds are what the last harmless and the first harmful strength leave (casas2017 §5.2), as 'memwall squeeze \
             --calibrate' measured it."
        }
        false => {
            "Bounds are the working sets and rates of streams with which some mixture of known programs loses what this one \
             lost; parts of less than a tenth of its time are not looked for."
        }
    }
}

/// What each process uses, in a sentence.
pub(crate) fn bounds_sentence(curve: &SqueezeCurve, processes: usize) -> Option<String> {
    let bounds = curve.bounds?;
    let each = if processes > 1 { "each process uses" } else { "uses" };
    let of = curve.whole.map_or(String::new(), |whole| format!(" of {}", amount(curve.kind, whole)));
    let amount = |value: f64| amount(curve.kind, value);
    Some(match bounds {
        UseBounds { at_least: Some(low), at_most: Some(high) } => {
            format!("{each} between {} and {}{of}", amount(low), amount(high))
        }
        UseBounds { at_least: Some(low), at_most: None } => {
            let why = if weakest_harms(curve) { ": the weakest strength harms already" } else { "" };
            format!("{each} more than {}{of}{why}", amount(low))
        }
        UseBounds { at_least: None, at_most: Some(high) } => {
            let why = if none_harms(curve) { ": no strength harms" } else { "" };
            format!("{each} no more than {}{of}{why}", amount(high))
        }
        UseBounds { .. } => return None,
    })
}

/// One end alone may have other reasons where a mixture tells.
fn weakest_harms(curve: &SqueezeCurve) -> bool {
    ordered(curve).first().is_some_and(|weakest| weakest.verdict == HarmVerdict::Harmful)
}

fn none_harms(curve: &SqueezeCurve) -> bool {
    !curve.points.is_empty() && curve.points.iter().all(|point| point.verdict == HarmVerdict::Harmless)
}

fn curve(run: &SqueezeRun, curve: &SqueezeCurve, columns: usize) -> String {
    if let Some(refused) = &curve.refused {
        return wrap_in(WARNING, &format!("{}: ", resource(curve.kind)), refused, columns);
    }
    if curve.points.is_empty() {
        return String::new();
    }
    let mut out = table(curve).render(columns).text;
    if let Some(plot) = plot(run, curve).and_then(|plot| plot.text(columns, PLOT_ROWS)) {
        out.push('\n');
        out += &plot;
    }
    out
}

/// Weakest first.
pub(crate) fn ordered(curve: &SqueezeCurve) -> Vec<&SlowdownPoint> {
    let mut points: Vec<&SlowdownPoint> = curve.points.iter().collect();
    points.sort_by(|a, b| b.left.value.total_cmp(&a.left.value));
    points
}

pub(crate) fn harm(verdict: HarmVerdict) -> &'static str {
    match verdict {
        HarmVerdict::Harmless => "harmless",
        HarmVerdict::Harmful => "harmful",
        HarmVerdict::Open => "open",
    }
}

fn table(curve: &SqueezeCurve) -> Table {
    let mut table = Table::new(vec![
        Column::new(format!("{} left", curve.kind)).left(),
        Column::new("from").drop_rank(2),
        Column::new("to").drop_rank(2),
        Column::new("slowdown"),
        Column::new("95 % interval"),
        Column::new("rounds").drop_rank(1),
        Column::new("").left(),
    ]);
    for point in ordered(curve) {
        let slowdown = &point.slowdown;
        let interval = match slowdown.samples {
            1 => Cell::from("one run"),
            _ => format!("{:.3} to {:.3}", slowdown.low, slowdown.high).into(),
        };
        table.row(vec![
            amount(curve.kind, point.left.value).into(),
            amount(curve.kind, point.left.low).into(),
            amount(curve.kind, point.left.high).into(),
            format!("{:.3}", slowdown.value).into(),
            interval,
            slowdown.samples.to_string().into(),
            Cell::styled(
                harm(point.verdict),
                if point.verdict == HarmVerdict::Harmful { WARNING } else { QUIET },
            ),
        ]);
    }
    table
}

fn plot(run: &SqueezeRun, curve: &SqueezeCurve) -> Option<Plot> {
    let (unit, quantity) = match curve.kind {
        SqueezeKind::Storage => (1.0, PlottedQuantity::Bytes),
        SqueezeKind::Bandwidth => (1e9, PlottedQuantity::GbPerS),
    };
    let mut points: Vec<(f64, f64)> =
        curve.points.iter().map(|point| (point.left.value / unit, point.slowdown.value)).collect();
    if points.len() < PLOTTED {
        return None;
    }
    points.extend(curve.whole.map(|whole| (whole / unit, 1.0)));
    let ends =
        |bounds: UseBounds| [bounds.at_least.map(|low| (low, "≥")), bounds.at_most.map(|high| (high, "≤"))];
    let guides = curve.bounds.map(ends).into_iter().flatten().flatten();
    let each = run.processes.max(1) as f64;
    Some(Plot {
        title: format!("time over time alone, by {} left", curve.kind),
        x: Axis { quantity, scale: Scale::Linear },
        y: Axis { quantity: PlottedQuantity::Ratio, scale: Scale::Linear },
        points,
        guides: guides.map(|(at, name)| Guide { x: at * each / unit, name: name.to_owned() }).collect(),
    })
}

fn notes(run: &SqueezeRun, columns: usize) -> String {
    let mut out = String::new();
    for sentence in crashes(run) {
        out += &wrap_in(WARNING, "• ", &sentence, columns);
    }
    let rule = format!("Harm is more than {:.0} % of the time alone. {}", run.harm * 100.0, bounds_rule(run));
    for text in [rule.as_str(), HOW_OFTEN_RIGHT].into_iter().chain(run.remarks.iter().map(String::as_str)) {
        out += &wrap_in(QUIET, "• ", text, columns);
    }
    out
}

/// Runs that ended otherwise than the first, and the strength beside which they did; those alike in one sentence.
pub(crate) fn crashes(run: &SqueezeRun) -> Vec<String> {
    let mut alike: Vec<(&SqueezeCrash, usize)> = Vec::new();
    for crash in &run.crashes {
        match alike.iter_mut().find(|(known, _)| *known == crash) {
            Some((_, many)) => *many += 1,
            None => alike.push((crash, 1)),
        }
    }
    alike.into_iter().map(|(crash, many)| crashed(run, crash, many)).collect()
}

fn crashed(run: &SqueezeRun, crash: &SqueezeCrash, many: usize) -> String {
    let beside = crash.interference.map_or("alone".to_owned(), |one| {
        // Where every run beside it ended badly there is no point of the curve, but its settings are known.
        let point = run.curve(one.kind).points.iter().find(|point| point.interference == one);
        let left = point
            .map_or(String::new(), |point| format!(" that leaves {}", amount(one.kind, point.left.value)));
        format!("beside {} interference{left} ({})", one.kind, calibration::interference(&one))
    });
    let why = crash.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let ended = ended(crash.ending, many);
    if many == 1 {
        return format!("a run {beside} {ended}{why}; it is left out");
    }
    let ended_well = |one: &&SqueezedRun| one.interference == crash.interference && one.ns.is_some();
    let rest = match run.runs.iter().any(|one| ended_well(&one)) {
        true => "they are left out",
        false => "none ended well, and no more were made",
    };
    format!("{many} runs {beside} {ended}{why}; {rest}")
}

fn ended(ending: Ending, many: usize) -> String {
    let was = if many == 1 { "was" } else { "were" };
    match ending {
        Ending::Exited(code) => format!("ended with exit code {code}"),
        Ending::Signalled(signal) => format!("{was} killed by signal {signal}"),
        Ending::Detached | Ending::Unknown => "ended in a way that is not known".to_owned(),
    }
}

#[cfg(test)]
mod tests;
