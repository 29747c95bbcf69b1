//! What to try next.

use super::origin::RunOrigin;
use crate::findings::{Findings, HeldBack, InstructionFinding, Nature, Pattern, ThreadActivity};

/// Advice is given on waits from this share of user time on.
const WORTH: f64 = 0.15;

/// What to try about code, behind `on_data`, what to try about data.
pub(crate) fn advice(findings: &Findings, on_data: Vec<String>, origin: RunOrigin) -> Vec<String> {
    let Some(split) = findings.overall.filter(|_| findings.has_enough_samples()) else {
        return vec![origin.too_few().to_owned()];
    };
    let mut waits: Vec<(ThreadActivity, f64)> = ThreadActivity::ALL
        .into_iter()
        .filter(|activity| activity.is_waiting())
        .map(|activity| (activity, split.share(activity)))
        .filter(|&(_, share)| share >= WORTH)
        .collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    // That a line is waited for is known already where its sharing was found.
    let is_said = |activity: ThreadActivity| {
        let hottest = hottest(activity, findings).and_then(|found| found.access);
        !on_data.is_empty() && hottest.is_some_and(|access| access.pattern == Pattern::OnePlace)
    };
    let on_code = waits.iter().filter(|&&(activity, _)| !is_said(activity));
    let on_code: Vec<String> = on_code.map(|&(activity, _)| on(activity, findings, origin)).collect();
    let mut advice: Vec<String> = on_data.into_iter().chain(on_code).collect();
    if findings.verdict.held_back == HeldBack::No && advice.is_empty() {
        advice.push("Memory is not what holds it back; look at the instructions it executes.".to_owned());
    }
    not_running(findings, &mut advice);
    advice
}

fn on(activity: ThreadActivity, findings: &Findings, origin: RunOrigin) -> String {
    let hottest = hottest(activity, findings);
    let place = hottest.map_or(String::new(), |found| format!(" in {}", place(findings, found)));
    match activity {
        ThreadActivity::Loads => on_loads(findings, hottest, &place, origin),
        ThreadActivity::Stores => format!(
            "Stores wait{place}: write each line once and whole, or past the caches if it is not read again soon."
        ),
        ThreadActivity::Atomics => format!(
            "Atomics, fences or spinning take the time{place}: share less, keep counters per thread and add them up later."
        ),
        ThreadActivity::Divides => {
            format!(
                "Divisions or square roots take the time{place}: multiply by a reciprocal, or hoist them out of the loop."
            )
        }
        ThreadActivity::Chains => format!(
            "Each result waits for the one before{place}: break the chain, for example with several accumulators."
        ),
        ThreadActivity::FirstCache => format!(
            "Each load or atomic waits for the one before{place}, though the data is in the first cache: break the chain, or \
             use fewer atomic operations."
        ),
        _ => format!(
            "The core guesses wrongly where to go next, or jumps much{place}: sort the data, compute without branches, or inline."
        ),
    }
}

/// The instruction with most waiting of a kind.
fn hottest(activity: ThreadActivity, findings: &Findings) -> Option<&InstructionFinding> {
    let waiting = findings.instructions.iter().filter(|found| found.activity == activity);
    waiting.max_by(|a, b| a.waiting_samples.total_cmp(&b.waiting_samples))
}

fn on_loads(
    findings: &Findings,
    hottest: Option<&InstructionFinding>,
    place: &str,
    origin: RunOrigin,
) -> String {
    match (
        hottest.and_then(|found| found.access).map(|access| access.pattern),
        findings.verdict.nature.value(),
    ) {
        (Some(Pattern::PointerChasing), _) => format!(
            "One load waits for another{place}: lay nodes out in the order they are visited, or follow several chains at once."
        ),
        (Some(Pattern::Strided), _) => format!(
            "It uses a part of each line it loads{place}: change the order of the loops or of the data."
        ),
        (Some(Pattern::Streaming), _) | (_, Some(Nature::Bandwidth | Nature::Streams)) => format!(
            "It streams more than the caches hold{place}: work in blocks that fit, fuse passes over the same data, use smaller types."
        ),
        (Some(Pattern::OnePlace), _) => format!(
            "It waits for one line again and again{place}: another thread probably writes to it; move their data apart."
        ),
        (Some(Pattern::Random), _) => format!(
            "It loads from all over memory{place}: make the data smaller, sort the accesses, prefetch, or use huge pages."
        ),
        _ => format!(
            "Loads wait, most of all{place}, but too few samples tell how it walks through memory: {}.",
            origin.more_samples()
        ),
    }
}

fn place(findings: &Findings, found: &InstructionFinding) -> String {
    let name = findings.symbols.get(found.symbol).map_or("unknown code", |symbol| symbol.name.as_str());
    match &found.source {
        Some(source) => {
            let file = source.file.rsplit('/').next().unwrap_or(&source.file);
            format!("{name} ({file}:{})", source.line)
        }
        None => name.to_owned(),
    }
}

/// Threads that wait for each other or for devices hide in no sample.
fn not_running(findings: &Findings, advice: &mut Vec<String>) {
    let Some((total, blocked)) = findings.account.total_ns().zip(findings.account.blocked_ns.value()) else {
        return;
    };
    if total > 0.0 && blocked / total > 0.5 {
        let percent = blocked / total * 100.0;
        advice.push(format!(
            "Threads were blocked for {percent:.0} % of thread time: look at I/O and at what they wait for from each other."
        ));
    }
}
