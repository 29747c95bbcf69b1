//! What spoils or limits the findings, in plain sentences.

use std::collections::HashSet;

use record::{
    ids::{ModuleId, PlaceId},
    run::{Ending, Run},
};
use trust::Standing;

use super::{origin::RunOrigin, program::BlamedSites, tally::Tally, verdict::stolen_share};
use crate::findings::{KnownLimits, Split};

pub(crate) fn remarks(
    run: &Run,
    tally: &Tally,
    overall: Option<&Split>,
    trust: &KnownLimits<Standing>,
) -> Vec<String> {
    let mut remarks = run.remarks.clone();
    let samples = run.samples.place.len();
    match run.about.lost_samples {
        Some(lost) if lost > 0 => {
            let percent = lost as f64 / (samples as f64 + lost as f64) * 100.0;
            remarks.push(format!(
                "{lost} records of the kernel were lost, beside {samples} samples that were taken ({percent:.1} %): shares, \
                 times of threads and time off the CPU are estimates. {}",
                RunOrigin::of(run).fewer_losses()
            ));
        }
        _ => {}
    }
    unreadable(run, &mut remarks);
    unknown(run, tally, &mut remarks);
    if let Some(split) = overall.filter(|split| split.undecided > 0.05) {
        let percent = split.undecided * 100.0;
        remarks.push(format!(
            "{percent:.0} % of user time is undecided: the samples fit several causes, or none."
        ));
    }
    if run.slices.is_empty() {
        remarks.push(format!("Time off the CPU is not known: {}.", RunOrigin::of(run).no_switches()));
    }
    if let Some(stolen) = stolen_share(run).filter(|&share| share > 0.02) {
        let percent = stolen * 100.0;
        remarks.push(format!(
            "The hypervisor took {percent:.0} % of one CPU's time; shares suffer less than times."
        ));
    }
    if let KnownLimits::Missing(reason) = trust {
        remarks.push(format!("How far shares can be believed was not tried here: {reason}."));
    }
    if run.about.ending == Ending::Unknown && run.import.is_none() {
        remarks.push("The recording ends early: memwall was stopped before the program ended.".to_owned());
    }
    remarks
}

/// Modules that samples landed in and that could not be read.
fn unreadable(run: &Run, remarks: &mut Vec<String>) {
    let used: HashSet<ModuleId> = run
        .samples
        .place
        .iter()
        .collect::<HashSet<_>>()
        .into_iter()
        .filter_map(|&place| run.place(place))
        .map(|place| place.module)
        .collect();
    for (index, module) in run.modules.iter().enumerate() {
        if let Some(problem) = module.problem.as_ref().filter(|_| used.contains(&ModuleId::of(index))) {
            remarks.push(format!("{}: {problem}.", module.path));
        }
    }
}

fn unknown(run: &Run, tally: &Tally, remarks: &mut Vec<String>) {
    let is_unknown = |&&place: &&PlaceId| {
        !matches!(
            tally.program.blames.get(place.index()),
            Some(BlamedSites::Sites(_) | BlamedSites::Undecided(_))
        )
    };
    let unknown = run.samples.place.iter().filter(is_unknown).count();
    if unknown * 100 > run.samples.place.len() {
        let percent = unknown as f64 / run.samples.place.len() as f64 * 100.0;
        remarks.push(format!(
            "{percent:.0} % of user time was in code that could not be read (generated, deleted or unmapped)."
        ));
    }
}
