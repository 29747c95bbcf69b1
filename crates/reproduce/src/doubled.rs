//! Numbers of a model that no source gives, and which rows move with them.

use std::{collections::BTreeMap, sync::OnceLock};

use record::reproduce::{ReproducedRow, Reproduction};
use serde::Deserialize;

use crate::mutants::Mutant;

/// The paper whose machine's numbers these are.
pub const PAPER: &str = "molka2017";
/// A row that moves by more than this is not independent of what was doubled.
const MOVES: f64 = 0.10;

/// A number that was chosen or assumed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreeNumber {
    /// Where it stands in the model's file.
    pub key: String,
    /// How it came there.
    pub how: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FreeNumbers {
    number: Vec<FreeNumber>,
}

impl FreeNumber {
    /// All of the model.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load the file.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<FreeNumber>> = OnceLock::new();
        ALL.get_or_init(|| match toml::from_str::<FreeNumbers>(include_str!("../doubled.toml")) {
            Ok(file) => file.number,
            Err(error) => panic!("doubled.toml: {error}"),
        })
    }

    /// The machine with twice as much of it.
    pub fn doubled(&self) -> Mutant {
        Mutant {
            id: format!("twice {}", self.key),
            change: format!("{} doubled", self.key),
            set: BTreeMap::from([(self.key.clone(), "*2".to_owned())]),
            kernels: BTreeMap::new(),
            events: BTreeMap::new(),
            mechanism: String::new(),
            falls: Vec::new(),
            stands: Vec::new(),
        }
    }

    /// As a row says that it depends on it.
    pub fn mark(&self) -> String {
        format!("{} ({})", self.key, self.how)
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
        match (row.ours, now) {
            (Some(before), Some(now)) => (now - before).abs() > MOVES * before.abs().max(SMALL),
            (before, now) => before.is_some() != now.is_some(),
        }
    };
    rows(base).iter().filter(|row| moves(row)).map(|row| row.claim.clone()).collect()
}

/// Shares and counts per line below this are as good as 0.
const SMALL: f64 = 0.01;
