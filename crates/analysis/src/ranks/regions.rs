//! Regions of a program of several ranks: who spends how long in each.

use serde::{Deserialize, Serialize};

use super::{RankFinding, RankSpread, spread};
use crate::{findings::TimeShare, regions::RegionFinding};

/// A region in one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRegion {
    /// As the program called it.
    pub name: String,
    /// How often it was entered, by all threads of the rank together.
    pub visits: u64,
    /// From beginnings to ends, of all threads together.
    pub wall_ns: u64,
    /// User time of it; none without samples of the rank.
    pub user_ns: Option<f64>,
    /// The share of its user time that waits for memory.
    pub memory: Option<TimeShare>,
}

/// A region over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionRanks {
    /// As the program called it.
    pub name: String,
    /// Ranks that were in it.
    pub ranks: usize,
    /// Time of each rank that was in it.
    pub wall_ns: Option<RankSpread>,
    /// Its user time, likewise.
    pub user_ns: Option<RankSpread>,
    /// The share of its user time that waits for memory, likewise.
    pub memory: Option<RankSpread>,
    /// How much of the longest rank's time the ranks lack on average, those that never were in it too; none of one rank.
    pub imbalance: Option<f64>,
}

impl RankRegion {
    /// Of a recording whose samples stand for so long each; none without samples.
    pub(super) fn of(region: &RegionFinding, period_ns: Option<f64>) -> Self {
        Self {
            name: region.name.clone(),
            visits: region.visits,
            wall_ns: region.wall_ns,
            user_ns: period_ns.map(|period| region.samples as f64 * period),
            memory: region.waiting.as_ref().and_then(|waiting| waiting.memory),
        }
    }
}

/// All regions that any rank was in, those with most time first.
pub(super) fn regions(ranks: &[RankFinding]) -> Vec<RegionRanks> {
    let mut names: Vec<&String> =
        ranks.iter().flat_map(|rank| &rank.regions).map(|region| &region.name).collect();
    names.sort();
    names.dedup();
    let mut all: Vec<RegionRanks> = names.into_iter().map(|name| region(name, ranks)).collect();
    let time = |region: &RegionRanks| region.wall_ns.map_or(0.0, |wall| wall.most);
    all.sort_by(|a, b| time(b).total_cmp(&time(a)));
    all
}

fn region(name: &str, ranks: &[RankFinding]) -> RegionRanks {
    // A program may have several of one name, by its code.
    let own = |rank: &RankFinding| {
        let mut fitting = rank.regions.iter().filter(|region| region.name == name);
        let first = fitting.next()?.clone();
        Some(fitting.fold(first, |sum, one| RankRegion {
            visits: sum.visits + one.visits,
            wall_ns: sum.wall_ns + one.wall_ns,
            user_ns: sum.user_ns.zip(one.user_ns).map(|(a, b)| a + b),
            memory: None,
            ..sum
        }))
    };
    let wall_ns = spread(ranks.iter(), |rank| Some(own(rank)?.wall_ns as f64));
    let sum: f64 = ranks.iter().filter_map(own).map(|region| region.wall_ns as f64).sum();
    let longest = wall_ns.filter(|wall| wall.most > 0.0 && ranks.len() > 1);
    RegionRanks {
        name: name.to_owned(),
        ranks: ranks.iter().filter_map(own).count(),
        wall_ns,
        user_ns: spread(ranks.iter(), |rank| own(rank)?.user_ns),
        memory: spread(ranks.iter(), |rank| own(rank)?.memory.map(|share| share.value)),
        imbalance: longest.map(|wall| 1.0 - sum / ranks.len() as f64 / wall.most),
    }
}
