//! A plan on a simulated machine: code and data of all threads placed. Nothing is allocated for streams: only their
//! addresses exist.

use std::sync::Arc;

use code::{Block, DecodeError};
use kernels::{
    cycle::{self, CycleError, Spacing},
    description::StreamPattern,
    draw::{DrawError, DrawTable},
    geometry::LINE,
    scenario::{Instance, Plan, PlanPart, PlannedStep},
};
use machine::Bytes;

use crate::memory::expect;

/// Everything begins at a multiple of this, so that huge pages are possible.
const ALIGNMENT: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// A draw table and room around it.
const TABLE_BYTES: u64 = 16 << 10;
/// What each thread of a kernel has beside its data, in this order.
const CODE_BYTES: u64 = 1 << 20;
const ARGUMENT_BYTES: u64 = 16 << 10;
const STACK_BYTES: u64 = 16 << 10;

/// Why a plan cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
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

/// In which order things lie. Which lines meet in a set of a cache depends on it, so that results do too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrder {
    /// Thread by thread: code, then data; from this address on, as work that runs beside others has to. For kernels.
    ByThread {
        /// Where it begins.
        from: u64,
    },
    /// All data, then the code of each thread and step. For scenarios.
    DataFirst,
}

/// A range of simulated addresses, to be given pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The thread that would touch it first.
    pub thread: usize,
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Index into [`Plan::instances`]; `None` of code, stack and arguments.
    pub instance: Option<usize>,
}

type Follow = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// A thread's part of a step, placed.
pub(super) struct PlacedPart {
    /// Of its program in the thread's blocks.
    pub first_block: usize,
    pub bases: [u64; 6],
    pub arguments: u64,
    pub stack: u64,
    pub table_at: u64,
    pub table: Option<DrawTable>,
    pub follow: Follow,
}

/// A plan, placed.
pub struct PlacedPlan {
    pub(super) plan: Plan,
    /// All programs of each thread, one behind the other.
    pub(super) blocks: Vec<Arc<[Block]>>,
    /// By thread, then by step.
    pub(super) parts: Vec<Vec<Option<PlacedPart>>>,
    ranges: Vec<AddressRange>,
    end: u64,
}

impl PlacedPlan {
    /// Decodes and places.
    pub fn new(plan: Plan, order: AddressOrder) -> Result<Self, PlaceError> {
        let mut addresses = Addresses::of(&plan, order)?;
        let chains = chains(&plan, &addresses)?;
        let mut parts: Vec<Vec<Option<PlacedPart>>> = Vec::new();
        let mut blocks = Vec::new();
        for thread in 0..plan.threads() {
            let mut all: Vec<Block> = Vec::new();
            let mut of_thread = Vec::new();
            for step in plan.steps() {
                let Some(part) = step.part(thread) else {
                    of_thread.push(None);
                    continue;
                };
                let room = addresses.rooms.remove(0);
                let decoded = part
                    .program
                    .blocks(room.code)
                    .map_err(|source| PlaceError::Decode { kernel: step.kernel.name().to_owned(), source })?;
                let base = part.instance.map_or(0, |instance| addresses.instances[instance]);
                of_thread.push(Some(placed(step, part, room, all.len(), base, &chains)?));
                all.extend(decoded);
            }
            parts.push(of_thread);
            blocks.push(all.into());
        }
        Ok(Self { plan, blocks, parts, ranges: addresses.ranges, end: addresses.end })
    }

    /// What was placed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All ranges of addresses it uses.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// The ranges that hold data.
    pub fn data(&self) -> impl Iterator<Item = &AddressRange> {
        self.ranges.iter().filter(|range| range.instance.is_some())
    }

    /// Where the addresses end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Where the streams of a thread's part of a step begin; `None` if it has none.
    pub fn bases(&self, thread: usize, step: usize) -> Option<&[u64; 6]> {
        self.parts.get(thread)?.get(step)?.as_ref().map(|part| &part.bases)
    }
}

/// What one part has beside its data.
#[derive(Clone, Copy)]
struct Room {
    code: u64,
    arguments: u64,
    stack: u64,
    table_at: u64,
}

/// Where everything lies.
struct Addresses {
    /// Of each instance.
    instances: Vec<u64>,
    /// Of each part, thread by thread and step by step.
    rooms: Vec<Room>,
    ranges: Vec<AddressRange>,
    end: u64,
}

impl Addresses {
    fn of(plan: &Plan, order: AddressOrder) -> Result<Self, PlaceError> {
        let instances = vec![0; plan.instances().len()];
        let mut addresses = Self { instances, rooms: Vec::new(), ranges: Vec::new(), end: 0 };
        match order {
            AddressOrder::ByThread { from } => {
                addresses.end = from;
                for thread in 0..plan.threads() {
                    addresses.rooms_of(plan, thread, order)?;
                    addresses.data_of(plan, |instance| instance.thread.unwrap_or(0) == thread);
                }
            }
            AddressOrder::DataFirst => {
                addresses.end = ALIGNMENT;
                addresses.data_of(plan, |_| true);
                for thread in 0..plan.threads() {
                    addresses.rooms_of(plan, thread, order)?;
                }
            }
        }
        Ok(addresses)
    }

