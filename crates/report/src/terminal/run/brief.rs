//! All the answers on one screen.

use analysis::findings::{Confidence, Findings, HeldBack, KnownLimits, ObjectFinding, Objects, Verdict};

use super::{
    account, bars::column, code, levels, limits, loads, objects, relief, said, subject, timeline, verdict,
};
use crate::{
    layout::figures::percent_text,
    layout::prose::{clipped, titled, visible, width, wrap, wrap_in},
    layout::signature::object_name,
    layout::style::{QUIET, WARNING, paint},
};

/// Lines of a screen.
const SCREEN: usize = 24;

/// Functions listed: at least, and at most.
const ROWS: (usize, usize) = (2, 5);

/// Bars and pieces of advice: the first that leave room for functions are shown.
const SQUEEZES: [(usize, usize); 4] = [(4, 2), (4, 1), (3, 1), (2, 1)];

/// An object with less of the waiting on loads is not named.
const WORTH_NAMING: f64 = 0.1;

/// Verdict, split of the time, functions, data, limits and what to try, in a screen unless `top` asks for more.
pub fn text(findings: &Findings, objects: Option<&Objects>, top: Option<usize>, columns: usize) -> String {
    let head = subject::clipped_line(&findings.about, columns) + &answer(&findings.verdict, columns);
    let parts = |(bars, advice): (usize, usize)| {
        (time(findings, bars, columns), rest(findings, objects, advice, columns))
    };
    let room = |(time, rest): &(String, String)| {
        SCREEN.saturating_sub(lines(&head) + lines(time) + lines(rest) + code::HEAD_LINES + BLANKS)
    };
    let fits = |parts: &(String, String)| room(parts) >= ROWS.0;
    let [.., tightest] = SQUEEZES;
    let shown = SQUEEZES.into_iter().map(parts).find(fits).unwrap_or_else(|| parts(tightest));
    let rows = top.unwrap_or_else(|| rows(room(&shown), findings.symbols.len()));
    let functions = match findings.has_enough_samples() {
        true => code::table_of_hottest(findings, rows, columns),
        false => String::new(),
    };
    let (time, rest) = shown;
    [head, time, functions + &rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Functions that fit so many lines, with a line for how many more there are.
fn rows(room: usize, functions: usize) -> usize {
    let lines = room.clamp(ROWS.0, ROWS.1 + code::MORE_LINES);
    if functions <= lines.min(ROWS.1) { functions } else { lines - code::MORE_LINES }
}

/// Blank lines between the parts.
const BLANKS: usize = 2;

fn lines(text: &str) -> usize {
    text.lines().count()
}

/// The answer and how sure it is in one line, then how much and how it looks.
fn answer(found: &Verdict, columns: usize) -> String {
    let (style, held_back) = verdict::answer(found.held_back);
    let sure = match found.confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    };
    let held_back = match found.held_back {
        HeldBack::Unknown => held_back.to_owned(),
        _ => format!("{} (confidence: {sure})", held_back.trim_end_matches('.')),
    };
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(found.memory.as_ref().map(|memory| verdict::sentence(found, memory)));
    sentences.extend(found.nature.value().map(|nature| verdict::look(*nature).to_owned()));
    let mut out = wrap_in(style, "", &held_back, columns);
    if !sentences.is_empty() {
        out += &wrap("  ", &sentences.join(" "), columns);
    }
    let reasons: Vec<String> = found.reasons.iter().map(|reason| verdict::ended(reason)).collect();
    let style = if found.confidence == Confidence::Low { WARNING } else { QUIET };
    if reasons.is_empty() { out } else { out + &wrap_in(style, "  ", &reasons.join(" "), columns) }
}

/// What is said beside the functions, each under its word.
fn rest(findings: &Findings, objects: Option<&Objects>, advice: usize, columns: usize) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(levels::sentence(findings).map(|text| ("Waits at", text)));
    let objects = objects.filter(|_| findings.has_enough_samples());
    if let Some(data) = objects.and_then(|objects| hottest_object(findings, objects)) {
        rows.push(("Data", object(findings, data)));
    }
    if findings.threads.len() > 1 && findings.threads.iter().any(|thread| thread.user_share > 0.0) {
        rows.push(("Threads", threads(findings)));
    }
    rows.extend(over_time(findings, columns).map(|text| ("Over time", text)));
    let flagged = objects.and_then(|objects| objects::flagged_names(findings, objects));
    rows.extend(flagged.map(|names| ("Flagged", names)));
    rows.extend(loads::short(&findings.loads).map(|text| ("Loads", text)));
    rows.extend(relief::short(&findings.relief).map(|text| ("Relief", said(&text, findings))));
    rows.push(("Limits", distance(findings)));
    rows.extend(super::advice(findings).into_iter().take(advice).map(|advice| ("Try", advice)));
    rows.extend(remark(findings).map(|text| ("Note", text)));
    let widest = rows.iter().map(|(title, _)| width(title)).max().unwrap_or(0);
    let mut out = String::new();
    let mut before = "";
    for (title, text) in &rows {
        let shown = if *title == before { "" } else { title };
        out += &titled(&format!("{shown:widest$}"), text, columns);
        before = title;
    }
    let more = if findings.instructions.is_empty() {
        "all remarks"
    } else {
        "each instruction, thread and interval"
    };
    out + &wrap_in(QUIET, "", &format!("More: --verbose ({more})"), columns)
}

