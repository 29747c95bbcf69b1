//! What disturbs a measurement: time stolen by the hypervisor, and threads pushed off their CPU.

use machine::{CpuSet, Source, profile::Noise};

use crate::{repeat::Repeated, statistics};

/// Steal time of each CPU since boot, as `/proc/stat` has it.
#[derive(Clone, Debug, PartialEq)]
struct Stolen {
    /// By CPU, in clock ticks; CPUs without the column are left out.
    ticks: Vec<(u32, u64)>,
}

impl Stolen {
    fn parse(stat: &str) -> Self {
        let ticks = stat
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
                // user nice system idle iowait irq softirq steal
                Some((cpu, words.nth(7)?.parse().ok()?))
            })
            .collect();
        Self { ticks }
    }

    fn of(&self, cpu: u32) -> Option<u64> {
        self.ticks.iter().find(|(id, _)| *id == cpu).map(|(_, ticks)| *ticks)
    }

    fn is_silent(&self) -> bool {
        self.ticks.iter().all(|(_, ticks)| *ticks == 0)
    }
}

/// Watches steal time on some CPUs from its making on.
#[derive(Clone, Debug)]
pub struct StealWatch {
    source: Source,
    cpus: CpuSet,
    guest: bool,
    ticks_per_s: f64,
    before: Option<Stolen>,
}

impl StealWatch {
    /// Begins to watch `cpus` of the machine at `source`; `guest` if it runs under a hypervisor.
    pub fn begin(source: &Source, cpus: &CpuSet, guest: bool) -> Self {
        let mut watch = Self {
            source: source.clone(),
            cpus: cpus.clone(),
            guest,
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
            before: None,
        };
        watch.before = watch.read();
        watch
    }

    /// Nanoseconds stolen since the beginning, summed over the CPUs watched.
    ///
    /// `None` if the kernel has no such column for one of them, or if we are a guest whose counters have
    /// never moved since boot: such a hypervisor does not report what it takes.
    pub fn stolen_ns(&self) -> Option<f64> {
        let (before, after) = (self.before.as_ref()?, self.read()?);
        if self.guest && after.is_silent() {
            return None;
        }
        let mut ticks = 0;
        for cpu in self.cpus.iter() {
            ticks += after.of(cpu)?.saturating_sub(before.of(cpu)?);
        }
        Some(ticks as f64 / self.ticks_per_s * 1e9)
    }

    fn read(&self) -> Option<Stolen> {
        self.source.table("proc/stat").ok().map(|table| Stolen::parse(&table.text))
    }
}

/// The noise of one repeated measurement.
pub fn of_repeated(repeated: &Repeated, steal_ns: Option<f64>) -> Noise {
    Noise {
        wall_ns: repeated.wall_ns,
        steal_ns,
        involuntary_switches: repeated.involuntary_switches,
        spread: statistics::spread(&repeated.samples_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn watch(before: &str, after: &str, cpus: &str, guest: bool) -> Option<f64> {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("proc")).expect("a directory");
        let file = root.path().join("proc/stat");
        fs::write(&file, before).expect("written");
        let source = Source::under(root.path());
        let cpus: CpuSet = cpus.parse().expect("CPUs");
        let mut watch = StealWatch::begin(&source, &cpus, guest);
        watch.ticks_per_s = 100.0;
        fs::write(&file, after).expect("written");
        watch.stolen_ns()
    }

    const BEFORE: &str =
        "cpu  9 0 9 9 0 0 0 30 0 0\ncpu0 4 0 4 4 0 0 0 10 0 0\ncpu1 5 0 5 5 0 0 0 20 0 0\nintr 7\n";
    const AFTER: &str =
        "cpu  9 0 9 9 0 0 0 45 0 0\ncpu0 4 0 4 4 0 0 0 15 0 0\ncpu1 5 0 5 5 0 0 0 30 0 0\nintr 7\n";

    #[test]
    fn only_the_cpus_used_count() {
        assert_eq!(watch(BEFORE, AFTER, "0", true), Some(5.0e7));
        assert_eq!(watch(BEFORE, AFTER, "0-1", true), Some(1.5e8));
        assert_eq!(watch(BEFORE, BEFORE, "0-1", true), Some(0.0));
    }

    #[test]
    fn not_reported_is_not_zero() {
        let short = "cpu  9 0 9 9\ncpu0 4 0 4 4\n";
        assert_eq!(watch(short, short, "0", true), None);
        assert_eq!(watch(BEFORE, AFTER, "0,7", true), None, "a CPU that is not listed");
        assert_eq!(watch("", "", "0", true), None);
        let silent = "cpu  9 0 9 9 0 0 0 0 0 0\ncpu0 4 0 4 4 0 0 0 0 0 0\n";
        assert_eq!(watch(silent, silent, "0", true), None, "a guest whose counter never moves");
        assert_eq!(watch(silent, silent, "0", false), Some(0.0), "nobody could steal");
    }

    #[test]
    fn a_counter_that_goes_back_takes_nothing() {
        assert_eq!(watch(AFTER, BEFORE, "0-1", true), Some(0.0));
    }
}
