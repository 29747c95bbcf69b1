//! What each strength of interference leaves to victims that are known, and where a machine cannot be squeezed.

mod known;
mod ladder;
mod measuring;
mod pauses;
mod refusal;

use std::sync::atomic::AtomicBool;

use host::{Host, HostError, repeat::RepeatPlan};
use kernels::draw::DrawError;
use machine::squeezing::{SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile};

use crate::{misses::MissCounter, partition::HardwarePartition, recipe::SqueezeDomain, victims::KnownVictim};
use measuring::SqueezeBench;
pub use refusal::{LEAST_SPARE, LEAST_TAKEN, all_refusals};

/// Interference that takes less than this share of the other resource leaves it alone: what victims can tell apart.
const BANDWIDTH_UNTOUCHED: f64 = 0.05;
const CACHE_UNTOUCHED: f64 = 0.10;

/// Parts of the cache whose working sets are tried unless a calibration asks otherwise.
pub const KNOWN_SETS: u64 = 24;

/// How to calibrate.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrateSqueeze {
    /// Victims that tell the room in the cache.
    pub victims: Vec<KnownVictim>,
    /// Which form takes room; the one that takes most if none is named.
    pub storage_form: Option<SqueezeForm>,
    /// Which form takes bandwidth; the one that takes most with the least cache if none is named.
    pub bandwidth_form: Option<SqueezeForm>,
    /// Strengths of each kind.
    pub steps: usize,
    /// Working sets of known programs, as parts of the cache, and rates of each of their two streams, as parts of the bandwidth:
    /// the more, the narrower bounds are.
    pub known_sets: u64,
    /// How often a real machine repeats each victim.
    pub repeat: RepeatPlan,
    /// The same of programs of known need, of which there are many.
    pub known_repeat: RepeatPlan,
    /// Seed of every random choice.
    pub seed: u64,
    /// Seconds since 1970; 0 of a simulated machine.
    pub now: u64,
}

impl CalibrateSqueeze {
    /// Strengths that are measured, those included that are only tried and that of nothing; a few more or fewer.
    pub fn strengths(&self) -> usize {
        2 * self.steps + 6
    }
}

/// Why nothing could be calibrated or squeezed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqueezeError {
    /// The machine has no cache that several of its cores share, or none that says its size.
    #[error(
        "this machine has no last-level cache that is known to be shared by cores we may use; \
         squeezing needs one, and at least {LEAST_SPARE} cores beside those of the program that share it"
    )]
    NoSharedCache,
    /// A measurement failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A victim cannot be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// Ctrl-C before there was anything to keep.
    #[error("interrupted before there was anything to keep")]
    Interrupted,
    /// The program cannot be started.
    #[error("{program}: {reason}")]
    Program {
        /// As it was given.
        program: String,
        /// What is wrong.
        reason: String,
    },
    /// The program did not give what it is to be timed by.
    #[error("{0}")]
    Metric(String),
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// After "cannot".
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Measures what each strength leaves. A partition of the hardware is preferred to threads where no form is named. `progress`
/// hears what is done and how much of it. `counters`: what may count misses of victims; the first that counts right does.
pub fn calibrate(
    host: &mut dyn Host,
    domain: &SqueezeDomain,
    partition: Option<&HardwarePartition>,
    counters: Vec<Box<dyn MissCounter + '_>>,
    request: &CalibrateSqueeze,
    progress: &mut dyn FnMut(&str, f64),
    interrupt: &AtomicBool,
) -> Result<SqueezeProfile, SqueezeError> {
    let mut bench = SqueezeBench::begin(host, domain, partition, counters, request, progress, interrupt)?;
    let storage = bench.storage_points()?;
    let (bandwidths, tried) = bench.bandwidth_points()?;
    let storage_orthogonal = untouched(&storage, SqueezeKind::Bandwidth, BANDWIDTH_UNTOUCHED);
    let bandwidth_orthogonal = untouched(&bandwidths, SqueezeKind::Storage, CACHE_UNTOUCHED);
    let together = bench.together(
        storage[..storage_orthogonal].last().and_then(|point| point.interference),
        bandwidths[..bandwidth_orthogonal].last().and_then(|point| point.interference),
    )?;
    let (bandwidth, known, remarks) = bench.finish()?;
    let mut profile = SqueezeProfile {
        measured_at: request.now,
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
        seed: request.seed,
        level: domain.level,
        claimed: domain.claimed,
        domain: domain.cpus.clone(),
        spare: domain.spare.iter().copied().collect(),
        bandwidth,
        storage,
        bandwidths,
        known,
        tried,
        storage_orthogonal,
        bandwidth_orthogonal,
        together,
        refusals: Vec::new(),
        remarks,
    };
    profile.refusals = refusal::refusals(&profile, domain);
    Ok(profile)
}

/// How many points from the first leave a resource alone.
fn untouched(points: &[SqueezePoint], resource: SqueezeKind, most: f64) -> usize {
    let left = |point: &SqueezePoint| point.left(resource).map(|left| left.value);
    let Some(whole) = points.first().and_then(left) else { return points.len().min(1) };
    points
        .iter()
        .position(|point| left(point).is_some_and(|left| left < whole * (1.0 - most)))
        .unwrap_or(points.len())
}

#[cfg(test)]
mod tests;
