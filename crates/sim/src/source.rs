//! What a core executes: decoded blocks, and the order and addresses of their execution.

use std::sync::Arc;

use code::Block;

use crate::time::Time;

/// One execution of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockExecution {
    /// Index into the source's blocks.
    pub block: usize,
    /// One address per memory operand of the block, in its order.
    pub addresses: Vec<u64>,
    /// Whether the branch at its end, if it has one, is taken.
    pub taken: bool,
}

/// What a source has for its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceStep {
    /// An execution.
    Execute,
    /// An execution that must not begin earlier: another source handed over then.
    ExecuteAt(Time),
    /// It must know when all it gave so far has retired and drained: see [`BlockSource::settled`].
    Settle,
    /// Nothing until another source has settled.
    Blocked,
    /// The end.
    End,
}

/// A program as a stream of block executions. Kernels are the first producer, instrumented programs the second.
pub trait BlockSource {
    /// The blocks, decoded once.
    fn blocks(&self) -> &Arc<[Block]>;

    /// Fills `execution` with the next one; false at the end.
    fn next(&mut self, execution: &mut BlockExecution) -> bool;

    /// The next step; fills `execution` where there is one. Sources that wait for each other implement this.
    fn poll(&mut self, execution: &mut BlockExecution) -> SourceStep {
        if self.next(execution) { SourceStep::Execute } else { SourceStep::End }
    }

    /// The answer to [`SourceStep::Settle`].
    fn settled(&mut self, _at: Time) {}
}
