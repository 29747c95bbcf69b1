//! The best indicator of each level and direction, and its highest rate (molka2017 Tables 2 and 3).

use record::validate::Observation;
use trust::{Best, Judged, KernelPlace, LevelOverlap, Purpose, Quantity, Ranked, Trust};

use super::points::{count, median};
use crate::{
    claims::{Candidate, Paper},
    quantity::{KnownQuantity as _, Level, touched},
    roles::{JudgingKernels, Role},
};

/// Levels and directions, in the order of the tables.
const LEVELS: [(KernelPlace, bool); 5] = [
    (KernelPlace::L1, false),
    (KernelPlace::L2, false),
    (KernelPlace::L3, false),
    (KernelPlace::Memory, false),
    (KernelPlace::Memory, true),
];

/// Chooses. `papers`: level and direction, whether for all cores, and the name of its indicator.
pub fn best(
    candidates: &[Candidate],
    judged: &[Judged],
    observations: &[Observation],
    papers: &[(Paper, bool, String)],
    known: &JudgingKernels,
) -> Vec<Best> {
    let mut rows = Vec::new();
    let most_cores = observations.iter().map(|one| one.experiment.cores).max().unwrap_or(1);
    for (place, remote) in LEVELS {
        for direction in ["read", "write"] {
            let level = Level { place, remote, direction };
            for cores in if most_cores > 1 { vec![1, most_cores] } else { vec![1] } {
                let here = Here { level, cores, observations, known };
                let paper = papers.iter().find(|(paper, all, _)| {
                    (paper.level, paper.remote) == (place, remote)
                        && paper.direction == direction
                        && *all == (cores > 1)
                });
                rows.extend(row(&here, candidates, judged, paper.map(|(_, _, name)| name.as_str())));
            }
        }
    }
    rows
}

struct Here<'a> {
    level: Level,
    cores: usize,
    observations: &'a [Observation],
    known: &'a JudgingKernels,
}

impl Here<'_> {
    fn fits(&self, quantity: Quantity) -> bool {
        quantity.level() == Some(self.level) && !quantity.is_served()
    }

    /// The highest rate per second of anything in the kernels that use this level.
    fn peak(&self, value: impl Fn(&Observation) -> Option<f64>) -> Option<f64> {
        let used = self.observations.iter().filter(|one| {
            let experiment = &one.experiment;
            // What computes besides is slower.
            self.known.is(&experiment.kernel, Role::moves)
                && (experiment.place, experiment.remote) == (self.level.place, self.level.remote)
                && (experiment.cores, experiment.siblings) == (self.cores, false)
                && experiment.prefetch
        });
        let rates = used.filter_map(|one| Some(value(one)? / one.elapsed_ns * 1e9));
        rates.fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |most| most.max(rate))))
    }

    /// The most lines per second that any of these kernels moved in both directions together.
    fn both(&self) -> Option<f64> {
        let lines = |direction| {
            let level = Some(Level { direction, ..self.level });
            Quantity::ALL.iter().copied().find(|quantity| quantity.level() == level && !quantity.is_served())
        };
        let (read, write) = (lines("read")?, lines("write")?);
        self.peak(|one| Some(read.of(one)? + write.of(one)?))
    }

    /// What a candidate counts of the lines that other levels than this one serve. Of reads only: what is written goes through
    /// all levels.
    fn overlap(&self, candidate: &Candidate) -> Vec<LevelOverlap> {
        let others = LEVELS.iter().filter(|(place, remote)| {
            let other = (*place, *remote) != (self.level.place, self.level.remote);
            other && *place != KernelPlace::L1 && self.level.place != KernelPlace::L1
        });
        let overlap = |&(level, remote): &(KernelPlace, bool)| {
            let used = self.observations.iter().filter(|one| {
                let experiment = &one.experiment;
                self.known.is(&experiment.kernel, |role| role.moves_one() && !role.stores())
                    && (experiment.place, experiment.remote) == (level, remote)
                    && (experiment.cores, experiment.siblings, experiment.prefetch)
                        == (self.cores, false, true)
                    && experiment.width.is_none()
            });
            let rates: Vec<f64> =
                used.filter_map(|one| Some(count(candidate, one)? / touched(one).max(1.0))).collect();
            Some(LevelOverlap { level, remote, per_line: median(&rates)? })
        };
        let reads = self.level.direction == "read";
        others.filter(|_| reads).filter_map(overlap).filter(|one| one.per_line.abs() > ALIKE).collect()
    }

    /// The best that counts what this level serves and nothing that comes from deeper.
    fn alone(&self, judged: &[Judged]) -> Option<Ranked> {
        let fits = |one: &&Judged| {
            matches!(&one.tried_for, Purpose::Volume(quantity)
                if quantity.is_served() && quantity.level() == Some(self.level))
        };
        let error = |one: &Judged| match one.trust {
            Trust::Trusted { error } => Some(error),
            _ => None,
        };
        let trusted = judged.iter().filter(fits).filter_map(|one| Some((error(one)?, one)));
        let (_, found) = trusted.min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(Ranked {
            indicator: found.name.name().to_owned(),
            trust: found.trust.clone(),
            events_per_s: None,
        })
    }

    /// Better ones first. What counts for the whole package says nothing of one core among others, unless nothing else
    /// is left.
    fn rank(&self, candidate: &Candidate, trust: &Trust) -> (u8, u64) {
        let shared = self.cores == 1 && !candidate.per_core;
        match trust {
            Trust::Trusted { error } => (u8::from(shared), (error / ALIKE) as u64),
            Trust::Qualitative { .. } => (2 + u8::from(shared), 0),
            Trust::Broken { .. } | Trust::Untested { .. } => (UNFIT, 0),
        }
    }
}

