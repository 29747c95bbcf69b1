//! The profile: what was measured on one machine.
//!
//! Every field is optional or a list: a profile is saved after each finished step, so that an interrupted
//! calibration leaves what it had. What is absent was not measured.

use serde::{Deserialize, Serialize};

use crate::{Bytes, CpuSet};

/// Measured levels, peaks and latencies of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `memwall.profile/1`.
    pub schema: String,
    /// The machine this belongs to.
    pub fingerprint: Fingerprint,
    /// The model that was simulated; `None` of a real machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
    /// Seconds since 1970 when the calibration began; 0 of a simulated machine, whose numbers do not age.
    pub measured_at: u64,
    /// The version of memwall that measured.
    pub memwall: String,
    /// How thorough it was, and whether it ran to its end.
    pub extent: Extent,
    /// Seed of every random choice made.
    pub seed: u64,
    /// CPUs measured on.
    pub cpus: CpuSet,
    /// Estimated core clock while busy.
    pub clock: Option<Clock>,
    /// What operations cost in the core; empty of a simulated machine, or where it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationCost>,
    /// Overheads of measuring itself.
    pub overheads: Option<Overheads>,
    /// Cache levels from the core outwards, then memory of each node.
    pub levels: Vec<ProfileLevel>,
    /// Latency against data set size, with huge pages where they could be had.
    pub latency_curve: Vec<LatencyPoint>,
    /// Latency of one access per page against the number of pages, with 4 KiB pages.
    pub tlb: Option<Tlb>,
    /// Latency of one core while others draw bandwidth.
    pub loaded_latency: Vec<LoadedLatency>,
    /// Time for a line to go from one core to another.
    pub core_to_core: Vec<CoreToCore>,
    /// How the clock's samples lie; absent if the clock cannot be sampled here, or was not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timer>,
    /// Short probes of the last cache and memory, to compare those beside a program with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<crate::probe::ProbeReading>,
    /// How hard the machine can be squeezed; absent until `memwall squeeze --calibrate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squeeze: Option<Box<crate::squeezing::SqueezeProfile>>,
    /// Where claim and measurement disagree, and what was noticed, in plain sentences.
    pub remarks: Vec<String>,
    /// Noise seen during the whole calibration.
    pub noise: Option<Noise>,
}

impl Profile {
    /// Of a machine of which nothing is known yet.
    pub fn unmeasured() -> Self {
        Self {
            schema: crate::store::SCHEMA.to_owned(),
            fingerprint: Fingerprint::default(),
            simulated: None,
            measured_at: 0,
            memwall: env!("CARGO_PKG_VERSION").to_owned(),
            extent: Extent { quick: false, complete: false },
            seed: 0,
            cpus: CpuSet::default(),
            clock: None,
            operations: Vec::new(),
            overheads: None,
            levels: Vec::new(),
            latency_curve: Vec::new(),
            tlb: None,
            loaded_latency: Vec::new(),
            core_to_core: Vec::new(),
            timer: None,
            probes: Vec::new(),
            squeeze: None,
            remarks: Vec::new(),
            noise: None,
        }
    }

    /// Whether losing this one for `other` would be a loss: a whole calibration is more than an interrupted one, a thorough
    /// one more than a quick one; of two interrupted ones, the one with more parts.
    pub fn has_more_than(&self, other: &Self) -> bool {
        let rank = |one: &Self| match one.extent.complete {
            true => (true, usize::from(!one.extent.quick)),
            false => (false, one.parts()),
        };
        rank(self) > rank(other)
    }

    /// What one core was measured to have of a cache.
    pub fn usable_cache(&self, level: u32) -> Option<Bytes> {
        let named = self.levels.iter().find(|one| one.name == LevelName::Cache(level))?;
        named.usable.map(|usable| Bytes(usable.value as u64))
    }

    /// Parts that were measured.
    fn parts(&self) -> usize {
        let singles =
            [self.clock.is_some(), self.overheads.is_some(), self.tlb.is_some(), self.timer.is_some()];
        singles.iter().filter(|is_there| **is_there).count()
            + self.levels.len()
            + self.latency_curve.len()
            + self.loaded_latency.len()
            + self.core_to_core.len()
    }
}

/// What identifies a machine: if any part differs, the profile is of another machine. By default that of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Short hash of the parts below; the profile's file name.
    pub id: String,
    /// CPU vendor, model name, family, model, stepping.
    pub cpu: String,
    /// Microcode revision.
    pub microcode: String,
    /// Sockets, cores, threads, caches and nodes in one line.
    pub topology: String,
    /// Kernel release.
    pub kernel: String,
    /// Hypervisor, or `none`.
    pub hypervisor: String,
}

/// How much of a calibration was asked for and done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// `--quick` was given.
    pub quick: bool,
    /// All steps finished.
    pub complete: bool,
}

/// The core clock as two independent chains of instructions see it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// From a chain of register-to-register additions, one per cycle on every known core.
    pub add_hz: f64,
    /// From a chain of multiplications, three cycles each on every known 64-bit x86 core.
    pub mul_hz: f64,
    /// Of the time stamp counter, if it ticks at a constant rate.
    pub tsc_hz: Option<f64>,
}

impl Clock {
    /// The two chains agree within 3 %: cycles derived from them can be believed.
    pub fn agrees(&self) -> bool {
        (self.add_hz / self.mul_hz - 1.0).abs() < 0.03
    }
}

