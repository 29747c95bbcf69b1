//! A set-associative cache: lines, with what the owner notes about each, and which goes when another comes.
//!
//! A large simulated cache does not fit into the host's, so what a search needs lies together: each set has a byte per
//! way that tells most lines apart, and its order of replacement beside it, in one line of the host where possible.
//! Whole tags are looked at only where the byte agrees. Bytes are compared eight at a time.
//!
//! Slots of the same way of neighbouring sets lie side by side: a stream fills neighbouring sets in turn, mostly in the
//! same way, and so walks the host's memory in order too.

use machine::model::{CacheGeometry, Replacement};

use super::huge::{self, HostLine};
use crate::divider::Divider;

/// No line has this number: addresses have 64 bits, lines fewer.
pub(super) const EMPTY: u64 = u64::MAX;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// Byte of a way that does not exist: neither empty nor old.
const NO_WAY: u64 = 0x7f;

/// Bits of a slot's number that say the way; the others say the set.
const WAY_BITS: u32 = 8;

/// A line and what is noted about it, side by side.
#[derive(Clone, Copy, Debug)]
struct CacheSlot<T> {
    line: u64,
    note: T,
}

/// Lines in sets, with their order of replacement.
#[derive(Clone, Debug)]
pub(super) struct SetCache<T = ()> {
    /// By way, then by set.
    slots: Vec<CacheSlot<T>>,
    /// Per set: `words` of bytes that tell lines apart, 0 where empty; then its order.
    rows: Vec<HostLine>,
    sets: Divider,
    /// `sets - 1` where sets are a power of two, else all ones.
    mask: u64,
    ways: usize,
    /// Words that hold a byte per way.
    words: usize,
    /// From one set to the next are two to this power of words.
    stride_bits: u32,
    order: Order,
    /// Of a tree, by way: the nodes above it, and those of them that point to the right after a use.
    above: Vec<(u64, u64)>,
    /// Of a tree of at most eight ways, by its bits: the way not used lately, and the bits after its use.
    coldest: Option<Box<[(u8, u8); 256]>>,
    /// Slots without a line.
    empty: usize,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// A byte per way: how many others were used after it.
    Lru,
    /// A word: bit *n* says that the victim is on the right of node *n*; the root is node 1.
    Tree,
    /// State of the sequence.
    Random(u64),
}

/// Marks the bytes of `word` that equal those of `bytes`, and perhaps others above them.
#[inline]
fn equal(word: u64, bytes: u64) -> u64 {
    let differ = word ^ bytes;
    differ.wrapping_sub(ONES) & !differ & HIGH
}

/// 1 in each byte of `word` that is below that of `bytes`; none has its high bit set.
#[inline]
fn below(word: u64, bytes: u64) -> u64 {
    // A byte's high bit stays where it is not below.
    (!((word | HIGH) - bytes) & HIGH) >> 7
}

/// The byte that stands for a line: never 0.
#[inline]
fn short(line: u64) -> u64 {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).max(1)
}

/// A word with another byte at `place`.
#[inline]
fn with_byte(word: u64, place: usize, byte: u64) -> u64 {
    let shift = place * 8;
    word & !(0xff << shift) | byte << shift
}

