//! Work that runs beside what is measured: what is asked of it, and what a victim next to it sees.

use crate::host::Measured;

/// How much of a victim is simulated, in iterations of each of its threads. A real machine goes by its repeat plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimLength {
    /// Before anything is timed: caches then hold what they can.
    pub warm_up: u64,
    /// What is timed and counted.
    pub timed: u64,
}

/// Known work that was measured while other work ran beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct VictimReading {
    /// Times of one pass, from the part that was run.
    pub measured: Measured,
    /// What its loads found; `None` where nobody counted.
    pub loads: Option<VictimLoads>,
    /// What the work beside it moved meanwhile; `None` if nothing ran beside it.
    pub beside: Option<BesideTraffic>,
    /// Bytes per second of all lines that the memory of its package gave or took, the victim's and others'; `None` where
    /// nobody counted.
    pub memory_bytes_per_s: Option<f64>,
}

/// What the loads of a victim found, counted by the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VictimLoads {
    /// Iterations counted.
    pub iterations: u64,
    /// Loads that no cache of the package could serve.
    pub from_memory: u64,
}

impl VictimLoads {
    /// Share of iterations, of one access each, that some cache served.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.iterations > 0).then(|| 1.0 - self.from_memory as f64 / self.iterations as f64)
    }
}

/// What work beside a victim moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BesideTraffic {
    /// Bytes per second by its description: every line it touches, as if no cache held any.
    pub described_bytes_per_s: f64,
    /// Loads per second that no cache could serve; `None` where nobody counted.
    pub misses_per_s: Option<f64>,
}

impl BesideTraffic {
    /// Bandwidth after casas2017 eq. 1, each miss a line in and a line out; `None` where nobody counted misses.
    pub fn by_misses_bytes_per_s(&self) -> Option<f64> {
        self.misses_per_s.map(|misses| 2.0 * 64.0 * misses)
    }
}
