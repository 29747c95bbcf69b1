//! What an event is made of, ready to be counted.

use events::Unit;

use super::{shape::PmuShape, tape::TapeMoment};
use crate::signal::{BoxSignal, CoreSignal, CounterTurns, Number};

/// One signal's part in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term<S> {
    /// Which.
    pub signal: S,
    /// How it enters.
    pub when: TapeMoment,
    /// How often.
    pub weight: u32,
}

/// What an event adds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Signals of a hardware thread, and what the counter makes of their sum in each cycle.
    Core {
        /// The signals.
        terms: Vec<Term<Number>>,
        /// Threshold, inversion, edge.
        shape: PmuShape,
        /// Of what happens the counter sees so many in a hundred: a described flaw.
        seen_percent: u32,
    },
    /// Signals of a kind of box.
    Boxes {
        /// Which kind.
        unit: Unit,
        /// The signals.
        terms: Vec<Term<BoxSignal>>,
    },
}

impl Recipe {
    /// Whether it is all stores that retire, and nothing else.
    pub(crate) fn is_stores(&self) -> bool {
        let Self::Core { terms, .. } = self else { return false };
        self.is_sum() && matches!(terms[..], [Term { signal, .. }] if signal == CoreSignal::Stores.into())
    }

    /// Whether sums of signals are enough.
    pub(crate) fn is_sum(&self) -> bool {
        match self {
            Self::Core { terms, shape, .. } => {
                shape.is_sum() && terms.iter().all(|term| term.when == TapeMoment::Value)
            }
            Self::Boxes { .. } => true,
        }
    }
}

/// An event that has a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeCounter {
    /// What it adds up.
    pub recipe: Recipe,
    /// Of several sets that take turns, the one it is in.
    pub turn: usize,
}

/// What is to be sampled on a hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A counter, by its place in the programme, each time it has counted so many; the sample lies so many cycles later.
    Overflow {
        /// Which counter.
        counter: usize,
        /// Counts from one sample to the next.
        period: u64,
        /// Cycles from the overflow to the instruction that is blamed.
        skid_cycles: u64,
    },
    /// Loads that take long, chosen by chance.
    Loads {
        /// Such loads from one sample to the next, on average.
        period: u64,
        /// Only those that take this many cycles or more.
        least_cycles: u64,
    },
    /// Stores, precisely: cores that do so tell their addresses (Intel SDM, PEBS data linear address).
    Stores {
        /// Stores from one sample to the next.
        period: u64,
    },
}

/// All that is counted together in a run.
#[derive(Clone, Debug, Default)]
pub struct Programme {
    /// The counters.
    pub counters: Vec<RecipeCounter>,
    /// Sets that take turns, at least one.
    pub turns: usize,
    /// Of each turn.
    pub tick_ns: u64,
    /// Turns that are not alike: femtoseconds from the start of the run to the end of each, and whose it is.
    pub planned: Vec<(u64, usize)>,
    /// What is sampled, if anything.
    pub trigger: Option<Trigger>,
}

impl Programme {
    /// The turns of a run; `at` gives the moment so many femtoseconds after its start.
    pub(crate) fn turns(&self, origin: u64, tick: u64, at: impl Fn(u64) -> u64) -> CounterTurns {
        let planned = self.planned.iter().map(|&(end_fs, set)| (at(end_fs), set));
        let planned = (!self.planned.is_empty()).then(|| planned.collect());
        CounterTurns { origin, tick: tick.max(1), sets: self.turns.max(1), planned }
    }

    /// The signals of boxes that its counters need, as bits.
    pub(crate) fn box_signals(&self) -> u64 {
        let of = |recipe: &Recipe| match recipe {
            Recipe::Boxes { terms, .. } => {
                terms.iter().fold(0, |bits, term| bits | BoxSignal::bit(term.signal))
            }
            Recipe::Core { .. } => 0,
        };
        self.counters.iter().fold(0, |bits, counter| bits | of(&counter.recipe))
    }
}
