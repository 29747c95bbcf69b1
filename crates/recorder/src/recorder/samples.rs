//! Samples: where they landed, what they touched, who had called.

use std::num::NonZeroU64;

use code::blame::WatchedOperand;
use pmu::sampling::{CallChain, KernelSample, Mode, Weight};
use record::{
    file,
    ids::{ModuleId, PlaceId, ThreadId},
    loads::LoadSample,
    run::{ModuleKind, Place},
};

use super::{KnownSpace, Recorder};
use crate::{
    calls::follows_call,
    code_store::{Sources, unknown_stretch},
    loads,
    operand::{self, PlaceOperands},
    spaces::Mapped,
};

/// The number of `rsp` in the kernel's `perf_regs.h`.
const STACK_POINTER: u32 = 7;

/// Callers that are remembered; beyond it chains end at those that are not.
const MOST_CALLERS: usize = 1 << 18;

/// Samples of a loop of which it is noted in which pass they were taken: more tell no more.
const MOST_PASSES: u32 = 1 << 14;

impl Recorder {
    pub(super) fn sample(&mut self, sample: &KernelSample<'_>) {
        let Some((mut recorded, ip, operands)) = self.landed(sample, |operands| (operands.watched, true))
        else {
            return;
        };
        let pointer = sample.registers.as_ref().and_then(|registers| registers.get(STACK_POINTER));
        if let (Some(pointer), Some(live)) = (pointer, self.population.threads.get_mut(&sample.tid)) {
            live.stack_pointer = Some(pointer);
        }
        recorded.stack = sample.call_chain.and_then(|chain| self.stack(sample.pid, recorded.place.0, chain));
        if self.recent.is_some() {
            self.note_recent(&recorded, sample.pid, ip);
        }
        if self.heap.is_some() {
            self.regions.sample(sample.tid, recorded.thread, recorded.time_ns);
        }
        self.writer.sample(recorded);
        self.counts.samples += 1;
        if let Some((loop_begins, counter)) = operands.passes {
            self.pass(recorded, loop_begins, operand::address(&counter, sample.registers.as_ref(), 0));
        }
    }

    /// Notes in which pass of its loop a sample was taken.
    fn pass(&mut self, recorded: file::RecordedSample, loop_begins: u64, counted: Option<u64>) {
        let module = self.places[recorded.place.index()].module;
        let noted = self.passes.entry((module, loop_begins)).or_default();
        if *noted < MOST_PASSES {
            *noted += 1;
            self.writer.pass(file::RecordedSample {
                address: counted.and_then(NonZeroU64::new),
                stack: None,
                ..recorded
            });
        }
    }

    /// A sample of a burst.
    pub(super) fn burst(&mut self, sample: &KernelSample<'_>) {
        // The other rings were read before: whoever is not known has ended.
        if !self.population.threads.contains_key(&sample.tid) {
            return;
        }
        // What is said of samples is said of the others.
        let counts = self.counts;
        if let Some((recorded, ..)) = self.landed(sample, |operands| {
            (operands.pacing.map(|(_, pacing)| pacing), operands.is_paced_by_address())
        }) {
            if self.heap.is_some() {
                self.regions.burst(sample.tid, recorded.thread, recorded.time_ns);
            }
            self.writer.burst_sample(recorded);
        }
        self.counts = counts;
    }

