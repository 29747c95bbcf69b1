//! The store buffer: from dispatch until the store has drained into the L1.
//!
//! A store asks for its line when it retires, so several requests are in flight; commits are in order, one per cycle.
//! Requests are held back until the clock of the core, or a younger load, has reached the moment of retirement: the
//! memory system sees requests nearly in the order of time.
//!
//! A store is given its commit when it asks for its line. If another core takes the line before that moment, the store
//! and all behind it commit later: it has to ask again when it is the oldest. A load is forwarded its data meanwhile
//! and needs no line, so a core notices the loss of a line only when its buffer is full.

use super::{access::AccessPlace, clock::CoreClock};
use crate::{
    access::{MemoryPort, MemoryRequest, RequestKind, Response},
    time::Time,
};

/// Buckets of the table from lines to stores.
const BUCKETS: usize = 256;
/// A moment that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// A store in the buffer, or just drained from it.
#[derive(Clone, Copy, Debug)]
struct BufferedStore {
    address: u64,
    bytes: u64,
    instruction: u64,
    non_temporal: bool,
    /// Its address is known.
    addressed: u64,
    /// Address and data are there.
    ready: u64,
    /// The register that is stored is known.
    value: u64,
    retired: u64,
    commit: u64,
    /// The number, plus one, of the store before it in the same bucket; for the first and the last line.
    before: [u64; 2],
}

impl BufferedStore {
    /// When the store can commit, from `commit` on: it asks for its line again if another core has taken it.
    fn own_at<M: MemoryPort>(&self, commit: u64, port: &mut StorePort<'_, M>) -> u64 {
        if self.non_temporal {
            return commit;
        }
        let first = port.own_at(self.address, commit, self.instruction);
        match port.crosses(self.address, self.bytes) {
            true => port.own_at(port.second_line(self.address), first, self.instruction),
            false => first,
        }
    }
}

/// What an older store means to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedStore {
    /// No store in the buffer overlaps.
    Nothing,
    /// It holds all of the load's bytes.
    Forward {
        /// From this cycle on.
        ready: u64,
        /// The register they come from is known from this cycle on.
        value: u64,
        /// When its address was known.
        addressed: u64,
    },
    /// It holds some of them: the load waits until the store has drained.
    Blocked {
        /// The store's.
        number: u64,
        /// When its address was known.
        addressed: u64,
    },
}

impl ForwardedStore {
    /// When the address of the store that overlaps was known.
    pub fn addressed(self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Forward { addressed, .. } | Self::Blocked { addressed, .. } => Some(addressed),
        }
    }
}

/// Where requests go.
pub(crate) struct StorePort<'a, M> {
    pub memory: &'a mut M,
    pub clock: &'a CoreClock,
    pub core: usize,
    pub line_bytes: u64,
    pub split_penalty: u64,
}

impl<M: MemoryPort> StorePort<'_, M> {
    /// Asks at `cycle`; gives the cycles until it is done, and the response.
    #[inline]
    pub fn ask(&mut self, kind: RequestKind, address: u64, cycle: u64, instruction: u64) -> (u64, Response) {
        let at = self.clock.time(cycle);
        let response = self.memory.access(&MemoryRequest { core: self.core, kind, address, at, instruction });
        (self.clock.cycles(response.ready.since(at)), response)
    }

    /// The cycle of a moment of what was asked at `asked`.
    #[inline]
    pub fn cycle_of(&self, asked: u64, moment: Time) -> u64 {
        asked + self.clock.cycles(moment.since(self.clock.time(asked)))
    }

    /// The cycle in which the translation of a code address is known.
    pub fn translate_code(&mut self, address: u64, cycle: u64) -> u64 {
        let at = self.clock.time(cycle);
        cycle + self.clock.cycles(self.memory.translate_code(self.core, address, at).since(at))
    }

    /// The cycle in which memory has all stores past the caches that were made before `cycle`.
    pub fn drain_write_combining(&mut self, cycle: u64) -> u64 {
        let at = self.clock.time(cycle);
        cycle + self.clock.cycles(self.memory.drain_write_combining(self.core, at).since(at))
    }

    /// The first cycle from `cycle` on in which a line that was asked for before can be written.
    fn own_at(&mut self, address: u64, cycle: u64, instruction: u64) -> u64 {
        let at = self.clock.time(cycle);
        match self.memory.writable(self.core, address, at) {
            Some(from) => cycle + self.clock.cycles(from.since(at)),
            None => cycle + self.ask(RequestKind::StoreAgain, address, cycle, instruction).0,
        }
    }

    /// The line after that of `address`.
    pub fn second_line(&self, address: u64) -> u64 {
        (address | (self.line_bytes - 1)) + 1
    }

    /// Whether an access crosses a line.
    #[inline]
    pub fn crosses(&self, address: u64, bytes: u64) -> bool {
        (address & (self.line_bytes - 1)) + bytes > self.line_bytes
    }
}

