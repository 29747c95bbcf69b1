//! A ring of cycles: which ports are busy when, and when loads are pending.
//!
//! One bit per cycle and lane, 64 cycles in a word, so that the first free cycle of a port is found with a few
//! instructions and a cycle without execution is a bit of a word. Cycles that no µop can reach any more are counted
//! and cleared.

use super::statistics::Activity;

/// Ports that fit into a row.
pub const MAX_PORTS: usize = 12;
/// The unit for divisions and square roots: ports start them, this one is kept busy.
const DIVIDER: usize = 12;
/// Lanes of a row.
const LANES: usize = 16;
/// Rows of 64 cycles. What lies further ahead takes no port.
const ROWS: usize = 1024;

/// What a load in flight is marked as; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// In the L1 or forwarded.
    Load = 13,
    /// Missed the L1.
    L1Miss = 14,
    /// Missed the L2.
    L2Miss = 15,
}

/// The busy cycles of a core.
pub struct Timeline {
    rows: Box<[[u64; LANES]]>,
    /// All cycles before are counted; their rows are clear.
    accounted: u64,
    /// µops of each port that are not yet counted.
    load: [u32; LANES],
    /// The last span marked as pending, by how deep the loads missed.
    pended: [(u64, u64); 3],
    activity: Activity,
}

impl Default for Timeline {
    fn default() -> Self {
        let rows = vec![[0; LANES]; ROWS].into_boxed_slice();
        Self { rows, accounted: 0, load: [0; LANES], pended: [(0, 0); 3], activity: Activity::default() }
    }
}

impl Timeline {
    /// Up to where all is counted.
    pub fn accounted(&self) -> u64 {
        self.accounted
    }

    /// The counts up to there.
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// The first row that has no place in the ring.
    #[inline]
    fn limit(&self) -> u64 {
        (self.accounted >> 6) + ROWS as u64
    }

    #[inline]
    fn row(&mut self, row: u64) -> &mut [u64; LANES] {
        // The ring has a power of two of rows, so the mask is below its length.
        &mut self.rows[row as usize & (ROWS - 1)]
    }

    /// Takes the first free cycle of any port in the mask at or after `from`; of several free ports the least
    /// loaded one.
    #[inline]
    pub fn reserve(&mut self, ports: u32, from: u64) -> u64 {
        let (mut number, mut shift) = (from >> 6, from & 63);
        let limit = self.limit();
        while number < limit {
            let (bit, port) = self.first_free(number, ports, shift);
            if bit < 64 {
                self.row(number)[port] |= 1 << bit;
                self.load[port] += 1;
                return number << 6 | u64::from(bit);
            }
            (number, shift) = (number + 1, 0);
        }
        from.max(limit << 6)
    }

    /// The first cycle of a row, from one on, in which a port of the mask is free, and the least loaded port then; 64 if
    /// there is none.
    #[inline]
    fn first_free(&self, number: u64, ports: u32, shift: u64) -> (u32, usize) {
        let row = &self.rows[number as usize & (ROWS - 1)];
        let (mut best, mut least, mut rest) = (0, u64::MAX, ports);
        while rest != 0 {
            let port = rest.trailing_zeros() as usize & (LANES - 1);
            rest &= rest - 1;
            let free = !row[port] & (u64::MAX << shift);
            let order = u64::from(free.trailing_zeros()) << 32 | u64::from(self.load[port]);
            if order < least {
                (best, least) = (port, order);
            }
        }
        ((least >> 32) as u32, best)
    }

