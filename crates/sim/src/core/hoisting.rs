//! Loads that may go past older stores whose address is not known yet: a counter per load that grows while nothing goes
//! wrong and is cleared when the load turns out to need such a store.
//!
//! A load that is let past and was wrong is forwarded its data all the same: the pipeline is not cleared for it.

/// Loads told apart.
const COUNTERS: usize = 256;

/// The counters of a thread.
#[derive(Clone, Debug)]
pub(super) struct Hoisting {
    counters: Box<[u8]>,
    /// From here on a load goes ahead; 0: every load knows beforehand.
    confident: u8,
    /// The load being executed that met unknown addresses: its counter, and when it could have started.
    asked: Option<(usize, u64)>,
}

impl Hoisting {
    pub fn new(confident: u8) -> Self {
        let counters = vec![0; if confident == 0 { 0 } else { COUNTERS }].into_boxed_slice();
        Self { counters, confident, asked: None }
    }

    /// Whether loads have to guess at all.
    #[inline]
    pub fn guesses(&self) -> bool {
        self.confident > 0
    }

    /// Whether the load at an instruction may start at `ready`, although a store before it may be in its way.
    pub fn goes_ahead(&mut self, instruction: u64, ready: u64) -> bool {
        let counter = (instruction ^ instruction >> 8) as usize % COUNTERS;
        self.asked = Some((counter, ready));
        self.counters[counter] >= self.confident
    }

    /// What the load that asked last turned out to need: `addressed` is when the address of the store that overlaps it
    /// was known, if one did.
    #[inline]
    pub fn learn(&mut self, addressed: Option<u64>) {
        let Some((counter, ready)) = self.asked.take() else { return };
        let counter = &mut self.counters[counter];
        let collided = addressed.is_some_and(|known| known > ready);
        *counter = if collided { 0 } else { counter.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_earns_its_way_and_loses_it_at_once() {
        let mut hoisting = Hoisting::new(3);
        let mut went = Vec::new();
        // The fourth and fifth may go; the fifth needed a store whose address came later.
        for addressed in [None, Some(9), None, None, Some(20), None] {
            went.push(hoisting.goes_ahead(0x40, 10));
            hoisting.learn(addressed);
        }
        assert_eq!(went, [false, false, false, true, true, false]);
        assert!(!hoisting.goes_ahead(0x41, 10), "another load has a counter of its own");
        assert!(!Hoisting::new(0).guesses());
    }
}
