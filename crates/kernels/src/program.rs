//! A kernel as machine code, and what each piece of that code does.

use iced_x86::IcedError;
use machine::Width;

use crate::{numbers::Numbering, truth::TruthCounts};

/// Machine code of one thread's body with everything needed to count, walk and run it.
#[derive(Clone, Debug)]
pub struct KernelProgram {
    /// Position-independent code, entered at its first byte with the address of an [`ProgramArguments`] in `rdi`.
    pub code: Vec<u8>,
    /// Straight-line pieces in the order of the code.
    pub pieces: Vec<ProgramPiece>,
    /// How the pieces follow each other.
    pub flow: Vec<ProgramNode>,
    /// Registers saved when the code ends, in the order of [`ProgramArguments::results`].
    pub results: Vec<Saved>,
    /// First values of vector registers, in the order of [`ProgramArguments::values`].
    pub values: Vec<f64>,
    /// Width of the vector operations.
    pub width: Width,
    /// Bytes of a vector element.
    pub element: u64,
}

/// A straight-line piece of code.
#[derive(Clone, Debug, Default)]
pub struct ProgramPiece {
    /// Where it begins in [`KernelProgram::code`].
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What executing it once does, by construction.
    pub counts: TruthCounts,
    /// What it does to memory and to the kernel's own state, in program order.
    pub actions: Vec<InstructionAction>,
}

/// How pieces follow each other.
#[derive(Clone, Debug)]
pub enum ProgramNode {
    /// One piece. If it ends in a forward jump, that is taken when `skips` comes to zero.
    Piece {
        /// Index into [`KernelProgram::pieces`].
        piece: usize,
        /// The loop it may jump over.
        skips: Option<Times>,
    },
    /// A loop whose last piece jumps back.
    Loop {
        /// How often it runs; may be zero if the piece before can skip it.
        times: Times,
        /// What is repeated.
        body: Vec<ProgramNode>,
    },
    /// One of two pieces, as the coin fell; the piece before jumps to tails.
    Coin {
        /// Piece on heads.
        heads: usize,
        /// Piece on tails.
        tails: usize,
    },
    /// One of two pieces, as a loaded number says; the piece before jumps to tails.
    Branch {
        /// The number.
        on: LoadedNumber,
        /// Heads if it is below this.
        below: u64,
        /// Piece on heads.
        heads: usize,
        /// Piece on tails.
        tails: usize,
    },
}

/// A number that the code loads from a stream of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedNumber {
    /// Which of the registers that hold such numbers, below [`MOST_NUMBERS`].
    pub slot: usize,
    /// The numbers of the stream.
    pub numbers: Numbering,
    /// Bytes beyond the stream's position.
    pub offset: u64,
}

/// How many registers can hold loaded numbers: there are no more integer registers.
pub const MOST_NUMBERS: usize = 10;

/// How often a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As often as the caller asks.
    Passes,
    /// Iterations of one pass.
    Iterations,
    /// A number in the code.
    Fixed(u64),
    /// Rows of this thread.
    Rows,
    /// Single elements of a row before its vectors begin.
    Head,
    /// Vector iterations of a row.
    Vectors,
}

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramAccess {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store by one instruction.
    ReadWrite,
    /// Store past the caches.
    NonTemporal,
}

/// Something a piece does, in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionAction {
    /// Touches memory.
    Touch {
        /// Where.
        at: OperandLocation,
        /// How many bytes.
        bytes: u64,
        /// How.
        access: ProgramAccess,
    },
    /// The random sequence moves on.
    NextRandom,
    /// An element is drawn.
    Draw,
    /// The coprime index moves on.
    Step,
    /// A number was loaded.
    LoadNumber(LoadedNumber),
    /// The position in sequential streams returns to the front.
    Rewind,
    /// The position in sequential streams moves on by this many bytes.
    Advance(u64),
    /// The position goes to the diagonal of the current row.
    RowStart,
    /// The next row.
    NextRow,
}

/// Where memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandLocation {
    /// The argument block.
    Argument(u64),
    /// The stack; the slot is counted in words below the return address.
    Stack(u64),
    /// The current position of a sequential stream.
    Sequential {
        /// Which stream.
        stream: usize,
        /// Bytes beyond the position.
        offset: u64,
    },
    /// A fixed place in a stream.
    Fixed {
        /// Which stream.
        stream: usize,
        /// Bytes from its beginning.
        offset: u64,
    },
    /// Where the pointer points; it then moves on.
    Pointer,
    /// The slot of the draw table that the random number selects.
    DrawTable,
    /// The drawn or stepped element.
    Element {
        /// Which stream.
        stream: usize,
        /// Bytes beyond it: the buffer's place and the offset.
        offset: u64,
        /// Bytes per element.
        element: u64,
    },
    /// The element whose number was loaded.
    Gathered {
        /// Which stream.
        stream: usize,
        /// Bytes per element.
        element: u64,
        /// Which register holds the number.
        slot: usize,
    },
    /// The current row and position of the matrix.
    Matrix {
        /// Bytes beyond the position.
        offset: u64,
    },
    /// The result of the current row.
    RowResult,
}

