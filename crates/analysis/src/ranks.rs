//! Ranks of one program beside each other: how much each works, which waits for the others, and how even that is.
//!
//! Libraries of MPI wait by asking again and again: a rank that waits for others is busy all the same. So time in those
//! libraries counts as waiting for others, together with time off the CPU, and only the rest as work.

mod regions;

use record::file::LaunchedRank;
use serde::{Deserialize, Serialize};

use crate::{findings::TimeShare, reading::Reading, statistics::median};

pub use regions::{RankRegion, RegionRanks};

/// Name and version of the form in which ranks are written as JSON.
pub const SCHEMA: &str = "memwall.ranks/1";

/// How the file names of libraries begin in which ranks wait for each other.
const WAITING_LIBRARIES: [&str; 16] = [
    "libmpi",
    "libmpich",
    "libopen-pal",
    "libopen-rte",
    "libpmix",
    "libpmi",
    "libucp",
    "libucs",
    "libuct",
    "libucm",
    "libfabric",
    "libpsm",
    "libhcoll",
    "libnccl",
    "libevent",
    "mca_",
];

/// All ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankFindings {
    /// [`SCHEMA`].
    pub schema: String,
    /// Each, by its number.
    pub ranks: Vec<RankFinding>,
    /// By node, by its name.
    pub nodes: Vec<NodeRanks>,
    /// Work of each rank.
    pub work_ns: Option<RankSpread>,
    /// Waiting for others of each rank.
    pub waiting_ns: Option<RankSpread>,
    /// Share of user time that waits for memory, of each rank that has one.
    pub memory: Option<RankSpread>,
    /// How much of the longest work an average rank has nothing to do: 0 where all work alike; none without work.
    pub imbalance: Option<f64>,
    /// Regions that ranks marked, those with most time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionRanks>,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankFinding {
    /// Its number; of recordings that know none, their place in the order they were given in.
    pub rank: u32,
    /// The recording.
    pub recording: String,
    /// Where it ran, if known.
    pub node: Option<String>,
    /// From beginning to end; none if that was not recorded.
    pub elapsed_ns: Option<u64>,
    /// User time outside of libraries that wait for others; none without samples.
    pub work_ns: Option<f64>,
    /// User time in those, and time off the CPU, of the rank's main thread; none without samples.
    pub waiting_ns: Option<f64>,
    /// Share of user time that waits for memory.
    pub memory: Option<TimeShare>,
    /// Regions that it marked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RankRegion>,
}

/// The ranks of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRanks {
    /// Its name.
    pub node: String,
    /// How many ran there.
    pub ranks: usize,
    /// Their work.
    pub work_ns: Option<RankSpread>,
    /// What part of user time waits for memory.
    pub memory: Option<RankSpread>,
}

/// The least, the middle and the most of a quantity, with the ranks of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSpread {
    /// Least.
    pub least: f64,
    /// Of this rank.
    pub least_rank: u32,
    /// Half of the ranks have less.
    pub median: f64,
    /// Most.
    pub most: f64,
    /// Of this rank.
    pub most_rank: u32,
}

impl RankFinding {
    /// Of a recording: its name, what it knows of its rank, and what it says. `order` stands for a number that is not known.
    pub fn of(recording: &str, order: u32, about: Option<&LaunchedRank>, reading: &Reading) -> Self {
        let findings = &reading.findings;
        let period = findings.about.period_ns;
        let in_library = |module: &str| {
            let file = module.rsplit('/').next().unwrap_or(module);
            WAITING_LIBRARIES.iter().any(|beginning| file.starts_with(beginning))
        };
        let samples = |wanted: bool| {
            let matching = findings.symbols.iter().filter(|symbol| in_library(&symbol.module) == wanted);
            matching.map(|symbol| symbol.split.samples).sum::<u64>() as f64 * period
        };
        // Helper threads of the library sleep all the time; the thread that works is the busiest.
        let off =
            findings.threads.iter().max_by(|a, b| a.user_share.total_cmp(&b.user_share)).map(|thread| {
                let known = |time: &crate::findings::KnownLimits<f64>| time.value().copied().unwrap_or(0.0);
                known(&thread.account.blocked_ns)
            });
        let has_samples = findings.overall.is_some();
        Self {
            rank: about.map_or(order, |about| about.rank),
            recording: recording.to_owned(),
            node: about.map(|about| about.node.clone()),
            elapsed_ns: findings.about.elapsed_ns.value().copied(),
            work_ns: has_samples.then(|| samples(false)),
            waiting_ns: has_samples.then(|| samples(true) + off.unwrap_or(0.0)),
            memory: findings.verdict.memory,
            regions: reading
                .regions
                .iter()
                .map(|region| RankRegion::of(region, has_samples.then_some(period)))
                .collect(),
        }
    }
}

