//! The answer in short, and how sure it is.

use std::collections::HashSet;

use record::run::Run;
use trust::{ErrorSummary, Standing, UnseenCase};

use super::{account, bounds::MemoryBounds, consult::Consulted};
use crate::{
    findings::{
        Confidence, HeldBack, InstructionFinding, KnownLimits, LimitFindings, Nature, Pattern, Split,
        ThreadActivity, TimeShare, Verdict,
    },
    statistics,
};

/// With as many samples, a share is known to about 4 points.
const MANY: u64 = 500;

/// More undecided than this spoils a verdict.
const UNDECIDED: f64 = 0.15;

/// A share that is known no better than this is not known, unless all of it gives the same answer.
const TOO_WIDE: f64 = 0.45;

/// Streams that draw more than this part of a bandwidth are near it.
const NEAR_LIMIT: f64 = 0.7;

/// Whoever draws more than this part must wait for it most of the time.
const ALL_OF_LIMIT: f64 = 0.85;

/// A wait below this share of user time is not named.
const NOISE: f64 = 0.05;

pub(crate) fn verdict(
    run: &Run,
    overall: Option<&Split>,
    bounds: MemoryBounds,
    instructions: &[InstructionFinding],
    limits: &LimitFindings,
    (trust, consulted): (&KnownLimits<Standing>, Consulted),
) -> Verdict {
    let Some(split) = overall.filter(|split| split.samples >= Verdict::FEWEST_SAMPLES) else {
        return without_samples(overall.map_or(0, |split| split.samples), trust);
    };
    let share = |part: f64| statistics::share(part * split.samples as f64, split.samples as f64);
    let memory = memory_share(split, consulted.opened(bounds));
    let largest = split.largest_wait().filter(|&(_, part)| part >= NOISE);
    let memory_of_work = memory.and_then(|memory| of_work(run, split, memory));
    let decisive = memory_of_work.or(memory);
    let (mut confidence, mut reasons) = confidence(run, split, decisive, &consulted);
    if let Some((part, memory)) = drawn(limits)
        .zip(decisive)
        .filter(|(part, memory)| *part > ALL_OF_LIMIT && memory.value < HeldBack::YES)
    {
        confidence = Confidence::Low;
        reasons.push(format!(
            "Two signs contradict each other: its streams draw {:.0} % of the bandwidth this machine gave, yet only {:.0} % of \
             the time seems to wait.",
            part * 100.0,
            memory.value * 100.0
        ));
    }
    Verdict {
        held_back: if consulted.is_broken { HeldBack::Unknown } else { held_back(decisive) },
        memory,
        memory_of_work,
        loads: share(split.loads),
        largest: largest.map(|(activity, _)| activity),
        largest_share: largest.and_then(|(_, part)| share(part)),
        nature: nature(split, instructions, limits),
        trust: trust.clone(),
        consulted: consulted.parts,
        confidence,
        reasons,
    }
}

/// The share of waiting for memory: what chance leaves open, and the bounds between which it lies whatever chance did.
pub(crate) fn memory_share(split: &Split, bounds: MemoryBounds) -> Option<TimeShare> {
    let by_chance = statistics::share(split.memory() * split.samples as f64, split.samples as f64);
    by_chance.map(|by_chance| widened(by_chance, bounds))
}

/// The share of what threads do beside waiting for each other. Where they do next to nothing else, memory holds nothing back, whatever
/// the little that is left waits for.
fn of_work(run: &Run, split: &Split, memory: TimeShare) -> Option<TimeShare> {
    let work = 1.0 - split.other_threads;
    let threads = run.samples.thread.iter().collect::<HashSet<_>>().len() as f64;
    // One thread that works is worth as much as the program, however many wait for it.
    let is_worth =
        work * threads >= HeldBack::PARTLY && work * split.samples as f64 >= Verdict::FEWEST_SAMPLES as f64;
    let part = |share: f64| (share / work).min(1.0);
    let TimeShare { value, low, high } = memory;
    (split.other_threads >= NOISE && is_worth).then(|| TimeShare {
        value: part(value),
        low: part(low),
        high: part(high),
    })
}

