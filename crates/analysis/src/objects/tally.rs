//! Samples summed by object and by line.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use code::blame::AddressBehind;
use record::ids::{ProcessId, ThreadId};

use crate::{
    findings::{ObjectId, Pattern},
    timer::{AccessKind, BlamedWaits},
};

/// Bytes of a line.
pub(super) const LINE: u64 = 64;

/// Lines kept apart; beyond, new ones are left out of the view of shared lines.
const MOST_LINES: usize = 1 << 20;

/// One sample on data.
#[derive(Clone, Copy)]
pub(super) struct ObjectTouch {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub address: u64,
    pub access: AccessKind,
    pub waits: BlamedWaits,
    pub symbol: Option<usize>,
    pub pattern: Pattern,
}

/// Samples on one object.
#[derive(Clone, Default)]
pub(super) struct TouchSum {
    pub samples: u64,
    pub next_address: u64,
    pub loads: f64,
    pub other: f64,
    pub readers: BTreeSet<ThreadId>,
    pub writers: BTreeSet<ThreadId>,
    /// By symbol: samples, those waiting on loads, whether it writes.
    pub symbols: BTreeMap<usize, (u64, f64, bool)>,
    patterns: HashMap<Pattern, f64>,
}

impl TouchSum {
    /// The pattern of most of the waiting, or of most samples where nothing waits.
    pub fn pattern(&self) -> Pattern {
        let best =
            self.patterns.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| a.0.label().cmp(b.0.label())));
        best.map_or(Pattern::Unknown, |(pattern, _)| *pattern)
    }
}

/// One thread at one offset of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub thread: ThreadId,
    pub offset: u32,
    pub symbol: Option<usize>,
    pub writes: bool,
}

/// Samples on one line.
#[derive(Clone, Default)]
pub(super) struct LineSum {
    pub key: Option<ObjectId>,
    pub waiting: f64,
    pub uses: BTreeMap<At, u64>,
}

/// Samples on data.
#[derive(Default)]
pub(super) struct ObjectTally {
    /// All waiting on loads, of instructions with memory operands.
    pub loads: f64,
    /// All waiting on stores, atomics and fences.
    pub other: f64,
    objects: HashMap<ObjectId, TouchSum>,
    /// By process and line.
    pub lines: BTreeMap<(ProcessId, u64), LineSum>,
}

impl ObjectTally {
    /// A sample of an instruction with a memory operand, whether its address is known or not.
    pub fn waited(&mut self, waits: BlamedWaits) {
        self.loads += waits.loads;
        self.other += waits.other;
    }

    /// A sample whose address is known.
    pub fn add(&mut self, key: &ObjectId, touch: ObjectTouch) {
        let sum = self.objects.entry(*key).or_default();
        sum.samples += 1;
        sum.next_address += u64::from(touch.access.behind == AddressBehind::Next);
        sum.loads += touch.waits.loads;
        sum.other += touch.waits.other;
        if touch.access.reads {
            sum.readers.insert(touch.thread);
        }
        if touch.access.writes {
            sum.writers.insert(touch.thread);
        }
        if let Some(symbol) = touch.symbol {
            let of_symbol = sum.symbols.entry(symbol).or_default();
            of_symbol.0 += 1;
            of_symbol.1 += touch.waits.loads;
            of_symbol.2 |= touch.access.writes;
        }
        *sum.patterns.entry(touch.pattern).or_default() += touch.waits.loads + touch.waits.other + 1e-3;
        let line = (touch.process, touch.address / LINE);
        if self.lines.len() < MOST_LINES || self.lines.contains_key(&line) {
            let of_line = self.lines.entry(line).or_default();
            of_line.key = Some(*key);
            of_line.waiting += touch.waits.loads + touch.waits.other;
            let at = At {
                thread: touch.thread,
                offset: (touch.address % LINE) as u32,
                symbol: touch.symbol,
                writes: touch.access.writes,
            };
            *of_line.uses.entry(at).or_default() += 1;
        }
    }

    /// Objects with most waiting on loads first; then by samples, then in a fixed order.
    pub fn ranked(&self) -> Vec<(&ObjectId, &TouchSum)> {
        let mut all: Vec<_> = self.objects.iter().collect();
        all.sort_by(|a, b| {
            b.1.loads.total_cmp(&a.1.loads).then(b.1.samples.cmp(&a.1.samples)).then(a.0.cmp(b.0))
        });
        all
    }
}
