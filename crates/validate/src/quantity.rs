//! What known work says of each quantity, exactly.

use machine::Width;
use record::validate::Observation;
use trust::{KernelPlace, Quantity};

/// Flits of a link per line: 8 bytes each (molka2017 §4.2).
const FLITS_PER_LINE: f64 = 8.0;
/// Bytes of an element of double and of single precision.
const ELEMENT_BYTES: [u64; 2] = [8, 4];

/// Which arithmetic is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    Double,
    Single,
    Either,
}

impl Precision {
    fn holds(self, single: bool) -> bool {
        match self {
            Self::Double => !single,
            Self::Single => single,
            Self::Either => true,
        }
    }
}

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
    Arithmetic(Width, Precision),
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

/// A level of the memory hierarchy and which way lines move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The level that serves.
    pub place: KernelPlace,
    /// It is the memory of another package.
    pub remote: bool,
    /// `read` or `write`.
    pub direction: &'static str,
}

/// What known work says of a quantity.
pub trait KnownQuantity: Copy {
    /// It is about lines that move, so that its size belongs beside the lines the work touches.
    fn is_lines(self) -> bool;
    /// It is about instructions of one width, so that its size belongs beside those of any.
    fn is_arithmetic(self) -> bool;
    /// What a count is measured by where the quantity is none.
    fn scale(self, observation: &Observation) -> Option<f64>;
    /// It is about what one level serves, and not what comes from deeper.
    fn is_served(self) -> bool;
    /// The quantity that counts deeper levels too.
    fn with_deeper(self) -> Option<Quantity>;
    /// Level that serves and whether it is written to.
    fn level(self) -> Option<Level>;
    /// What an experiment did of it; none where it does not say.
    fn of(self, observation: &Observation) -> Option<f64>;
}

fn kind(quantity: Quantity) -> Kind {
    match quantity {
        Quantity::Instructions => Kind::Instructions,
        Quantity::Loads => Kind::Loads,
        Quantity::Stores => Kind::Stores,
        Quantity::Branches => Kind::Branches,
        Quantity::Cycles => Kind::Cycles,
        Quantity::Flops => Kind::Flops,
        Quantity::ArithmeticScalar => Kind::Arithmetic(Width::Scalar, Precision::Double),
        Quantity::Arithmetic128 => Kind::Arithmetic(Width::Sse, Precision::Double),
        Quantity::Arithmetic256 => Kind::Arithmetic(Width::Avx2, Precision::Double),
        Quantity::Arithmetic512 => Kind::Arithmetic(Width::Avx512, Precision::Double),
        Quantity::ArithmeticScalarSingle => Kind::Arithmetic(Width::Scalar, Precision::Single),
        Quantity::Arithmetic128Single => Kind::Arithmetic(Width::Sse, Precision::Single),
        Quantity::Arithmetic256Single => Kind::Arithmetic(Width::Avx2, Precision::Single),
        Quantity::Arithmetic512Single => Kind::Arithmetic(Width::Avx512, Precision::Single),
        Quantity::ArithmeticScalarAny => Kind::Arithmetic(Width::Scalar, Precision::Either),
        Quantity::Arithmetic128Any => Kind::Arithmetic(Width::Sse, Precision::Either),
        Quantity::ArithmeticVector => Kind::Vectors,
        Quantity::Fused256 => Kind::Fused(Width::Avx2),
        Quantity::Loads256 => Kind::LoadsOf(Width::Avx2),
        Quantity::Stores256 => Kind::StoresOf(Width::Avx2),
        Quantity::L1In => Kind::In(0, true, true),
        Quantity::L1InRead => Kind::In(0, true, false),
        Quantity::L1InOwned => Kind::In(0, false, true),
        Quantity::L2In => Kind::In(1, true, true),
        Quantity::L2InRead => Kind::In(1, true, false),
        Quantity::L2InOwned => Kind::In(1, false, true),
        Quantity::L3In => Kind::In(2, true, true),
        Quantity::L3InRead => Kind::In(2, true, false),
        Quantity::L3InOwned => Kind::In(2, false, true),
        Quantity::L2Served => Kind::Served(0, true, true),
        Quantity::L2ServedRead => Kind::Served(0, true, false),
        Quantity::L2ServedOwned => Kind::Served(0, false, true),
        Quantity::L3Served => Kind::Served(1, true, true),
        Quantity::L3ServedRead => Kind::Served(1, true, false),
        Quantity::L3ServedOwned => Kind::Served(1, false, true),
        Quantity::L1Out => Kind::Out(0),
        Quantity::L2Out => Kind::Out(1),
        Quantity::L3Out => Kind::Out(2),
        Quantity::MemoryOut => Kind::MemoryOut,
        Quantity::MemoryAll => Kind::MemoryAll,
        Quantity::LocalIn => Kind::Memory(Home::Own, true, true),
        Quantity::LocalInRead => Kind::Memory(Home::Own, true, false),
        Quantity::LocalInOwned => Kind::Memory(Home::Own, false, true),
        Quantity::LocalOut => Kind::MemoryOf(Home::Own),
        Quantity::RemoteIn => Kind::Memory(Home::Other, true, true),
        Quantity::RemoteInRead => Kind::Memory(Home::Other, true, false),
        Quantity::RemoteOut => Kind::MemoryOf(Home::Other),
        Quantity::LinkIn => Kind::LinkIn,
        Quantity::LinkOut => Kind::LinkOut,
        Quantity::HandedOver => Kind::HandedOver,
    }
}

