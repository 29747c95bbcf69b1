//! Opening an event, giving it work, and looking at what it saw.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use pmu::{CounterReading, Errno, EventTarget, KernelEvent, OpenCounter, record::Records};

use super::{Patient, refusal::Trouble};

/// Pages of the ring; well below what an ordinary user may lock.
const RING_PAGES: usize = 8;

/// How long to wait for a first sample. Enough for many periods of any event sampled here.
const PATIENCE: Duration = Duration::from_millis(40);

/// Keeps this core busy in user mode.
pub(super) fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box((0..2_000u64).fold(1, |chain, step| black_box(chain ^ step)));
    }
}

impl<'a> Patient<'a> {
    /// Counts `event` over a short stretch of work of this thread.
    pub(super) fn count(&self, event: &KernelEvent) -> Result<CounterReading, Trouble> {
        let counter = self.open(event, EventTarget::ThisThread)?;
        counter.start().map_err(Trouble::using)?;
        burn(Duration::from_millis(1));
        counter.stop().map_err(Trouble::using)?;
        counter.read().map_err(Trouble::using)
    }

    /// Samples `event` until the first records arrive or patience ends.
    pub(super) fn sample(&self, event: &KernelEvent, target: EventTarget) -> Result<Records, Trouble> {
        let counter = self.open(event, target)?;
        let ring = counter.map(RING_PAGES).map_err(Trouble::map)?;
        counter.start().map_err(Trouble::using)?;
        let start = Instant::now();
        let mut records = ring.take_records();
        while records.samples().next().is_none() && start.elapsed() < PATIENCE {
            burn(Duration::from_millis(1));
            records = ring.take_records();
        }
        counter.stop().map_err(Trouble::using)?;
        Ok(records)
    }

    /// Opens `event` on its own.
    pub(super) fn open(&self, event: &KernelEvent, target: EventTarget) -> Result<OpenCounter<'a>, Trouble> {
        OpenCounter::open(self.kernel, event, target).map_err(Trouble::open)
    }

    /// Runs `work` here, or on a thread pinned to the first usable of `cpus` if the work belongs to those.
    pub(super) fn on_one_of<T: Send>(
        &self,
        cpus: Option<&machine::CpuSet>,
        mut work: impl FnMut() -> T + Send,
    ) -> Result<T, Errno> {
        let Some(cpus) = cpus else { return Ok(work()) };
        let usable = cpus.intersection(&self.topology.usable_cpus()).first();
        let cpu = usable.ok_or(Errno(libc::EINVAL))?;
        let mut result = None;
        self.system.run_on(cpu, &mut || result = Some(work()))?;
        result.ok_or(Errno(libc::EINVAL))
    }
}
