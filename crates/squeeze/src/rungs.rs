//! The strengths a program is tried under: those that were calibrated, and one between each two of them.

use machine::{
    Bytes,
    profile::Estimate,
    squeezing::{Interference, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile},
};

/// Interference that leaves less than this share of the other resource is not used: what it costs there could not be told
/// from what it is to cost.
const OTHER_LEAST: f64 = 0.5;

/// A strength and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// What runs beside the program.
    pub interference: Interference,
    /// What that leaves of its resource, bytes or bytes per second.
    pub left: Estimate,
    /// What it leaves of the other one, bytes per second or bytes, where that is known.
    pub other_left: Option<f64>,
    /// The largest known program that it does not harm, and the largest that it does not harm by way of the other resource.
    pub fits: Option<f64>,
    /// See `fits`.
    pub other_fits: Option<f64>,
}

/// The strengths of a kind, weakest first, with so many between each two that were calibrated. A strength that leaves no
/// less than the one before tells nothing and is passed over.
pub fn rungs(profile: &SqueezeProfile, kind: SqueezeKind, between: usize) -> Vec<Rung> {
    let other = other(kind);
    let other_whole = profile.points(kind).first().and_then(|point| point.left(other)).map(|left| left.value);
    // One that harms a program that needs none of the resource says nothing about those that do.
    let harms_all = |point: &SqueezePoint| point.interference.is_some() && point.fits == Some(0.0);
    let spares = |point: &&SqueezePoint| match (point.left(other), other_whole) {
        _ if harms_all(point) => false,
        (Some(left), Some(whole)) => left.value >= OTHER_LEAST * whole,
        _ => true,
    };
    let mut rungs: Vec<Rung> = Vec::new();
    let mut least = f64::INFINITY;
    let mut before: Option<&SqueezePoint> = None;
    for point in profile.points(kind).iter().take_while(spares) {
        let Some(left) = left_of(point, kind).filter(|left| left.value < least) else { continue };
        least = left.value;
        if let Some(interference) = point.interference {
            if let Some(weaker) = before {
                let parts = (1..=between).map(|part| part as f64 / (between + 1) as f64);
                rungs.extend(parts.filter_map(|part| between_two(weaker, point, kind, part)));
            }
            rungs.push(Rung {
                interference,
                left,
                other_left: point.left(other).map(|left| left.value),
                fits: point.fits,
                other_fits: point.other_fits,
            });
        }
        before = Some(point);
    }
    rungs
}

/// The other resource.
pub fn other(kind: SqueezeKind) -> SqueezeKind {
    match kind {
        SqueezeKind::Storage => SqueezeKind::Bandwidth,
        SqueezeKind::Bandwidth => SqueezeKind::Storage,
    }
}

/// What is left, and at least what fits: a program that is harmed needs more than one that is known not to be.
fn left_of(point: &SqueezePoint, kind: SqueezeKind) -> Option<Estimate> {
    let left = point.left(kind)?;
    let low = match (point.interference, point.fits) {
        (None, _) => left.low,
        (Some(_), fits) => left.low.min(fits.unwrap_or(left.low)),
    };
    Some(Estimate { low, ..left })
}

/// A strength between two, and what it leaves by interpolation.
fn between_two(weaker: &SqueezePoint, stronger: &SqueezePoint, kind: SqueezeKind, part: f64) -> Option<Rung> {
    let interference = stronger.interference?;
    let (more, less) = (left_of(weaker, kind)?, left_of(stronger, kind)?);
    let at = |a: f64, b: f64| a + (b - a) * part;
    // Room in a cache falls evenly with what is held of it. What queues to memory do in between is not known: there the ends
    // are those of the two.
    // Nor is what fits where nothing is taken.
    let even = kind == SqueezeKind::Storage;
    let fits_known = even && weaker.interference.is_some();
    let left = Estimate {
        value: at(more.value, less.value),
        low: if fits_known { at(more.low, less.low) } else { less.low },
        high: if even { at(more.high, less.high) } else { more.high },
        samples: more.samples.min(less.samples),
    };
    let others = weaker.left(other(kind)).zip(stronger.left(other(kind)));
    let other_left = others.map(|(a, b)| at(a.value, b.value));
    let interference = match (kind, interference.form) {
        (_, SqueezeForm::Paper) => return None,
        (SqueezeKind::Storage, _) => {
            let total =
                |one: Option<Interference>| one.map_or(0, |one| one.bytes_each.0 * one.threads as u64);
            let bytes = at(total(weaker.interference) as f64, total(stronger.interference) as f64);
            let pages = bytes / interference.threads as f64 / 4096.0;
            Interference { bytes_each: Bytes((pages.round() as u64).max(1) * 4096), ..interference }
        }
        (SqueezeKind::Bandwidth, _) => {
            Interference { pause: pause_between(weaker, stronger, part)?, ..interference }
        }
    };
    Some(Rung { interference, left, other_left, fits: stronger.fits, other_fits: stronger.other_fits })
}

