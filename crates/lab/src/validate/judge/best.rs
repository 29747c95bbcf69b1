//! The best indicator of each level and direction, and its highest rate (molka2017 Tables 2 and 3).

use record::validate::{Best, Judged, Observation, Place, Ranked, Trust};

use super::points::count;
use crate::validate::{
    claims::{Candidate, Paper, Purpose},
    quantity::Quantity,
};

/// Kernels that move lines as fast as they can.
const FASTEST: [&str; 4] = ["load", "store", "copy", "store-nt"];

/// Chooses. `papers`: level and direction, whether for all cores, and the name of its indicator.
pub fn best(
    candidates: &[Candidate],
    judged: &[Judged],
    observations: &[Observation],
    papers: &[(Paper, bool, String)],
) -> Vec<Best> {
    let mut rows = Vec::new();
    let most_cores = observations.iter().map(|one| one.experiment.cores).max().unwrap_or(1);
    for level in [Place::L1, Place::L2, Place::L3, Place::Memory] {
        for direction in ["read", "write"] {
            for cores in if most_cores > 1 { vec![1, most_cores] } else { vec![1] } {
                let here = Here { level, direction, cores, observations };
                let paper = papers.iter().find(|(paper, all, _)| {
                    paper.level == level && paper.direction == direction && *all == (cores > 1)
                });
                rows.extend(row(&here, candidates, judged, paper.map(|(_, _, name)| name.as_str())));
            }
        }
    }
    rows
}

struct Here<'a> {
    level: Place,
    direction: &'a str,
    cores: usize,
    observations: &'a [Observation],
}

impl Here<'_> {
    fn fits(&self, quantity: Quantity) -> bool {
        quantity.level() == Some((self.level, self.direction))
    }

    /// The highest rate per second of anything in the kernels that use this level.
    fn peak(&self, value: impl Fn(&Observation) -> Option<f64>) -> Option<f64> {
        let used = self.observations.iter().filter(|one| {
            let experiment = &one.experiment;
            FASTEST.contains(&experiment.kernel.as_str())
                && experiment.place == self.level
                && experiment.cores == self.cores
                && experiment.prefetch
                && !experiment.remote
        });
        let rates = used.filter_map(|one| Some(value(one)? / one.elapsed_ns * 1e9));
        rates.fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |most| most.max(rate))))
    }
}

fn row(here: &Here<'_>, candidates: &[Candidate], judged: &[Judged], paper: Option<&str>) -> Option<Best> {
    let quantity = Quantity::all().find(|quantity| here.fits(*quantity) && !quantity.is_served())?;
    let lines_per_s = here.peak(|one| quantity.of(one)).filter(|rate| *rate > 0.0)?;
    let ranked = |candidate: &Candidate| {
        let verdict = judged.iter().find(|one| one.name == candidate.name)?;
        let events_per_s = here.peak(|one| count(candidate, one));
        Some((candidate.name.clone(), verdict.trust.clone(), events_per_s))
    };
    let fitting = candidates.iter().filter(|candidate| match candidate.purpose {
        Purpose::Volume(quantity) => here.fits(quantity) && !quantity.is_served(),
        _ => false,
    });
    let mut all: Vec<_> = fitting.filter_map(ranked).collect();
    // A paper's choice wins a tie: people know it. Otherwise the first in the catalogue.
    all.sort_by(|one, other| {
        rank(&one.1).total_cmp(&rank(&other.1)).then((paper != Some(&one.0)).cmp(&(paper != Some(&other.0))))
    });
    let papers =
        paper.and_then(|name| candidates.iter().find(|candidate| candidate.name == name)).and_then(ranked);
    let best = all.into_iter().next().filter(|(_, trust, _)| rank(trust) < UNFIT);
    let same = |name: &str| best.as_ref().is_some_and(|(best, ..)| best == name);
    let paper = papers.filter(|(name, ..)| !same(name));
    Some(Best {
        level: here.level,
        direction: here.direction.to_owned(),
        cores: here.cores,
        lines_per_s,
        indicator: best.as_ref().map(|(name, ..)| name.clone()),
        events_per_s: best.as_ref().and_then(|(_, _, rate)| *rate),
        trust: best.map(|(_, trust, _)| trust),
        paper: paper.map(|(indicator, trust, events_per_s)| Ranked { indicator, trust, events_per_s }),
    })
}

/// From here on an indicator is not fit at all.
const UNFIT: f64 = 100.0;

/// Errors of less than two percent are alike.
fn rank(trust: &Trust) -> f64 {
    match trust {
        Trust::Trusted { error } => (error / 0.02).floor() * 0.02,
        Trust::Qualitative { .. } => 10.0,
        Trust::Broken { .. } => UNFIT,
        Trust::Untested { .. } => UNFIT + 1.0,
    }
}
