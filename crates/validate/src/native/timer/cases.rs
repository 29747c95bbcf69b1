//! Known work under the clock sampler.
//!
//! The time a kernel waits for memory is its time beyond that of the same kernel in the L1; the time a chain of slow
//! operations waits is its time beyond that of as many additions. Both run stretch by stretch in turn, so that what
//! disturbs the machine disturbs both.

use kernels::{Job, Kernel, KernelCatalogue, Workload};
use machine::Bytes;

use super::{Analyse, Waiting};
use host::timer::recorded::RecordedKernel;

/// Data that stays in the first cache.
const NEAR: Bytes = Bytes::kib(16);
/// Data beyond the second cache of any core.
const MIDDLE: Bytes = Bytes::kib(8 << 10);
/// Data in memory, past any cache a guest is given.
const FAR: Bytes = Bytes::kib(128 << 10);
/// Data of slow kernels: a pass must not leave more samples than the ring holds.
const SLOW: Bytes = Bytes::kib(32 << 10);
/// Samples per second.
const RATE_HZ: u32 = 4_000;
/// One stretch.
const STRETCH_NS: f64 = 30e6;
/// Stretches of each kernel.
const STRETCHES: u32 = 12;

/// What a core waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// Loads and stores: time does not tell which.
    Memory,
    /// Divides.
    Divides,
    /// Chains of other operations.
    Chains,
}

impl Class {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loads => "loads",
            Self::Stores => "stores",
            Self::Memory => "memory",
            Self::Divides => "divides",
            Self::Chains => "chains",
        }
    }

    /// Its share.
    pub fn of(self, waiting: &Waiting) -> f64 {
        match self {
            Self::Loads => waiting.loads,
            Self::Stores => waiting.stores,
            Self::Memory => waiting.memory(),
            Self::Divides => waiting.divides,
            Self::Chains => waiting.chains,
        }
    }

    /// Whether it is waiting for memory.
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Loads | Self::Stores | Self::Memory)
    }
}

/// A kernel whose share of waiting follows from time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    kernel: &'static str,
    muls: Option<u64>,
    size: Bytes,
    /// What its waiting is for.
    waits_for: Class,
    quick: bool,
}

const fn case(kernel: &'static str, size: Bytes, waits_for: Class, quick: bool) -> Case {
    Case { kernel, muls: None, size, waits_for, quick }
}

const fn chase(muls: u64, size: Bytes, quick: bool) -> Case {
    Case { kernel: "chase-dependent", muls: Some(muls), size, waits_for: Class::Loads, quick }
}

/// Shares of waiting from none to nearly all, of each class.
const CASES: &[Case] = &[
    case("chase", FAR, Class::Loads, true),
    chase(24, FAR, true),
    chase(64, SLOW, false),
    chase(192, SLOW, false),
    chase(512, SLOW, true),
    chase(24, MIDDLE, false),
    chase(24, NEAR, false),
    case("load", FAR, Class::Loads, true),
    case("load", NEAR, Class::Loads, false),
    case("ddot", NEAR, Class::Loads, true),
    case("copy", FAR, Class::Memory, false),
    case("triad", NEAR, Class::Memory, false),
    case("store", FAR, Class::Stores, true),
    case("store", NEAR, Class::Stores, false),
    case("div-chain", Bytes(0), Class::Divides, true),
    case("mul-chain", Bytes(0), Class::Chains, false),
];

/// The cases of a validation.
pub fn all(quick: bool) -> Vec<Case> {
    CASES.iter().copied().filter(|case| case.quick || !quick).collect()
}

/// What a case showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The case in words.
    pub label: String,
    /// What its waiting is for.
    pub waits_for: Class,
    /// It also waits for a chain of operations, how long time does not tell.
    pub chained: bool,
    /// The share of the time that waits, by time.
    pub truth: f64,
    /// The shares that the instrument saw.
    pub waiting: Waiting,
    /// Samples.
    pub samples: usize,
    /// Of them with an address; none of a kernel without data.
    pub addresses: Option<usize>,
    /// Addresses that lie in the data, where an element begins.
    pub right: usize,
}

impl Case {
    /// In words.
    pub fn label(&self) -> String {
        let muls = self.muls.map_or(String::new(), |muls| format!(" muls={muls}"));
        let size = if self.has_data() { format!(" over {}", self.size) } else { String::new() };
        format!("{}{muls}{size}", self.kernel)
    }

