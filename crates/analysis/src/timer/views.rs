//! The views: by thread, by function, by instruction.

use std::collections::HashMap;

use record::{
    ids::{FunctionId, ModuleId, PlaceId, ThreadId},
    run::{ModuleKind, Place, Run},
};

use super::{
    TimerOptions, account,
    blame::SampleMeaning,
    pattern,
    program::{BlamedSites, ProgramSite},
    tally::{SplitTally, Tally, add, split},
};
use crate::{
    findings::{
        InstructionFinding, SourceLine, SymbolFinding, ThreadActivity, ThreadFinding, TimeShare, Timeline,
    },
    statistics,
};

/// Each thread, the busiest first.
pub(crate) fn threads(run: &Run, tally: &Tally) -> Vec<ThreadFinding> {
    let mut sums = vec![(SplitTally::default(), 0u64); run.threads.len()];
    for (&thread, &place) in run.samples.thread.iter().zip(&run.samples.place) {
        if let Some((sum, samples)) = sums.get_mut(thread.index()) {
            add(sum, &tally.parts(place), 1.0);
            *samples += 1;
        }
    }
    let mut slices: HashMap<ThreadId, Vec<_>> = HashMap::new();
    for slice in &run.slices {
        slices.entry(slice.thread).or_default().push(*slice);
    }
    let all = run.samples.place.len().max(1) as f64;
    let mut found: Vec<ThreadFinding> = Vec::new();
    for (index, (thread, (sum, samples))) in run.threads.iter().zip(&sums).enumerate() {
        let own = slices.get(&ThreadId::of(index)).map(Vec::as_slice).unwrap_or_default();
        found.push(ThreadFinding {
            id: ThreadId::of(index),
            tid: thread.tid,
            pid: run.process(thread.process).map_or(thread.tid, |process| process.pid),
            name: thread.name.clone(),
            user_share: *samples as f64 / all,
            split: split(sum, *samples),
            account: account::of_thread(run, own.iter(), *samples),
        });
    }
    found.sort_by(|a, b| b.user_share.total_cmp(&a.user_share));
    found
}

/// What samples of one function add up to.
#[derive(Default)]
struct SymbolSum {
    parts: SplitTally,
    samples: u64,
    flagged: u64,
}

/// Whose samples: a function of the run, or the unknown code of a module.
type ViewOwner = Result<FunctionId, ModuleId>;

fn owner_of(run: &Run, place: &Place) -> ViewOwner {
    place.function.filter(|id| run.function(*id).is_some()).ok_or(place.module)
}

/// Where among the findings what the run and the tally number otherwise is kept.
pub(crate) struct Ranks {
    /// By function of the run: among the symbols.
    symbols: HashMap<ViewOwner, usize>,
    /// By site: among the instructions.
    sites: HashMap<usize, usize>,
    /// By place whose code is not known: among the instructions.
    places: HashMap<PlaceId, usize>,
}

impl Ranks {
    /// The symbol of a function; none if no sample was taken in it.
    pub(crate) fn symbol(&self, function: FunctionId) -> Option<usize> {
        self.symbols.get(&Ok(function)).copied()
    }

    /// The instruction of a site; none if no sample was blamed on it.
    pub(crate) fn site(&self, site: usize) -> Option<usize> {
        self.sites.get(&site).copied()
    }

    /// The instruction that stands for a place of which no code is known.
    pub(crate) fn place(&self, place: PlaceId) -> Option<usize> {
        self.places.get(&place).copied()
    }
}

/// Each function and each instruction, those with most samples first, and where each of them is found.
pub(crate) fn symbols(
    run: &Run,
    tally: &Tally,
    timeline: &Timeline,
    options: &TimerOptions,
) -> (Vec<SymbolFinding>, Vec<InstructionFinding>, Ranks) {
    let mut sums: HashMap<ViewOwner, SymbolSum> = HashMap::new();
    for (&time, &at) in run.samples.time_ns.iter().zip(&run.samples.place) {
        let Some(place) = run.place(at) else { continue };
        let owner = owner_of(run, place);
        let sum = sums.entry(owner).or_default();
        add(&mut sum.parts, &tally.parts(at), 1.0);
        sum.samples += 1;
        sum.flagged += u64::from(timeline.is_flagged(time));
    }
    let mut owners: Vec<(ViewOwner, SymbolSum)> = sums.into_iter().collect();
    owners.sort_by_key(|(owner, sum)| (std::cmp::Reverse(sum.samples), *owner));
    let all = run.samples.place.len() as f64;
    let mut symbols: Vec<SymbolFinding> =
        owners.iter().filter_map(|(owner, sum)| symbol(run, *owner, sum, all)).collect();
    let by_owner: HashMap<ViewOwner, usize> =
        owners.iter().enumerate().map(|(rank, (owner, _))| (*owner, rank)).collect();
    let ranked = instructions(run, tally, &by_owner, all);
    let mut ranks = Ranks { symbols: by_owner, sites: HashMap::new(), places: HashMap::new() };
    for (index, (origin, instruction)) in ranked.iter().enumerate() {
        match *origin {
            Origin::Site(site) => ranks.sites.insert(site, index),
            Origin::Place(place) => ranks.places.insert(place, index),
        };
        let top = &mut symbols[instruction.symbol].top;
        if top.len() < options.top {
            top.push(index);
        }
    }
    (symbols, ranked.into_iter().map(|(_, instruction)| instruction).collect(), ranks)
}

