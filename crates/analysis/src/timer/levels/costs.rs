//! What a turn of a block takes were its data no larger than what a level holds well: what each level adds to it.
//!
//! A level is not waited for because lines come from it, but because they come no sooner: a stream from the third cache waits for
//! the second as well, as far as lines from there would have held it up too.

use crate::findings::WaitLevel;

use super::super::{
    blame::BlameCore,
    bounds::{CoreLevel, FEWEST_MISSES, FIT, MOST_MISSES, NARROW, SMALL_PAGES, at_once},
    entries::LoopEntries,
    facts::{LINE, TurnCycles, WINDOW_SLOTS},
    fetch::{LineFetch, StreamCode},
    streams::AddressStream,
    tally::Tally,
};

/// A block whose turns are reckoned over less data than they have.
pub(super) struct TurnCosts<'a> {
    core: &'a BlameCore,
    block: &'a code::Block,
    /// With all its data in the first cache.
    pub code_ns: f64,
    streams: Vec<StreamCost<'a>>,
}

struct StreamCost<'a> {
    stream: &'a AddressStream,
    code: StreamCode,
    /// What all streams together touch until this one comes back to a line; none if nothing tells.
    reuse_bytes: Option<f64>,
}

impl StreamCost<'_> {
    /// Whether its lines are there before they are wanted, as far as they can be moved that fast.
    fn is_ahead(&self) -> bool {
        match self.code.fetch {
            LineFetch::Ahead => true,
            LineFetch::Atomic => self.stream.is_gapless(),
            LineFetch::Chased(_) | LineFetch::Scattered => false,
        }
    }
}

