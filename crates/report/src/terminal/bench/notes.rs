//! What has to be known to read the table, and what disturbed the numbers.

use anstyle::Style;
use record::bench::{Bench, Point, Stopped};

use super::{
    ended_by,
    rows::{CYCLES, ENDED_BY, MEMORY, NS, PASS_TIME, RowShape, SPREAD, huge_share},
};
use crate::{
    layout::conditions::{ConditionsSeen, no_cycles_because, noise_sentences},
    layout::figures::{ABSENT, SAMPLES_FOR_INTERVAL, percent_text},
    layout::prose::{counted, listed},
    layout::style::{PLAIN, QUIET, WARNING},
};

/// Notes with their style, warnings first. `left_out` names the columns that are not shown and need no words.
pub(crate) fn notes(bench: &Bench, left_out: &[String]) -> Vec<(Style, String)> {
    let shape = RowShape::of(bench);
    let shown = |column: &str| !left_out.iter().any(|name| name == column);
    // A simulated machine has neither noise nor samples: the same time every time.
    let real = bench.simulated.is_none();
    let warnings = noise(bench).into_iter().chain(few_samples(bench)).filter(|_| real);
    let plain = [
        no_cycles_because(bench.clock.as_ref())
            .filter(|_| shown(CYCLES))
            .map(|why| format!("cycles {ABSENT}: {why}")),
        bandwidth(&shape, shown(MEMORY)),
        per_access(bench, &shape, shown(NS)),
        Some(samples(bench, &shape, shown)),
        pages(bench),
        rounding(bench),
    ];
    let no_room = (!left_out.is_empty())
        .then(|| (QUIET, format!("no room for {}; --json and --csv have all", listed(left_out))));
    let warnings = warnings.map(|note| (WARNING, note));
    warnings.chain(plain.into_iter().flatten().map(|note| (PLAIN, note))).chain(no_room).collect()
}

fn noise(bench: &Bench) -> Vec<String> {
    let seen =
        bench.points.iter().map(|point| ConditionsSeen { at: point.size.to_string(), noise: &point.noise });
    noise_sentences(&seen.collect::<Vec<_>>(), bench.cpus.len())
}

fn few_samples(bench: &Bench) -> Option<String> {
    let few: Vec<&Point> =
        bench.points.iter().filter(|point| point.time_ns.samples < SAMPLES_FOR_INTERVAL).collect();
    let sizes = match few.as_slice() {
        [] => return None,
        _ if few.len() == bench.points.len() => String::new(),
        [one] => format!(" at {}", one.size),
        [first, ..] => format!(" at {} sizes, first {}", few.len(), first.size),
    };
    Some(format!(
        "fewer than {SAMPLES_FOR_INTERVAL} samples{sizes}: too few for a 95 % interval of the median"
    ))
}

fn bandwidth(shape: &RowShape, memory_shown: bool) -> Option<String> {
    match (shape.moves_bytes, shape.memory_differs) {
        (false, _) => Some("this kernel moves no data, so there is no bandwidth".to_owned()),
        (true, true) => memory_shown.then(|| {
            "program: bytes loaded and stored; memory: whole lines moved, those read before a store \
             (write-allocate) included; true of sizes that no cache holds"
                .to_owned()
        }),
        (true, false) => Some(
            "one bandwidth: without write-allocate, memory moves just what the program asks for".to_owned(),
        ),
    }
}

fn per_access(bench: &Bench, shape: &RowShape, shown: bool) -> Option<String> {
    let threads = if bench.cpus.len() > 1 { " of one thread" } else { "" };
    shown.then(|| match shape.chain {
        true => format!("latency: time per step{threads}, each waiting for the one before it"),
        false => format!("per access: time per load or store{threads}; these overlap, so it is no latency"),
    })
}

fn samples(bench: &Bench, shape: &RowShape, shown: impl Fn(&str) -> bool) -> String {
    if bench.simulated.is_some() {
        let pass = if shown(PASS_TIME) { "; pass: once through the data, all threads" } else { "" };
        return format!("simulated: the same time every time, so there is no spread and no interval{pass}");
    }
    let counts = bench.points.iter().map(|point| point.time_ns.samples);
    let (fewest, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let samples =
        if fewest == most { counted(most, "sample") } else { format!("{fewest} to {most} samples") };
    let each = if bench.points.len() > 1 { " of each size" } else { "" };
    let why = match bench.points.first().map(|point| point.stopped) {
        _ if shape.mixed_stops && shown(ENDED_BY) => String::new(),
        _ if shape.mixed_stops => format!(", {}", endings(bench)),
        Some(Stopped::Precise) => ", until the median was as precise as asked".to_owned(),
        Some(Stopped::TimeUp) => ", until the time was up: the median is less precise than asked".to_owned(),
        Some(Stopped::Repeats) => ", as many as asked".to_owned(),
        Some(Stopped::Interrupted) => ", until interrupted".to_owned(),
        Some(Stopped::Simulated) => String::new(),
        None => String::new(),
    };
    let pass = if shown(PASS_TIME) { "; pass: once through the data, all threads" } else { "" };
    let spread = if shown(SPREAD) { "; spread: median absolute deviation" } else { "" };
    format!("{samples}{each}{why}{pass}{spread}; ±95 %: confidence interval of the median")
}

/// How often each reason ended the repeating, where the table has no room to say it.
fn endings(bench: &Bench) -> String {
    let reasons =
        [Stopped::Precise, Stopped::TimeUp, Stopped::Repeats, Stopped::Interrupted, Stopped::Simulated];
    let counts = reasons.map(|reason| (reason, bench.points.iter().filter(|p| p.stopped == reason).count()));
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    let texts: Vec<String> =
        seen.map(|(reason, count)| format!("{count} by {}", ended_by(*reason))).collect();
    format!("ended {}", listed(&texts))
}

fn pages(bench: &Bench) -> Option<String> {
    let shares: Vec<f64> = bench.points.iter().filter_map(|point| huge_share(point.pages)).collect();
    let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shares.iter().copied().fold(0.0, f64::max);
    match shares.as_slice() {
        // Known to be none: the kernel touches no memory.
        [] if bench.points.iter().all(|point| point.pages.is_some()) => None,
        [] => Some("pages: the system does not say which".to_owned()),
        _ if low >= 1.0 => Some("pages: all huge".to_owned()),
        _ if high <= 0.0 => Some("pages: none huge, so large sizes also pay for page walks".to_owned()),
        [share] => Some(format!("pages: {} % of the bytes on huge ones", percent_text(*share))),
        _ => Some(format!(
            "pages: {} to {} % of the bytes on huge ones",
            percent_text(low),
            percent_text(high)
        )),
    }
}

/// Said only where the rounding can be seen.
fn rounding(bench: &Bench) -> Option<String> {
    let off = |point: &&Point| point.asked.0.abs_diff(point.size.0) as f64 > 0.01 * point.asked.0 as f64;
    let point = bench.points.iter().find(off)?;
    let (asked, used) = match (point.asked.to_string(), point.size.to_string()) {
        (asked, used) if asked == used => {
            (format!("{} bytes", point.asked.0), format!("{} bytes", point.size.0))
        }
        texts => texts,
    };
    Some(format!("sizes are rounded to whole iterations of every thread: {asked} asked, {used} used"))
}