    /// Takes `cycles` free cycles in a row of any one port in the mask, for an access wider than the port.
    pub fn reserve_run(&mut self, ports: u32, from: u64, cycles: u64) -> u64 {
        let (mut best, mut start, mut rest) = (0, u64::MAX, ports);
        while rest != 0 {
            let port = rest.trailing_zeros() as usize & (LANES - 1);
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
    pub fn reserve_divider(&mut self, ports: u32, from: u64, cycles: u64) -> u64 {
        let mut from = from;
        loop {
            let at = self.first_run(DIVIDER, from, cycles);
            if !self.fits(at, cycles) {
                return at;
            }
            let (bit, port) = self.first_free(at >> 6, ports, at & 63);
            if u64::from(bit) != at & 63 {
                from = at + 1;
                continue;
            }
            self.row(at >> 6)[port] |= 1 << bit;
            self.load[port] += 1;
            self.mark(DIVIDER, at, at + cycles);
            return at;
        }
    }

    fn fits(&self, at: u64, cycles: u64) -> bool {
        (at + cycles) >> 6 < self.limit()
    }

    /// The first of `cycles` free cycles in a row of a lane.
    fn first_run(&self, lane: usize, from: u64, cycles: u64) -> u64 {
        let (mut start, mut cycle) = (from, from);
        let limit = self.limit() << 6;
        while cycle < start + cycles && cycle < limit {
            let word = self.rows[(cycle >> 6) as usize & (ROWS - 1)][lane] >> (cycle & 63);
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
    pub fn pend(&mut self, pending: Pending, from: u64, to: u64) {
        let to = to.min(self.limit() << 6);
        let depth = pending as usize - Pending::Load as usize;
        // Loads in flight overlap: most of the span is marked already.
        let (first, end) = self.pended[depth];
        let known = first <= from && from <= end;
        let start = if known { from.max(end) } else { from };
        self.pended[depth] = if known { (first, end.max(to)) } else { (from, from.max(to)) };
        let mut cycle = start;
        while cycle < to {
            let shift = cycle & 63;
            let count = (64 - shift).min(to - cycle);
            let bits = (u64::MAX >> (64 - count)) << shift;
            let row = self.row(cycle >> 6);
            row[Pending::Load as usize..=pending as usize].iter_mut().for_each(|lane| *lane |= bits);
            cycle += count;
        }
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
        let ring = ROWS as u64 * 64;
        while self.accounted < upto {
            let shift = self.accounted & 63;
            let count = (64 - shift).min(upto - self.accounted);
            self.count_row(self.accounted >> 6, (u64::MAX >> (64 - count)) << shift);
            self.accounted += count;
            if shift + count == 64 {
                self.clear(self.accounted / 64 - 1);
            }
            if shift == 0 && upto - self.accounted > 2 * ring {
                self.skip_idle_rounds(upto, ring);
            }
        }
    }

    /// After a whole round all rows are clear: only the number of cycles is left to count.
    fn skip_idle_rounds(&mut self, upto: u64, ring: u64) {
        for row in 0..ROWS as u64 {
            let number = (self.accounted >> 6) + row;
            self.count_row(number, u64::MAX);
            self.clear(number);
        }
        let rest = (upto - self.accounted - ring) & !63;
        self.activity.cycles += rest;
        self.accounted += ring + rest;
    }

    /// Begins anew at `cycle`, not before what is accounted: counts are zero.
    pub fn begin(&mut self, cycle: u64) {
        self.account(cycle);
        self.activity = Activity::default();
    }

    fn clear(&mut self, number: u64) {
        let words = std::mem::take(self.row(number));
        for (load, word) in self.load.iter_mut().zip(words).take(MAX_PORTS).filter(|(_, word)| *word != 0) {
            *load = load.saturating_sub(word.count_ones());
        }
    }

    fn count_row(&mut self, number: u64, mask: u64) {
        let row = *self.row(number);
        let [mut ones, mut twos, mut more] = [0u64; 3];
        for word in &row[..MAX_PORTS] {
            // Adds one bit to 64 counters at once; from four on they only remember that.
            let carry = ones & word;
            ones ^= word;
            more |= twos & carry;
            twos ^= carry;
        }
        let [load, l1, l2] =
            [Pending::Load, Pending::L1Miss, Pending::L2Miss].map(|lane| row[lane as usize] & mask);
        let any = ones | twos | more;
        // Long waits are made of empty and full words: worth a branch where counting bits takes a dozen steps.
        let count = |word: u64| match word & mask {
            0 => 0,
            u64::MAX => 64,
            some => u64::from(some.count_ones()),
        };
        self.activity += Activity {
            cycles: count(u64::MAX),
            executing: [count(any), count(twos | more), count(ones & twos | more), count(more)],
            load_pending: count(load),
            l1_miss_pending: count(l1),
            l2_miss_pending: count(l2),
            stall_load_pending: count(load & !any),
            stall_l1_miss_pending: count(l1 & !any),
            stall_l2_miss_pending: count(l2 & !any),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A port reservation: which ports, from when, for how long.
    fn requests() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
        prop::collection::vec((1u32..8, 0u64..200, 1u64..4), 1..120)
    }

    proptest! {
        /// Against a list of busy cycles per port.
        #[test]
        fn reserves_the_first_free_cycles(requests in requests()) {
            let mut timeline = Timeline::default();
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
                let set = |rows: &[[u64; LANES]], cycle: u64, port: usize| rows[(cycle / 64) as usize][port] >> (cycle % 64) & 1;
                let port = (0..3).find(|&port| set(&before, at, port) != set(&timeline.rows, at, port)).expect("a port");
                prop_assert!(free(at, port, &busy));
                (at..at + cycles).for_each(|cycle| busy[cycle as usize][port] = true);
            }
        }

        /// However the accounting is cut into pieces, it counts the same, and idle stretches longer than the ring.
        #[test]
        fn accounts_every_cycle_once(
            starts in prop::collection::vec((0u32..3, 0u64..3000), 0..200),
            pending in (0u64..2000, 1u64..1000),
            mut cuts in prop::collection::vec(3000u64..300_000, 0..5),
        ) {
            let fill = |timeline: &mut Timeline| {
                for &(port, from) in &starts {
                    timeline.reserve(1 << port, from);
                }
                timeline.pend(Pending::L2Miss, pending.0, pending.0 + pending.1);
            };
            let (mut whole, mut pieces) = (Timeline::default(), Timeline::default());
            fill(&mut whole);
            fill(&mut pieces);
            whole.account(400_000);
            cuts.sort_unstable();
            cuts.into_iter().for_each(|cut| pieces.account_rows(cut));
            pieces.account(400_000);
            prop_assert_eq!(whole.activity(), pieces.activity());
            prop_assert_eq!(whole.activity().cycles, 400_000);
            prop_assert_eq!(whole.activity().l2_miss_pending, pending.1);
            let busy: std::collections::BTreeMap<u64, u32> = busy_cycles(&starts);
            prop_assert_eq!(whole.activity().executing[0], busy.len() as u64);
            prop_assert_eq!(whole.activity().executing[1], busy.values().filter(|&&ports| ports > 1).count() as u64);
            let idle = (pending.0..pending.0 + pending.1).filter(|cycle| !busy.contains_key(cycle)).count() as u64;
            prop_assert_eq!(whole.activity().stall_l2_miss_pending, idle);
        }
    }

    /// How many ports are busy in each cycle.
    fn busy_cycles(starts: &[(u32, u64)]) -> std::collections::BTreeMap<u64, u32> {
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
        let mut timeline = Timeline::default();
        assert_eq!(timeline.reserve_divider(1, 10, 100), 10);
        assert_eq!(timeline.reserve(1, 10), 11);
        assert_eq!(timeline.reserve_divider(1, 10, 100), 110);
        assert_eq!(timeline.reserve_divider(1, 0, 5), 0, "a gap before is found");
        assert_eq!(timeline.reserve_divider(1, 0, 6), 210);
    }

    #[test]
    fn what_lies_beyond_the_ring_takes_no_port() {
        let mut timeline = Timeline::default();
        let far = ROWS as u64 * 64 + 5;
        assert_eq!((timeline.reserve(1, far), timeline.reserve(1, far)), (far, far));
        timeline.account(64);
        assert_eq!((timeline.reserve(1, far), timeline.reserve(1, far)), (far, far + 1));
    }
}