impl<'a> TurnCosts<'a> {
    pub fn of(tally: &'a Tally, id: usize) -> Option<Self> {
        let (core, block) = (&tally.core, tally.program.block(id)?);
        let first_site = tally.program.blocks[id].first_site;
        let code = TurnCycles::of(block, &core.costs, &LoopEntries::of(&tally.program, id));
        let all = tally.streams.of_block(id);
        let cost = |stream: &'a AddressStream| StreamCost {
            stream,
            code: StreamCode::of(stream, block, first_site),
            reuse_bytes: reuse_bytes(stream, all),
        };
        let streams = all.iter().filter(|stream| !stream.is_shared).map(cost).collect();
        Some(Self { core, block, code_ns: code.at(core.clock_hz).usual, streams })
    }

    /// The same as if what ranges nobody knows how far cost nothing.
    pub fn without_open(self) -> Self {
        let streams = self.streams.into_iter().filter(|cost| cost.reuse_bytes.is_some()).collect();
        Self { streams, ..self }
    }

    /// Whether nothing tells how far some of its data ranges.
    pub fn is_open(&self) -> bool {
        self.streams.iter().any(|cost| cost.reuse_bytes.is_none())
    }

    /// Nanoseconds of a turn, with `scale` times its data; what is not known ranges over `open` bytes. No stream over more than
    /// `most` bytes.
    fn turn_ns(&self, scale: f64, open: f64, most: f64) -> f64 {
        let (beside, one_by_one) = self.lines_ns(scale, open, most);
        self.code_ns.max(beside) + one_by_one
    }

    /// Nanoseconds of a turn at least and at most, with `scale` times its data, all of which is known.
    fn turn_between(&self, scale: f64) -> (f64, f64) {
        let (beside, one_by_one) = self.lines_ns(scale, 0.0, f64::INFINITY);
        let least = self.code_ns.max(beside / NARROW) + one_by_one / SMALL_PAGES;
        (least, self.code_ns + beside * NARROW + one_by_one * SMALL_PAGES)
    }

    /// What a turn's lines take: those that may arrive beside the code, and those that wait for each other.
    fn lines_ns(&self, scale: f64, open: f64, most: f64) -> (f64, f64) {
        let hit_ns = self.core.levels.first().map_or(0.0, |level| level.latency_ns);
        let bytes_of = |cost: &StreamCost<'_>| (cost.reuse_bytes.unwrap_or(open) * scale).min(most);
        let miss_ns = |cost: &StreamCost<'_>| (latency_ns(self.core, bytes_of(cost)) - hit_ns).max(0.0);
        let (side_by_side, one_by_one) = self.misses_ns(miss_ns);
        let (mut ahead, mut scattered) = (0.0, 0.0);
        for cost in &self.streams {
            let from = self.core.level_for(bytes_of(cost));
            let moved_ns = from.map_or(0.0, |level| cost.code.transfer_ns(cost.stream, level));
            match cost.code.fetch {
                _ if cost.is_ahead() => ahead += moved_ns,
                LineFetch::Scattered => scattered += moved_ns,
                _ => {}
            }
        }
        // However many are under way, lines do not move faster than they do in order; stores above all.
        (ahead + side_by_side.max(scattered), one_by_one)
    }

    /// What finding pages adds to a turn, where it adds so much to each access of a stream over so many bytes.
    pub fn walks_ns(&self, scale: f64, walk_ns: impl Fn(&AddressStream, f64) -> f64) -> f64 {
        let (side_by_side, one_by_one) =
            self.misses_ns(|cost| cost.reuse_bytes.map_or(0.0, |bytes| walk_ns(cost.stream, bytes * scale)));
        side_by_side + one_by_one
    }

    /// What a turn's misses take, each so long: those that are under way side by side, and those that wait for each other.
    fn misses_ns(&self, each_ns: impl Fn(&StreamCost<'_>) -> f64) -> (f64, f64) {
        let (mut lines, mut scattered_ns, mut one_by_one_ns) = (0.0, 0.0, 0.0);
        for cost in self.streams.iter().filter(|cost| !cost.is_ahead()) {
            let own_lines = cost.stream.bytes_per_turn() / LINE as f64;
            match cost.code.fetch {
                LineFetch::Chased(loads) => one_by_one_ns += loads * each_ns(cost),
                LineFetch::Atomic => one_by_one_ns += own_lines * each_ns(cost),
                LineFetch::Scattered | LineFetch::Ahead => {
                    lines += own_lines;
                    scattered_ns += own_lines * each_ns(cost);
                }
            }
        }
        let most_at_once = (FEWEST_MISSES * MOST_MISSES).sqrt();
        (scattered_ns / at_once(self.block, lines, WINDOW_SLOTS, most_at_once), one_by_one_ns)
    }

    /// What each level beyond the first adds to a turn that waits for so long: of those that hold not all of its data what it takes
    /// over half of what they hold, beside what the level inside adds, and of the one that does whatever is left. Where lines
    /// should take longer than it waited, all levels are that much faster.
    pub fn added(&self, scale: f64, open: f64, waiting_ns: f64) -> Vec<(WaitLevel, f64)> {
        let bytes =
            scale * self.streams.iter().map(|cost| cost.reuse_bytes.unwrap_or(open)).fold(0.0, f64::max);
        // What seems to lie in the first cache and waits all the same misses it now and then.
        let second = || self.core.levels.get(1).filter(|_| bytes > 0.0);
        let Some(home) = self.core.level_for(bytes).or_else(second) else { return Vec::new() };
        let mut inner_ns = 0.0;
        let mut added = Vec::new();
        let all_ns = self.turn_ns(scale, open, f64::INFINITY) - self.code_ns;
        let part = if all_ns > waiting_ns { waiting_ns / all_ns } else { 1.0 };
        for level in self.core.levels.iter().skip(1).take_while(|level| *level != home) {
            let ns = (self.turn_ns(scale, open, level.capacity_bytes / 2.0) - self.code_ns) * part;
            let ns = ns.min(waiting_ns).max(inner_ns);
            added.push((level.level, ns - std::mem::replace(&mut inner_ns, ns)));
        }
        added.push((home.level, waiting_ns - inner_ns));
        added.retain(|(_, ns)| *ns > 0.0);
        added
    }

    /// What its lines take, were nothing beside them.
    pub fn lines_alone_ns(&self, scale: f64, open: f64) -> f64 {
        let (beside, one_by_one) = self.lines_ns(scale, open, f64::INFINITY);
        beside + one_by_one
    }

    /// Over how many bytes a turn would take so long, were that how far those streams range of which nothing else tells.
    pub fn open_bytes(&self, turn_ns: f64) -> f64 {
        let sizes = self.sizes();
        let takes = |bytes: &&f64| self.turn_ns(1.0, **bytes, f64::INFINITY) >= turn_ns;
        sizes.iter().find(takes).or(sizes.last()).copied().unwrap_or(0.0)
    }

    /// How many times its data it must have at least, or at most, for a turn to have taken so long, to the part `error`; none
    /// where its own data, or [`FIT`] times more or less, may take that.
    pub fn other_scale(&self, turn_ns: f64, error: f64) -> Option<f64> {
        let (least, most) = (self.turn_between(1.0 / FIT).0, self.turn_between(FIT).1);
        let all = self.bytes().max(1.0);
        let mut scales = self.sizes().into_iter().map(|bytes| bytes / all);
        let (fast_ns, slow_ns) = (turn_ns / (1.0 + error), turn_ns * (1.0 + error));
        match () {
            () if fast_ns > most => {
                let last = scales.clone().next_back();
                scales.find(|scale| self.turn_between(*scale).1 >= fast_ns).or(last)
            }
            () if slow_ns < least => {
                let first = scales.clone().next();
                scales.rev().find(|scale| self.turn_between(*scale).0 <= slow_ns).or(first)
            }
            () => None,
        }
    }

    /// All that it touches before it comes back to it.
    fn bytes(&self) -> f64 {
        self.streams.iter().filter_map(|cost| cost.reuse_bytes).fold(0.0, f64::max)
    }

    /// Data sets to try, ascending: a few an octave, to some times the largest cache.
    fn sizes(&self) -> Vec<f64> {
        const STEP: f64 = 1.2;
        let cache = |level: &CoreLevel| Some(level.capacity_bytes).filter(|bytes| bytes.is_finite());
        let last = self.core.levels.iter().filter_map(cache).fold(self.core.first_cache_bytes, f64::max);
        let beyond = |bytes: &f64| Some(bytes * STEP).filter(|next| *next < last * 16.0);
        std::iter::successors(Some(self.core.first_cache_bytes / 2.0), beyond).collect()
    }
}

