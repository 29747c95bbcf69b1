//! Addresses of samples to data: which objects the core waited for, and which lines threads share.
//!
//! A block is alive from the moment it was written down until another one lies there. Of small blocks only some were
//! written down: an address beside one belongs most likely to a block of the same site, and is counted there if the
//! next one known lies close. What no block, variable or stack explains is named by its mapping.

mod allocated;
mod flagged;
mod lines;
mod name;
mod space;
mod tally;

use std::collections::HashMap;

use code::blame::AddressBehind;
use record::{ids::ThreadId, run::Run};

use crate::{
    findings::{Findings, ObjectFinding, ObjectId, ObjectSharing, ObjectUse, Objects, SharedLine, TimeShare},
    patterns, statistics,
    timer::{Ranks, Tally},
};
use flagged::FlaggedTally;
use tally::{ObjectTally, ObjectTouch};

pub(crate) use name::of as name_of;
pub(crate) use space::Spaces;

/// Which data a run waited for, and for each sample the index of its object, if its address is known. `findings` are
/// those of the same run: objects refer to its symbols.
pub(crate) fn assign(
    run: &Run,
    blamed: &Tally,
    ranks: &Ranks,
    findings: &Findings,
) -> (Objects, Vec<Option<u32>>) {
    let mut sorted = Sorted::new(run, blamed, ranks, findings);
    let keys: Vec<Option<ObjectId>> =
        (0..run.samples.time_ns.len()).map(|index| sorted.sample(index)).collect();
    let Sorted { spaces, tally, flagged, operands, addressed, .. } = sorted;
    let ranks: HashMap<ObjectId, u32> =
        tally.ranked().iter().zip(0..).map(|((key, _), rank)| (**key, rank)).collect();
    let assigned = keys.iter().map(|key| key.as_ref().and_then(|key| ranks.get(key).copied())).collect();
    let objects = Objects {
        addressed: statistics::share(addressed as f64, operands as f64),
        objects: findings_of(run, &spaces, &tally),
        shared_lines: lines::shared(run, &tally),
        flagged: flagged.finding(&findings.timeline, &ranks),
        remarks: name::remarks(run, addressed, operands),
    };
    (objects, assigned)
}

/// Samples sorted by the data they touch.
struct Sorted<'a> {
    run: &'a Run,
    blamed: &'a Tally,
    ranks: &'a Ranks,
    findings: &'a Findings,
    spaces: Spaces<'a>,
    tally: ObjectTally,
    flagged: FlaggedTally,
    /// Samples of memory instructions, and those whose address is known.
    operands: u64,
    addressed: u64,
}

impl<'a> Sorted<'a> {
    fn new(run: &'a Run, blamed: &'a Tally, ranks: &'a Ranks, findings: &'a Findings) -> Self {
        Self {
            run,
            blamed,
            ranks,
            findings,
            spaces: Spaces::new(run),
            tally: ObjectTally::default(),
            flagged: FlaggedTally::default(),
            operands: 0,
            addressed: 0,
        }
    }

    /// Counts a sample; gives its object, if its address is known.
    fn sample(&mut self, index: usize) -> Option<ObjectId> {
        let (run, samples) = (self.run, &self.run.samples);
        let (place, thread, time_ns) = (samples.place[index], samples.thread[index], samples.time_ns[index]);
        let waits = self.blamed.waits(place);
        let function = run.place(place).and_then(|place| place.function);
        let symbol = function.and_then(|function| self.ranks.symbol(function));
        let is_flagged = self.findings.timeline.is_flagged(time_ns);
        if is_flagged {
            self.flagged.code(symbol, waits.loads);
        }
        let access = self.blamed.access(place)?;
        self.operands += 1;
        self.tally.waited(waits);
        let address = samples.address[index].filter(|_| access.behind != AddressBehind::Lost)?.get();
        let process = run.thread(thread)?.process;
        self.addressed += 1;
        let key = self.spaces.find(process, address, time_ns);
        if is_flagged {
            self.flagged.data(key, waits.loads);
        }
        let pattern = self.blamed.pattern(place);
        self.tally.add(&key, ObjectTouch { process, thread, address, access, waits, symbol, pattern });
        Some(key)
    }
}

/// A line with this share of all samples is worth a word.
const WORTH_A_WORD: f64 = 0.1;

/// What to try next about data, in plain sentences: lines that threads share without need.
pub fn advice(findings: &Findings, objects: &Objects) -> Vec<String> {
    let all = findings.about.samples.max(1) as f64;
    let is_worth = |line: &&SharedLine| {
        line.sharing == ObjectSharing::False && line.samples as f64 / all >= WORTH_A_WORD
    };
    let sentence = |line: &SharedLine| {
        let mut names: Vec<&str> = Vec::new();
        for symbol in line.uses.iter().filter_map(|found| findings.symbols.get(found.symbol)) {
            if !names.contains(&symbol.name.as_str()) {
                names.push(&symbol.name);
            }
        }
        let object = line.object.and_then(|index| objects.objects.get(index));
        let within = object.map(|object| format!(" ({})", object.name)).unwrap_or_default();
        patterns::on_lines(line.address, &within, &names.join(" and "))
    };
    objects.shared_lines.iter().filter(is_worth).take(3).filter_map(sentence).collect()
}

/// Bytes of the only block that an object stands for; none if it stands for more, or for some of many.
fn one_block(spaces: &Spaces<'_>, key: &ObjectId) -> Option<u64> {
    spaces.size(key).value().copied().filter(|_| spaces.blocks(key) == 1)
}

fn findings_of(run: &Run, spaces: &Spaces<'_>, tally: &ObjectTally) -> Vec<ObjectFinding> {
    let all_loads = tally.loads;
    let all_other = tally.other;
    let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
    let allocated = allocated::of_all(run);
    let tid = |thread: ThreadId| run.thread(thread).map_or(0, |thread| thread.tid);
    tally
        .ranked()
        .into_iter()
        .map(|(key, sum)| {
            let mut symbols: Vec<ObjectUse> = sum
                .symbols
                .iter()
                .map(|(&symbol, &(samples, waiting_on_loads, writes))| ObjectUse {
                    symbol,
                    samples,
                    waiting_on_loads,
                    writes,
                })
                .collect();
            symbols.sort_by(|a, b| {
                b.waiting_on_loads.total_cmp(&a.waiting_on_loads).then(b.samples.cmp(&a.samples))
            });
            let nothing = TimeShare { value: 0.0, low: 0.0, high: 0.0 };
            let load_waiting = statistics::share(sum.loads, all_loads).unwrap_or(nothing);
            ObjectFinding {
                id: *key,
                name: name::of(run, key, one_block(spaces, key)),
                kind: name::kind(run, key),
                site: name::site(run, key),
                size_bytes: spaces.size(key),
                blocks: spaces.blocks(key),
                allocated: allocated.get(key).and_then(|sum| sum.estimate()),
                samples: sum.samples,
                next_address_samples: sum.next_address,
                load_waiting,
                other_waiting: share(sum.other, all_other),
                pattern: sum.pattern(),
                readers: sum.readers.iter().map(|&thread| tid(thread)).collect(),
                writers: sum.writers.iter().map(|&thread| tid(thread)).collect(),
                reader_ids: sum.readers.iter().copied().collect(),
                writer_ids: sum.writers.iter().copied().collect(),
                pages: spaces.pages(key),
                symbols,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
