//! Mutated machines: which claims must fall there and which must stand, said before the first run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use kernels::draw::Distribution;
use machine::model::Model;
use record::reproduce::{ClaimOutcome, MATRIX_SCHEMA, MutantOutcome, MutationMatrix, Reproduction};
use serde::Deserialize;

use crate::{
    paper::NoiseAmplitudes,
    session::{ItemChoice, MachineChange},
    setup::PaperSetup,
};

/// Numbers of the disturbance begin so; all others are keys of model files.
const NOISE: &str = "noise.";

/// A machine with something changed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Its name.
    pub id: String,
    /// What is changed, in words.
    pub change: String,
    /// Papers whose machines are changed; other machines may have nothing like it.
    #[serde(default = "with_three_levels")]
    pub papers: Vec<String>,
    /// Keys of model files and their values: `*4` and `/2` change a number, `none` takes something away, `+true` adds what a
    /// file leaves out. A machine that lacks the whole part (an L3, links) stays as it is. Keys that begin with `noise.` are of
    /// the paper's disturbance.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Kernels that run instead of others.
    #[serde(default)]
    pub kernels: BTreeMap<String, String>,
    /// Events that are counted instead of others.
    #[serde(default)]
    pub events: BTreeMap<String, String>,
    /// Where loads are sampled: one in so many instead.
    #[serde(default)]
    pub sample_one_in: Option<u64>,
    /// Victims of interference draw from this distribution, whatever they are taken for.
    #[serde(default)]
    pub draws: Option<Distribution>,
    /// All data lies on pages of 4 KiB.
    #[serde(default)]
    pub small_pages: bool,
    /// Why.
    pub mechanism: String,
    /// Claims that must fall.
    pub falls: Vec<String>,
    /// Claims that must stand.
    pub stands: Vec<String>,
}

/// Papers whose machines are of Haswell and Broadwell.
fn with_three_levels() -> Vec<String> {
    ["molka2017", "helm2019", "roehl2016"].map(str::to_owned).to_vec()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutantFile {
    mutant: Vec<Mutant>,
}

impl Mutant {
    /// All that come with memwall.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load the file.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Mutant>> = OnceLock::new();
        ALL.get_or_init(|| match toml::from_str::<MutantFile>(include_str!("../mutants.toml")) {
            Ok(file) => file.mutant,
            Err(error) => panic!("mutants.toml: {error}"),
        })
    }

    /// Those whose turn it is: `count` of them, other ones for other turns.
    pub fn of_turn(count: usize, turn: u64) -> Vec<&'static Self> {
        let all = Self::all();
        let first = turn as usize % all.len().max(1);
        (0..count.min(all.len()))
            .map(|number| &all[(first + number * all.len().div_ceil(count.max(1))) % all.len()])
            .collect()
    }

    /// What was said of a claim beforehand: whether it holds.
    pub fn expected(&self, claim: &str) -> Option<bool> {
        let listed = |list: &[String]| list.iter().any(|listed| *listed == claim);
        match (listed(&self.falls), listed(&self.stands)) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
        }
    }

    /// What is made to see whether its claims do as was said: the choice, and whatever else it speaks of.
    pub fn choice(&self, choice: &ItemChoice) -> ItemChoice {
        let items = self.falls.iter().chain(&self.stands).filter_map(|claim| claim.rsplit_once('/'));
        let also: BTreeSet<String> = items.map(|(item, _)| item.to_owned()).collect();
        ItemChoice { also: &choice.also | &also, ..choice.clone() }
    }

    /// What became of the claims that hold on the machine as it is and were tried on this one. One that was spoken of and does not
    /// hold there cannot be tried, and is a miss.
    pub fn outcome(&self, base: &Reproduction, mutated: &Reproduction) -> MutantOutcome {
        let rows = |of: &Reproduction| -> Vec<_> {
            let items = of.papers.iter().flat_map(|paper| &paper.items);
            items.flat_map(|item| item.rows.clone()).collect()
        };
        let after = rows(mutated);
        let tried = |claim: &str| claim.split_once('/').is_some_and(|(paper, _)| self.tries(paper));
        let claims = rows(base).into_iter().filter(|row| tried(&row.claim)).filter_map(|row| {
            let now = after.iter().find(|now| now.claim == row.claim)?;
            let (expected, held) = (self.expected(&row.claim), row.same == Some(true));
            (held || expected.is_some()).then(|| ClaimOutcome {
                expected,
                holds: now.same.filter(|_| held),
                ours: now.ours,
                claim: row.claim,
            })
        });
        MutantOutcome {
            id: self.id.clone(),
            change: self.change.clone(),
            mechanism: self.mechanism.clone(),
            claims: claims.collect(),
        }
    }
}

impl MachineChange for Mutant {
    fn model(&self, model: Model) -> Result<Model, String> {
        let text = Model::builtin_file(&model.name).ok_or_else(|| format!("{} has no file", model.name))?;
        let mut value: toml::Value = toml::from_str(text).map_err(|error| error.to_string())?;
        let has = |path: &str| path.split('.').next().is_some_and(|part| value.get(part).is_some());
        let set: Vec<_> = self.set.iter().filter(|(path, _)| has(path)).collect();
        for (path, to) in set {
            change(&mut value, path, to).map_err(|error| format!("{path} = {to}: {error}"))?;
        }
        let text = toml::to_string(&value).map_err(|error| error.to_string())?;
        Model::parse(&text, &self.id).map_err(|error| error.to_string())
    }

