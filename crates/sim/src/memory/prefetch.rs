//! Hardware prefetchers: what they remember and what they ask for. They work on physical lines and stay within the
//! 4 KiB page of the access that set them off.

use machine::model::Streamer;

use super::{
    level_one::Below,
    pages::SMALL_LINES,
    system::{LineOrigin, MemorySystem, Served},
};
use crate::access::{MemoryRequest, Supplier};

/// Lines the next-line prefetcher remembers having seen.
const RECENT: usize = 8;
/// Instructions the stride prefetcher follows.
const INSTRUCTIONS: usize = 256;
/// Equal strides before it believes them.
const CONFIDENT: u8 = 2;
/// Accesses in a row that turn a stream of the streamer.
const AGAINST: u8 = 3;
/// Page of an entry that follows none.
const NO_PAGE: u64 = u64::MAX;
/// Longest stride it follows: half a page.
const LONGEST: u64 = 2048;

/// Memory of the next-line prefetcher.
#[derive(Clone, Debug, Default)]
pub(super) struct NextLine {
    recent: [u64; RECENT],
    place: usize,
    /// The access just made was the first use of a prefetched line.
    pub used_prefetched: bool,
}

/// Memory of the stride prefetcher.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    entries: Box<[Stride; INSTRUCTIONS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stride {
    instruction: u64,
    last: u64,
    stride: i64,
    equal: u8,
}

impl Default for Strides {
    fn default() -> Self {
        Self { entries: Box::new([Stride::default(); INSTRUCTIONS]) }
    }
}

impl Strides {
    /// Notes a load; returns the distance at which the next one is expected.
    fn observe(&mut self, instruction: u64, address: u64) -> Option<i64> {
        let entry = &mut self.entries[(instruction ^ instruction >> 8) as usize % INSTRUCTIONS];
        if entry.instruction != instruction {
            *entry = Stride { instruction, last: address, ..Stride::default() };
            return None;
        }
        let stride = address.wrapping_sub(entry.last) as i64;
        entry.last = address;
        if stride != entry.stride {
            (entry.stride, entry.equal) = (stride, 0);
            return None;
        }
        if entry.equal < CONFIDENT {
            entry.equal += 1;
        }
        (entry.equal == CONFIDENT && stride != 0 && stride.unsigned_abs() <= LONGEST).then_some(stride)
    }
}

/// Places of a table from pages to entries.
const PLACES: usize = 256;

/// Memory of the streamer.
#[derive(Clone, Debug)]
pub(super) struct PrefetchStreams {
    model: Option<Streamer>,
    /// The page of each entry, apart from the rest: they are searched.
    pages: Vec<u64>,
    /// By entry, and one more that begins and ends the ring: those used next before and next after it.
    older: Vec<usize>,
    newer: Vec<usize>,
    entries: Vec<PrefetchStream>,
    /// Where pages were found last, by their low bits: mostly where they still are.
    found: [usize; PLACES],
    /// How many pages share each place, so that most that are not followed need no search.
    sharing: [u16; PLACES],
}

/// The accesses to a page, and their direction.
#[derive(Clone, Copy, Debug)]
struct PrefetchStream {
    /// The access before.
    last: i64,
    /// The farthest access.
    head: i64,
    /// 1 up, -1 down, 0 not known yet.
    direction: i64,
    /// Accesses in a row that went the other way.
    against: u8,
    /// Line within the page that is to be prefetched next.
    next: i64,
}

impl PrefetchStream {
    fn new(place: i64) -> Self {
        Self { last: place, head: place, direction: 0, against: 0, next: place }
    }

    /// Notes an access; whether it belongs to a stream. A core out of order sends the accesses of a stream not quite
    /// in order: those behind the head neither turn it nor stop it, unless several in a row go the other way.
    fn follow(&mut self, place: i64, distance: i64) -> bool {
        let moved = place - self.last;
        self.last = place;
        if moved == 0 {
            return false;
        }
        self.against = if moved.signum() == self.direction { 0 } else { self.against + 1 };
        let turned = self.direction == 0 || self.against == AGAINST;
        let from = if turned { place - moved } else { self.head };
        if (place - from).abs() > distance.max(1) {
            (self.direction, self.head, self.against) = (0, place, 0);
            return false;
        }
        if turned {
            (self.direction, self.head, self.against) = (moved.signum(), place, 0);
            self.next = place + self.direction;
        } else if (place - self.head) * self.direction > 0 {
            self.head = place;
            if (self.next - place) * self.direction <= 0 {
                self.next = place + self.direction;
            }
        }
        true
    }
}

