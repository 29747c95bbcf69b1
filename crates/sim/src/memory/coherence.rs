//! Snoops: what a package's private caches, or a whole package, have of a line, and what they lose.

use super::{
    filter::Held,
    level::{MODIFIED, SHARED, STATE},
    slices::{DIRTY, ELSEWHERE, OWNED},
    system::MemorySystem,
};
use crate::signal::BoxSignal;

/// What a snoop found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnerFound {
    Nothing,
    Clean,
    Modified,
}

/// What the snooped cache may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// A copy it may not write.
    Shared,
    Nothing,
}

impl MemorySystem {
    /// Asks one L2 and the L1s above it. They have the line until `until`; `None` for a line that nobody else is to get,
    /// as no store of theirs is waiting for it.
    pub(super) fn snoop(&mut self, number: usize, line: u64, keep: Keep, until: Option<u64>) -> OwnerFound {
        let mut found = OwnerFound::Nothing;
        let mut note = |state: u8| {
            found =
                found.max(if state & STATE == MODIFIED { OwnerFound::Modified } else { OwnerFound::Clean });
        };
        let cluster = &mut self.clusters[number];
        if let Some(slot) = cluster.l2.find(line) {
            note(cluster.l2.entry(slot).state());
            cluster.l2.entry_mut(slot).set_state(SHARED);
            if keep == Keep::Nothing {
                cluster.l2.clear(slot);
                self.cores[cluster.cores.start].stats.l2.invalidations += 1;
            }
        }
        for core in cluster.cores.clone() {
            let side = &mut self.cores[core];
            if let Some(slot) = side.l1.find(line) {
                let entry = *side.l1.entry(slot);
                note(entry.state());
                if let Some(until) = until.filter(|_| entry.state() & STATE != SHARED) {
                    side.departing.note(line, entry.ready(), until);
                }
                side.l1.entry_mut(slot).set_state(SHARED);
                if keep == Keep::Nothing {
                    side.l1.clear(slot);
                    side.stats.l1.invalidations += 1;
                }
            }
        }
        let stats = &mut self.cores[cluster.cores.start].stats;
        stats.snoops += 1;
        stats.snoops_modified += u64::from(found == OwnerFound::Modified);
        found
    }

    /// Asks those L2s of a package whose bits are set. With the strongest answer come the bits of those that
    /// answered to have it.
    pub(super) fn snoop_all(
        &mut self,
        socket: usize,
        bits: u64,
        line: u64,
        keep: Keep,
        until: Option<u64>,
    ) -> (OwnerFound, u64) {
        let first = self.sockets[socket].clusters.start;
        let (mut found, mut having, mut left, mut asked) = (OwnerFound::Nothing, 0, bits, 0);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            asked += 1;
            let one = self.snoop(first + bit.trailing_zeros() as usize, line, keep, until);
            if one != OwnerFound::Nothing {
                having |= bit;
            }
            found = found.max(one);
        }
        self.sockets[socket].stats.snoops += asked;
        (found, having)
    }

    /// What a whole package has of a line, for others: it may keep an unmodified copy or nothing. Modified data is the
    /// caller's to carry on. A snoop for another package, at `at`, waits until the line has come to the private caches;
    /// the moment it is answered is returned.
    pub(super) fn snoop_package(
        &mut self,
        socket: usize,
        line: u64,
        keep: Keep,
        at: Option<u64>,
    ) -> (OwnerFound, u64) {
        let slot = self.sockets[socket].l3.as_ref().and_then(|l3| l3.find(l3.locate(line)));
        let mut found = OwnerFound::Nothing;
        let (mut held, mut at) = (Held::default(), at);
        if let Some(filter) = &self.sockets[socket].filter {
            held = filter.get(line);
        }
        if let (Some(slot), Some(l3)) = (slot, &self.sockets[socket].l3) {
            found =
                if l3.entry(slot).flags() & DIRTY != 0 { OwnerFound::Modified } else { OwnerFound::Clean };
            held.by |= l3.entry(slot).holders;
            held.owned |= l3.entry(slot).flags() & OWNED != 0;
        }
        if held.by != 0 {
            found = found.max(OwnerFound::Clean);
            if keep == Keep::Nothing || held.owned {
                at = at.map(|at| at.max(self.confirmed(socket, held.by, line)));
                found = found.max(self.snoop_all(socket, held.by, line, keep, at).0);
            }
        }
        let package = &mut self.sockets[socket];
        package.stats.modified_transfers_out += u64::from(found == OwnerFound::Modified);
        if let (Some(slot), Some(l3)) = (slot, &mut package.l3) {
            match keep {
                Keep::Nothing => {
                    l3.take(slot);
                    package.stats.removals += 1;
                }
                Keep::Shared => {
                    let entry = l3.entry_mut(slot);
                    entry.set_flags(entry.flags() & !(DIRTY | OWNED) | ELSEWHERE);
                }
            }
        }
        if let Some(filter) = &mut package.filter {
            let by = if keep == Keep::Nothing { 0 } else { held.by };
            filter.set(line, Held { by, owned: false, elsewhere: true });
        }
        if let Some(at) = at.filter(|_| found != OwnerFound::Nothing) {
            self.tell_slice(socket, line, BoxSignal::LookupSnoops, at);
        }
        (found, at.unwrap_or(0))
    }

    /// Tells the snoop filter that a cluster has dropped the last copy of a line.
    #[inline(never)]
    pub(super) fn forget_if_gone(&mut self, core: usize, line: u64) {
        let number = self.cores[core].cluster;
        if !self.cluster_holds(number, line) {
            self.forget(number, line);
        }
    }

    /// Takes a cluster off the snoop filter's list for a line.
    pub(super) fn forget(&mut self, number: usize, line: u64) -> Held {
        let (socket, bit) = (self.clusters[number].socket, self.clusters[number].bit);
        let Some(filter) = &mut self.sockets[socket].filter else {
            return Held::default();
        };
        let mut held = filter.get(line);
        held.by &= !bit;
        filter.set(line, held);
        held
    }
}
