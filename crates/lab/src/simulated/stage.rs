//! A scenario's plan on a simulated machine: code and data placed.

use std::sync::Arc;

use code::Block;
use kernels::{
    PagePolicy,
    cycle::{self, CycleError, Spacing},
    description::Pattern,
    draw::DrawTable,
    geometry::LINE,
    scenario::{Part, Plan, PlannedStep},
};
use machine::Bytes;
use sim::{
    kernel_source::TeamError,
    memory::{MemorySystem, PageSize},
};

/// Everything begins at a multiple of this, so that huge pages are possible.
const ALIGNMENT: u64 = 2 << 20;
/// Beside its code each thread has a page of arguments per step, a stack and tables.
const PAGE: u64 = 4096;
/// A draw table and room around it.
const TABLE_BYTES: u64 = 16 << 10;

type Follow = Box<dyn Fn(u64) -> u64>;

/// A part of a step, placed.
pub(super) struct Role {
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
pub(super) struct Stage<'p> {
    pub plan: &'p Plan,
    /// All programs of each thread, one behind the other.
    pub blocks: Vec<Arc<[Block]>>,
    /// By thread, then by step.
    pub roles: Vec<Vec<Option<Role>>>,
    /// Where each instance lies.
    instances: Vec<u64>,
}

impl<'p> Stage<'p> {
    /// Decodes and places.
    pub fn prepare(plan: &'p Plan) -> Result<Self, TeamError> {
        let mut end = ALIGNMENT;
        let mut place = |bytes: u64| {
            let address = end;
            end = (end + bytes.max(1)).next_multiple_of(ALIGNMENT);
            address
        };
        let instances: Vec<u64> =
            plan.instances().iter().map(|instance| place(instance.allocate.0)).collect();
        let chains = chains(plan, &instances)?;
        let mut roles: Vec<Vec<Option<Role>>> = Vec::new();
        let mut blocks = Vec::new();
        for thread in 0..plan.threads() {
            let mut all: Vec<Block> = Vec::new();
            let mut of_thread = Vec::new();
            for step in plan.steps() {
                let Some(part) = step.part(thread) else {
                    of_thread.push(None);
                    continue;
                };
                let own = place(part.program.code.len() as u64 + 4 * PAGE + TABLE_BYTES);
                let decoded = part
                    .program
                    .blocks(own)
                    .map_err(|source| TeamError::Decode { kernel: step.kernel.name().to_owned(), source })?;
                let role = role(step, part, own, all.len(), &instances, &chains)?;
                of_thread.push(Some(role));
                all.extend(decoded);
            }
            roles.push(of_thread);
            blocks.push(all.into());
        }
        Ok(Self { plan, blocks, roles, instances })
    }

    /// Gives every buffer pages: of the node asked for, or of the package its owner runs on.
    pub fn place(&self, memory: &mut MemorySystem, packages: &[u32], nodes: &[Option<u32>]) {
        for (index, instance) in self.plan.instances().iter().enumerate() {
            let home = packages.get(instance.thread.unwrap_or(0)).copied().unwrap_or(0);
            let node = nodes.get(index).copied().flatten().unwrap_or(home);
            let size = page_size(self.plan, instance.buffer);
            let address = self.instances[index];
            memory.map(address..address + instance.allocate.0, node, size);
        }
    }
}

/// Pages that a buffer asks for.
pub(super) fn page_size(plan: &Plan, buffer: usize) -> PageSize {
    match plan.scenario().buffers[buffer].pages {
        PagePolicy::Small => PageSize::Small,
        _ => PageSize::Huge,
    }
}

/// A cycle of pointers: where it begins and which slot follows which.
struct Laid {
    base: u64,
    spacing: Spacing,
    shift: u32,
    next: Arc<[u32]>,
}

fn chains(plan: &Plan, instances: &[u64]) -> Result<Vec<Laid>, TeamError> {
    let mut laid = Vec::new();
    for (instance, &address) in plan.instances().iter().zip(instances) {
        for chain in &instance.chains {
            let spacing = Spacing::every_stride(Bytes(LINE), Bytes(chain.stride))?;
            let slots = spacing.slots(Bytes(chain.bytes));
            let slots = u32::try_from(slots).map_err(|_| CycleError::TooManySlots { slots })?;
            let next = cycle::order(slots, plan.scenario().seed).into();
            laid.push(Laid { base: address + chain.offset, spacing, shift: chain.stride.ilog2(), next });
        }
    }
    Ok(laid)
}

fn role(
    step: &PlannedStep,
    part: &Part,
    own: u64,
    first_block: usize,
    instances: &[u64],
    chains: &[Laid],
) -> Result<Role, TeamError> {
    let base = part.instance.and_then(|instance| instances.get(instance)).copied().unwrap_or(0);
    let bases = part.bases(base);
    let pattern = step.kernel.description().streams.first().map(|stream| stream.pattern);
    let table = match pattern {
        Some(Pattern::Drawn { distribution, .. }) => {
            Some(DrawTable::new(distribution, part.geometry.elements)?)
        }
        _ => None,
    };
    let chain = chains.iter().find(|chain| chain.base == bases[0]);
    let follow: Follow = match (pattern, chain) {
        (Some(Pattern::Cycle { .. }), Some(chain)) => {
            let (start, spacing, shift, next) = (chain.base, chain.spacing, chain.shift, chain.next.clone());
            Box::new(move |pointer| {
                let slot = (pointer.wrapping_sub(start) >> shift) as usize;
                start + next.get(slot).map_or(0, |&next| spacing.offset(next))
            })
        }
        _ => Box::new(|pointer| pointer),
    };
    let arguments = (own + part.program.code.len() as u64).next_multiple_of(PAGE);
    let (stack, table_at) = (arguments + PAGE + PAGE / 2, arguments + 2 * PAGE);
    Ok(Role { first_block, bases, arguments, stack, table_at, table, follow })
}
