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
    program::DecodedProgram,
    streams::{AddressStream, AddressStreams, addressed, addressed_at},
};

/// No core turns that much faster than it should by what its operations cost.
const IMPOSSIBLE: f64 = 2.0;

impl AddressStreams {
    /// Finds how fast the loops turn, and their streams advance.
    pub(super) fn find_speeds(&mut self, run: &Run, program: &DecodedProgram, core: &BlameCore) {
        let linear =
            |id: usize| Some(id).filter(|&id| self.all[id].is_linear && self.all[id].turn_bytes().is_some());
        let stream_of = |site: usize| self.of_site.get(&site).copied().and_then(linear);
        let mut spans: HashMap<(ThreadId, usize), (u64, u64, u64)> = HashMap::new();
        let bursts = || paced(&run.bursts, program);
        for (thread, site, _, address) in addressed(&run.samples, program).chain(bursts()) {
            if let Some(id) = stream_of(site) {
                let (low, high, seen) = spans.entry((thread, id)).or_insert((address, address, 0));
                (*low, *high, *seen) = ((*low).min(address), (*high).max(address), *seen + 1);
            }
        }
        let mut turns: HashMap<usize, LoopTurns> = HashMap::new();
        let ran_ns = ran_ns(run);
        let far = addressed_at(&run.samples, program).map(|(at, found)| (ran_ns.get(at).copied(), found));
        for (ran_ns, (thread, site, time_ns, address)) in far.chain(bursts().map(|found| (None, found))) {
            let Some(id) = stream_of(site) else { continue };
            let Some(&(low, high, seen)) = spans.get(&(thread, id)).filter(|(_, _, seen)| *seen > 1) else {
                continue;
            };
            let divisor = self.all[id].turn_bytes().unwrap_or(1) as f64;
            let seen_bytes = (high - low) as f64;
            // The lowest of n places lies behind the beginning by about the n-th part of the whole.
            let missed_bytes = seen_bytes / (seen - 1) as f64;
            let turn = ((address - low) as f64 + missed_bytes) / divisor;
            let length = (seen_bytes + 2.0 * missed_bytes) / divisor;
            let turns = turns.entry(self.all[id].block).or_default();
            match ran_ns {
                Some(ran_ns) => turns.push(thread, (time_ns, ran_ns), turn, length),
                None => turns.push_burst(thread, time_ns, turn, length),
            }
        }
        for (id, turns) in turns {
            let Some(block) = program.block(id) else { continue };
            let entries = LoopEntries::of(program, id);
            let fastest_per_s = core.clock_hz / TurnCycles::of(block, &core.costs, &entries).least;
            let Some(speed) = turns.per_s(fastest_per_s) else { continue };
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

    /// Streams that each turn moves alike may be seen in bursts alone, where samples are blamed on what touches no memory.
    pub(super) fn follow_bursts(&mut self, bursts: &Samples, program: &DecodedProgram) {
        for (_, site, _, address) in paced(bursts, program) {
            if let Some(&id) = self.of_site.get(&site) {
                self.all[id].note(site, address);
            }
        }
    }
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

/// Thread, site, time and address of every sample of a burst that tells in which turn of a loop it was taken.
fn paced<'a>(
    bursts: &'a Samples,
    program: &'a DecodedProgram,
) -> impl Iterator<Item = (ThreadId, usize, u64, u64)> + 'a {
    let columns = bursts.thread.iter().zip(&bursts.place).zip(&bursts.time_ns).zip(&bursts.address);
    columns.filter_map(|(((&thread, &place), &time_ns), &address)| {
        let site = (*program.pacing.get(place.index())?)?;
        Some((thread, site, time_ns, address?.get()))
    })
}
