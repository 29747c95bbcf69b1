//! Known work under an instrument: how much of it, when the instrument counts, and what was done meanwhile.

use events::{CountRefusal, Counting};
use record::validate::Truth;
use sim::{
    memory::{Disturbance, PrefetchSwitches},
    pmu::{PartCounts, SampledEvent},
};

/// Something that counts or samples while a job runs.
pub trait Meter {
    /// The part that counts is about to begin.
    fn begin(&mut self) -> Result<(), CountRefusal>;

    /// It is over. `true` asks for the same once more, for what did not fit this time.
    fn end(&mut self) -> Result<bool, CountRefusal>;
}

impl Meter for Box<dyn Counting + '_> {
    fn begin(&mut self) -> Result<(), CountRefusal> {
        self.start()
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        self.stop()?;
        Ok(false)
    }
}

impl Meter for PartCounts<'_> {
    fn begin(&mut self) -> Result<(), CountRefusal> {
        self.start()
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        self.stop()?;
        Ok(false)
    }
}

impl Meter for SampledEvent<'_> {
    fn begin(&mut self) -> Result<(), CountRefusal> {
        self.start();
        Ok(())
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        self.stop();
        Ok(false)
    }
}

/// How much of a job is metered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeteredPart {
    /// Whole passes.
    Passes {
        /// Passes over the data before: caches then hold what they can.
        warm_up: u64,
        /// Passes that count; if none, as many as make a steady count of small data.
        passes: Option<u64>,
    },
    /// Its steady state, as much of it as a rate needs: of large data on a simulated machine a part of a pass.
    Steady(Conditions),
}

/// Under what circumstances a kernel runs. Those of a real machine cannot be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Which prefetchers are on.
    pub prefetchers: PrefetchSwitches,
    /// Traffic of others.
    pub disturbance: Option<Disturbance>,
    /// Time taken by the operating system.
    pub interrupts: Option<Interruptions>,
    /// Instructions of each thread that are counted; as many as a bandwidth needs if none.
    pub instructions: Option<u64>,
}

/// Interrupts of every core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interruptions {
    /// From one to the next, on average.
    pub every_ns: f64,
    /// What one costs.
    pub lasts_ns: f64,
}

/// A job that ran under a meter.
#[derive(Clone, Debug, PartialEq)]
pub struct MeteredRun {
    /// Time of each metered part, in the order in which the meter asked for them.
    pub elapsed_ns: Vec<f64>,
    /// How many passes one of them was, if whole ones.
    pub passes: Option<u64>,
    /// What one of them did.
    pub truth: Truth,
}
