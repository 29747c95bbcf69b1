//! Bounded resources in time: a [`Calendar`] for what serves one thing at a time, [`Slots`] for buffers.
//!
//! Requests come with times that may go back a little, so neither is a single "next free" moment: a calendar fills
//! the gaps between reservations made earlier for later.

/// Reservations kept before the older half is forgotten.
const KEPT: usize = 256;

/// Reservations looked at one by one, from the latest, before the rest is searched.
const RECENT: usize = 16;

/// A busy stretch, femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Busy {
    from: u64,
    until: u64,
}

/// Something that serves one request at a time: a slice, a channel's bus, a link, a cache's array.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    busy: Vec<Busy>,
    /// What is before this is forgotten, and taken as busy.
    floor: u64,
    /// Gaps shorter than this are of use to nobody and count as busy.
    shortest: u64,
}

impl Calendar {
    /// All free. `shortest` is the least span that will be asked for.
    pub fn new(shortest: u64) -> Self {
        Self { busy: Vec::new(), floor: 0, shortest }
    }

    /// Reserves `span` from the first free moment at or after `at`, and returns that moment.
    #[inline]
    pub fn reserve(&mut self, at: u64, span: u64) -> u64 {
        if span == 0 {
            return at;
        }
        let from = at.max(self.floor);
        match self.busy.last_mut() {
            // Within the latest stretch or right after it, as most: it grows.
            Some(last) if last.from <= from && last.until + self.shortest > from.max(last.until) => {
                let from = from.max(last.until);
                last.until = from + span;
                from
            }
            Some(last) if from < last.until => self.reserve_between(from, span),
            _ => {
                self.push(Busy { from, until: from + span });
                from
            }
        }
    }

    #[inline]
    fn push(&mut self, new: Busy) {
        self.busy.push(new);
        if self.busy.len() == KEPT {
            self.forget();
        }
    }

    /// Before the end of what is reserved, if there is room.
    #[inline(never)]
    fn reserve_between(&mut self, mut from: u64, span: u64) -> u64 {
        let mut place = self.place(from);
        while let Some(next) = self.busy.get(place) {
            if next.from >= from + span {
                return self.insert(place, Busy { from, until: from + span });
            }
            from = from.max(next.until);
            place += 1;
        }
        // After all others.
        self.reserve(from, span)
    }

    /// The first stretch that ends after `from`, as the latest does. Most requests are later than nearly all others: what
    /// is looked at is what the host's cache has.
    #[inline]
    fn place(&self, from: u64) -> usize {
        let all = &self.busy[..self.busy.len() - 1];
        let (before, mut recent) = all.split_at(all.len().saturating_sub(RECENT));
        while let [others @ .., last] = recent {
            if last.until <= from {
                return before.len() + recent.len();
            }
            recent = others;
        }
        before.partition_point(|busy| busy.until <= from)
    }

    /// A stretch before the one at `place`. This and what follows returns when it begins.
    #[inline]
    fn insert(&mut self, place: usize, new: Busy) -> u64 {
        let joins_next = self.busy[place].from < new.until + self.shortest;
        let joins_last = place > 0 && self.busy[place - 1].until + self.shortest > new.from;
        match (joins_last, joins_next) {
            (true, true) => return self.join(place, new),
            (true, false) => self.busy[place - 1].until = new.until,
            (false, true) => self.busy[place].from = new.from,
            (false, false) => return self.keep(place, new),
        }
        new.from
    }

    #[inline(never)]
    fn join(&mut self, place: usize, new: Busy) -> u64 {
        self.busy[place - 1].until = self.busy[place].until;
        self.busy.remove(place);
        new.from
    }

    #[inline(never)]
    fn keep(&mut self, place: usize, new: Busy) -> u64 {
        self.busy.insert(place, new);
        if self.busy.len() == KEPT {
            self.forget();
        }
        new.from
    }

    #[cold]
    fn forget(&mut self) {
        self.floor = self.busy[KEPT / 2 - 1].until;
        self.busy.drain(..KEPT / 2);
    }
}

/// Buffers of one kind: each is held from when a request gets it until it is done.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// When each is free again.
    free_at: Vec<u64>,
    /// The line each was last held for, where that was said.
    line: Vec<u64>,
    /// None is free before this; when all are held, requests learn it without a search.
    earliest: u64,
    /// From this on all are free.
    latest: u64,
}

impl Slots {
    /// `count` free buffers, at least one.
    pub fn new(count: u32) -> Self {
        let count = count.max(1) as usize;
        Self { free_at: vec![0; count], line: vec![u64::MAX; count], earliest: 0, latest: 0 }
    }

    /// The buffer that is free first, and when a request of `at` gets it. [`Slots::hold`] must follow.
    #[inline]
    pub fn acquire(&mut self, at: u64) -> (usize, u64) {
        if let Some(slot) = self.first_free(at) {
            return (slot, at);
        }
        let (mut best, mut free, mut second) = (0, u64::MAX, u64::MAX);
        for (slot, &free_at) in self.free_at.iter().enumerate() {
            second = second.min(free.max(free_at));
            best = if free_at < free { slot } else { best };
            free = free.min(free_at);
        }
        // The first one will be held.
        self.earliest = second;
        (best, free)
    }

