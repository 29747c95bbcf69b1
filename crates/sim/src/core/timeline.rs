//! A ring of cycles: which ports are busy when, and when loads are pending.
//!
//! One bit per cycle and lane, 64 cycles in a word, so that the first free cycle of a port is found with a few
//! instructions and a cycle without execution is a bit of a word. Cycles that no µop can reach any more are counted
//! and cleared.

use super::statistics::CoreActivity;

/// Ports that fit into a row.
pub const MAX_PORTS: usize = 12;
/// The unit for divisions and square roots: ports start them, this one is kept busy.
const DIVIDER: usize = 12;
/// Lanes of a row.
const LANES: usize = 16;
/// Rows of 64 cycles. What lies further ahead takes no port.
const ROWS: usize = 1024;
/// The lane of loads that missed the L2.
const L2_MISS: usize = PendingUop::L2Miss as usize;
/// Cycles of the ring.
const RING: u64 = ROWS as u64 * 64;

/// What a load in flight is marked as; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingUop {
    /// In the L1 or forwarded.
    Load = 13,
    /// Missed the L1.
    L1Miss = 14,
    /// Missed the L2.
    L2Miss = 15,
}

/// The busy cycles of a core.
pub struct CoreTimeline {
    rows: Box<[[u64; LANES]; ROWS]>,
    /// All cycles before are counted; their rows are clear.
    accounted: u64,
    /// The first cycle that has no place in the ring.
    end: u64,
    /// µops of each port that are not yet counted.
    load: [u32; LANES],
    /// The last span marked as pending, by how deep the loads missed.
    pended: [(u64, u64); 3],
    /// Cycles counted since the beginning.
    cycles: u64,
    /// Of these with at least one, two, three, four ports busy.
    executing: [u64; 4],
    /// With loads pending, by how deep they missed; then those of them in which no port was busy.
    pending: [u64; 6],
}

impl Default for CoreTimeline {
    fn default() -> Self {
        Self {
            rows: Box::new([[0; LANES]; ROWS]),
            accounted: 0,
            end: RING,
            load: [0; LANES],
            pended: [(0, 0); 3],
            cycles: 0,
            executing: [0; 4],
            pending: [0; 6],
        }
    }
}

impl CoreTimeline {
    /// Up to where all is counted.
    pub fn accounted(&self) -> u64 {
        self.accounted
    }

    /// The counts up to there.
    pub fn activity(&self) -> CoreActivity {
        let [load, l1, l2, stall_load, stall_l1, stall_l2] = self.pending;
        CoreActivity {
            cycles: self.cycles,
            executing: self.executing,
            load_pending: load,
            l1_miss_pending: l1,
            l2_miss_pending: l2,
            stall_load_pending: stall_load,
            stall_l1_miss_pending: stall_l1,
            stall_l2_miss_pending: stall_l2,
        }
    }

    #[inline]
    fn row(&mut self, row: u64) -> &mut [u64; LANES] {
        &mut self.rows[row as usize % ROWS]
    }

    /// Takes the first free cycle of any port in the mask at or after `from`; of several free ports the least
    /// loaded one.
    #[inline]
    pub fn reserve(&mut self, ports: u16, from: u64) -> u64 {
        // Most find a port free at once.
        if from >= self.end || self.take(ports, from) { from } else { self.reserve_later(ports, from + 1) }
    }

    /// The same before `until`; none if no port of the mask is free by then.
    pub fn reserve_before(&mut self, ports: u16, from: u64, until: u64) -> Option<u64> {
        (from..until.min(self.end)).find(|&at| self.take(ports, at))
    }

    #[inline(never)]
    fn reserve_later(&mut self, ports: u16, from: u64) -> u64 {
        if from >= self.end || self.take(ports, from) {
            return from;
        }
        let mut from = from + 1;
        while from < self.end {
            let row = &self.rows[(from >> 6) as usize % ROWS];
            let (mut busy, mut rest) = (u64::MAX, ports);
            while rest != 0 {
                busy &= row[rest.trailing_zeros() as usize % LANES];
                rest &= rest - 1;
            }
            let free = !busy & (u64::MAX << (from & 63));
            if free != 0 {
                let at = from & !63 | u64::from(free.trailing_zeros());
                self.take(ports, at);
                return at;
            }
            from = (from | 63) + 1;
        }
        from
    }

