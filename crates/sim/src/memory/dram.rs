//! The memory controller of a package.
//!
//! Lines are spread over channels and banks by address. Pages are closed after each access: every access opens its
//! row anew and keeps the bank for a row cycle. (An open-page controller gains by reordering what a time-stamp
//! simulation has in order already; servers close pages adaptively.) A channel's bus carries one line at a time,
//! at the raw rate. Writes wait in a queue and are drained in batches, with a turn of the bus before and after.

use machine::model::MemoryModel;

use super::{
    calendar::{Calendar, Slots},
    pages::mix,
    spread::Spread,
    stats::MemoryStats,
};
use crate::{divider::Divider, time::Time};

/// All channels of a package.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    channels: Vec<Channel>,
    spread: Spread,
    banks: Divider,
    line_fs: u64,
    idle_fs: u64,
    row_fs: u64,
    turn_fs: u64,
    /// Writes drained together: half of the queue.
    batch: usize,
    pub stats: MemoryStats,
}

#[derive(Clone, Debug)]
struct Channel {
    bus: Calendar,
    banks: Vec<Calendar>,
    queue: Slots,
    /// Banks of the writes that wait.
    writes: Vec<u16>,
    /// When the last batches are written: the writes of one may gather while the other is drained.
    drained: [u64; 2],
}

impl Controller {
    pub fn new(model: &MemoryModel) -> Self {
        let line_fs = (64.0 * 1e15 / model.channel_bytes_per_s as f64).round() as u64;
        let row_fs = Time::from_ns(model.row_cycle_ns).0;
        let batch = (model.queue / 2).max(1) as usize;
        let channel = Channel {
            bus: Calendar::new(line_fs),
            banks: vec![Calendar::new(row_fs); model.banks.max(1) as usize],
            queue: Slots::new(model.queue),
            writes: Vec::with_capacity(batch),
            drained: [0; 2],
        };
        Self {
            channels: vec![channel; model.channels.max(1) as usize],
            spread: Spread::new(model.channels),
            banks: Divider::new(model.banks.into()),
            line_fs,
            idle_fs: Time::from_ns(model.idle_latency_ns).0,
            row_fs,
            turn_fs: Time::from_ns(model.turnaround_ns).0,
            batch,
            stats: MemoryStats::default(),
        }
    }

    /// Time from a request to its data when nothing else runs.
    pub fn idle_fs(&self) -> u64 {
        self.idle_fs
    }

    /// The channel of a line.
    pub fn channel(&self, line: u64) -> usize {
        self.place(line).0
    }

    fn place(&self, line: u64) -> (usize, usize) {
        let (channel, within) = self.spread.place(line);
        // Neighbours go to different banks, rows far apart to any.
        let bank = self.banks.rest(within ^ mix(self.banks.floor(within)) >> 16);
        (channel, bank as usize)
    }

    /// Reads a line for a request that is here at `at`; returns when its data is.
    pub fn read(&mut self, line: u64, at: u64) -> u64 {
        let (channel, bank) = self.place(line);
        let channel = &mut self.channels[channel];
        let (slot, accepted) = channel.queue.acquire(at);
        let opened = channel.banks[bank].reserve(accepted, self.row_fs);
        let start = channel.bus.reserve(opened, self.line_fs);
        channel.queue.hold(slot, start + self.line_fs);
        self.stats.reads += 1;
        self.stats.queue_waits += u64::from(accepted > at);
        self.stats.bank_waits += u64::from(opened > accepted);
        self.stats.busy_fs += self.line_fs;
        start + self.idle_fs
    }

    /// Carries a line over the bus without a bank: a transfer between caches on a front-side bus.
    pub fn carry(&mut self, line: u64, at: u64) -> u64 {
        let (channel, _) = self.place(line);
        self.stats.busy_fs += self.line_fs;
        self.channels[channel].bus.reserve(at, self.line_fs) + self.idle_fs
    }

    /// Takes a line to be written; returns when the queue has it.
    pub fn write(&mut self, line: u64, at: u64) -> u64 {
        let (channel, bank) = self.place(line);
        let channel = &mut self.channels[channel];
        let accepted = at.max(channel.drained[0]);
        self.stats.write_queue_waits += u64::from(accepted > at);
        self.stats.writes += 1;
        channel.writes.push(bank as u16);
        if channel.writes.len() < self.batch {
            return accepted;
        }
        let span = 2 * self.turn_fs + self.batch as u64 * self.line_fs;
        let start = channel.bus.reserve(accepted, span);
        for (place, &bank) in channel.writes.iter().enumerate() {
            let on_bus = start + self.turn_fs + place as u64 * self.line_fs;
            channel.banks[usize::from(bank)].reserve(on_bus, self.row_fs);
        }
        channel.writes.clear();
        channel.drained = [channel.drained[1], start + span];
        self.stats.write_batches += 1;
        self.stats.busy_fs += span;
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Bytes;

    fn model() -> MemoryModel {
        MemoryModel {
            channels: 2,
            channel_bytes_per_s: 16_000_000_000,
            idle_latency_ns: 60.0,
            banks: 16,
            row_cycle_ns: 48.0,
            turnaround_ns: 8.0,
            queue: 32,
            size: Bytes::gib(1),
        }
    }

    #[test]
    fn an_idle_read_takes_the_idle_latency_and_a_bank_its_row_cycle() {
        let mut controller = Controller::new(&model());
        assert_eq!(controller.read(0, 1000), 1000 + 60_000_000);
        // The same bank again: a row cycle later.
        assert_eq!(controller.read(0, 1000), 1000 + 60_000_000 + 48_000_000);
        assert_eq!(controller.stats.bank_waits, 1);
    }

    #[test]
    fn a_stream_comes_at_the_raw_rate_and_writes_cost_turns() {
        let mut controller = Controller::new(&model());
        let last = (0..20_000).map(|line| controller.read(line, 0)).max().unwrap_or(0);
        let rate = 20_000.0 * 64.0 / Time(last).ns();
        assert!((28.0..=32.0).contains(&rate), "{rate} of 32 GB/s");
        let mut mixed = Controller::new(&model());
        let last = (0..20_000)
            .map(|line| {
                mixed.write(line + 1_000_000, 0);
                mixed.read(line, 0)
            })
            .max()
            .unwrap_or(0);
        let both = 40_000.0 * 64.0 / Time(last).ns();
        assert!(both < rate, "{both} with turns, {rate} without");
        assert!(mixed.stats.write_batches >= 20_000 / 16 - 2);
    }

    #[test]
    fn writes_wait_when_two_batches_do() {
        let mut controller = Controller::new(&model());
        let accepted: Vec<u64> = (0..200).map(|line| controller.write(line, 5)).collect();
        assert_eq!(accepted[0], 5);
        assert!(accepted[199] > 5, "the queue cannot hold 200 lines");
    }
}