    /// Where a sample of user code landed and the address of the chosen operand, its chain left out; its instruction pointer and
    /// all operands to watch there. With the chosen one is said whether it is one, or a register that counts.
    fn landed(
        &mut self,
        sample: &KernelSample<'_>,
        choose: fn(PlaceOperands) -> (Option<WatchedOperand>, bool),
    ) -> Option<(file::RecordedSample, u64, PlaceOperands)> {
        let ip = sample.ip.filter(|_| matches!(sample.mode, Mode::User | Mode::Unknown))?;
        let is_foreign = !self.generated.is_empty() && !self.generated.iter().any(|code| code.holds(ip));
        if is_foreign || !self.window.contains(sample.time_ns) {
            return None;
        }
        let time_ns = self.window.time(sample.time_ns);
        let thread = self.thread_of(sample.pid, sample.tid, time_ns)?;
        let mut mapped = self.mapped(sample.pid, ip);
        if mapped.is_none() && self.look_at(sample.pid, time_ns) {
            mapped = self.mapped(sample.pid, ip);
        }
        let number = match &mapped {
            Some(mapped) => mapped.module,
            None => {
                self.counts.unmapped += 1;
                self.modules.unknown(sample.pid)
            }
        };
        // What we brought along is not the program's.
        let path = &self.modules.get(number).about.path;
        if self.heap.as_ref().is_some_and(|heap| heap.is_library(path)) {
            self.counts.own += 1;
            return None;
        }
        let known = self.place(number, sample.pid, mapped.as_ref(), ip);
        let (operand, is_address) = choose(known.operands);
        let address = operand.and_then(|operand| {
            let bias = ip.wrapping_sub(self.places[known.index as usize].address);
            operand::address(&operand, sample.registers.as_ref(), bias)
        });
        let address = address.and_then(NonZeroU64::new);
        if let Some(address) = address.filter(|_| is_address) {
            self.touch(sample.pid, address.get());
        }
        let recorded = file::RecordedSample {
            time_ns,
            thread: ThreadId(thread),
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            place: PlaceId(known.index),
            address,
            stack: None,
        };
        Some((recorded, ip, known.operands))
    }

    /// A load that the processor sampled itself: address, latency and origin are its own, not worked out.
    pub(super) fn load(&mut self, sample: &KernelSample<'_>) {
        let source = sample.data_source.filter(loads::is_load);
        let ip = sample.ip.filter(|_| matches!(sample.mode, Mode::User | Mode::Unknown));
        let (Some(source), Some(ip)) = (source, ip) else { return };
        if !self.window.contains(sample.time_ns) {
            return;
        }
        let time_ns = self.window.time(sample.time_ns);
        let Some(thread) = self.thread_of(sample.pid, sample.tid, time_ns) else { return };
        let mapped = self.mapped(sample.pid, ip);
        let number = match &mapped {
            Some(mapped) => mapped.module,
            None => self.modules.unknown(sample.pid),
        };
        let place = self.place(number, sample.pid, mapped.as_ref(), ip).index;
        let address = sample.address.and_then(NonZeroU64::new);
        if let Some(address) = address {
            self.touch(sample.pid, address.get());
        }
        self.writer.load(LoadSample {
            time_ns,
            thread: ThreadId(thread),
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            place: PlaceId(place),
            address,
            // No load takes no time: 0 is what processors say that did not measure it.
            latency_cycles: sample.weight.map(Weight::latency_cycles).filter(|cycles| *cycles > 0),
            origin: loads::origin(&source),
            translated_at_hand: loads::translated_at_hand(&source),
        });
    }

    pub(super) fn mapped(&self, pid: i32, ip: u64) -> Option<Mapped> {
        self.population.processes.get(&pid)?.space.at(ip).copied()
    }

