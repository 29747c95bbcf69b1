//! A memory system by script: fixed latencies by address, a number of fill buffers, nothing else. For tests of cores.

use std::ops::Range;

use crate::{
    access::{MemoryPort, MemoryRequest, RequestKind, Response, Supplier, Translation},
    time::Time,
};

/// Lines that count as being in the L1 after they came from below: enough that neighbours of a stream hit.
const RECENT_LINES: usize = 32;
const LINE_SHIFT: u32 = 6;

/// What an address costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedRegion {
    /// Where.
    pub addresses: Range<u64>,
    /// Who has it.
    pub supplier: Supplier,
    /// From request to data.
    pub latency: Time,
}

/// A line on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    line: u64,
    begin: Time,
    ready: Time,
}

/// What one core has.
#[derive(Clone, Debug)]
struct ScriptedPort {
    fills: Vec<Fill>,
    recent: [u64; RECENT_LINES],
}

/// A memory system by script.
#[derive(Clone, Debug)]
pub struct ScriptedMemory {
    l1: Time,
    regions: Vec<ScriptedRegion>,
    fill_buffers: usize,
    ports: Vec<ScriptedPort>,
    /// Requests that needed a fill buffer.
    pub misses: u64,
    /// All requests, for those who want to see them.
    pub log: Option<Vec<MemoryRequest>>,
}

impl ScriptedMemory {
    /// Addresses outside all regions are in the L1, at this latency.
    pub fn new(l1: Time, fill_buffers: usize) -> Self {
        Self {
            l1,
            regions: Vec::new(),
            fill_buffers: fill_buffers.max(1),
            ports: Vec::new(),
            misses: 0,
            log: None,
        }
    }

    /// Adds a region; the first that holds an address decides.
    pub fn with(mut self, addresses: Range<u64>, supplier: Supplier, latency: Time) -> Self {
        self.regions.push(ScriptedRegion { addresses, supplier, latency });
        self
    }

    fn port(&mut self, core: usize) -> &mut ScriptedPort {
        if self.ports.len() <= core {
            let port = ScriptedPort {
                fills: vec![Fill::default(); self.fill_buffers],
                recent: [u64::MAX; RECENT_LINES],
            };
            self.ports.resize(core + 1, port);
        }
        &mut self.ports[core]
    }

    fn miss(&mut self, request: &MemoryRequest, supplier: Supplier, latency: Time) -> Response {
        let (line, l1) = (request.address >> LINE_SHIFT, self.l1);
        let port = self.port(request.core);
        let translated = request.at;
        let response = |ready, accepted, supplier| Response {
            ready,
            accepted,
            translated,
            supplier,
            translation: Translation::L1,
        };
        let flying = |fill: &&Fill| fill.line == line && fill.begin <= request.at && fill.ready > request.at;
        if let Some(fill) = port.fills.iter().find(flying) {
            return response(fill.ready.max(request.at + l1), request.at, Supplier::FillBuffer);
        }
        let recent = &mut port.recent[line as usize % RECENT_LINES];
        if *recent == line {
            return response(request.at + l1, request.at, Supplier::L1);
        }
        *recent = line;
        let Some(free) = port.fills.iter_mut().min_by_key(|fill| fill.ready) else {
            return response(request.at + latency, request.at, supplier);
        };
        let accepted = request.at.max(free.ready);
        *free = Fill { line, begin: request.at, ready: accepted + latency };
        let ready = free.ready;
        self.misses += 1;
        response(ready, accepted, supplier)
    }
}

impl MemoryPort for ScriptedMemory {
    fn access(&mut self, request: &MemoryRequest) -> Response {
        if let Some(log) = &mut self.log {
            log.push(*request);
        }
        let region = self.regions.iter().find(|region| region.addresses.contains(&request.address));
        match region.map(|region| (region.supplier, region.latency)) {
            Some((supplier, latency)) if request.kind != RequestKind::Fetch => {
                self.miss(request, supplier, latency)
            }
            _ => Response {
                ready: request.at + self.l1,
                accepted: request.at,
                translated: request.at,
                supplier: Supplier::L1,
                translation: Translation::L1,
            },
        }
    }
}