    fn range(&mut self, thread: usize, bytes: u64, instance: Option<usize>) -> u64 {
        let address = self.end.next_multiple_of(ALIGNMENT);
        let bytes = bytes.max(1);
        self.end = address + bytes;
        self.ranges.push(AddressRange { thread, address, bytes, instance });
        address
    }

    fn data_of(&mut self, plan: &Plan, wanted: impl Fn(&Instance) -> bool) {
        for (index, instance) in plan.instances().iter().enumerate().filter(|(_, one)| wanted(one)) {
            let thread = instance.thread.unwrap_or(0);
            self.instances[index] = self.range(thread, instance.allocate.0, Some(index));
        }
    }

    fn rooms_of(&mut self, plan: &Plan, thread: usize, order: AddressOrder) -> Result<(), PlaceError> {
        for step in plan.steps() {
            let Some(part) = step.part(thread) else { continue };
            let bytes = part.program.code.len() as u64;
            let room = match order {
                AddressOrder::ByThread { .. } => {
                    if bytes > CODE_BYTES {
                        let kernel = step.kernel.name().to_owned();
                        let (bytes, most) = (Bytes(bytes), Bytes(CODE_BYTES));
                        return Err(PlaceError::TooMuchCode { kernel, bytes, most });
                    }
                    let all = CODE_BYTES + ARGUMENT_BYTES + STACK_BYTES + TABLE_BYTES;
                    let code = self.range(thread, all, None);
                    let arguments = code + CODE_BYTES;
                    let stack = arguments + ARGUMENT_BYTES + STACK_BYTES / 2;
                    Room { code, arguments, stack, table_at: arguments + ARGUMENT_BYTES + STACK_BYTES }
                }
                AddressOrder::DataFirst => {
                    let code = self.range(thread, bytes + 4 * PAGE + TABLE_BYTES, None);
                    let arguments = (code + bytes).next_multiple_of(PAGE);
                    let stack = arguments + PAGE + PAGE / 2;
                    Room { code, arguments, stack, table_at: arguments + 2 * PAGE }
                }
            };
            self.rooms.push(room);
        }
        Ok(())
    }
}

/// A cycle of pointers: where it begins and which slot follows which.
struct PlacedChain {
    base: u64,
    spacing: Spacing,
    shift: u32,
    next: Arc<[u32]>,
}

fn chains(plan: &Plan, addresses: &Addresses) -> Result<Vec<PlacedChain>, PlaceError> {
    let mut placed: Vec<PlacedChain> = Vec::new();
    for (instance, &address) in plan.instances().iter().zip(&addresses.instances) {
        for chain in &instance.chains {
            let spacing = Spacing::every_stride(Bytes(LINE), Bytes(chain.stride))?;
            let slots = spacing.slots(Bytes(chain.bytes));
            let slots = u32::try_from(slots).map_err(|_| CycleError::TooManySlots { slots })?;
            // Threads that chase through as many slots do so in the same order.
            let known = placed.iter().find(|other| other.next.len() == slots as usize);
            let next = known.map_or_else(
                || cycle::order(slots, plan.scenario().seed).into(),
                |other| Arc::clone(&other.next),
            );
            let shift = chain.stride.ilog2();
            placed.push(PlacedChain { base: address + chain.offset, spacing, shift, next });
        }
    }
    Ok(placed)
}

fn placed(
    step: &PlannedStep,
    part: &PlanPart,
    room: Room,
    first_block: usize,
    base: u64,
    chains: &[PlacedChain],
) -> Result<PlacedPart, PlaceError> {
    let bases = part.bases(base);
    let pattern = step.kernel.description().streams.first().map(|stream| stream.pattern);
    let table = match pattern {
        Some(StreamPattern::Drawn { distribution, .. }) => {
            Some(DrawTable::new(distribution, part.geometry.elements)?)
        }
        _ => None,
    };
    let chain = chains.iter().find(|chain| chain.base == bases[0]);
    let follow: Follow = match (pattern, chain) {
        (Some(StreamPattern::Cycle { .. }), Some(chain)) => follow(chain),
        _ => Box::new(|pointer| pointer),
    };
    let Room { arguments, stack, table_at, .. } = room;
    Ok(PlacedPart { first_block, bases, arguments, stack, table_at, table, follow })
}

fn follow(chain: &PlacedChain) -> Follow {
    let (base, spacing, shift, next) = (chain.base, chain.spacing, chain.shift, Arc::clone(&chain.next));
    Box::new(move |pointer| {
        let slot = pointer.wrapping_sub(base) >> shift;
        let Some(&slot) = next.get(slot as usize) else { return base };
        // The cycle is too large for the host's caches, and this one is followed soon.
        next.get(slot as usize).inspect(|&next| expect(next));
        base + spacing.offset(slot)
    })
}