impl RankFindings {
    /// Puts ranks beside each other.
    pub fn of(mut ranks: Vec<RankFinding>) -> Self {
        ranks.sort_by(|a, b| (a.rank, &a.recording).cmp(&(b.rank, &b.recording)));
        let work_ns = spread(ranks.iter(), |rank| rank.work_ns);
        let works: Vec<f64> = ranks.iter().filter_map(|rank| rank.work_ns).collect();
        let imbalance = work_ns.filter(|work| work.most > 0.0).map(|work| {
            let mean = works.iter().sum::<f64>() / works.len() as f64;
            1.0 - mean / work.most
        });
        let mut names: Vec<String> = ranks.iter().filter_map(|rank| rank.node.clone()).collect();
        names.sort();
        names.dedup();
        let nodes = names.into_iter().map(|node| {
            let own = || ranks.iter().filter(|rank| rank.node.as_ref() == Some(&node));
            NodeRanks {
                ranks: own().count(),
                work_ns: spread(own(), |rank| rank.work_ns),
                memory: spread(own(), |rank| rank.memory.map(|memory| memory.value)),
                node: node.clone(),
            }
        });
        Self {
            schema: SCHEMA.to_owned(),
            nodes: nodes.collect(),
            work_ns,
            waiting_ns: spread(ranks.iter(), |rank| rank.waiting_ns),
            memory: spread(ranks.iter(), |rank| rank.memory.map(|memory| memory.value)),
            imbalance,
            regions: regions::regions(&ranks),
            ranks,
        }
    }
}

fn spread<'a>(
    ranks: impl Iterator<Item = &'a RankFinding>,
    value: impl Fn(&RankFinding) -> Option<f64>,
) -> Option<RankSpread> {
    let mut known: Vec<(f64, u32)> = ranks.filter_map(|rank| Some((value(rank)?, rank.rank))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let values: Vec<f64> = known.iter().map(|(value, _)| *value).collect();
    let (&(least, least_rank), &(most, most_rank)) = (known.first()?, known.last()?);
    Some(RankSpread { least, least_rank, median: median(&values)?, most, most_rank })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, node: &str, work_ns: Option<f64>, waiting_ns: f64) -> RankFinding {
        RankFinding {
            rank,
            recording: format!("run.{rank}.sqlite"),
            node: Some(node.to_owned()),
            elapsed_ns: Some(10),
            work_ns,
            waiting_ns: Some(waiting_ns),
            memory: work_ns.map(|_| TimeShare { value: 0.5, low: 0.4, high: 0.6 }),
            regions: Vec::new(),
        }
    }

    #[test]
    fn the_longest_work_makes_the_others_wait() {
        let found = RankFindings::of(vec![
            rank(2, "b", Some(4e9), 0.0),
            rank(0, "a", Some(1e9), 3e9),
            rank(1, "a", Some(1e9), 2.9e9),
        ]);
        assert_eq!(found.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1, 2]);
        let work = found.work_ns.unwrap();
        assert_eq!((work.least, work.median, work.most, work.most_rank), (1e9, 1e9, 4e9, 2));
        assert_eq!(found.waiting_ns.unwrap().most_rank, 0);
        assert_eq!(found.imbalance, Some(0.5));
        let nodes: Vec<_> = found.nodes.iter().map(|node| (node.node.as_str(), node.ranks)).collect();
        assert_eq!(nodes, [("a", 2), ("b", 1)]);
    }

    #[test]
    fn regions_are_compared_over_ranks_and_a_rank_that_never_was_there_lacks_all() {
        let region = |name: &str, wall_ns: u64| RankRegion {
            name: name.to_owned(),
            visits: 1,
            wall_ns,
            user_ns: None,
            memory: None,
        };
        let mut ranks: Vec<RankFinding> = (0..2).map(|number| rank(number, "a", None, 0.0)).collect();
        ranks[0].regions = vec![region("solve", 40), region("write", 30), region("solve", 60)];
        ranks[1].regions = vec![region("solve", 50)];
        let found = RankFindings::of(ranks).regions;
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.ranks, one.wall_ns.unwrap().most, one.imbalance))
            .collect();
        assert_eq!(shown, [("solve", 2, 100.0, Some(0.25)), ("write", 1, 30.0, Some(0.5))]);
        assert_eq!(found[0].user_ns, None);
    }

    #[test]
    fn ranks_without_samples_are_unknown_and_not_idle() {
        let found = RankFindings::of(vec![rank(0, "a", None, 0.0), rank(1, "a", Some(2e9), 0.0)]);
        let work = found.work_ns.unwrap();
        assert_eq!((work.least, work.least_rank), (2e9, 1));
        assert_eq!(found.imbalance, Some(0.0));
        assert_eq!(RankFindings::of(Vec::new()).imbalance, None);
    }
}
