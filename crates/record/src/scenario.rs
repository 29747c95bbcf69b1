//! A program made of kernels, timed region by region.

use machine::{Bytes, profile::Noise};
use serde::{Deserialize, Serialize};

use crate::bench::{BackingPages, Work};

/// The result of `memwall scenario`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioRun {
    /// `memwall.scenario/1`.
    pub schema: String,
    /// Name of the scenario.
    pub scenario: String,
    /// What it does, in words.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// The simulated machine it ran on; `None` if it ran on this one.
    pub simulated: Option<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// What every buffer's size was divided by.
    pub scale: u64,
    /// Values in force, as they would be typed.
    pub values: Vec<(String, String)>,
    /// The CPU of each thread.
    pub cpus: Vec<u32>,
    /// Buffers in memory.
    pub buffers: Vec<BufferUse>,
    /// How streams of a given rate were slowed down.
    pub paces: Vec<ScenarioPace>,
    /// Each region stands before those inside it.
    pub regions: Vec<RegionRun>,
    /// From the first thread's start to the last thread's end.
    pub wall_ns: f64,
    /// What disturbed it.
    pub noise: Noise,
    /// Stopped by the user before its end.
    pub interrupted: bool,
}

/// A buffer in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferUse {
    /// Its name in the scenario.
    pub name: String,
    /// Whose it is; `None` if all threads share it.
    pub thread: Option<usize>,
    /// At this scale.
    pub size: Bytes,
    /// Where it begins, on a machine that says so.
    #[serde(skip)]
    pub address: Option<u64>,
    /// The node it was bound to; `None`: where its owner touched it first.
    pub node: Option<u32>,
    /// Pages it got, if the system says.
    pub pages: Option<BackingPages>,
}

/// How a stream was slowed down to a rate. All threads of its step together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPace {
    /// The region of its step.
    pub region: String,
    /// The kernel.
    pub kernel: String,
    /// Lines to be moved, in bytes per second.
    pub asked_bytes_per_s: f64,
    /// Empty operations per iteration that were found for it.
    pub nops: u64,
    /// What they came to when the step ran alone.
    pub alone_bytes_per_s: f64,
}

/// What became of one region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionRun {
    /// Names from the outermost region on, joined by `/`.
    pub path: String,
    /// Its own name.
    pub name: String,
    /// Regions around it.
    pub depth: usize,
    /// How often each thread was to enter it.
    pub planned_entries: u64,
    /// Median absolute deviation of its entries' times over their median; `None` of fewer than two.
    pub spread: Option<f64>,
    /// The threads that take part.
    pub threads: Vec<ThreadRun>,
}

/// What became of one thread in one region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRun {
    /// Which thread.
    pub thread: usize,
    /// Each time it went from entering to leaving.
    pub entries: Vec<ScenarioEntry>,
    /// What all planned entries together do, by construction.
    pub truth: Truth,
}

/// One stay in a region, on a clock that is 0 at the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioEntry {
    /// Entered, all threads being there.
    pub start_ns: f64,
    /// Left.
    pub end_ns: f64,
}

/// What a thread does in a region, by construction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Instructions, accesses, bytes and flops.
    pub work: Work,
    /// Bytes touched at least once.
    pub data: Bytes,
    /// Lines found modified by another thread: as many in any case.
    pub least_transfers: u64,
    /// The same: no more than this.
    pub most_transfers: u64,
}

impl ThreadRun {
    /// Time spent in the region.
    pub fn busy_ns(&self) -> f64 {
        self.entries.iter().map(|entry| entry.end_ns - entry.start_ns).sum()
    }
}

impl RegionRun {
    /// Entries that every thread finished.
    pub fn entries(&self) -> usize {
        self.threads.iter().map(|thread| thread.entries.len()).min().unwrap_or(0)
    }

    /// How long each entry took, from the first thread in to the last thread out.
    pub fn walls_ns(&self) -> Vec<f64> {
        (0..self.entries())
            .map(|entry| {
                let all = self.threads.iter().map(|thread| thread.entries[entry]);
                let start = all.clone().map(|entry| entry.start_ns).fold(f64::INFINITY, f64::min);
                let end = all.map(|entry| entry.end_ns).fold(f64::NEG_INFINITY, f64::max);
                end - start
            })
            .collect()
    }

    /// All of them together.
    pub fn wall_ns(&self) -> f64 {
        self.walls_ns().iter().sum()
    }

    /// The longest time of a thread over the mean of all; `None` if nothing was timed. 1 is balance.
    pub fn imbalance(&self) -> Option<f64> {
        let busy: Vec<f64> = self.threads.iter().map(ThreadRun::busy_ns).collect();
        let mean = busy.iter().sum::<f64>() / busy.len() as f64;
        (mean > 0.0).then(|| busy.iter().fold(0.0, |a: f64, &b| a.max(b)) / mean)
    }

    /// An amount of the truth per second of wall time, the entries that were not reached left out. `None` if
    /// nothing was timed, or if there is none of it.
    pub fn per_s(&self, amount: impl Fn(&Truth) -> f64) -> Option<f64> {
        let (wall_ns, done) = (self.wall_ns(), self.entries() as f64 / self.planned_entries.max(1) as f64);
        let total: f64 = self.threads.iter().map(|thread| amount(&thread.truth)).sum();
        (wall_ns > 0.0 && total > 0.0).then(|| total * done / wall_ns * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(thread: usize, entries: &[(f64, f64)]) -> ThreadRun {
        let work = Work { program_bytes: 400.0, ..Work::default() };
        ThreadRun {
            thread,
            entries: entries.iter().map(|&(start_ns, end_ns)| ScenarioEntry { start_ns, end_ns }).collect(),
            truth: Truth { work, data: Bytes(64), least_transfers: 0, most_transfers: 0 },
        }
    }

    fn region(threads: Vec<ThreadRun>) -> RegionRun {
        RegionRun { path: "a".into(), name: "a".into(), depth: 0, planned_entries: 4, spread: None, threads }
    }

    #[test]
    fn a_region_takes_as_long_as_its_slowest_thread() {
        let region =
            region(vec![thread(0, &[(0.0, 30.0), (40.0, 70.0)]), thread(1, &[(0.0, 10.0), (41.0, 51.0)])]);
        assert_eq!(region.walls_ns(), [30.0, 30.0]);
        assert_eq!(region.imbalance(), Some(1.5));
        // Two of four entries were reached: half of 800 bytes in 60 ns.
        assert_eq!(region.per_s(|truth| truth.work.program_bytes), Some(400.0 / 60.0 * 1e9));
        assert_eq!(region.per_s(|truth| truth.work.flops), None);
    }

    #[test]
    fn a_region_not_reached_has_no_numbers() {
        let region = region(vec![thread(0, &[(0.0, 1.0)]), thread(1, &[])]);
        assert_eq!((region.entries(), region.wall_ns()), (0, 0.0));
        assert_eq!(region.per_s(|truth| truth.work.program_bytes), None);
        let nothing = RegionRun { threads: vec![], ..region };
        assert_eq!(nothing.imbalance(), None);
    }
}
