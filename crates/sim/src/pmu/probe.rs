//! What watches one hardware thread during a run.

use std::ops::Range;

use super::{
    recipe::{Programme, Recipe, Trigger},
    sample::{LoadSample, Raw, SimulatedSampler},
    tape::{LanePart, Tape, TapeMoment, TapeReader},
};
use crate::{
    core::CoreClock,
    signal::{
        CoreObserver, CoreSignal, CounterTurns, Detour, LOADS_BY_SUPPLIER, Number, ObservedWaits, Retirement,
        Set, SignalNote, WatchedLoad,
    },
    supplier::{Supplier, Translation},
    time::Time,
};

/// Cycles behind the dispatch clock up to which the tape is read: what memory tells of a retired store may come late.
const LAG: u64 = 4096;
/// No lane of the tape.
const NO_LANE: u8 = u8::MAX;

/// How a counter of the programme is read.
#[derive(Clone, Debug)]
enum ProbeRead {
    /// A box counts it.
    Elsewhere,
    Sum(Vec<(Number, u64)>, usize),
    Reader(usize),
}

/// Watches one hardware thread.
pub(crate) struct Probe {
    /// Of these sums are kept.
    summed: Set,
    /// Which lane of the tape a signal has.
    lanes: [u8; Number::COUNT],
    taped: Set,
    turns: CounterTurns,
    /// By set that takes turns.
    sums: Vec<[u64; Number::COUNT]>,
    tape: Tape,
    readers: Vec<TapeReader>,
    reads: Vec<(ProbeRead, u32)>,
    sampler: Option<SimulatedSampler>,
    /// What memory told since the last look.
    notes: Vec<SignalNote>,
    /// Of its core; it does not change during a run.
    clock: CoreClock,
    started: u64,
    /// On a wrong path, or on the way back from it: the front end is asked for nothing.
    astray: Range<u64>,
}

/// What a thread's counters and samples came to.
pub(crate) struct Harvest {
    /// By counter of the programme; none for those of boxes.
    pub counts: Vec<Option<u64>>,
    pub samples: Vec<Raw>,
}

impl Probe {
    /// Begins at a cycle with all counters of a programme at zero.
    pub fn new(programme: &Programme, clock: &CoreClock, begin: u64) -> Self {
        let tick = clock.cycles(Time::from_ns(programme.tick_ns as f64));
        let turns = programme.turns(begin, tick, |end_fs| begin + clock.cycles(Time(end_fs)));
        let mut probe = Self {
            summed: Set::default(),
            lanes: [NO_LANE; Number::COUNT],
            taped: Set::default(),
            sums: vec![[0; Number::COUNT]; turns.sets],
            turns,
            tape: Tape::new(0, begin),
            readers: Vec::new(),
            reads: Vec::new(),
            sampler: programme.trigger.map(SimulatedSampler::new),
            notes: Vec::new(),
            clock: *clock,
            started: begin,
            astray: begin..begin,
        };
        let mut lanes = 0;
        for (index, counter) in programme.counters.iter().enumerate() {
            let period = match programme.trigger {
                Some(Trigger::Overflow { counter, period, .. }) if counter == index => Some(period),
                _ => None,
            };
            let read = probe.plan(&counter.recipe, counter.turn, period, &mut lanes);
            let seen = match counter.recipe {
                Recipe::Core { seen_percent, .. } => seen_percent,
                Recipe::Boxes { .. } => 100,
            };
            probe.reads.push((read, seen));
        }
        probe.tape = Tape::new(usize::from(lanes), begin);
        // A cycle is one in every cycle, and nobody knows yet how many there will be. On the tape, reference cycles pass
        // with them.
        for clock in [CoreSignal::Cycles, CoreSignal::ReferenceCycles] {
            if probe.taped.wants(clock) {
                probe.tape.raise(usize::from(probe.lanes[clock as usize]));
            }
        }
        probe
    }

    fn plan(&mut self, recipe: &Recipe, turn: usize, period: Option<u64>, lanes: &mut u8) -> ProbeRead {
        let Recipe::Core { terms, shape, .. } = recipe else { return ProbeRead::Elsewhere };
        if recipe.is_sum() && period.is_none() {
            terms.iter().for_each(|term| self.summed.insert(term.signal));
            return ProbeRead::Sum(
                terms.iter().map(|term| (term.signal, term.weight.into())).collect(),
                turn,
            );
        }
        let mut part = |signal: Number, when: TapeMoment, weight: u32| {
            let lane = &mut self.lanes[signal.index()];
            if *lane == NO_LANE {
                *lane = *lanes;
                *lanes += 1;
                self.taped.insert(signal);
            }
            LanePart { lane: usize::from(*lane), when, weight }
        };
        let parts = terms.iter().map(|term| part(term.signal, term.when, term.weight)).collect();
        self.readers.push(TapeReader::new(parts, *shape, turn, period));
        ProbeRead::Reader(self.readers.len() - 1)
    }

