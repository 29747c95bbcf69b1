//! Quantities that known work gives exactly.

use record::validate::{Observation, Place};

/// Flits of a link per line: 8 bytes each (molka2017 §4.2).
const FLITS_PER_LINE: f64 = 8.0;

/// A quantity of known work, by its key in `claims.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantity(usize);

/// What a level does for the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Instructions,
    Loads,
    Stores,
    Branches,
    Cycles,
    Flops,
    /// Lines towards the core below cache N: read, owned.
    In(usize, bool, bool),
    /// The same, less what comes from deeper.
    Served(usize, bool, bool),
    Out(usize),
    MemoryOut,
    MemoryAll,
    LinkIn,
    LinkOut,
    HandedOver,
}

/// Key, plain words, meaning.
const ALL: &[(&str, &str, Kind)] = &[
    ("instructions", "instructions", Kind::Instructions),
    ("loads", "loads", Kind::Loads),
    ("stores", "stores", Kind::Stores),
    ("branches", "branches", Kind::Branches),
    ("cycles", "core cycles", Kind::Cycles),
    ("flops", "floating-point operations", Kind::Flops),
    ("l1_in", "lines into the L1", Kind::In(0, true, true)),
    ("l1_in_read", "lines into the L1 for loads", Kind::In(0, true, false)),
    ("l1_in_owned", "lines into the L1 for stores", Kind::In(0, false, true)),
    ("l2_in", "lines into the L2", Kind::In(1, true, true)),
    ("l2_in_read", "lines into the L2 for loads", Kind::In(1, true, false)),
    ("l2_in_owned", "lines into the L2 for stores", Kind::In(1, false, true)),
    ("l3_in", "lines from memory", Kind::In(2, true, true)),
    ("l3_in_read", "lines from memory for loads", Kind::In(2, true, false)),
    ("l3_in_owned", "lines from memory for stores", Kind::In(2, false, true)),
    ("l2_served", "lines the L2 serves", Kind::Served(0, true, true)),
    ("l2_served_read", "lines the L2 serves to loads", Kind::Served(0, true, false)),
    ("l2_served_owned", "lines the L2 serves to stores", Kind::Served(0, false, true)),
    ("l3_served", "lines the L3 serves", Kind::Served(1, true, true)),
    ("l3_served_read", "lines the L3 serves to loads", Kind::Served(1, true, false)),
    ("l3_served_owned", "lines the L3 serves to stores", Kind::Served(1, false, true)),
    ("l1_out", "lines written back by the L1", Kind::Out(0)),
    ("l2_out", "lines written back by the L2", Kind::Out(1)),
    ("l3_out", "lines written back by the L3", Kind::Out(2)),
    ("memory_out", "lines into memory", Kind::MemoryOut),
    ("memory_all", "lines from and into memory", Kind::MemoryAll),
    ("link_in", "flits received over the link", Kind::LinkIn),
    ("link_out", "flits sent over the link", Kind::LinkOut),
    ("handed_over", "lines taken from the core that wrote them", Kind::HandedOver),
];

impl Quantity {
    /// By key.
    pub fn named(key: &str) -> Option<Self> {
        ALL.iter().position(|(known, ..)| *known == key).map(Self)
    }

    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ALL.len()).map(Self)
    }

    /// Its key.
    pub fn key(self) -> &'static str {
        ALL[self.0].0
    }

    /// In plain words.
    pub fn words(self) -> &'static str {
        ALL[self.0].1
    }

    fn kind(self) -> Kind {
        ALL[self.0].2
    }

    /// It is about lines that move, so that its size belongs beside the lines the work touches.
    pub fn is_lines(self) -> bool {
        !matches!(
            self.kind(),
            Kind::Instructions | Kind::Loads | Kind::Stores | Kind::Branches | Kind::Cycles | Kind::Flops
        )
    }

    /// It is about what one level serves, and not what comes from deeper.
    pub fn is_served(self) -> bool {
        matches!(self.kind(), Kind::Served(..))
    }

    /// The quantity that counts deeper levels too.
    pub fn with_deeper(self) -> Option<Self> {
        let Kind::Served(cache, read, owned) = self.kind() else { return None };
        Self::all().find(|other| other.kind() == Kind::In(cache, read, owned))
    }

    /// Whether others share what is counted: traffic of the machine and not of a core.
    pub fn is_of_memory(self) -> bool {
        matches!(
            self.kind(),
            Kind::In(2, ..) | Kind::Out(2) | Kind::MemoryOut | Kind::MemoryAll | Kind::LinkIn | Kind::LinkOut
        )
    }

    /// Level that serves and whether it is written to.
    pub fn level(self) -> Option<(Place, &'static str)> {
        Some(match self.kind() {
            Kind::Loads => (Place::L1, "read"),
            Kind::Stores => (Place::L1, "write"),
            Kind::In(0, true, true) | Kind::Served(0, true, true) => (Place::L2, "read"),
            Kind::In(1, true, true) | Kind::Served(1, true, true) => (Place::L3, "read"),
            Kind::In(2, true, true) => (Place::Memory, "read"),
            Kind::Out(0) => (Place::L2, "write"),
            Kind::Out(1) => (Place::L3, "write"),
            Kind::MemoryOut => (Place::Memory, "write"),
            _ => return None,
        })
    }

    /// What an experiment did of it; none where it does not say.
    pub fn of(self, observation: &Observation) -> Option<f64> {
        let truth = &observation.truth;
        let inward = |cache: usize, read: bool, owned: bool| {
            let lines = truth.below[cache];
            (if read { lines.read } else { 0.0 }) + (if owned { lines.owned } else { 0.0 })
        };
        let turns = observation.truth.handed_over > 0.0;
        // Lines that threads take from each other are in no model of traffic.
        if turns && self.kind() != Kind::HandedOver {
            return None;
        }
        let remote = if observation.experiment.remote { FLITS_PER_LINE } else { 0.0 };
        Some(match self.kind() {
            Kind::Instructions => truth.instructions,
            Kind::Loads => truth.loads,
            Kind::Stores => truth.stores,
            Kind::Branches => truth.branches,
            Kind::Cycles => truth.cycles?,
            Kind::Flops => truth.flops,
            Kind::In(cache, read, owned) => inward(cache, read, owned),
            Kind::Served(cache, read, owned) => inward(cache, read, owned) - inward(cache + 1, read, owned),
            Kind::Out(cache) => truth.below[cache].out,
            Kind::MemoryOut => truth.below[2].out + truth.below[2].past,
            Kind::MemoryAll => inward(2, true, true) + truth.below[2].out + truth.below[2].past,
            Kind::LinkIn => remote * inward(2, true, true),
            Kind::LinkOut => remote * (truth.below[2].out + truth.below[2].past),
            Kind::HandedOver => truth.handed_over,
        })
    }
}

/// Lines that the work touches: what a stray count is measured by.
pub fn touched(observation: &Observation) -> f64 {
    let experiment = &observation.experiment;
    let lines = observation.truth.below[0];
    let below = lines.read + lines.owned + lines.past;
    match experiment.place {
        Place::Registers => 0.0,
        // In the L1 no line moves; two accesses of the widest kind make one.
        Place::L1 => (observation.truth.loads + observation.truth.stores) / 2.0,
        _ => below,
    }
}
