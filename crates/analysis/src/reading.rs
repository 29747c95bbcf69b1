//! A recording read as a whole: what it says of code and of data, each sample blamed once.

use machine::{fingerprint::SIMULATED_ID, profile::Profile};
use record::{ids::PlaceId, regions::EventsDone, run::Run};

use crate::{
    findings::{Confidence, Findings, HeldBack, KnownLimits, Objects, ThreadActivity},
    hybrid::{self, HybridFindings},
    import::ImportFindings,
    listing::{self, AnnotatedFunction},
    objects,
    patterns::{self, PatternFinding},
    regions::{self, RegionFinding},
    runtimes,
    scaling::{self, ScalingFindings},
    surroundings::ProgramSurroundings,
    timer::{self, SplitTally, Tally, TimerOptions, origin::RunOrigin},
    views::EventViews,
    work::{self, WorkFindings},
};

/// All that is made of a recording.
pub struct Reading {
    /// What it says.
    pub findings: Findings,
    /// What it says about data.
    pub objects: Objects,
    /// What it says about the regions that the program marked.
    pub regions: Vec<RegionFinding>,
    /// What was sampled, by symbol and by region.
    pub views: EventViews,
    /// Code and data that wait for bandwidth, by events (helm2019 §7); none where nobody asked.
    pub hybrid: Option<KnownLimits<HybridFindings>>,
    /// How threads share the work.
    pub work: WorkFindings,
    /// How it takes more threads, if it was run with several numbers of them.
    pub scaling: Option<ScalingFindings>,
    /// Events that the program said it had done with.
    pub events: Option<EventsDone>,
    /// Known diseases beside it, those it has first.
    pub patterns: Vec<PatternFinding>,
    /// What went on around the program.
    pub surroundings: ProgramSurroundings,
    /// Where it was imported from, if it was.
    pub import: Option<ImportFindings>,
    /// The object of each sample, if its address is known.
    assigned: Vec<Option<u32>>,
    /// By place: the instructions of the findings that its samples are blamed on, and what each part of one means.
    parts: Vec<Vec<(usize, SampleActivities)>>,
    tally: Tally,
}

/// Parts of a sample by activity, as small as pages need them.
pub(crate) type SampleActivities = [f32; ThreadActivity::ALL.len()];

/// A sample, or the part of one that is blamed on one instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplePart {
    /// Since the start of the recording.
    pub time_ns: u64,
    /// Index among [`Findings::threads`].
    pub thread: usize,
    /// Index among [`Findings::instructions`].
    pub instruction: usize,
    /// Index among [`Objects::objects`], if the address came back.
    pub object: Option<usize>,
    /// What it means, in the order of [`ThreadActivity::ALL`]; sums to 1 over all parts of a sample.
    pub parts: SampleActivities,
}

impl Reading {
    /// Reads a run, beside the machine's profile if there is one.
    pub fn of(run: &Run, profile: Option<&Profile>, options: &TimerOptions) -> Self {
        let tally = Tally::new(run, profile);
        let (mut findings, ranks) = timer::findings(run, &tally, profile, options);
        let (objects, assigned) = objects::assign(run, &tally, &ranks, &findings);
        findings.advice = timer::advice(&findings, objects::advice(&findings, &objects), RunOrigin::of(run));
        if run.about.fingerprint.id.starts_with(SIMULATED_ID) && run.samples.place.is_empty() {
            // Time is not sampled there, however long it runs.
            findings.advice = vec![
                "'memwall report FILE --by region' and --by symbol show the events that were sampled."
                    .to_owned(),
            ];
        }
        doubt_where_lines_are_shared(&mut findings, &objects);
        // First: what has no name cannot be looked at.
        findings.remarks.splice(0..0, runtimes::note(run, &findings));
        let small = |(instruction, parts): (usize, SplitTally)| (instruction, parts.map(|part| part as f32));
        let parts_of = |place| tally.parts_by_instruction(place, &ranks).into_iter().map(small).collect();
        let parts: Vec<_> = (0..run.places.len()).map(|place| parts_of(PlaceId::of(place))).collect();
        let surroundings = ProgramSurroundings::of(&run.probes, profile);
        let import = ImportFindings::of(run);
        let regions = regions::regions(run, profile, options);
        let work = work::work(run, &findings, &objects, &parts);
        let mut indicators =
            patterns::from_run(&findings, &tally, &objects, &work, profile, RunOrigin::of(run));
        let scaling = run.scaling.as_ref().map(scaling::scaling);
        if let Some(scaling) = &scaling {
            scaling::indicators(scaling, &mut indicators);
        }
        let patterns = patterns::judge(&indicators);
        let events = run.regions.events;
        let views = EventViews::of(run, &findings, &|place| memory_part(&parts, place));
        Self {
            findings,
            objects,
            regions,
            views,
            hybrid: hybrid::hybrid(run, &options.latency_threshold),
            work,
            scaling,
            events,
            patterns,
            surroundings,
            import,
            assigned,
            parts,
            tally,
        }
    }

    /// The samples of the same run one by one, in terms of the findings.
    pub fn samples<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = SamplePart> + 'a {
        let mut threads = vec![None; run.threads.len()];
        for (rank, thread) in self.findings.threads.iter().enumerate() {
            threads[thread.id.index()] = Some(rank);
        }
        let columns = run.samples.time_ns.iter().zip(&run.samples.thread).zip(&run.samples.place);
        let columns = columns.zip(&self.assigned);
        columns.flat_map(move |(((&time_ns, thread), &place), object)| {
            let thread = threads.get(thread.index()).copied().flatten();
            let object = object.map(|object| object as usize);
            let parts: &[_] = self.parts.get(place.index()).map_or(&[], Vec::as_slice);
            parts.iter().filter_map(move |&(instruction, parts)| {
                Some(SamplePart { time_ns, thread: thread?, instruction, object, parts })
            })
        })
    }

    /// Of a sample at this place: the part that waits for memory.
    pub fn memory_share(&self, place: PlaceId) -> f64 {
        memory_part(&self.parts, place)
    }

    /// The `most` functions with most samples instruction by instruction, as far as their code is known.
    pub fn listing(&self, run: &Run, most: usize) -> Vec<AnnotatedFunction> {
        listing::functions(run, &self.findings, &self.tally, most)
    }
}

fn memory_part(parts: &[Vec<(usize, SampleActivities)>], place: PlaceId) -> f64 {
    let parts = parts.get(place.index()).into_iter().flatten();
    let of_memory = |parts: &SampleActivities| -> f32 {
        let activities = ThreadActivity::ALL.iter().zip(parts);
        activities.filter(|(activity, _)| activity.is_memory()).map(|(_, part)| *part).sum()
    };
    parts.map(|(_, parts)| f64::from(of_memory(parts))).sum()
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
mod identity;
#[cfg(test)]
mod tests;