    fn setup(&self, mut setup: PaperSetup) -> PaperSetup {
        if let Some(kernel) = self.kernels.get(&setup.kernel) {
            setup.kernel.clone_from(kernel);
        }
        setup.sample_one_in = setup.sample_one_in.map(|one_in| self.sample_one_in.unwrap_or(one_in));
        setup.small_pages |= self.small_pages;
        if let Some(squeezed) = &mut setup.squeezed {
            squeezed.draws = self.draws;
        }
        setup
    }

    fn noise(&self, mut noise: NoiseAmplitudes) -> NoiseAmplitudes {
        for (name, number) in [
            ("memory_lines_per_s", &mut noise.memory_lines_per_s),
            ("l3_lines_per_s", &mut noise.l3_lines_per_s),
            ("interrupt_every_ns", &mut noise.interrupt_every_ns),
            ("interrupt_lasts_ns", &mut noise.interrupt_lasts_ns),
        ] {
            let to = self.set.get(&format!("{NOISE}{name}"));
            if let Some(Ok(toml::Value::Float(to))) = to.map(|to| changed(&toml::Value::Float(*number), to)) {
                *number = to;
            }
        }
        noise
    }

    fn events(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.events)
    }

    fn tries(&self, paper: &str) -> bool {
        self.papers.iter().any(|tried| tried == paper)
    }

    /// By what it does, not by its name: a mutant that is put right is another one.
    fn key(&self) -> String {
        let mut key = format!("{} {:?} {:?} {:?}", self.id, self.set, self.kernels, self.events);
        self.sample_one_in.into_iter().for_each(|one_in| key += &format!(" sampled 1/{one_in}"));
        self.draws.into_iter().for_each(|draws| key += &format!(" draws {draws}"));
        key + if self.small_pages { " on small pages" } else { "" }
    }
}

/// Changes one key of a model file.
fn change(value: &mut toml::Value, path: &str, to: &str) -> Result<(), String> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut here = value;
    for key in parents.split('.').filter(|key| !key.is_empty()) {
        here = match here {
            toml::Value::Array(list) => key.parse::<usize>().ok().and_then(|at| list.get_mut(at)),
            other => other.get_mut(key),
        }
        .ok_or_else(|| format!("there is no {key}"))?;
    }
    if to == "none" {
        return match here {
            toml::Value::Array(list) => {
                let at = last.parse::<usize>().ok().filter(|&at| at < list.len()).ok_or("no such place")?;
                list.remove(at);
                Ok(())
            }
            toml::Value::Table(table) => {
                table.remove(last).map(|_| ()).ok_or_else(|| "there is none".to_owned())
            }
            _ => Err("nothing to take away".to_owned()),
        };
    }
    if let (Some(added), toml::Value::Table(table)) = (to.strip_prefix('+'), &mut *here) {
        let added = added.parse::<toml::Value>().map_err(|error| error.to_string())?;
        return match table.insert(last.to_owned(), added) {
            None => Ok(()),
            Some(_) => Err("there is one".to_owned()),
        };
    }
    let place = here.get_mut(last).ok_or("there is none")?;
    *place = changed(place, to)?;
    Ok(())
}

/// A value as it is told: `*4`, `/2`, or the new one itself.
fn changed(value: &toml::Value, to: &str) -> Result<toml::Value, String> {
    let factor = |text: &str| text.parse::<f64>().map_err(|error| error.to_string());
    let by = match (to.strip_prefix('*'), to.strip_prefix('/')) {
        (Some(by), _) => Some(factor(by)?),
        (_, Some(by)) => Some(1.0 / factor(by)?),
        _ => None,
    };
    Ok(match (value, by) {
        (toml::Value::Integer(number), Some(by)) => {
            toml::Value::Integer(((*number as f64 * by).round() as i64).max(1))
        }
        (toml::Value::Float(number), Some(by)) => toml::Value::Float(number * by),
        (_, Some(_)) => return Err("no number".to_owned()),
        (toml::Value::Integer(_), None) => toml::Value::Integer(to.parse().map_err(|_| "no whole number")?),
        (toml::Value::Float(_), None) => toml::Value::Float(factor(to)?),
        (toml::Value::Boolean(_), None) => toml::Value::Boolean(to == "true"),
        (toml::Value::String(_), None) => toml::Value::String(to.to_owned()),
        _ => return Err("neither number, word nor switch".to_owned()),
    })
}

/// All outcomes together.
pub fn matrix(mutants: Vec<MutantOutcome>, complete: bool) -> MutationMatrix {
    let mut matrix =
        MutationMatrix { schema: MATRIX_SCHEMA.to_owned(), complete, mutants, never_fell: Vec::new() };
    let is = |claim: &str, holds: &dyn Fn(Option<bool>) -> bool| {
        let all = matrix.mutants.iter().flat_map(|mutant| &mutant.claims);
        all.filter(|outcome| outcome.claim == claim).any(|outcome| holds(outcome.holds))
    };
    let stands =
        |claim: &&str| is(claim, &|holds| holds.is_some()) && !is(claim, &|holds| holds == Some(false));
    matrix.never_fell = matrix.claims().into_iter().filter(stands).map(str::to_owned).collect();
    matrix
}