fn row(here: &Here<'_>, candidates: &[Candidate], judged: &[Judged], paper: Option<&str>) -> Option<Best> {
    let quantity = Quantity::ALL.iter().copied().find(|quantity| here.fits(*quantity))?;
    let lines_per_s = here.peak(|one| quantity.of(one)).filter(|rate| *rate > 0.0)?;
    let ranked = |candidate: &Candidate| {
        let trust = &judged.iter().find(|one| one.name.name() == candidate.name)?.trust;
        let found = Ranked {
            indicator: candidate.name.clone(),
            trust: trust.clone(),
            events_per_s: here.peak(|one| count(candidate, one)),
        };
        Some((here.rank(candidate, trust), found))
    };
    let fitting = candidates
        .iter()
        .filter(|candidate| matches!(candidate.purpose, Purpose::Volume(quantity) if here.fits(quantity)));
    let mut all: Vec<_> = fitting.filter_map(ranked).collect();
    // A paper's choice wins a tie: people know it. Otherwise the first in the catalogue.
    all.sort_by_key(|(rank, one)| (*rank, paper != Some(one.indicator.as_str())));
    let papers = paper.and_then(|name| candidates.iter().find(|candidate| candidate.name == name));
    let papers = papers.and_then(ranked).map(|(_, found)| found);
    let best = all.into_iter().next().filter(|((class, _), _)| *class < UNFIT).map(|(_, found)| found);
    let same = |name: &str| best.as_ref().is_some_and(|best| best.indicator == name);
    let chosen = best.as_ref().and_then(|best| candidates.iter().find(|one| one.name == best.indicator));
    Some(Best {
        level: here.level.place,
        remote: here.level.remote,
        direction: here.level.direction.to_owned(),
        cores: here.cores,
        lines_per_s,
        both_lines_per_s: here.both(),
        indicator: best.as_ref().map(|best| best.indicator.clone()),
        events_per_s: best.as_ref().and_then(|best| best.events_per_s),
        trust: best.as_ref().map(|best| best.trust.clone()),
        paper: papers.filter(|papers| !same(&papers.indicator)),
        overlap: chosen.map(|chosen| here.overlap(chosen)).unwrap_or_default(),
        alone: here.alone(judged),
    })
}

/// From here on an indicator is not fit at all.
const UNFIT: u8 = 4;
/// Errors that differ by less are alike.
const ALIKE: f64 = 0.02;
