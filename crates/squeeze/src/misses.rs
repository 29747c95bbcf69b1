//! Misses of victims, counted while they run: by events of the PMU, or by the kernel's monitors of the cache (resctrl).

use events::{CountRefusal, Counting};
use host::{
    Host, HostError, VictimLoads,
    meter::{Meter, MeteredPart},
};
use kernels::Job;
use machine::resctrl::CacheMonitor;
use std::sync::atomic::AtomicBool;

const LINE: f64 = 64.0;
/// Bytes of an element of the random kernels.
const ELEMENT: u64 = 4;

/// Counts lines that memory gives to the CPU of the victims.
pub trait MissCounter: Meter {
    /// What it is, in words.
    fn name(&self) -> String;

    /// Lines that came between beginning and end, the last time; `None` if nobody knows.
    fn lines(&self) -> Option<f64>;
}

/// Events that count lines from memory, open on the CPU of the victims.
pub struct EventMisses<'a> {
    name: String,
    counting: Box<dyn Counting + 'a>,
    before: Option<f64>,
    lines: Option<f64>,
}

impl<'a> EventMisses<'a> {
    /// Under the name of the event.
    pub fn new(name: String, counting: Box<dyn Counting + 'a>) -> Self {
        Self { name, counting, before: None, lines: None }
    }

    /// All that was counted so far; `None` where a part of it is missing.
    fn all(&mut self) -> Result<Option<f64>, CountRefusal> {
        Ok(self.counting.read()?.iter().map(|count| count.value.estimate()).sum())
    }
}

impl Meter for EventMisses<'_> {
    fn begin(&mut self) -> Result<(), CountRefusal> {
        // What never ran yet has no value: nothing was counted before the first time.
        self.before = if self.before.is_some() { self.all()? } else { Some(0.0) };
        self.counting.start()
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        self.counting.stop()?;
        self.lines = self.all()?.zip(self.before).map(|(all, before)| all - before);
        Ok(false)
    }
}

impl MissCounter for EventMisses<'_> {
    fn name(&self) -> String {
        format!("the PMU ({})", self.name)
    }

    fn lines(&self) -> Option<f64> {
        self.lines
    }
}

/// The kernel's monitor of what a CPU brings from memory.
pub struct MonitoredMisses {
    monitor: CacheMonitor,
    before: Option<u64>,
    lines: Option<f64>,
}

impl MonitoredMisses {
    /// By a monitor of the CPUs of the victims.
    pub fn new(monitor: CacheMonitor) -> Self {
        Self { monitor, before: None, lines: None }
    }
}

impl Meter for MonitoredMisses {
    fn begin(&mut self) -> Result<(), CountRefusal> {
        self.before = self.monitor.bytes();
        Ok(())
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        let bytes = self.monitor.bytes().zip(self.before);
        self.lines = bytes.and_then(|(all, before)| Some(all.checked_sub(before)? as f64 / LINE));
        Ok(false)
    }
}

impl MissCounter for MonitoredMisses {
    fn name(&self) -> String {
        "resctrl's monitor of memory bandwidth".to_owned()
    }

    fn lines(&self) -> Option<f64> {
        self.lines
    }
}

/// Runs a victim once more while it is counted. `None` if nothing was counted.
pub(crate) fn counted(
    host: &mut dyn Host,
    job: &Job,
    counter: &mut dyn MissCounter,
    interrupt: &AtomicBool,
) -> Result<Option<VictimLoads>, HostError> {
    let part = MeteredPart::Passes { warm_up: 1, passes: None };
    let run = host.run_metered(job, part, counter, interrupt)?;
    let iterations = run.passes.unwrap_or(0) * (job.size.0 / ELEMENT);
    Ok(counter.lines().map(|lines| VictimLoads { iterations, from_memory: lines.max(0.0) as u64 }))
}
