//! Which module lies where in the memory of a process, as told by the kernel's records.
//!
//! Mappings are only ever added: the kernel reports no `munmap`. What is mapped later lies over what was there.

use std::{collections::BTreeMap, rc::Rc};

/// A piece of mapped code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Where in the file `start` lies.
    pub offset: u64,
    /// Which module, by the number [`Modules`](super::modules::Modules) gave it.
    pub module: usize,
}

impl Mapped {
    /// Where in the file an address of it lies.
    pub fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }
}

/// The code of one process. A clone shares everything until one of the two changes, so that forks cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    by_start: Rc<BTreeMap<u64, Mapped>>,
}

impl Space {
    /// Puts `new` over whatever was there.
    pub fn map(&mut self, new: Mapped) {
        if new.end <= new.start {
            return;
        }
        let all = Rc::make_mut(&mut self.by_start);
        // Pieces do not overlap each other, so those that reach into the new one are neighbours from its end down.
        while let Some((_, old)) = all.range(..new.end).next_back()
            && old.end > new.start
        {
            let old = *old;
            all.remove(&old.start);
            if old.end > new.end {
                let offset = old.offset_of(new.end);
                all.insert(new.end, Mapped { start: new.end, offset, ..old });
            }
            if old.start < new.start {
                all.insert(old.start, Mapped { end: new.start, ..old });
            }
        }
        all.insert(new.start, new);
    }

    /// All pieces, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Mapped> {
        self.by_start.values()
    }

    /// What lies at an address.
    pub fn at(&self, address: u64) -> Option<&Mapped> {
        let (_, mapped) = self.by_start.range(..=address).next_back()?;
        (address < mapped.end).then_some(mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(start: u64, end: u64, module: usize) -> Mapped {
        Mapped { start, end, offset: start * 10, module }
    }

    #[test]
    fn a_fork_sees_what_its_parent_saw_and_no_later_change() {
        let mut parent = Space::default();
        parent.map(piece(10, 20, 1));
        let mut child = parent.clone();
        child.map(piece(10, 20, 2));
        parent.map(piece(30, 40, 3));
        assert_eq!(parent.at(15).map(|mapped| mapped.module), Some(1));
        assert_eq!(child.at(15).map(|mapped| mapped.module), Some(2));
        assert_eq!(child.at(35), None);
    }

    #[test]
    fn what_is_left_of_a_piece_keeps_its_place_in_the_file() {
        let mut space = Space::default();
        space.map(Mapped { start: 0x1000, end: 0x5000, offset: 0x800, module: 7 });
        space.map(Mapped { start: 0x2000, end: 0x3000, offset: 0, module: 8 });
        assert_eq!(space.at(0x1fff).unwrap().offset_of(0x1fff), 0x17ff);
        assert_eq!(space.at(0x3004).unwrap().offset_of(0x3004), 0x2804);
        assert_eq!(space.at(0x2004).unwrap().offset_of(0x2004), 4);
        space.map(Mapped { start: 9, end: 9, offset: 0, module: 1 });
        assert_eq!(space.at(9), None);
    }

    proptest! {
        /// Against painting every address.
        #[test]
        fn agrees_with_painting(pieces in prop::collection::vec((0u64..200, 1u64..60), 0..30)) {
            let mut painted = [None; 300];
            let mut space = Space::default();
            for (module, (start, length)) in pieces.into_iter().enumerate() {
                space.map(piece(start, start + length, module));
                painted[start as usize..(start + length) as usize].fill(Some((module, start)));
            }
            for (address, owner) in painted.into_iter().enumerate() {
                let address = address as u64;
                let found = space.at(address).map(|mapped| (mapped.module, mapped.offset_of(address)));
                prop_assert_eq!(found, owner.map(|(module, start)| (module, start * 10 + address - start)));
            }
        }
    }
}
