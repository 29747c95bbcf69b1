//! Quantities that known work gives exactly.

use machine::Width;
use record::validate::{Observation, Place};

/// Flits of a link per line: 8 bytes each (molka2017 §4.2).
const FLITS_PER_LINE: f64 = 8.0;
/// Kernels compute on doubles.
const ELEMENT_BYTES: u64 = 8;

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
    /// Arithmetic instructions of a width; a fused multiply-add is two.
    Arithmetic(Width),
    /// The same of all widths but one element.
    Vectors,
    /// Fused multiply-adds of a width, each once.
    Fused(Width),
    LoadsOf(Width),
    StoresOf(Width),
    /// Lines towards the core below cache N: read, owned.
    In(usize, bool, bool),
    /// The same, less what comes from deeper.
    Served(usize, bool, bool),
    Out(usize),
    /// Lines from memory of another package, or of the own: read, owned.
    Memory(Home, bool, bool),
    /// Lines into it.
    MemoryOf(Home),
    MemoryOut,
    MemoryAll,
    LinkIn,
    LinkOut,
    HandedOver,
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Own,
    Other,
}

/// Key, plain words, meaning. Of two that fit a count alike the first is named.
const ALL: &[(&str, &str, Kind)] = &[
    ("instructions", "instructions", Kind::Instructions),
    ("loads", "loads", Kind::Loads),
    ("stores", "stores", Kind::Stores),
    ("branches", "branches", Kind::Branches),
    ("cycles", "core cycles", Kind::Cycles),
    ("flops", "floating-point operations", Kind::Flops),
    ("arithmetic_scalar", "scalar arithmetic, fused ones twice", Kind::Arithmetic(Width::Scalar)),
    ("arithmetic_128", "128-bit arithmetic, fused ones twice", Kind::Arithmetic(Width::Sse)),
    ("arithmetic_256", "256-bit arithmetic, fused ones twice", Kind::Arithmetic(Width::Avx2)),
    ("arithmetic_512", "512-bit arithmetic, fused ones twice", Kind::Arithmetic(Width::Avx512)),
    ("arithmetic_vector", "vector arithmetic, fused ones twice", Kind::Vectors),
    ("fused_256", "256-bit multiply-adds", Kind::Fused(Width::Avx2)),
    ("loads_256", "256-bit loads", Kind::LoadsOf(Width::Avx2)),
    ("stores_256", "256-bit stores", Kind::StoresOf(Width::Avx2)),
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
    ("local_in", "lines from memory of the own package", Kind::Memory(Home::Own, true, true)),
    ("local_in_read", "lines from memory of the own package for loads", Kind::Memory(Home::Own, true, false)),
    (
        "local_in_owned",
        "lines from memory of the own package for stores",
        Kind::Memory(Home::Own, false, true),
    ),
    ("local_out", "lines into memory of the own package", Kind::MemoryOf(Home::Own)),
    ("remote_in", "lines from memory of another package", Kind::Memory(Home::Other, true, true)),
    (
        "remote_in_read",
        "lines from memory of another package for loads",
        Kind::Memory(Home::Other, true, false),
    ),
    ("remote_out", "lines into memory of another package", Kind::MemoryOf(Home::Other)),
    ("link_in", "flits received over the link", Kind::LinkIn),
    ("link_out", "flits sent over the link", Kind::LinkOut),
    ("handed_over", "lines taken from the core that wrote them", Kind::HandedOver),
];

