//! Memory operands of a block that move together, and how far they move between samples.

use std::{collections::HashMap, ops::Range};

use code::{
    Block, Instruction, MemoryOperand, Reg,
    blame::{AddressBehind, WatchedOperand},
};
use record::{
    ids::ThreadId,
    run::{Run, Samples},
};

use super::{
    blame::BlameCore,
    facts::LINE,
    pace::LoopSpeed,
    program::{BlamedSites, DecodedProgram},
    sightings::LineSightings,
};
use crate::findings::Rate;

/// Operands this far apart on the same registers are different arrays.
const ARRAY_GAP_BYTES: i64 = 4096;

/// Pairs of samples kept per stream: enough for quantiles, bounded for long runs.
const PAIRS_KEPT: usize = 4096;

/// Sites whose operands use the same registers and lie close together.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressStream {
    /// The block.
    pub(crate) block: usize,
    /// Sites in program order.
    pub(crate) sites: Vec<usize>,
    /// Displacement of each site's operand.
    pub(crate) displacements: Vec<i64>,
    /// Whether the block writes a register of the address between the first of the sites and the last.
    is_moving: bool,
    /// How far the address moved, and in what time, from one sample of a thread to its next.
    pub(crate) steps: Vec<StreamStep>,
    /// Addresses seen.
    pub(crate) addresses: u64,
    /// Lowest and highest.
    pub(crate) span: Option<(u64, u64)>,
    /// Greatest common divisor of all distances; 0 if the address never changed.
    pub(crate) divisor: u64,
    /// Some address seen, less the displacement: places the operands within lines.
    pub(crate) anchor: Option<u64>,
    sightings: LineSightings,
    /// Steps seen, of which a part is kept.
    seen: u64,
    extent_bytes: Option<f64>,
    footprint_bytes: Option<f64>,
    /// How far one turn moves it, where the code says so.
    step_bytes: Option<u64>,
    /// No turn of the block moves it.
    is_fixed: bool,
    /// Another thread touches the same lines.
    pub(crate) is_shared: bool,
    /// Each turn of the block, a loop, moves it by the same distance; so does each byte of a string instruction.
    pub(crate) is_linear: bool,
    /// A string instruction goes through it, from byte to byte.
    is_string: bool,
    /// A string instruction copies it, to where it is not watched.
    pub(crate) is_copied: bool,
    /// Bytes per second at which it advances, by the speed of its loop.
    pub(crate) advance: Option<Rate>,
}

/// From one sample of a thread to its next in the same stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StreamStep {
    /// Bytes onward, negative if back.
    pub(crate) bytes: i64,
    /// Time between.
    pub(crate) ns: u64,
}

impl AddressStream {
    /// Notes where an operand was seen. Gives the address less its displacement.
    pub(super) fn note(&mut self, site: usize, address: u64) -> u64 {
        let at = self.sites.iter().position(|&other| other == site);
        let displacement = at.map_or(0, |at| self.displacements[at]);
        let (low, high) = self.span.unwrap_or((address, address));
        self.span = Some((low.min(address), high.max(address)));
        self.addresses += 1;
        let base = address.wrapping_sub(displacement as u64);
        self.anchor.get_or_insert(base);
        base
    }