/// Of a run that too few samples tell of.
fn without_samples(samples: u64, trust: &KnownLimits<Standing>) -> Verdict {
    let (why, reason) = match samples {
        0 => (
            "no sample was taken".to_owned(),
            "The recording holds no sample: too little time in user mode, or the notes say why.".to_owned(),
        ),
        few => {
            let counted = if few == 1 { "1 sample was".to_owned() } else { format!("{few} samples were") };
            let reason = format!(
                "Only {counted} taken: too few to say anything (at least {} are needed).",
                Verdict::FEWEST_SAMPLES
            );
            (format!("only {counted} taken"), reason)
        }
    };
    Verdict {
        held_back: HeldBack::Unknown,
        memory: None,
        memory_of_work: None,
        loads: None,
        largest: None,
        largest_share: None,
        nature: KnownLimits::Missing(why),
        trust: trust.clone(),
        consulted: Vec::new(),
        confidence: Confidence::Low,
        reasons: vec![reason],
    }
}

fn widened(counted: TimeShare, bounds: MemoryBounds) -> TimeShare {
    let TimeShare { value, .. } = counted;
    let MemoryBounds { low, high, by_chance } = bounds;
    let chance = by_chance.sqrt();
    let low = (low.min(value) - (value - counted.low) * chance).clamp(0.0, value);
    let high = (high.max(value) + (counted.high - value) * chance).clamp(value, 1.0);
    // What may be called high is promised to so many points, whichever end chance has moved.
    let is_narrow = high - low <= UnseenCase::NARROW;
    let promised = value.max(high - ErrorSummary::CLOSE).min(low + ErrorSummary::CLOSE);
    TimeShare { value: if is_narrow { promised } else { value }, low, high }
}

fn held_back(memory: Option<TimeShare>) -> HeldBack {
    let answer = |share: f64| match share {
        share if share >= HeldBack::YES => HeldBack::Yes,
        share if share >= HeldBack::PARTLY => HeldBack::Partly,
        _ => HeldBack::No,
    };
    match memory {
        Some(share) if share.high - share.low <= TOO_WIDE || answer(share.low) == answer(share.high) => {
            answer(share.value)
        }
        _ => HeldBack::Unknown,
    }
}

/// Whether what a share may be lies far on the other side of a limit between two words.
fn reaches_far_over(share: TimeShare, limit: f64) -> bool {
    match share.value < limit {
        true => share.high > limit + HeldBack::MARGIN,
        false => share.low < limit - HeldBack::MARGIN,
    }
}

/// What streams draw of what the machine gives; none if that is not known.
fn drawn(limits: &LimitFindings) -> Option<f64> {
    limits.streams.value().and_then(|streams| streams.of_limit)
}

/// Latency where the waiting is on chased and random places, bandwidth where it is on streams that draw what there is.
fn nature(split: &Split, instructions: &[InstructionFinding], limits: &LimitFindings) -> KnownLimits<Nature> {
    if split.memory() < NOISE {
        return KnownLimits::Missing("it hardly waits for memory".to_owned());
    }
    let (mut latency, mut bandwidth, mut unknown) = (0.0, 0.0, 0.0);
    for found in instructions
        .iter()
        .filter(|found| matches!(found.activity, ThreadActivity::Loads | ThreadActivity::Stores))
    {
        let side = match found.access.map(|access| access.pattern) {
            Some(Pattern::PointerChasing | Pattern::Random | Pattern::OnePlace) => &mut latency,
            Some(Pattern::Streaming | Pattern::Strided) => &mut bandwidth,
            Some(Pattern::Unknown) | None => &mut unknown,
        };
        *side += found.waiting_samples;
    }
    if latency + bandwidth <= unknown {
        return KnownLimits::Missing("too few samples gave the address they waited for".to_owned());
    }
    let near_limit = drawn(limits).is_some_and(|part| part > NEAR_LIMIT);
    let part = latency / (latency + bandwidth);
    KnownLimits::Value(match part {
        part if part > 0.75 && !near_limit => Nature::Latency,
        part if part < 0.25 && near_limit => Nature::Bandwidth,
        part if part < 0.25 => Nature::Streams,
        _ => Nature::Mixed,
    })
}

