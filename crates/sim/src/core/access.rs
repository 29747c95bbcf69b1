//! Loads, stores, prefetches and fences of a thread.

use super::{
    hardware::Hardware,
    operation::OperationKind,
    stores::{ForwardedStore, StorePort},
    table::TableOp,
    thread::CoreThread,
    timeline::PendingUop,
};
use crate::{
    access::{MemoryPort, RequestKind, Supplier, Translation},
    signal::{CoreObserver, CoreSignal, WatchedLoad},
};

/// Where and for whom memory is touched.
#[derive(Clone, Copy)]
pub(super) struct AccessPlace {
    pub address: u64,
    pub bytes: u64,
    pub instruction: u64,
    /// It touches two lines.
    pub crosses: bool,
}

/// What became of a load.
#[derive(Clone, Copy)]
struct AccessAnswer {
    translated: u64,
    complete: u64,
    supplier: Supplier,
    translation: Translation,
}

impl<P: CoreObserver> CoreThread<P> {
    /// A µop that has an address and started at `at`, its sources there at `ready`; gives the cycle in which it is
    /// complete.
    #[inline]
    pub(super) fn access<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        place: AccessPlace,
        ready: u64,
        at: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> u64 {
        match op.kind {
            OperationKind::Load => self.load::<M, WATCHED>(op, place, ready, at, hardware, port),
            OperationKind::StoreAddress => {
                self.statistics.stores_split += u64::from(place.crosses);
                if WATCHED && let Some(probe) = &mut self.probe {
                    probe.pulse(CoreSignal::StoresSplit, at, place.crosses.into());
                    probe.store(at, place.instruction, place.address);
                }
                let known = at + u64::from(op.latency);
                self.stores.begin(place, op.non_temporal, known);
                known
            }
            _ => {
                port.ask(RequestKind::Prefetch, place.address, at, place.instruction);
                at + 1
            }
        }
    }

    /// Waits for everything before it; loads and stores behind it wait for it.
    #[cold]
    pub(super) fn fence<M: MemoryPort>(&mut self, ready: u64, port: &mut StorePort<'_, M>) -> u64 {
        let drained = self.alone(ready, port);
        self.barrier = port.drain_write_combining(drained) + 1;
        self.barrier
    }

    /// When an operation can run that must be the oldest one, with the store buffer empty: a fence, an atomic one.
    #[cold]
    pub(super) fn alone<M: MemoryPort>(&mut self, ready: u64, port: &mut StorePort<'_, M>) -> u64 {
        ready.max(self.retired()).max(self.stores.drain(port))
    }

    /// A load that could start at `ready` meets older stores of unknown address; gives when it starts.
    #[inline(never)]
    pub(super) fn wait_for_addresses<const WATCHED: bool>(&mut self, instruction: u64, ready: u64) -> u64 {
        if self.hoisting.goes_ahead(instruction, ready) {
            return ready;
        }
        self.statistics.loads_blocked_address += 1;
        if WATCHED && let Some(probe) = &mut self.probe {
            probe.pulse(CoreSignal::LoadsBlockedAddress, ready, 1);
        }
        ready.max(self.stores.addressed())
    }

    #[inline]
    fn load<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        place: AccessPlace,
        ready: u64,
        at: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> u64 {
        self.stores.send_until(at, port);
        let mut forwarded = false;
        let found = self.stores.find(place, at);
        if self.hoisting.guesses() {
            self.hoisting.learn(found.addressed());
        }
        let answer = match found {
            ForwardedStore::Nothing => self.read::<M, WATCHED>(op, place, at, hardware, port),
            ForwardedStore::Forward { ready: data, value, .. } => {
                self.statistics.loads_forwarded += 1;
                forwarded = true;
                let complete = match self.limits.memory_renaming {
                    // The load only checks that it was right; those who need its result do not wait for it.
                    true => value.max(ready),
                    false => at.max(data) + self.limits.store_forward_latency,
                };
                let (supplier, translation) = (Supplier::L1, Translation::L1);
                AccessAnswer { translated: at, complete, supplier, translation }
            }
            ForwardedStore::Blocked { number: store, .. } => {
                self.statistics.loads_blocked += 1;
                if WATCHED && let Some(probe) = &mut self.probe {
                    probe.pulse(CoreSignal::LoadsBlocked, at, 1);
                }
                let drained = self.stores.unblocked_at(store, port);
                let again = at.max(drained) + self.limits.blocked_forward_penalty;
                self.read::<M, WATCHED>(op, place, again, hardware, port)
            }
        };
        let AccessAnswer { translated, complete, supplier, translation } = answer;
        self.statistics.load_cycles += complete.saturating_sub(at);
        hardware.timeline.pend(pending(supplier), at, complete);
        let dispatched = self.dispatched();
        if WATCHED && let Some(probe) = &mut self.probe {
            let AccessPlace { instruction, address, .. } = place;
            let started = at;
            probe.load(&WatchedLoad {
                instruction,
                address,
                dispatched,
                started,
                translated,
                complete,
                supplier,
                translation,
                forwarded,
                lookups: self.limits.lookups,
            });
        }
        complete
    }

    /// Asks the memory system at `at`, twice if the load crosses a line.
    #[inline]
    fn read<M: MemoryPort, const WATCHED: bool>(
        &mut self,
        op: &TableOp,
        place: AccessPlace,
        at: u64,
        hardware: &mut Hardware,
        port: &mut StorePort<'_, M>,
    ) -> AccessAnswer {
        let kind = if op.locked { RequestKind::LoadToOwn } else { RequestKind::Load };
        let (cycles, response) = port.ask(kind, place.address, at, place.instruction);
        let mut answer = AccessAnswer {
            translated: port.cycle_of(at, response.translated),
            complete: at + cycles,
            supplier: response.supplier,
            translation: response.translation,
        };
        if place.crosses {
            self.statistics.loads_split += 1;
            let second = port.second_line(place.address);
            let again = hardware.timeline.reserve(op.ports, at + 1);
            let (cycles, response) = port.ask(kind, second, again, place.instruction);
            if again + cycles > answer.complete {
                (answer.complete, answer.supplier) = (again + cycles, response.supplier);
                answer.translated = port.cycle_of(again, response.translated);
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

fn pending(supplier: Supplier) -> PendingUop {
    match supplier {
        Supplier::L1 => PendingUop::Load,
        Supplier::FillBuffer | Supplier::L2 => PendingUop::L1Miss,
        _ => PendingUop::L2Miss,
    }
}