/// An operation of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreOperation {
    /// Floating-point addition of one element.
    FpAdd,
    /// Floating-point multiplication.
    FpMul,
    /// Floating-point division.
    FpDiv,
    /// A load from the first cache.
    Load,
    /// A store to it.
    Store,
    /// An atomic addition to a line of it that no other core has.
    Atomic,
}

/// What an operation costs in the core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCost {
    /// Which one.
    pub operation: CoreOperation,
    /// Cycles from operand to result; none of what has no chain.
    pub latency_cycles: Option<f64>,
    /// How many can begin in a cycle.
    pub per_cycle: Option<f64>,
}

/// What measuring costs here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overheads {
    /// One read of the time stamp counter.
    pub tsc_read_ns: Option<f64>,
    /// One `clock_gettime(CLOCK_MONOTONIC)`.
    pub clock_read_ns: f64,
    /// The cheapest system call.
    pub syscall_ns: f64,
    /// Smallest non-zero step of `CLOCK_MONOTONIC`.
    pub clock_step_ns: f64,
}

/// Which level of the hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelName {
    /// Cache of this level, data or unified.
    Cache(u32),
    /// Memory of this node; `local` as seen from the measuring CPU.
    Memory {
        /// NUMA node.
        node: u32,
        /// Node of the measuring CPU.
        local: bool,
    },
}

/// One level with claim and measurement side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileLevel {
    /// Which one.
    pub name: LevelName,
    /// What sysfs or CPUID claims.
    pub claimed: Option<Bytes>,
    /// How many CPUs share it, as claimed.
    pub shared_by: Option<usize>,
    /// Where the latency curve leaves this level: what one core can really use of it. `low` and `high` are what it held at
    /// worst and at best, as pages fell and neighbours let it (profiles before 0.2: the two sizes measured around it).
    pub usable: Option<Estimate>,
    /// Why there is no usable capacity, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<String>,
    /// Data set size at which latency and bandwidth were measured.
    pub measured_with: Option<Bytes>,
    /// Load-to-use latency of a dependent load.
    pub latency_ns: Option<Estimate>,
    /// Bandwidth of one core, bytes per second.
    pub one_core: Bandwidths,
    /// Bandwidth of all cores together, bytes per second.
    pub all_cores: Bandwidths,
}

impl ProfileLevel {
    /// Of which nothing is known yet.
    pub fn unmeasured(name: LevelName) -> Self {
        Self {
            name,
            claimed: None,
            shared_by: None,
            usable: None,
            unseen: None,
            measured_with: None,
            latency_ns: None,
            one_core: Bandwidths::default(),
            all_cores: Bandwidths::default(),
        }
    }
}

/// Bandwidths as the program sees them, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidths {
    /// Loads only.
    pub load: Option<Estimate>,
    /// Stores only; the memory system also reads each line it stores to.
    pub store: Option<Estimate>,
    /// Loads and stores, both counted.
    pub copy: Option<Estimate>,
}

/// A median with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Lower end of the 95 % confidence interval of the median.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How many samples stand behind it.
    pub samples: usize,
}

impl Estimate {
    /// Half the width of the interval, relative to the value.
    pub fn precision(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value.abs()
    }
}

/// One point of the latency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Data set.
    pub size: Bytes,
    /// Per dependent load.
    pub latency_ns: Estimate,
    /// Whether all of the buffer was on huge pages.
    pub huge_pages: bool,
}

/// What translation costs with 4 KiB pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tlb {
    /// Latency by number of 4 KiB pages, one line touched in each.
    pub curve: Vec<TlbPoint>,
    /// Pages after which latency rises, innermost level first.
    pub reach_pages: Vec<u64>,
    /// Extra nanoseconds per access, at the largest size measured, against huge pages.
    pub walk_penalty_ns: Option<f64>,
}

/// One point of the page curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TlbPoint {
    /// How many pages were touched in turn.
    pub pages: u64,
    /// With 4 KiB pages.
    pub small_ns: Estimate,
    /// The same addresses on huge pages, if they could be had.
    pub huge_ns: Option<Estimate>,
}

/// Latency under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedLatency {
    /// Nops between the loaders' reads; fewer means more load. `None`: no loader ran.
    pub delay_nops: Option<u64>,
    /// How many cores loaded the memory.
    pub loaders: usize,
    /// Bandwidth the loaders drew, bytes per second.
    pub drawn: f64,
    /// Latency of the measuring core, as measured.
    pub latency_ns: Estimate,
    /// The nearest latency that does not fall as more is drawn; absent in profiles before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rising_ns: Option<f64>,
    /// That lies outside the interval: this point and another contradict each other, and one of them was disturbed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contradicts: bool,
}

/// Latency of a line handed from one core to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreToCore {
    /// One CPU.
    pub from: u32,
    /// The other.
    pub to: u32,
    /// One way.
    pub latency_ns: Estimate,
}

/// Where clock samples land on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// How many instructions before the sampled address the one lies that the core was waiting for.
    pub skid_instructions: u32,
    /// Share of the samples that landed just there.
    pub landed: f64,
    /// How many samples stand behind it.
    pub samples: u64,
}

/// What disturbed a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Wall time watched.
    pub wall_ns: f64,
    /// Time the hypervisor gave to others, summed over the CPUs used. `None` if not reported.
    pub steal_ns: Option<f64>,
    /// Times a measuring thread was pushed off its CPU.
    pub involuntary_switches: Option<u64>,
    /// Median absolute deviation of the samples over their median.
    pub spread: Option<f64>,
}