fn confidence(
    run: &Run,
    split: &Split,
    memory: Option<TimeShare>,
    consulted: &Consulted,
) -> (Confidence, Vec<String>) {
    let (mut level, mut reasons) = (consulted.limit, consulted.reasons.clone());
    let mut lower = |to: Confidence, reason: String| {
        level = level.min(to);
        reasons.push(reason);
    };
    if split.samples < MANY {
        let to = if split.samples < MANY / 5 { Confidence::Low } else { Confidence::Medium };
        lower(to, format!("Only {} samples stand behind it.", split.samples));
    }
    if split.undecided > UNDECIDED {
        let to = if split.undecided > 2.0 * UNDECIDED { Confidence::Low } else { Confidence::Medium };
        let percent = split.undecided * 100.0;
        lower(to, format!("{percent:.0} % of user time could not be blamed on an instruction."));
    }
    if let Some(memory) = memory {
        // The interval holds what the instrument may be wrong by: nothing is added to it.
        if reaches_far_over(memory, HeldBack::YES) || reaches_far_over(memory, HeldBack::PARTLY) {
            lower(
                Confidence::Medium,
                "The interval of the share reaches far over a limit between two verdicts.".to_owned(),
            );
        }
        let points = 100.0 * (memory.high - memory.low);
        if points > 100.0 * UnseenCase::NARROW {
            lower(Confidence::Medium, format!("The share is known to {points:.0} points only."));
        }
    }
    if let Some(lost) = run.about.lost_samples.filter(|&lost| lost.saturating_mul(20) > split.samples) {
        // Rings are full when much happens: what is left is not a fair choice.
        let to = if lost > split.samples { Confidence::Low } else { Confidence::Medium };
        lower(to, format!("{lost} records of the kernel were lost."));
    }
    if let Some(stolen) = stolen_share(run).filter(|&share| share > 0.1) {
        let percent = stolen * 100.0;
        lower(Confidence::Medium, format!("The hypervisor took {percent:.0} % of one CPU's time meanwhile."));
    }
    let user_ns = split.samples as f64 * account::sample_ns(run);
    if let Some(usage) = run.about.usage.filter(|usage| usage.system_ns as f64 > user_ns) {
        let seconds = usage.system_ns as f64 / 1e9;
        lower(
            Confidence::Medium,
            format!("More time ({seconds:.1} s) went to the kernel, where no samples are taken."),
        );
    }
    (level, reasons)
}

/// Time that the hypervisor gave to others, as a share of wall time.
pub(crate) fn stolen_share(run: &Run) -> Option<f64> {
    let noise = run.about.noise?;
    noise.steal_ns.filter(|_| noise.wall_ns > 0.0).map(|steal| steal / noise.wall_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_end_of_a_narrow_interval_lies_further_away_than_is_promised() {
        let counted = TimeShare { value: 0.63, low: 0.58, high: 0.68 };
        let told = |low: f64, high: f64| widened(counted, MemoryBounds { low, high, by_chance: 0.05 });
        let near_one_end = told(0.63, 0.775);
        assert!(
            (near_one_end.high - near_one_end.value - ErrorSummary::CLOSE).abs() < 1e-9,
            "{near_one_end:?}"
        );
        assert!(near_one_end.low < 0.63 && near_one_end.value > 0.63, "{near_one_end:?}");
        assert!((told(0.6, 0.7).value - 0.63).abs() < 1e-9, "near enough to both");
        assert!((told(0.63, 0.9).value - 0.63).abs() < 1e-9, "of what is not narrow nothing is promised");
    }

    #[test]
    fn a_limit_is_no_edge() {
        let share = |value: f64, low: f64, high: f64| TimeShare { value, low, high };
        let over = |share: TimeShare| {
            reaches_far_over(share, HeldBack::YES) || reaches_far_over(share, HeldBack::PARTLY)
        };
        assert!(!over(share(0.02, 0.0, 0.19)), "no, or hardly partly");
        assert!(over(share(0.02, 0.0, 0.21)));
        assert!(!over(share(0.42, 0.36, 0.6)));
        assert!(over(share(0.42, 0.34, 0.5)));
        assert!(over(share(0.5, 0.1, 0.9)));
    }
}
