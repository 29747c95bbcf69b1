//! What lies at an address at a moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{
    data::{Area, AreaKind, BlockKind, HeapBlock},
    ids::ProcessId,
    run::Run,
};

use crate::findings::{KnownLimits, ObjectId, ObjectPages};

/// A block this near to a small one that was written down is most likely of the same site.
const NEAR_BYTES: u64 = 64 << 10;

/// A block where it lies.
#[derive(Clone, Copy)]
struct Lying {
    end: u64,
    block: u32,
}

/// The address spaces of all processes, moving on in time.
pub(crate) struct Spaces<'a> {
    run: &'a Run,
    /// By process: first address of each block that is alive.
    alive: HashMap<ProcessId, BTreeMap<u64, Lying>>,
    /// The next block to come.
    next: usize,
    /// Processes that took over the blocks of their parent.
    begun: BTreeSet<ProcessId>,
    /// Blocks that samples touched, by object.
    touched: HashMap<ObjectId, BTreeSet<u32>>,
}

impl<'a> Spaces<'a> {
    pub fn new(run: &'a Run) -> Self {
        Self { run, alive: HashMap::new(), next: 0, begun: BTreeSet::new(), touched: HashMap::new() }
    }

    /// What lies there. Moments must not go back by more than a little.
    pub fn find(&mut self, process: ProcessId, address: u64, time_ns: u64) -> ObjectId {
        self.advance(time_ns);
        if let Some((key, block)) = self.block(process, address) {
            self.touched.entry(key).or_default().insert(block);
            return key;
        }
        if let Some(variable) = self.variable(process, address) {
            return ObjectId::Variable(variable);
        }
        self.area(process, address).map_or(ObjectId::Unknown, ObjectId::Area)
    }

    /// Lets blocks come up to a moment.
    fn advance(&mut self, time_ns: u64) {
        while let Some(block) = self.run.data.blocks.get(self.next).filter(|block| block.time_ns <= time_ns) {
            self.begin(block.process);
            self.place(block);
            self.next += 1;
        }
    }

    /// A forked process begins with what its parent had.
    fn begin(&mut self, process: ProcessId) {
        if !self.begun.insert(process) {
            return;
        }
        let parent =
            self.run.data.heap.iter().find(|log| log.process == process).and_then(|log| log.inherits);
        if let Some(inherited) = parent.and_then(|parent| self.alive.get(&parent)).cloned() {
            self.alive.insert(process, inherited);
        }
    }

    fn place(&mut self, block: &HeapBlock) {
        let blocks = self.alive.entry(block.process).or_default();
        let end = block.address.saturating_add(block.size_bytes.max(1));
        // What overlaps is gone; it may begin before.
        let before = blocks.range(..block.address).next_back().filter(|(_, lying)| lying.end > block.address);
        let first = before.map_or(block.address, |(&start, _)| start);
        let gone: Vec<u64> = blocks.range(first..end).map(|(&start, _)| start).collect();
        for start in gone {
            blocks.remove(&start);
        }
        if block.kind != BlockKind::Unmapped {
            blocks.insert(block.address, Lying { end, block: u32::try_from(self.next).unwrap_or(u32::MAX) });
        }
    }

    /// The block at an address, or a small one beside it.
    fn block(&mut self, process: ProcessId, address: u64) -> Option<(ObjectId, u32)> {
        self.begin(process);
        let blocks = self.alive.get(&process)?;
        let below = blocks.range(..=address).next_back();
        if let Some((_, lying)) = below.filter(|(_, lying)| lying.end > address) {
            return Some((self.key(lying.block)?, lying.block));
        }
        let above = blocks.range(address..).next();
        let distance = |start: u64, lying: &Lying| {
            if start > address { start - address } else { address - lying.end + 1 }
        };
        let small = |(&start, lying): (&u64, &Lying)| {
            let block = self.run.data.blocks.get(lying.block as usize)?;
            let far = distance(start, lying);
            (block.kind == BlockKind::Small && far < NEAR_BYTES).then_some((far, lying.block))
        };
        let (_, nearest) = [below.and_then(small), above.and_then(small)].into_iter().flatten().min()?;
        // The stack and mapped files are no neighbours of the heap.
        let is_heap = self.area(process, address).is_none_or(|area| {
            matches!(self.run.data.areas[area as usize].kind, AreaKind::Heap | AreaKind::Anonymous)
        });
        is_heap.then(|| self.key(nearest).map(|key| (key, nearest))).flatten()
    }

