//! Kernels as sources: programs, data and addresses of a simulated machine.
//!
//! A [`KernelTeam`] places the code and the data of all threads of a kernel; each thread then gives one source per
//! run. Nothing is allocated for streams: only their addresses exist.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use code::{Block, DecodeError};
use kernels::{
    Kernel, assemble,
    cycle::{self, CycleError, Spacing},
    description::{Pattern, Shape},
    draw::{DrawError, DrawTable, Lcg},
    geometry::{self, Geometry, LINE},
    program::{AssembleError, Program},
    truth::{self, Counts},
    walk::{Setting, Touch, Walker},
};
use machine::{Bytes, Width};

use crate::{
    memory::expect,
    source::{Execution, Source, Step},
    time::Time,
};

/// Data of each thread begins at a multiple of this, so that huge pages are possible.
const DATA_ALIGNMENT: u64 = 2 << 20;
/// What each thread has beside its data, in this order; each a whole number of pages.
const CODE_BYTES: u64 = 1 << 20;
const ARGUMENT_BYTES: u64 = 16 << 10;
const STACK_BYTES: u64 = 16 << 10;
const TABLE_BYTES: u64 = 16 << 10;

/// What is to run.
#[derive(Clone, Copy, Debug)]
pub struct TeamRequest<'a> {
    /// Which kernel, parameters set.
    pub kernel: &'a Kernel,
    /// Width of its vector operations.
    pub width: Width,
    /// Data set of all streams and threads together.
    pub size: Bytes,
    /// How many threads.
    pub threads: usize,
    /// Of every random choice.
    pub seed: u64,
    /// Where its addresses begin; teams that run together need places of their own.
    pub address: u64,
}

/// Why a kernel cannot be simulated as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// It cannot be assembled for this size.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// Its code cannot be decoded: an error in memwall.
    #[error("kernel '{kernel}' could not be decoded, an error in memwall: {source}")]
    Decode {
        /// The kernel.
        kernel: String,
        /// What the decoder said.
        source: DecodeError,
    },
    /// No pointer cycle of this size.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// No draw table of this size.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The code does not fit its place.
    #[error("kernel '{kernel}' has {bytes} of code, at most {most} fit; lower its unroll or its parameters")]
    TooMuchCode {
        /// The kernel.
        kernel: String,
        /// Its code.
        bytes: Bytes,
        /// The limit.
        most: Bytes,
    },
}

/// A range of simulated addresses, to be given pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The thread that would touch it first.
    pub thread: usize,
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Data, or code, stack and arguments.
    pub is_data: bool,
}

/// Whose turn it is, and since when.
#[derive(Debug, Default)]
struct Turn {
    number: AtomicU64,
    since_fs: AtomicU64,
}

/// One thread of a kernel.
pub struct KernelThread {
    program: Program,
    geometry: Geometry,
    blocks: Arc<[Block]>,
    bases: [u64; 6],
    own: u64,
    table: Option<DrawTable>,
    follow: Box<dyn Fn(u64) -> u64 + Send + Sync>,
    random: u64,
    role: usize,
}

/// All threads of a kernel, placed.
pub struct KernelTeam {
    threads: Vec<KernelThread>,
    places: Vec<Place>,
    end: u64,
    takes_turns: bool,
}

impl KernelTeam {
    /// Assembles, decodes and places.
    pub fn prepare(request: &TeamRequest<'_>) -> Result<Self, TeamError> {
        let kernel = request.kernel;
        let geometries = geometry::divide(kernel, request.width, request.size, request.threads)?;
        let takes_turns = matches!(kernel.description().shape, Shape::Turns { .. });
        let mut team = Self { threads: Vec::new(), places: Vec::new(), end: request.address, takes_turns };
        for (role, geometry) in geometries.into_iter().enumerate() {
            let thread = team.thread(request, geometry, role)?;
            team.threads.push(thread);
        }
        Ok(team)
    }

    fn place(&mut self, thread: usize, bytes: u64, is_data: bool) -> u64 {
        let address = self.end.next_multiple_of(DATA_ALIGNMENT);
        self.end = address + bytes;
        self.places.push(Place { thread, address, bytes, is_data });
        address
    }

