//! Where a thread's path leads: fetching blocks, predicting what follows, and paying for wrong guesses.

use code::Flow;

use super::{hardware::Hardware, stores::StorePort, table::UopTable, thread::CoreThread};
use crate::{
    access::{MemoryPort, RequestKind},
    signal::{CoreObserver, CoreSignal, Detour},
};

/// An indirect branch or a return whose target the next block will tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    branch: u64,
    target: Option<u64>,
    learns: bool,
    times: BranchTimes,
    /// The block it ends.
    block: usize,
}

/// Where a wrong guess leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrongPath {
    /// None if the front end knew no target and goes on anywhere.
    pub address: Option<u64>,
    /// The block before the branch: stands for code that is not known.
    pub around: usize,
    pub times: BranchTimes,
}

/// When a branch was dispatched, and when it was resolved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BranchTimes {
    pub dispatched: u64,
    pub resolved: u64,
}

impl<P: CoreObserver> CoreThread<P> {
    /// When the block's first µop can be had, and whether the decoders deliver it.
    pub(super) fn fetch<M: MemoryPort>(
        &mut self,
        index: usize,
        table: &UopTable,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> (u64, bool) {
        let mut start = self.front_free.max(self.front_started);
        self.pages_missed = 0;
        if self.uop_cache.touch(index, table) {
            self.statistics.blocks_from_uop_cache += 1;
            return (start, false);
        }
        self.statistics.blocks_decoded += 1;
        let block = &table.blocks[index];
        let (line, page) = (hardware.l1i.granule(), hardware.itlb.granule());
        for address in (block.address & !(page - 1)..block.end_address).step_by(page as usize) {
            if !hardware.itlb.touch(address) {
                self.statistics.itlb_misses += 1;
                self.pages_missed += 1;
                start = port.translate_code(address, start);
            }
        }
        for address in (block.address & !(line - 1)..block.end_address).step_by(line as usize) {
            if !hardware.l1i.touch(address) {
                self.statistics.fetch_misses += 1;
                start += port.ask(RequestKind::Fetch, address, start, address).0;
            }
        }
        if let Some(probe) = &mut self.probe {
            probe.span(CoreSignal::LengthStalls, start, start + block.length_stalls);
        }
        self.front_free = start + block.decode_cycles;
        (start, true)
    }

    /// Predicts where the block leads.
    pub(super) fn leave(&mut self, index: usize, taken: bool, table: &UopTable, hardware: &mut Hardware) {
        let (block, times) = (&table.blocks[index], self.branch_times());
        let branch = block.branch_address;
        let expect = |target, learns| Some(Expected { branch, target, learns, times, block: index });
        match block.flow {
            Flow::Conditional => {
                if !hardware.predictor.conditional(branch, taken, &mut self.history) {
                    let address = if taken { Some(block.end_address) } else { block.target };
                    self.mispredict(WrongPath { address, around: index, times }, true, table, hardware);
                }
            }
            Flow::Call => self.history.call(block.end_address),
            Flow::IndirectCall => {
                self.history.call(block.end_address);
                self.expected = expect(hardware.predictor.indirect(branch), true);
            }
            Flow::IndirectJump => self.expected = expect(hardware.predictor.indirect(branch), true),
            Flow::Return => self.expected = expect(self.history.predict_return(), false),
            Flow::Sequential | Flow::Jump | Flow::System | Flow::Trap => {}
        }
    }

    /// Holds the target of the branch before against where control went. Without a prediction nothing is held
    /// against it: a return to a caller that was never seen.
    pub(super) fn check_target(&mut self, address: u64, table: &UopTable, hardware: &mut Hardware) {
        let Some(expected) = self.expected.take() else { return };
        if expected.learns {
            hardware.predictor.learn_target(expected.branch, address);
        }
        if expected.target.map_or(expected.learns, |target| target != address) {
            let Expected { target, times, block, .. } = expected;
            self.mispredict(WrongPath { address: target, around: block, times }, false, table, hardware);
        }
    }

    /// Fills the window with the wrong path until the branch is resolved, then begins anew.
    fn mispredict(&mut self, path: WrongPath, conditional: bool, table: &UopTable, hardware: &mut Hardware) {
        let times = path.times;
        let width = self.limits.dispatch_width;
        let room = self.window.free_at(times.resolved);
        let wrong = match self.limits.waits_for_branches {
            true => 0,
            false => (width * times.resolved.saturating_sub(times.dispatched)).min(room),
        };
        self.statistics.branches_mispredicted += 1;
        self.statistics.slots_wrong_path += wrong;
        self.statistics.cycles_dispatching += wrong.div_ceil(width);
        self.front_free = self.front_free.max(times.resolved + self.limits.mispredict_penalty);
        if let Some(probe) = &mut self.probe {
            probe.pulse(CoreSignal::Mispredicts, times.resolved, 1);
            probe.pulse(CoreSignal::MispredictsConditional, times.resolved, conditional.into());
            // A core that does not guess waits for the branch: until then nothing is delivered, and nothing is wrong.
            let waits = self.limits.waits_for_branches;
            probe.wrong_path(&Detour {
                from: if waits { times.resolved } else { times.dispatched + 1 },
                slots: wrong,
                width,
                resolved: times.resolved,
                recovered: times.resolved + self.limits.mispredict_penalty,
            });
        }
        match self.probe {
            None => self.go_astray::<false>(path, wrong, table, hardware),
            Some(_) => self.go_astray::<true>(path, wrong, table, hardware),
        }
    }
}
