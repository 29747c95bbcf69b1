//! Which classes and levels a program's time is in, and what answers about such code were worth on its machine.

use code::{Block, Instruction, Reg};
use trust::{
    AccessClass, ErrorSummary, KernelPlace, OutOfSample, PartStanding, Standing, Trust, TrustPart, UnseenCase,
};

use super::{
    bounds::MemoryBounds,
    entries::LoopEntries,
    facts::{ChainShare, feeds_itself},
    origin::RunOrigin,
    pattern,
    tally::Tally,
};
use crate::findings::{Confidence, ConsultedPart, KnownLimits, Pattern, ThreadActivity, TimeShare};

/// Parts with a smaller share of the samples are not asked for.
const WORTH: f64 = 0.1;

/// Samples of a block of the program, and what trust they need.
struct BlockParts {
    parts: Vec<TrustPart>,
    /// Its data lies nobody knows where.
    level_unknown: bool,
    samples: f64,
    /// Of these, waiting for memory.
    waiting: f64,
}

/// What validation says of a program's time.
pub(crate) struct Consulted {
    /// Classes and levels it is in, those with most of it first; none if nothing was tried by them.
    pub parts: Vec<ConsultedPart>,
    /// No answer is surer than this.
    pub limit: Confidence,
    /// Why.
    pub reasons: Vec<String>,
    /// Shares of all samples in classes or levels that are broken: those that seem to wait, and those that do not.
    pub open: (f64, f64),
    /// The instrument as a whole failed, and nothing is known class by class.
    pub is_broken: bool,
}

impl Consulted {
    /// Asks what random kernels showed whose shares were known as well as `memory` is by itself, or, where none were tried, whether the instrument fails as a whole.
    pub(crate) fn of(
        tally: &Tally,
        samples: u64,
        memory: Option<TimeShare>,
        (unseen, shares): (&KnownLimits<OutOfSample>, &KnownLimits<Standing>),
        origin: RunOrigin,
    ) -> Self {
        let width = memory.map(|share| share.high - share.low);
        let is_narrow = width.is_some_and(|width| width <= UnseenCase::NARROW);
        match unseen {
            KnownLimits::Value(unseen) => {
                Self::tried(&blocks(tally), samples.max(1) as f64, is_narrow, unseen, origin)
            }
            KnownLimits::Missing(reason) => Self::untried(reason, shares, origin),
        }
    }

    fn tried(
        blocks: &[BlockParts],
        samples: f64,
        is_narrow: bool,
        unseen: &OutOfSample,
        origin: RunOrigin,
    ) -> Self {
        let share = |part: TrustPart| {
            let own = blocks.iter().filter(|block| block.parts.contains(&part));
            own.map(|block| block.samples).sum::<f64>() / samples
        };
        let consulted = |part: TrustPart| {
            let whole = unseen.part(part);
            let by_narrow = is_narrow && whole.standing() != PartStanding::Broken;
            let errors = if by_narrow { unseen.narrow_part(part) } else { whole };
            ConsultedPart { part, share: share(part), standing: errors.standing(), errors }
        };
        let mut parts: Vec<ConsultedPart> =
            TrustPart::all().map(consulted).filter(|one| one.share >= WORTH).collect();
        parts.sort_by(|one, other| other.share.total_cmp(&one.share));
        let is_broken = |part: &TrustPart| unseen.part(*part).standing() == PartStanding::Broken;
        let open = blocks.iter().filter(|block| block.parts.iter().any(is_broken));
        let (waiting, all) =
            open.fold((0.0, 0.0), |(waiting, all), block| (waiting + block.waiting, all + block.samples));
        let lost: f64 = blocks.iter().filter(|block| block.level_unknown).map(|block| block.samples).sum();
        let mut found = Self {
            reasons: vec![quoted(&parts, is_narrow, unseen, origin)],
            limit: Confidence::High,
            open: (waiting / samples, (all - waiting) / samples),
            is_broken: false,
            parts,
        };
        found.doubt(lost / samples, origin);
        found
    }