/// What an instruction among the findings was made from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Site(usize),
    Place(PlaceId),
}

fn symbol(run: &Run, owner: ViewOwner, sum: &SymbolSum, all: f64) -> Option<SymbolFinding> {
    let function = owner.ok().and_then(|id| run.function(id));
    let module_id = function.map(|function| function.module).or(owner.err())?;
    let module = run.module(module_id);
    Some(SymbolFinding {
        function: owner.ok(),
        module_id,
        name: function.map_or_else(|| "unknown code".to_owned(), |function| function.name.clone()),
        symbol: function.and_then(|function| function.symbol.clone()),
        module: module.map_or_else(|| "unknown".to_owned(), |module| module.path.clone()),
        module_kind: module.map_or(ModuleKind::Unknown, |module| module.kind),
        user_share: statistics::share(sum.samples as f64, all)?,
        split: split(&sum.parts, sum.samples)?,
        flagged_share: sum.flagged as f64 / sum.samples as f64,
        top: Vec::new(),
    })
}

fn instructions(
    run: &Run,
    tally: &Tally,
    ranks: &HashMap<ViewOwner, usize>,
    all: f64,
) -> Vec<(Origin, InstructionFinding)> {
    let mut found = unknown_code(run, tally, ranks, all);
    for (id, site) in tally.program.sites.iter().enumerate() {
        let samples = site.samples + site.undecided;
        if samples > 0.0
            && let Some(share) = statistics::share(samples, all)
            && let Some(finding) = instruction(run, tally, ranks, id, site, share)
        {
            found.push((Origin::Site(id), finding));
        }
    }
    found.sort_by(|(a_from, a), (b_from, b)| {
        b.samples().total_cmp(&a.samples()).then((a.address, a_from).cmp(&(b.address, b_from)))
    });
    found
}

fn instruction(
    run: &Run,
    tally: &Tally,
    ranks: &HashMap<ViewOwner, usize>,
    id: usize,
    site: &ProgramSite,
    user_share: TimeShare,
) -> Option<InstructionFinding> {
    let (_, decoded) = tally.program.instruction(site)?;
    let at = tally.program.blocks[site.block].function;
    let function = run.functions.get(at)?;
    let symbol = *ranks.get(&Ok(FunctionId::of(at)))?;
    let offset = decoded.address().wrapping_sub(function.start) as usize;
    let bytes = function.code.as_deref().and_then(|code| code.get(offset..)).unwrap_or_default();
    let meaning = &tally.meanings[id];
    // Of code that only waits for other threads it does not matter whom a sample is blamed on.
    let (waiting, undecided) = match meaning.activity {
        _ if tally.program.spins(site.block) => (meaning.waiting + site.undecided, 0.0),
        ThreadActivity::Undecided => (0.0, meaning.waiting + site.undecided),
        _ => (meaning.waiting, site.undecided),
    };
    let activity = match meaning {
        SampleMeaning { waiting, chained, near, .. } if chained.max(*near) <= *waiting => meaning.activity,
        SampleMeaning { chained, near, .. } if chained >= near => ThreadActivity::Chains,
        _ => ThreadActivity::FirstCache,
    };
    Some(InstructionFinding {
        symbol,
        address: decoded.address(),
        text: code::disassemble(bytes, decoded.address()).ok(),
        source: SourceLine::at(run, function.module, decoded.address()),
        activity,
        waiting_samples: waiting + meaning.chained + meaning.near,
        executing_samples: meaning.executing,
        undecided_samples: undecided,
        user_share,
        access: pattern::pattern(&tally.program, &tally.streams, id),
    })
}

/// Places whose code is not known stand for themselves.
fn unknown_code(
    run: &Run,
    tally: &Tally,
    ranks: &HashMap<ViewOwner, usize>,
    all: f64,
) -> Vec<(Origin, InstructionFinding)> {
    let mut counts: HashMap<PlaceId, u64> = HashMap::new();
    for &place in &run.samples.place {
        if tally.program.blames.get(place.index()) == Some(&BlamedSites::Unknown) {
            *counts.entry(place).or_default() += 1;
        }
    }
    let finding = |(at, samples): (PlaceId, u64)| {
        let place = run.place(at)?;
        let owner = owner_of(run, place);
        let (activity, waiting, undecided) = match tally.program.spins_at(at) {
            true => (ThreadActivity::OtherThreads, samples as f64, 0.0),
            false => (ThreadActivity::Undecided, 0.0, samples as f64),
        };
        let finding = InstructionFinding {
            symbol: *ranks.get(&owner)?,
            address: place.address,
            text: None,
            source: SourceLine::at(run, place.module, place.address),
            activity,
            waiting_samples: waiting,
            executing_samples: 0.0,
            undecided_samples: undecided,
            user_share: statistics::share(samples as f64, all)?,
            access: None,
        };
        Some((Origin::Place(at), finding))
    };
    counts.into_iter().filter_map(finding).collect()
}