    #[inline]
    fn first_free(&self, at: u64) -> Option<usize> {
        if at < self.earliest { None } else { self.free_at.iter().position(|&free_at| free_at <= at) }
    }

    fn see_earliest(&mut self) {
        self.earliest = self.free_at.iter().fold(u64::MAX, |least, &free_at| least.min(free_at));
    }

    /// A buffer that is free at `at`, if there is one, and how many are held.
    #[inline]
    pub fn look(&mut self, at: u64) -> (Option<usize>, usize) {
        if at < self.earliest {
            return (None, self.free_at.len());
        }
        if at >= self.latest {
            return (Some(0), 0);
        }
        // The sign of a difference of moments, which are below 2⁶³: the host adds several at once.
        let held = self.free_at.iter().map(|&free_at| at.wrapping_sub(free_at) >> 63).sum::<u64>() as usize;
        if held == self.free_at.len() {
            self.see_earliest();
            return (None, held);
        }
        (self.first_free(at), held)
    }

    /// Holds a buffer until `until`.
    #[inline]
    pub fn hold(&mut self, slot: usize, until: u64) {
        self.free_at[slot] = until;
        self.earliest = self.earliest.min(until);
        self.latest = self.latest.max(until);
    }

    /// Holds a buffer for a line, so that [`Slots::holding`] finds it.
    #[inline]
    pub fn hold_for(&mut self, slot: usize, until: u64, line: u64) {
        self.hold(slot, until);
        self.line[slot] = line;
    }

    /// The buffer that is held for a line at `at`.
    pub fn holding(&self, line: u64, at: u64) -> Option<usize> {
        // Mostly there is none, and to know that takes less than to find it.
        if at >= self.latest || !self.line.iter().fold(false, |any, &held| any | (held == line)) {
            return None;
        }
        self.line.iter().zip(&self.free_at).position(|(&held, &free_at)| held == line && free_at > at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_are_filled_and_order_does_not_matter() {
        let mut calendar = Calendar::new(10);
        assert_eq!(calendar.reserve(100, 10), 100);
        assert_eq!(calendar.reserve(100, 10), 110);
        assert_eq!(calendar.reserve(50, 10), 50);
        assert_eq!(calendar.reserve(95, 10), 120);
        assert_eq!(calendar.reserve(55, 40), 60);
        assert_eq!(calendar.reserve(0, 200), 130);
    }

    #[test]
    fn a_buffer_is_waited_for_when_all_are_held() {
        let mut slots = Slots::new(2);
        for until in [30, 20] {
            let (slot, start) = slots.acquire(10);
            assert_eq!(start, 10);
            slots.hold(slot, until);
        }
        assert_eq!(slots.look(10), (None, 2));
        assert_eq!(slots.look(19).0, None);
        let (slot, start) = slots.acquire(15);
        assert_eq!((slot, start), (1, 20));
        slots.hold(slot, 24);
        assert_eq!(slots.look(25), (Some(1), 1));
    }

    proptest! {
        /// Against a search of all buffers.
        #[test]
        fn buffers_are_found_like_by_a_search(asked in prop::collection::vec((0u64..60, 0u64..30, 0..3), 1..200)) {
            let (mut slots, mut free_at, mut lines) = (Slots::new(4), [0u64; 4], [u64::MAX; 4]);
            for (at, span, how) in asked {
                let free = free_at.iter().position(|&free_at| free_at <= at);
                let held = free_at.iter().filter(|&&free_at| free_at > at).count();
                let line = span % 5;
                let holding = (0..4).find(|&slot| lines[slot] == line && free_at[slot] > at);
                prop_assert_eq!(slots.holding(line, at), holding);
                let slot = match how {
                    0 => {
                        prop_assert_eq!(slots.look(at), (free, held));
                        free
                    }
                    1 => {
                        prop_assert_eq!(slots.look(at).0, free);
                        free
                    }
                    _ => {
                        let first = (0..4).min_by_key(|&slot| free_at[slot]).unwrap_or(0);
                        let (slot, start) = (free.unwrap_or(first), free.map_or(free_at[first], |_| at));
                        prop_assert_eq!(slots.acquire(at), (slot, start));
                        Some(slot)
                    }
                };
                if let Some(slot) = slot {
                    (free_at[slot], lines[slot]) = (at + span, line);
                    slots.hold_for(slot, at + span, line);
                }
            }
        }

        /// Never two at a time, never before asked, and no idleness while somebody waits.
        #[test]
        fn reservations_do_not_overlap(asked in prop::collection::vec((0u64..2000, 1u64..4), 1..120)) {
            let mut calendar = Calendar::new(1);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (at, span) in asked {
                let from = calendar.reserve(at, span);
                prop_assert!(from >= at);
                prop_assert!(taken.iter().all(|&(a, b)| b <= from || from + span <= a));
                let fits = |start: u64| taken.iter().all(|&(a, b)| b <= start || start + span <= a);
                prop_assert!((at..from).all(|start| !fits(start)));
                taken.push((from, from + span));
            }
        }
    }
}
