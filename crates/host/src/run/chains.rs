//! Call chains, each kept once.

use std::collections::HashMap;

/// Places in all chains together; beyond it new chains are left out.
const KEPT_PLACES: usize = 1 << 20;

/// The chains so far.
#[derive(Debug, Default)]
pub(super) struct Chains {
    by_places: HashMap<Box<[u32]>, u32>,
    places: usize,
    /// Samples whose chain was left out.
    pub left_out: u64,
}

impl Chains {
    /// The index of a chain, and whether it is new; none if there are too many.
    pub fn index(&mut self, places: &[u32]) -> Option<(u32, bool)> {
        if let Some(index) = self.by_places.get(places) {
            return Some((*index, false));
        }
        if self.places + places.len() > KEPT_PLACES {
            self.left_out += 1;
            return None;
        }
        let index = u32::try_from(self.by_places.len()).ok()?;
        self.places += places.len();
        self.by_places.insert(places.into(), index);
        Some((index, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chain_is_kept_once_and_not_too_many() {
        let mut chains = Chains::default();
        assert_eq!(chains.index(&[1, 2]), Some((0, true)));
        assert_eq!(chains.index(&[1, 3]), Some((1, true)));
        assert_eq!(chains.index(&[1, 2]), Some((0, false)));
        let long: Vec<u32> = (0..u32::try_from(KEPT_PLACES).unwrap()).collect();
        assert_eq!(chains.index(&long), None);
        assert_eq!(chains.index(&[1, 3]), Some((1, false)));
        assert_eq!(chains.left_out, 1);
    }
}
