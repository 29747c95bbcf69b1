//! Judges: pure functions from observations to verdicts.

pub mod best;
pub mod execution;
pub mod latency;
mod pairs;
mod points;
pub mod shares;
pub mod stalls;
pub mod threshold;
pub mod volume;

pub use points::{count, median};
