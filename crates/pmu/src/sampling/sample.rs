//! One sample, decoded.

use perf_event_open_sys::bindings;

use super::DataSource;

/// A sample. What was not asked for is `None`.
#[derive(Clone, Copy, Debug)]
pub struct KernelSample<'a> {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Where it ran.
    pub cpu: u32,
    /// What the processor was doing.
    pub mode: Mode,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// The processor vouches that `ip` is the instruction itself, not a later one.
    pub exact_ip: bool,
    /// The call chain, innermost first.
    pub call_chain: Option<CallChain<'a>>,
    /// User registers. Also `None` when the kernel had none to give, as for a kernel thread.
    pub registers: Option<UserRegisters<'a>>,
    /// The data address; 0 in the record means that the processor had none, and gives `None`.
    pub address: Option<u64>,
    /// The physical data address.
    pub physical_address: Option<u64>,
    /// Bytes of the page the data lies in.
    pub data_page_size: Option<u64>,
    /// Latencies.
    pub weight: Option<Weight>,
    /// Where the data came from.
    pub data_source: Option<DataSource>,
    /// Events (for clocks: nanoseconds) since the sample before.
    pub period: Option<u64>,
    /// The event's number.
    pub id: Option<u64>,
}

/// What the processor was doing when a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Running the program.
    User,
    /// Running the kernel.
    Kernel,
    /// Running a hypervisor.
    Hypervisor,
    /// Running a guest's program.
    GuestUser,
    /// Running a guest's kernel.
    GuestKernel,
    /// The kernel does not say.
    Unknown,
}

impl Mode {
    pub(super) fn of(misc: u16) -> Self {
        match u32::from(misc) & bindings::PERF_RECORD_MISC_CPUMODE_MASK {
            bindings::PERF_RECORD_MISC_USER => Self::User,
            bindings::PERF_RECORD_MISC_KERNEL => Self::Kernel,
            bindings::PERF_RECORD_MISC_HYPERVISOR => Self::Hypervisor,
            bindings::PERF_RECORD_MISC_GUEST_USER => Self::GuestUser,
            bindings::PERF_RECORD_MISC_GUEST_KERNEL => Self::GuestKernel,
            _ => Self::Unknown,
        }
    }
}

/// What a processor says about how long an access took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One number whose meaning is the PMU's: for loads, the cycles to their data.
    Whole(u64),
    /// Three numbers (kernels from 5.12 on).
    Parts {
        /// Load latency in cycles, on every core that has one.
        var1: u32,
        /// Cycles from dispatch to retirement on recent Intel cores (instruction latency); IBS: tag to retirement.
        var2: u16,
        /// Cycles the retirement waited on recent Intel cores.
        var3: u16,
    },
}

impl Weight {
    /// Takes a `PERF_SAMPLE_WEIGHT_STRUCT` apart: a union of bit fields that keep their order in the word on either
    /// endianness.
    pub(super) fn parts(word: u64) -> Self {
        Self::Parts { var1: word as u32, var2: (word >> 32) as u16, var3: (word >> 48) as u16 }
    }

    /// The cycles a load took.
    pub fn latency_cycles(self) -> u64 {
        match self {
            Self::Whole(cycles) => cycles,
            Self::Parts { var1, .. } => var1.into(),
        }
    }
}

/// The width of the code whose registers were sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
}

/// User registers of a sample.
#[derive(Clone, Copy, Debug)]
pub struct UserRegisters<'a> {
    /// The width of the code.
    pub abi: Abi,
    pub(super) mask: u64,
    pub(super) values: &'a [[u8; 8]],
}

impl UserRegisters<'_> {
    /// The register with this number in the architecture's `perf_regs.h`, if it was asked for.
    pub fn get(&self, register: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(register)?;
        if self.mask & bit == 0 {
            return None;
        }
        let place = (self.mask & (bit - 1)).count_ones() as usize;
        self.values.get(place).map(|value| u64::from_ne_bytes(*value))
    }

    /// Which registers there are.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// The values, lowest register first.
    pub fn values(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.values.iter().map(|value| u64::from_ne_bytes(*value))
    }
}

/// A call chain.
#[derive(Clone, Copy, Debug)]
pub struct CallChain<'a>(pub(super) &'a [[u8; 8]]);

impl<'a> CallChain<'a> {
    /// Of words as the kernel writes them, the innermost first.
    pub fn of(words: &'a [[u8; 8]]) -> Self {
        Self(words)
    }

    /// The return addresses, innermost first, without the kernel's marks of where a mode begins.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + 'a {
        // `PERF_CONTEXT_` marks are the numbers from -4095 up.
        self.0.iter().map(|word| u64::from_ne_bytes(*word)).filter(|word| *word < -4095i64 as u64)
    }

    /// The entries as they are, marks included.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.0.iter().map(|word| u64::from_ne_bytes(*word))
    }
}
