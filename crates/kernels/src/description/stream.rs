//! Buffers and the ways they are walked.

use crate::draw::Distribution;

/// A buffer and the way it is walked.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStream {
    /// Its name in the body.
    pub name: String,
    /// The way it is walked.
    pub pattern: StreamPattern,
}

/// The way a stream is walked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamPattern {
    /// From front to back; `None` means one vector after the other.
    Sequential {
        /// Bytes from one access to the next.
        stride: Option<u64>,
    },
    /// The same place each time.
    Fixed,
    /// A random single cycle of pointers, one in every stride.
    Cycle {
        /// Bytes per pointer: a line, or a page to strain address translation.
        stride: u64,
    },
    /// Elements drawn from a distribution.
    Drawn {
        /// Which one.
        distribution: Distribution,
        /// Bytes per element.
        element: u64,
    },
    /// Elements in steps of a stride that shares no factor with their number.
    Coprime {
        /// Bytes per element.
        element: u64,
        /// Equal parts, all accessed at the same index.
        buffers: u64,
    },
    /// Random numbers below a bound, from front to back: elements of another stream, or what branches go by.
    Numbers {
        /// Bytes of a number, and from one to the next.
        element: u64,
        /// Every number is below this.
        below: NumberBound,
    },
    /// Elements whose number was loaded from a stream of numbers.
    Gathered {
        /// Bytes per element.
        element: u64,
    },
}

/// What random numbers stay below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberBound {
    /// Written out.
    Is(u64),
    /// The elements of a gathered stream, by its index.
    ElementsOf(usize),
}
