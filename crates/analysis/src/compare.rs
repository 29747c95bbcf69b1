//! Two sets of runs side by side: what changed beyond the noise.
//!
//! A quantity has two kinds of noise. Of samples: a time made of n of them is uncertain by about √n of them. Of runs:
//! the same program takes another time next time, which only several runs of each side can tell. Changes are given
//! with a 95 % interval from whatever of both is known; with one run a side the second is not, and that is said.

mod cause;
mod joining;
mod judgement;

use record::run::Run;
use serde::{Deserialize, Serialize};

use crate::findings::{Findings, ThreadActivity};
use joining::{FunctionIdentity, JoinedFunction};

pub use cause::{ChangeCause, ChangePart};
pub use judgement::{CompareGate, CompareJudgement, spoilt};

/// Name and version of the form in which comparisons are written as JSON.
pub const SCHEMA: &str = "memwall.compare/1";

/// The row of the time from beginning to end.
const WALL: &str = "wall time";

/// The row of processor time in user mode.
const USER: &str = "user time";

/// What changed from one set of runs to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// Runs on the first side.
    pub runs_before: usize,
    /// Runs on the second side.
    pub runs_after: usize,
    /// What the first side is, for people: programs or recordings; none if nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What the second side is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How the whole is judged.
    pub judgement: CompareJudgement,
    /// Change of wall time by which the first side differed from itself, as a share; none if that was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itself: Option<f64>,
    /// What makes up the change of thread time, the largest first.
    #[serde(default)]
    pub causes: Vec<ChangePart>,
    /// Wall time, user time and waiting, the whole program.
    pub whole: Vec<CompareRow>,
    /// User time of each function, the largest change first.
    pub functions: Vec<CompareRow>,
    /// What limits the comparison, in plain sentences.
    pub remarks: Vec<String>,
}

/// One quantity on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// `wall time`, `waiting on loads`, or a function's name.
    pub name: String,
    /// Mean before; none if no run has it.
    pub before_ns: Option<f64>,
    /// Mean after; none if no run has it.
    pub after_ns: Option<f64>,
    /// The difference; none unless both sides have it.
    pub change: Option<ComparedChange>,
    /// Which function it is, if it is one: others may have its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<ComparedFunction>,
}

/// A function as both sides know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedFunction {
    /// Path of the file it is in, or what the kernel calls the memory.
    pub module: String,
    /// Source file it begins in, if debug information says so.
    pub file: Option<String>,
    /// First address in the module's own terms, if all runs that saw it have the same build.
    pub address: Option<u64>,
}

/// A difference with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedChange {
    /// After minus before.
    pub ns: f64,
    /// Half the interval; none if nothing is known of the noise.
    pub uncertainty_ns: Option<f64>,
    /// As a share of before; none if that is nothing.
    pub ratio: Option<f64>,
}

impl ComparedChange {
    /// The interval leaves out zero; none if nothing is known of the noise.
    pub fn is_beyond_noise(&self) -> Option<bool> {
        self.uncertainty_ns.map(|half| self.ns.abs() > half)
    }
}

/// One of the runs to compare.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    findings: Findings,
    functions: Vec<FunctionIdentity>,
}

impl ComparedRun {
    /// The findings of a run, which tells who its functions are.
    pub fn of(run: &Run, findings: Findings) -> Self {
        let functions = findings.symbols.iter().map(|found| FunctionIdentity::of(run, found)).collect();
        Self { findings, functions }
    }

    fn has_samples(&self) -> bool {
        self.findings.overall.is_some()
    }
}

/// A quantity of one run: its value, and the samples behind it where it is made of samples.
#[derive(Clone, Copy)]
struct ComparedSide {
    ns: f64,
    /// Standard deviation by the number of samples; none for what a clock measured.
    sampling_ns: Option<f64>,
}

/// Compares runs of the same program before and after a change.
pub fn compare(before: &[ComparedRun], after: &[ComparedRun]) -> Comparison {
    compared(before, after, None)
}

/// Compares runs of two programs, with their commands.
pub fn compare_programs(
    before: &[ComparedRun],
    after: &[ComparedRun],
    [old, new]: [String; 2],
) -> Comparison {
    compared(before, after, Some((old, new)))
}

fn compared(before: &[ComparedRun], after: &[ComparedRun], programs: Option<(String, String)>) -> Comparison {
    let both = [before, after];
    let of_each = |value: &dyn Fn(&Findings) -> Option<ComparedSide>| {
        both.map(|side| side.iter().filter_map(|run| value(&run.findings)).collect())
    };
    let mut whole = vec![row(WALL, of_each(&wall)), row(USER, of_each(&user))];
    whole.extend(
        ThreadActivity::ALL.map(|activity| row(activity.label(), of_each(&|run| spent(run, activity)))),
    );
    whole.retain(|row| row.before_ns.unwrap_or(0.0) > 0.0 || row.after_ns.unwrap_or(0.0) > 0.0);
    let (joined, not_told_apart) = joined(both);
    let causes = cause::causes(both, &joined);
    let mut functions = functions(both, joined);
    let size = |row: &CompareRow| (row.after_ns.unwrap_or(0.0) - row.before_ns.unwrap_or(0.0)).abs();
    functions.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    let mut remarks = remarks(both, programs.is_some());
    remarks.extend(not_told_apart);
    let (old, new) = programs.unzip();
    Comparison {
        schema: SCHEMA.to_owned(),
        runs_before: before.len(),
        runs_after: after.len(),
        before: old,
        after: new,
        judgement: CompareJudgement::of(&whole, [before.len(), after.len()], None),
        itself: None,
        causes,
        whole,
        functions,
        remarks,
    }
}

