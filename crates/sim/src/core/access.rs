//! Loads, stores, prefetches and fences of a thread.

use super::{
    hardware::Hardware,
    operation::Kind,
    stores::{Found, Port},
    table::Op,
    thread::{Thread, start_on_port},
    timeline::Pending,
};
use crate::access::{Memory, RequestKind, Supplier};

/// Where and for whom memory is touched.
#[derive(Clone, Copy)]
struct Place {
    address: u64,
    bytes: u64,
    instruction: u64,
}

impl Thread {
    /// A µop that touches or orders memory; gives the cycle in which it is complete.
    pub(super) fn access<M: Memory>(
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
            Kind::Load => self.load(op, place, ready, hardware, port),
            Kind::StoreAddress => {
                let at = self.start(op, ready, hardware);
                self.statistics.stores_split += u64::from(port.crosses(address, place.bytes));
                let known = at + u64::from(op.latency);
                self.stores.begin(address, place.bytes, instruction, op.non_temporal, known);
                known
            }
            Kind::StoreData => {
                let at = self.start(op, ready, hardware);
                let known = at + u64::from(op.latency);
                self.stores.data(known);
                known
            }
            Kind::Prefetch => {
                let at = self.start(op, ready.max(self.barrier), hardware);
                port.ask(RequestKind::Prefetch, address, at, instruction);
                at + 1
            }
            _ => {
                self.barrier = ready.max(self.retired()).max(self.stores.drain(port)) + 1;
                self.barrier
            }
        }
    }

    #[inline]
    fn start(&mut self, op: &Op, ready: u64, hardware: &mut Hardware) -> u64 {
        let at = start_on_port(op, ready, hardware);
        self.scheduler.start(at);
        at
    }

    #[inline]
    fn load<M: Memory>(
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
        let at = self.start(op, ready, hardware);
        self.stores.send_until(at, port);
        let (complete, pending) = match self.stores.find(place.address, place.bytes, at) {
            Found::Nothing => self.read(op, place, at, hardware, port),
            Found::Forward(data) => {
                self.statistics.loads_forwarded += 1;
                (at.max(data) + self.limits.store_forward_latency, Pending::Load)
            }
            Found::Blocked(store) => {
                self.statistics.loads_blocked += 1;
                let drained = self.stores.unblocked_at(store, port);
                let again = at.max(drained) + self.limits.blocked_forward_penalty;
                self.read(op, place, again, hardware, port)
            }
        };
        self.statistics.load_cycles += complete - at;
        hardware.timeline.pend(pending, at, complete);
        complete
    }

    /// Asks the memory system at `at`, twice if the load crosses a line.
    #[inline]
    fn read<M: Memory>(
        &mut self,
        op: &Op,
        place: Place,
        at: u64,
        hardware: &mut Hardware,
        port: &mut Port<'_, M>,
    ) -> (u64, Pending) {
        let (cycles, response) = port.ask(RequestKind::Load, place.address, at, place.instruction);
        let (mut complete, mut supplier) = (at + cycles, response.supplier);
        if port.crosses(place.address, place.bytes) {
            self.statistics.loads_split += 1;
            let second = (place.address | (port.line_bytes - 1)) + 1;
            let again = hardware.timeline.reserve(op.ports.into(), at + 1);
            let (cycles, response) = port.ask(RequestKind::Load, second, again, place.instruction);
            if again + cycles > complete {
                (complete, supplier) = (again + cycles, response.supplier);
            }
            complete += port.split_penalty;
        }
        self.statistics.loads_by_supplier[supplier as usize] += 1;
        (complete, pending(supplier))
    }
}

fn pending(supplier: Supplier) -> Pending {
    match supplier {
        Supplier::L1 => Pending::Load,
        Supplier::FillBuffer | Supplier::L2 => Pending::L1Miss,
        _ => Pending::L2Miss,
    }
}