/// A level of the memory hierarchy and which way lines move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The level that serves.
    pub place: Place,
    /// It is the memory of another package.
    pub remote: bool,
    /// `read` or `write`.
    pub direction: &'static str,
}

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
        !self.is_arithmetic()
            && !matches!(
                self.kind(),
                Kind::Instructions | Kind::Loads | Kind::Stores | Kind::Branches | Kind::Cycles | Kind::Flops
            )
    }

    /// It is about instructions of one width, so that its size belongs beside those of any.
    pub fn is_arithmetic(self) -> bool {
        use Kind::{Arithmetic, Fused, LoadsOf, StoresOf, Vectors};
        matches!(self.kind(), Arithmetic(_) | Vectors | Fused(_) | LoadsOf(_) | StoresOf(_))
    }

    /// What a count is measured by where the quantity is none.
    pub fn scale(self, observation: &Observation) -> Option<f64> {
        if self.is_lines() {
            return Some(touched(observation));
        }
        let truth = &observation.truth;
        match self.is_arithmetic() {
            true => Some(truth.flops.max(truth.loads).max(truth.stores)),
            false => self.of(observation),
        }
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

    /// Level that serves and whether it is written to.
    pub fn level(self) -> Option<Level> {
        let (place, remote, direction) = match self.kind() {
            Kind::Loads => (Place::L1, false, "read"),
            Kind::Stores => (Place::L1, false, "write"),
            Kind::In(0, true, true) | Kind::Served(0, true, true) => (Place::L2, false, "read"),
            Kind::In(1, true, true) | Kind::Served(1, true, true) => (Place::L3, false, "read"),
            Kind::In(2, true, true) | Kind::Memory(Home::Own, true, true) => (Place::Memory, false, "read"),
            Kind::Out(0) => (Place::L2, false, "write"),
            Kind::Out(1) => (Place::L3, false, "write"),
            Kind::MemoryOut | Kind::MemoryOf(Home::Own) => (Place::Memory, false, "write"),
            Kind::Memory(Home::Other, true, true) | Kind::LinkIn => (Place::Memory, true, "read"),
            Kind::MemoryOf(Home::Other) | Kind::LinkOut => (Place::Memory, true, "write"),
            _ => return None,
        };
        Some(Level { place, remote, direction })
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
        let home = if observation.experiment.remote { Home::Other } else { Home::Own };
        let here = |asked: Home, lines: f64| if asked == home { lines } else { 0.0 };
        let out = truth.below[2].out + truth.below[2].past;
        Some(match self.kind() {
            Kind::Instructions => truth.instructions,
            Kind::Loads => truth.loads,
            Kind::Stores => truth.stores,
            Kind::Branches => truth.branches,
            Kind::Cycles => truth.cycles?,
            Kind::Flops => truth.flops,
            kind if self.is_arithmetic() => of_width(kind, observation)?,
            Kind::In(cache, read, owned) => inward(cache, read, owned),
            Kind::Served(cache, read, owned) => inward(cache, read, owned) - inward(cache + 1, read, owned),
            Kind::Out(cache) => truth.below[cache].out,
            Kind::Memory(asked, read, owned) => here(asked, inward(2, read, owned)),
            Kind::MemoryOf(asked) => here(asked, out),
            Kind::MemoryOut => out,
            Kind::MemoryAll => inward(2, true, true) + out,
            Kind::LinkIn => here(Home::Other, FLITS_PER_LINE * inward(2, true, true)),
            Kind::LinkOut => here(Home::Other, FLITS_PER_LINE * out),
            _ => truth.handed_over,
        })
    }
}

/// Instructions of a width; none of an experiment that does not say which it uses.
fn of_width(kind: Kind, observation: &Observation) -> Option<f64> {
    let (truth, used) = (&observation.truth, observation.experiment.width?);
    let vectors = truth.flops / (used.bytes() / ELEMENT_BYTES) as f64;
    let (width, value) = match kind {
        Kind::Arithmetic(width) => (width, vectors),
        Kind::Fused(width) => (width, vectors / 2.0),
        Kind::LoadsOf(width) => (width, truth.loads),
        Kind::StoresOf(width) => (width, truth.stores),
        _ => return Some(if used == Width::Scalar { 0.0 } else { vectors }),
    };
    Some(if used == width { value } else { 0.0 })
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