    /// Takes a cycle of the least loaded port of the mask that is free then; false if none is.
    #[inline]
    fn take(&mut self, ports: u16, at: u64) -> bool {
        let row = &mut self.rows[(at >> 6) as usize % ROWS];
        let bit = 1 << (at & 63);
        let (mut best, mut least, mut rest) = (0, u32::MAX, ports);
        while rest != 0 {
            let port = rest.trailing_zeros() as usize % LANES;
            rest &= rest - 1;
            if row[port] & bit == 0 && self.load[port] < least {
                (best, least) = (port, self.load[port]);
            }
        }
        if least == u32::MAX {
            return false;
        }
        row[best] |= bit;
        self.load[best] += 1;
        true
    }

    /// Takes `cycles` free cycles in a row of any one port in the mask, for an access wider than the port.
    pub fn reserve_run(&mut self, ports: u16, from: u64, cycles: u64) -> u64 {
        let (mut best, mut start, mut rest) = (0, u64::MAX, ports);
        while rest != 0 {
            let port = rest.trailing_zeros() as usize % LANES;
            rest &= rest - 1;
            let at = self.first_run(port, from, cycles);
            if at < start || at == start && self.load[port] < self.load[best] {
                (best, start) = (port, at);
            }
        }
        if start != u64::MAX && self.fits(start, cycles) {
            self.mark(best, start, start + cycles);
            self.load[best] += cycles as u32;
        }
        start.max(from)
    }

    /// Takes one cycle of a port in the mask and `cycles` of the divider.
    pub fn reserve_divider(&mut self, ports: u16, from: u64, cycles: u64) -> u64 {
        let mut from = from;
        loop {
            let at = self.first_run(DIVIDER, from, cycles);
            if !self.fits(at, cycles) {
                return at;
            }
            if self.take(ports, at) {
                self.mark(DIVIDER, at, at + cycles);
                return at;
            }
            from = at + 1;
        }
    }

    fn fits(&self, at: u64, cycles: u64) -> bool {
        at + cycles < self.end
    }

    /// The first of `cycles` free cycles in a row of a lane.
    fn first_run(&self, lane: usize, from: u64, cycles: u64) -> u64 {
        let (mut start, mut cycle) = (from, from);
        while cycle < start + cycles && cycle < self.end {
            let word = self.rows[(cycle >> 6) as usize % ROWS][lane] >> (cycle & 63);
            let left = 64 - (cycle & 63);
            if word & 1 == 1 {
                cycle += u64::from((!word).trailing_zeros()).min(left);
                start = cycle;
            } else {
                cycle += u64::from(word.trailing_zeros()).min(left);
            }
        }
        start
    }

    /// Marks a load in flight.
    #[inline]
    pub fn pend(&mut self, pending: PendingUop, from: u64, to: u64) {
        // Loads in flight overlap: most of the span, or all of it, is marked already.
        let depth = pending as usize - PendingUop::Load as usize;
        let (first, end) = self.pended[depth];
        if first <= from && to <= end {
            return;
        }
        let to = to.min(self.end);
        let known = first <= from && from <= end;
        let start = if known { from.max(end) } else { from };
        self.pended[depth] = if known { (first, end.max(to)) } else { (from, from.max(to)) };
        self.mark(pending as usize, start, to);
    }

    /// Sets the bits of a lane from one cycle up to another; both lie within the ring.
    #[inline]
    fn mark(&mut self, lane: usize, from: u64, to: u64) {
        let mut cycle = from;
        while cycle < to {
            let shift = cycle & 63;
            let count = (64 - shift).min(to - cycle);
            self.row(cycle >> 6)[lane] |= (u64::MAX >> (64 - count)) << shift;
            cycle += count;
        }
    }

    /// Counts all whole rows before `upto`: nothing will happen in them any more.
    #[inline]
    pub fn account_rows(&mut self, upto: u64) {
        if upto >> 6 > self.accounted >> 6 {
            self.account(upto & !63);
        }
    }

