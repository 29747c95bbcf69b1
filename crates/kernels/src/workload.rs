//! A kernel on this machine: pinned threads, placed buffers, the assembled code.
//!
//! # Safety
//! The code touches what its geometry says and nothing else: streams are allocated with the slack that offsets
//! need, the argument block outlives the call, and shared buffers are handed over only between barriers. That
//! holds by construction of [`crate::assemble`]; the tests run every kernel in every width against a twin.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use machine::{Bytes, Isa, Width};

use crate::{
    cycle::{self, Spacing},
    description::{Pattern, Shape},
    draw::{DrawTable, Lcg},
    executable::{CodeError, CodePage},
    geometry::{self, Geometry, LINE},
    kernel::{Kernel, KernelError},
    lower,
    memory::{Backing, Buffer, MemoryError, PagePolicy, Placement},
    program::{Arguments, AssembleError, Program},
    team::{Team, TeamError, Timed},
    traffic,
    truth::{self, Counts},
};

/// How long a thread spins for its turn before it gives its CPU away.
const SPINS: u32 = 10_000;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Which kernel, parameters set.
    pub kernel: &'a Kernel,
    /// Width of its vector operations.
    pub width: Width,
    /// Data set of all streams and threads together. Without meaning for kernels that touch no memory.
    pub size: Bytes,
    /// One thread on each.
    pub cpus: &'a [u32],
    /// NUMA node for all buffers; `None`: where each thread touches first.
    pub node: Option<u32>,
    /// Page size to ask for.
    pub pages: PagePolicy,
    /// Of every random choice.
    pub seed: u64,
}

/// Why a kernel cannot be run as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The kernel does not exist in this width here.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It cannot be assembled for this size.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No threads.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// No executable pages.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// No cycle or draw table for this size: an error in memwall's own limits.
    #[error("cannot prepare the data of kernel '{kernel}': {reason}")]
    Data {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
}

/// One thread's code, data and arguments.
struct Member {
    program: Program,
    page: CodePage,
    geometry: Geometry,
    arguments: Box<Arguments>,
    /// Kept alive for the code; `None` where the data belongs to another thread.
    buffer: Option<Buffer>,
    /// Kept alive for the code.
    _table: Option<Box<DrawTable>>,
}

/// A kernel ready to run, data touched.
pub struct Workload {
    kernel: Kernel,
    team: Team,
    members: Vec<Member>,
    size: Bytes,
    seed: u64,
}

/// One timed run of all threads.
#[derive(Clone, Debug)]
pub struct Run {
    /// First thread's start.
    pub start_ns: u64,
    /// Last thread's end.
    pub end_ns: u64,
    /// Each thread by itself.
    pub threads: Vec<Timed<()>>,
}

impl Run {
    /// From the first start to the last end.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Times any thread was pushed off its CPU; `None` if the kernel does not say.
    pub fn involuntary_switches(&self) -> Option<u64> {
        self.threads.iter().map(|thread| thread.involuntary_switches).sum()
    }
}

/// What one pass does, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pass {
    /// By construction.
    pub counts: Counts,
    /// Bytes that move if no cache holds anything: write-allocates and write-backs included.
    pub memory_bytes: f64,
    /// Steps of all threads that wait for each other within their thread.
    pub chain: u64,
    /// Lines that one thread writes and another reads.
    pub modified_transfers: u64,
}

