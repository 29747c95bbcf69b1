//! Traffic of others: reads of memory and foreign lines in the shared cache, at random but seeded moments.

use kernels::draw::SplitMix;

use crate::signal::BoxSignal;

use super::{options::Disturbance, pages::NODE_SHIFT, system::MemorySystem};
use crate::time::Time;

/// Events made up for one request at most: after a long silence the rest is skipped.
const AT_ONCE: u32 = 1024;
/// So many times others catch up in a stretch of time in which nobody asked.
const SLICES: u64 = 1000;
/// Foreign lines are spread over this many, a gibibyte, beyond all frames that are given out.
const FOREIGN_LINES: u64 = 1 << 24;
const FOREIGN: u64 = 1 << 37;

/// Both streams of one package.
#[derive(Clone, Debug)]
pub(super) struct Background {
    random: SplitMix,
    first_line: u64,
    memory: Arrivals,
    l3: Arrivals,
}

/// One stream.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    mean_fs: Option<f64>,
    next: u64,
}

impl Arrivals {
    fn new(per_s: f64) -> Self {
        let mean_fs = (per_s.is_finite() && per_s > 0.0).then(|| (1e15 / per_s).max(1.0));
        Self { mean_fs, next: 0 }
    }

    /// The next arrival, if it is before `now`.
    fn due(&mut self, now: u64, random: &mut SplitMix) -> Option<u64> {
        let mean = self.mean_fs?;
        if self.next > now {
            return None;
        }
        let at = self.next;
        // Exponential spans: arrivals of many who do not know each other. The 53 bits keep the logarithm finite.
        let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        self.next = at.saturating_add((-uniform.ln() * mean) as u64 + 1);
        Some(at)
    }
}

impl Background {
    pub fn new(disturbance: Disturbance, socket: usize, seed: u64) -> Self {
        Self {
            random: SplitMix::new(seed),
            first_line: (socket as u64) << NODE_SHIFT | FOREIGN,
            memory: Arrivals::new(disturbance.memory_lines_per_s),
            l3: Arrivals::new(disturbance.l3_lines_per_s),
        }
    }

    fn line(&mut self) -> u64 {
        self.first_line + self.random.next_u64() % FOREIGN_LINES
    }
}

impl MemorySystem {
    /// Lets the traffic of others catch up to `now`.
    #[inline]
    pub(super) fn disturb(&mut self, socket: usize, now: u64) {
        if self.sockets[socket].background.is_some() {
            self.catch_up(socket, now);
        }
    }

    /// Lets the traffic of others go on from `start` to `end` even if nobody of ours left a core meanwhile.
    pub(super) fn let_others_work(&mut self, start: Time, end: Time) {
        if self.sockets.iter().all(|socket| socket.background.is_none()) {
            return;
        }
        // What they did before nobody looked at.
        for background in self.sockets.iter_mut().filter_map(|socket| socket.background.as_mut()) {
            for arrivals in [&mut background.memory, &mut background.l3] {
                arrivals.next = arrivals.next.max(start.0);
            }
        }
        let slice = (end.since(start).0 / SLICES).max(1);
        for now in (1..=SLICES).map(|number| start.0 + number * slice) {
            (0..self.sockets.len()).for_each(|socket| self.disturb(socket, now.min(end.0)));
        }
    }

    fn catch_up(&mut self, socket: usize, now: u64) {
        let Some(mut background) = self.sockets[socket].background.take() else { return };
        for _ in 0..AT_ONCE {
            let Some(at) = background.memory.due(now, &mut background.random) else { break };
            let line = background.line();
            self.tell_channel(socket, line, BoxSignal::ChannelReads, at);
            let memory = &mut self.sockets[socket].memory;
            memory.read(line, at);
            memory.stats.background += 1;
        }
        for _ in 0..AT_ONCE {
            let Some(at) = background.l3.due(now, &mut background.random) else { break };
            let line = background.line();
            if let Some(l3) = &mut self.sockets[socket].l3 {
                let line = l3.locate(line);
                let at = l3.serve(line, at);
                if l3.find(line).is_none() {
                    self.install(socket, line, 0, 0, at);
                }
            }
        }
        for arrivals in [&mut background.memory, &mut background.l3] {
            arrivals.next = arrivals.next.max(now);
        }
        self.sockets[socket].background = Some(background);
    }
}