    /// Counts all cycles before `upto`.
    pub fn account(&mut self, upto: u64) {
        let begin = self.accounted;
        if upto <= begin {
            return;
        }
        self.cycles += upto - begin;
        self.accounted = upto;
        self.end = (upto & !63) + RING;
        // After a whole round all rows are clear: only the number of cycles is left to count.
        let upto = upto.min((begin & !63) + RING);
        let (mut cycle, mut waits) = (begin, 0);
        while cycle < upto {
            let shift = cycle & 63;
            let count = (64 - shift).min(upto - cycle);
            let row = &mut self.rows[(cycle >> 6) as usize % ROWS];
            if count == 64 && row[L2_MISS] == u64::MAX && !executes(row) {
                // Long waits are made of such rows.
                row[MAX_PORTS..].fill(0);
                waits += 64;
            } else {
                self.count_row(cycle >> 6, (u64::MAX >> (64 - count)) << shift, shift + count == 64);
            }
            cycle += count;
        }
        self.pending.iter_mut().for_each(|cycles| *cycles += waits);
    }

    /// Begins anew at `cycle`, not before what is accounted: counts are zero.
    pub fn begin(&mut self, cycle: u64) {
        self.account(cycle);
        (self.cycles, self.executing, self.pending) = (0, [0; 4], [0; 6]);
    }

    /// Counts the cycles of a row that are in the mask, and clears it if it is over.
    fn count_row(&mut self, number: u64, mask: u64, over: bool) {
        let row = &mut self.rows[number as usize % ROWS];
        let [mut ones, mut twos, mut more] = [0u64; 3];
        for (words, loads) in row[..MAX_PORTS].chunks_exact(4).zip(self.load.chunks_exact_mut(4)) {
            // Few ports are used at a time.
            if words.iter().fold(0, |any, word| any | word) == 0 {
                continue;
            }
            for word in words {
                // Adds one bit to 64 counters at once; from four on they only remember that.
                let carry = ones & word;
                ones ^= word;
                more |= twos & carry;
                twos ^= carry;
            }
            if over {
                for (load, word) in loads.iter_mut().zip(words) {
                    *load -= word.count_ones();
                }
            }
        }
        let any = (ones | twos | more) & mask;
        let executing = u64::from(any.count_ones());
        self.executing[0] += executing;
        if twos | more != 0 {
            let [_, two, three, four] = &mut self.executing;
            add([two, three, four], [twos | more, ones & twos | more, more].map(|word| word & mask));
        }
        let l2 = row[L2_MISS] & mask;
        if l2 == mask {
            let cycles = u64::from(mask.count_ones());
            let (pending, stalls) = self.pending.split_at_mut(3);
            pending.iter_mut().for_each(|sum| *sum += cycles);
            stalls.iter_mut().for_each(|sum| *sum += cycles - executing);
        } else {
            let l1 = row[PendingUop::L1Miss as usize] & mask | l2;
            let load = row[PendingUop::Load as usize] & mask | l1;
            add(self.pending.each_mut(), [load, l1, l2, load & !any, l1 & !any, l2 & !any]);
        }
        if over {
            *row = [0; LANES];
        }
    }
}

/// Whether a port is busy in a row.
#[inline]
fn executes(row: &[u64; LANES]) -> bool {
    row[..MAX_PORTS].iter().fold(0, |any, word| any | word) != 0
}

