//! How the numbers were obtained, and how far to trust them.

use analysis::findings::{Estimated, KnownLimits};

use super::RunPage;
use crate::{
    html::{
        markup::{Html, element, facts, list, paragraph, section},
        profile::machine_words,
    },
    layout::age,
    layout::conditions::{ConditionsSeen, noise_sentences},
    layout::figures::percent_text,
    layout::surroundings,
    terminal::{import, run::verdict::range},
};

const METHOD: [&str; 4] = [
    "A clock interrupts every running thread at a steady pace and notes the instruction it stopped at. No hardware \
     counter is involved. One sample stands for one period of user time, so every share is a share of samples.",
    "A core that waits stops right behind the instruction that could not retire. The instruction before it says what was \
     waited for: a load, a store, an atomic, a division, a chain of results, a branch.",
    "A core that does not wait leaves samples behind loads too, as many as it runs. The other instructions of the same \
     block give that baseline. Only what exceeds it is called waiting; the rest is executing.",
    "Undecided is what the samples do not tell: code that could not be read, or too few samples in a block.",
];

/// Instead of the first of them, where perf took the samples.
const METHOD_OF_PERF: &str = "perf interrupted running threads by a clock or by counting what ticks as long as a core runs, and noted the instruction \
     each stopped at. One sample stands for one period of user time, so every share is a share of samples.";

pub(super) fn html(page: &RunPage<'_>) -> Html {
    let findings = page.findings;
    let [own, rest @ ..] = METHOD;
    let first = if page.import.is_some() { METHOD_OF_PERF } else { own };
    let method = [first].into_iter().chain(rest).map(|text| element("li").say(text).end());
    let mut content = vec![
        element("ol").set("class", "method").with(method).end(),
        element("h3").say("What stands behind this report").end(),
        facts(behind(page).into_iter().chain(data(page)).chain(machine(page)).chain(probes(page))),
    ];
    if let Some(import) = page.import {
        content.push(element("h3").say("Imported").end());
        content.push(list("notes", import::sentences(import)));
    }
    if !findings.remarks.is_empty() {
        content.push(element("h3").say("Keep in mind").end());
        content.push(list("notes", findings.remarks.iter()));
    }
    content.push(paragraph(
        "quiet",
        "The interval of the share of memory holds what chance leaves open and what the instrument does; intervals after \
         other shares are 95 % confidence intervals by the number of samples: they say how far chance reaches, not how far \
         the instrument can be wrong. A dash stands for what was not measured, never for zero.",
    ));
    section("trust", "How the numbers were obtained, and how far to trust them", content)
}

/// What probes before and after it found, or why there are none.
fn probes(page: &RunPage<'_>) -> Vec<(String, String)> {
    let details = page.surroundings.filter(|_| page.import.is_none()).map(surroundings::details);
    details.into_iter().flatten().map(|(name, text)| (name.to_owned(), text)).collect()
}

fn behind(page: &RunPage<'_>) -> Vec<(String, String)> {
    let findings = page.findings;
    let about = &findings.about;
    let lost = match &about.lost_samples {
        KnownLimits::Value(0) => "none".to_owned(),
        KnownLimits::Value(lost) => {
            let all = (about.samples + lost).max(1) as f64;
            format!("{lost}, {} % of all", percent_text(*lost as f64 / all))
        }
        KnownLimits::Missing(reason) => format!("not known: {reason}"),
    };
    let period =
        format!("{} samples, each standing for {}", about.samples, machine::units::nanos(about.period_ns));
    let mut pairs = vec![("Samples".to_owned(), period), ("Lost records".to_owned(), lost)];
    pairs.extend(
        findings.overall.map(|split| {
            ("Undecided".to_owned(), format!("{} % of user time", percent_text(split.undecided)))
        }),
    );
    let account = &findings.account;
    let Estimated { running, waiting } = account.estimated;
    for (what, known, is_estimate) in [
        ("In the kernel", &account.kernel_ns, running),
        ("Blocked", &account.blocked_ns, waiting),
        ("Waiting for a CPU", &account.preempted_ns, waiting),
    ] {
        let text = match known {
            KnownLimits::Value(ns) => crate::terminal::run::about(*ns, is_estimate),
            KnownLimits::Missing(reason) => format!("not known: {reason}"),
        };
        pairs.push((what.to_owned(), text));
    }
    pairs.insert(
        3.min(pairs.len()),
        ("In user mode".to_owned(), crate::terminal::run::about(account.user_ns, running)),
    );
    pairs.push(match page.import {
        Some(_) => ("Imported by".to_owned(), format!("memwall {}", about.memwall)),
        None => ("Recorded by".to_owned(), format!("memwall {} on machine {}", about.memwall, about.machine)),
    });
    pairs
}

fn data(page: &RunPage<'_>) -> Option<(String, String)> {
    let addressed = page.objects?.addressed;
    let text = addressed.map_or("no sample of a memory instruction".to_owned(), |share| {
        format!("{} of the samples of memory instructions", range(&share))
    });
    Some(("Addresses known".to_owned(), text))
}

fn machine(page: &RunPage<'_>) -> Vec<(String, String)> {
    let Some(profile) = page.profile else {
        let why = match page.import {
            Some(_) => "none: nobody measured the machine of the file",
            None => "none: run memwall calibrate",
        };
        return vec![("Machine profile".to_owned(), why.to_owned())];
    };
    let mut pairs = vec![("Machine".to_owned(), machine_words(profile))];
    let mut made = match &profile.simulated {
        Some(model) => format!("simulated {model}"),
        None => age::date(profile.measured_at),
    };
    if !profile.extent.complete {
        made += ", incomplete";
    }
    if profile.extent.quick {
        made += ", quick";
    }
    pairs.push(("Profile measured".to_owned(), made));
    if let Some(noise) = &profile.noise {
        let sentences = noise_sentences(&[ConditionsSeen { at: String::new(), noise }], profile.cpus.len());
        let text = if sentences.is_empty() { "none seen".to_owned() } else { sentences.join("; ") };
        pairs.push(("Noise while calibrating".to_owned(), text));
    }
    pairs
}