impl<T: Copy + Default> SetCache<T> {
    /// An empty cache of at most 128 ways, 64 with tree replacement. `seed` is for random replacement.
    pub fn new(sets: u64, ways: u32, replacement: Replacement, seed: u64) -> Self {
        let (sets, ways) = (sets.max(1), ways.clamp(1, 128) as usize);
        let words = ways.div_ceil(8);
        let order = match replacement {
            Replacement::Lru => Order::Lru,
            Replacement::TreePlru => Order::Tree,
            Replacement::Random => Order::Random(seed | 1),
        };
        let needed = match order {
            Order::Lru => 2 * words,
            Order::Tree => words + 1,
            Order::Random(_) => words,
        };
        // No set across two rows unless it needs more than one.
        let stride_bits = needed.next_power_of_two().trailing_zeros();
        let above: Vec<(u64, u64)> = (0..ways).map(|way| above(way, ways)).collect();
        let coldest = (matches!(order, Order::Tree) && ways <= 8).then(|| {
            Box::new(std::array::from_fn(|bits| {
                let way = coldest(bits as u64, ways);
                let (nodes, right) = above[way];
                (way as u8, (bits as u64 & !nodes | right) as u8)
            }))
        });
        let mut cache = Self {
            slots: huge::table(CacheSlot { line: EMPTY, note: T::default() }, sets as usize * ways),
            rows: huge::table(HostLine::default(), ((sets as usize) << stride_bits).div_ceil(8)),
            sets: Divider::new(sets),
            mask: if sets.is_power_of_two() { sets - 1 } else { u64::MAX },
            ways,
            words,
            stride_bits,
            order,
            above,
            coldest,
            empty: sets as usize * ways,
        };
        cache.begin();
        cache
    }

    /// Marks ways that do not exist, and gives those that do an order.
    fn begin(&mut self) {
        for set in 0..self.sets() {
            for way in 0..8 * self.words {
                let at = (set << self.stride_bits) + way / 8;
                let shift = way % 8 * 8;
                if way >= self.ways {
                    *self.word_mut(at) |= NO_WAY << shift;
                }
                if matches!(self.order, Order::Lru) {
                    let age = if way < self.ways { way as u64 } else { NO_WAY };
                    *self.word_mut(at + self.words) |= age << shift;
                }
            }
        }
    }

    /// With a model's geometry.
    pub fn with_geometry(geometry: &CacheGeometry, seed: u64) -> Self {
        let sets = geometry.size.0 / (geometry.line.0.max(1) * u64::from(geometry.ways.max(1)));
        Self::new(sets, geometry.ways, geometry.replacement, seed)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        huge::words(&self.rows)[at]
    }

    #[inline]
    fn word_mut(&mut self, at: usize) -> &mut u64 {
        &mut huge::words_mut(&mut self.rows)[at]
    }

    #[inline]
    fn sets(&self) -> usize {
        self.sets.by() as usize
    }

    #[inline]
    fn set(&self, index: u64) -> usize {
        let index = index & self.mask;
        (if index < self.sets.by() { index } else { self.sets.rest(index) }) as usize
    }

    #[inline]
    fn number(set: usize, way: usize) -> usize {
        set << WAY_BITS | way
    }

    #[inline]
    fn set_and_way(slot: usize) -> (usize, usize) {
        (slot >> WAY_BITS, slot & ((1 << WAY_BITS) - 1))
    }

    #[inline]
    fn at(&self, slot: usize) -> usize {
        let (set, way) = Self::set_and_way(slot);
        way * self.sets() + set
    }

    /// The number of the slot that `line` is in; `index` chooses the set.
    #[inline]
    pub fn find(&self, index: u64, line: u64) -> Option<usize> {
        let (set, bytes) = (self.set(index), short(line) * ONES);
        let alike = equal(self.word(set << self.stride_bits), bytes);
        if alike != 0 {
            return self.confirm(set, alike.trailing_zeros() as usize / 8, line);
        }
        // Most caches have one word of bytes.
        if self.words == 1 { None } else { self.find_further(set, bytes, line) }
    }

    /// In the other words than the first.
    #[inline(never)]
    fn find_further(&self, set: usize, bytes: u64, line: u64) -> Option<usize> {
        let first = set << self.stride_bits;
        let others = &huge::words(&self.rows)[first + 1..first + self.words];
        let found = others.iter().map(|&word| equal(word, bytes)).enumerate().find(|&(_, alike)| alike != 0);
        let (word, alike) = found?;
        self.confirm(set, 8 * (word + 1) + alike.trailing_zeros() as usize / 8, line)
    }

    /// The byte of a way agrees: is it the line?
    #[inline]
    fn confirm(&self, set: usize, way: usize, line: u64) -> Option<usize> {
        match self.slots.get(way * self.sets() + set) {
            Some(slot) if slot.line == line => Some(Self::number(set, way)),
            _ => self.find_slowly(set, line),
        }
    }