impl Workload {
    /// Assembles, starts and pins threads, allocates, touches and fills.
    pub fn prepare(request: &Request<'_>) -> Result<Self, WorkloadError> {
        let kernel = request.kernel;
        let width = kernel.width_on(&Isa::native(), Some(request.width))?;
        let geometries = geometry::divide(kernel, width, request.size, request.cpus.len())?;
        let programs = geometries
            .iter()
            .enumerate()
            .map(|(role, geometry)| Ok((lower::assemble(kernel, width, geometry, role)?, geometry.clone())))
            .collect::<Result<Vec<_>, AssembleError>>()?;
        let mut team = Team::start(request.cpus)?;
        let members = team.setup(|member| {
            let (program, geometry) = &programs[member];
            Member::prepare(request, program.clone(), geometry.clone(), member)
        })?;
        let mut members = members.into_iter().collect::<Result<Vec<_>, _>>()?;
        share(&mut members, &kernel.description().shape);
        let size = Bytes(geometries.iter().map(|geometry| geometry.size).sum());
        let mut workload = Self { kernel: kernel.clone(), team, members, size, seed: request.seed };
        workload.touch_shared()?;
        Ok(workload)
    }

    /// Runs `passes` passes on all threads, started together.
    pub fn run(&mut self, passes: u64) -> Result<Run, WorkloadError> {
        for member in &mut self.members {
            member.arguments.passes = passes;
        }
        let threads = match self.kernel.description().shape {
            Shape::Turns { .. } => self.run_turns(passes)?,
            Shape::Private(_) | Shape::Triangle(_) => {
                let calls: Vec<Call> = self.members.iter_mut().map(Member::call).collect();
                self.team.run(|member| calls[member].run())?
            }
        };
        let start_ns = threads.iter().map(|thread| thread.start_ns).min().unwrap_or(0);
        let end_ns = threads.iter().map(|thread| thread.end_ns).max().unwrap_or(0);
        Ok(Run { start_ns, end_ns, threads })
    }

    /// Two threads in turn: the turn counter is even for the first, odd for the second.
    fn run_turns(&mut self, passes: u64) -> Result<Vec<Timed<()>>, WorkloadError> {
        let geometry = &self.members[0].geometry;
        let (turns, bytes) = (geometry.turns, geometry.end());
        let base = self.members[0].arguments.bases[0];
        for member in &mut self.members {
            member.arguments.passes = 1;
        }
        let turn = AtomicU64::new(0);
        let calls: Vec<Call> = self.members.iter_mut().map(Member::call).collect();
        let threads = self.team.run(|member| {
            for step in 0..turns * passes {
                let mine = 2 * step + member as u64;
                // ATOMICS: acquire pairs with the release below: what the other thread wrote is seen.
                // Machine code cannot panic, so the other thread always answers.
                let mut spins = 0;
                while turn.load(Ordering::Acquire) != mine {
                    spins += 1;
                    if spins < SPINS {
                        std::hint::spin_loop();
                    } else {
                        // Both threads may share a CPU.
                        std::thread::yield_now();
                    }
                }
                calls[member].run_at(base + step % turns * bytes);
                turn.store(mine + 1, Ordering::Release);
            }
        })?;
        Ok(threads)
    }

    /// What one pass does. The code around the loop is not part of a pass.
    pub fn pass(&self) -> Pass {
        let steps = traffic::chained_steps(&self.kernel);
        let mut pass = Pass::default();
        for member in &self.members {
            let count = |passes| truth::counts(&member.program, &member.geometry, passes, self.seed);
            let (one, two) = (count(1), count(2));
            let geometry = &member.geometry;
            pass.counts += two.minus(one) * geometry.turns;
            pass.chain += steps * geometry.iterations;
            pass.memory_bytes +=
                traffic::lines_below(&self.kernel, geometry, Bytes(0)).map_or(0.0, |lines| lines.bytes());
        }
        if let Shape::Turns { .. } = self.kernel.description().shape {
            let geometry = &self.members[0].geometry;
            pass.modified_transfers = geometry.turns * geometry.iterations;
        }
        pass
    }

    /// What a run of `passes` does from call to return, thread by thread. Exact.
    pub fn counts(&self, passes: u64) -> Vec<Counts> {
        let turns = matches!(self.kernel.description().shape, Shape::Turns { .. });
        self.members
            .iter()
            .map(|member| {
                let random = member.arguments.random;
                if turns {
                    truth::counts(&member.program, &member.geometry, 1, random)
                        * (member.geometry.turns * passes)
                } else {
                    truth::counts(&member.program, &member.geometry, passes, random)
                }
            })
            .collect()
    }