    /// Signals that it asks of the memory system.
    pub fn wanted(&self) -> Set {
        self.summed.union(self.taped)
    }

    #[inline]
    fn spans(&mut self, signal: Number, from: u64, until: u64, by: u64) {
        if until <= from || by == 0 {
            return;
        }
        if self.summed.has(signal) {
            self.sum(signal, from, until, by);
        }
        if self.taped.has(signal) {
            let lane = usize::from(self.lanes[signal.index()]);
            self.tape.span(lane, from, until, by.min(u64::from(u16::MAX)) as u16);
        }
    }

    fn sum(&mut self, signal: Number, from: u64, until: u64, by: u64) {
        let mut cycle = from;
        while cycle < until {
            let (turn, end) = self.turns.at(cycle);
            let next = end.min(until);
            self.sums[turn][signal.index()] += (next - cycle) * by;
            cycle = next;
        }
    }

    fn read(&mut self, upto: u64, last: bool) {
        if self.readers.is_empty() {
            return;
        }
        self.tape.advance(upto, &self.turns, &mut self.readers);
        let Some(sampler) = &mut self.sampler else { return };
        for reader in &mut self.readers {
            reader.overflows.drain(..).for_each(|cycle| sampler.overflow(cycle));
        }
        sampler.blame(self.tape.unread(), last);
    }

    /// The run ends.
    pub fn finish(mut self, end: u64, reference_cycles: u64) -> Harvest {
        if end > self.started {
            if self.summed.wants(CoreSignal::Cycles) {
                self.sum(CoreSignal::Cycles.into(), self.started, end, 1);
            }
            // Reference cycles pass evenly.
            let span = end - self.started;
            for turn in 0..self.turns.sets {
                let share = self.turns.running(self.started, end, turn);
                let cycles = u128::from(reference_cycles) * u128::from(share) / u128::from(span);
                if self.summed.wants(CoreSignal::ReferenceCycles) {
                    self.sums[turn][CoreSignal::ReferenceCycles as usize] += cycles as u64;
                }
            }
        }
        self.follow(end);
        self.read(end, true);
        let value = |read: &ProbeRead| match read {
            ProbeRead::Elsewhere => None,
            ProbeRead::Sum(terms, turn) => {
                Some(terms.iter().map(|(signal, weight)| self.sums[*turn][signal.index()] * weight).sum())
            }
            ProbeRead::Reader(reader) => Some(self.readers[*reader].count),
        };
        let counts = self
            .reads
            .iter()
            .map(|(read, seen)| value(read).map(|count: u64| count * u64::from(*seen) / 100))
            .collect();
        Harvest { counts, samples: self.sampler.map_or_else(Vec::new, |sampler| sampler.samples) }
    }
}

impl CoreObserver for Probe {
    #[inline]
    fn span(&mut self, signal: CoreSignal, from: u64, until: u64) {
        self.spans(signal.into(), from, until, 1);
    }

    #[inline]
    fn pulse(&mut self, signal: CoreSignal, cycle: u64, times: u64) {
        self.spans(signal.into(), cycle, cycle + 1, times);
    }

    fn dispatch(&mut self, waits: &ObservedWaits) {
        use CoreSignal as S;
        let ObservedWaits { from, delivered, at, used, width, window, .. } = *waits;
        self.pulse(S::SlotsIssued, at, 1);
        // Of the first cycle some slots were used: allocation is not stalled in it, and only the others were not delivered.
        let whole = from + u64::from(used > 0);
        // As long as the window is full the front end is asked for nothing.
        let full = window.clamp(whole, delivered.max(whole));
        let stalled = delivered.max(whole);
        for (signal, until) in [
            (S::StallWindow, window),
            (S::StallLoadBuffer, waits.loads),
            (S::StallStoreBuffer, waits.stores),
            (S::StallScheduler, waits.scheduler),
        ] {
            self.span(signal, stalled, until.min(at));
        }
        self.span(S::StallAny, stalled, at);
        let Range { start, end } = self.astray;
        if end <= whole {
            self.span(S::StallWindow, whole, full);
            self.span(S::StallAny, whole, full);
        }
        if delivered > from && window <= from {
            self.spans(S::SlotsUndelivered.into(), from, whole, width - used);
        }
        self.spans(S::SlotsUndelivered.into(), full, delivered.min(start), width);
        self.spans(S::SlotsUndelivered.into(), full.max(end), delivered, width);
    }