    /// What must not be called sure, and why.
    fn doubt(&mut self, level_unknown: f64, origin: RunOrigin) {
        let machine = origin.machine();
        for one in &self.parts {
            let (name, percent) = (one.part.name(), one.share * 100.0);
            let points = one.errors.within.unwrap_or(0.0) * 100.0;
            let reason = match one.standing {
                PartStanding::Good => continue,
                PartStanding::Off => {
                    format!(
                        "Of {name} ({percent:.0} % of the time) only 9 of 10 shares are right to {points:.0} points here."
                    )
                }
                PartStanding::Broken => format!(
                    "Of {name} clock samples tell nothing on {machine} (off by {points:.0} points): {percent:.0} % of the \
                     time is left open."
                ),
                PartStanding::Untried => format!(
                    "Too few random kernels with {name} ({percent:.0} % of the time) were decided on {machine}; \
                     'memwall validate' tries more."
                ),
            };
            self.limit = self.limit.min(Confidence::Medium);
            self.reasons.push(reason);
        }
        if level_unknown >= WORTH {
            let percent = level_unknown * 100.0;
            self.limit = self.limit.min(Confidence::Medium);
            self.reasons.push(format!("Where the data of {percent:.0} % of the time lies is not known."));
        }
    }

    /// Whoever never saw an instrument right on a machine cannot be sure of it there.
    fn untried(reason: &str, shares: &KnownLimits<Standing>, origin: RunOrigin) -> Self {
        let machine = origin.machine();
        let mut found = Self {
            parts: Vec::new(),
            limit: Confidence::Medium,
            reasons: Vec::new(),
            open: (0.0, 0.0),
            is_broken: false,
        };
        found.reasons.push(match shares.value().map(|standing| &standing.trust) {
            Some(Trust::Broken { why, shown_by, .. }) => {
                (found.limit, found.is_broken) = (Confidence::Low, true);
                format!("Validation on {machine} found that the instrument {why}; shown by {shown_by}.")
            }
            Some(Trust::Qualitative { misses, .. }) => {
                format!("Validated on {machine}, the instrument does not tell {misses}.")
            }
            Some(Trust::Trusted { .. }) => {
                format!("How right such shares are out of sample is not known: {reason}.")
            }
            Some(Trust::Untested { .. }) | None => origin.untried().to_owned(),
        });
        found
    }

    /// Bounds of a share, opened by what nobody can tell here.
    pub(crate) fn opened(&self, bounds: MemoryBounds) -> MemoryBounds {
        let (low, high) = ((bounds.low - self.open.0).max(0.0), (bounds.high + self.open.1).min(1.0));
        MemoryBounds { low, high, ..bounds }
    }
}

/// How right answers about such code were, as users are told.
fn quoted(parts: &[ConsultedPart], is_narrow: bool, unseen: &OutOfSample, origin: RunOrigin) -> String {
    let machine = origin.machine();
    let runs = if unseen.runs == 1 { "1 run".to_owned() } else { format!("{} runs", unseen.runs) };
    let tried = parts.iter().filter(|one| one.errors.within.is_some());
    let Some(weakest) = tried.max_by(|one, other| {
        one.errors.within.partial_cmp(&other.errors.within).unwrap_or(std::cmp::Ordering::Equal)
    }) else {
        let ErrorSummary { kernels, .. } = unseen.all;
        return format!("No random kernel like it was decided on {machine} ({kernels} were tried, {runs}).");
    };
    let ErrorSummary { decided, within, worst, .. } = weakest.errors;
    let points = |error: Option<f64>| error.unwrap_or(0.0) * 100.0;
    format!(
        "On random kernels like it ({}){}{} 9 of 10 shares were right to {:.0} points on {machine}, the worst was off by \
         {:.0} ({decided} kernels with {}, {runs}).",
        parts.iter().map(|one| one.part.name()).collect::<Vec<_>>().join(", "),
        if unseen.with_relief { ", relieved as well," } else { "" },
        if is_narrow { ", known as closely," } else { "" },
        points(within),
        points(worst),
        weakest.part.name(),
    )
}

