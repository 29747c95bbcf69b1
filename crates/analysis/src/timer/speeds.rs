//! How fast loops turn and their streams advance, from all samples that tell in which turn they were taken.

use std::collections::HashMap;

use record::{
    ids::ThreadId,
    run::{Run, Samples},
};

use super::{
    blame::BlameCore,
    entries::LoopEntries,
    facts::TurnCycles,
    pace::LoopTurns,
    passes::{self, PassShape},
    program::{DecodedProgram, PacedBy},
    streams::{AddressStream, AddressStreams, addressed_at},
};

/// No core turns that much faster than it should by what its operations cost.
const IMPOSSIBLE: f64 = 2.0;

impl AddressStreams {
    /// Finds how fast the loops turn, and their streams advance.
    pub(super) fn find_speeds(&mut self, run: &Run, program: &DecodedProgram, core: &BlameCore) {
        let pacer_of = |by: PacedBy| self.pacer_of(by);
        let mut spans: HashMap<(ThreadId, Pacer), (u64, u64, u64)> = HashMap::new();
        let ran_ns = ran_ns(run);
        let all = || {
            let samples = addressed_at(&run.samples, program).map(|(at, (thread, site, time, address))| {
                (ran_ns.get(at).copied(), (thread, PacedBy::Operand(site), time, address))
            });
            samples.chain(paced(&run.bursts, program).map(|found| (None, found)))
        };
        for (_, (thread, by, _, value)) in all() {
            if let Some((pacer, _)) = pacer_of(by) {
                let (low, high, seen) = spans.entry((thread, pacer)).or_insert((value, value, 0));
                (*low, *high, *seen) = ((*low).min(value), (*high).max(value), *seen + 1);
            }
        }
        let mut turns: HashMap<usize, LoopTurns> = HashMap::new();
        let mut shapes: HashMap<usize, PassShape> = HashMap::new();
        for (ran_ns, (thread, by, time_ns, value)) in all() {
            let Some((pacer, divisor)) = pacer_of(by) else { continue };
            let Some(&(low, high, seen)) = spans.get(&(thread, pacer)).filter(|(_, _, seen)| *seen > 1)
            else {
                continue;
            };
            let apart = (high - low) as f64;
            // The lowest of n places lies behind the beginning by about the n-th part of the whole.
            let missed = apart / (seen - 1) as f64;
            let turn = ((value - low) as f64 + missed) / divisor;
            let length = (apart + 2.0 * missed) / divisor;
            if apart > 0.0 {
                let part = (value - low) as f64 / apart;
                let shape = shapes.entry(self.block_of(pacer)).or_default();
                shape.push(part, (apart + divisor.max(2.0 * missed)) / divisor);
            }
            let turns = turns.entry(self.block_of(pacer)).or_default();
            match ran_ns {
                Some(ran_ns) => turns.push(thread, (time_ns, ran_ns), turn, length),
                None => turns.push_burst(thread, time_ns, turn, length),
            }
        }
        let by_passes = passes::speeds(run, program, &shapes);
        for (id, turns) in turns {
            let Some(block) = program.block(id) else { continue };
            let entries = LoopEntries::of(program, id);
            let fastest_per_s = core.clock_hz / TurnCycles::of(block, &core.costs, &entries).least;
            let by_places = turns.per_s(fastest_per_s);
            let by_passes = by_passes.get(&id).map(|speed| speed.beside(by_places));
            let Some(speed) = by_passes.or(by_places) else { continue };
            if speed.rate.bytes_per_s > IMPOSSIBLE * fastest_per_s && self.forget_changing_steps(id) {
                continue;
            }
            self.speeds.insert(id, speed);
            for stream in self.all[self.of_block[id].clone()].iter_mut().filter(|stream| stream.is_linear) {
                stream.advance = Some(stream.bytes_of(speed.rate)).filter(|_| stream.divisor > 0);
            }
        }
    }

    /// Forgets how far turns move those streams of a block that move by what is in a register, and says whether there are any.
    fn forget_changing_steps(&mut self, block: usize) -> bool {
        let streams = self.all[self.of_block[block].clone()].iter_mut();
        streams.map(AddressStream::forget_changing_step).filter(|&is_forgotten| is_forgotten).count() > 0
    }

    /// What tells turns, and how far each moves it; none of streams that not every turn moves alike.
    fn pacer_of(&self, by: PacedBy) -> Option<(Pacer, f64)> {
        match by {
            PacedBy::Operand(site) => {
                let id = *self.of_site.get(&site)?;
                let stream = self.all.get(id).filter(|stream| stream.is_linear)?;
                Some((Pacer::Stream(id), stream.turn_bytes()? as f64))
            }
            PacedBy::Counter { block, step } => Some((Pacer::Counter(block), step.unsigned_abs() as f64)),
        }
    }

    fn block_of(&self, pacer: Pacer) -> usize {
        match pacer {
            Pacer::Stream(id) => self.all[id].block,
            Pacer::Counter(block) => block,
        }
    }

    /// Streams that each turn moves alike may be seen in bursts alone, where samples are blamed on what touches no memory.
    pub(super) fn follow_bursts(&mut self, bursts: &Samples, program: &DecodedProgram) {
        for (_, by, _, address) in paced(bursts, program) {
            if let PacedBy::Operand(site) = by
                && let Some(&id) = self.of_site.get(&site)
            {
                self.all[id].note(site, address);
            }
        }
    }
}

/// What moves alike with every turn of a loop: a stream, by its number, or a register of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pacer {
    Stream(usize),
    Counter(usize),
}

/// By sample: how long its thread had run by then. The clock that samples are taken by stands still while a thread does not run.
fn ran_ns(run: &Run) -> Vec<f64> {
    let mut taken: HashMap<ThreadId, u64> = HashMap::new();
    let ran = |thread: &ThreadId| {
        let number = taken.entry(*thread).or_default();
        *number += 1;
        *number as f64 * run.about.period_ns
    };
    run.samples.thread.iter().map(ran).collect()
}

/// Thread, what tells, time and its value of every sample of a burst that tells in which turn of a loop it was taken.
fn paced<'a>(
    bursts: &'a Samples,
    program: &'a DecodedProgram,
) -> impl Iterator<Item = (ThreadId, PacedBy, u64, u64)> + 'a {
    let columns = bursts.thread.iter().zip(&bursts.place).zip(&bursts.time_ns).zip(&bursts.address);
    columns.filter_map(|(((&thread, &place), &time_ns), &address)| {
        let by = (*program.pacing.get(place.index())?)?;
        Some((thread, by, time_ns, address?.get()))
    })
}