/// What a stream wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrefetchPlan {
    entry: usize,
    next: i64,
    count: u32,
    direction: i64,
    l3_only_above: usize,
}

impl PrefetchStreams {
    pub fn new(model: Option<Streamer>) -> Self {
        let streams = model.map_or(0, |model| model.streams.clamp(1, 4096)) as usize;
        Self {
            model,
            pages: vec![NO_PAGE; streams],
            older: (0..=streams).map(|entry| (entry + streams) % (streams + 1)).collect(),
            newer: (0..=streams).map(|entry| (entry + 1) % (streams + 1)).collect(),
            entries: vec![PrefetchStream::new(0); streams],
            found: [0; PLACES],
            sharing: [0; PLACES],
        }
    }

    /// The entry that follows a page.
    fn entry_of(&mut self, page: u64) -> Option<usize> {
        let place = page as usize % PLACES;
        if self.sharing[place] == 0 {
            return None;
        }
        let found = self.found[place];
        if self.pages.get(found) == Some(&page) {
            return Some(found);
        }
        let found = self.pages.iter().position(|&followed| followed == page)?;
        self.found[place] = found;
        Some(found)
    }

    /// Follows a page instead of the one not used for longest.
    fn follow(&mut self, page: u64, place: i64) {
        let oldest = self.newer[self.entries.len()];
        let gone = std::mem::replace(&mut self.pages[oldest], page);
        if gone != NO_PAGE {
            self.sharing[gone as usize % PLACES] -= 1;
        }
        self.sharing[page as usize % PLACES] += 1;
        self.found[page as usize % PLACES] = oldest;
        self.entries[oldest] = PrefetchStream::new(place);
        self.note_use(oldest);
    }

    /// Makes an entry the newest.
    #[inline]
    fn note_use(&mut self, entry: usize) {
        let ends = self.entries.len();
        let newest = self.older[ends];
        if entry == newest {
            return;
        }
        let (older, newer) = (self.older[entry], self.newer[entry]);
        (self.newer[older], self.older[newer]) = (newer, older);
        (self.older[entry], self.newer[entry]) = (newest, ends);
        (self.newer[newest], self.older[ends]) = (entry, entry);
    }

    /// Notes an access of the L2 and says what to prefetch for it. The second access of a page in one direction,
    /// not farther apart than the streamer's distance, makes a stream.
    fn observe(&mut self, line: u64) -> Option<PrefetchPlan> {
        let model = self.model?;
        let (page, place) = (line / SMALL_LINES, (line % SMALL_LINES) as i64);
        let Some(entry) = self.entry_of(page) else {
            self.follow(page, place);
            return None;
        };
        self.note_use(entry);
        let stream = &mut self.entries[entry];
        let distance = i64::from(model.distance);
        if !stream.follow(place, distance) {
            return None;
        }
        let direction = stream.direction;
        let farthest = (stream.head + direction * distance).clamp(0, SMALL_LINES as i64 - 1);
        let left = ((farthest - stream.next) * direction + 1).clamp(0, i64::from(model.degree));
        let l3_only_above = model.l3_only_above as usize;
        (left > 0).then_some(PrefetchPlan {
            entry,
            next: stream.next,
            count: left as u32,
            direction,
            l3_only_above,
        })
    }
}

impl MemorySystem {
    /// After a load: counts it, and lets the prefetchers of the L1 know.
    #[inline]
    pub(super) fn train_level_one(
        &mut self,
        core: usize,
        line: u64,
        request: &MemoryRequest,
        served: &Served,
    ) {
        let side = &mut self.cores[core];
        side.stats.loads_by_supplier[served.supplier as usize] += 1;
        let mut ahead = None;
        let fresh =
            !matches!(served.supplier, Supplier::L1 | Supplier::FillBuffer) || side.next_line.used_prefetched;
        side.next_line.used_prefetched = false;
        if side.switches.l1_stride
            && request.instruction != 0
            && let Some(stride) = side.strides.observe(request.instruction, request.address)
        {
            let moved = (request.address.wrapping_add_signed(stride) / 64).wrapping_sub(request.address / 64);
            let target = line.wrapping_add(moved);
            if moved != 0 && (target ^ line) < SMALL_LINES {
                ahead = Some(target);
            }
        }
        let mut next = false;
        if fresh && side.switches.l1_next_line {
            let ascends = side.next_line.recent.contains(&line.wrapping_sub(1));
            side.next_line.recent[side.next_line.place] = line;
            side.next_line.place = (side.next_line.place + 1) % RECENT;
            next = ascends && !(line + 1).is_multiple_of(SMALL_LINES);
        }
        if let Some(target) = ahead {
            self.prefetch_level_one(core, target, served.accepted);
        }
        if next {
            self.prefetch_level_one(core, line + 1, served.accepted);
        }
    }