fn blocks(tally: &Tally) -> Vec<BlockParts> {
    let ids = 0..tally.program.blocks.len();
    // Who spins asks for no trust in what is said of memory.
    let ids = ids.filter(|id| !tally.program.spins(*id));
    ids.filter_map(|id| Some((id, tally.program.block(id)?)))
        .map(|(id, block)| {
            let level = level(tally, id, block);
            let classes = classes(tally, id, block).into_iter().map(TrustPart::Class);
            let first_site = tally.program.blocks[id].first_site;
            let sites = first_site..first_site + block.instructions().len();
            let memory = |site: usize| {
                let meaning = &tally.meanings[site];
                if meaning.activity.is_memory() { meaning.waiting } else { 0.0 }
            };
            BlockParts {
                parts: classes.chain(level.map(TrustPart::Level)).collect(),
                level_unknown: level.is_none(),
                samples: tally.program.samples_of(id),
                waiting: sites.map(memory).sum(),
            }
        })
        .collect()
}

/// Memory that is no place of the stack.
fn is_data(block: &Block, instruction: &Instruction) -> bool {
    block.memory_of(instruction).iter().any(|operand| operand.base() != Some(Reg::RSP))
}

/// What a block does with memory.
fn classes(tally: &Tally, id: usize, block: &Block) -> Vec<AccessClass> {
    let first_site = tally.program.blocks[id].first_site;
    let class = |(index, instruction): (usize, &Instruction)| {
        let walk = tally.streams.of(first_site + index).and_then(pattern::walk);
        match (walk, instruction.has_load(), instruction.has_store()) {
            _ if instruction.is_locked() => AccessClass::Atomics,
            _ if instruction.is_repeated() => AccessClass::Strings,
            (_, true, false) if feeds_itself(block, instruction) => AccessClass::Chases,
            (Some(Pattern::Strided), ..) => AccessClass::Strides,
            (Some(Pattern::Random), ..) => AccessClass::Gathers,
            (_, true, true) => AccessClass::Updates,
            (_, false, true) => AccessClass::Stores,
            _ => AccessClass::Loads,
        }
    };
    let touching = block.instructions().iter().enumerate().filter(|(_, one)| is_data(block, one));
    let mut found: Vec<AccessClass> = touching.map(class).collect();
    if ChainShare::of(block, &LoopEntries::of(&tally.program, id)).all() > 0.0 {
        found.push(AccessClass::Chains);
    }
    let branches = |site: &usize| tally.meanings[*site].activity == ThreadActivity::Branches;
    let sites = first_site..first_site + block.instructions().len();
    let waiting: f64 = sites.filter(branches).map(|site| tally.meanings[site].waiting).sum();
    if waiting > WORTH * tally.program.samples_of(id) {
        found.push(AccessClass::Branches);
    }
    found.sort();
    found.dedup();
    found
}

/// Where the data of a block lies; none if that is not known.
fn level(tally: &Tally, id: usize, block: &Block) -> Option<KernelPlace> {
    if !block.instructions().iter().any(|one| is_data(block, one)) {
        return Some(KernelPlace::L1);
    }
    let streams = tally.streams.of_block(id);
    let bytes = streams.iter().map(|stream| stream.footprint_bytes()).sum::<Option<f64>>();
    let bytes = bytes.filter(|_| !streams.is_empty())?;
    let found = tally.core.levels.iter().position(|level| bytes <= level.capacity_bytes)?;
    Some(match found {
        0 => KernelPlace::L1,
        _ if tally.core.levels[found].capacity_bytes.is_infinite() => KernelPlace::Memory,
        1 => KernelPlace::L2,
        _ => KernelPlace::L3,
    })
}

#[cfg(test)]
mod tests;