    fn push(&mut self, step: StreamStep) {
        self.divisor = gcd(self.divisor, step.bytes.unsigned_abs());
        self.seen += 1;
        if self.steps.len() < PAIRS_KEPT {
            self.steps.push(step);
        } else {
            // Every later step replaces one in turn: no random choice, and no part of the run is preferred.
            let at = (self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PAIRS_KEPT;
            self.steps[at] = step;
        }
    }

    /// Bytes that a thread touches while it stays here, guessed from how far two samples lie apart; none with too
    /// few samples.
    pub(crate) fn extent_bytes(&self) -> Option<f64> {
        self.extent_bytes
    }

    fn guess_extent(&mut self) {
        const FEWEST: usize = 8;
        // Of two random places in a range, nine in ten pairs lie closer than this part of it.
        const PART: f64 = 0.684;
        let mut far: Vec<u64> = self.steps.iter().map(|step| step.bytes.unsigned_abs()).collect();
        far.sort_unstable();
        let most = far.get(far.len() * 9 / 10).filter(|_| far.len() >= FEWEST);
        let span = self.span.filter(|_| self.is_linear && self.addresses >= FEWEST as u64);
        let bytes = most.map(|&bytes| bytes as f64 / PART);
        let bytes = bytes.or_else(|| span.map(|(low, high)| (high - low) as f64));
        self.extent_bytes = bytes.map(|bytes| bytes.max(LINE as f64));
    }

    /// Bytes that are touched before any of them is touched again; none if nothing tells.
    pub(crate) fn footprint_bytes(&self) -> Option<f64> {
        self.footprint_bytes
    }

    /// The same at least: places far apart may be few. A walk that comes round in step with the samples looks smaller than it is.
    pub(crate) fn least_footprint_bytes(&self) -> Option<f64> {
        let may_be_few = !self.is_fixed && !self.is_linear;
        self.footprint_bytes.map(|bytes| if may_be_few { self.sightings.within(bytes) } else { bytes })
    }

    /// Turn by turn, or within each turn as far as a string goes.
    pub(crate) fn goes_in_order(&self) -> bool {
        self.is_linear || self.is_string
    }

    fn guess_footprint(&mut self) {
        const FEWEST: u64 = 8;
        let span = self.span.filter(|_| self.addresses >= FEWEST).map(|(low, high)| (high - low) as f64);
        self.footprint_bytes = match (self.is_fixed, self.goes_in_order()) {
            (true, _) => Some(LINE as f64),
            // From end to end, however seldom it is seen to begin again.
            (false, true) => span.map(|span| self.occupied_bytes(span).max(LINE as f64) * self.copies()),
            (false, false) => self.extent_bytes,
        };
    }

    /// Arrays of its length: what is copied is there twice.
    fn copies(&self) -> f64 {
        if self.is_copied { 2.0 } else { 1.0 }
    }

    /// Bytes of a cache that a walk over `span` takes up. A large stride touches few lines, but of few sets: where it is
    /// a multiple of several lines, those between them have no use for the others' places.
    fn occupied_bytes(&self, span: f64) -> f64 {
        let Some(turn_bytes) = self.turn_bytes().filter(|bytes| *bytes > LINE) else { return span };
        let lines = span / turn_bytes as f64 * self.lines_per_turn() as f64;
        (lines * (self.sets_apart() * LINE) as f64).min(span)
    }

    /// Every how manieth set of a cache it goes to, among those that differ within a page: where pages lie, nobody knows.
    pub(crate) fn sets_apart(&self) -> u64 {
        const SETS: u64 = 64;
        let Some(turn_bytes) = self.turn_bytes() else { return 1 };
        let first = self.displacements.first().copied().unwrap_or(0);
        let apart = self.displacements.iter().map(|other| other.abs_diff(first));
        let stride = apart.fold(turn_bytes, gcd);
        if stride.is_multiple_of(LINE) { gcd(stride / LINE, SETS) } else { 1 }
    }

    /// Bytes of lines that a turn touches for the first time.
    pub(crate) fn bytes_per_turn(&self) -> f64 {
        let lines = self.lines_per_turn() * LINE;
        self.turn_bytes().map_or(lines, |bytes| lines.min(bytes)) as f64
    }

    /// How far a turn moves it, if each moves it by the same distance: as the code says, or else as all distances seen
    /// allow.
    pub(crate) fn turn_bytes(&self) -> Option<u64> {
        let seen = Some(self.divisor).filter(|_| self.is_linear);
        self.step_bytes.or(seen).filter(|bytes| *bytes > 0)
    }

    /// Whether a turn may move it further than all distances seen allow: a step that is in a register is not known, and walks
    /// down the columns of a matrix begin one element further each.
    pub(super) fn may_step_further(&self) -> bool {
        self.is_linear && self.step_bytes.is_none()
    }

    /// A step that is in a register may be another one each time the loop is entered: the distances then have a divisor that is
    /// none of them. Whether this is such a stream; nothing is known of its turns then.
    pub(super) fn forget_changing_step(&mut self) -> bool {
        let changes = self.may_step_further();
        if changes {
            (self.is_linear, self.footprint_bytes) = (false, None);
        }
        changes
    }

    /// Turn after turn, or within each turn as far as a string goes.
    pub(super) fn goes_line_by_line(&self) -> bool {
        self.is_string || self.is_gapless() && !self.may_step_further()
    }

    /// Whether turn after turn touches line after line.
    pub(crate) fn is_gapless(&self) -> bool {
        self.turn_bytes().is_some_and(|bytes| bytes <= self.lines_per_turn() * LINE)
    }

    /// Whether `site` touches a line that another operand of the stream has touched just before.
    pub(crate) fn is_second_touch(&self, site: usize) -> bool {
        let Some(anchor) = self.anchor else { return false };
        // Only if every turn of the loop advances by whole lines does each operand keep its place in its line.
        if self.is_moving || self.divisor == 0 || !self.divisor.is_multiple_of(LINE) {
            return false;
        }
        let line = |displacement: i64| anchor.wrapping_add_signed(displacement) / LINE;
        let Some(at) = self.sites.iter().position(|&other| other == site) else { return false };
        self.displacements[..at].iter().any(|&before| line(before) == line(self.displacements[at]))
    }

    /// Bytes per second of lines moved, at so many turns per second.
    pub(super) fn bytes_of(&self, turns: Rate) -> Rate {
        // Of a large stride only whole lines are moved.
        let bytes = self.bytes_per_turn();
        let times = |speed: f64| speed * bytes;
        Rate {
            bytes_per_s: times(turns.bytes_per_s),
            low: times(turns.low),
            high: times(turns.high),
            pairs: turns.pairs,
        }
    }

    /// Distinct lines that one turn through the block touches.
    pub(crate) fn lines_per_turn(&self) -> u64 {
        let anchor = self.anchor.unwrap_or(0);
        let mut lines: Vec<u64> =
            self.displacements.iter().map(|&d| anchor.wrapping_add_signed(d) / LINE).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len() as u64
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// All streams of a run.
pub(crate) struct AddressStreams {
    pub(crate) all: Vec<AddressStream>,
    /// By site.
    pub(super) of_site: HashMap<usize, usize>,
    /// By block: its streams lie side by side.
    pub(super) of_block: Vec<Range<usize>>,
    /// By block: how fast it turns, if it is a loop with streams that tell.
    pub(super) speeds: HashMap<usize, LoopSpeed>,
}

impl AddressStreams {
    /// Finds the streams of every block with samples and follows their addresses through the run.
    pub(crate) fn new(run: &Run, program: &DecodedProgram, core: &BlameCore) -> Self {
        let mut streams =
            Self { all: Vec::new(), of_site: HashMap::new(), of_block: Vec::new(), speeds: HashMap::new() };
        for id in 0..program.blocks.len() {
            let first = streams.all.len();
            if let Some(block) = program.block(id) {
                streams.add_block(id, program.blocks[id].first_site, block);
            }
            streams.of_block.push(first..streams.all.len());
        }
        streams.follow(&run.samples, program);
        streams.follow_bursts(&run.bursts, program);
        streams.all.iter_mut().for_each(AddressStream::guess_extent);
        streams.all.iter_mut().for_each(AddressStream::guess_footprint);
        streams.guess_unseen();
        streams.find_speeds(run, program, core);
        streams.mark_shared(&run.samples, program);
        streams
    }

    /// The stream a site belongs to.
    pub(crate) fn of(&self, site: usize) -> Option<&AddressStream> {
        self.all.get(*self.of_site.get(&site)?)
    }

    /// Whether all streams of a block whose extent is known stay within `cache_bytes` together.
    pub(crate) fn is_near(&self, block: usize, cache_bytes: f64) -> bool {
        // Room for the guess of an extent, which is from few samples.
        const MARGIN: f64 = 1.25;
        let streams = self.of_block.get(block).cloned().unwrap_or_default();
        let known = self.all[streams].iter().filter_map(AddressStream::extent_bytes);
        let sum = known.fold(None, |sum: Option<f64>, bytes| Some(sum.unwrap_or(0.0) + bytes));
        sum.is_some_and(|sum| sum <= cache_bytes * MARGIN)
    }

    /// How fast a loop turns; none unless it is one with a stream that tells.
    pub(crate) fn speed(&self, id: usize) -> Option<LoopSpeed> {
        self.speeds.get(&id).copied().filter(|speed| speed.rate.bytes_per_s > 0.0)
    }

    /// What a turn of it takes.
    pub(crate) fn turn_ns(&self, id: usize) -> Option<f64> {
        self.speed(id).map(|speed| speed.turn_ns())
    }

    /// Bytes that a block touches before any of them is touched again, as far as its streams tell.
    pub(crate) fn footprint_bytes(&self, id: usize) -> f64 {
        self.of_block(id).iter().filter_map(AddressStream::footprint_bytes).sum()
    }

    /// The streams of a block.
    pub(crate) fn of_block(&self, id: usize) -> &[AddressStream] {
        &self.all[self.of_block.get(id).cloned().unwrap_or_default()]
    }

    /// A loop's streams that samples never caught, but which each turn moves by the same distance, are as long as those
    /// that they did.
    fn guess_unseen(&mut self) {
        for range in &self.of_block {
            let streams = &mut self.all[range.clone()];
            let key = |stream: &AddressStream| (stream.is_linear, stream.footprint_bytes.unwrap_or(0.0));
            let seen = streams.iter().filter(|stream| stream.footprint_bytes.is_some());
            let longest =
                seen.max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
            let Some((footprint, divisor)) = longest.map(|seen| (seen.footprint_bytes, seen.divisor)) else {
                continue;
            };
            for stream in streams.iter_mut().filter(|stream| stream.is_linear) {
                if stream.footprint_bytes.is_none() {
                    (stream.footprint_bytes, stream.divisor) = (footprint, divisor);
                }
            }
        }
    }

    fn add_block(&mut self, id: usize, first_site: usize, block: &Block) {
        type StreamKey = (Option<Reg>, Option<Reg>, u8);
        let first_stream = self.all.len();
        let mut keyed: Vec<(StreamKey, i64, usize)> = Vec::new();
        for (index, instruction) in block.instructions().iter().enumerate() {
            if let Some(operand) = WatchedOperand::choose(block, instruction) {
                keyed.push((key(operand), operand.displacement(), first_site + index));
            }
        }
        let mut order: Vec<usize> = (0..keyed.len()).collect();
        order.sort_by_key(|&at| (keyed[at].0, keyed[at].1));
        let mut last: Option<(StreamKey, i64)> = None;
        for at in order {
            let (key, displacement, site) = keyed[at];
            let same =
                last.is_some_and(|(k, d)| k == key && displacement.saturating_sub(d) <= ARRAY_GAP_BYTES);
            if !same {
                self.all.push(AddressStream { block: id, ..AddressStream::default() });
            }
            last = Some((key, displacement));
            let stream = self.all.len() - 1;
            self.all[stream].sites.push(site);
            self.all[stream].displacements.push(displacement);
            self.of_site.insert(site, stream);
        }
        for stream in &mut self.all[first_stream..] {
            let mut pairs: Vec<(usize, i64)> =
                stream.sites.drain(..).zip(stream.displacements.drain(..)).collect();
            pairs.sort_unstable();
            (stream.sites, stream.displacements) = pairs.into_iter().unzip();
            stream.is_moving = is_moving(block, first_site, &stream.sites);
            let watched = |instruction: &Instruction| WatchedOperand::choose(block, instruction);
            let first = stream.sites.first().and_then(|site| block.instructions().get(site - first_site));
            let operand = first.and_then(watched);
            let is_linear = |operand| block.is_loop() && block.moves_by_constant(operand);
            stream.is_linear = operand.is_some_and(is_linear);
            let step = |operand: &MemoryOperand| {
                let of = |reg: Option<Reg>| reg.map_or(Some(0), |reg| block.step_of(reg));
                let step = of(operand.base())? + of(operand.index())? * i64::from(operand.scale());
                Some(step.unsigned_abs())
            };
            stream.step_bytes = operand.filter(|_| stream.is_linear).and_then(step);
            stream.is_string = first.is_some_and(Instruction::is_repeated);
            stream.is_copied = first
                .is_some_and(|string| block.memory_of(string).len() > 1 && string.has_store())
                && stream.is_string;
            if stream.is_string && block.string().is_some() {
                (stream.is_linear, stream.step_bytes) = (true, Some(1));
            }
            stream.is_fixed = block.is_loop() && operand.is_some_and(|operand| !block.is_moved(operand));
        }
    }

    fn follow(&mut self, samples: &Samples, program: &DecodedProgram) {
        self.follow_each(addressed(samples, program));
        self.follow_each(chased(samples, program));
    }

    fn follow_each(&mut self, samples: impl Iterator<Item = AddressedSample>) {
        let mut last: HashMap<(ThreadId, usize), (u64, u64)> = HashMap::new();
        for (thread, site, time_ns, address) in samples {
            let Some(&id) = self.of_site.get(&site) else { continue };
            let stream = &mut self.all[id];
            stream.sightings.push(address);
            let base = stream.note(site, address);
            if let Some((time, before)) = last.insert((thread, id), (time_ns, base)) {
                let bytes = base.wrapping_sub(before) as i64;
                stream.push(StreamStep { bytes, ns: time_ns.saturating_sub(time) });
            }
        }
    }

    /// Finds lines that more than one thread touches, among the streams that stay in few places.
    fn mark_shared(&mut self, samples: &Samples, program: &DecodedProgram) {
        const FEW_BYTES: f64 = 65536.0;
        let close: Vec<bool> = self
            .all
            .iter()
            .map(|stream| stream.extent_bytes().is_some_and(|bytes| bytes <= FEW_BYTES))
            .collect();
        let mut owner: HashMap<u64, Option<ThreadId>> = HashMap::new();
        let near = |site: usize| self.of_site.get(&site).copied().filter(|&id| close[id]);
        for (thread, site, _, address) in addressed(samples, program) {
            if near(site).is_some() {
                let owned = owner.entry(address / LINE).or_insert(Some(thread));
                *owned = owned.filter(|&first| first == thread);
            }
        }
        let mut touches: HashMap<usize, (u64, u64)> = HashMap::new();
        for (_, site, _, address) in addressed(samples, program) {
            if let Some(id) = near(site) {
                let (shared, all) = touches.entry(id).or_default();
                *shared += u64::from(owner.get(&(address / LINE)) == Some(&None));
                *all += 1;
            }
        }
        for (id, (shared, all)) in touches {
            self.all[id].is_shared = shared * 4 > all;
        }
    }
}

/// Whether a register of the operands' address is written between the first of the sites and the last.
fn is_moving(block: &Block, first_site: usize, sites: &[usize]) -> bool {
    let (Some(first), Some(last)) = (sites.first(), sites.last()) else { return false };
    let instructions = &block.instructions()[first - first_site..=last - first_site];
    let Some(operand) = instructions.first().and_then(|first| WatchedOperand::choose(block, first)) else {
        return false;
    };
    let between = &instructions[..instructions.len() - 1];
    let writes = |reg: Reg| {
        let uops = between.iter().flat_map(|instruction| block.uops_of(instruction));
        uops.into_iter().any(|uop| uop.destinations().contains(&reg))
    };
    [operand.base(), operand.index()].into_iter().flatten().any(writes)
}

fn key(operand: &MemoryOperand) -> (Option<Reg>, Option<Reg>, u8) {
    (operand.base(), operand.index(), operand.scale())
}

/// Thread, blamed site, time and operand address of a sample.
type AddressedSample = (ThreadId, usize, u64, u64);

/// Every sample that has an address.
pub(super) fn addressed<'a>(
    samples: &'a Samples,
    program: &'a DecodedProgram,
) -> impl Iterator<Item = AddressedSample> + 'a {
    addressed_at(samples, program).map(|(_, found)| found)
}

/// Every sample that is blamed on what has no address, and carries one of the chase that its loop follows.
fn chased<'a>(
    samples: &'a Samples,
    program: &'a DecodedProgram,
) -> impl Iterator<Item = AddressedSample> + 'a {
    let columns = samples.thread.iter().zip(&samples.place).zip(&samples.time_ns).zip(&samples.address);
    columns.filter_map(|(((&thread, &place), &time_ns), &address)| {
        let site = (*program.chased.get(place.index())?)?;
        Some((thread, site, time_ns, address?.get()))
    })
}

/// The same with the number of the sample.
pub(super) fn addressed_at<'a>(
    samples: &'a Samples,
    program: &'a DecodedProgram,
) -> impl Iterator<Item = (usize, AddressedSample)> + 'a {
    let columns = samples.thread.iter().zip(&samples.place).zip(&samples.time_ns).zip(&samples.address);
    columns.enumerate().filter_map(|(at, (((&thread, &place), &time_ns), &address))| {
        let Some(BlamedSites::Sites(sites)) = program.blames.get(place.index()) else { return None };
        let &[(site, _)] = sites.as_slice() else { return None };
        let watched = program.watched.get(place.index())?.as_ref()?;
        if watched.behind == AddressBehind::Lost {
            return None;
        }
        Some((at, (thread, site, time_ns, address?.get())))
    })
}
