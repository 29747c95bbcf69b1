//! Experiments of papers, and what came of them here beside what was published.

use serde::{Deserialize, Serialize};

/// The schema of a [`Reproduction`].
pub const SCHEMA: &str = "memwall.reproduce/1";
/// The schema of a [`MutationMatrix`].
pub const MATRIX_SCHEMA: &str = "memwall.mutants/1";
/// A deviation above this has a reason, or the words "not explained".
pub const NOTABLE_DEVIATION: f64 = 0.10;

/// What was made of all papers that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: String,
    /// All experiments, not only the quick ones.
    pub full: bool,
    /// On this machine instead of models; then nothing is concluded.
    pub here: bool,
    /// Nothing was interrupted.
    pub complete: bool,
    /// By paper.
    pub papers: Vec<ReproducedPaper>,
}

/// One paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproducedPaper {
    /// First author and year.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Models its experiments run on, or this machine.
    pub machine: String,
    /// Tables, figures and findings.
    pub items: Vec<ReproducedItem>,
}

/// A table, a figure or the findings of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproducedItem {
    /// Its name on the command line.
    pub id: String,
    /// Where it stands in the paper, and what it is.
    pub title: String,
    /// How it is done here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The command that will fill it; it has no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_by: Option<String>,
    /// Only a full run makes it; it has no rows.
    #[serde(default)]
    pub left_out: bool,
    /// Statements of the paper beside ours.
    pub rows: Vec<ReproducedRow>,
    /// Its drawing, from our data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<ReproducedFigure>,
    /// Where the paper contradicts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<String>,
}

/// One statement of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproducedRow {
    /// Paper, item and row: the name of the claim.
    pub claim: String,
    /// What it is about.
    pub label: String,
    /// Of both numbers.
    pub unit: String,
    /// What the paper has, where it has a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// What is found here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
    /// Why nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Ours against the published, as a ratio less one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// The paper's conclusion, with its section.
    pub concludes: String,
    /// What is asked of our numbers for the same conclusion.
    pub holds_if: String,
    /// Whether we conclude the same; absent where nothing can be concluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same: Option<bool>,
    /// Why not, or why the number is off, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Which number chosen or assumed in the model this one depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_independent: Option<String>,
}

impl ReproducedRow {
    /// Off by more than can pass without a word.
    pub fn is_off(&self) -> bool {
        self.same == Some(false) || self.deviation.is_some_and(|off| off.abs() > NOTABLE_DEVIATION)
    }

    /// The reason where one is owed.
    pub fn reason(&self) -> Option<&str> {
        match (&self.why, self.is_off()) {
            (Some(why), _) => Some(why),
            (None, true) => Some("not explained"),
            (None, false) => None,
        }
    }
}

/// A drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproducedFigure {
    /// What is shown, with its unit.
    pub title: String,
    /// Along: `bytes`, or a number of something.
    pub x: String,
    /// Up.
    pub y: String,
    /// Its curves.
    pub curves: Vec<FigureCurve>,
}

/// A curve of a drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureCurve {
    /// Its name.
    pub name: String,
    /// Along and up.
    pub points: Vec<(f64, f64)>,
}

/// Which claims fall on which mutated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutationMatrix {
    /// [`MATRIX_SCHEMA`].
    pub schema: String,
    /// Nothing was interrupted.
    pub complete: bool,
    /// By mutant.
    pub mutants: Vec<MutantOutcome>,
    /// Claims that none of the mutants that were tried made fall.
    pub never_fell: Vec<String>,
}

impl MutationMatrix {
    /// All claims that some mutant was tried on, each once, in the order of the papers.
    pub fn claims(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for outcome in self.mutants.iter().flat_map(|mutant| &mutant.claims) {
            if !all.contains(&outcome.claim.as_str()) {
                all.push(&outcome.claim);
            }
        }
        all
    }
}

/// What became of the claims on one mutated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutantOutcome {
    /// Its name.
    pub id: String,
    /// What is changed.
    pub change: String,
    /// Why claims must fall or stand.
    pub mechanism: String,
    /// By claim, those that hold on the machine as it is.
    pub claims: Vec<ClaimOutcome>,
}

impl MutantOutcome {
    /// Claims that did not do as expected.
    pub fn misses(&self) -> impl Iterator<Item = &ClaimOutcome> {
        self.claims.iter().filter(|claim| claim.expected.is_some_and(|holds| claim.holds != Some(holds)))
    }
}

/// One claim on a mutated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimOutcome {
    /// Its name.
    pub claim: String,
    /// What must come: stand or fall; absent if nothing was said beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<bool>,
    /// Whether it holds; absent if it could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
}