    fn wrong_path(&mut self, detour: &Detour) {
        let &Detour { from, slots, width, resolved, recovered } = detour;
        let whole = slots / width.max(1);
        self.spans(CoreSignal::SlotsIssued.into(), from, from + whole, width);
        self.pulse(CoreSignal::SlotsIssued, from + whole, slots % width.max(1));
        let gone = resolved.max(from + slots.div_ceil(width.max(1)));
        self.span(CoreSignal::Recovery, gone, recovered);
        self.astray = from.min(recovered)..recovered;
    }

    fn abandon(&mut self, dispatched: u64, until: u64) {
        self.span(CoreSignal::SchedulerEntries, dispatched, until);
    }

    #[inline]
    fn start(&mut self, dispatched: u64, at: u64) {
        self.pulse(CoreSignal::UopsExecuted, at, 1);
        self.span(CoreSignal::SchedulerEntries, dispatched, at);
    }

    fn load(&mut self, load: &WatchedLoad) {
        use CoreSignal as S;
        let WatchedLoad { dispatched, started, translated, complete, supplier, .. } = *load;
        // It is pending from the moment it waits for anything, its address too.
        self.span(S::LoadsPending, dispatched, complete);
        // Nobody knows of a miss before the cache has looked (molka2017 §4.3), nor does it look before the address is
        // translated.
        let [first, second] = load.lookups;
        if !matches!(supplier, Supplier::L1) {
            self.span(S::L1MissesPending, translated + first, complete);
        }
        if !matches!(supplier, Supplier::L1 | Supplier::FillBuffer | Supplier::L2) {
            self.span(S::L2MissesPending, translated + second, complete);
        }
        self.pulse(LOADS_BY_SUPPLIER[supplier as usize], complete, 1);
        if load.translation == Translation::Walk {
            self.pulse(S::LoadsWalked, complete, 1);
        }
        if let Some(sampler) = &mut self.sampler {
            let sample = LoadSample {
                address: load.address,
                latency_cycles: complete.saturating_sub(started),
                supplier,
                translation: load.translation,
                forwarded: load.forwarded,
            };
            sampler.load(complete, load.instruction, sample);
        }
    }

    fn store(&mut self, cycle: u64, instruction: u64, address: u64) {
        if let Some(sampler) = &mut self.sampler {
            sampler.store(cycle, instruction, address);
        }
    }

    fn retire(&mut self, cycle: u64, retirement: &Retirement, block: u64) {
        use CoreSignal as S;
        let r = retirement;
        self.pulse(S::SlotsRetired, cycle, 1);
        let jump = r.branches > 0 && !r.call && !r.returns;
        for (signal, times) in [
            (S::Instructions, r.instructions),
            (S::InstructionsOther, r.others),
            (S::UopsRetired, r.uops),
            (S::Loads, r.loads),
            (S::Stores, r.stores),
            (S::LoadsLocked, r.loads_locked),
            (S::Branches, r.branches),
            (S::BranchesConditional, u8::from(r.conditional)),
            (S::BranchesCall, u8::from(r.call)),
            (S::BranchesCallDirect, u8::from(r.call && !r.indirect)),
            (S::BranchesCallIndirect, u8::from(r.call && r.indirect)),
            (S::BranchesReturn, u8::from(r.returns)),
            (S::BranchesIndirect, u8::from(r.indirect && !r.call)),
            (S::BranchesJump, u8::from(jump)),
            (S::SlotsFused, r.fused()),
            (S::Divides, r.divides),
            (S::AvxLoads, r.avx_loads),
            (S::AvxStores, r.avx_stores),
            (S::AvxCalculations, r.avx_calculations),
        ] {
            if times > 0 {
                self.pulse(signal, cycle, times.into());
            }
        }
        if let Some((signal, times)) = r.floating {
            self.pulse(signal, cycle, times.into());
        }
        if r.instructions > 0
            && let Some(sampler) = &mut self.sampler
        {
            sampler.retire(cycle, block + u64::from(r.offset));
        }
    }

    fn notes(&mut self) -> &mut Vec<SignalNote> {
        &mut self.notes
    }

    /// Takes over what memory told, and reads the tape as far as it is complete.
    fn follow(&mut self, dispatched: u64) {
        let notes = std::mem::take(&mut self.notes);
        for note in &notes {
            let from = self.clock.cycle_at(note.from);
            let until = if note.until > note.from { self.clock.cycle_at(note.until) } else { from + 1 };
            self.spans(note.signal, from, until, 1);
        }
        self.notes = notes;
        self.notes.clear();
        self.read(dispatched.saturating_sub(LAG), false);
    }
}
