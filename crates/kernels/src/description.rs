//! A kernel as data: what a loop does, before any width, size or machine is chosen.

use std::fmt;

mod stream;

pub use stream::{KernelStream, NumberBound, StreamPattern};

/// One kernel. Code, truth and blocks are all derived from this and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// What users type.
    pub name: String,
    /// What it does, in a sentence.
    pub about: String,
    /// Paper and section it comes from, or who else uses it.
    pub source: String,
    /// Bytes of a vector element: 8 (double) or 4 (float).
    pub element: u64,
    /// The widths it exists in.
    pub widths: Widths,
    /// Copies of the body per iteration of the loop.
    pub unroll: u64,
    /// Each stream has a pointer that moves on, as compilers like it; otherwise all share one position.
    pub pointers: bool,
    /// Numbers the user may set.
    pub parameters: Vec<Parameter>,
    /// The buffers it walks over.
    pub streams: Vec<KernelStream>,
    /// Registers that hold a value before the loop begins.
    pub registers: Vec<KernelRegister>,
    /// What threads do.
    pub shape: KernelShape,
}

/// In which widths a kernel makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widths {
    /// All vector widths.
    All,
    /// 256 bits and wider: it needs halves.
    Halved,
    /// It has no vector operation: there is one version only.
    ScalarOnly,
}

/// A number the user may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, written `$name` in the body.
    pub name: String,
    /// Value unless set.
    pub default: u64,
}

/// How threads divide the work.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelShape {
    /// Every thread runs the body over buffers of its own.
    Private(Vec<Op>),
    /// Two threads in turn over one buffer, a few lines per step: the first body, then the second.
    Turns {
        /// What the first thread does to each line.
        first: Vec<Op>,
        /// What the second thread does to each line.
        second: Vec<Op>,
        /// Lines per step.
        lines: Amount,
    },
    /// Rows of one upper-triangular matrix (the first stream) are divided over the threads in equal numbers;
    /// the body is one row's inner loop over columns, the second stream is the vector, the third the result.
    Triangle(Vec<Op>),
}

/// A register that lives across iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRegister {
    /// Its name in the body.
    pub name: String,
    /// What it holds at first.
    pub start: RegisterStart,
    /// How it lives.
    pub life: RegisterLife,
}

/// First value of a register; decides whether it is a vector or an integer register.
#[derive(Clone, Debug, PartialEq)]
pub enum RegisterStart {
    /// Every element of a vector register.
    Float(f64),
    /// An integer register.
    Integer(i64),
    /// The address where a stream begins.
    AddressOf(usize),
}

/// How a register lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterLife {
    /// Never written.
    Constant,
    /// One per copy of the body: copies do not wait for each other; the result is their sum.
    Lanes,
    /// One for all: each operation waits for the one before.
    Chain,
}

/// A number in the body: written out, or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Written out.
    Is(u64),
    /// Index into [`Description::parameters`].
    Parameter(usize),
}

/// Where an operation touches memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandPlace {
    /// Index into [`Description::streams`].
    pub stream: usize,
    /// Bytes added to the address.
    pub offset: i64,
    /// Integer register that holds the element number, for drawn, coprime and gathered streams.
    pub index: Option<String>,
}

/// The second operand of an arithmetic operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A vector register.
    Register(String),
    /// Straight from memory.
    Memory(OperandPlace),
}

/// Arithmetic on vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Addition.
    Add,
    /// Multiplication.
    Mul,
    /// Division.
    Div,
    /// The larger one.
    Max,
    /// Addition of 64-bit integers, lane by lane.
    AddIntegers,
}

impl Arithmetic {
    /// Floating-point operations on each element.
    pub fn flops(self) -> u64 {
        match self {
            Self::Add | Self::Mul | Self::Div | Self::Max => 1,
            Self::AddIntegers => 0,
        }
    }
}

/// Arithmetic on integers. Both take a register as their second operand: newer cores fold immediate additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerOp {
    /// Addition, one cycle.
    Add,
    /// Multiplication, three cycles.
    Mul,
}

