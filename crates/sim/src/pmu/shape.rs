//! What a counter makes of a value per cycle: threshold, inversion, edge.
//!
//! Without a threshold (`cmask` 0) it adds the value up, and inversion has no effect. With one it counts the cycles in
//! which the value reaches it, or (`inv`) does not; with `edge`, the cycles in which that begins to hold. An edge without
//! a threshold is taken as one with a threshold of 1.

/// Threshold, inversion, edge of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmuShape {
    /// 0: none.
    pub threshold: u32,
    /// Below the threshold instead.
    pub inverted: bool,
    /// Only where it begins to hold.
    pub edge: bool,
}

impl PmuShape {
    /// Whether values just add up.
    pub const fn is_sum(self) -> bool {
        self.threshold == 0 && !self.edge
    }

    /// Whether the condition holds for a value.
    #[inline]
    const fn holds(self, value: u64) -> bool {
        let threshold = if self.threshold == 0 { 1 } else { self.threshold };
        (value >= threshold as u64) != self.inverted
    }

    /// What `cycles` cycles of the same value add. `held` is whether the condition held in the cycle before, and is put
    /// right.
    #[inline]
    pub fn add(self, value: u64, cycles: u64, held: &mut bool) -> u64 {
        if self.is_sum() {
            return value * cycles;
        }
        let holds = self.holds(value);
        let began = holds && !*held;
        *held = holds;
        match (self.edge, holds) {
            (true, _) => u64::from(began),
            (false, true) => cycles,
            (false, false) => 0,
        }
    }
}
