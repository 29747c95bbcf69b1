//! A kernel run under the clock sampler, as a recording.

use std::num::NonZeroU64;

use code::{Decoded, Reg, decode_range};
use kernels::{Workload, team::TeamError, workload::WorkloadError};
use machine::profile::Fingerprint;
use pmu::{Counter, Errno, Event, Kernel, Mapping, Target, bindings, event::Sampling};
use record::run;

/// Pages of the ring that samples go through; emptied after every stretch.
const RING_PAGES: usize = 128;

/// The sixteen general registers, by the bits of the kernel's `perf_regs.h` for x86.
const GENERAL_REGISTERS: u64 = 0x00ff_00ff;

/// Where each general register, by its number in the encoding, lies among the registers of a sample.
const REGISTER_ORDER: [usize; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Why a kernel could not be sampled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The kernel refused the clock event.
    #[error("the clock cannot be sampled here: {0}; `memwall doctor` says why and how to allow it")]
    Refused(Errno),
    /// The work did not run.
    #[error(transparent)]
    Run(#[from] WorkloadError),
    /// There is no such kernel here.
    #[error("the kernel to sample cannot be had: {0}")]
    Kernel(String),
    /// Not enough samples were taken.
    #[error("only {samples} samples were taken; the machine may be too busy, try again")]
    TooFew {
        /// How many.
        samples: u64,
    },
    /// A thread failed.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// A prepared kernel with the clock sampler on its first thread.
pub struct Sampled<'k> {
    workload: Workload,
    counter: Counter<'k>,
    ring: Mapping,
    gathered: Gathered,
    period_ns: u64,
    elapsed_ns: u64,
}

impl<'k> Sampled<'k> {
    /// Opens the sampler; nothing runs yet.
    pub fn open(kernel: &'k dyn Kernel, mut workload: Workload, period_ns: u64) -> Result<Self, SampleError> {
        let open = |_| Counter::open(kernel, &event(period_ns), Target::ThisThread);
        let counters = workload.on_each_thread(open)?;
        let counter = counters.into_iter().next().ok_or(SampleError::Refused(Errno(libc::ESRCH)))?;
        let counter = counter.map_err(SampleError::Refused)?;
        let ring = counter.map(RING_PAGES).map_err(SampleError::Refused)?;
        let gathered = Gathered::new(workload.code_address(0), &workload.program(0).code);
        Ok(Self { workload, counter, ring, gathered, period_ns, elapsed_ns: 0 })
    }

    /// Passes that take about so long.
    pub fn passes_for(&mut self, wanted_ns: f64) -> Result<u64, SampleError> {
        let mut passes = 1;
        loop {
            let elapsed_ns = self.workload.run(passes)?.elapsed_ns() as f64;
            if elapsed_ns >= wanted_ns / 8.0 || passes > u64::MAX / 4 {
                return Ok(((passes as f64 * wanted_ns / elapsed_ns.max(1.0)) as u64).max(1));
            }
            passes *= 2;
        }
    }

    /// Runs so many passes under the sampler and gives the number of samples they left.
    pub fn stretch(&mut self, passes: u64) -> Result<u64, SampleError> {
        self.counter.start().map_err(SampleError::Refused)?;
        let ran = self.workload.run(passes)?;
        self.counter.stop().map_err(SampleError::Refused)?;
        self.elapsed_ns += ran.elapsed_ns();
        let before = self.gathered.samples.place.len();
        for record in self.ring.take_records().iter() {
            let words = record.words().collect::<Vec<_>>();
            match record.kind {
                bindings::PERF_RECORD_SAMPLE => self.gathered.push(&words),
                // Its number, then how many records found no place in the ring.
                bindings::PERF_RECORD_LOST => self.gathered.lost += words.get(1).copied().unwrap_or(1),
                _ => {}
            }
        }
        Ok((self.gathered.samples.place.len() - before) as u64)
    }

    /// The kernel.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// All samples so far, as a recording of one function.
    pub fn into_run(self) -> run::Run {
        self.gathered.into_run(self.period_ns, self.elapsed_ns)
    }
}

fn event(period_ns: u64) -> Event {
    let fields = bindings::PERF_SAMPLE_IP | bindings::PERF_SAMPLE_TIME | bindings::PERF_SAMPLE_REGS_USER;
    let sampling =
        Sampling { period: period_ns, precise: 0, fields: fields.into(), user_registers: GENERAL_REGISTERS };
    Event::software(bindings::PERF_COUNT_SW_CPU_CLOCK).sampled(sampling)
}

/// Samples of one piece of code.
struct Gathered {
    base: u64,
    code: Vec<u8>,
    decoded: Decoded,
    began_ns: Option<u64>,
    places: Vec<run::Place>,
    samples: run::Samples,
    /// Records that found no place in the ring.
    lost: u64,
}

impl Gathered {
    fn new(base: u64, code: &[u8]) -> Self {
        Self {
            base,
            code: code.to_vec(),
            decoded: decode_range(code, base, &[]),
            began_ns: None,
            places: Vec::new(),
            samples: run::Samples::default(),
            lost: 0,
        }
    }

    /// Takes the words of one sample: address, time, kind of registers, registers. Samples elsewhere are dropped:
    /// they belong to the harness.
    fn push(&mut self, words: &[u64]) {
        let &[address, time_ns, abi, ref registers @ ..] = words else { return };
        if address.wrapping_sub(self.base) >= self.code.len() as u64 {
            return;
        }
        let value_of = |reg: Reg| {
            let at = REGISTER_ORDER.get(reg.index()).filter(|_| reg.is_general() && abi != 0)?;
            registers.get(*at).copied()
        };
        let operand = operand_address(&self.decoded, address, value_of);
        let place = self.places.iter().position(|place| place.address == address).unwrap_or_else(|| {
            self.places.push(run::Place { module: 0, address, function: Some(0) });
            self.places.len() - 1
        });
        let began_ns = *self.began_ns.get_or_insert(time_ns);
        self.samples.time_ns.push(time_ns.saturating_sub(began_ns));
        self.samples.thread.push(0);
        self.samples.cpu.push(0);
        self.samples.place.push(place as u32);
        self.samples.address.push(operand.and_then(NonZeroU64::new));
    }

    fn into_run(self, period_ns: u64, elapsed_ns: u64) -> run::Run {
        let end = self.base + self.code.len() as u64;
        let function = run::Function {
            module: 0,
            symbol: None,
            name: "kernel".to_owned(),
            start: self.base,
            end,
            code: Some(self.code),
        };
        let module = run::Module {
            path: "kernel".to_owned(),
            kind: run::ModuleKind::Anonymous,
            build_id: None,
            problem: None,
        };
        let process = run::Process {
            pid: std::process::id(),
            parent: None,
            name: "kernel".to_owned(),
            executable: None,
            began_ns: 0,
            ended_ns: None,
        };
        let thread =
            run::Thread { tid: 0, process: 0, name: "kernel".to_owned(), began_ns: 0, ended_ns: None };
        run::Run {
            about: run::About { lost_samples: Some(self.lost), ..about(period_ns, elapsed_ns) },
            processes: vec![process],
            threads: vec![thread],
            modules: vec![module],
            functions: vec![function],
            files: Vec::new(),
            lines: Vec::new(),
            places: self.places,
            samples: self.samples,
            stacks: Vec::new(),
            data: record::data::Data::default(),
            slices: Vec::new(),
            remarks: Vec::new(),
        }
    }
}

fn about(period_ns: u64, elapsed_ns: u64) -> run::About {
    run::About {
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
        command: vec!["kernel".to_owned()],
        attached: None,
        started_at: 0,
        fingerprint: Fingerprint::default(),
        rate_hz: 1e9 / period_ns as f64,
        period_ns: period_ns as f64,
        skid_instructions: 1,
        elapsed_ns: Some(elapsed_ns),
        ending: run::Ending::Exited(0),
        usage: None,
        lost_samples: None,
        noise: None,
        slice_ns: 0,
    }
}

/// A recording with samples at these addresses, for tests.
#[cfg(test)]
pub(crate) fn recording_of(code: &[u8], base: u64, addresses: impl Iterator<Item = u64>) -> run::Run {
    let mut gathered = Gathered::new(base, code);
    addresses.enumerate().for_each(|(index, address)| gathered.push(&[address, index as u64, 0]));
    gathered.into_run(1, 1)
}

/// The effective address of the instruction before `address` in its block.
fn operand_address(decoded: &Decoded, address: u64, value_of: impl Fn(Reg) -> Option<u64>) -> Option<u64> {
    let (block, index) = decoded.find(address)?;
    let before = block.instructions().get(index.checked_sub(1)?)?;
    block.memory_of(before).first()?.effective_address(value_of)
}