    /// For when the first byte that agrees is another line's.
    #[cold]
    fn find_slowly(&self, set: usize, line: u64) -> Option<usize> {
        let way = (0..self.ways).find(|way| self.slots[way * self.sets() + set].line == line)?;
        Some(Self::number(set, way))
    }

    /// Asks the host for what looking `line` up will need: its set.
    #[inline]
    pub fn expect_set(&self, index: u64) {
        huge::expect(&self.rows[(self.set(index) << self.stride_bits) / 8]);
    }

    /// The line in a slot, or [`EMPTY`].
    #[inline]
    pub fn line(&self, slot: usize) -> u64 {
        self.slots[self.at(slot)].line
    }

    /// What is noted about the line in a slot.
    #[inline]
    pub fn note(&self, slot: usize) -> &T {
        &self.slots[self.at(slot)].note
    }

    /// The same, to be changed.
    #[inline]
    pub fn note_mut(&mut self, slot: usize) -> &mut T {
        let at = self.at(slot);
        &mut self.slots[at].note
    }

    /// Notes a use, and gives what is noted about the line.
    #[inline]
    pub fn touched(&mut self, slot: usize) -> &mut T {
        self.touch(slot);
        self.note_mut(slot)
    }

    /// Notes a use.
    #[inline]
    pub fn touch(&mut self, slot: usize) {
        let (set, way) = Self::set_and_way(slot);
        self.touch_way(set, way);
    }

    #[inline]
    fn touch_way(&mut self, set: usize, way: usize) {
        match self.order {
            Order::Lru => self.touch_lru(set, way),
            Order::Tree => {
                let (nodes, right) = self.above[way];
                let bits = self.word_mut((set << self.stride_bits) + self.words);
                *bits = *bits & !nodes | right;
            }
            Order::Random(_) => {}
        }
    }

    #[inline(never)]
    fn touch_lru(&mut self, set: usize, way: usize) {
        let first = (set << self.stride_bits) + self.words;
        rejuvenate(&mut huge::words_mut(&mut self.rows)[first..first + self.words], way);
    }

    /// The first way of a set whose byte, in the words from `from` on, is `byte`.
    #[inline(never)]
    fn way_of(&self, set: usize, from: usize, byte: u64) -> Option<usize> {
        let first = (set << self.stride_bits) + from;
        let words = &huge::words(&self.rows)[first..first + self.words];
        // The lowest mark of a word is always a true one. All words are looked at: which has it cannot be foretold.
        let mut way = usize::MAX;
        for (word, &bytes) in words.iter().enumerate().rev() {
            let alike = equal(bytes, byte * ONES);
            let first = word * 8 + alike.trailing_zeros() as usize / 8;
            way = if alike == 0 { way } else { first };
        }
        (way != usize::MAX).then_some(way)
    }

    /// The slot for a new line: an empty one, else the victim's.
    #[inline]
    pub fn victim(&mut self, index: u64) -> usize {
        let set = self.set(index);
        let free = if self.empty > 0 { self.way_of(set, 0, 0) } else { None };
        let way = free.unwrap_or_else(|| match &mut self.order {
            Order::Lru => self.way_of(set, self.words, self.ways as u64 - 1).unwrap_or(0),
            Order::Tree => coldest(self.word((set << self.stride_bits) + self.words), self.ways),
            Order::Random(state) => {
                // Marsaglia's xorshift64: any nonzero state goes round all others.
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                ((u128::from(*state) * self.ways as u128) >> 64) as usize
            }
        });
        Self::number(set, way)
    }

