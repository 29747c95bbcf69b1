//! How fast each level answers, measured several times: on other pages, and with other neighbours.
//!
//! - **Lower end**: the fastest of all, as disturbance only adds, tries of the latency curve with about as much data
//!   included; less what two clocks may differ by.
//! - **Upper end**: the slowest of the times it was measured, each by its median. A chase beyond the level inside still finds some of its
//!   lines there, at most as many as that level holds: the upper end is what the level itself would take if it did.

use host::Measured;
use machine::profile::{Estimate, LevelName, Profile};

use super::{bandwidth::level_mut, knees::CurvePoint, session::Session};

/// The core's clock is steady to this much: latencies of a first-level cache, which nobody disturbs, differ by as much from
/// one calibration to the next.
const CLOCK: f64 = 0.02;

/// Tries of up to this many times the data set tell of the same level; of any more, in memory.
const SAME_LEVEL: f64 = 1.25;

/// So many measurements are enough to leave one of them out.
const MANY: usize = 4;

/// Of a chase at most this share is taken to be answered by the level inside.
const MOST_INSIDE: f64 = 0.5;

/// One measurement of a level's latency.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LevelAnswer {
    name: LevelName,
    step_ns: Estimate,
    fastest_ns: f64,
}

impl LevelAnswer {
    pub(super) fn is_of(&self, name: &LevelName) -> bool {
        self.name == *name
    }
}

/// Takes down a chase over the data set that a level is measured with.
pub(super) fn note(session: &mut Session<'_>, name: &LevelName, chased: &Measured) {
    if let Some((step_ns, fastest_ns)) = chased.step_ns().zip(chased.fastest_step_ns()) {
        session.answers.push(LevelAnswer { name: name.clone(), step_ns, fastest_ns });
    }
    let latency_ns = latency(session, name);
    level_mut(session, name).latency_ns = latency_ns;
}

/// What all measurements of a level together say; of a simulated machine, what the only one does.
fn latency(session: &Session<'_>, name: &LevelName) -> Option<Estimate> {
    let of_level: Vec<&LevelAnswer> = session.answers.iter().filter(|answer| answer.name == *name).collect();
    if session.request.simulated.is_some() {
        return of_level.last().map(|answer| answer.step_ns);
    }
    let usual: Vec<f64> = of_level.iter().map(|answer| answer.step_ns.value).collect();
    let value = host::statistics::median(&usual)?;
    let fastest = of_level.iter().map(|answer| answer.fastest_ns).chain(tried(session, name));
    let low = undisturbed(fastest.collect())? * (1.0 - CLOCK);
    let slowest_ns = slowest(usual).max(value);
    let high = without_inside(&session.profile, name, slowest_ns) * (1.0 + CLOCK);
    let samples = of_level.iter().map(|answer| answer.step_ns.samples).sum();
    Some(Estimate { value, low: low.min(value), high, samples })
}

/// What nothing disturbs takes: below the fastest by as much as that is below the next, the usual guess of where a
/// distribution ends.
fn undisturbed(mut fastest_ns: Vec<f64>) -> Option<f64> {
    fastest_ns.sort_by(f64::total_cmp);
    let (first, second) = (*fastest_ns.first()?, fastest_ns.get(1).or(fastest_ns.first())?);
    Some((2.0 * first - second).max(first / 2.0))
}

/// The slowest of few, the second slowest of more: one of them may have been disturbed by what is no neighbour.
fn slowest(mut usual_ns: Vec<f64>) -> f64 {
    usual_ns.sort_by(f64::total_cmp);
    let left_out = usize::from(usual_ns.len() >= MANY);
    usual_ns.iter().rev().nth(left_out).copied().unwrap_or(0.0)
}

/// Latencies of tries with about as much data as the level is measured with.
fn tried<'s>(session: &'s Session<'_>, name: &LevelName) -> impl Iterator<Item = f64> + 's {
    let level = session.profile.levels.iter().find(|level| level.name == *name);
    let from = level.and_then(|level| level.measured_with).map_or(f64::INFINITY, |size| size.0 as f64);
    let to = match name {
        LevelName::Cache(_) => from * SAME_LEVEL,
        LevelName::Memory { local: true, .. } => f64::INFINITY,
        // Tries are of local memory.
        LevelName::Memory { local: false, .. } => 0.0,
    };
    let same = move |point: &&CurvePoint| point.size.0 as f64 >= from && point.size.0 as f64 <= to;
    session.tries.iter().filter(same).map(|point| point.latency_ns)
}

/// What a load of the level takes, if the level inside answered as many as it can hold.
fn without_inside(profile: &Profile, name: &LevelName, measured_ns: f64) -> f64 {
    let Some(index) = profile.levels.iter().position(|level| level.name == *name) else { return measured_ns };
    let is_cache = |name: &LevelName| matches!(name, LevelName::Cache(_));
    let inside =
        profile.levels[..index].iter().rev().find(|level| is_cache(&level.name) && level.usable.is_some());
    let of_inside = inside.and_then(|level| level.usable.zip(level.latency_ns));
    match (profile.levels[index].measured_with, of_inside) {
        (Some(size), Some((usable, inside_ns))) if size.0 > 0 => {
            let share = (usable.high / size.0 as f64).min(MOST_INSIDE);
            ((measured_ns - share * inside_ns.value) / (1.0 - share)).max(measured_ns)
        }
        _ => measured_ns,
    }
}