/// The stores of one thread.
#[derive(Clone, Debug)]
pub(crate) struct StoreBuffer {
    stores: Box<[BufferedStore]>,
    entries: u64,
    /// Number of the next store.
    next: u64,
    /// Number of the oldest store that can still be in the buffer.
    oldest: u64,
    /// Number of the next store to retire.
    retiring: u64,
    /// Number of the next store to be sent.
    unsent: u64,
    /// When the next store to be sent retired: what all requests are compared with.
    due: u64,
    last_commit: u64,
    /// When the addresses of all stores so far are known.
    addressed: u64,
    /// Lines that other cores had taken when commits were last looked at.
    taken: u64,
    /// Number, plus one, of the last store of each bucket.
    buckets: Box<[u64; BUCKETS]>,
    line_shift: u32,
}

impl StoreBuffer {
    pub fn new(entries: u32, line_shift: u32) -> Self {
        let entries = u64::from(entries.max(1));
        let empty = BufferedStore {
            address: 0,
            bytes: 0,
            instruction: 0,
            non_temporal: false,
            addressed: 0,
            ready: 0,
            value: 0,
            retired: 0,
            commit: 0,
            before: [0; 2],
        };
        Self {
            stores: vec![empty; (2 * entries).next_power_of_two() as usize].into_boxed_slice(),
            entries,
            next: 0,
            oldest: 0,
            retiring: 0,
            unsent: 0,
            due: UNKNOWN,
            last_commit: 0,
            addressed: 0,
            taken: 0,
            buckets: Box::new([0; BUCKETS]),
            line_shift,
        }
    }

    #[inline]
    fn store(&mut self, number: u64) -> &mut BufferedStore {
        let mask = self.stores.len() - 1;
        &mut self.stores[number as usize & mask]
    }