impl OperandLocation {
    /// The place this many bytes further on.
    pub(crate) fn beyond(self, bytes: u64) -> Self {
        match self {
            Self::Sequential { stream, offset } => Self::Sequential { stream, offset: offset + bytes },
            Self::Fixed { stream, offset } => Self::Fixed { stream, offset: offset + bytes },
            Self::Element { stream, offset, element } => {
                Self::Element { stream, offset: offset + bytes, element }
            }
            Self::Matrix { offset } => Self::Matrix { offset: offset + bytes },
            Self::Argument(offset) => Self::Argument(offset + bytes),
            Self::Stack(_) | Self::Pointer | Self::DrawTable | Self::RowResult | Self::Gathered { .. } => {
                self
            }
        }
    }
}

/// A register whose value is saved when the code ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its name in the description.
    pub name: String,
    /// A vector register, or an integer one.
    pub vector: bool,
}

/// How many vector registers can have a first value, and how many registers can be saved.
pub const SLOTS: usize = 64;

/// What the code is given and gives back. The layout is part of the code: see the offsets below.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub struct ProgramArguments {
    /// Where each stream begins.
    pub bases: [u64; 6],
    /// The loop runs while its position is below this.
    pub end: u64,
    /// How often to run the loop.
    pub passes: u64,
    /// State of the random sequence; moved on by the code.
    pub random: u64,
    /// The draw table.
    pub table: u64,
    /// Elements of a coprime stream.
    pub elements: u64,
    /// Step of a coprime stream, in elements.
    pub step: u64,
    /// First row of this thread, times 8.
    pub row_begin: u64,
    /// Row after this thread's last, times 8.
    pub row_end: u64,
    /// Bytes from one row to the next.
    pub row_pitch: u64,
    /// Unused: fills the line.
    pub reserved: u64,
    /// First values of vector registers.
    pub values: [[u64; 8]; SLOTS],
    /// Saved registers.
    pub results: [[u64; 8]; SLOTS],
}

impl Default for ProgramArguments {
    fn default() -> Self {
        Self {
            bases: [0; 6],
            end: 0,
            passes: 0,
            random: 0,
            table: 0,
            elements: 0,
            step: 0,
            row_begin: 0,
            row_end: 0,
            row_pitch: 0,
            reserved: 0,
            values: [[0; 8]; SLOTS],
            results: [[0; 8]; SLOTS],
        }
    }
}

/// Offsets into [`ProgramArguments`].
pub(crate) mod offsets {
    use std::mem::offset_of;

    use super::ProgramArguments;

    pub const END: u64 = offset_of!(ProgramArguments, end) as u64;
    pub const PASSES: u64 = offset_of!(ProgramArguments, passes) as u64;
    pub const RANDOM: u64 = offset_of!(ProgramArguments, random) as u64;
    pub const TABLE: u64 = offset_of!(ProgramArguments, table) as u64;
    pub const ELEMENTS: u64 = offset_of!(ProgramArguments, elements) as u64;
    pub const STEP: u64 = offset_of!(ProgramArguments, step) as u64;
    pub const ROW_BEGIN: u64 = offset_of!(ProgramArguments, row_begin) as u64;
    pub const ROW_END: u64 = offset_of!(ProgramArguments, row_end) as u64;
    pub const ROW_PITCH: u64 = offset_of!(ProgramArguments, row_pitch) as u64;
    pub const VALUES: u64 = offset_of!(ProgramArguments, values) as u64;
    pub const RESULTS: u64 = offset_of!(ProgramArguments, results) as u64;

    pub const fn base(stream: usize) -> u64 {
        stream as u64 * 8
    }
}

impl KernelProgram {
    /// Sets the first values of the vector registers in `arguments`.
    pub fn set_values(&self, arguments: &mut ProgramArguments) {
        for (slot, value) in arguments.values.iter_mut().zip(&self.values) {
            *slot = if self.element == 4 {
                let half = u64::from((*value as f32).to_bits());
                [half << 32 | half; 8]
            } else {
                [value.to_bits(); 8]
            };
        }
    }
}

impl KernelProgram {
    /// The pieces decoded from the machine code, as if it lay at `address`: one block each, in the same order.
    pub fn blocks(&self, address: u64) -> Result<Vec<code::Block>, code::DecodeError> {
        self.pieces
            .iter()
            .map(|piece| code::decode_block(&self.code[piece.start..piece.end], address + piece.start as u64))
            .collect()
    }
}

/// Why a description cannot become code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// More values than registers.
    #[error(
        "kernel '{kernel}' needs more {kind} registers than the CPU has; lower its unroll or use fewer names"
    )]
    OutOfRegisters {
        /// The kernel.
        kernel: String,
        /// `vector` or `integer`.
        kind: &'static str,
    },
    /// The data set is too small for one iteration.
    #[error("kernel '{kernel}' needs at least {least} of data per thread")]
    TooSmall {
        /// The kernel.
        kernel: String,
        /// Smallest data set of one thread.
        least: machine::Bytes,
    },
    /// The data set is too large for the code's addresses.
    #[error("kernel '{kernel}' can use at most {most} of data per thread")]
    TooLarge {
        /// The kernel.
        kernel: String,
        /// Largest data set of one thread.
        most: machine::Bytes,
    },
    /// The number of threads does not suit the kernel.
    #[error("kernel '{kernel}' needs {needed} threads, not {given}; name that many CPUs with --cpus")]
    WrongThreads {
        /// The kernel.
        kernel: String,
        /// How many it needs.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// The assembler refused an instruction: an error in memwall.
    #[error("kernel '{kernel}' could not be assembled, an error in memwall: {source}")]
    Encoding {
        /// The kernel.
        kernel: String,
        /// What the assembler said.
        source: IcedError,
    },
}