    /// Puts `line` into an empty slot, else the victim's, as [`SetCache::replace`] does. Lines of the next `ahead` sets
    /// follow soon: asks the host for the slot of the last of them.
    #[inline]
    pub fn put(&mut self, index: u64, line: u64, note: T, ahead: usize) -> (u64, T) {
        let (set, full) = (self.set(index), self.empty == 0);
        let way = match (&self.order, &self.coldest) {
            (Order::Lru, _) if full => {
                let way = self.renew_oldest(set);
                self.set_byte(set, way, short(line));
                way
            }
            (Order::Tree, Some(coldest)) if full => {
                // Up to eight ways have their bytes in a word and all nodes in a byte of the next.
                let [bytes, bits] = &mut huge::words_mut(&mut self.rows).as_chunks_mut().0[set];
                let (way, after) = coldest[*bits as usize % 256];
                *bits = after.into();
                *bytes = with_byte(*bytes, way.into(), short(line));
                way.into()
            }
            _ => {
                let slot = self.victim(index);
                return self.replace(slot, line, note);
            }
        };
        let at = way * self.sets() + set;
        if ahead > 0
            && let Some(beside) = self.slots.get(at + ahead)
        {
            huge::expect(beside);
        }
        let gone = std::mem::replace(&mut self.slots[at], CacheSlot { line, note });
        (gone.line, gone.note)
    }

    /// Makes the way of a set that was not used for longest the one used last.
    #[inline]
    fn renew_oldest(&mut self, set: usize) -> usize {
        let first = (set << self.stride_bits) + self.words;
        let ages = &mut huge::words_mut(&mut self.rows)[first..first + self.words];
        let oldest = (self.ways as u64 - 1) * ONES;
        let mut way = 0;
        for (word, ages) in ages.iter_mut().enumerate() {
            // Which word has it cannot be foretold: no branch. The lowest mark is a true one.
            let alike = equal(*ages, oldest);
            way = if alike == 0 { way } else { 8 * word + alike.trailing_zeros() as usize / 8 };
            *ages += below(*ages, oldest);
        }
        ages[way / 8] = with_byte(ages[way / 8], way % 8, 0);
        way
    }

    /// Puts `line` into `slot`, as the one just used; gives the line that was there, or [`EMPTY`], and its note.
    #[inline]
    pub fn replace(&mut self, slot: usize, line: u64, note: T) -> (u64, T) {
        let ((set, way), at) = (Self::set_and_way(slot), self.at(slot));
        let gone = std::mem::replace(&mut self.slots[at], CacheSlot { line, note });
        self.empty -= usize::from(gone.line == EMPTY);
        self.set_byte(set, way, short(line));
        self.touch_way(set, way);
        (gone.line, gone.note)
    }

    /// Empties `slot`.
    #[inline]
    pub fn clear(&mut self, slot: usize) {
        let ((set, way), at) = (Self::set_and_way(slot), self.at(slot));
        self.empty += usize::from(self.slots[at].line != EMPTY);
        self.slots[at].line = EMPTY;
        self.set_byte(set, way, 0);
    }

    #[inline]
    fn set_byte(&mut self, set: usize, way: usize, byte: u64) {
        let word = self.word_mut((set << self.stride_bits) + way / 8);
        *word = with_byte(*word, way % 8, byte);
    }

    /// All slots that hold a line, with it.
    pub fn held(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let slots = (0..self.sets()).flat_map(|set| (0..self.ways).map(move |way| (set, way)));
        slots
            .map(|(set, way)| Self::number(set, way))
            .map(|slot| (slot, self.line(slot)))
            .filter(|&(_, line)| line != EMPTY)
    }
}

/// Makes a way the youngest of those whose ages are bytes of `ages`.
#[inline]
fn rejuvenate(ages: &mut [u64], way: usize) {
    let shift = way % 8 * 8;
    let age = ages[way / 8] >> shift & 0xff;
    if age == 0 {
        return;
    }
    let its = age * ONES;
    for ages in ages.iter_mut() {
        *ages += below(*ages, its);
    }
    ages[way / 8] &= !(0xff << shift);
}

/// The nodes above a way of a tree, and those of them that point to the right once it has been used: away from it.
fn above(way: usize, ways: usize) -> (u64, u64) {
    let (mut nodes, mut right) = (0, 0);
    let mut node = ways.next_power_of_two() + way;
    while node > 1 {
        let is_left = node & 1 == 0;
        node /= 2;
        // More than 64 ways have no tree.
        nodes |= 1u64.checked_shl(node as u32).unwrap_or(0);
        right |= if is_left { 1u64.checked_shl(node as u32).unwrap_or(0) } else { 0 };
    }
    (nodes, right)
}

