//! Samples: where a core was when a counter overflowed, and loads with their address, time and source.

use std::collections::VecDeque;

use kernels::draw::SplitMix;

use super::recipe::Trigger;
use crate::access::{Supplier, Translation};

/// A sample of one hardware thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedSample {
    /// In nanoseconds of the machine's life.
    pub time_ns: f64,
    /// Address of the instruction.
    pub instruction: u64,
    /// Of a load.
    pub load: Option<LoadSample>,
    /// Virtual address, of a store.
    pub stored: Option<u64>,
}

/// What is known of a sampled load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSample {
    /// Virtual address.
    pub address: u64,
    /// Cycles from its start to its data.
    pub latency_cycles: u64,
    /// Who had the line.
    pub supplier: Supplier,
    /// How the address was translated.
    pub translation: Translation,
    /// It read what an older store had not yet written.
    pub forwarded: bool,
}

/// A sample with its moment in cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub cycle: u64,
    pub instruction: u64,
    pub load: Option<LoadSample>,
    pub stored: Option<u64>,
}

/// Makes samples of one hardware thread.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedSampler {
    trigger: Trigger,
    /// The load that is followed has its data then.
    followed_until: u64,
    /// Stores since the last that was sampled.
    stores: u64,
    /// Instructions that retired, with their cycles.
    retired: VecDeque<(u64, u64)>,
    /// Cycles for whose retirement samples wait.
    due: VecDeque<u64>,
    pub samples: Vec<Raw>,
}

impl SimulatedSampler {
    pub fn new(trigger: Trigger) -> Self {
        Self {
            trigger,
            followed_until: 0,
            stores: 0,
            retired: VecDeque::new(),
            due: VecDeque::new(),
            samples: Vec::new(),
        }
    }

    /// A load has its data. Which loads are followed is left to chance, one at a time (Intel SDM, load latency facility: loads are
    /// randomly selected by hardware and tagged); with a period of 1 all are.
    pub fn load(&mut self, cycle: u64, instruction: u64, load: LoadSample) {
        let Trigger::Loads { period, least_cycles } = self.trigger else { return };
        if load.latency_cycles < least_cycles {
            return;
        }
        if period > 1 {
            let taken = cycle.saturating_sub(load.latency_cycles) < self.followed_until;
            // The same for the same run, and for other moments or places another.
            let mut chance = SplitMix::new(cycle ^ load.address.rotate_left(32));
            if taken || chance.below(period) > 0 {
                return;
            }
            self.followed_until = cycle;
        }
        self.samples.push(Raw { cycle, instruction, load: Some(load), stored: None });
    }

    /// A store has its address.
    pub fn store(&mut self, cycle: u64, instruction: u64, address: u64) {
        let Trigger::Stores { period } = self.trigger else { return };
        self.stores += 1;
        if self.stores >= period {
            self.stores = 0;
            self.samples.push(Raw { cycle, instruction, load: None, stored: Some(address) });
        }
    }

    /// An instruction retires; in order.
    pub fn retire(&mut self, cycle: u64, instruction: u64) {
        if matches!(self.trigger, Trigger::Overflow { .. }) {
            self.retired.push_back((cycle, instruction));
        }
    }

    /// The counter overflowed at `cycle`; in order.
    pub fn overflow(&mut self, cycle: u64) {
        if let Trigger::Overflow { skid_cycles, .. } = self.trigger {
            self.due.push_back(cycle + skid_cycles);
        }
    }

    /// Blames what retires next for each overflow that is due. No overflow before `upto` is still to come. With `last`,
    /// nothing else will retire.
    pub fn blame(&mut self, upto: u64, last: bool) {
        while let Some(&due) = self.due.front() {
            while self.retired.len() > 1 && self.retired.front().is_some_and(|&(cycle, _)| cycle < due) {
                self.retired.pop_front();
            }
            match self.retired.front() {
                Some(&(cycle, instruction)) if cycle >= due || last => {
                    self.samples.push(Raw { cycle: due, instruction, load: None, stored: None });
                    self.due.pop_front();
                }
                _ => break,
            }
        }
        if self.due.is_empty() {
            while self.retired.len() > 1 && self.retired[1].0 < upto {
                self.retired.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_that_retires_after_the_skid_is_blamed() {
        let mut sampler = SimulatedSampler::new(Trigger::Overflow { counter: 0, period: 1, skid_cycles: 3 });
        for (cycle, instruction) in [(10, 1), (12, 2), (13, 3), (40, 4), (41, 5)] {
            sampler.retire(cycle, instruction);
        }
        for cycle in [9, 10, 20, 60] {
            sampler.overflow(cycle);
        }
        sampler.blame(60, false);
        assert_eq!(sampler.samples.iter().map(|sample| sample.instruction).collect::<Vec<_>>(), [2, 3, 4]);
        sampler.blame(70, true);
        assert_eq!(sampler.samples.len(), 4);
        assert_eq!(sampler.samples[3].instruction, 5, "the last one, as nothing follows");
    }

    fn load(address: u64, latency_cycles: u64) -> LoadSample {
        let (supplier, translation) = (Supplier::L3, Translation::L1);
        LoadSample { address, latency_cycles, supplier, translation, forwarded: false }
    }

    #[test]
    fn every_so_many_th_store_is_sampled_with_its_address() {
        let mut sampler = SimulatedSampler::new(Trigger::Stores { period: 3 });
        (1..=10).for_each(|number| sampler.store(number, 0x10, 64 * number));
        sampler.load(11, 0x10, load(4096, 100));
        let stored: Vec<_> = sampler.samples.iter().filter_map(|sample| sample.stored).collect();
        assert_eq!((stored, sampler.samples.len()), (vec![192, 384, 576], 3));
    }

    #[test]
    fn with_a_period_of_one_all_long_loads_are_sampled() {
        let mut sampler = SimulatedSampler::new(Trigger::Loads { period: 1, least_cycles: 30 });
        for latency_cycles in [40, 4, 50, 60, 29, 70] {
            sampler.load(latency_cycles, 0x10, load(64, latency_cycles));
        }
        let long: Vec<u64> = sampler.samples.iter().map(|sample| sample.cycle).collect();
        assert_eq!(long, [40, 50, 60, 70]);
    }

    #[test]
    fn chance_chooses_one_load_in_so_many() {
        let mut sampler = SimulatedSampler::new(Trigger::Loads { period: 10, least_cycles: 30 });
        for number in 0..20_000u64 {
            sampler.load(100 * (number + 1), 0x10, load(64 * number, 40));
        }
        let found = sampler.samples.len();
        assert!((1850..2150).contains(&found), "{found}");
        let gaps: Vec<u64> =
            sampler.samples.windows(2).map(|pair| (pair[1].cycle - pair[0].cycle) / 100).collect();
        let short = gaps.iter().filter(|&&gap| gap < 5).count() as f64 / gaps.len() as f64;
        // Of a geometric distribution a third is below half its mean; of a fixed period none.
        assert!((0.3..0.4).contains(&short), "{short}");
    }

    #[test]
    fn a_load_that_starts_while_another_is_followed_is_not_sampled() {
        let mut sampler = SimulatedSampler::new(Trigger::Loads { period: 2, least_cycles: 30 });
        for number in 0..2_000u64 {
            sampler.load(1000 + 10 * number, 0x10, load(64 * number, 95));
        }
        assert!(sampler.samples.len() > 100);
        assert!(sampler.samples.windows(2).all(|pair| pair[1].cycle - pair[0].cycle >= 95));
    }
}
