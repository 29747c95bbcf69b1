//! What to try next.

use super::origin::RunOrigin;
use crate::{
    findings::{Findings, HeldBack, InstructionFinding, Nature, Pattern, ThreadActivity},
    patterns,
};

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
    let on_code: Vec<String> = on_code.filter_map(|&(activity, _)| on(activity, findings, origin)).collect();
    let mut advice: Vec<String> = on_data.into_iter().chain(on_code).collect();
    if findings.verdict.held_back == HeldBack::No && advice.is_empty() {
        advice.push("Memory is not what holds it back; look at the instructions it executes.".to_owned());
    }
    not_running(findings, &mut advice);
    advice
}

/// The sentence of the pattern files for this kind of waiting.
fn on(activity: ThreadActivity, findings: &Findings, origin: RunOrigin) -> Option<String> {
    let hottest = hottest(activity, findings);
    let place = hottest.map_or(String::new(), |found| format!(" in {}", place(findings, found)));
    let walk = hottest.and_then(|found| found.access).map(|access| access.pattern);
    let access = match (walk, findings.verdict.nature.value()) {
        _ if activity != ThreadActivity::Loads => None,
        (Some(Pattern::PointerChasing | Pattern::Strided), _) => walk,
        (_, Some(Nature::Bandwidth | Nature::Streams)) => Some(Pattern::Streaming),
        _ => walk,
    };
    patterns::remedy(activity, access, &place, origin.more_samples())
}

/// The instruction with most waiting of a kind.
fn hottest(activity: ThreadActivity, findings: &Findings) -> Option<&InstructionFinding> {
    let waiting = findings.instructions.iter().filter(|found| found.activity == activity);
    waiting.max_by(|a, b| a.waiting_samples.total_cmp(&b.waiting_samples))
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