    /// The place of an instruction pointer, made at its first sample.
    pub(super) fn place(&mut self, number: usize, pid: i32, mapped: Option<&Mapped>, ip: u64) -> KnownSpace {
        let module = self.module(number, pid, mapped);
        let address = self.modules.address(number, mapped, ip);
        if let Some(known) = self.by_place.get(&(number, address)) {
            return *known;
        }
        if self.by_place.len() >= self.most_places {
            return self.crowded_place(pid);
        }
        let operands = match self.generated.iter().find(|code| code.holds(address)) {
            Some(code) => self.operands.find_in(number, code.start, || Some(&code.bytes), address),
            // Finding functions takes time where files are large.
            None if !self.has_registers => None,
            None => {
                let image = self.modules.image(number, pid, mapped).filter(|image| image.is_x86_64());
                let operands = image.and_then(|image| self.operands.find(number, image, address));
                let has_no_file = self.modules.get(number).about.kind != ModuleKind::File
                    || self.modules.get(number).about.problem.is_some();
                if let (true, Some(mapped)) = (has_no_file && self.modules.are_live(), mapped) {
                    self.pages.copy(module, address, pid, ip, (mapped.start, mapped.end));
                }
                operands.or_else(|| {
                    let sources = Sources { pages: Some(&self.pages), ..Sources::default() };
                    let (start, bytes) = unknown_stretch(module, address, sources, 0)?;
                    self.operands.find_in(number, start, || Some(&bytes), address)
                })
            }
        };
        let known = KnownSpace {
            index: self.new_place(module, address, true),
            operands: operands.unwrap_or_default(),
        };
        self.by_place.insert((number, address), known);
        known
    }

    /// One for all beyond those that are kept.
    fn crowded_place(&mut self, pid: i32) -> KnownSpace {
        self.counts.crowded += 1;
        let number = self.modules.crowd();
        if let Some(known) = self.by_place.get(&(number, 0)) {
            return *known;
        }
        let module = self.module(number, pid, None);
        let known = KnownSpace { index: self.new_place(module, 0, true), operands: PlaceOperands::default() };
        self.by_place.insert((number, 0), known);
        known
    }

    fn module(&mut self, number: usize, pid: i32, mapped: Option<&Mapped>) -> u32 {
        let (module, is_new) = self.modules.record(number, pid, mapped);
        if is_new {
            self.writer.module(module, &self.modules.get(number).about);
        }
        module
    }

    fn new_place(&mut self, module: u32, address: u64, is_sampled: bool) -> u32 {
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let place = Place { module: ModuleId(module), address, function: None };
        self.writer.place(index, &place);
        self.places.push(place);
        self.sampled.push(is_sampled);
        index
    }

    /// The index of a call chain; none if the chain is the sampled place alone.
    pub(super) fn stack(&mut self, pid: i32, place: u32, chain: CallChain<'_>) -> Option<u32> {
        let mut places = std::mem::take(&mut self.chain);
        places.clear();
        places.push(place);
        // The first is the sampled address itself. Where no call stands the frame pointer was none: the rest is chance.
        places.extend(chain.addresses().skip(1).map_while(|address| self.caller(pid, address)));
        let found = if places.len() > 1 { self.chains.index(&places) } else { None };
        if let Some((index, true)) = found {
            let places: Vec<PlaceId> = places.iter().copied().map(PlaceId).collect();
            self.writer.stack(index, &places);
        }
        self.chain = places;
        found.map(|(index, _)| index)
    }

    /// The place of the call that returns to an address: its last byte.
    fn caller(&mut self, pid: i32, return_address: u64) -> Option<u32> {
        let mapped = self.mapped(pid, return_address)?;
        let number = mapped.module;
        let module = self.module(number, pid, Some(&mapped));
        let address = self.modules.address(number, Some(&mapped), return_address);
        if let Some(known) = self.callers.get(&(number, address)) {
            return *known;
        }
        let image = self.modules.image(number, pid, Some(&mapped)).filter(|image| image.is_x86_64());
        // Of generated code nothing can be told; it may well be a call.
        let is_call = image.is_none_or(|image| follows_call(image, address));
        if self.callers.len() >= MOST_CALLERS {
            return None;
        }
        let place = is_call.then(|| self.new_place(module, address.wrapping_sub(1), false));
        self.callers.insert((number, address), place);
        place
    }

    /// Notes the variable at an address.
    pub(super) fn touch(&mut self, pid: i32, address: u64) {
        let Some(spans) = self.spans(pid) else { return };
        let Some(process) = self.population.processes.get(&pid) else { return };
        let found = self.variables.touch(process.id, address, &spans, &mut self.modules, pid);
        if let Some(variable) = found {
            self.writer.variable(variable);
        }
    }
}
