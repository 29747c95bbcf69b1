//! What a model must keep to be simulated: every number in a range that makes sense and bounds memory, geometry that
//! can be indexed, a unit for every operation, a source for every group of numbers.

mod caches;
mod core;
mod sources;

use std::{fmt::Display, ops::RangeInclusive};

use super::{Clocks, LinkModel, MemoryModel, Model, ModelIdentity, Prefetchers};
use crate::Bytes;

/// The first thing wrong with a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct InvalidModel {
    /// Where: a key such as `l1d.geometry.ways` or `core.ports[2].bytes`.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

type Checked = Result<(), InvalidModel>;

fn wrong(path: impl Into<String>, message: impl Into<String>) -> Checked {
    Err(InvalidModel { path: path.into(), message: message.into() })
}

/// Fails with the message unless `holds`.
fn ensure(holds: bool, path: &str, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { wrong(path, message()) }
}

/// Not a number is in no range.
fn within<T: PartialOrd + Display>(path: &str, value: T, range: RangeInclusive<T>) -> Checked {
    let message = || format!("{value} is not between {} and {}", range.start(), range.end());
    ensure(range.contains(&value), path, message)
}

/// Several numbers of one table.
fn all_within(table: &str, range: RangeInclusive<u32>, values: &[(&str, u32)]) -> Checked {
    values.iter().try_for_each(|&(key, value)| within(&format!("{table}.{key}"), value, range.clone()))
}

/// Text that is shown must not be empty, endless or able to command a terminal.
fn text(path: &str, text: &str) -> Checked {
    ensure(!text.trim().is_empty(), path, || "must not be empty".into())?;
    ensure(text.len() <= 2000, path, || format!("{} bytes of text are too many: at most 2000", text.len()))?;
    ensure(!text.chars().any(char::is_control), path, || {
        "must not hold control characters or line ends".into()
    })
}

impl Model {
    /// Checks all rules; the first one broken is the error. [`Model::parse`] does it, so only a model changed in
    /// memory needs it again.
    pub fn check(&self) -> Result<(), InvalidModel> {
        text("title", &self.title)?;
        within("sockets", self.sockets, 1..=4)?;
        within("cores_per_socket", self.cores_per_socket, 1..=128)?;
        within("threads_per_core", self.threads_per_core, 1..=2)?;
        identity(&self.identity)?;
        self.check_isa()?;
        clocks(&self.clock)?;
        core::front_end(&self.front_end)?;
        core::core(&self.core, self.l1d.latency)?;
        caches::all(self)?;
        caches::tlb(&self.tlb)?;
        prefetchers(&self.prefetch)?;
        memory(&self.memory)?;
        match &self.link {
            Some(link) => links(link)?,
            None => ensure(self.sockets == 1, "sockets", || {
                format!("{} sockets need a [link] between them", self.sockets)
            })?,
        }
        sources::all(self)
    }

    fn check_isa(&self) -> Checked {
        let isa = &self.isa;
        ensure(isa.x86_64, "isa", || "x86_64 must be true: there are no kernels for anything else".into())?;
        ensure(isa.avx || !isa.avx2, "isa.avx2", || "avx2 needs avx".into())?;
        ensure(isa.avx || !isa.fma, "isa.fma", || "fma needs avx".into())?;
        ensure(isa.avx2 && isa.fma || !isa.avx512f, "isa.avx512f", || "avx512f needs avx2 and fma".into())
    }
}

fn identity(identity: &ModelIdentity) -> Checked {
    text("identity.vendor", &identity.vendor)?;
    within("identity.family", identity.family, 0..=0x10e)?;
    within("identity.model", identity.model, 0..=0xff)?;
    within("identity.stepping", identity.stepping, 0..=0xf)
}

fn clocks(clock: &Clocks) -> Checked {
    within("clock.core_hz", clock.core_hz, 100_000_000..=10_000_000_000)?;
    within("clock.uncore_hz", clock.uncore_hz, 100_000_000..=10_000_000_000)
}

fn prefetchers(prefetch: &Prefetchers) -> Checked {
    let Some(streamer) = &prefetch.l2_streamer else { return Ok(()) };
    let table = "prefetch.l2_streamer";
    let sizes = [("streams", streamer.streams), ("distance", streamer.distance), ("degree", streamer.degree)];
    all_within(table, 1..=256, &sizes)?;
    all_within(table, 0..=1024, &[("l3_only_above", streamer.l3_only_above)])
}

fn memory(memory: &MemoryModel) -> Checked {
    within("memory.channels", memory.channels, 1..=32)?;
    within("memory.channel_bytes_per_s", memory.channel_bytes_per_s, 100_000_000..=1_000_000_000_000)?;
    within("memory.idle_latency_ns", memory.idle_latency_ns, 1.0..=10_000.0)?;
    within("memory.banks", memory.banks, 1..=1024)?;
    within("memory.row_cycle_ns", memory.row_cycle_ns, 0.0..=1_000.0)?;
    within("memory.turnaround_ns", memory.turnaround_ns, 0.0..=1_000.0)?;
    within("memory.queue", memory.queue, 1..=1024)?;
    within("memory.size", memory.size, Bytes::mib(1)..=Bytes::gib(16 << 10))
}

fn links(link: &LinkModel) -> Checked {
    within("link.links", link.links, 1..=8)?;
    within("link.bytes_per_s", link.bytes_per_s, 100_000_000..=1_000_000_000_000)?;
    within("link.line_bytes", link.line_bytes, 64..=1024)?;
    within("link.message_bytes", link.message_bytes, 1..=1024)?;
    within("link.latency_ns", link.latency_ns, 0.0..=10_000.0)?;
    within("link.requests_in_flight", link.requests_in_flight, 1..=4096)
}
