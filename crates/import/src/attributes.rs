//! What was asked of the kernel: `perf_event_attr` as files hold it, of any version.
//!
//! linux-perf-data reads these too, but leaves out bits that it does not know, which shifts every field behind them, and
//! gives up where it does not know the event. Here nothing is left out, and an event nobody knows keeps its numbers.

use pmu::{
    bindings as b,
    sampling::{FileAttributes, FileLayout},
};

use crate::file_order::FileOrder;

/// Bytes of the first version of the attributes.
const FIRST_VERSION: usize = 64;

/// Numbers of an event, at most: one per CPU and thread.
pub(crate) const MOST_IDS: usize = 1 << 20;

/// Modes in which an event was not to be sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    user: bool,
    kernel: bool,
    hypervisor: bool,
    host: bool,
    guest: bool,
}

impl Exclusions {
    fn of(flags: u64) -> Self {
        let flag = |bit: u32| flags >> bit & 1 != 0;
        Self { user: flag(4), kernel: flag(5), hypervisor: flag(6), host: flag(19), guest: flag(20) }
    }

    /// What perf writes behind the name of an event: the modes in which it was sampled, where those are not all, and how
    /// precisely.
    fn modifiers(self, precise: u8) -> String {
        let mut letters = String::new();
        let has_modes = self.user || self.kernel || self.hypervisor;
        if has_modes {
            let modes = [(self.kernel, 'k'), (self.user, 'u'), (self.hypervisor, 'h')];
            letters.extend(modes.iter().filter(|(is_out, _)| !is_out).map(|(_, letter)| letter));
        }
        letters.extend(std::iter::repeat_n('p', precise.into()));
        // By default perf leaves guests out, unless modes or precision are asked for.
        if self.host || self.guest == (has_modes || precise > 0) {
            let worlds = [(self.host, 'H'), (self.guest, 'G')];
            letters.extend(worlds.iter().filter(|(is_out, _)| !is_out).map(|(_, letter)| letter));
        }
        if letters.is_empty() { letters } else { format!(":{letters}") }
    }
}

/// An event's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAttributes {
    /// `PERF_TYPE_` number, or that of a PMU.
    pub kind: u32,
    /// What of it.
    pub config: u64,
    /// Period, or frequency if `is_frequency`.
    pub pace: u64,
    /// `pace` is in samples per second.
    pub is_frequency: bool,
    /// 0 to 3: how close samples have to lie to their instruction.
    pub precise: u8,
    /// What was not sampled.
    pub excludes: Exclusions,
    /// There are records of context switches.
    pub has_switches: bool,
    /// Time is that of this clock instead of the kernel's own.
    pub clock: Option<i32>,
    /// How its records look.
    pub layout: FileLayout,
    /// Its numbers in records.
    pub ids: Vec<u64>,
    /// Its name, if the file has it.
    pub name: Option<String>,
}

impl EventAttributes {
    /// Takes attributes apart; also gives how many bytes they take. `None`: they end too soon.
    pub(crate) fn parse(bytes: &[u8], order: FileOrder) -> Option<(Self, usize)> {
        let word = |at: usize| order.word(bytes, at);
        let half = |at: usize| order.half(bytes, at);
        let size = match half(4)? as usize {
            // As the very first kernels wrote it.
            0 => FIRST_VERSION,
            size => size,
        };
        if size < FIRST_VERSION || size > bytes.len() {
            return None;
        }
        // Later versions only append.
        let later = |at: usize| if at + 8 <= size { word(at) } else { Some(0) };
        let flags = order.bits(bytes, 40)?;
        let flag = |bit: u32| flags >> bit & 1 != 0;
        let about = FileAttributes {
            sample_type: word(24)?,
            read_format: word(32)?,
            branch_sample_type: later(72)?,
            user_registers: later(80)?,
            interrupt_registers: later(96)?,
            stamps_all: flag(18),
        };
        let clock = if 96 <= size { half(92) } else { None };
        let attributes = Self {
            kind: half(0)?,
            config: word(8)?,
            pace: word(16)?,
            is_frequency: flag(10),
            precise: order.pair(flags, 15),
            excludes: Exclusions::of(flags),
            has_switches: flag(26),
            clock: clock.filter(|_| flag(25)).map(u32::cast_signed),
            layout: FileLayout::new(about),
            ids: Vec::new(),
            name: None,
        };
        Some((attributes, size))
    }

    /// The name that the file has, or one made of the numbers.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.plain_name())
    }

    fn plain_name(&self) -> String {
        let known: &[&str] = match self.kind {
            b::PERF_TYPE_HARDWARE => &HARDWARE,
            b::PERF_TYPE_SOFTWARE => &SOFTWARE,
            _ => &[],
        };
        let name = usize::try_from(self.config & 0xff).ok().and_then(|at| known.get(at));
        let modifiers = self.excludes.modifiers(self.precise);
        match (name, self.kind) {
            (Some(name), _) => format!("{name}{modifiers}"),
            (None, b::PERF_TYPE_HW_CACHE) => match cache_name(self.config) {
                Some(name) => format!("{name}{modifiers}"),
                None => format!("cache event {:#x}", self.config),
            },
            (None, b::PERF_TYPE_TRACEPOINT) => format!("tracepoint {}", self.config),
            (None, b::PERF_TYPE_RAW) => format!("r{:x}", self.config),
            (None, kind) => format!("event {:#x} of PMU {kind}", self.config),
        }
    }

    /// The period of every sample, if it was asked for instead of a frequency.
    pub fn fixed_period(&self) -> Option<u64> {
        (!self.is_frequency && self.pace > 0).then_some(self.pace)
    }

    /// A clock of the kernel, whose periods are nanoseconds.
    pub fn is_clock(&self) -> bool {
        self.kind == b::PERF_TYPE_SOFTWARE && self.config <= 1
    }
}

/// A generic event of a cache: which one, what was done, and how it went.
fn cache_name(config: u64) -> Option<String> {
    const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
    const OPERATIONS: [(&str, &str); 3] =
        [("load", "loads"), ("store", "stores"), ("prefetch", "prefetches")];
    let [cache, operation, outcome, 0, 0, 0, 0, 0] = config.to_le_bytes() else { return None };
    let cache = CACHES.get(usize::from(cache))?;
    let (one, all) = OPERATIONS.get(usize::from(operation))?;
    match outcome {
        0 => Some(format!("{cache}-{all}")),
        1 => Some(format!("{cache}-{one}-misses")),
        _ => None,
    }
}

/// Generic events by their numbers.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// Events of the kernel by their numbers.
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
