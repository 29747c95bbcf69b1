//! Looks at all caches at once and says what must not be. For tests; slow.

use std::collections::HashMap;

use super::{
    level::{MODIFIED, SHARED, STATE},
    slices::OWNED,
    system::MemorySystem,
};

/// What the clusters hold of a line: number of clusters, and of those that may write it.
#[derive(Default)]
struct Copies {
    clusters: Vec<usize>,
    writers: usize,
}

impl MemorySystem {
    /// Breaches of coherence, inclusion and bookkeeping; empty when all is well.
    pub fn audit(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let copies = self.all_copies();
        for (line, copies) in &copies {
            if copies.writers > 1 || (copies.writers == 1 && copies.clusters.len() > 1) {
                faults.push(format!(
                    "line {line:#x}: {} writers, held by {:?}",
                    copies.writers, copies.clusters
                ));
            }
            for &number in &copies.clusters {
                faults.extend(self.directory_fault(number, *line));
            }
        }
        self.audit_counts(&mut faults);
        faults
    }

    fn all_copies(&self) -> HashMap<u64, Copies> {
        let mut copies: HashMap<u64, Copies> = HashMap::new();
        for (number, cluster) in self.clusters.iter().enumerate() {
            let mut states: HashMap<u64, u8> = HashMap::new();
            let l1s = cluster.cores.clone().map(|core| &self.cores[core].l1);
            for level in l1s.chain([&cluster.l2]) {
                for (slot, line) in level.held() {
                    let state = states.entry(line).or_default();
                    *state = (*state).max(level.entry(slot).state() & STATE);
                }
            }
            for (line, state) in states {
                let entry = copies.entry(line).or_default();
                entry.clusters.push(number);
                entry.writers += usize::from(state > SHARED);
            }
        }
        copies
    }

    /// Whether the directory of its package knows that a cluster has a line.
    fn directory_fault(&self, number: usize, line: u64) -> Option<String> {
        let cluster = &self.clusters[number];
        let package = &self.sockets[cluster.socket];
        let by = match (&package.filter, &package.l3) {
            (Some(filter), _) => filter.get(line).by,
            (None, Some(l3)) => match l3.find(l3.locate(line)) {
                Some(slot) => l3.entry(slot).holders,
                None => {
                    return Some(format!("line {line:#x} of cluster {number} is not in the inclusive L3"));
                }
            },
            (None, None) => 0,
        };
        (by & cluster.bit == 0).then(|| format!("line {line:#x} of cluster {number} is not in the directory"))
    }

    /// Lines in minus lines out is what is held, everywhere; writers in a shared cluster are alone in it.
    fn audit_counts(&self, faults: &mut Vec<String>) {
        let check = |faults: &mut Vec<String>, what: String, fills: u64, out: u64, held: usize| {
            if fills != out + held as u64 {
                faults.push(format!("{what}: {fills} lines in, {out} out, {held} held"));
            }
        };
        for (core, side) in self.cores.iter().enumerate() {
            let l1 = &side.stats.l1;
            let out = l1.evictions_clean + l1.evictions_modified + l1.invalidations;
            check(faults, format!("L1 of core {core}"), l1.fills, out, side.l1.held().count());
        }
        for (number, cluster) in self.clusters.iter().enumerate() {
            let stats = cluster.cores.clone().map(|core| &self.cores[core].stats.l2);
            let (fills, out) = stats.fold((0, 0), |(fills, out), l2| {
                (fills + l2.fills, out + l2.evictions_clean + l2.evictions_modified + l2.invalidations)
            });
            check(faults, format!("L2 {number}"), fills, out, cluster.l2.held().count());
        }
        for (number, package) in self.sockets.iter().enumerate() {
            let Some(l3) = &package.l3 else { continue };
            let stats = &package.stats;
            let out = stats.evictions_clean + stats.evictions_modified + stats.removals;
            check(faults, format!("L3 {number}"), stats.fills, out, l3.held().count());
            for (slot, line) in l3.held() {
                if l3.entry(slot).flags() & OWNED != 0 && l3.entry(slot).holders.count_ones() > 1 {
                    faults.push(format!("line {line:#x} of L3 {number} is owned by several"));
                }
            }
        }
        for cluster in self.clusters.iter().filter(|cluster| cluster.cores.len() > 1) {
            for core in cluster.cores.clone() {
                let l1 = &self.cores[core].l1;
                for (slot, line) in l1.held().filter(|&(slot, _)| l1.entry(slot).state() & STATE == MODIFIED)
                {
                    let mut siblings = cluster.cores.clone().filter(|&sibling| sibling != core);
                    if siblings.any(|sibling| self.cores[sibling].l1.find(line).is_some()) {
                        faults.push(format!("line {line:#x} in slot {slot} is modified and not alone"));
                    }
                }
            }
        }
    }
}