    fn thread(
        &mut self,
        request: &TeamRequest<'_>,
        geometry: Geometry,
        role: usize,
    ) -> Result<KernelThread, TeamError> {
        let kernel = request.kernel;
        let program = assemble(kernel, request.width, &geometry, role)?;
        let (bytes, most) = (Bytes(program.code.len() as u64), Bytes(CODE_BYTES));
        if bytes > most {
            return Err(TeamError::TooMuchCode { kernel: kernel.name().to_owned(), bytes, most });
        }
        let own = self.place(role, CODE_BYTES + ARGUMENT_BYTES + STACK_BYTES + TABLE_BYTES, false);
        let blocks = program
            .blocks(own)
            .map_err(|source| TeamError::Decode { kernel: kernel.name().to_owned(), source })?
            .into();
        let bases = self.bases(kernel, &geometry, role);
        let (table, follow) = data(kernel, &geometry, bases[0], request.seed)?;
        let random = Lcg::stream(request.seed, role as u64).state();
        Ok(KernelThread { program, geometry, blocks, bases, own, table, follow, random, role })
    }

    /// Where the streams of a thread lie: data of its own, or its part of the first thread's.
    fn bases(&mut self, kernel: &Kernel, geometry: &Geometry, role: usize) -> [u64; 6] {
        let triangle = matches!(kernel.description().shape, Shape::Triangle(_));
        if geometry.allocate == 0
            && let Some(owner) = self.threads.first()
        {
            let mut bases = owner.bases;
            if triangle {
                bases[0] += geometry.rows.0 * geometry.pitch;
                bases[2] += geometry.rows.0 * 8;
            }
            return bases;
        }
        let data = self.place(role, geometry.allocate.max(1), true);
        let mut bases = std::array::from_fn(|stream| data + stream as u64 * geometry.stream_pitch);
        if triangle {
            bases[2] = bases[1] + geometry.pitch.next_multiple_of(4096);
        }
        bases
    }

    /// The threads, in order.
    pub fn threads(&self) -> &[KernelThread] {
        &self.threads
    }

    /// All ranges of addresses it uses.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where its addresses end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Sources for a run of `passes` passes, one per thread. Where threads take turns, all of them must run.
    pub fn sources(&self, passes: u64) -> Vec<KernelSource<'_>> {
        let turn = self.takes_turns.then(Arc::<Turn>::default);
        self.threads.iter().map(|thread| KernelSource::new(thread, passes, turn.clone())).collect()
    }

    /// What a run of `passes` does from call to return, thread by thread. Exact.
    pub fn counts(&self, passes: u64) -> Vec<Counts> {
        let count = |thread: &KernelThread, passes| {
            truth::counts(&thread.program, &thread.geometry, passes, thread.random)
        };
        self.threads
            .iter()
            .map(|thread| match self.takes_turns {
                true => count(thread, 1) * (thread.geometry.turns * passes),
                false => count(thread, passes),
            })
            .collect()
    }
}

impl KernelThread {
    /// How its data is divided.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where its streams begin.
    pub fn bases(&self) -> &[u64; 6] {
        &self.bases
    }

    fn walker(&self, base: u64, random: u64, passes: u64) -> Walker<'_> {
        let mut bases = self.bases;
        bases[0] = base;
        let arguments = self.own + CODE_BYTES;
        let stack = arguments + ARGUMENT_BYTES + STACK_BYTES / 2;
        let setting = Setting {
            bases,
            arguments,
            stack,
            table_at: arguments + ARGUMENT_BYTES + STACK_BYTES,
            table: self.table.as_ref(),
            random,
            follow: &*self.follow,
            passes,
        };
        Walker::new(&self.program, &self.geometry, setting)
    }
}

