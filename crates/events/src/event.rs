//! One event, ready to be opened.

use serde::{Deserialize, Serialize};

/// Which part of a machine an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A core's own counters; off-core response events too.
    Core,
    /// A slice of the shared cache: CBo, CHA, AMD's L3.
    Slice,
    /// Home agent, or what stands between mesh and memory (M2M).
    HomeAgent,
    /// Memory controller channel: IMC, UMC.
    MemoryController,
    /// Link to another package: QPI, UPI.
    Link,
    /// AMD's data fabric.
    Fabric,
    /// The rest of a package: Nehalem's uncore, a client's arbiter.
    Package,
}

/// What must be programmed: fields by the names of the PMU's `format` files, `event` and `umask` among them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Encoding {
    /// Which part of the machine.
    pub unit: Unit,
    /// The kernel's name of the PMU, without the number of the box: `cpu`, `uncore_imc`, `amd_df`.
    pub pmu: String,
    /// Fields and values, in the order written. Those left out are 0.
    pub fields: Vec<(String, u64)>,
}

impl Encoding {
    /// A field's value; 0 if it is not set.
    pub fn field(&self, name: &str) -> u64 {
        self.fields.iter().find(|(field, _)| field == name).map_or(0, |(_, value)| *value)
    }

    /// Sets a field, in its place if it is there already.
    pub fn set(&mut self, name: &str, value: u64) {
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }
}

/// What an event counts, by where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// An event of a PMU with `format` files, real or simulated.
    Encoded(Encoding),
    /// A generic event of the kernel (`PERF_TYPE_HARDWARE`): its number, and the core PMU on hybrid machines.
    Hardware(u64),
    /// A generic cache event (`PERF_TYPE_HW_CACHE`): cache, operation and result packed as the kernel wants them.
    HardwareCache(u64),
    /// A kernel software event by its number.
    Software(u64),
    /// Accesses to an address.
    Breakpoint {
        /// Where.
        address: u64,
        /// How many bytes: 1, 2, 4 or 8.
        length: u64,
        /// Reads count.
        read: bool,
        /// Writes count.
        write: bool,
        /// Executions count, alone.
        execute: bool,
    },
    /// A tracepoint, `subsystem:name`.
    Tracepoint {
        /// The folder below `events/`.
        subsystem: String,
        /// The folder in it.
        name: String,
    },
    /// A value that resctrl monitoring keeps: `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    Resctrl(String),
}

/// What follows the colon of an event: `:u`, `:k`, `:pp`, …
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Modifiers {
    /// Count in user mode; both modes if neither is set.
    pub user: bool,
    /// Count in the kernel.
    pub kernel: bool,
    /// 0 to 3: how close a sample must lie to its instruction.
    pub precise: u8,
}

/// Which counters can hold an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counters {
    /// Programmable counters as bits; 0: not stated, any.
    pub programmable: u32,
    /// The fixed counter that counts it as well, or only it if `programmable` is 0.
    pub fixed: Option<u8>,
}

/// What an event needs beside a counter that it fits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Needs {
    /// No other event may be counted meanwhile.
    pub alone: bool,
    /// An even counter and the one behind it.
    pub pair: bool,
    /// No counter at all: it is read from a register beside them.
    pub free: bool,
    /// The event that must lead its group.
    pub leader: Option<String>,
}

/// One event, ready to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// As it is shown: what the user or a group called it.
    pub name: String,
    /// What is counted.
    pub signal: Signal,
    /// In which modes, how precisely.
    pub modifiers: Modifiers,
    /// Which counters it fits.
    pub counters: Counters,
    /// What it needs beside a counter.
    pub needs: Needs,
    /// What one count stands for: `64B`, `4flop`; none for a plain count.
    pub scale: Option<String>,
    /// Known errata, as the maker numbers them.
    pub errata: Vec<String>,
}

impl Event {
    /// An event without constraints.
    pub fn new(name: impl Into<String>, signal: Signal) -> Self {
        // The kernel's clocks, cpu-clock and task-clock, count nanoseconds.
        let scale = matches!(signal, Signal::Software(0 | 1)).then(|| "1ns".to_owned());
        Self {
            name: name.into(),
            signal,
            modifiers: Modifiers::default(),
            counters: Counters::default(),
            needs: Needs::default(),
            scale,
            errata: Vec::new(),
        }
    }

    /// The unit of an encoded event.
    pub fn unit(&self) -> Option<Unit> {
        match &self.signal {
            Signal::Encoded(encoding) => Some(encoding.unit),
            _ => None,
        }
    }
}
