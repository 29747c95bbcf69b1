//! What papers published, as data: `papers/*.toml`.

use std::{collections::BTreeMap, sync::OnceLock};

use events::formula::Formula;
use machine::{Bytes, DataFileError, model::Model};
use serde::Deserialize;

use crate::{condition::Condition, setup::PaperSetup};

/// Files that come with memwall, in the order in which they are shown.
const FILES: [(&str, &str); 5] = [
    ("molka2017", include_str!("../papers/molka2017.toml")),
    ("helm2019", include_str!("../papers/helm2019.toml")),
    ("roehl2016", include_str!("../papers/roehl2016.toml")),
    ("casas2017", include_str!("../papers/casas2017.toml")),
    ("kruse2011", include_str!("../papers/kruse2011.toml")),
];

/// A paper with its experiments.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPaper {
    /// First author and year; the name of its file.
    #[serde(skip)]
    pub id: String,
    /// Its title.
    pub title: String,
    /// The model of its machine.
    pub machine: String,
    /// Traffic and interrupts of setups with noise.
    #[serde(default)]
    pub noise: Option<NoiseAmplitudes>,
    /// Names for events whose own cannot stand in a formula, or are long.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// What runs, by name.
    #[serde(default)]
    pub setups: BTreeMap<String, PaperSetup>,
    /// Several setups that differ in few things, by name.
    #[serde(default)]
    pub families: BTreeMap<String, SetupFamily>,
    /// Tables, figures, findings.
    #[serde(rename = "item")]
    pub items: Vec<PaperItem>,
}

/// How much others disturb, fixed before anything was run under it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseAmplitudes {
    /// Lines of others read from each package's memory per second.
    pub memory_lines_per_s: f64,
    /// Foreign lines brought into each last-level cache per second.
    pub l3_lines_per_s: f64,
    /// Nanoseconds from one interrupt of a core to the next, on average.
    pub interrupt_every_ns: f64,
    /// Nanoseconds that one takes.
    pub interrupt_lasts_ns: f64,
    /// Where these numbers come from.
    pub source: String,
}

/// A table, a figure or the findings of a section.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperItem {
    /// Its name on the command line.
    pub id: String,
    /// Where it stands and what it is.
    pub title: String,
    /// How it is done here.
    #[serde(default)]
    pub method: Option<String>,
    /// It is part of the quick set.
    #[serde(default)]
    pub quick: bool,
    /// The command that will fill it.
    #[serde(default)]
    pub filled_by: Option<String>,
    /// Where the paper contradicts itself.
    #[serde(default)]
    pub slips: Vec<String>,
    /// Its rows.
    #[serde(default, rename = "row")]
    pub rows: Vec<PaperRow>,
    /// Its drawings.
    #[serde(default, rename = "figure")]
    pub figures: Vec<PaperFigure>,
}

/// One statement, and how it is tried here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRow {
    /// Its name within the item.
    pub id: String,
    /// What it is about.
    pub label: String,
    /// The setup that names without one belong to.
    #[serde(default)]
    pub on: Option<String>,
    /// The family instead: the formula is taken of each of its setups.
    #[serde(default)]
    pub family: Option<String>,
    /// Our number.
    pub ours: String,
    /// What is taken of several seeds.
    #[serde(default)]
    pub over: Summary,
    /// What is taken of the setups of a family.
    #[serde(default)]
    pub across: Summary,
    /// For `separates`: what setups draw. They are saturated where that is at least nine tenths of the highest and each thread is slower
    /// for it than alone.
    #[serde(default)]
    pub by: Option<String>,
    /// Of both numbers.
    #[serde(default)]
    pub unit: String,
    /// The paper's number.
    #[serde(default)]
    pub published: Option<f64>,
    /// The paper's conclusion with its section.
    pub concludes: String,
    /// What our number must be for the same conclusion; if empty, within a tenth of the published one.
    #[serde(default)]
    pub holds: Vec<String>,
    /// It must be so near the published one.
    #[serde(default)]
    pub within: Option<f64>,
    /// Why it is off.
    #[serde(default)]
    pub why: Option<String>,
    /// Which chosen or assumed number it depends on.
    #[serde(default)]
    pub not_independent: Option<String>,
}

/// What is taken of several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Summary {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The smallest.
    Least,
    /// The largest.
    Most,
    /// The one furthest from 0.
    Worst,
    /// Standard deviation over mean, percent.
    Variation,
    /// Share of pairs of a saturated and another setup that the value puts in the right order, percent.
    Separates,
}

/// A drawing of our data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// What is shown, with its unit.
    pub title: String,
    /// Over the setups of this family: what its first change varies is along.
    pub family: String,
    /// What is along.
    pub x: String,
    /// What is along as a formula of each setup instead of what varies.
    #[serde(default)]
    pub along: Option<String>,
    /// What is up.
    pub y: String,
    /// Its curves; further changes of the family make more of them.
    pub curves: Vec<PaperCurve>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCurve {
    /// Its name.
    pub name: String,
    /// Its value at each point.
    pub ours: String,
}

/// Setups that differ in few things.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupFamily {
    /// What they share.
    pub base: PaperSetup,
    /// What varies, each value with each.
    pub vary: Vec<Variation>,
}

