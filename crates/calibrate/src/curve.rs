//! Step: latency against data set size, and the cache levels that follow from it.
//!
//! The curve is kept as measured. Knees are looked for after taking away what address translation adds (see
//! [`super::translation`]): a guest's huge pages may be small to its host, and TLBs then have knees of their
//! own.

use machine::{Bytes, profile::LatencyPoint};

use super::{
    knees::{CurvePoint, Thoroughness, next_size},
    levels::claims,
    rounds,
    session::Session,
    translation::{TranslationCost, against_curve},
};
use host::{repeat::RepeatPlan, sizes};

/// Smallest data set: small enough for every first-level cache, large enough for a cycle.
const SMALLEST: Bytes = Bytes::kib(4);

/// The smallest cycle that the chase can walk.
const SMALLEST_CYCLE: Bytes = Bytes::kib(1);

/// Every curve goes at least so far, for machines that claim no or small caches.
const LEAST_LARGEST: Bytes = Bytes::mib(64);

/// How far beyond the largest claimed cache.
const BEYOND_CLAIM: u64 = 4;

/// Around each knee when time is short, and when it is not.
const QUICK: Thoroughness = Thoroughness { finest: 1.06, neighbours: 6 };
const FULL: Thoroughness = Thoroughness { finest: 1.03, neighbours: 16 };

/// Up to here a sweep costs little, and a second one later tells a busy moment from a slow size.
const SWEPT_TWICE: Bytes = Bytes::mib(4);

/// Knees that machines usually have.
const USUAL_KNEES: usize = 3;

/// Points after which refining ends however restless the curve.
const MOST_REFINED: usize = 160;

/// Points near the innermost knees that are measured even when a busy machine has used up the time: they are
/// quick, and without them a private cache would be known to a factor of two.
const LEAST_REFINED: usize = 20;

/// Longest time for a point near a knee: more points tell more than more samples of one.
const REFINED_NS: f64 = 2e7;

/// Samples of the curve are short: the fastest one counts, and a short one is more likely to be left in
/// peace.
const SAMPLE_NS: f64 = 5e5;

/// A typical load from memory, to judge how long one pass takes before having run any.
const MEMORY_NS: f64 = 100.0;

/// Coarse sweep, then refinement around each knee.
pub(super) fn latency_curve(session: &mut Session<'_>) {
    let largest = largest(session);
    let (per_octave, mut asked) = if session.request.quick { (1, QUICK) } else { (2, FULL) };
    if session.request.simulated.is_some() {
        // Pages are the same for every buffer: neighbours of a size tell nothing new.
        asked.neighbours = 0;
    }
    let mut coarse = sizes::sweep(smallest(session), largest, per_octave).unwrap_or_default();
    if session.request.simulated.is_none() {
        coarse.extend_from_within(..coarse.partition_point(|&size| size <= SWEPT_TWICE));
    }
    // Beside the neighbours, a few halvings and checks for each knee.
    let refined_usually = USUAL_KNEES * (asked.neighbours + 5);
    let expected = coarse.len() + refined_usually;
    for (done, &size) in coarse.iter().enumerate() {
        let plan = session.plan(expected - done);
        try_size(session, size, &plan);
        session.progress(done as f64 / expected as f64);
    }
    tidy(&mut session.profile.latency_curve);
    let translation = against_curve(&mut session.profile);
    for refined in 0..MOST_REFINED {
        let Some(size) = next_size(&translation.taken_from(&session.tries), &asked) else {
            break;
        };
        let late = session.left_ns() <= 0.0 && refined >= LEAST_REFINED;
        if session.interrupted() || late {
            break;
        }
        let plan = session.plan(refined_usually.saturating_sub(refined).max(4));
        try_size(session, size, &short(&plan));
        session.progress((coarse.len() + refined) as f64 / expected as f64);
    }
    rounds::settle(session);
    // Nothing will change them any more.
    if session.request.simulated.is_some() && !session.interrupted() {
        rounds::disagreements(session).into_iter().for_each(|sentence| session.remark(sentence));
    }
    let translation = against_curve(&mut session.profile);
    remark_on_pages(session, &translation);
}