    fn key(&self, block: u32) -> Option<ObjectId> {
        self.run.data.blocks.get(block as usize).and_then(ObjectId::of_block)
    }

    fn variable(&self, process: ProcessId, address: u64) -> Option<u32> {
        let variables = &self.run.data.variables;
        let found = variables.iter().position(|variable| {
            variable.process == process && (variable.start..variable.end).contains(&address)
        })?;
        u32::try_from(found).ok()
    }

    fn area(&self, process: ProcessId, address: u64) -> Option<u32> {
        let areas = &self.run.data.areas;
        let after = areas.partition_point(|area| (area.process, area.start) <= (process, address));
        let found = after.checked_sub(1)?;
        let area: &Area = &areas[found];
        (area.process == process && address < area.end).then_some(u32::try_from(found).ok()?)
    }

    /// Bytes of an object, as far as known.
    pub fn size(&self, key: &ObjectId) -> KnownLimits<u64> {
        match key {
            ObjectId::Variable(index) => self.run.data.variables.get(*index as usize).map_or_else(
                || KnownLimits::Missing("no such variable".to_owned()),
                |found| KnownLimits::Value(found.end - found.start),
            ),
            ObjectId::Heap { .. } => {
                let blocks = self.touched.get(key).into_iter().flatten();
                let blocks = blocks.filter_map(|&block| self.run.data.blocks.get(block as usize));
                let (mut bytes, mut small) = (0, false);
                for block in blocks {
                    bytes += block.size_bytes;
                    small |= block.kind == BlockKind::Small;
                }
                match small {
                    false => KnownLimits::Value(bytes),
                    true => {
                        KnownLimits::Missing("only some of its small blocks were written down".to_owned())
                    }
                }
            }
            ObjectId::Area(index) => self.run.data.areas.get(*index as usize).map_or_else(
                || KnownLimits::Missing("no such area".to_owned()),
                |area| KnownLimits::Value(area.end - area.start),
            ),
            ObjectId::Unknown => KnownLimits::Missing("no mapping is known there".to_owned()),
        }
    }

    /// Blocks of an object that samples touched, or came near to.
    pub fn blocks(&self, key: &ObjectId) -> u64 {
        self.touched.get(key).map_or(1, |blocks| blocks.len() as u64)
    }

    /// Pages of the areas that an object lies in.
    pub fn pages(&self, key: &ObjectId) -> KnownLimits<ObjectPages> {
        let area_of = |process: ProcessId, address: u64| self.area(process, address);
        let areas: BTreeSet<u32> = match key {
            ObjectId::Area(index) => [*index].into(),
            ObjectId::Heap { .. } => {
                let blocks = self.touched.get(key).into_iter().flatten();
                let blocks = blocks.filter_map(|&block| self.run.data.blocks.get(block as usize));
                blocks.filter_map(|block| area_of(block.process, block.address)).collect()
            }
            ObjectId::Variable(index) => {
                let variable = self.run.data.variables.get(*index as usize);
                variable.and_then(|found| area_of(found.process, found.start)).into_iter().collect()
            }
            ObjectId::Unknown => BTreeSet::new(),
        };
        let mut pages = ObjectPages::default();
        for area in areas.iter().filter_map(|&area| self.run.data.areas.get(area as usize)) {
            let Some(of_area) = &area.pages else {
                return KnownLimits::Missing("the kernel did not say".to_owned());
            };
            pages.mapped_bytes += area.end - area.start;
            pages.huge_bytes += of_area.huge_bytes;
            for &(node, bytes) in &of_area.nodes {
                match pages.nodes.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, sum)) => *sum += bytes,
                    None => pages.nodes.push((node, bytes)),
                }
            }
        }
        match pages.mapped_bytes {
            0 => KnownLimits::Missing("its mapping was gone before it was looked at".to_owned()),
            _ => KnownLimits::Value(pages),
        }
    }
}
