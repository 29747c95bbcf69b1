//! Judges: pure functions from observations to verdicts.

pub mod best;
pub mod latency;
mod points;
pub mod stalls;
pub mod threshold;
pub mod volume;

pub use points::{count, median};
