//! The strengths a program is tried under: those that were calibrated and leave less than the one before.

use machine::{
    profile::Estimate,
    squeezing::{Interference, SqueezeKind, SqueezePoint, SqueezeProfile},
};

/// Where no known program was tried beside it, interference that leaves less than this share of the other resource is not
/// used: what it costs there could not be told from what it is to cost.
const OTHER_LEAST: f64 = 0.5;

/// A strength and what it leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What runs beside the program.
    pub interference: Interference,
    /// What that leaves of its resource, bytes or bytes per second.
    pub left: Estimate,
    /// Slowdown of every known program beside it.
    pub known: Vec<f64>,
}

/// The strengths of a kind, weakest first. A strength that leaves no less than the one before tells nothing and is passed over.
pub fn rungs(profile: &SqueezeProfile, kind: SqueezeKind) -> Vec<Rung> {
    let other = other(kind);
    let other_whole = profile.points(kind).first().and_then(|point| point.left(other)).map(|left| left.value);
    let spares = |point: &&SqueezePoint| match (point.left(other), other_whole) {
        _ if !point.known.is_empty() => true,
        (Some(left), Some(whole)) => left.value >= OTHER_LEAST * whole,
        _ => true,
    };
    let mut rungs: Vec<Rung> = Vec::new();
    let mut least = f64::INFINITY;
    for point in profile.points(kind).iter().take_while(spares) {
        let Some(left) = point.left(kind).filter(|left| left.value < least) else { continue };
        least = left.value;
        if let Some(interference) = point.interference {
            rungs.push(Rung { interference, left, known: point.known.clone() });
        }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use machine::{Bytes, squeezing::SqueezeForm};

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
                left: None,
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
    fn strengths_that_disturb_the_other_resource_are_left_out() {
        let mut profile = profile();
        let many = |profile: &SqueezeProfile, kind| rungs(profile, kind).len();
        assert_eq!(many(&profile, SqueezeKind::Bandwidth), 5);
        profile.bandwidths[3].cache_left =
            profile.bandwidths[3].cache_left.map(|left| Estimate { value: 9e6, ..left });
        assert_eq!(many(&profile, SqueezeKind::Bandwidth), 2);
        // Unless it is known what such disturbance costs.
        profile.bandwidths[3].known = vec![1.2];
        assert_eq!(many(&profile, SqueezeKind::Bandwidth), 5);
        // One that takes nothing more than the one before.
        profile.storage[3].cache_left = profile.storage[2].cache_left;
        assert_eq!(many(&profile, SqueezeKind::Storage), 4);
    }
}
