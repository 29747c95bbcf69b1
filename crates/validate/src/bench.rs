//! Where known work runs under counters: a simulated machine, this one, or one that a test made up.

use std::sync::atomic::AtomicBool;

use events::{CountRefusal, Signal};
use machine::{Bytes, Width};
use record::validate::{Experiment, Observation};
use trust::KernelPlace;

/// What of a machine the plan of experiments depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// First-level data cache.
    pub l1: Bytes,
    /// Second-level cache of a core.
    pub l2: Bytes,
    /// Cache shared by the cores of a package, if there is one.
    pub l3: Option<Bytes>,
    /// What the last cache claims to hold: of a guest often more than it gives, and never less than somebody may get.
    pub claimed_last: Bytes,
    /// Cores of one package that may be used.
    pub cores: usize,
    /// Threads that a core runs at once.
    pub threads_per_core: usize,
    /// There is memory of another package.
    pub remote: bool,
    /// Prefetchers can be switched.
    pub prefetch_switch: bool,
    /// Widths of vectors, narrowest first.
    pub widths: Vec<Width>,
}

/// Why an experiment gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// Stopped from outside.
    #[error("interrupted")]
    Interrupted,
    /// It cannot be done here.
    #[error("{experiment}: {reason}")]
    Failed {
        /// Which.
        experiment: String,
        /// Why.
        reason: String,
    },
}

/// Latencies of sampled loads in cycles, or why loads cannot be sampled here.
pub type SampledLoads = Result<Vec<f64>, String>;

/// Runs experiments.
pub trait Bench {
    /// What counts.
    fn name(&self) -> String;
    /// What the plan depends on.
    fn machine(&self) -> &Machine;
    /// Runs one experiment under these events.
    fn observe(
        &mut self,
        experiment: &Experiment,
        events: &[String],
        interrupt: &AtomicBool,
    ) -> Result<Observation, ObserveError>;
    /// What is programmed for an event, once it was seen to open; otherwise why it cannot be counted here.
    fn probe(&self, event: &str) -> Result<Signal, CountRefusal>;
    /// Latencies of sampled loads that memory served and whose translation was at hand.
    fn sampled_latency(
        &mut self,
        experiment: &Experiment,
        interrupt: &AtomicBool,
    ) -> Result<SampledLoads, ObserveError>;
    /// Another like it that may run at the same time; none if the two would disturb each other.
    fn twin(&self) -> Option<Box<dyn Bench + Send + '_>> {
        None
    }
}

/// Why an event was refused, without its name, so that the same reason reads the same for all.
pub fn reason(refusal: &CountRefusal) -> String {
    match refusal {
        CountRefusal::NotHere { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

impl Machine {
    /// Data that lies at a level when so many cores work on it, all together; none if the machine has no such level.
    ///
    /// Half of a private cache holds it surely; four times the level above it leaves nothing there; four times all caches is
    /// gone before it is met again.
    pub fn size(&self, place: KernelPlace, cores: usize) -> Option<Bytes> {
        let cores = cores.max(1) as u64;
        let last = self.l3.unwrap_or(Bytes(self.l2.0 * cores));
        Some(Bytes(match place {
            KernelPlace::Registers => 0,
            KernelPlace::L1 => self.l1.0 / 2 * cores,
            KernelPlace::L2 => (self.l2.0 / 2).max(self.l1.0 * 2).min(self.l2.0 * 3 / 4) * cores,
            KernelPlace::L3 => (self.l2.0 * 4 * cores).min(self.l3?.0 / 2),
            KernelPlace::Memory => last.0.max(self.claimed_last.0) * 4,
        }))
    }

    /// The levels it has, innermost first.
    pub fn places(&self) -> Vec<KernelPlace> {
        let all = [KernelPlace::L1, KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory];
        all.into_iter().filter(|&place| place != KernelPlace::L3 || self.l3.is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_placed_by_what_a_cache_gives_and_kept_out_of_what_it_claims() {
        let guest = Machine {
            l1: Bytes::kib(32),
            l2: Bytes::kib(1024),
            l3: Some(Bytes::mib(13)),
            claimed_last: Bytes::mib(32),
            cores: 2,
            threads_per_core: 1,
            remote: false,
            prefetch_switch: false,
            widths: Vec::new(),
        };
        let size = |place| guest.size(place, 2).unwrap();
        assert!(size(KernelPlace::L3) <= Bytes::kib(13 << 9), "{}", size(KernelPlace::L3));
        assert!(size(KernelPlace::Memory) >= Bytes::mib(128), "{}", size(KernelPlace::Memory));
    }
}
