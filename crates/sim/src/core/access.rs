//! Loads, stores, prefetches and fences of a thread.

use super::{
    hardware::Hardware,
    operation::Kind,
    stores::{Found, Port},
    table::Op,
    thread::{Thread, start_on_port},
    timeline::Pending,
};
use crate::{
    access::{Memory, RequestKind, Supplier, Translation},
    pmu::{WatchedLoad, signal::CoreSignal},
};

/// Where and for whom memory is touched.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    bytes: u64,
    instruction: u64,
}

/// What became of a load.
#[derive(Clone, Copy)]
struct Answer {
    complete: u64,
    supplier: Supplier,
    translation: Translation,
}

impl Thread {
    /// A µop that touches or orders memory; gives the cycle in which it is complete.
    pub(super) fn access<M: Memory, const WATCHED: bool>(
        &mut self,
        op: &Op,
        address: u64,
        instruction: u64,
        ready: u64,
        hardware: &mut Hardware,
        port: &mut Port<'_, M>,
    ) -> u64 {
        let place = Place { address, bytes: op.bytes.into(), instruction };
        match op.kind {
            Kind::Load => self.load::<M, WATCHED>(op, place, ready, hardware, port),
            Kind::StoreAddress => {
                let at = self.start::<WATCHED>(op, ready, hardware);
                let split = u64::from(port.crosses(address, place.bytes));
                self.statistics.stores_split += split;
                if WATCHED && let Some(probe) = &mut self.probe {
                    probe.pulse(CoreSignal::StoresSplit, at, split);
                }
                let known = at + u64::from(op.latency);
                self.stores.begin(address, place.bytes, instruction, op.non_temporal, known);
                known
            }
            Kind::StoreData => {
                let at = self.start::<WATCHED>(op, ready, hardware);
                let known = at + u64::from(op.latency);
                self.stores.data(ready, known);
                known
            }
            Kind::Prefetch => {
                let at = self.start::<WATCHED>(op, ready.max(self.barrier), hardware);
                port.ask(RequestKind::Prefetch, address, at, instruction);
                at + 1
            }
            _ => {
                let drained = ready.max(self.retired()).max(self.stores.drain(port));
                self.barrier = port.drain_write_combining(drained) + 1;
                self.barrier
            }
        }
    }

    #[inline]
    fn start<const WATCHED: bool>(&mut self, op: &Op, ready: u64, hardware: &mut Hardware) -> u64 {
        let at = start_on_port(op, ready, hardware);
        self.started::<WATCHED>(at);
        at
    }

    #[inline]
    fn load<M: Memory, const WATCHED: bool>(
        &mut self,
        op: &Op,
        place: Place,
        ready: u64,
        hardware: &mut Hardware,
        port: &mut Port<'_, M>,
    ) -> u64 {
        let mut ready = ready.max(self.barrier);
        if op.locked {
            // An atomic operation runs as the oldest one, with the store buffer empty.
            ready = ready.max(self.retired()).max(self.stores.drain(port));
        }
        let at = self.start::<WATCHED>(op, ready, hardware);
        self.stores.send_until(at, port);
        let mut forwarded = false;
        let answer = match self.stores.find(place.address, place.bytes, at) {
            Found::Nothing => self.read::<M, WATCHED>(op, place, at, hardware, port),
            Found::Forward { ready: data, value } => {
                self.statistics.loads_forwarded += 1;
                forwarded = true;
                let complete = match self.limits.memory_renaming {
                    // The load only checks that it was right; those who need its result do not wait for it.
                    true => value.max(ready),
                    false => at.max(data) + self.limits.store_forward_latency,
                };
                Answer { complete, supplier: Supplier::L1, translation: Translation::L1 }
            }
            Found::Blocked(store) => {
                self.statistics.loads_blocked += 1;
                if WATCHED && let Some(probe) = &mut self.probe {
                    probe.pulse(CoreSignal::LoadsBlocked, at, 1);
                }
                let drained = self.stores.unblocked_at(store, port);
                let again = at.max(drained) + self.limits.blocked_forward_penalty;
                self.read::<M, WATCHED>(op, place, again, hardware, port)
            }
        };
        let Answer { complete, supplier, translation } = answer;
        self.statistics.load_cycles += complete.saturating_sub(at);
        hardware.timeline.pend(pending(supplier), at, complete);
        let dispatched = self.dispatched();
        if WATCHED && let Some(probe) = &mut self.probe {
            let Place { instruction, address, .. } = place;
            let started = at;
            probe.load(&WatchedLoad {
                instruction,
                address,
                dispatched,
                started,
                complete,
                supplier,
                translation,
                forwarded,
            });
        }
        complete
    }

    /// Asks the memory system at `at`, twice if the load crosses a line.
    #[inline]
    fn read<M: Memory, const WATCHED: bool>(
        &mut self,
        op: &Op,
        place: Place,
        at: u64,
        hardware: &mut Hardware,
        port: &mut Port<'_, M>,
    ) -> Answer {
        let (cycles, response) = port.ask(RequestKind::Load, place.address, at, place.instruction);
        let mut answer =
            Answer { complete: at + cycles, supplier: response.supplier, translation: response.translation };
        if port.crosses(place.address, place.bytes) {
            self.statistics.loads_split += 1;
            let second = port.second_line(place.address);
            let again = hardware.timeline.reserve(op.ports.into(), at + 1);
            let (cycles, response) = port.ask(RequestKind::Load, second, again, place.instruction);
            if again + cycles > answer.complete {
                (answer.complete, answer.supplier) = (again + cycles, response.supplier);
            }
            if response.translation == Translation::Walk {
                answer.translation = Translation::Walk;
            }
            answer.complete += port.split_penalty;
            if WATCHED && let Some(probe) = &mut self.probe {
                probe.pulse(CoreSignal::LoadsSplit, at, 1);
            }
        }
        self.statistics.loads_by_supplier[answer.supplier as usize] += 1;
        answer
    }
}

fn pending(supplier: Supplier) -> Pending {
    match supplier {
        Supplier::L1 => Pending::Load,
        Supplier::FillBuffer | Supplier::L2 => Pending::L1Miss,
        _ => Pending::L2Miss,
    }
}
