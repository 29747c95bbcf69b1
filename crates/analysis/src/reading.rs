//! A recording read as a whole: what it says of code and of data, each sample blamed once.

use machine::profile::Profile;
use record::run::Run;

use crate::{
    findings::{Confidence, Findings, HeldBack, Objects},
    objects,
    timer::{self, Blamed, Options},
};

/// All that is made of a recording.
pub struct Reading {
    /// What it says.
    pub findings: Findings,
    /// What it says about data.
    pub objects: Objects,
    /// The object of each sample, if its address is known.
    pub assigned: Vec<Option<u32>>,
    /// What each sample means.
    pub blamed: Blamed,
}

impl Reading {
    /// Reads a run, beside the machine's profile if there is one.
    pub fn of(run: &Run, profile: Option<&Profile>, options: &Options) -> Self {
        let (mut findings, blamed) = timer::analyse_and_blame(run, profile, options);
        let (objects, assigned) = objects::assign(run, &blamed, &findings);
        findings.advice = timer::advice(&findings, objects::advice(&findings, &objects));
        doubt_where_lines_are_shared(&mut findings, &objects);
        Self { findings, objects, assigned, blamed }
    }
}

/// Shared lines with this share of all samples spoil a verdict.
const MUCH_SHARED: f64 = 0.2;

/// A core that has lost a line to another goes on from its store buffer and waits later, behind instructions that need
/// no line: of waiting for shared lines only a part is seen, so little waiting is no proof that there is none.
fn doubt_where_lines_are_shared(findings: &mut Findings, objects: &Objects) {
    let samples: u64 = objects.shared_lines.iter().map(|line| line.samples).sum();
    let is_shared = samples as f64 >= MUCH_SHARED * findings.about.samples.max(1) as f64;
    let verdict = &mut findings.verdict;
    if is_shared && matches!(verdict.held_back, HeldBack::No | HeldBack::Partly) {
        verdict.confidence = verdict.confidence.min(Confidence::Medium);
        verdict.reasons.push(
            "Threads share lines, and waiting for those shows in part only: it may be more.".to_owned(),
        );
    }
}

#[cfg(test)]
mod tests;
