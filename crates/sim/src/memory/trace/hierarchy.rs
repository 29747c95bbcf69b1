//! The caches of a model without time, prefetchers and coherence: cores meet in the capacity of the L3 only, and a
//! write takes no line from others.

use std::ops::Range;

use machine::model::{Inclusion, Model};

use crate::memory::{
    cache::{EMPTY, SetCache},
    fault::{self, ModelFault},
    spread::Spread,
};

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceLevel {
    /// In the core's L1.
    L1,
    /// In the core's L2.
    L2,
    /// In the package's L3.
    L3,
    /// Nowhere.
    Memory,
}

/// What one core found where, by [`TraceLevel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Accesses served per level.
    pub served: [u64; 4],
}

impl LevelCounts {
    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.served.iter().sum()
    }

    /// Share of the accesses that reached a level that it served; `None` if none did.
    pub fn hit_rate(&self, level: TraceLevel) -> Option<f64> {
        let reached: u64 = self.served[level as usize..].iter().sum();
        (reached > 0).then(|| self.served[level as usize] as f64 / reached as f64)
    }
}

/// What is known of a line.
#[derive(Clone, Copy, Debug, Default)]
struct TracedNote {
    /// It differs from what is below.
    dirty: bool,
    /// One bit per L2 of the package that may hold it, in an L3.
    holders: u64,
}

type TracedStore = SetCache<TracedNote>;

/// Puts a line into a slot; the line that had to go, and what was known of it.
fn put(store: &mut TracedStore, slot: usize, line: u64, note: TracedNote) -> Option<(u64, TracedNote)> {
    Some(store.replace(slot, line, note)).filter(|&(line, _)| line != EMPTY)
}

/// Takes a line out; whether it was there and dirty.
fn take(store: &mut TracedStore, index: u64, line: u64) -> Option<bool> {
    let slot = store.find(index, line)?;
    store.clear(slot);
    Some(store.note(slot).dirty)
}

struct TracedCore {
    l1: TracedStore,
    /// Line used last, which needs no search; and its slot.
    recent: (u64, usize),
    l2: usize,
    package: usize,
    counts: LevelCounts,
}

struct TracedShared {
    store: TracedStore,
    spread: Spread,
    sets_per_slice: u64,
    inclusive: bool,
}

impl TracedShared {
    fn index(&self, line: u64) -> u64 {
        let (slice, within) = self.spread.place(line);
        slice as u64 * self.sets_per_slice + within % self.sets_per_slice
    }
}

/// A model's caches, without time.
pub struct Hierarchy {
    cores: Vec<TracedCore>,
    l2: Vec<TracedStore>,
    /// The cores above each L2.
    above: Vec<Range<usize>>,
    l3: Vec<Option<TracedShared>>,
    written: u64,
}

impl Hierarchy {
    /// The caches of `model`, empty. `seed` is for random replacement.
    pub fn new(model: &Model, seed: u64) -> Result<Self, ModelFault> {
        fault::check(model)?;
        let shared_by = model.l2.shared_by_cores.max(1) as usize;
        let per_socket = model.cores_per_socket as usize;
        let l2_per_socket = per_socket.div_ceil(shared_by);
        let cores = (0..per_socket * model.sockets as usize).map(|core| TracedCore {
            l1: TracedStore::with_geometry(&model.l1d.geometry, seed),
            recent: (EMPTY, 0),
            l2: core / per_socket * l2_per_socket + core % per_socket / shared_by,
            package: core / per_socket,
            counts: LevelCounts::default(),
        });
        let l3 = |_| {
            let l3 = model.l3.as_ref()?;
            let sets = l3.geometry.size.0 / (64 * u64::from(l3.geometry.ways) * u64::from(l3.slices));
            let sets_per_slice = sets.max(1);
            let sets = sets_per_slice * u64::from(l3.slices);
            let store = TracedStore::new(sets, l3.geometry.ways, l3.geometry.replacement, seed);
            Some(TracedShared {
                store,
                spread: Spread::new(l3.slices),
                sets_per_slice,
                inclusive: l3.inclusion == Inclusion::Inclusive,
            })
        };
        let above = |l2: usize| {
            let first = l2 / l2_per_socket * per_socket + l2 % l2_per_socket * shared_by;
            first..(first + shared_by).min((l2 / l2_per_socket + 1) * per_socket)
        };
        Ok(Self {
            cores: cores.collect(),
            above: (0..l2_per_socket * model.sockets as usize).map(above).collect(),
            l2: (0..l2_per_socket * model.sockets as usize)
                .map(|_| TracedStore::with_geometry(&model.l2.geometry, seed))
                .collect(),
            l3: (0..model.sockets).map(l3).collect(),
            written: 0,
        })
    }

