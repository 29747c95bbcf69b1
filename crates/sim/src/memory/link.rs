//! Links between packages: each pair has its own, each direction its own calendar.

use machine::model::LinkModel;

use super::{
    calendar::{Calendar, Slots},
    pages::mix,
    stats::LinkStats,
};
use crate::time::Time;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// A request, a snoop or an acknowledgement.
    Message,
    /// A line of data.
    Line,
}

/// All links of a machine.
#[derive(Clone, Debug)]
pub(super) struct Links {
    packages: usize,
    per_pair: usize,
    /// By sender, receiver, number.
    wires: Vec<Calendar>,
    /// Requests to other packages in flight, per package.
    pub requests: Vec<Slots>,
    message_fs: u64,
    line_fs: u64,
    latency_fs: u64,
    /// By sender, receiver.
    pub stats: Vec<LinkStats>,
}

impl Links {
    /// `model` may be missing where there is one package: nothing is ever sent.
    pub fn new(packages: usize, model: Option<&LinkModel>) -> Self {
        let span = |bytes: u32| {
            model.map_or(0, |model| (f64::from(bytes) * 1e15 / model.bytes_per_s as f64).round() as u64)
        };
        let per_pair = model.map_or(1, |model| model.links.max(1)) as usize;
        let message_fs = model.map_or(0, |model| span(model.message_bytes));
        let in_flight = model.map_or(1, |model| model.requests_in_flight);
        Self {
            packages,
            per_pair,
            wires: vec![Calendar::new(message_fs); packages * packages * per_pair],
            requests: vec![Slots::new(in_flight); packages],
            message_fs,
            line_fs: model.map_or(0, |model| span(model.line_bytes)),
            latency_fs: model.map_or(0, |model| Time::from_ns(model.latency_ns).0),
            stats: vec![LinkStats::default(); packages * packages],
        }
    }

    /// Of the links of a pair, the one that carries a line.
    fn wire(&self, line: u64) -> usize {
        (mix(line) >> 7) as usize % self.per_pair
    }

    /// The numbers of the link that carries a line, counted at the sender and at the receiver.
    pub fn boxes(&self, from: usize, to: usize, line: u64) -> (usize, usize) {
        // A package has no link to itself.
        let at =
            |here: usize, there: usize| (there - usize::from(there > here)) * self.per_pair + self.wire(line);
        (at(from, to), at(to, from))
    }

    /// Sends something about `line` at `at`; returns when all of it has arrived.
    pub fn send(&mut self, from: usize, to: usize, line: u64, load: Load, at: u64) -> u64 {
        if from == to {
            return at;
        }
        let pair = from * self.packages + to;
        let wire = pair * self.per_pair + self.wire(line);
        let stats = &mut self.stats[pair];
        let span = match load {
            Load::Message => {
                stats.messages += 1;
                self.message_fs
            }
            Load::Line => {
                stats.lines += 1;
                self.line_fs
            }
        };
        stats.busy_fs += span;
        self.wires[wire].reserve(at, span) + span + self.latency_fs
    }
}
