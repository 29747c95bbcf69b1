//! A snoop filter: which private caches of a package hold which line. It serves packages whose shared cache does not
//! hold everything, or that have none. It is exact and never overflows: real ones have ways and evict.

use super::{huge, pages::mix};

/// What is known of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// One bit per L2 of the package.
    pub by: u64,
    /// One of them may write it without asking.
    pub owned: bool,
    /// Other packages may hold it too.
    pub elsewhere: bool,
}

/// A hash table with open addressing whose size never changes.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Line number plus one; 0 where empty.
    keys: Vec<u64>,
    held: Vec<Held>,
}

impl Filter {
    /// With room for `lines` lines.
    pub fn new(lines: usize) -> Self {
        let size = (lines * 4 / 3 + 64).next_power_of_two();
        Self { keys: huge::table(0, size), held: huge::table(Held::default(), size) }
    }

    fn ideal(&self, key: u64) -> usize {
        mix(key) as usize & (self.keys.len() - 1)
    }

    fn place(&self, key: u64) -> usize {
        let mut place = self.ideal(key);
        while self.keys[place] != 0 && self.keys[place] != key {
            place = (place + 1) & (self.keys.len() - 1);
        }
        place
    }

    /// Who holds `line`; nobody where it is not known.
    pub fn get(&self, line: u64) -> Held {
        self.held[self.place(line + 1)]
    }

    /// Notes who holds `line`; forgets it where nobody does.
    pub fn set(&mut self, line: u64, held: Held) {
        let place = self.place(line + 1);
        if held.by != 0 {
            self.keys[place] = line + 1;
            self.held[place] = held;
        } else if self.keys[place] != 0 {
            self.remove(place);
        }
    }

    /// Empties a place and moves those behind it up, so that every search still ends where it should.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.keys.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let key = self.keys[next];
            if key == 0 {
                break;
            }
            let ideal = self.ideal(key);
            if next.wrapping_sub(ideal) & mask >= next.wrapping_sub(hole) & mask {
                self.keys[hole] = key;
                self.held[hole] = self.held[next];
                hole = next;
            }
        }
        self.keys[hole] = 0;
        self.held[hole] = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn like_a_map(steps in prop::collection::vec((0u64..60, 0u64..4), 1..400)) {
            let mut filter = Filter::new(60);
            let mut map = HashMap::new();
            for (line, by) in steps {
                let held = Held { by, owned: by == 1, elsewhere: false };
                filter.set(line, held);
                map.insert(line, held);
                for (&line, &held) in &map {
                    let expected = if held.by == 0 { Held::default() } else { held };
                    prop_assert_eq!(filter.get(line), expected);
                }
            }
        }
    }
}