    fn bucket(&self, address: u64) -> usize {
        // Lines that follow each other, and arrays a round number of lines apart, go to buckets far apart.
        let line = address >> self.line_shift;
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.ilog2())) as usize
    }

    /// When the addresses of all stores so far are known.
    #[inline]
    pub fn addressed(&self) -> u64 {
        self.addressed
    }

    /// When there is room for one more store.
    #[inline]
    pub fn room_at<M: MemoryPort>(&mut self, port: &mut StorePort<'_, M>) -> u64 {
        match self.next.checked_sub(self.entries) {
            Some(oldest) => self.commit_of(oldest, port),
            None => 0,
        }
    }

    /// A store whose address is known at `ready`.
    pub fn begin(&mut self, place: AccessPlace, non_temporal: bool, ready: u64) {
        let AccessPlace { address, bytes, instruction, crosses } = place;
        let number = self.next;
        self.addressed = self.addressed.max(ready);
        self.next += 1;
        self.oldest = self.next.saturating_sub(self.entries);
        let first = self.bucket(address);
        let buckets = [first, if crosses { self.bucket(address + bytes - 1) } else { first }];
        let before = buckets.map(|bucket| self.buckets[bucket]);
        let (retired, commit) = (UNKNOWN, UNKNOWN);
        *self.store(number) = BufferedStore {
            address,
            bytes,
            instruction,
            non_temporal,
            addressed: ready,
            ready,
            value: 0,
            retired,
            commit,
            before,
        };
        for bucket in buckets {
            self.buckets[bucket] = number + 1;
        }
    }

    /// The data of the store just begun is in the buffer at `ready` and was in its register at `value`.
    #[inline]
    pub fn data(&mut self, value: u64, ready: u64) {
        if let Some(number) = self.next.checked_sub(1) {
            let store = self.store(number);
            store.ready = store.ready.max(ready);
            store.value = value;
        }
    }

    /// The oldest store that has not retired does so.
    #[inline]
    pub fn retire(&mut self, cycle: u64) {
        let number = self.retiring;
        self.retiring += 1;
        self.store(number).retired = cycle;
        if number == self.unsent {
            self.due = cycle;
        }
    }

    /// Sends all stores that have retired by `cycle`.
    #[inline]
    pub fn send_until<M: MemoryPort>(&mut self, cycle: u64, port: &mut StorePort<'_, M>) {
        while self.due <= cycle {
            self.send(port);
        }
    }

    /// When store `number` commits.
    fn commit_of<M: MemoryPort>(&mut self, number: u64, port: &mut StorePort<'_, M>) -> u64 {
        while self.unsent <= number && self.unsent < self.retiring {
            self.send(port);
        }
        self.store(number).commit
    }

    /// Sends all stores that have retired; gives the last commit.
    pub fn drain<M: MemoryPort>(&mut self, port: &mut StorePort<'_, M>) -> u64 {
        while self.unsent < self.retiring {
            self.send(port);
        }
        self.last_commit
    }

    #[inline(never)]
    fn send<M: MemoryPort>(&mut self, port: &mut StorePort<'_, M>) {
        let number = self.unsent;
        let BufferedStore { address, bytes, instruction, non_temporal, retired, .. } = *self.store(number);
        let kind = if non_temporal { RequestKind::StoreNonTemporal } else { RequestKind::Store };
        let (cycles, _) = port.ask(kind, address, retired, instruction);
        let mut done = retired + cycles;
        if port.crosses(address, bytes) {
            let second = port.second_line(address);
            let (cycles, _) = port.ask(kind, second, retired + 1, instruction);
            done = done.max(retired + 1 + cycles) + port.split_penalty;
        }
        let mut commit = done.max(self.last_commit + 1);
        if self.taken > 0 {
            commit = self.store(number).own_at(commit, port);
        }
        self.store(number).commit = commit;
        self.last_commit = commit;
        self.unsent += 1;
        self.due = if self.unsent < self.retiring { self.store(number + 1).retired } else { UNKNOWN };
    }

    /// Puts commits right that lie after `now`, if other cores have taken lines since the last look.
    #[inline]
    pub fn follow_lines<M: MemoryPort>(&mut self, now: u64, port: &mut StorePort<'_, M>) {
        let taken = port.memory.lines_taken(port.core);
        if taken != self.taken {
            self.taken = taken;
            self.commit_anew(now, port);
        }
    }

    fn commit_anew<M: MemoryPort>(&mut self, now: u64, port: &mut StorePort<'_, M>) {
        let mut last = 0;
        for number in self.unsent.saturating_sub(self.entries)..self.unsent {
            let store = *self.store(number);
            let mut commit = store.commit.max(last + 1);
            if commit > now {
                commit = store.own_at(commit, port);
                self.store(number).commit = commit;
            }
            last = commit;
        }
        self.last_commit = self.last_commit.max(last);
    }

    /// The youngest store that overlaps a load which starts at `cycle`.
    #[inline]
    pub fn find(&self, place: AccessPlace, cycle: u64) -> ForwardedStore {
        let AccessPlace { address, bytes, crosses, .. } = place;
        let bucket = self.bucket(address);
        // Most loads find their bucket empty.
        match self.buckets[bucket] > self.oldest || crosses {
            true => self.search(bucket, address, bytes, cycle),
            false => ForwardedStore::Nothing,
        }
    }

    #[inline(never)]
    fn search(&self, bucket: usize, address: u64, bytes: u64, cycle: u64) -> ForwardedStore {
        let found = self.find_in(bucket, address, bytes, cycle);
        let last = self.bucket(address + bytes.max(1) - 1);
        if found != ForwardedStore::Nothing || last == bucket {
            return found;
        }
        self.find_in(last, address, bytes, cycle)
    }

    #[inline]
    fn find_in(&self, bucket: usize, address: u64, bytes: u64, cycle: u64) -> ForwardedStore {
        let mut link = self.buckets[bucket];
        while link > self.oldest {
            let number = link - 1;
            let store = &self.stores[number as usize & (self.stores.len() - 1)];
            // Commits are in order: whatever is older has drained too.
            if store.commit <= cycle {
                break;
            }
            let end = store.address + store.bytes;
            if store.address < address + bytes && address < end {
                let whole = store.address <= address && address + bytes <= end;
                return match whole {
                    true => ForwardedStore::Forward {
                        ready: store.ready,
                        value: store.value,
                        addressed: store.addressed,
                    },
                    false => ForwardedStore::Blocked { number, addressed: store.addressed },
                };
            }
            link = store.before[usize::from(self.bucket(store.address) != bucket)];
        }
        ForwardedStore::Nothing
    }

    /// When a load that store `number` blocks can read the L1.
    pub fn unblocked_at<M: MemoryPort>(&mut self, number: u64, port: &mut StorePort<'_, M>) -> u64 {
        self.commit_of(number, port)
    }
}