/// Ascending, each size once: of one measured twice the lower latency counts, as disturbance only adds.
pub(super) fn tidy(curve: &mut Vec<LatencyPoint>) {
    curve.sort_by(|a, b| a.size.cmp(&b.size).then(a.latency_ns.value.total_cmp(&b.latency_ns.value)));
    curve.dedup_by_key(|point| point.size);
}

/// More tries tell more than more samples of one.
pub(super) fn short(plan: &RepeatPlan) -> RepeatPlan {
    RepeatPlan { time_ns: plan.time_ns.map(|time_ns| time_ns.min(REFINED_NS)), ..*plan }
}

fn remark_on_pages(session: &mut Session<'_>, translation: &TranslationCost) {
    let curve = &session.profile.latency_curve;
    let small = curve.iter().filter(|point| !point.huge_pages).count();
    if small > 0 {
        let of = curve.len();
        session.remark(format!(
            "{small} of {of} sizes of the latency curve were not on huge pages and include the cost of \
             address translation; see /sys/kernel/mm/transparent_hugepage/enabled."
        ));
    } else if let Some(reach) = translation.first_reach().filter(|_| session.request.simulated.is_none()) {
        session.remark(format!(
            "Huge pages are not huge to the hardware here: beyond {reach} pages of 4 KiB they cost as much \
             translation as small ones, so the host backs them with small pages. The latency curve includes \
             that, the usable capacities do not."
        ));
    }
}

/// One size, in memory of its own. Of a simulated machine it counts twice: measuring it once more would give the same.
pub(super) fn try_size(session: &mut Session<'_>, size: Bytes, plan: &RepeatPlan) {
    let Some(job) = session.job("chase", size, &[session.cpu]) else { return };
    let Some(measured) = session.measure_as(&job, &RepeatPlan { sample_ns: SAMPLE_NS, ..*plan }) else {
        return;
    };
    let Some((latency_ns, fastest_ns)) = measured.step_ns().zip(measured.fastest_step_ns()) else { return };
    let huge_pages = measured.all_huge();
    // What was asked for, rounded to what the chase can walk.
    let size = measured.size;
    session.profile.latency_curve.push(LatencyPoint { size, latency_ns, huge_pages });
    // The curve shows what is usual. A knee is a property of the cache, and disturbance only adds to its
    // latency.
    let times = if session.request.simulated.is_some() { 2 } else { 1 };
    session.tries.extend([CurvePoint { size, latency_ns: fastest_ns }].repeat(times));
}

/// Where the curve begins: a simulated first-level cache may be smaller than any real one.
fn smallest(session: &Session<'_>) -> Bytes {
    let innermost = claims(session.machine, session.cpu).iter().filter_map(|claim| claim.size).min();
    innermost.map_or(SMALLEST, |claim| Bytes(claim.0 / 4).clamp(SMALLEST_CYCLE, SMALLEST))
}

/// Where the curve ends: beyond the claims, within memory, and not so far that two passes eat up the time.
pub(super) fn largest(session: &mut Session<'_>) -> Bytes {
    let claimed = claims(session.machine, session.cpu).iter().filter_map(|claim| claim.size).max();
    let least = if session.request.simulated.is_some() { SMALLEST } else { LEAST_LARGEST };
    let wanted =
        claimed.map_or(LEAST_LARGEST, |claim| Bytes(claim.0.saturating_mul(BEYOND_CLAIM))).max(least);
    let line = session.machine.line();
    let affordable = Bytes((session.total_ns() * 0.05 / MEMORY_NS) as u64 * line.0);
    let largest = wanted.min(affordable).min(session.memory()).max(SMALLEST);
    if claimed.is_some_and(|claim| largest < claim) {
        session.remark(format!(
            "The latency curve ends at {largest}, short of the largest claimed cache: \
             {}.",
            if largest == affordable {
                "a larger data set would take too long"
            } else {
                "memory allows no more"
            }
        ));
    }
    largest
}
