//! Lines that another core has been granted and that are still here for a moment.
//!
//! A request changes the state of caches when it is made, but the core that loses a line does so only when the snoop
//! reaches it. Until then it reads and writes the line: a core that waited for the line with a store buffer full of
//! writes to it gets rid of them in that time. A snoop waits until the line has come and the core has confirmed it
//! ([`MemorySystem::confirmed`]), so a line that several cores want goes from one to the next, never faster than it
//! travels, and each has it for a while.

use super::{
    level::{SHARED, STATE},
    pages::line_in,
    system::{CoreSide, MemorySystem, Served},
};
use crate::access::Supplier;

/// Departures remembered per core; an older one counts as gone.
const KEPT: usize = 8;

/// A line that goes.
#[derive(Clone, Copy, Debug, Default)]
struct Departure {
    line: u64,
    /// When it was, or will be, here.
    ready: u64,
    /// When it goes.
    until: u64,
}

impl Departure {
    /// The first moment from `at` on at which the line is here.
    fn from(&self, at: u64) -> Option<u64> {
        let from = at.max(self.ready);
        (from < self.until).then_some(from)
    }
}

/// The lines that go from one core.
#[derive(Clone, Debug, Default)]
pub(super) struct Departing {
    kept: [Departure; KEPT],
    next: usize,
    /// The last one goes then: nothing to search for later.
    last: u64,
    /// Lines taken so far.
    pub taken: u64,
}

impl Departing {
    /// Another core takes `line`, which is here from `ready` on, at `until`.
    pub fn note(&mut self, line: u64, ready: u64, until: u64) {
        self.taken += 1;
        self.kept[self.next] = Departure { line, ready, until };
        self.next = (self.next + 1) % KEPT;
        self.last = self.last.max(until);
    }

    /// Whether a line is here at `at`, and no longer than for so long.
    pub fn goes_within(&self, line: u64, at: u64, time: u64) -> bool {
        at < self.last
            && self
                .kept
                .iter()
                .filter(|departure| departure.line == line)
                .any(|departure| departure.from(at).is_some_and(|from| from + time >= departure.until))
    }

    /// A line counts as gone.
    pub fn forget(&mut self, line: u64) {
        self.kept
            .iter_mut()
            .filter(|departure| departure.line == line)
            .for_each(|departure| departure.until = 0);
    }

    #[inline]
    fn find(&self, line: u64, at: u64) -> Option<u64> {
        if at >= self.last {
            return None;
        }
        self.kept.iter().filter(|departure| departure.line == line).find_map(|departure| departure.from(at))
    }
}

impl CoreSide {
    /// A load or store, of `cycles`, of a line that is about to go.
    #[inline]
    pub fn use_departing(&mut self, line: u64, start: u64, cycles: u64) -> Option<Served> {
        let from = self.departing.find(line, start)?;
        let supplier = if from > start { Supplier::FillBuffer } else { Supplier::L1 };
        if from > start {
            self.stats.l1.demand_pending += 1;
        } else {
            self.stats.l1.demand_hits += 1;
        }
        Some(Served { ready: from.max(start + cycles * self.cycle_fs), accepted: start, supplier })
    }
}

impl MemorySystem {
    /// The first moment from `at` on at which a core can write a line without asking for it.
    pub(super) fn writable_from(&mut self, core: usize, address: u64, at: u64) -> Option<u64> {
        let package = self.package_of(core);
        let line = line_in(self.pages.page(address, package), address);
        let side = &self.cores[core];
        side.departing.find(line, at).or_else(|| {
            let entry = side.l1.entry(side.l1.find(line)?);
            (entry.state() & STATE != SHARED).then(|| at.max(entry.ready()))
        })
    }

    /// When the last of the L2s whose bits are set has told its slice that a line has come.
    pub(super) fn confirmed(&self, socket: usize, bits: u64, line: u64) -> u64 {
        let first = self.sockets[socket].clusters.start;
        let (mut last, mut left) = (0, bits);
        while left != 0 {
            let number = first + left.trailing_zeros() as usize;
            left &= left - 1;
            let cluster = &self.clusters[number];
            let l1s = cluster.cores.clone().map(|core| &self.cores[core].l1);
            let copies = l1s.chain([&cluster.l2]).filter_map(|level| Some(level.entry(level.find(line)?)));
            let came = copies.map(|entry| entry.ready()).max().unwrap_or(0);
            last = last.max(came + self.way(number).0);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_here_from_when_it_came_until_it_goes() {
        let mut departing = Departing::default();
        departing.note(7, 100, 140);
        assert_eq!(departing.find(7, 50), Some(100));
        assert_eq!(departing.find(7, 139), Some(139));
        assert_eq!(departing.find(7, 140), None);
        assert_eq!(departing.find(8, 120), None);
        // It comes again, and goes again.
        departing.note(7, 300, 340);
        assert_eq!(departing.find(7, 120), Some(120));
        assert_eq!(departing.find(7, 200), Some(300));
        assert_eq!(departing.taken, 2);
    }
}