/// Follows the tree to the way that was not used lately. With ways that are no power of two, a branch without ways
/// is never taken.
fn coldest(bits: u64, ways: usize) -> usize {
    let (mut node, mut low, mut span) = (1, 0, ways.next_power_of_two());
    while span > 1 {
        span /= 2;
        let right = bits >> node & 1 == 1 && low + span < ways;
        node = 2 * node + usize::from(right);
        low += if right { span } else { 0 };
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn use_line(cache: &mut SetCache<()>, line: u64) -> bool {
        match cache.find(line, line) {
            Some(slot) => {
                cache.touch(slot);
                true
            }
            None => {
                cache.put(line, line, (), 0);
                false
            }
        }
    }

    #[test]
    fn the_tree_spares_the_recent_half_and_uses_all_ways() {
        for ways in [4, 12, 20] {
            let mut cache = SetCache::<()>::new(1, ways, Replacement::TreePlru, 0);
            for line in 0..u64::from(ways) {
                assert!(!use_line(&mut cache, line));
            }
            for line in 0..1000 {
                use_line(&mut cache, line % 7 + 100 * (line % 3));
                assert!(cache.find(0, line % 7 + 100 * (line % 3)).is_some());
            }
            let mut gone = std::collections::HashSet::new();
            for line in 10_000..10_000 + 64 {
                gone.insert(cache.victim(0));
                use_line(&mut cache, line);
            }
            assert_eq!(gone.len(), ways as usize, "{ways} ways");
        }
    }

    #[test]
    fn random_replacement_follows_its_seed_and_reaches_all_ways() {
        let victims = |seed| -> Vec<usize> {
            let mut cache = SetCache::<()>::new(1, 8, Replacement::Random, seed);
            (0..8).for_each(|line| _ = use_line(&mut cache, line));
            (0..200).map(|_| cache.victim(0)).collect()
        };
        assert_eq!(victims(7), victims(7));
        assert_ne!(victims(7), victims(8));
        assert!((0..8).all(|way| victims(7).contains(&way)));
    }

    proptest! {
        #[test]
        fn to_put_is_to_replace_the_victim(
            ways in 1u32..24,
            replacement in prop::sample::select(vec![Replacement::Lru, Replacement::TreePlru, Replacement::Random]),
            lines in prop::collection::vec((0u64..200, any::<bool>()), 1..400),
        ) {
            let mut cache = SetCache::<u64>::new(4, ways, replacement, 1);
            let mut other = cache.clone();
            for (line, clear) in lines {
                let found = cache.find(line, line);
                prop_assert_eq!(found, other.find(line, line));
                match found {
                    Some(slot) if clear => [&mut cache, &mut other].map(|cache| cache.clear(slot)).len(),
                    Some(slot) => [&mut cache, &mut other].map(|cache| cache.touch(slot)).len(),
                    None => {
                        let slot = other.victim(line);
                        prop_assert_eq!(cache.put(line, line, line, 0), other.replace(slot, line, line));
                        1
                    }
                };
            }
            prop_assert!(cache.held().eq(other.held()));
        }

        /// Against a list per set, most recent first.
        #[test]
        fn lru_is_lru(sets in 1u64..5, ways in 1u32..12, lines in prop::collection::vec(0u64..60, 1..400)) {
            let mut cache = SetCache::<()>::new(sets, ways, Replacement::Lru, 0);
            let mut lists: Vec<Vec<u64>> = vec![Vec::new(); sets as usize];
            for line in lines {
                let list = &mut lists[(line % sets) as usize];
                let held = list.iter().position(|&other| other == line);
                if let Some(place) = held {
                    list.remove(place);
                }
                list.insert(0, line);
                list.truncate(ways as usize);
                prop_assert_eq!(use_line(&mut cache, line), held.is_some());
            }
        }
    }
}