/// Adds the bits of words to as many counts: several at once on the host.
#[inline]
fn add<const N: usize>(counts: [&mut u64; N], words: [u64; N]) {
    for (count, word) in counts.into_iter().zip(words) {
        *count += u64::from(word.count_ones());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A port reservation: which ports, from when, for how long.
    fn requests() -> impl Strategy<Value = Vec<(u16, u64, u64)>> {
        prop::collection::vec((1u16..8, 0u64..200, 1u64..4), 1..120)
    }

    proptest! {
        /// Against a list of busy cycles per port.
        #[test]
        fn reserves_the_first_free_cycles(requests in requests()) {
            let mut timeline = CoreTimeline::default();
            let mut busy = vec![[false; 3]; 1000];
            for (ports, from, cycles) in requests {
                let free = |at: u64, port: usize, busy: &[[bool; 3]]| {
                    ports >> port & 1 == 1 && (at..at + cycles).all(|cycle| !busy[cycle as usize][port])
                };
                let expected = (from..).find(|&at| (0..3).any(|port| free(at, port, &busy))).expect("room");
                let before = timeline.rows.clone();
                let at = match cycles {
                    1 => timeline.reserve(ports, from),
                    _ => timeline.reserve_run(ports, from, cycles),
                };
                prop_assert_eq!(at, expected);
                let set = |rows: &[[u64; LANES]; ROWS], cycle: u64, port: usize| rows[(cycle / 64) as usize][port] >> (cycle % 64) & 1;
                let port = (0..3).find(|&port| set(&before, at, port) != set(&timeline.rows, at, port)).expect("a port");
                prop_assert!(free(at, port, &busy));
                (at..at + cycles).for_each(|cycle| busy[cycle as usize][port] = true);
            }
        }

        /// However the accounting is cut into pieces, it counts the same, and idle stretches longer than the ring.
        #[test]
        fn accounts_every_cycle_once(
            starts in prop::collection::vec((0u16..3, 0u64..3000), 0..200),
            pending in (0u64..2000, 1u64..1000),
            mut cuts in prop::collection::vec(3000u64..300_000, 0..5),
        ) {
            let fill = |timeline: &mut CoreTimeline| {
                for &(port, from) in &starts {
                    timeline.reserve(1 << port, from);
                }
                timeline.pend(PendingUop::L2Miss, pending.0, pending.0 + pending.1);
            };
            let (mut whole, mut pieces) = (CoreTimeline::default(), CoreTimeline::default());
            fill(&mut whole);
            fill(&mut pieces);
            whole.account(400_000);
            cuts.sort_unstable();
            cuts.into_iter().for_each(|cut| pieces.account_rows(cut));
            pieces.account(400_000);
            prop_assert_eq!(whole.activity(), pieces.activity());
            prop_assert_eq!(whole.activity().cycles, 400_000);
            prop_assert_eq!(whole.activity().l2_miss_pending, pending.1);
            prop_assert_eq!(whole.activity().l1_miss_pending, pending.1);
            prop_assert_eq!(whole.activity().load_pending, pending.1);
            let busy: std::collections::BTreeMap<u64, u32> = busy_cycles(&starts);
            prop_assert_eq!(whole.activity().executing[0], busy.len() as u64);
            prop_assert_eq!(whole.activity().executing[1], busy.values().filter(|&&ports| ports > 1).count() as u64);
            let idle = (pending.0..pending.0 + pending.1).filter(|cycle| !busy.contains_key(cycle)).count() as u64;
            prop_assert_eq!(whole.activity().stall_l2_miss_pending, idle);
        }
    }

    /// How many ports are busy in each cycle.
    fn busy_cycles(starts: &[(u16, u64)]) -> std::collections::BTreeMap<u64, u32> {
        let mut taken = std::collections::BTreeSet::new();
        for &(port, from) in starts {
            let at = (from..).find(|&at| !taken.contains(&(port, at))).expect("a free cycle");
            taken.insert((port, at));
        }
        taken.into_iter().fold(std::collections::BTreeMap::new(), |mut busy, (_, at)| {
            *busy.entry(at).or_insert(0) += 1;
            busy
        })
    }

    #[test]
    fn the_divider_is_busy_while_its_port_is_not() {
        let mut timeline = CoreTimeline::default();
        assert_eq!(timeline.reserve_divider(1, 10, 100), 10);
        assert_eq!(timeline.reserve(1, 10), 11);
        assert_eq!(timeline.reserve_divider(1, 10, 100), 110);
        assert_eq!(timeline.reserve_divider(1, 0, 5), 0, "a gap before is found");
        assert_eq!(timeline.reserve_divider(1, 0, 6), 210);
    }

    #[test]
    fn what_lies_beyond_the_ring_takes_no_port() {
        let mut timeline = CoreTimeline::default();
        let far = RING + 5;
        assert_eq!((timeline.reserve(1, far), timeline.reserve(1, far)), (far, far));
        timeline.account(64);
        assert_eq!((timeline.reserve(1, far), timeline.reserve(1, far)), (far, far + 1));
    }
}
