//! Numbers of models that no source gives, and which rows move with them.

use std::{collections::BTreeMap, sync::OnceLock};

use machine::model::Model;
use record::reproduce::{ReproducedRow, Reproduction};

use crate::{mutants::Mutant, paper::NoiseAmplitudes, session::MachineChange, setup::PaperSetup};

/// A row that moves by more than this is not independent of what was doubled.
const MOVES: f64 = 0.10;
/// Shares and counts per line below this are as good as 0, and so are percent below 1.
const SMALL: f64 = 0.01;

/// A number that was chosen or assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeNumber {
    /// The paper whose machines have it.
    pub paper: String,
    /// Only this machine of the paper; all of them if none.
    pub model: Option<String>,
    /// Where it stands in the files of models, or `noise.` and where it stands in that of the paper.
    pub key: String,
    /// How it came there.
    pub how: String,
}

impl FreeNumber {
    /// All, by paper.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load the file.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<FreeNumber>> = OnceLock::new();
        ALL.get_or_init(|| {
            let file: Result<BTreeMap<String, BTreeMap<String, String>>, _> =
                toml::from_str(include_str!("../doubled.toml"));
            let papers = file.unwrap_or_else(|error| panic!("doubled.toml: {error}"));
            let of = |(of, numbers): (String, BTreeMap<String, String>)| {
                let (paper, model) = match of.split_once(' ') {
                    Some((paper, model)) => (paper.to_owned(), Some(model.to_owned())),
                    None => (of, None),
                };
                numbers.into_iter().map(move |(key, how)| Self {
                    paper: paper.clone(),
                    model: model.clone(),
                    key,
                    how,
                })
            };
            papers.into_iter().flat_map(of).collect()
        })
    }

    /// Those of a paper's machines.
    pub fn of_paper(paper: &str) -> impl Iterator<Item = &'static Self> {
        Self::all().iter().filter(move |number| number.paper == paper)
    }

    /// The machines, or the disturbance, with twice as much of it.
    pub fn doubled(&self) -> Doubled {
        Self::doubled_together(&[self])
    }

    /// The same with several numbers of a paper, and of one model if they are of one.
    pub fn doubled_together(numbers: &[&Self]) -> Doubled {
        let keys: Vec<&str> = numbers.iter().map(|number| number.key.as_str()).collect();
        let keys = keys.join(" and ");
        let machines = Mutant {
            id: format!("twice {keys}"),
            change: format!("{keys} doubled"),
            papers: numbers.iter().map(|number| number.paper.clone()).collect(),
            set: numbers.iter().map(|number| (number.key.clone(), "*2".to_owned())).collect(),
            kernels: BTreeMap::new(),
            events: BTreeMap::new(),
            sample_one_in: None,
            draws: None,
            small_pages: false,
            mechanism: String::new(),
            falls: Vec::new(),
            stands: Vec::new(),
        };
        Doubled { machines, model: numbers.first().and_then(|number| number.model.clone()) }
    }

    /// As a row says that it depends on it.
    pub fn mark(&self) -> String {
        format!("{} ({})", self.key, self.how)
    }
}

/// Machines with twice as much of one number, or disturbed by twice as much.
pub struct Doubled {
    machines: Mutant,
    model: Option<String>,
}

impl MachineChange for Doubled {
    fn model(&self, model: Model) -> Result<Model, String> {
        let another = self.model.as_ref().is_some_and(|only| *only != model.name);
        if another { Ok(model) } else { self.machines.model(model) }
    }

    fn setup(&self, setup: PaperSetup) -> PaperSetup {
        setup
    }

    fn noise(&self, noise: NoiseAmplitudes) -> NoiseAmplitudes {
        self.machines.noise(noise)
    }

    fn tries(&self, paper: &str) -> bool {
        self.machines.tries(paper)
    }

    fn key(&self) -> String {
        format!("{} {:?}", self.machines.key(), self.model)
    }
}

/// Claims whose numbers differ by more than a tenth; one that is there in one of both only has moved too.
pub fn moved(base: &Reproduction, doubled: &Reproduction) -> Vec<String> {
    let rows = |of: &Reproduction| -> Vec<ReproducedRow> {
        let items = of.papers.iter().flat_map(|paper| &paper.items);
        items.flat_map(|item| item.rows.clone()).collect()
    };
    let after = rows(doubled);
    let moves = |row: &ReproducedRow| {
        let now = after.iter().find(|one| one.claim == row.claim).and_then(|one| one.ours);
        let is_percent = row.unit.starts_with('%') || row.unit == "points";
        let small = if is_percent { 100.0 * SMALL } else { SMALL };
        match (row.ours, now) {
            (Some(before), Some(now)) => (now - before).abs() > MOVES * before.abs().max(small),
            (before, now) => before.is_some() != now.is_some(),
        }
    };
    rows(base).iter().filter(|row| moves(row)).map(|row| row.claim.clone()).collect()
}