/// One operation of a loop body.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `x = load A`
    Load {
        /// Vector register.
        to: String,
        /// Where from.
        from: OperandPlace,
    },
    /// `x = load-halves A`: lower half, then the upper half inserted.
    LoadHalves {
        /// Vector register.
        to: String,
        /// Where from.
        from: OperandPlace,
    },
    /// `store A, x`, or `store-nt A, x` past the caches.
    Store {
        /// Where to.
        to: OperandPlace,
        /// Vector register.
        from: String,
        /// Without allocating in any cache.
        non_temporal: bool,
    },
    /// `x = add y, z`, `mul`, `div`, `max`, `addq`; the last operand may be `[A]`.
    Arithmetic {
        /// Which.
        kind: Arithmetic,
        /// Vector register.
        to: String,
        /// First operand.
        left: String,
        /// Second operand.
        right: Operand,
    },
    /// `x = fma a, b, c`: a · b + c; b may be `[A]`. Two instructions where the width has no fused form.
    Fma {
        /// Vector register.
        to: String,
        /// First factor.
        a: String,
        /// Second factor.
        b: Operand,
        /// What is added.
        c: String,
    },
    /// `p = deref p`: the pointer moves on to where it points.
    Deref {
        /// Integer register.
        pointer: String,
    },
    /// `v = iload8 S`, `v = iload4 S[i]`.
    IntLoad {
        /// Integer register.
        to: String,
        /// Where from.
        from: OperandPlace,
        /// 4 or 8.
        bytes: u64,
    },
    /// `istore8 S, v`, `istore4 S+4, v`.
    IntStore {
        /// Where to.
        to: OperandPlace,
        /// Integer register.
        from: String,
        /// 4 or 8.
        bytes: u64,
    },
    /// `rmw8 S[i]`: adds one in place; on a stream of several buffers, in each of them. `atomic8 S[i]`: at once.
    Rmw {
        /// Where.
        place: OperandPlace,
        /// 4 or 8.
        bytes: u64,
        /// Nobody sees it half done.
        atomic: bool,
    },
    /// `v = iadd v, [S]`, `v = imul v, w`: an integer register and another operand, of 8 bytes.
    Integer {
        /// Which.
        kind: IntegerOp,
        /// Integer register, and first operand.
        to: String,
        /// Second operand: an integer register, or memory.
        by: Operand,
    },
    /// `m = imax m, v`: the larger one, signed, by a conditional move.
    IntMax {
        /// Integer register, and first operand.
        to: String,
        /// Second operand.
        by: String,
    },
    /// `chain imul p, one, $n`: p ← p · one, n times, each waiting for the one before.
    Chain {
        /// Which.
        kind: IntegerOp,
        /// Integer register.
        to: String,
        /// Second operand.
        by: String,
        /// How often.
        times: Amount,
    },
    /// `spread imul one, $n`: n operations over registers of their own, waiting for nothing else.
    Spread {
        /// Which.
        kind: IntegerOp,
        /// Second operand.
        by: String,
        /// How often.
        times: Amount,
    },
    /// `i = draw S`: an element of a drawn stream.
    Draw {
        /// Integer register.
        to: String,
        /// Index into [`Description::streams`].
        stream: usize,
    },
    /// `i = step S`: the next element of a coprime stream.
    Step {
        /// Integer register, of life [`RegisterLife::Chain`].
        to: String,
        /// Index into [`Description::streams`].
        stream: usize,
    },
    /// `nops $n`: a counted loop of n empty operations.
    Nops {
        /// How many.
        times: Amount,
    },
    /// `coin heads, tails, by`: a fair random branch; adds `by` to one of the two registers.
    Coin {
        /// Integer register.
        heads: String,
        /// Integer register.
        tails: String,
        /// What is added.
        by: String,
    },
    /// `branch v < 30, heads, tails, by`: a branch on a number that was loaded; adds `by` to one of the two registers.
    Branch {
        /// Integer register, loaded from a stream of numbers.
        on: String,
        /// Heads if it is below this.
        below: u64,
        /// Integer register.
        heads: String,
        /// Integer register.
        tails: String,
        /// What is added.
        by: String,
    },
}

impl Description {
    /// The operations of every thread's body, first to last.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        let (a, b): (&[Op], &[Op]) = match &self.shape {
            KernelShape::Private(body) | KernelShape::Triangle(body) => (body, &[]),
            KernelShape::Turns { first, second, .. } => (first, second),
        };
        a.iter().chain(b)
    }

    /// A register declared by name.
    pub fn register(&self, name: &str) -> Option<&KernelRegister> {
        self.registers.iter().find(|register| register.name == name)
    }

    /// Whether an operation touches memory beyond the place of its stream.
    pub(crate) fn has_offsets(&self) -> bool {
        self.ops().filter_map(crate::lower::places).any(|place| place.offset != 0)
    }

    /// Bytes from one access to the next of the streams walked from front to back; `None`: one vector after the other.
    pub fn stride(&self) -> Option<u64> {
        let patterns = || self.streams.iter().map(|stream| stream.pattern);
        let numbers = patterns().find_map(|pattern| match pattern {
            StreamPattern::Numbers { element, .. } => Some(element),
            _ => None,
        });
        numbers.or_else(|| {
            patterns().find_map(|pattern| match pattern {
                StreamPattern::Sequential { stride } => stride,
                _ => None,
            })
        })
    }

    /// How many threads it needs, if that is not the user's choice.
    pub fn fixed_threads(&self) -> Option<usize> {
        matches!(self.shape, KernelShape::Turns { .. }).then_some(2)
    }

    /// Whether it touches no memory at all, and so has no size.
    pub fn is_register_only(&self) -> bool {
        self.streams.is_empty()
    }
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all widths",
            Self::Halved => "avx2, avx512",
            Self::ScalarOnly => "one version",
        })
    }
}