    /// Data set actually used, rounded to whole iterations.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Pages behind all buffers; `None` if the kernel does not say.
    pub fn backing(&self) -> Option<Backing> {
        let backings = self.members.iter().filter_map(|member| member.buffer.as_ref()).map(Buffer::backing);
        backings.into_iter().try_fold(Backing { huge: Bytes(0), total: Bytes(0) }, |sum, backing| {
            let backing = backing?;
            Some(Backing {
                huge: Bytes(sum.huge.0 + backing.huge.0),
                total: Bytes(sum.total.0 + backing.total.0),
            })
        })
    }

    /// Runs `work` once on each thread, outside any timed run: to open what watches the thread, say.
    pub fn on_each_thread<F, R>(&mut self, work: F) -> Result<Vec<R>, TeamError>
    where
        F: Fn(usize) -> R + Sync,
        R: Send,
    {
        self.team.setup(work)
    }

    /// Where the machine code of one thread lies, to match samples with.
    pub fn code_address(&self, member: usize) -> u64 {
        self.members[member].page.address()
    }

    /// Machine code of one thread, for decoding.
    pub fn program(&self, member: usize) -> &Program {
        &self.members[member].program
    }

    /// A thread's arguments: what the code was given and left behind.
    pub fn arguments(&self, member: usize) -> &Arguments {
        &self.members[member].arguments
    }

    /// A thread's geometry.
    pub fn geometry(&self, member: usize) -> &Geometry {
        &self.members[member].geometry
    }

    /// The words of a thread's own buffer.
    pub fn words_mut(&mut self, member: usize) -> Option<&mut [u64]> {
        self.members[member].buffer.as_mut().map(|buffer| buffer.as_mut_slice::<u64>())
    }

    /// Rows of a shared matrix are touched first by the thread that works on them.
    fn touch_shared(&mut self) -> Result<(), WorkloadError> {
        if !matches!(self.kernel.description().shape, Shape::Triangle(_)) {
            return Ok(());
        }
        let calls: Vec<(u64, u64)> = self
            .members
            .iter()
            .map(|member| {
                let (first, last) = member.geometry.rows;
                (member.arguments.bases[0], (last - first) * member.geometry.pitch)
            })
            .collect();
        self.team.setup(|member| {
            let (start, bytes) = calls[member];
            let value = (member as f64 + 1.0).to_bits();
            for at in (start..start + bytes).step_by(8) {
                // SAFETY: these rows lie in the owner's buffer and belong to this member alone.
                unsafe { (at as *mut u64).write(value) };
            }
        })?;
        Ok(())
    }
}

impl Member {
    /// Runs on the member's own thread: its CPU touches its memory first.
    fn prepare(
        request: &Request<'_>,
        program: Program,
        geometry: Geometry,
        member: usize,
    ) -> Result<Self, WorkloadError> {
        let page = CodePage::new(&program.code)?;
        let random = Lcg::stream(request.seed, member as u64).state();
        let arguments = arguments_for(&program, &geometry, random);
        let placement = Placement { pages: request.pages, node: request.node };
        let buffer = match geometry.allocate {
            0 => None,
            bytes => Some(Buffer::allocate(Bytes(bytes), placement)?),
        };
        let mut member = Self { program, page, geometry, arguments, buffer, _table: None };
        member.fill(request.kernel, request.seed)?;
        Ok(member)
    }

