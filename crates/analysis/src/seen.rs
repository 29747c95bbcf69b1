//! Samples one by one, in terms of the findings.

use std::collections::HashMap;

use record::run::Run;

use crate::{
    findings::{Activity, Findings},
    timer::Blamed,
};

/// A sample, or the part of one that is blamed on one instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Since the start of the recording.
    pub time_ns: u64,
    /// Index among [`Findings::threads`].
    pub thread: usize,
    /// Index among [`Findings::instructions`].
    pub instruction: usize,
    /// Index among the objects, if the address came back.
    pub object: Option<usize>,
    /// What it means, in the order of [`Activity::ALL`]; sums to 1 over all parts of a sample.
    pub parts: [f32; Activity::ALL.len()],
}

/// Every sample of a run. `objects` gives the object of each, as [`crate::objects::assign`] found it.
pub fn samples<'a>(
    run: &'a Run,
    blamed: &Blamed,
    findings: &Findings,
    objects: &'a [Option<u32>],
) -> impl Iterator<Item = Seen> + 'a {
    let threads: HashMap<u32, usize> =
        findings.threads.iter().enumerate().map(|(index, thread)| (thread.tid, index)).collect();
    let threads: Vec<Option<usize>> =
        run.threads.iter().map(|thread| threads.get(&thread.tid).copied()).collect();
    let places = blamed.instructions(run, findings);
    (0..run.samples.time_ns.len()).flat_map(move |index| {
        let place = run.samples.place[index].index();
        let thread = threads.get(run.samples.thread[index].index()).copied().flatten();
        let parts: Vec<Seen> = places
            .get(place)
            .into_iter()
            .flatten()
            .filter_map(|&(instruction, parts)| {
                Some(Seen {
                    time_ns: run.samples.time_ns[index],
                    thread: thread?,
                    instruction,
                    object: objects.get(index).copied().flatten().map(|object| object as usize),
                    parts,
                })
            })
            .collect();
        parts
    })
}
