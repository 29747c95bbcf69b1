//! The answer and its evidence.

use analysis::findings::{Confidence, Findings, HeldBack, KnownLimits, ThreadActivity, TimeShare};

use crate::{
    html::markup::{Html, element, list, paragraph, section},
    layout::figures::percent_text,
    terminal::run::{
        levels,
        limits::giver,
        relief::sentences,
        timeline::threshold_from,
        verdict::{ended, look, sentence},
    },
};

pub(super) fn html(findings: &Findings) -> Html {
    let verdict = &findings.verdict;
    let (class, answer) = match verdict.held_back {
        HeldBack::Yes => ("yes", "Held back by memory: yes"),
        HeldBack::Partly => ("partly", "Held back by memory: partly"),
        HeldBack::No => ("no", "Held back by memory: no"),
        HeldBack::Unknown => ("unknown", "Held back by memory: cannot be told"),
    };
    let mut said = vec![element("p").set("class", format!("answer {class}")).say(answer).end()];
    said.extend(verdict.memory.map(|memory| paragraph("", &sentence(verdict, &memory))));
    match &verdict.nature {
        KnownLimits::Value(nature) => said.push(paragraph("", look(*nature))),
        KnownLimits::Missing(reason) if matches!(verdict.held_back, HeldBack::Yes | HeldBack::Partly) => {
            said.push(paragraph("quiet", &format!("Latency or bandwidth: not known, {reason}.")));
        }
        KnownLimits::Missing(_) => {}
    }
    said.extend(levels::sentence(findings).map(|text| paragraph("", &format!("Waits at: {text}"))));
    let verdict_box = element("div").set("class", format!("verdict {class}")).with(said).end();
    let parts = [verdict_box, tiles(findings), confidence(findings), relief(findings), advice(findings)];
    section("verdict", "Verdict", parts)
}

/// The second way to the same share, if it was taken or would be worth it.
fn relief(findings: &Findings) -> Html {
    let all = sentences(&findings.relief);
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
    Html::all([element("h3").say("What to try next").end(), list("advice", findings.advice.iter())])
}
