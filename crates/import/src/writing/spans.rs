//! What lay where in the memory of processes, as far as a file tells.

use std::collections::{BTreeMap, HashMap};

use pmu::sampling::Mmap;
use recorder::{Replay, ReplayedArea};

/// Areas that are remembered, over all processes.
const MOST_AREAS: usize = 1 << 18;

/// By process and first address.
#[derive(Debug, Default)]
pub(super) struct AddressSpaces {
    by_process: HashMap<i32, BTreeMap<u64, ReplayedArea>>,
    count: usize,
}

impl AddressSpaces {
    /// Something is mapped, over whatever was there.
    pub fn map(&mut self, mmap: &Mmap<'_>) {
        let end = mmap.start.saturating_add(mmap.length);
        if mmap.pid <= 0 || mmap.start >= end || self.count >= MOST_AREAS {
            return;
        }
        let space = self.by_process.entry(mmap.pid).or_default();
        let under: Vec<u64> = space
            .range(..end)
            .rev()
            .take_while(|(_, area)| area.end > mmap.start)
            .map(|(start, _)| *start)
            .collect();
        for start in under {
            let Some(old) = space.remove(&start) else { continue };
            self.count -= 1;
            for (start, end) in [(old.start, mmap.start), (end, old.end)] {
                if start < end {
                    self.count += 1;
                    space.insert(start, ReplayedArea { start, end, name: old.name.clone() });
                }
            }
        }
        let name = String::from_utf8_lossy(mmap.path).into_owned();
        space.insert(mmap.start, ReplayedArea { start: mmap.start, end, name });
        self.count += 1;
    }

    /// A process executes another program.
    pub fn forget(&mut self, pid: i32) {
        self.count -= self.by_process.remove(&pid).map_or(0, |space| space.len());
    }

    /// A process ends: what it had is written down.
    pub fn end(&mut self, pid: i32, replay: &mut Replay) {
        if let Some(space) = self.by_process.remove(&pid) {
            self.count -= space.len();
            write(pid, space, replay);
        }
    }

    /// All that is left.
    pub fn hand_over(&mut self, replay: &mut Replay) {
        self.count = 0;
        self.by_process.drain().for_each(|(pid, space)| write(pid, space, replay));
    }
}

fn write(pid: i32, space: BTreeMap<u64, ReplayedArea>, replay: &mut Replay) {
    let areas: Vec<ReplayedArea> = space.into_values().collect();
    replay.areas(pid, &areas);
}