    /// One access of one core, within a line; where it found it.
    #[inline]
    pub fn access(&mut self, core: usize, address: u64, write: bool) -> TraceLevel {
        let line = address / 64;
        let side = &mut self.cores[core];
        if side.recent.0 == line {
            side.l1.note_mut(side.recent.1).dirty |= write;
            side.counts.served[0] += 1;
            return TraceLevel::L1;
        }
        if let Some(slot) = side.l1.find(line, line) {
            side.l1.touch(slot);
            side.l1.note_mut(slot).dirty |= write;
            side.recent = (line, slot);
            side.counts.served[0] += 1;
            return TraceLevel::L1;
        }
        let level = self.fetch(core, line);
        let side = &mut self.cores[core];
        side.counts.served[level as usize] += 1;
        let slot = side.l1.victim(line);
        let note = TracedNote { dirty: write, holders: 0 };
        if let Some((gone, TracedNote { dirty: true, .. })) = put(&mut side.l1, slot, line, note) {
            let l2 = side.l2;
            self.put_level_two(l2, gone, true);
        }
        let side = &mut self.cores[core];
        // Making room may have taken the line away again, in a cache of very few lines.
        side.recent = side.l1.find(line, line).map_or((EMPTY, 0), |slot| (line, slot));
        level
    }

    /// Brings a line into the L2; where it was.
    fn fetch(&mut self, core: usize, line: u64) -> TraceLevel {
        let (l2, package) = (self.cores[core].l2, self.cores[core].package);
        if let Some(slot) = self.l2[l2].find(line, line) {
            self.l2[l2].touch(slot);
            return TraceLevel::L2;
        }
        let (mut level, mut dirty) = (TraceLevel::Memory, false);
        let holder = 1 << (l2 % (self.l2.len() / self.l3.len()));
        if let Some(l3) = &mut self.l3[package] {
            let index = l3.index(line);
            let found = l3.store.find(index, line);
            if let Some(slot) = found {
                level = TraceLevel::L3;
                l3.store.touch(slot);
                l3.store.note_mut(slot).holders |= holder;
            }
            if !l3.inclusive {
                dirty = take(&mut l3.store, index, line).unwrap_or(false);
            } else if found.is_none() {
                self.put_shared(package, line, false, holder);
            }
        }
        self.put_level_two(l2, line, dirty);
        level
    }

    fn put_level_two(&mut self, number: usize, line: u64, dirty: bool) {
        let l2 = &mut self.l2[number];
        if let Some(slot) = l2.find(line, line) {
            l2.note_mut(slot).dirty |= dirty;
            return;
        }
        let slot = l2.victim(line);
        let note = TracedNote { dirty, holders: 0 };
        let Some((gone, TracedNote { dirty, .. })) = put(l2, slot, line, note) else { return };
        let package = number / (self.l2.len() / self.l3.len());
        match &mut self.l3[package] {
            None => self.written += u64::from(dirty),
            // It is there still and has not changed.
            Some(l3) if l3.inclusive && !dirty => {}
            Some(l3) => {
                let index = l3.index(gone);
                match l3.store.find(index, gone) {
                    Some(slot) => l3.store.note_mut(slot).dirty |= dirty,
                    None if l3.inclusive => self.written += u64::from(dirty),
                    None => self.put_shared(package, gone, dirty, 0),
                }
            }
        }
    }

    fn put_shared(&mut self, package: usize, line: u64, dirty: bool, holder: u64) {
        let Some(l3) = &mut self.l3[package] else { return };
        let index = l3.index(line);
        let slot = l3.store.victim(index);
        let note = TracedNote { dirty, holders: holder };
        let Some((gone, TracedNote { mut dirty, mut holders })) = put(&mut l3.store, slot, line, note) else {
            return;
        };
        if !l3.inclusive {
            holders = 0;
        }
        while holders != 0 {
            let number = package * (self.l2.len() / self.l3.len()) + holders.trailing_zeros() as usize;
            holders &= holders - 1;
            dirty |= self.take_back(number, gone);
        }
        self.written += u64::from(dirty);
    }

    /// Takes a line from an L2 and the L1s above it; whether one of them had changed it.
    fn take_back(&mut self, number: usize, line: u64) -> bool {
        let mut dirty = take(&mut self.l2[number], line, line) == Some(true);
        let above = self.above[number].clone();
        for side in &mut self.cores[above] {
            dirty |= take(&mut side.l1, line, line) == Some(true);
            if side.recent.0 == line {
                side.recent = (EMPTY, 0);
            }
        }
        dirty
    }

    /// What one core found where.
    pub fn counts(&self, core: usize) -> &LevelCounts {
        &self.cores[core].counts
    }

    /// Forgets the counts, keeps the contents: after warming up.
    pub fn reset_counts(&mut self) {
        self.cores.iter_mut().for_each(|core| core.counts = LevelCounts::default());
        self.written = 0;
    }

    /// Modified lines written to memory.
    pub fn lines_written(&self) -> u64 {
        self.written
    }
}
