//! What is asked of a memory system, and what it tells of cores.

use super::{Number, Set};
use crate::time::Time;

/// What a memory system is asked to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalWatch {
    /// Signals of cores.
    pub cores: Set,
    /// Signals of boxes, as bits.
    pub boxes: u64,
}

/// Something that a memory system tells of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalNote {
    /// What.
    pub signal: Number,
    /// When it began.
    pub from: Time,
    /// When it ended; the same for what happens at a moment.
    pub until: Time,
}