/// The pause that draws so far between what two strengths draw: time per byte grows evenly with it. Below the weakest there
/// is nothing to go by.
fn pause_between(weaker: &SqueezePoint, stronger: &SqueezePoint, part: f64) -> Option<u64> {
    let (weak, strong) = (weaker.interference?, stronger.interference?);
    let (little, much) = (weaker.drawn?, stronger.drawn?);
    let wanted = 1.0 / (little + (much - little) * part);
    let share = (wanted - 1.0 / much) / (1.0 / little - 1.0 / much);
    let pause = strong.pause as f64 + share * (weak.pause as f64 - strong.pause as f64);
    (pause.is_finite() && pause >= 0.0).then(|| pause.round() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine with 20 MB of cache and 40 GB/s that is taken in five steps.
    pub(crate) fn profile() -> SqueezeProfile {
        let exact = |value: f64| Estimate { value, low: value, high: value, samples: 1 };
        let point = |kind, step: u64| SqueezePoint {
            interference: (step > 0).then_some(Interference {
                kind,
                form: if kind == SqueezeKind::Storage { SqueezeForm::Shared } else { SqueezeForm::Writing },
                threads: 5,
                bytes_each: Bytes::kib(800 * step),
                pause: 1000 / step.max(1) - 200,
            }),
            cache_left: Some(exact(if kind == SqueezeKind::Storage {
                20e6 - 4e6 * step as f64
            } else {
                20e6
            })),
            bandwidth_left: Some(exact(if kind == SqueezeKind::Bandwidth {
                40e9 - 6e9 * step as f64
            } else {
                40e9
            })),
            drawn: Some(6e9 * step as f64),
            ..SqueezePoint::default()
        };
        let points = |kind| (0..=5).map(|step| point(kind, step)).collect::<Vec<_>>();
        SqueezeProfile {
            seed: 1,
            level: 3,
            claimed: Bytes(20_000_000),
            domain: (0..8).collect(),
            spare: (3..8).collect(),
            bandwidth: 40e9,
            storage: points(SqueezeKind::Storage),
            bandwidths: points(SqueezeKind::Bandwidth),
            storage_orthogonal: 6,
            bandwidth_orthogonal: 6,
            ..SqueezeProfile::default()
        }
    }

    #[test]
    fn one_between_each_two() {
        let storage = rungs(&profile(), SqueezeKind::Storage, 1);
        let left: Vec<f64> = storage.iter().map(|rung| rung.left.value / 1e6).collect();
        assert_eq!(left, [18.0, 16.0, 14.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0, 0.0]);
        assert_eq!(storage[1].interference.bytes_each, Bytes::kib(800));
        assert_eq!(storage[2].interference.bytes_each, Bytes::kib(1200));
        // Nothing between no interference and the weakest: how long a pause would be is not known.
        let bandwidth = rungs(&profile(), SqueezeKind::Bandwidth, 1);
        let left: Vec<f64> = bandwidth.iter().map(|rung| rung.left.value / 1e9).collect();
        assert_eq!(left, [34.0, 31.0, 28.0, 25.0, 22.0, 19.0, 16.0, 13.0, 10.0]);
        assert_eq!(
            bandwidth.iter().map(|rung| rung.interference.pause).collect::<Vec<_>>()[..3],
            [800, 467, 300]
        );
    }

    #[test]
    fn strengths_that_disturb_the_other_resource_are_left_out() {
        let mut profile = profile();
        let many = |profile: &SqueezeProfile, kind| rungs(profile, kind, 1).len();
        profile.bandwidths[3].cache_left =
            profile.bandwidths[3].cache_left.map(|left| Estimate { value: 9e6, ..left });
        assert_eq!(many(&profile, SqueezeKind::Bandwidth), 3);
        // One that takes nothing more than the one before.
        profile.storage[3].cache_left = profile.storage[2].cache_left;
        assert_eq!(many(&profile, SqueezeKind::Storage), 8);
    }

    #[test]
    fn what_fits_is_the_lower_end() {
        let mut profile = profile();
        profile.storage[2].fits = Some(9e6);
        let found = rungs(&profile, SqueezeKind::Storage, 0);
        assert_eq!((found[1].left.low, found[1].left.value), (9e6, 12e6));
        assert_eq!(rungs(&profile, SqueezeKind::Storage, 3).len(), 20);
        // Between nothing and the weakest, what fits is that of the weakest; between two, in between.
        let lows: Vec<f64> =
            rungs(&profile, SqueezeKind::Storage, 1).iter().map(|rung| rung.left.low).collect();
        assert_eq!(lows[..4], [16e6, 16e6, 12.5e6, 9e6]);
        // What harms even a program that needs nothing is not used.
        profile.storage[4].fits = Some(0.0);
        assert_eq!(rungs(&profile, SqueezeKind::Storage, 0).len(), 3);
    }
}
