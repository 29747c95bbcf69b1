//! Branch prediction from real outcomes: two-bit counters under global history, a loop predictor that remembers trip
//! counts, a return stack, and the last target of indirect branches.

use machine::model::BranchModel;

/// Longest loop whose end the loop predictor foresees, as documented for the first cores that had one.
const LONGEST_LOOP: u32 = 64;
/// Times in a row a trip count must be seen before it is believed.
const BELIEVED: u8 = 2;
/// Entries of the table of indirect targets.
const INDIRECT_ENTRIES: usize = 512;
/// Return addresses kept.
const RETURNS: usize = 16;

/// A loop's trip count.
#[derive(Clone, Copy, Debug, Default)]
struct LoopEntry {
    branch: u64,
    trips: u32,
    current: u32,
    seen: u8,
}

/// What all threads of a core share.
#[derive(Clone, Debug)]
pub struct Predictor {
    counters: Box<[u8]>,
    loops: Box<[LoopEntry]>,
    targets: Box<[u64]>,
    history_mask: u64,
}

/// What each thread has for itself.
#[derive(Clone, Debug, Default)]
pub struct History {
    taken: u64,
    returns: [u64; RETURNS],
    depth: usize,
}

impl Predictor {
    /// Nothing learnt: counters begin at weakly taken, as most branches of loops are.
    pub fn new(model: &BranchModel) -> Self {
        Self {
            counters: vec![2; 1 << model.table_bits.min(24)].into_boxed_slice(),
            loops: vec![LoopEntry::default(); model.loop_entries.min(1 << 16) as usize].into_boxed_slice(),
            targets: vec![0; INDIRECT_ENTRIES].into_boxed_slice(),
            history_mask: (1 << model.history_bits.min(63)) - 1,
        }
    }

    /// Predicts a conditional branch and learns its outcome; true if the prediction was right.
    pub fn conditional(&mut self, branch: u64, taken: bool, history: &mut History) -> bool {
        let index =
            (branch ^ branch >> 15 ^ history.taken & self.history_mask) as usize & (self.counters.len() - 1);
        let counter = &mut self.counters[index];
        let by_counter = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        history.taken = history.taken << 1 | u64::from(taken);
        self.foresee(branch, taken).unwrap_or(by_counter) == taken
    }

    /// What the loop predictor says, if it believes to know the loop.
    fn foresee(&mut self, branch: u64, taken: bool) -> Option<bool> {
        if self.loops.is_empty() {
            return None;
        }
        let slot = (branch ^ branch >> 7) as usize % self.loops.len();
        let entry = &mut self.loops[slot];
        if entry.branch != branch {
            *entry = LoopEntry { branch, ..LoopEntry::default() };
        }
        let prediction = (entry.seen >= BELIEVED).then_some(entry.current + 1 < entry.trips);
        entry.current += 1;
        if !taken {
            entry.seen = if entry.trips == entry.current { entry.seen.saturating_add(1) } else { 0 };
            (entry.trips, entry.current) = (entry.current, 0);
        } else if entry.current >= LONGEST_LOOP {
            // Too long to be counted: forget it until it ends.
            (entry.trips, entry.seen) = (0, 0);
        }
        prediction
    }

    /// The target an indirect branch had last; none before the first time.
    pub fn indirect(&self, branch: u64) -> Option<u64> {
        Some(self.targets[Self::target_slot(branch)]).filter(|&target| target != 0)
    }

    /// Learns an indirect branch's target.
    pub fn learn_target(&mut self, branch: u64, target: u64) {
        self.targets[Self::target_slot(branch)] = target;
    }

    fn target_slot(branch: u64) -> usize {
        (branch ^ branch >> 9) as usize & (INDIRECT_ENTRIES - 1)
    }
}

impl History {
    /// A call: the address behind it is where a return will go.
    pub fn call(&mut self, return_address: u64) {
        self.returns[self.depth % RETURNS] = return_address;
        self.depth += 1;
    }

    /// Where a return is expected to go; none if no call was seen.
    pub fn predict_return(&mut self) -> Option<u64> {
        self.depth = self.depth.checked_sub(1)?;
        Some(self.returns[self.depth % RETURNS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor(loop_entries: u32) -> Predictor {
        let waits_for_branches = false;
        Predictor::new(&BranchModel {
            table_bits: 12,
            history_bits: 8,
            loop_entries,
            mispredict_penalty: 15,
            waits_for_branches,
        })
    }

    fn wrong(predictor: &mut Predictor, outcomes: impl Iterator<Item = bool>) -> usize {
        let mut history = History::default();
        outcomes.filter(|&taken| !predictor.conditional(0x1234, taken, &mut history)).count()
    }

    #[test]
    fn loops_of_known_length_are_foreseen() {
        let trips = |length: usize| (0..50 * length).map(move |step| step % length != length - 1);
        // 30 iterations are longer than the history: only the loop predictor can know.
        assert!(wrong(&mut predictor(16), trips(30)) <= 4);
        assert!(wrong(&mut predictor(0), trips(30)) >= 45);
        // Longer than the loop predictor counts: missed once per round, and only then.
        let missed = wrong(&mut predictor(16), trips(1000));
        assert!((48..=52).contains(&missed), "{missed}");
    }

    #[test]
    fn a_coin_is_missed_half_the_time() {
        let mut coin = kernels::draw::SplitMix::new(3);
        let missed = wrong(&mut predictor(16), (0..20_000).map(|_| coin.next_u64() >> 63 == 1));
        assert!((9500..10_500).contains(&missed), "{missed}");
    }

    #[test]
    fn returns_go_where_calls_came_from() {
        let mut history = History::default();
        assert_eq!(history.predict_return(), None);
        history.call(1);
        history.call(2);
        assert_eq!((history.predict_return(), history.predict_return()), (Some(2), Some(1)));
        assert_eq!(history.predict_return(), None);
    }

    #[test]
    fn indirect_branches_go_where_they_went() {
        let mut predictor = predictor(0);
        assert_eq!(predictor.indirect(8), None);
        predictor.learn_target(8, 77);
        assert_eq!(predictor.indirect(8), Some(77));
    }
}
