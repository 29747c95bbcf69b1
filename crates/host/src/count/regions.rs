//! Counts of a scenario's regions on a simulated machine.

use std::sync::atomic::AtomicBool;

use events::Count;
use record::{
    count::Counts,
    scenario::{RegionRun, ScenarioRun},
};
use sim::pmu::SimulatedPmu;

use super::{
    CountError, begin,
    parts::{CountedParts, PartsRequest, run_of},
};
use crate::host::Host;

/// Entries of a region that end later than the next one begins, as a share of it, from which on their counts are mixed.
const MIXED: f64 = 0.05;

/// Counts every innermost region of a scenario: its path, and what was counted in all its entries together.
pub fn count_regions(
    request: &PartsRequest<'_>,
    host: &mut dyn Host,
    pmu: &SimulatedPmu,
    interrupt: &AtomicBool,
) -> Result<Vec<(String, Counts)>, CountError> {
    let cut = |ran: &ScenarioRun| {
        let stretches = RegionTimes::of(ran).stretches;
        Ok(stretches.iter().map(|stretch| (stretch.end_ns, stretch.region)).collect())
    };
    let Some(CountedParts { ran, counts: mut of_parts }) = request.count(host, pmu, interrupt, &cut)? else {
        return Ok(Vec::new());
    };
    let RegionTimes { regions, stretches } = RegionTimes::of(&ran);
    // One that nobody enters.
    of_parts.resize(regions.len(), Vec::new());
    // All moments belong to some region: together they are the program.
    let program = [run_of(ran.wall_ns, of_parts.concat())];
    let counted = |((number, region), counts): ((usize, &&RegionRun), Vec<Count>)| {
        let own = stretches.iter().filter(|stretch| stretch.region == number);
        let run = run_of(own.map(|stretch| stretch.end_ns - stretch.start_ns).sum::<f64>(), counts);
        let mut counts = begin(request.selection, &request.packages);
        counts.instrument = events::Instrument::name(pmu);
        counts.target = format!("region {} of scenario {}", region.path, ran.scenario);
        counts.runs = vec![run];
        counts.remarks.extend(mixed(region, &regions));
        counts.metrics =
            request.selection.metrics_of_part(&counts, &program, request.measured, request.memory_share);
        (region.path.clone(), counts)
    };
    Ok(regions.iter().enumerate().zip(of_parts).map(counted).collect())
}

/// Which innermost region of a run had each moment; what lies between two belongs to the later one.
pub struct RegionTimes<'a> {
    regions: Vec<&'a RegionRun>,
    stretches: Vec<Stretch>,
}

impl<'a> RegionTimes<'a> {
    /// Of a run.
    pub fn of(run: &'a ScenarioRun) -> Self {
        let regions = innermost(run);
        let stretches = stretches(&regions, run.wall_ns);
        Self { regions, stretches }
    }

    /// Paths of the regions that moments may belong to.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.regions.iter().map(|region| region.path.as_str())
    }

    /// The path of the region that had a moment.
    pub fn region_at(&self, at_ns: f64) -> Option<&'a str> {
        let found = self.stretches.partition_point(|stretch| stretch.end_ns < at_ns);
        self.regions.get(self.stretches.get(found)?.region).map(|region| region.path.as_str())
    }
}

/// Regions without regions inside.
fn innermost(run: &ScenarioRun) -> Vec<&RegionRun> {
    let inside = |region: &RegionRun, next: Option<&RegionRun>| {
        next.is_some_and(|next| next.depth > region.depth && next.path.starts_with(&region.path))
    };
    let all = run.regions.iter().enumerate();
    all.filter(|(place, region)| !inside(region, run.regions.get(place + 1)))
        .map(|(_, region)| region)
        .collect()
}

/// A stretch of time that belongs to a region.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    start_ns: f64,
    end_ns: f64,
    region: usize,
}

/// The run cut where entries of regions end, each with its last thread; what lies between two belongs to the later one.
fn stretches(regions: &[&RegionRun], wall_ns: f64) -> Vec<Stretch> {
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (number, region) in regions.iter().enumerate() {
        let entries = region.threads.iter().map(|thread| thread.entries.len()).max().unwrap_or(0);
        for entry in 0..entries {
            let of_thread = region.threads.iter().filter_map(|thread| thread.entries.get(entry));
            ends.push((of_thread.map(|entry| entry.end_ns).fold(0.0, f64::max), number));
        }
    }
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    if let Some(last) = ends.last_mut() {
        last.0 = last.0.max(wall_ns);
    }
    let mut start_ns = 0.0;
    ends.into_iter()
        .map(|(end_ns, region)| {
            let stretch = Stretch { start_ns, end_ns, region };
            start_ns = end_ns;
            stretch
        })
        .collect()
}

/// Says where threads are in other regions while one of them is still in this one.
fn mixed(region: &RegionRun, all: &[&RegionRun]) -> Option<String> {
    let overlaps = |other: &&&RegionRun| {
        let entries = |run: &RegionRun| -> Vec<(f64, f64)> {
            let all = run.threads.iter().flat_map(|thread| &thread.entries);
            all.map(|entry| (entry.start_ns, entry.end_ns)).collect()
        };
        let others = entries(other);
        other.path != region.path
            && entries(region).iter().any(|(start, end)| {
                let shared = |(from, to): &(f64, f64)| to.min(*end) - from.max(*start);
                others.iter().any(|other| shared(other) > MIXED * (end - start))
            })
    };
    let other = all.iter().find(overlaps)?;
    Some(format!(
        "Threads are in '{}' while others are in '{}': their counts cannot be told apart.",
        other.path, region.path
    ))
}

#[cfg(test)]
mod tests {
    use record::scenario::{ScenarioEntry, ThreadRun};

    use super::*;

    fn region(path: &str, threads: &[&[(f64, f64)]]) -> RegionRun {
        let entry = |&(start_ns, end_ns): &(f64, f64)| ScenarioEntry { start_ns, end_ns };
        let thread = |(thread, entries): (usize, &&[(f64, f64)])| ThreadRun {
            thread,
            entries: entries.iter().map(entry).collect(),
            ..ThreadRun::default()
        };
        RegionRun {
            path: path.to_owned(),
            threads: threads.iter().enumerate().map(thread).collect(),
            ..RegionRun::default()
        }
    }

    #[test]
    fn a_region_lasts_until_its_last_thread_leaves_it() {
        let load = region("load", &[&[(0.0, 4.0), (10.0, 14.0)], &[(0.0, 5.0), (10.0, 15.0)]]);
        let store = region("store", &[&[(5.0, 10.0)], &[(5.0, 9.0)]]);
        let found = stretches(&[&load, &store], 16.0);
        let plain: Vec<_> = found.iter().map(|found| (found.start_ns, found.end_ns, found.region)).collect();
        assert_eq!(plain, [(0.0, 5.0, 0), (5.0, 10.0, 1), (10.0, 16.0, 0)]);
        assert_eq!(mixed(&load, &[&load, &store]), None);
        let early = region("store", &[&[(4.0, 10.0)]]);
        assert!(mixed(&load, &[&load, &early]).is_some_and(|said| said.contains("'store'")));
    }
}
