//! Counters outside the cores: slices, home agents, memory channels, links.

use events::Unit;

use super::{BoxSignal, CoreSignal, CounterTurns, Number, SignalNote, SignalWatch};
use crate::time::Time;

/// The kinds of box that are simulated.
const BOX_UNITS: [Unit; 4] = [Unit::Slice, Unit::HomeAgent, Unit::MemoryController, Unit::Link];

/// How many boxes of each kind a package has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxNumbers {
    /// Packages.
    pub packages: u32,
    /// Slices of each.
    pub slices: u32,
    /// Channels of each.
    pub channels: u32,
    /// Links that end at each.
    pub links: u32,
}

impl BoxNumbers {
    /// Boxes of a kind in each package.
    pub fn of(&self, unit: Unit) -> u32 {
        match unit {
            Unit::Slice => self.slices,
            Unit::HomeAgent => 1,
            Unit::MemoryController => self.channels,
            Unit::Link => self.links,
            _ => 0,
        }
    }

    fn per_package(&self) -> u32 {
        BOX_UNITS.iter().map(|&unit| self.of(unit)).sum()
    }

    fn index(&self, unit: Unit, package: u32, number: u32) -> usize {
        let before: u32 =
            BOX_UNITS.iter().take_while(|&&other| other != unit).map(|&unit| self.of(unit)).sum();
        (package * self.per_package() + before + number) as usize
    }
}

type BoxSignals = [u64; BoxSignal::COUNT];

/// What boxes counted in a run.
#[derive(Clone, Debug, Default)]
pub struct BoxCounts {
    numbers: BoxNumbers,
    /// By set that takes turns, then by box.
    sums: Vec<Vec<BoxSignals>>,
}

impl BoxCounts {
    /// All boxes of a kind, by package and number, with the sums of one set's turns.
    pub(crate) fn of(&self, unit: Unit, turn: usize) -> impl Iterator<Item = ((u32, u32), &BoxSignals)> {
        let numbers = self.numbers;
        let places =
            (0..numbers.packages).flat_map(move |package| (0..numbers.of(unit)).map(move |n| (package, n)));
        let sums = self.sums.get(turn);
        places.filter_map(move |(package, number)| {
            Some(((package, number), sums?.get(numbers.index(unit, package, number))?))
        })
    }
}

/// What a memory system tells: notes about cores, sums of boxes.
#[derive(Clone, Debug)]
pub(crate) struct BoxWatcher {
    active: bool,
    watch: SignalWatch,
    turns: CounterTurns,
    notes: Vec<Vec<SignalNote>>,
    boxes: BoxCounts,
}

impl BoxWatcher {
    pub fn new(cores: usize, numbers: BoxNumbers) -> Self {
        let boxes = BoxCounts { numbers, sums: Vec::new() };
        Self {
            active: false,
            watch: SignalWatch::default(),
            turns: CounterTurns::ONE,
            notes: vec![Vec::new(); cores],
            boxes,
        }
    }

    /// Begins, with sums at zero; turns in femtoseconds.
    pub fn begin(&mut self, watch: SignalWatch, turns: CounterTurns) {
        let boxes = (self.boxes.numbers.packages * self.boxes.numbers.per_package()) as usize;
        self.watch = watch;
        self.active = !watch.cores.is_empty() || watch.boxes != 0;
        self.boxes.sums = vec![vec![[0; BoxSignal::COUNT]; boxes]; turns.sets.max(1)];
        self.turns = turns;
        self.notes.iter_mut().for_each(Vec::clear);
    }

    /// Ends.
    pub fn end(&mut self) -> BoxCounts {
        self.watch = SignalWatch::default();
        self.active = false;
        let sums = std::mem::take(&mut self.boxes.sums);
        BoxCounts { numbers: self.boxes.numbers, sums }
    }

    /// Whether anything is asked for: the one thing that is looked at where nothing is.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Something happens to a core.
    #[inline(always)]
    pub fn note(&mut self, core: usize, signal: CoreSignal, at: u64) {
        if self.active {
            self.push(core, signal.into(), at, at);
        }
    }

    /// Something of a core lasts.
    #[inline(always)]
    pub fn note_span(&mut self, core: usize, signal: Number, from: u64, until: u64) {
        if self.active {
            self.push(core, signal, from, until);
        }
    }

    #[cold]
    fn push(&mut self, core: usize, signal: Number, from: u64, until: u64) {
        if self.watch.cores.has(signal) {
            self.notes[core].push(SignalNote { signal, from: Time(from), until: Time(until) });
        }
    }

    /// Something happens in a box.
    #[inline(always)]
    pub fn count(&mut self, unit: Unit, package: usize, number: usize, signal: BoxSignal, at: u64) {
        if self.active {
            self.add(unit, package, number, signal, at, 1);
        }
    }

    /// Adds to a box's sum.
    #[cold]
    pub fn add(&mut self, unit: Unit, package: usize, number: usize, signal: BoxSignal, at: u64, times: u64) {
        if self.counts(signal) {
            let index = self.boxes.numbers.index(unit, package as u32, number as u32);
            let (turn, _) = self.turns.at(at);
            self.boxes.sums[turn][index][signal as usize] += times;
        }
    }

    /// Whether a box's signal is asked for.
    pub fn counts(&self, signal: BoxSignal) -> bool {
        self.watch.boxes & signal.bit() != 0
    }

    /// The notes about a core since the last time.
    pub fn take_notes(&mut self, core: usize, into: &mut Vec<SignalNote>) {
        into.append(&mut self.notes[core]);
    }

    /// Adds the ticks of a box's clock: `hz` by kind of box, for a run from one moment to another.
    pub fn tick(&mut self, from: u64, until: u64, hz: impl Fn(Unit) -> u64) {
        if !self.counts(BoxSignal::Clock) {
            return;
        }
        let turns = self.turns.clone();
        for unit in BOX_UNITS {
            for package in 0..self.boxes.numbers.packages as usize {
                for number in 0..self.boxes.numbers.of(unit) as usize {
                    let mut at = from;
                    while at < until {
                        let next = turns.at(at).1.min(until);
                        let ticks = u128::from(next - at) * u128::from(hz(unit)) / 1_000_000_000_000_000;
                        self.add(unit, package, number, BoxSignal::Clock, at, ticks as u64);
                        at = next;
                    }
                }
            }
        }
    }
}
