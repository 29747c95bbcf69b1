//! The answer and its evidence.

use analysis::findings::{
    Confidence, Findings, HeldBack, KnownLimits, ObjectFinding, ThreadActivity, TimeShare,
};

use super::{RunPage, drawn_levels};
use crate::{
    html::{
        markup::{Html, element, list, paragraph, section},
        pyramid::{self, WaitedData},
    },
    layout::figures::percent_text,
    layout::signature::{function_name, object_name},
    terminal::run::{
        advice as advised,
        code::file_name,
        levels,
        limits::giver,
        objects::waited_share,
        relief::sentences,
        said as said_of, seconds,
        timeline::threshold_from,
        verdict::{ended, look, sentence},
    },
};

/// Letters of a name beside the verdict.
const NAME: usize = 56;
/// Data with less of the waiting on loads is not named beside the verdict.
const WORTH_NAMING: f64 = 0.1;
/// Objects in the drawing.
const MOST_DATA: usize = 2;

pub(super) fn html(page: &RunPage<'_>) -> Html {
    let findings = page.findings;
    let verdict = &findings.verdict;
    let (class, answer) = match verdict.held_back {
        HeldBack::Yes => ("yes", "Held back by memory: yes"),
        HeldBack::Partly => ("partly", "Held back by memory: partly"),
        HeldBack::No => ("no", "Held back by memory: no"),
        HeldBack::Unknown => ("unknown", "Held back by memory: cannot be told"),
    };
    let mut said =
        vec![element("p").set("class", format!("answer {class}")).say(answer).end(), answers(page)];
    said.extend(verdict.memory.map(|memory| paragraph("", &sentence(verdict, &memory))));
    match &verdict.nature {
        KnownLimits::Value(nature) => said.push(paragraph("", look(*nature))),
        KnownLimits::Missing(reason) if is_held(findings) => {
            said.push(paragraph("quiet", &format!("Latency or bandwidth: not known, {reason}.")));
        }
        KnownLimits::Missing(_) => {}
    }
    let verdict_box = element("div").set("class", format!("verdict {class}")).with(said).end();
    let beside = element("div").set("class", "beside").with([verdict_box, drawing(page)]).end();
    let parts = [beside, tiles(findings), confidence(findings), relief(findings), advice(findings)];
    section("verdict", "Verdict", parts)
}

fn is_held(findings: &Findings) -> bool {
    matches!(findings.verdict.held_back, HeldBack::Yes | HeldBack::Partly)
}

/// At which level, for which data, in which code, and what could be won, as far as there is something to say.
fn answers(page: &RunPage<'_>) -> Html {
    let findings = page.findings;
    let mut rows: Vec<(&str, Html)> = Vec::new();
    rows.extend(levels::sentence(findings).map(|text| ("Waits at", Html::text(&text))));
    if findings.has_enough_samples() && is_held(findings) {
        rows.extend(waited_for(page).first().map(|(at, object)| ("For data", data(findings, *at, object))));
        rows.extend(findings.symbols.first().map(|_| ("In code", code(findings))));
        rows.extend(winnable(findings).map(|text| ("To be won", Html::text(&text))));
    }
    if rows.is_empty() {
        return Html::default();
    }
    let rows = rows.into_iter().map(|(name, said)| {
        element("div").with([element("dt").say(name).end(), element("dd").with([said]).end()]).end()
    });
    element("dl").set("class", "answers").with(rows).end()
}

/// Objects worth naming with their index, those with most waiting first.
fn waited_for<'a>(page: &RunPage<'a>) -> Vec<(usize, &'a ObjectFinding)> {
    let share = |object: &ObjectFinding| waited_share(page.findings, object).0;
    let objects = page.objects.map_or(&[][..], |objects| &objects.objects);
    let worth = objects.iter().enumerate().filter(|(_, object)| share(object) >= WORTH_NAMING);
    let mut worth: Vec<(usize, &ObjectFinding)> = worth.collect();
    worth.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)));
    worth
}

fn link(to: String, text: &str) -> Html {
    element("a").set("href", to).with([element("bdi").say(text).end()]).end()
}

fn data(findings: &Findings, at: usize, object: &ObjectFinding) -> Html {
    let source = object.site.as_ref().and_then(|site| site.source.as_ref());
    let line = source.map_or_else(String::new, |at| format!(" ({}:{})", file_name(&at.file), at.line));
    let (share, of) = waited_share(findings, object);
    let rest = format!("{line}, {}: {} % of {of}", object.pattern.label(), percent_text(share));
    let name = link(format!("#object-{at}"), &object_name(&object.name, NAME));
    Html::all([name, Html::text(&rest)])
}

