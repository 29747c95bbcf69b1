//! One sample, decoded.

use perf_event_open_sys::bindings;

use super::{DataSource, Fields, words::Words};

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
    mask: u64,
    values: &'a [[u8; 8]],
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
pub struct CallChain<'a>(&'a [[u8; 8]]);

impl<'a> CallChain<'a> {
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

/// Decodes a sample's body. `None`: it ends too soon.
#[inline]
pub(super) fn sample<'a>(
    fields: &Fields,
    struct_weight: bool,
    misc: u16,
    body: &'a [u8],
) -> Option<KernelSample<'a>> {
    let mut words = Words(body);
    // The order is the kernel's.
    let id = opt(fields.id, || words.u64())?;
    let ip = opt(fields.ip, || words.u64())?;
    let (pid, tid) = (words.i32()?, words.i32()?);
    let time_ns = words.u64()?;
    let address = opt(fields.address, || words.u64())?.filter(|address| *address != 0);
    let (cpu, _) = (words.u32()?, words.u32()?);
    let period = opt(fields.period, || words.u64())?;
    let call_chain = opt(fields.call_chain.is_some(), || {
        let count = words.u64()?;
        words.words(count).map(|bytes| CallChain(bytes.as_chunks().0))
    })?;
    let registers =
        opt(fields.user_registers != 0, || registers(&mut words, fields.user_registers))?.flatten();
    let weight = opt(fields.weight, || words.u64())?;
    let data_source = opt(fields.data_source, || words.u64())?.map(DataSource::decode);
    let physical_address = opt(fields.physical_address, || words.u64())?.filter(|address| *address != 0);
    let data_page_size = opt(fields.data_page_size, || words.u64())?.filter(|size| *size != 0);
    Some(KernelSample {
        time_ns,
        pid,
        tid,
        cpu,
        mode: Mode::of(misc),
        ip,
        exact_ip: u32::from(misc) & bindings::PERF_RECORD_MISC_EXACT_IP != 0,
        call_chain,
        registers,
        address,
        physical_address,
        data_page_size,
        weight: weight.map(|word| parts(word, struct_weight)),
        data_source,
        period,
        id,
    })
}

/// `None`: the field should be there and is not. `Some(None)`: it was not asked for.
#[inline]
fn opt<T>(asked: bool, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
    if asked { read().map(Some) } else { Some(None) }
}

/// `Some(None)`: the kernel had no registers to give.
#[inline]
fn registers<'a>(words: &mut Words<'a>, mask: u64) -> Option<Option<UserRegisters<'a>>> {
    let abi = match words.u64()? {
        0 => return Some(None),
        1 => Abi::Bits32,
        _ => Abi::Bits64,
    };
    let values = words.words(mask.count_ones().into())?.as_chunks().0;
    Some(Some(UserRegisters { abi, mask, values }))
}

fn parts(word: u64, is_struct: bool) -> Weight {
    if !is_struct {
        return Weight::Whole(word);
    }
    // A union of bit fields that keep their order in the word on either endianness.
    Weight::Parts { var1: word as u32, var2: (word >> 32) as u16, var3: (word >> 48) as u16 }
}
