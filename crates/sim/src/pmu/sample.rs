//! Samples: where a core was when a counter overflowed, and loads with their address, time and source.

use std::collections::VecDeque;

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
}

/// Makes samples of one hardware thread.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedSampler {
    trigger: Trigger,
    /// Loads that were long enough so far.
    loads: u64,
    /// Instructions that retired, with their cycles.
    retired: VecDeque<(u64, u64)>,
    /// Cycles for whose retirement samples wait.
    due: VecDeque<u64>,
    pub samples: Vec<Raw>,
}

impl SimulatedSampler {
    pub fn new(trigger: Trigger) -> Self {
        Self { trigger, loads: 0, retired: VecDeque::new(), due: VecDeque::new(), samples: Vec::new() }
    }

    /// A load has its data.
    pub fn load(&mut self, cycle: u64, instruction: u64, load: LoadSample) {
        if let Trigger::Loads { period, least_cycles } = self.trigger
            && load.latency_cycles >= least_cycles
        {
            self.loads += 1;
            if self.loads.is_multiple_of(period.max(1)) {
                self.samples.push(Raw { cycle, instruction, load: Some(load) });
            }
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
                    self.samples.push(Raw { cycle: due, instruction, load: None });
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

    #[test]
    fn every_so_many_long_loads_are_sampled() {
        let mut sampler = SimulatedSampler::new(Trigger::Loads { period: 2, least_cycles: 30 });
        for latency_cycles in [40, 4, 50, 60, 29, 70] {
            let load = LoadSample {
                address: 64,
                latency_cycles,
                supplier: Supplier::L3,
                translation: Translation::L1,
                forwarded: false,
            };
            sampler.load(latency_cycles, 0x10, load);
        }
        let long: Vec<u64> = sampler.samples.iter().map(|sample| sample.cycle).collect();
        assert_eq!(long, [50, 70]);
    }
}