fn hottest_object<'a>(findings: &Findings, objects: &'a Objects) -> Option<&'a ObjectFinding> {
    let share = |object: &ObjectFinding| objects::waited_share(findings, object).0;
    let worth = |object: &&ObjectFinding| share(object) >= WORTH_NAMING;
    objects.objects.iter().filter(worth).max_by(|a, b| share(a).total_cmp(&share(b)))
}

/// `rows (join.c:12), 64 MiB, random: 81 % of the waiting on loads`.
fn object(findings: &Findings, object: &ObjectFinding) -> String {
    let mut text = object_name(&object.name, 48);
    if let Some(source) = object.site.as_ref().and_then(|site| site.source.as_ref()) {
        text += &format!(" ({}:{})", visible(&code::file_name(&source.file)), source.line);
    }
    let (share, of) = objects::waited_share(findings, object);
    format!("{text}, {}: {} % of {of}", object.pattern.label(), percent_text(share))
}

/// How user time is shared among the busiest threads.
fn threads(findings: &Findings) -> String {
    const FEW: usize = 3;
    let named = |thread: &analysis::findings::ThreadFinding| {
        format!("{} {} %", clipped(&visible(&thread.name), 16), percent_text(thread.user_share))
    };
    let few: Vec<String> = findings.threads.iter().take(FEW).map(named).collect();
    let more = findings.threads.len().saturating_sub(FEW);
    let rest = if more > 0 { format!(", {more} more") } else { String::new() };
    format!("{}{rest} of user time", few.join(", "))
}

/// A row of columns, high where loads are waited for.
fn over_time(findings: &Findings, columns: usize) -> Option<String> {
    let intervals = &findings.timeline.intervals;
    let is_known = intervals.iter().any(|interval| interval.loads.is_some());
    if intervals.len() < 2 || !is_known || !findings.has_enough_samples() {
        return None;
    }
    let flagged = intervals.iter().filter(|interval| interval.flagged).count();
    let room = columns.saturating_sub(52).clamp(8, 40);
    let shown: String = timeline::shares(intervals, room).map(column).collect();
    let threshold = percent_text(findings.timeline.threshold);
    Some(format!("{shown} {flagged} of {} wait on loads above {threshold} %", intervals.len()))
}

/// How far it is from what the machine gave, or why that is not known.
fn distance(findings: &Findings) -> String {
    match (&findings.limits.streams, &findings.limits.levels) {
        (KnownLimits::Value(streams), KnownLimits::Value(_)) => limits::short_stream_sentence(streams),
        (_, KnownLimits::Value(levels)) => limits::latencies(levels),
        (_, KnownLimits::Missing(reason)) => format!("not known: {}.", reason.trim_end_matches('.')),
    }
}

/// The first remark, and how many more there are.
fn remark(findings: &Findings) -> Option<String> {
    let first = findings.remarks.first()?;
    Some(match findings.remarks.len() - 1 {
        0 => first.clone(),
        more => format!("{first} ({more} more)"),
    })
}

/// User time by activity, then user, kernel and idle time of all threads in one line.
fn time(findings: &Findings, bars: usize, columns: usize) -> String {
    let split = findings.overall.as_ref().filter(|_| findings.has_enough_samples());
    let split = split.map(|split| account::bars(split, bars, columns)).unwrap_or_default();
    let sentence = clipped(&account::sentence(&findings.account), columns.max(40));
    format!("{split}{}\n", paint(QUIET, &sentence))
}