impl KnownQuantity for Quantity {
    fn is_lines(self) -> bool {
        !self.is_arithmetic()
            && !matches!(
                kind(self),
                Kind::Instructions | Kind::Loads | Kind::Stores | Kind::Branches | Kind::Cycles | Kind::Flops
            )
    }

    fn is_arithmetic(self) -> bool {
        use Kind::{Arithmetic, Fused, LoadsOf, StoresOf, Vectors};
        matches!(kind(self), Arithmetic(..) | Vectors | Fused(_) | LoadsOf(_) | StoresOf(_))
    }

    fn scale(self, observation: &Observation) -> Option<f64> {
        if self.is_lines() {
            return Some(touched(observation));
        }
        let truth = &observation.truth;
        match self.is_arithmetic() {
            true => Some(truth.flops.max(truth.loads).max(truth.stores)),
            false => self.of(observation),
        }
    }

    fn is_served(self) -> bool {
        matches!(kind(self), Kind::Served(..))
    }

    fn with_deeper(self) -> Option<Quantity> {
        let Kind::Served(cache, read, owned) = kind(self) else { return None };
        Quantity::ALL.iter().copied().find(|other| kind(*other) == Kind::In(cache, read, owned))
    }

    fn level(self) -> Option<Level> {
        let (place, remote, direction) = match kind(self) {
            Kind::Loads => (KernelPlace::L1, false, "read"),
            Kind::Stores => (KernelPlace::L1, false, "write"),
            Kind::In(0, true, true) | Kind::Served(0, true, true) => (KernelPlace::L2, false, "read"),
            Kind::In(1, true, true) | Kind::Served(1, true, true) => (KernelPlace::L3, false, "read"),
            Kind::In(2, true, true) | Kind::Memory(Home::Own, true, true) => {
                (KernelPlace::Memory, false, "read")
            }
            Kind::Out(0) => (KernelPlace::L2, false, "write"),
            Kind::Out(1) => (KernelPlace::L3, false, "write"),
            Kind::MemoryOut | Kind::MemoryOf(Home::Own) => (KernelPlace::Memory, false, "write"),
            Kind::Memory(Home::Other, true, true) | Kind::LinkIn => (KernelPlace::Memory, true, "read"),
            Kind::MemoryOf(Home::Other) | Kind::LinkOut => (KernelPlace::Memory, true, "write"),
            _ => return None,
        };
        Some(Level { place, remote, direction })
    }

    fn of(self, observation: &Observation) -> Option<f64> {
        let truth = &observation.truth;
        let inward = |cache: usize, read: bool, owned: bool| {
            let lines = truth.below[cache];
            (if read { lines.read } else { 0.0 }) + (if owned { lines.owned } else { 0.0 })
        };
        let turns = observation.truth.handed_over > 0.0;
        // Lines that threads take from each other are in no model of traffic.
        if turns && kind(self) != Kind::HandedOver || truth.contended && self.is_lines() {
            return None;
        }
        let home = if observation.experiment.remote { Home::Other } else { Home::Own };
        let here = |asked: Home, lines: f64| if asked == home { lines } else { 0.0 };
        let out = truth.below[2].out + truth.below[2].past;
        Some(match kind(self) {
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
    let element = match used {
        // One element of either precision.
        Width::Scalar => used.bytes(),
        _ => ELEMENT_BYTES[usize::from(truth.single)],
    };
    let vectors = truth.flops / (used.bytes() / element) as f64;
    let (width, value) = match kind {
        Kind::Arithmetic(width, precision) if precision.holds(truth.single) => (width, vectors),
        Kind::Arithmetic(width, _) => (width, 0.0),
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
        KernelPlace::Registers => 0.0,
        // In the L1 no line moves; two accesses of the widest kind make one.
        KernelPlace::L1 => (observation.truth.loads + observation.truth.stores) / 2.0,
        _ => below,
    }
}