/// The function with most waiting for memory.
fn code(findings: &Findings) -> Html {
    let waiting = |at: usize| {
        let symbol = &findings.symbols[at];
        symbol.user_share.value * symbol.split.memory()
    };
    let most = (0..findings.symbols.len()).max_by(|a, b| waiting(*a).total_cmp(&waiting(*b)));
    let Some((at, symbol)) = most.map(|at| (at, &findings.symbols[at])) else { return Html::default() };
    let hottest = symbol.top.first().and_then(|top| findings.instructions.get(*top));
    let line = hottest.and_then(|found| found.source.as_ref());
    let line = line.map_or_else(String::new, |at| format!(" ({}:{})", file_name(&at.file), at.line));
    let rest = format!("{line}: waits {} % of user time", percent_text(waiting(at)));
    Html::all([link(format!("#symbol-{at}"), &function_name(&symbol.name, NAME)), Html::text(&rest)])
}

/// What is left if nothing had to be waited for: an upper bound.
fn winnable(findings: &Findings) -> Option<String> {
    let (memory, user_ns) = (findings.verdict.memory?, findings.account.user_ns);
    let part = |share: f64| seconds(share * user_ns);
    Some(format!(
        "at most {} ({} to {}) of {} user time, were all its data in the first cache",
        part(memory.value),
        part(memory.low),
        part(memory.high),
        seconds(user_ns)
    ))
}

/// The pyramid, where levels are known and it waits.
fn drawing(page: &RunPage<'_>) -> Html {
    let Some(waits) = page.findings.levels.value().filter(|_| page.findings.has_enough_samples()) else {
        return Html::default();
    };
    let data = waited_for(page).into_iter().filter_map(|(object, found)| {
        Some(WaitedData { object, name: found.name.clone(), bytes: *found.size_bytes.value()? })
    });
    let data: Vec<WaitedData> = data.take(MOST_DATA).collect();
    pyramid::figure(&drawn_levels(page), waits, &data)
}

/// The second way to the same share, if it was taken or would be worth it.
fn relief(findings: &Findings) -> Html {
    let all: Vec<String> =
        sentences(&findings.relief).iter().map(|sentence| said_of(sentence, findings)).collect();
    if all.is_empty() { Html::default() } else { list("notes", all.iter()) }
}

fn interval(share: &TimeShare) -> String {
    format!("95 % interval {} to {} %", percent_text(share.low), percent_text(share.high))
}

/// The numbers behind it.
fn tiles(findings: &Findings) -> Html {
    let verdict = &findings.verdict;
    // Where nothing could be blamed there are no figures, only the sentence that says so.
    let is_known = findings.overall.is_some_and(|split| split.undecided < 1.0);
    let with_range = |share: Option<TimeShare>, what: &str| {
        share
            .filter(|_| is_known)
            .map(|share| tile(&format!("{} %", percent_text(share.value)), what, &interval(&share)))
    };
    let elsewhere = verdict.largest.filter(|largest| !largest.is_memory());
    let elsewhere = elsewhere.and_then(|largest: ThreadActivity| {
        with_range(verdict.largest_share, &format!("of user time {}", largest.label()))
    });
    let flagged = findings.timeline.intervals.iter().filter(|interval| interval.flagged).count();
    let intervals = findings.timeline.intervals.len();
    let over_time = (intervals > 1 && is_known).then(|| {
        let words = format!(
            "waiting on loads above {} % of their user time, {}",
            percent_text(findings.timeline.threshold),
            threshold_from(&findings.timeline)
        );
        tile(&format!("{flagged} of {intervals}"), "intervals flagged", &words)
    });
    let streams = findings.limits.streams.value().and_then(|streams| {
        let what = format!("of the bandwidth of {}", giver(streams));
        let more = "moved by the streams in the samples";
        Some(tile(&format!("{} %", percent_text(streams.of_limit?)), &what, more))
    });
    let tiles = [
        with_range(verdict.memory, "of user time waiting for memory"),
        with_range(verdict.loads, "of user time waiting on loads"),
        elsewhere,
        streams,
        over_time,
    ];
    element("ul").set("class", "tiles").set("aria-label", "Evidence").with(tiles.into_iter().flatten()).end()
}

fn tile(figure: &str, what: &str, more: &str) -> Html {
    let parts = [("figure", figure), ("what", what), ("more", more)];
    element("li").with(parts.map(|(class, text)| element("span").set("class", class).say(text).end())).end()
}

fn confidence(findings: &Findings) -> Html {
    let (class, word) = match findings.verdict.confidence {
        Confidence::High => ("", "Confidence: high."),
        Confidence::Medium => ("warning", "Confidence: medium."),
        Confidence::Low => ("warning", "Confidence: low."),
    };
    let why = findings
        .verdict
        .reasons
        .iter()
        .fold(word.to_owned(), |text, reason| format!("{text} {}", ended(reason)));
    paragraph(class, &why)
}

fn advice(findings: &Findings) -> Html {
    if findings.advice.is_empty() {
        return Html::default();
    }
    Html::all([element("h3").say("What to try next").end(), list("advice", advised(findings))])
}