/// One thing that varies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// `size`, `cores`, `prefetch`, `model`, `kernel`, what a squeezed setup has, or a parameter of the kernel.
    pub what: String,
    /// Its values.
    pub values: Vec<String>,
}

impl SetupFamily {
    /// All setups, with the values that make each: those of the first variation follow each other.
    pub fn setups(&self) -> Result<Vec<(Vec<String>, PaperSetup)>, String> {
        let mut all = vec![(Vec::new(), self.base.clone())];
        for variation in self.vary.iter().rev() {
            let mut more = Vec::new();
            for (values, setup) in &all {
                for value in &variation.values {
                    let setup = changed(setup, &variation.what, value)?;
                    more.push(([vec![value.clone()], values.clone()].concat(), setup));
                }
            }
            all = more;
        }
        Ok(all)
    }
}

fn changed(setup: &PaperSetup, what: &str, value: &str) -> Result<PaperSetup, String> {
    let mut setup = setup.clone();
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{what} = {text}: {error}"));
    match what {
        "size" => setup.size = Some(value.parse::<Bytes>().map_err(|error| error.to_string())?),
        "cores" => setup.cores = number(value)? as u32,
        "prefetch" => setup.prefetch = value == "on",
        "model" => setup.model = Some(value.to_owned()),
        "kernel" => setup.kernel = value.to_owned(),
        "across" => setup.across = value == "yes",
        parameter => {
            let number = number(value)?;
            let taken = setup.squeezed.as_mut().is_some_and(|squeezed| squeezed.change(parameter, number));
            if !taken {
                setup.parameters.insert(parameter.to_owned(), number);
            }
        }
    }
    Ok(setup)
}

impl PublishedPaper {
    /// All that come with memwall.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load the files.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<PublishedPaper>> = OnceLock::new();
        let load = |(id, text): &(&str, &str)| match Self::parse(id, text) {
            Ok(paper) => paper,
            Err(error) => panic!("papers/{id}.toml: {error}"),
        };
        ALL.get_or_init(|| FILES.iter().map(load).collect())
    }

    /// Reads and checks a file.
    pub fn parse(id: &str, text: &str) -> Result<Self, String> {
        let mut paper: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        paper.id = id.to_owned();
        paper.check()?;
        Ok(paper)
    }

    fn check(&self) -> Result<(), String> {
        let noisy = |setup: &PaperSetup| setup.noise && self.noise.is_none();
        if self.setups.values().chain(self.families.values().map(|family| &family.base)).any(noisy) {
            return Err("a setup is disturbed, and nothing says how much".to_owned());
        }
        for item in &self.items {
            for row in &item.rows {
                row.check(self).map_err(|error| format!("{}/{}: {error}", item.id, row.id))?;
            }
            for figure in &item.figures {
                let family = self.families.get(&figure.family);
                family.ok_or_else(|| format!("{}: no family {}", item.id, figure.family))?.setups()?;
                let formulas = figure.curves.iter().map(|curve| &curve.ours).chain(&figure.along);
                for formula in formulas {
                    Formula::parse(formula).map_err(|error| format!("{}: {error}", item.id))?;
                }
            }
            if item.rows.is_empty() && item.figures.is_empty() && item.filled_by.is_none() {
                return Err(format!("{} is empty", item.id));
            }
        }
        Ok(())
    }

    /// The model a setup runs on, at the clock that it was published with.
    pub fn model_of(&self, setup: &PaperSetup) -> Result<Model, DataFileError> {
        let name = setup.model.as_ref().unwrap_or(&self.machine);
        Model::parse(Model::builtin_file(name).unwrap_or_default(), name)
    }
}

impl PaperRow {
    fn check(&self, paper: &PublishedPaper) -> Result<(), String> {
        if let Some(name) = &self.on
            && !paper.setups.contains_key(name)
        {
            return Err(format!("no setup {name}"));
        }
        if let Some(name) = &self.family {
            paper.families.get(name).ok_or_else(|| format!("no family {name}"))?.setups()?;
        }
        if self.on.is_some() && self.family.is_some() {
            return Err("it has a setup and a family".to_owned());
        }
        for formula in [Some(&self.ours), self.by.as_ref()].into_iter().flatten() {
            Formula::parse(formula).map_err(|error| error.to_string())?;
        }
        let conditions = self.conditions()?;
        if conditions.is_empty() && self.published.is_none() {
            return Err("nothing is asked of it".to_owned());
        }
        for name in self.names() {
            if let Some((setup, _)) = name.split_once("::")
                && setup != "row"
                && !paper.setups.contains_key(setup)
            {
                return Err(format!("no setup {setup} for {name}"));
            }
        }
        Ok(())
    }

    /// Its conditions, read.
    pub fn conditions(&self) -> Result<Vec<Condition>, String> {
        self.holds.iter().map(|text| Condition::parse(text).map_err(|error| error.to_string())).collect()
    }

    /// All names that its formulas and conditions use.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for text in [Some(&self.ours), self.by.as_ref()].into_iter().flatten() {
            let formula =
                Formula::parse(text).map(|formula| formula.names().iter().map(|&n| n.to_owned()).collect());
            names.extend(formula.unwrap_or_else(|_| Vec::new()));
        }
        for condition in self.conditions().unwrap_or_default() {
            names.extend(condition.names().iter().map(|&name| name.to_owned()));
        }
        names
    }
}
