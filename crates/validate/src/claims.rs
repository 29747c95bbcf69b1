//! Which indicators there are on a machine, and what each is held against.

use std::{collections::BTreeMap, sync::OnceLock};

use events::{Catalogue, Entry, Unit};
use serde::Deserialize;
use trust::{KernelPlace, Purpose, Quantity};

/// Something that is judged: an event or a sum of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its events; their counts are added.
    pub events: Vec<String>,
    /// Events whose counts are taken off.
    pub less: Vec<String>,
    /// What it is held against.
    pub purpose: Purpose,
    /// The event of which this is another source's encoding.
    pub instead_of: Option<String>,
    /// Errata that name it, as the maker numbers them.
    pub errata: Vec<String>,
    /// What its catalogue says beside.
    pub note: Option<String>,
    /// All its events are counted by each core for itself.
    pub per_core: bool,
}

impl Candidate {
    /// A single event of a core.
    pub fn event(name: &str, purpose: Purpose) -> Self {
        Self {
            name: name.to_owned(),
            events: vec![name.to_owned()],
            less: Vec::new(),
            purpose,
            instead_of: None,
            errata: Vec::new(),
            note: None,
            per_core: true,
        }
    }
}

/// The indicator of a paper's table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Level that serves.
    pub level: KernelPlace,
    /// It is the memory of another package.
    #[serde(default)]
    pub remote: bool,
    /// `read` or `write`.
    pub direction: String,
    /// Meanings of its events for one core.
    #[serde(default)]
    pub one_core: Vec<String>,
    /// For all cores.
    #[serde(default)]
    pub all_cores: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    known_work: ChosenKernels,
    volume: BTreeMap<String, Quantity>,
    stalls: Stalls,
    sum: Vec<Sum>,
    paper: Vec<Paper>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChosenKernels {
    kernels: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stalls {
    meanings: Vec<String>,
    nothing_executes: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    parts: Vec<String>,
    quantity: Purpose,
}

/// # Panics
/// Never in a build that passes its tests: they load the file.
fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| match toml::from_str(include_str!("../claims.toml")) {
        Ok(file) => file,
        Err(error) => panic!("claims.toml: {error}"),
    })
}

/// Shipped kernels that judge, in order.
pub(crate) fn kernels() -> &'static [String] {
    &file().known_work.kernels
}

/// What the papers use, with the names a machine has for it.
pub fn papers(catalogue: &Catalogue) -> Vec<(Paper, bool, String)> {
    let name = |meanings: &[String]| {
        let parts: Option<Vec<&Entry>> = meanings.iter().map(|meaning| first(catalogue, meaning)).collect();
        parts.filter(|parts| !parts.is_empty()).map(|parts| joined(&parts))
    };
    let both = file()
        .paper
        .iter()
        .flat_map(|paper| [(paper, false, name(&paper.one_core)), (paper, true, name(&paper.all_cores))]);
    both.filter_map(|(paper, all, name)| Some((paper.clone(), all, name?))).collect()
}

fn first<'a>(catalogue: &'a Catalogue, meaning: &'a str) -> Option<&'a Entry> {
    catalogue.meaning(meaning).next()
}

fn joined(parts: &[&Entry]) -> String {
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(" + ")
}

/// What is judged on a machine with these events. With `all`, also events that nothing is claimed of.
pub fn candidates(catalogue: &Catalogue, all: bool) -> Vec<Candidate> {
    let file = file();
    let mut found = Vec::new();
    for entry in &catalogue.entries {
        let purpose = match file.volume.get(&entry.meaning) {
            Some(quantity) => Purpose::Volume(*quantity),
            None if file.stalls.meanings.contains(&entry.meaning) => Purpose::Stall,
            None if all && entry.precise < 2 => Purpose::Unclaimed,
            None => continue,
        };
        let one = Candidate {
            errata: entry.errata.clone(),
            note: entry.note.clone(),
            per_core: entry.encoding.unit == Unit::Core,
            ..Candidate::event(&entry.name, purpose)
        };
        let also = file.stalls.nothing_executes.contains(&entry.meaning).then_some(Purpose::NoExecution);
        for purpose in std::iter::once(one.purpose.clone()).chain(also) {
            found.push(Candidate { purpose: purpose.clone(), ..one.clone() });
            for other in &entry.alternatives {
                let name = format!("{}@{}", entry.name, other.suffix());
                let (instead_of, purpose) = (Some(entry.name.clone()), purpose.clone());
                found.push(Candidate {
                    events: vec![name.clone()],
                    name,
                    instead_of,
                    purpose,
                    ..one.clone()
                });
            }
        }
    }
    for sum in &file.sum {
        let parts: Option<Vec<&Entry>> = sum.parts.iter().map(|meaning| first(catalogue, meaning)).collect();
        let Some(parts) = parts else { continue };
        found.push(Candidate {
            events: parts.iter().map(|part| part.name.clone()).collect(),
            per_core: parts.iter().all(|part| part.encoding.unit == Unit::Core),
            ..Candidate::event(&joined(&parts), sum.quantity.clone())
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_names_a_meaning_and_a_quantity() {
        let file = file();
        let meanings = events::catalogue::meanings();
        for meaning in file.volume.keys() {
            assert!(meanings.contains_key(meaning), "no meaning {meaning}");
        }
        for sum in &file.sum {
            assert!(matches!(sum.quantity, Purpose::Volume(_) | Purpose::Stall), "{sum:?}");
        }
        let stalls = file.stalls.meanings.iter().chain(&file.stalls.nothing_executes);
        let named = stalls.chain(file.sum.iter().flat_map(|sum| &sum.parts));
        let papers = file.paper.iter().flat_map(|paper| paper.one_core.iter().chain(&paper.all_cores));
        for meaning in named.chain(papers) {
            assert!(meanings.contains_key(meaning), "no meaning {meaning}");
        }
    }

    #[test]
    fn haswell_has_the_indicators_of_the_papers() {
        let catalogue = Catalogue::named("haswell-ep").expect("a catalogue");
        let candidates = candidates(catalogue, false);
        for (_, _, name) in papers(catalogue) {
            assert!(candidates.iter().any(|candidate| candidate.name == name), "{name}");
        }
        assert!(papers(catalogue).len() >= 15);
        assert!(candidates.iter().any(|candidate| candidate.instead_of.is_some()));
    }
}