fn wall(run: &Findings) -> Option<ComparedSide> {
    run.about.elapsed_ns.value().map(|&ns| ComparedSide { ns: ns as f64, sampling_ns: None })
}

/// The kernel's own account where there is one; samples otherwise.
fn user(run: &Findings) -> Option<ComparedSide> {
    match run.about.usage.value() {
        Some(usage) => Some(ComparedSide { ns: usage.user_ns as f64, sampling_ns: None }),
        None => run.overall.as_ref().map(|split| sampled(run, split.samples as f64)),
    }
}

fn spent(run: &Findings, activity: ThreadActivity) -> Option<ComparedSide> {
    run.overall.as_ref().map(|split| sampled(run, split.samples as f64 * split.share(activity)))
}

fn sampled(run: &Findings, samples: f64) -> ComparedSide {
    let period = run.about.period_ns;
    // One more: seeing no sample does not mean that there was nothing.
    ComparedSide { ns: samples * period, sampling_ns: Some((samples + 1.0).sqrt() * period) }
}

/// Functions of all runs, each once, and what could not be told apart.
fn joined(both: [&[ComparedRun]; 2]) -> (Vec<JoinedFunction>, Vec<String>) {
    joining::joined(both.map(|runs| runs.iter().map(|run| run.functions.as_slice()).collect()))
}

/// Each function; one that a run did not see took no sample there, which is known as well as others.
fn functions(both: [&[ComparedRun]; 2], joined: Vec<JoinedFunction>) -> Vec<CompareRow> {
    let rows = joined.into_iter().map(|function| {
        let sides = [0, 1].map(|side| {
            let sampled_runs = both[side].iter().enumerate().filter(|(_, run)| run.has_samples());
            let samples = |index| function.samples[side].get(&index).copied().unwrap_or(0);
            sampled_runs.map(|(index, run)| sampled(&run.findings, samples(index) as f64)).collect()
        });
        CompareRow { function: Some(function.about), ..row(&function.name, sides) }
    });
    rows.collect()
}

fn row(name: &str, [before, after]: [Vec<ComparedSide>; 2]) -> CompareRow {
    let [a, b] = [mean(&before), mean(&after)];
    let change = a.zip(b).map(|(a, b)| {
        let variance = [variance_of_mean(&before), variance_of_mean(&after)];
        let uncertainty = variance[0].zip(variance[1]).map(|(a, b)| {
            let freedom = before.len().max(1) + after.len().max(1) - 2;
            quantile(freedom) * (a + b).sqrt()
        });
        ComparedChange { ns: b - a, uncertainty_ns: uncertainty, ratio: (a > 0.0).then(|| (b - a) / a) }
    });
    CompareRow { name: name.to_owned(), before_ns: a, after_ns: b, change, function: None }
}

fn mean(values: &[ComparedSide]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().map(|value| value.ns).sum::<f64>() / values.len() as f64)
}

/// How uncertain the mean is: by the spread of the runs if there are several, at least by their samples.
fn variance_of_mean(values: &[ComparedSide]) -> Option<f64> {
    let count = values.len() as f64;
    let middle = mean(values)?;
    let between = (values.len() > 1)
        .then(|| values.iter().map(|value| (value.ns - middle).powi(2)).sum::<f64>() / (count - 1.0) / count);
    let within: Option<f64> = values.iter().map(|value| value.sampling_ns.map(|sd| sd * sd)).sum();
    let within = within.map(|sum| sum / count / count);
    match (between, within) {
        (Some(between), Some(within)) => Some(between.max(within)),
        (some, none) => some.or(none),
    }
}

/// Two-sided 95 % quantile of Student's t; of the normal distribution where the runs say nothing of their spread.
fn quantile(freedom: usize) -> f64 {
    const T: [f64; 11] = [1.960, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    T.get(freedom).copied().unwrap_or(2.0 + 2.3 / freedom as f64)
}

fn remarks([before, after]: [&[ComparedRun]; 2], are_two_programs: bool) -> Vec<String> {
    let all = || before.iter().chain(after).map(|run| &run.findings);
    let mut remarks = Vec::new();
    if before.len() < 2 || after.len() < 2 {
        remarks.push(
            "One run on a side does not tell how much this program varies from run to run: intervals hold sampling noise \
             only, and wall time has none. Give several recordings of each side."
                .to_owned(),
        );
    }
    let machines: std::collections::BTreeSet<&str> = all().map(|run| run.about.machine.as_str()).collect();
    if machines.len() > 1 {
        remarks.push("The runs are not all from the same machine.".to_owned());
    }
    let commands: std::collections::BTreeSet<&[String]> =
        all().map(|run| run.about.command.as_slice()).collect();
    if commands.len() > 1 && !are_two_programs {
        remarks.push("The runs are not all of the same command.".to_owned());
    }
    if all().any(|run| run.overall.is_none()) {
        remarks.push("Some runs have no samples: only their times are compared.".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests;
