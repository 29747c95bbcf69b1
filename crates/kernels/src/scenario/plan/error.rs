//! Why a scenario cannot be run as asked.

use crate::{kernel::KernelError, program::AssembleError};

/// Why a scenario cannot be run as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The number of threads is the scenario's, not the user's.
    #[error("scenario '{scenario}' needs {needed} threads and has {given} CPUs; name {needed} with --cpus")]
    Threads {
        /// The scenario.
        scenario: String,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// A step names a thread that there is not.
    #[error("{place} names thread {thread}, and there are only {threads}; name more CPUs with --cpus")]
    NoSuchThread {
        /// The region or step.
        place: String,
        /// What it names.
        thread: usize,
        /// How many there are.
        threads: usize,
    },
    /// A scale of nothing.
    #[error("a scale of 0 leaves nothing; 1 is the scenario as written, 16 a sixteenth of its data")]
    Scale,
    /// The kernel does not exist here.
    #[error("{place}: {source}")]
    Kernel {
        /// The step.
        place: String,
        /// Why.
        source: KernelError,
    },
    /// The kernel does not fit its data.
    #[error("{place}: {source}")]
    Assemble {
        /// The step.
        place: String,
        /// Why.
        source: AssembleError,
    },
    /// Somebody would overwrite pointers that are followed.
    #[error(
        "{place} would destroy the chain of pointers that another step follows in buffer '{buffer}'; \
         give it a buffer of its own"
    )]
    Chain {
        /// The step.
        place: String,
        /// The buffer.
        buffer: String,
    },
    /// Somebody would overwrite numbers that say where to go.
    #[error(
        "{place} would destroy the numbers by which another step finds its elements in buffer '{buffer}'; \
         give it a buffer of its own"
    )]
    Numbers {
        /// The step.
        place: String,
        /// The buffer.
        buffer: String,
    },
    /// More than can be recorded or counted.
    #[error("{place}: {what}; lower passes or repeat")]
    TooMuch {
        /// The step or region.
        place: String,
        /// What there is too much of.
        what: &'static str,
    },
}

/// What setting a number of nops can meet.
pub(super) enum NopsError {
    Kernel(KernelError),
    Assemble(AssembleError),
}

pub(super) fn at_place(place: String, error: NopsError) -> PlanError {
    match error {
        NopsError::Kernel(source) => PlanError::Kernel { place, source },
        NopsError::Assemble(source) => PlanError::Assemble { place, source },
    }
}