    /// Touches the buffer, writes what the kernel will find there and sets the addresses.
    fn fill(&mut self, kernel: &Kernel, seed: u64) -> Result<(), WorkloadError> {
        let data = |reason: String| WorkloadError::Data { kernel: kernel.name().to_owned(), reason };
        let description = kernel.description();
        let triangle = matches!(description.shape, Shape::Triangle(_));
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let base = buffer.as_ptr() as u64;
        for stream in 0..description.streams.len() {
            self.arguments.bases[stream] = base + stream as u64 * self.geometry.stream_pitch;
        }
        if triangle {
            // Matrix, then vector, then result; the matrix is touched later, by the threads that own its rows.
            let vectors = self.geometry.pitch.next_multiple_of(4096);
            self.arguments.bases[2] = self.arguments.bases[1] + vectors;
            let first = (self.geometry.stream_pitch / 8) as usize;
            buffer.as_mut_slice::<u64>()[first..].fill(1.0f64.to_bits());
            return Ok(());
        }
        buffer.touch();
        match description.streams.first().map(|stream| stream.pattern) {
            Some(Pattern::Cycle { stride }) => {
                let spacing =
                    Spacing::every_stride(Bytes(LINE), Bytes(stride)).map_err(|e| data(e.to_string()))?;
                let words = (self.geometry.stream_bytes / 8) as usize;
                cycle::fill_cycle(&mut buffer.as_mut_slice::<u64>()[..words], base, spacing, seed)
                    .map_err(|error| data(error.to_string()))?;
            }
            Some(Pattern::Drawn { distribution, .. }) => {
                let table =
                    DrawTable::new(distribution, self.geometry.elements).map_err(|e| data(e.to_string()))?;
                let table = Box::new(table);
                self.arguments.table = table.entries().as_ptr() as u64;
                self._table = Some(table);
            }
            // Ordinary numbers, so that no kernel meets subnormals or overflows.
            Some(Pattern::Sequential { .. }) if description.element == 8 => {
                buffer.as_mut_slice::<u64>().fill(1.0f64.to_bits());
            }
            Some(Pattern::Sequential { .. }) => buffer.as_mut_slice::<u32>().fill(1.0f32.to_bits()),
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self) -> Call {
        Call { page: &raw const self.page, arguments: &raw mut *self.arguments }
    }
}

/// What the code of one thread is given, but for addresses and passes.
pub(crate) fn arguments_for(program: &Program, geometry: &Geometry, random: u64) -> Box<Arguments> {
    let mut arguments = Box::<Arguments>::default();
    program.set_values(&mut arguments);
    arguments.end = geometry.end();
    arguments.random = random;
    (arguments.elements, arguments.step) = (geometry.elements, geometry.element_step);
    (arguments.row_begin, arguments.row_end) = (geometry.rows.0 * 8, geometry.rows.1 * 8);
    arguments.row_pitch = geometry.pitch;
    arguments
}

/// Gives threads without a buffer of their own their part of the owner's.
fn share(members: &mut [Member], shape: &Shape) {
    let Some((owner, others)) = members.split_first_mut() else { return };
    for other in others.iter_mut().filter(|other| other.buffer.is_none()) {
        let mut bases = owner.arguments.bases;
        if let Shape::Triangle(_) = shape {
            let first = other.geometry.rows.0;
            bases[0] += first * other.geometry.pitch;
            bases[2] += first * 8;
        }
        other.arguments.bases = bases;
    }
}

/// What a worker needs to run a member's code, without borrowing the member.
struct Call {
    page: *const CodePage,
    arguments: *mut Arguments,
}

// SAFETY: each call is used by one worker only, while `Workload::run` keeps the members borrowed.
unsafe impl Send for Call {}
// SAFETY: as above; workers share the list of calls and use one entry each.
unsafe impl Sync for Call {}

impl Call {
    fn run(&self) {
        // SAFETY: page and arguments live in the members, which `Workload::run` borrows until all workers are
        // done; the code was assembled for exactly these arguments.
        unsafe { (*self.page).call(self.arguments.cast()) }
    }

    fn run_at(&self, base: u64) {
        // SAFETY: this worker alone uses these arguments during the run.
        unsafe { (*self.arguments).bases[0] = base };
        self.run();
    }
}
