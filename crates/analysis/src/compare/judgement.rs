//! Whether a change can be told at all, and whether it is one that was not allowed.

use record::run::Run;
use serde::{Deserialize, Serialize};

use super::{CompareRow, Comparison};

/// Fewer runs on a side do not tell how much a program varies.
const FEWEST_RUNS: usize = 2;

/// A run of which the hypervisor took more than this share of its time says more about others.
const MOST_STOLEN: f64 = 0.02;

/// How the change of wall time is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompareJudgement {
    /// It takes longer.
    Slower {
        /// By this share of before.
        ratio: f64,
        /// The smallest change that could be told.
        resolution: f64,
    },
    /// It takes less.
    Faster {
        /// By this share of before, not negative.
        ratio: f64,
        /// The smallest change that could be told.
        resolution: f64,
    },
    /// No more than could be told apart.
    Same {
        /// By this share of before it seems to differ.
        ratio: f64,
        /// The smallest change that could be told.
        resolution: f64,
    },
    /// It cannot be told.
    Unknown(String),
}

impl CompareJudgement {
    /// By the wall time, the numbers of runs, and by how much the first side differed from itself.
    pub(super) fn of(whole: &[CompareRow], runs: [usize; 2], itself: Option<f64>) -> Self {
        let wall = whole.iter().find(|row| row.name == super::WALL);
        let Some(change) = wall.and_then(|row| row.change.zip(row.before_ns)) else {
            return Self::Unknown("one side has no wall time".to_owned());
        };
        let (change, before_ns) = change;
        let known =
            change.ratio.zip(change.uncertainty_ns).filter(|_| runs.iter().all(|runs| *runs >= FEWEST_RUNS));
        let Some((ratio, uncertainty_ns)) = known else {
            return Self::Unknown(format!(
                "{} before and {} after do not tell how much it varies from run to run",
                runs[0], runs[1]
            ));
        };
        let resolution = (uncertainty_ns / before_ns).max(itself.unwrap_or(0.0).abs());
        match ratio {
            ratio if ratio > resolution => Self::Slower { ratio, resolution },
            ratio if -ratio > resolution => Self::Faster { ratio: -ratio, resolution },
            ratio => Self::Same { ratio, resolution },
        }
    }

    /// The smallest change that could be told; none if none can.
    pub fn resolution(&self) -> Option<f64> {
        match self {
            Self::Slower { resolution, .. }
            | Self::Faster { resolution, .. }
            | Self::Same { resolution, .. } => Some(*resolution),
            Self::Unknown(_) => None,
        }
    }
}

/// What a limit says of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareGate<'a> {
    /// Nothing grew by more, as far as can be told.
    Kept,
    /// These grew by more, and not by chance.
    Exceeded(Vec<&'a CompareRow>),
    /// A growth beyond the limit could not be told from chance.
    CannotTell(String),
}

impl Comparison {
    /// Says by how much the first side differed from itself, which bounds what can be told.
    pub fn know_itself(&mut self, same: &Comparison) {
        let wall = same.whole.iter().find(|row| row.name == super::WALL);
        self.itself = wall.and_then(|row| row.change).and_then(|change| change.ratio).map(f64::abs);
        self.judgement = CompareJudgement::of(&self.whole, [self.runs_before, self.runs_after], self.itself);
    }

    /// Wall and user time, where they grew by more than `share` and beyond the noise that is known.
    pub fn gate(&self, share: f64) -> CompareGate<'_> {
        let runs = self.runs_before.min(self.runs_after);
        if runs < FEWEST_RUNS {
            return CompareGate::CannotTell("one run on a side says nothing of the noise".to_owned());
        }
        let clocks =
            || self.whole.iter().filter(|row| [super::WALL, super::USER].contains(&row.name.as_str()));
        let itself = self.itself.unwrap_or(0.0);
        let exceeded: Vec<&CompareRow> = clocks()
            .filter(|row| {
                row.change.is_some_and(|change| {
                    change.is_beyond_noise() == Some(true)
                        && change.ratio.is_some_and(|ratio| ratio > share.max(itself))
                })
            })
            .collect();
        if !exceeded.is_empty() {
            return CompareGate::Exceeded(exceeded);
        }
        match &self.judgement {
            CompareJudgement::Unknown(reason) => CompareGate::CannotTell(reason.clone()),
            CompareJudgement::Same { ratio, resolution }
                if *resolution > share && ratio + resolution > share =>
            {
                CompareGate::CannotTell(format!(
                    "changes below {:.1} % cannot be told apart here; more runs, or a quieter machine, would",
                    resolution * 100.0
                ))
            }
            _ => CompareGate::Kept,
        }
    }
}

/// Why a run says more about its surroundings than about the program; none if it does not.
pub fn spoilt(run: &Run) -> Option<String> {
    let noise = run.about.noise.as_ref()?;
    let share = noise.steal_ns? / noise.wall_ns;
    (share > MOST_STOLEN).then(|| format!("the hypervisor gave {:.1} % of the time to others", share * 100.0))
}