    /// After a request of an L1 at its L2: the prefetchers of the L2. What they ask for on behalf of a store is to be owned, as the
    /// store will want it (Haswell counts such prefetches apart: L2_RQSTS.RFO_PF, PF_L2_RFO, opcode PrefRFO).
    pub(super) fn train_level_two(&mut self, core: usize, line: u64, cause: LineOrigin, below: &Below) {
        let origin =
            if cause == LineOrigin::Store { LineOrigin::L2PrefetchToOwn } else { LineOrigin::L2Prefetch };
        let at = below.answered;
        let switches = self.cores[core].switches;
        if switches.l2_streamer {
            let number = self.cores[core].cluster;
            if let Some(plan) = self.clusters[number].streams.observe(line) {
                let first = line - line % SMALL_LINES;
                let mut next = plan.next;
                for _ in 0..plan.count {
                    // What is dropped now is tried again with the next access.
                    if !self.prefetch_level_two(core, first + next as u64, at, origin, plan.l3_only_above) {
                        break;
                    }
                    next += plan.direction;
                }
                self.clusters[number].streams.entries[plan.entry].next = next;
            }
        }
        if below.missed && switches.l2_adjacent {
            self.prefetch_level_two(core, line ^ 1, at, origin, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of pages, the one used last at the end.
        #[test]
        fn the_page_unused_for_longest_goes(pages in prop::collection::vec(0u64..12, 1..200)) {
            let mut streams =
                PrefetchStreams::new(Some(Streamer { streams: 4, distance: 8, degree: 2, l3_only_above: 10 }));
            let mut list = vec![NO_PAGE; 4];
            for page in pages {
                let place = list.iter().position(|&followed| followed == page).unwrap_or(0);
                list.remove(place);
                list.push(page);
                streams.observe(page * SMALL_LINES);
                let mut followed = (streams.pages.clone(), list.clone());
                followed.0.sort_unstable();
                followed.1.sort_unstable();
                prop_assert_eq!(followed.0, followed.1);
            }
        }
    }

    fn streams() -> PrefetchStreams {
        PrefetchStreams::new(Some(Streamer { streams: 2, distance: 8, degree: 2, l3_only_above: 10 }))
    }

    #[test]
    fn a_stream_runs_ahead_to_its_distance_and_stays_in_its_page() {
        let mut streams = streams();
        assert_eq!(streams.observe(64 + 3), None);
        let mut asked = Vec::new();
        for line in 4..64 {
            let Some(plan) = streams.observe(64 + line) else { continue };
            assert!(plan.count <= 2);
            asked.extend((0..i64::from(plan.count)).map(|n| plan.next + n));
            let next = plan.next + i64::from(plan.count);
            assert!(next - 1 <= line as i64 + 8);
            streams.entries[plan.entry].next = next;
        }
        assert_eq!(asked, (5..64).collect::<Vec<i64>>(), "each once, to the end of the page");
    }

    #[test]
    fn it_goes_down_too_and_jumps_are_no_stream() {
        let mut streams = streams();
        streams.observe(60);
        let plan = streams.observe(59).expect("a stream");
        assert_eq!((plan.next, plan.direction), (58, -1));
        assert_eq!(streams.observe(3), None, "too far");
    }

    #[test]
    fn disorder_does_not_stop_it_but_turning_back_does() {
        let mut streams = streams();
        let mut plan = |line: u64| {
            let plan = streams.observe(line)?;
            streams.entries[plan.entry].next = plan.next + plan.direction * i64::from(plan.count);
            Some((plan.next, plan.direction))
        };
        let asked: Vec<_> = [10, 11, 13, 12, 14, 13].map(&mut plan).to_vec();
        let up = |next| Some((next, 1));
        assert_eq!(asked, [None, up(12), up(14), up(16), up(18), up(20)]);
        assert_eq!([12, 11, 10].map(&mut plan), [up(22), Some((10, -1)), Some((8, -1))]);
    }

    #[test]
    fn strides_are_believed_after_two_repeats() {
        let mut strides = Strides::default();
        let seen: Vec<Option<i64>> = (0..5).map(|n| strides.observe(0x400, 1000 + n * 256)).collect();
        assert_eq!(seen, [None, None, None, Some(256), Some(256)]);
        assert_eq!(strides.observe(0x400, 0), None);
    }
}
