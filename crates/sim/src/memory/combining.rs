//! Non-temporal stores: gathered in write-combining buffers, sent to memory as whole lines, past the caches.
//!
//! A request does not say how wide it is, so a buffer takes the distance of its last two stores as their width and is
//! whole when as many of them fill the line. A store that fills a line alone is known as such when the next line
//! begins. A sent line keeps its fill buffer until memory has answered. Buffers that are never whole are sent when others need their place, or at a fence.

use super::{
    coherence::{Keep, OwnerFound},
    system::{MemorySystem, Served},
};
use crate::access::Supplier;

/// Open buffers of one core.
#[derive(Clone, Debug)]
pub(super) struct Combining {
    open: Vec<OpenLine>,
    limit: usize,
    /// When memory has answered for all lines that were sent.
    answered: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenLine {
    line: u64,
    last: u64,
    width: Option<u64>,
    stores: u64,
}

impl Combining {
    pub fn new(buffers: u32) -> Self {
        let limit = buffers.max(1) as usize;
        Self { open: Vec::with_capacity(limit), limit, answered: 0 }
    }

    /// Adds a store to an open buffer; its place, if it is whole now.
    fn add(&mut self, place: usize, offset: u64) -> Option<usize> {
        let open = &mut self.open[place];
        if offset != open.last {
            open.width = Some(offset.abs_diff(open.last));
            open.stores += 1;
        }
        open.last = offset;
        open.width.is_some_and(|width| width * open.stores >= 64).then_some(place)
    }
}

impl MemorySystem {
    /// A store past the caches.
    pub(super) fn store_past(&mut self, core: usize, line: u64, address: u64, at: u64) -> Served {
        let side = &mut self.cores[core];
        side.stats.stores_non_temporal += 1;
        let start = at.max(side.lanes.store(at / side.cycle_fs) * side.cycle_fs);
        let offset = address % 64;
        let mut accepted = start;
        if let Some(place) = side.combining.open.iter().position(|open| open.line == line) {
            if let Some(whole) = side.combining.add(place, offset) {
                accepted = self.send_combined(core, whole, start, true);
            }
        } else {
            let before = line.wrapping_sub(1);
            let alone = |open: &OpenLine| open.line == before && open.stores == 1 && open.last == 0;
            if let Some(place) = side.combining.open.iter().position(alone) {
                accepted = self.send_combined(core, place, start, true);
            }
            if self.cores[core].combining.open.len() >= self.cores[core].combining.limit {
                accepted = accepted.max(self.send_combined(core, 0, start, false));
            }
            self.clear_copies(core, line, start);
            self.cores[core].combining.open.push(OpenLine { line, last: offset, width: None, stores: 1 });
        }
        let ready = accepted.max(start) + self.cores[core].cycle_fs;
        Served { ready, accepted, supplier: Supplier::FillBuffer }
    }

    /// Sends what waits in a core's write-combining buffers, as a fence does; returns when memory has answered for all
    /// that was ever sent.
    pub(super) fn drain_combining(&mut self, core: usize, at: u64) -> u64 {
        while let Some(open) = self.cores[core].combining.open.first() {
            let whole = open.stores == 1 && open.last == 0;
            self.send_combined(core, 0, at, whole);
        }
        at.max(self.cores[core].combining.answered)
    }

    /// Sends a buffer to memory; returns when it has a fill buffer to go from.
    fn send_combined(&mut self, core: usize, place: usize, at: u64, whole: bool) -> u64 {
        let side = &mut self.cores[core];
        let open = side.combining.open.remove(place);
        let (buffer, got) = side.fill_buffers.acquire(at);
        if got > at {
            side.stats.fill_buffer_waits += 1;
            side.stats.fill_buffer_wait_fs += got - at;
        }
        if whole {
            side.stats.non_temporal_lines += 1;
        } else {
            side.stats.non_temporal_partial += 1;
        }
        let number = side.cluster;
        let socket = self.clusters[number].socket;
        let (there, back) = self.way(number);
        self.disturb(socket, got);
        let sent = got + there;
        let written = self.write_home(socket, open.line, sent);
        let memory = &mut self.sockets[super::pages::home(open.line)].memory;
        memory.stats.writes_non_temporal += 1;
        // The buffer is free when the controller has answered, which takes as long as a read's answer.
        let answered = written.max(sent) + memory.idle_fs() + back;
        let side = &mut self.cores[core];
        side.combining.answered = side.combining.answered.max(answered);
        side.fill_buffers.hold(buffer, answered);
        got
    }

    /// Takes a line out of all caches before it is written past them.
    fn clear_copies(&mut self, core: usize, line: u64, at: u64) {
        let own = self.package_of(core);
        // Its own package first: that is where a copy most likely is.
        for step in 0..self.sockets.len() {
            let socket = (own + step) % self.sockets.len();
            if self.visits.may_hold(line) >> socket & 1 == 1
                && self.snoop_package(socket, line, Keep::Nothing, None).0 == OwnerFound::Modified
            {
                self.write_home(socket, line, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_whole_when_its_stores_fill_the_line() {
        for width in [4u64, 8, 16, 32] {
            let mut combining = Combining::new(4);
            combining.open.push(OpenLine { line: 7, last: 0, width: None, stores: 1 });
            let whole: Vec<bool> = (1..64 / width).map(|n| combining.add(0, n * width).is_some()).collect();
            assert!(
                whole.last() == Some(&true) && whole.iter().filter(|&&whole| whole).count() == 1,
                "{width}"
            );
        }
    }
}
