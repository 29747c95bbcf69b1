//! The path that a wrong guess leads onto: its µops wait for operands and take ports until the branch is resolved.
//!
//! They touch no memory: a load takes its port and gives what a hit in the L1 would. They come after everything that
//! was dispatched before, so they delay no µop of the right path; that begins when they are gone.

use code::Flow;

use super::{
    hardware::Hardware,
    operation::OperationKind,
    path::WrongPath,
    table::{BlockTable, NO_DESTINATION, REGISTERS, TableOp, UopTable},
    thread::CoreThread,
};
use crate::signal::{CoreObserver, CoreSignal};

/// A result that is never there: the µop was thrown away before it could start.
const NEVER: u64 = u64::MAX;
/// Blocks without a slot that are walked through in a row.
const EMPTY_BLOCKS: usize = 16;

impl<P: CoreObserver> CoreThread<P> {
    /// Executes what can start of `slots` slots of a wrong path.
    #[inline(never)]
    pub(super) fn go_astray<const WATCHED: bool>(
        &mut self,
        path: WrongPath,
        slots: u64,
        table: &UopTable,
        hardware: &mut Hardware,
    ) {
        let WrongPath { address, around, times } = path;
        let begin = (times.dispatched + 1).max(hardware.timeline.accounted());
        let mut registers = self.registers;
        let mut index = address.and_then(|address| table.at(address)).unwrap_or(around);
        let (mut slot, mut empty) = (0, 0);
        while slot < slots && empty < EMPTY_BLOCKS {
            let block = &table.blocks[index];
            let before = slot;
            for op in &table.ops[block.ops.clone()] {
                slot += u64::from(op.begins);
                if slot > slots || op.kind == OperationKind::Fence {
                    return;
                }
                let dispatched = begin + slot.saturating_sub(1) / self.limits.dispatch_width;
                self.try_wrong::<WATCHED>(op, dispatched, times.resolved, &mut registers, hardware);
            }
            empty = if slot == before { empty + 1 } else { 0 };
            index = onward(block).and_then(|address| table.at(address)).unwrap_or(around);
        }
    }

    /// Starts a µop if its sources and a port are there before the branch is resolved.
    fn try_wrong<const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        dispatched: u64,
        resolved: u64,
        registers: &mut [u64; REGISTERS],
        hardware: &mut Hardware,
    ) {
        let sources = op.sources.iter().map(|&source| registers[usize::from(source)]);
        let ready = sources.fold(dispatched + 1, u64::max);
        let complete = if op.kind == OperationKind::Free {
            dispatched
        } else {
            match hardware.timeline.reserve_before(op.ports, ready, resolved) {
                Some(at) => {
                    self.statistics.uops_wrong_path += 1;
                    if WATCHED && let Some(probe) = &mut self.probe {
                        probe.start(dispatched, at);
                        probe.pulse(CoreSignal::BranchesWrongPath, at, op.is_branch.into());
                    }
                    at + u64::from(op.latency)
                }
                None => {
                    if WATCHED && let Some(probe) = &mut self.probe {
                        probe.abandon(dispatched, resolved);
                    }
                    NEVER
                }
            }
        };
        for destination in op.destinations.into_iter().filter(|&register| register != NO_DESTINATION) {
            registers[usize::from(destination)] = complete;
        }
    }
}

/// Where the front end goes on behind a block it came to by mistake: loops are believed to go on. Calls and returns are
/// not followed.
fn onward(block: &BlockTable) -> Option<u64> {
    match block.flow {
        Flow::Sequential => Some(block.end_address),
        Flow::Jump => block.target,
        Flow::Conditional => {
            block.target.filter(|&target| target <= block.branch_address).or(Some(block.end_address))
        }
        _ => None,
    }
}