type Follow = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// What the data of a kernel holds, as far as addresses depend on it.
fn data(
    kernel: &Kernel,
    geometry: &Geometry,
    base: u64,
    seed: u64,
) -> Result<(Option<DrawTable>, Follow), TeamError> {
    let stays: Follow = Box::new(|pointer| pointer);
    match kernel.description().streams.first().map(|stream| stream.pattern) {
        Some(Pattern::Cycle { stride }) => {
            let spacing = Spacing::every_stride(Bytes(LINE), Bytes(stride))?;
            let slots = spacing.slots(Bytes(geometry.stream_bytes));
            let slots = u32::try_from(slots).map_err(|_| CycleError::TooManySlots { slots })?;
            let next = cycle::order(slots, seed);
            let shift = stride.ilog2();
            let follow = move |pointer: u64| {
                let slot = pointer.wrapping_sub(base) >> shift;
                let Some(&slot) = next.get(slot as usize) else { return base };
                // The cycle is too large for the host's caches, and this one is followed soon.
                next.get(slot as usize).inspect(|&next| expect(next));
                base + spacing.offset(slot)
            };
            Ok((None, Box::new(follow)))
        }
        Some(Pattern::Drawn { distribution, .. }) => {
            Ok((Some(DrawTable::new(distribution, geometry.elements)?), stays))
        }
        _ => Ok((None, stays)),
    }
}

/// One run of one thread.
pub struct KernelSource<'a> {
    thread: &'a KernelThread,
    walker: Walker<'a>,
    touches: Vec<Touch>,
    turns: Option<Turns>,
}

/// The state of a thread that takes turns.
struct Turns {
    turn: Arc<Turn>,
    step: u64,
    steps: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not its turn yet.
    Waits,
    /// In the middle of its turn.
    Works,
    /// Done, but its stores may not have drained.
    Settles,
}

impl<'a> KernelSource<'a> {
    fn new(thread: &'a KernelThread, passes: u64, turn: Option<Arc<Turn>>) -> Self {
        let steps = thread.geometry.turns * passes;
        let turns = turn.map(|turn| Turns { turn, step: 0, steps, state: State::Waits });
        let passes = if turns.is_some() { 1 } else { passes };
        let walker = thread.walker(thread.bases[0], thread.random, passes);
        Self { thread, walker, touches: Vec::new(), turns }
    }

    fn walk(&mut self, execution: &mut Execution) -> bool {
        let Some(walked) = self.walker.next(&mut self.touches) else { return false };
        execution.block = walked.piece;
        execution.taken = walked.taken;
        execution.addresses.clear();
        execution.addresses.extend(self.touches.iter().map(|touch| touch.address));
        true
    }

    /// Begins its turn if it has come: the number is even for the first thread, odd for the second.
    fn begin_turn(&mut self) -> Option<Time> {
        let turns = self.turns.as_mut()?;
        let mine = 2 * turns.step + self.thread.role as u64;
        // ATOMICS: relaxed: one engine polls all sources from one thread; the atomics only make sources `Send`.
        if turns.turn.number.load(Ordering::Relaxed) != mine {
            return None;
        }
        turns.state = State::Works;
        let since = Time(turns.turn.since_fs.load(Ordering::Relaxed));
        let geometry = &self.thread.geometry;
        let base = self.thread.bases[0] + turns.step % geometry.turns * geometry.end();
        self.walker = self.thread.walker(base, self.thread.random, 1);
        Some(since)
    }
}

impl Source for KernelSource<'_> {
    fn blocks(&self) -> &Arc<[Block]> {
        &self.thread.blocks
    }

    fn next(&mut self, execution: &mut Execution) -> bool {
        self.walk(execution)
    }

    fn poll(&mut self, execution: &mut Execution) -> Step {
        let Some((state, over)) = self.turns.as_ref().map(|turns| (turns.state, turns.step == turns.steps))
        else {
            return if self.walk(execution) { Step::Execute } else { Step::End };
        };
        match state {
            State::Waits if over => Step::End,
            State::Waits => match self.begin_turn() {
                Some(since) if self.walk(execution) => Step::ExecuteAt(since),
                Some(_) => Step::End,
                None => Step::Blocked,
            },
            State::Works if self.walk(execution) => Step::Execute,
            State::Works | State::Settles => {
                if let Some(turns) = &mut self.turns {
                    turns.state = State::Settles;
                }
                Step::Settle
            }
        }
    }

    /// Hands over to the other thread.
    fn settled(&mut self, at: Time) {
        let Some(turns) = self.turns.as_mut().filter(|turns| turns.state == State::Settles) else { return };
        // ATOMICS: relaxed, as above.
        turns.turn.number.fetch_add(1, Ordering::Relaxed);
        turns.turn.since_fs.store(at.0, Ordering::Relaxed);
        turns.step += 1;
        turns.state = State::Waits;
    }
}
