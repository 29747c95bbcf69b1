//! x86-64 machine code decoded into blocks: instructions, their µops with register dependencies, their memory
//! operands, and what each of them mainly does.
//!
//! Three users: kernels, whose promised counts are checked by decoding them; the simulated machine, which executes
//! blocks; and the timer instrument, which asks whom a sample is to be blamed on ([`blame`]).
//! Nothing here runs code, reads files, or knows a particular machine.
//!
//! ```
//! use code::{Class, Flow, UopClass, decode_range};
//!
//! // sum: vaddpd ymm0, ymm0, [rdi+rax*8]; add rax, 4; cmp rax, rsi; jb sum; ret
//! let bytes = [
//!     0xc5, 0xfd, 0x58, 0x04, 0xc7, 0x48, 0x83, 0xc0, 0x04, 0x48, 0x39, 0xf0, 0x72, 0xf2, 0xc3,
//! ];
//! let blocks = decode_range(&bytes, 0x1000, &[]).complete()?;
//! assert_eq!(blocks.len(), 2);
//!
//! let sum = &blocks[0];
//! assert_eq!((sum.flow(), sum.target()), (Flow::Conditional, Some(0x1000)));
//! let totals = sum.totals();
//! assert_eq!((totals.instructions, totals.loads, totals.load_bytes, totals.flops), (4, 1, 32, 4));
//!
//! // The first instruction is a load and an addition that depends on it.
//! let add = &sum.instructions()[0];
//! assert_eq!(add.class(), Class::FpArithmetic);
//! assert!(add.has_load());
//! let uops = sum.uops_of(add);
//! assert_eq!(uops[0].class(), UopClass::Load);
//! assert_eq!(uops[1].class(), UopClass::FpAdd);
//! assert!(uops[1].sources().contains(&uops[0].destinations()[0]));
//! # Ok::<(), code::DecodeError>(())
//! ```
#![deny(unsafe_code)]

pub mod blame;
mod block;
mod builder;
mod decode;
mod idiom;
mod instruction;
mod memory;
mod operands;
mod operation;
pub mod pace;
pub mod passes;
mod register;
mod split;
mod unit;
mod uop;

pub use block::{Block, Ending, Totals};
pub use decode::{DecodeError, Decoded, decode_block, decode_range, disassemble};
pub use instruction::{Class, Flow, Instruction};
pub use memory::{MemoryAccess, MemoryOperand};
pub use register::Reg;
pub use uop::{Uop, UopClass};