/// Bytes that all streams touch from one touch of a line of `stream` to its next: in the turns that it takes to come round,
/// others go on as far as they do, but each over no more than it has.
fn reuse_bytes(stream: &AddressStream, all: &[AddressStream]) -> Option<f64> {
    let own = stream.footprint_bytes()?;
    let turns = own / stream.bytes_per_turn().max(1.0);
    let touched = |other: &AddressStream| match std::ptr::eq(other, stream) {
        true => own,
        false => other.footprint_bytes().unwrap_or(0.0).min(turns * other.bytes_per_turn()),
    };
    Some(all.iter().map(touched).sum())
}

/// Of a load somewhere in so many bytes, on average: as the machine was measured, or else by what each level holds of them.
fn latency_ns(core: &BlameCore, bytes: f64) -> f64 {
    if !core.latencies.is_empty() {
        return core.latency_ns(bytes);
    }
    let held = |level: &CoreLevel| level.capacity_bytes.min(bytes);
    let first = core.levels.first().map_or(0.0, |level| held(level) * level.latency_ns);
    let pairs = core.levels.iter().zip(core.levels.iter().skip(1));
    let beyond = pairs.map(|(inner, outer)| (held(outer) - held(inner)).max(0.0) * outer.latency_ns);
    (first + beyond.sum::<f64>()) / bytes.max(1.0)
}
