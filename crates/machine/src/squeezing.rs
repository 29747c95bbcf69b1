//! What interference takes on a machine: the part of a profile that `memwall squeeze --calibrate` fills.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, CpuSet, profile::Estimate};

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SqueezeKind {
    /// Room in the shared cache (casas2017 §2.2).
    Storage,
    /// Bandwidth between that cache and memory (casas2017 §2.1).
    Bandwidth,
}

impl SqueezeKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Storage, Self::Bandwidth];

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Storage => "cache",
            Self::Bandwidth => "bandwidth",
        }
    }
}

impl fmt::Display for SqueezeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SqueezeForm {
    /// Threads as in the paper: one buffer of a fifth of the cache each, or 44 buffers with a coprime stride.
    Paper,
    /// All threads share what is to be held, so that each line is touched more often.
    Shared,
    /// Threads that read from end to end.
    Reading,
    /// Threads that write past the caches.
    Writing,
    /// No threads: the kernel gives the program's CPUs fewer ways of the cache (CAT), or less bandwidth (MBA).
    Partition,
}

impl SqueezeForm {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "as in the paper",
            Self::Shared => "shared by all threads",
            Self::Reading => "reading",
            Self::Writing => "writing past the caches",
            Self::Partition => "partition of the hardware",
        }
    }
}

/// Some interference, to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interference {
    /// What it takes.
    pub kind: SqueezeKind,
    /// How.
    pub form: SqueezeForm,
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// Data of each thread.
    pub bytes_each: Bytes,
    /// Empty operations between two accesses: 0 is full speed.
    pub pause: u64,
    /// Of a partition, what it leaves: ways of the cache, or per cent of the bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
}

/// What some interference leaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SqueezePoint {
    /// Which; `None`: nothing was taken.
    pub interference: Option<Interference>,
    /// Room in the cache that victims found, bytes: the middle one, the least and the most of them.
    pub cache_left: Option<Estimate>,
    /// Bandwidth that streaming victims got, or that was not drawn, bytes per second.
    pub bandwidth_left: Option<Estimate>,
    /// Time of each of the profile's known programs over its time alone, in their order; empty where they were not tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<f64>,
    /// Bandwidth the interference drew by itself, bytes per second.
    pub drawn: Option<f64>,
    /// The same after casas2017 eq. 1, where misses were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_by_misses: Option<f64>,
    /// Every victim of known distribution, with what it found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<SqueezeVictim>,
}

/// How a program of known need goes over its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnownPattern {
    /// Reads from end to end what a core's own cache holds.
    Private,
    /// Each access waits for the one before.
    Chase,
    /// Accesses drawn at random that do not wait for each other.
    Random,
    /// From end to end at a pace, past what any cache holds.
    Stream,
}

/// A program of known need that was run beside every strength. What a real program loses is explained as a mixture of such.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownProgram {
    /// How it goes over its data.
    pub pattern: KnownPattern,
    /// Its data.
    pub size: Bytes,
    /// CPUs it keeps busy.
    pub threads: usize,
    /// Lines that each thread of a paced stream reads between two pauses. Streams of the same rate are slowed down more the
    /// fewer they are.
    #[serde(default)]
    pub lines: u64,
    /// Nanoseconds that a line of its data takes when nothing is taken, all threads together.
    pub line_ns: f64,
}

impl KnownProgram {
    /// Lines it goes over when nothing is taken, bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        64.0 / self.line_ns * 1e9
    }
}

/// What one victim of known distribution found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeVictim {
    /// Its distribution, as casas2017 Table 2 names it.
    pub distribution: String,
    /// Additions between two accesses.
    pub additions: u64,
    /// Its data.
    pub size: Bytes,
    /// Share of accesses that some cache served.
    pub hit_rate: f64,
    /// Capacity that explains it by Che's approximation, bytes; none if it cannot be told.
    pub capacity: Option<f64>,
    /// The same by casas2017 eq. 4; none outside its range.
    pub capacity_casas: Option<f64>,
}

/// How hard a machine can be squeezed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SqueezeProfile {
    /// Seconds since 1970; 0 of a simulated machine.
    pub measured_at: u64,
    /// The version of memwall that measured.
    pub memwall: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Level of the cache that is squeezed.
    pub level: u32,
    /// What that cache claims to hold.
    pub claimed: Bytes,
    /// CPUs that share it and may be used, one for each core.
    pub domain: CpuSet,
    /// Of these, the most that interference runs on.
    pub spare: CpuSet,
    /// Bandwidth of all of them together when nothing is taken, bytes per second.
    pub bandwidth: f64,
    /// What each strength of cache interference leaves, weakest first, beginning with none.
    pub storage: Vec<SqueezePoint>,
    /// The same of bandwidth interference.
    pub bandwidths: Vec<SqueezePoint>,
    /// Programs of known need that were run beside every strength.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownProgram>,
    /// Other forms that were tried, at their strongest, and why they were not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<(SqueezePoint, String)>,
    /// How many of the strengths of `storage`, from the first, leave bandwidth alone.
    pub storage_orthogonal: usize,
    /// How many of the strengths of `bandwidths`, from the first, leave the cache alone.
    pub bandwidth_orthogonal: usize,
    /// Both at once against each alone: what was left of cache and bandwidth under the strongest orthogonal pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<SqueezePoint>,
    /// Why no conclusion is to be drawn here, by kind, with the numbers; empty if the machine can be squeezed.
    pub refusals: Vec<(SqueezeKind, String)>,
    /// What else was noticed.
    pub remarks: Vec<String>,
}

impl SqueezeProfile {
    /// The strengths of one kind, weakest first, beginning with none.
    pub fn points(&self, kind: SqueezeKind) -> &[SqueezePoint] {
        match kind {
            SqueezeKind::Storage => &self.storage,
            SqueezeKind::Bandwidth => &self.bandwidths,
        }
    }

    /// Those that leave the other resource alone.
    pub fn orthogonal(&self, kind: SqueezeKind) -> &[SqueezePoint] {
        let (points, many) = match kind {
            SqueezeKind::Storage => (&self.storage, self.storage_orthogonal),
            SqueezeKind::Bandwidth => (&self.bandwidths, self.bandwidth_orthogonal),
        };
        &points[..many.min(points.len())]
    }

    /// All there is of a resource when nothing is taken.
    pub fn whole(&self, kind: SqueezeKind) -> Option<f64> {
        self.points(kind).first().and_then(|point| point.left(kind)).map(|left| left.value)
    }

    /// Why a kind cannot be squeezed.
    pub fn refusal(&self, kind: SqueezeKind) -> Option<&str> {
        self.refusals.iter().find(|(refused, _)| *refused == kind).map(|(_, why)| why.as_str())
    }
}

impl SqueezePoint {
    /// What is left of a resource.
    pub fn left(&self, kind: SqueezeKind) -> Option<Estimate> {
        match kind {
            SqueezeKind::Storage => self.cache_left,
            SqueezeKind::Bandwidth => self.bandwidth_left,
        }
    }
}