    fn has_data(&self) -> bool {
        self.size > Bytes(0)
    }

    fn kernel(&self, catalogue: &KernelCatalogue) -> Result<Kernel, String> {
        let kernel = catalogue.get(self.kernel).map_err(|error| error.to_string())?;
        match self.muls {
            Some(muls) => kernel.with("muls", muls).map_err(|error| error.to_string()),
            None => Ok(kernel),
        }
    }

    /// Samples it and, in turn, what takes the same time without the waiting.
    pub fn measure(&self, cpu: u32, quick: bool, analyse: &Analyse<'_>) -> Result<Found, String> {
        let catalogue = KernelCatalogue::builtin().map_err(|error| error.to_string())?;
        let kernel = self.kernel(&catalogue)?;
        let mut full = Stretches::prepare(cpu, &kernel, self.size)?;
        let mut bare = match self.has_data() {
            true => Stretches::prepare(cpu, &kernel, NEAR)?,
            false => {
                let additions = catalogue.get("add-chain").map_err(|error| error.to_string())?;
                Stretches::prepare(cpu, &additions, Bytes(0))?
            }
        };
        for _ in 0..if quick { STRETCHES / 3 } else { STRETCHES } {
            full.stretch()?;
            bare.stretch()?;
        }
        let truth = (1.0 - bare.samples_per_work(self) / full.samples_per_work(self)).clamp(0.0, 1.0);
        let inside = Inside::of(full.sampled.workload(), &kernel);
        let run = full.sampled.into_run(None).map_err(|error| error.to_string())?;
        let known: Vec<u64> = run.samples.address.iter().flatten().map(|address| address.get()).collect();
        let right = known.iter().filter(|&&address| inside.holds(address)).count();
        Ok(Found {
            label: self.label(),
            waits_for: self.waits_for,
            chained: self.muls.is_some(),
            truth,
            waiting: analyse(&run).ok_or_else(|| "no sample was taken".to_owned())?.waiting,
            samples: run.samples.place.len(),
            addresses: self.has_data().then_some(known.len()),
            right,
        })
    }
}

/// A kernel under the sampler, stretch by stretch.
struct Stretches {
    sampled: RecordedKernel<'static>,
    passes: u64,
    samples: u64,
}

impl Stretches {
    fn prepare(cpu: u32, kernel: &Kernel, size: Bytes) -> Result<Self, String> {
        let job = Job::new(kernel.clone(), size, &[cpu]);
        let workload = Workload::prepare(&job).map_err(|error| error.to_string())?;
        let mut sampled =
            RecordedKernel::open(&pmu::Live, workload, cpu, RATE_HZ).map_err(|error| error.to_string())?;
        let passes = sampled.passes_for(STRETCH_NS).map_err(|error| error.to_string())?;
        Ok(Self { sampled, passes, samples: 0 })
    }

    fn stretch(&mut self) -> Result<(), String> {
        self.samples += self.sampled.stretch(self.passes).map_err(|error| error.to_string())?.samples;
        Ok(())
    }

    /// Samples are time on the CPU: what others take is in none. The work is bytes, or steps of a chain.
    fn samples_per_work(&self, case: &Case) -> f64 {
        let workload = self.sampled.workload();
        let step = workload.step();
        let each = if case.has_data() { workload.size().0 } else { step.chained_steps(&step.parts[0]) };
        self.samples as f64 / (self.passes as f64 * each.max(1) as f64)
    }
}

/// Where the data of a kernel lies.
struct Inside {
    bases: Vec<u64>,
    bytes: u64,
    element: u64,
}

impl Inside {
    fn of(workload: &Workload, kernel: &Kernel) -> Self {
        let streams = kernel.description().streams.len();
        let bases = workload.arguments(0).bases.iter().copied().take(streams).collect();
        // A chase touches the beginning of lines only.
        let element = if kernel.name().starts_with("chase") { 64 } else { 8 };
        Self { bases, bytes: workload.geometry(0).allocate.max(1), element }
    }

    fn holds(&self, address: u64) -> bool {
        let in_stream = |base: &u64| {
            (*base..base + self.bytes).contains(&address) && (address - base).is_multiple_of(self.element)
        };
        self.bases.iter().any(in_stream)
    }
}
