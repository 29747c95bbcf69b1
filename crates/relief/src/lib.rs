//! Relief: what would a hot loop take if its data sat in the first cache? The share of waiting is 1 − that / what it
//! takes, measured and not modelled.
//!
//! A thread of the running program is stopped for a moment and cloned. The program goes on. In the copy a stretch of the
//! loop's own instructions is single-stepped on its own data ([`stretch`]), moved elsewhere, as the loop it is ([`kept`])
//! or as a straight line ([`straight`]), and repeated with registers, vector registers and written lines put back until
//! its data sits in the first cache ([`replay`]). How long a turn takes in the program comes from the program itself
//! ([`strides`]), or from whole passes in the copy ([`passes`]). Whatever stands in the way is a [`ReliefBarrier`] with a
//! name, never a guess.
//!
//! The copy executes no system call of the program's and writes to no memory that others see. No wait and no handler of
//! the program sees it. It does not outlive us.
//!
//! [`ReliefBarrier`]: record::relief::ReliefBarrier
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod agreement;
mod arena;
mod bound;
mod branches;
mod copy;
mod cost;
mod footprint;
#[cfg(test)]
mod harmless;
mod kept;
#[cfg(test)]
mod left_alone;
mod listing;
mod operands;
mod passes;
mod program;
mod ptrace;
mod relieve;
mod replay;
mod series;
mod straight;
mod stretch;
mod strides;
mod stub;

pub use agreement::{LoopRelief, Measured, agree};
pub use cost::{CopiedMemory, ReliefBudget};
pub use footprint::FirstCache;
pub use program::CopyNumbers;
pub use relieve::{ReliefOptions, ReliefTarget, TickRate, relieve};
pub use series::{ReliefSeries, SHORTEST_RUN};
