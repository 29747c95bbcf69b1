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
    /// When the latest stretch ends, kept here for those who come after it: nearly half of all.
    end: u64,
    /// What is before this is forgotten, and taken as busy.
    floor: u64,
    /// Gaps shorter than this are of use to nobody and count as busy.
    shortest: u64,
}

impl Calendar {
    /// All free. `shortest` is the least span that will be asked for.
    pub fn new(shortest: u64) -> Self {
        Self { busy: Vec::new(), end: 0, floor: 0, shortest }
    }

    /// Reserves `span` from the first free moment at or after `at`, and returns that moment.
    #[inline]
    pub fn reserve(&mut self, at: u64, span: u64) -> u64 {
        if span == 0 {
            return at;
        }
        let from = at.max(self.floor);
        if from < self.end {
            return self.reserve_between(from, span);
        }
        self.append(Busy { from, until: from + span });
        from
    }

    /// Before the end of what is reserved, if there is room.
    fn reserve_between(&mut self, mut from: u64, span: u64) -> u64 {
        let mut place = self.place(from);
        while let Some(next) = self.busy.get(place) {
            if next.from >= from + span {
                self.insert(place, Busy { from, until: from + span });
                return from;
            }
            from = from.max(next.until);
            place += 1;
        }
        self.append(Busy { from, until: from + span });
        from
    }

    /// The first stretch that ends after `from`. Most requests are later than nearly all others: what is looked at is
    /// what the host's cache has.
    #[inline]
    fn place(&self, from: u64) -> usize {
        let recent = self.busy.len().saturating_sub(RECENT);
        let ends_before = |busy: &Busy| busy.until <= from;
        match self.busy[recent..].iter().rposition(ends_before) {
            Some(last) => recent + last + 1,
            None => self.busy[..recent].partition_point(ends_before),
        }
    }

    /// A stretch after all others.
    fn append(&mut self, new: Busy) {
        match self.busy.last_mut() {
            Some(last) if self.end + self.shortest > new.from => last.until = new.until,
            _ => self.keep(self.busy.len(), new),
        }
        self.end = new.until;
    }

    /// A stretch before the one at `place`.
    fn insert(&mut self, place: usize, new: Busy) {
        let joins_next = self.busy[place].from < new.until + self.shortest;
        let joins_last = place > 0 && self.busy[place - 1].until + self.shortest > new.from;
        match (joins_last, joins_next) {
            (true, true) => {
                self.busy[place - 1].until = self.busy[place].until;
                self.busy.remove(place);
            }
            (true, false) => self.busy[place - 1].until = new.until,
            (false, true) => self.busy[place].from = new.from,
            (false, false) => self.keep(place, new),
        }
    }

    fn keep(&mut self, place: usize, new: Busy) {
        self.busy.insert(place, new);
        if self.busy.len() == KEPT {
            self.floor = self.busy[KEPT / 2 - 1].until;
            self.busy.drain(..KEPT / 2);
        }
    }
}

/// Buffers of one kind: each is held from when a request gets it until it is done.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// When each is free again.
    free_at: Vec<u64>,
    /// The line each was last held for, where that was said.
    line: Vec<u64>,
}

impl Slots {
    /// `count` free buffers, at least one.
    pub fn new(count: u32) -> Self {
        let count = count.max(1) as usize;
        Self { free_at: vec![0; count], line: vec![u64::MAX; count] }
    }

    /// The buffer that is free first, and when a request of `at` gets it. [`Slots::hold`] must follow.
    #[inline]
    pub fn acquire(&self, at: u64) -> (usize, u64) {
        let (mut best, mut free) = (0, u64::MAX);
        for (slot, &free_at) in self.free_at.iter().enumerate() {
            if free_at <= at {
                return (slot, at);
            }
            if free_at < free {
                (best, free) = (slot, free_at);
            }
        }
        (best, free)
    }

    /// A buffer that is free at `at`, if there is one.
    #[inline]
    pub fn acquire_now(&self, at: u64) -> Option<usize> {
        self.free_at.iter().position(|&free_at| free_at <= at)
    }

    /// A buffer that is free at `at`, if there is one, and how many are held.
    #[inline]
    pub fn look(&self, at: u64) -> (Option<usize>, usize) {
        // The sign of a difference of moments, which are below 2⁶³: the host adds several at once.
        let held = self.free_at.iter().map(|&free_at| at.wrapping_sub(free_at) >> 63).sum::<u64>() as usize;
        let free = if held == self.free_at.len() { None } else { self.acquire_now(at) };
        (free, held)
    }

    /// Holds a buffer until `until`.
    #[inline]
    pub fn hold(&mut self, slot: usize, until: u64) {
        self.free_at[slot] = until;
    }

    /// Holds a buffer for a line, so that [`Slots::holding`] finds it.
    #[inline]
    pub fn hold_for(&mut self, slot: usize, until: u64, line: u64) {
        self.free_at[slot] = until;
        self.line[slot] = line;
    }

    /// The buffer that is held for a line at `at`.
    pub fn holding(&self, line: u64, at: u64) -> Option<usize> {
        // Mostly there is none, and to know that takes less than to find it.
        if !self.line.iter().fold(false, |any, &held| any | (held == line)) {
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
        assert_eq!(slots.acquire_now(19), None);
        assert_eq!(slots.acquire(15).1, 20);
        assert_eq!(slots.look(25), (Some(1), 1));
    }

    proptest! {
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
