//! The example programs: expected and found class. Where the same program can run without its bottleneck, the truth is
//! the share of processor time that this saves, measured beside the recording and without sampling.

use std::{error::Error, path::Path, process::Command};

use analysis::{
    findings::{Findings, ThreadActivity},
    timer::{TimerOptions, analyse},
};
use recorder::{RecordRequest, RecordTarget};

use super::built::{examples, number_behind, silent};

struct Case {
    command: &'static str,
    /// Arguments that take the bottleneck away; none if nothing does.
    without: Option<&'static str>,
    function: &'static str,
    /// Waits that belong to the bottleneck; executing if none.
    expected: &'static [ThreadActivity],
}

const fn case(
    command: &'static str,
    without: Option<&'static str>,
    function: &'static str,
    expected: &'static [ThreadActivity],
) -> Case {
    Case { command, without, function, expected }
}

const LOADS: &[ThreadActivity] = &[ThreadActivity::Loads];
const BOTH: &[ThreadActivity] = &[ThreadActivity::Loads, ThreadActivity::Stores];

const CASES: [Case; 22] = [
    case("chase", Some("--size L1"), "chase", LOADS),
    case("chase --size L3", Some("--size L1"), "chase", LOADS),
    case("chase --size L2", Some("--size L1"), "chase", LOADS),
    case("chase --muls 24", Some("--size L1"), "chase_dependent_24", LOADS),
    case("chase --muls 24 --size L3", Some("--size L1"), "chase_dependent_24", LOADS),
    case("chase --muls 24 --size L2", None, "chase_dependent_24", &[ThreadActivity::Chains]),
    case("chase --muls 24 --size L1", None, "chase_dependent_24", &[ThreadActivity::Chains]),
    case("chase --muls 24 --independent", Some("--size L1"), "chase_independent_24", LOADS),
    case("stream", Some("--size L1"), "triad", BOTH),
    case("store_stream", Some("--size L1"), "write_buffer", &[ThreadActivity::Stores]),
    case("multiply", None, "multiply_chain", &[ThreadActivity::Chains]),
    case("divide", None, "divide_chain", &[ThreadActivity::Divides]),
    case("branches", Some("--size 1"), "count_heads", &[ThreadActivity::Branches]),
    case("sum", None, "sum_array", &[]),
    case("sum --dot", None, "dot_product", &[]),
    case("atomics", None, "add_atomically", &[ThreadActivity::Atomics]),
    case("spinlock", None, "lock_spin", &[ThreadActivity::Atomics]),
    case("false_sharing", Some("--padded"), "count_", BOTH),
    case("imbalance", None, "multiply_rows", &[]),
    case("hash_join", Some("--small-table"), "probe", LOADS),
    case("chase_rs", Some("--size L1"), "walk", LOADS),
    case("hash_join_rs", Some("--small-table"), "probe", LOADS),
];

const SECONDS: &str = "1";

/// Prints the table; gives how many examples showed another class or function than they should.
pub fn table(wanted: &[String]) -> Result<u32, Box<dyn Error>> {
    let folder = examples()?;
    println!(
        "{:>30} {:>22} {:>29} {:>6} {:>6} {:>6}  function",
        "example", "expected", "found", "share", "truth", "error"
    );
    let mut broken = 0;
    let is_wanted =
        |case: &&Case| wanted.is_empty() || wanted.iter().any(|name| case.command.contains(name.as_str()));
    for case in CASES.iter().filter(is_wanted) {
        let findings = record(&folder, case)?;
        let truth = match case.without {
            Some(without) => Some(truth(&folder, case.command, without)?),
            None => None,
        };
        broken += u32::from(!show(case, &findings, truth)?);
    }
    Ok(broken)
}

fn show(case: &Case, findings: &Findings, truth: Option<f64>) -> Result<bool, Box<dyn Error>> {
    let split = findings.overall.ok_or("no sample was taken")?;
    let share: f64 = match case.expected {
        [] => split.executing + split.chains,
        waits => waits.iter().map(|&wait| split.share(wait)).sum(),
    };
    let name = findings.symbols.first().map_or("", |symbol| symbol.name.as_str());
    let others = ThreadActivity::ALL
        .into_iter()
        .filter(|activity| activity.is_waiting() && !case.expected.contains(activity));
    let largest_other = others.map(|activity| split.share(activity)).fold(0.0, f64::max);
    let holds = name.contains(case.function) && (case.expected.is_empty() || share > largest_other);
    let expected = case.expected.first().map_or("executing", |activity| activity.label());
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    println!(
        "{:>30} {expected:>22} {:>29} {:>6} {:>6} {:>6}  {name}{}{}",
        case.command,
        super::largest(&split),
        percent(Some(share)),
        percent(truth),
        truth.map_or_else(|| "-".to_owned(), |truth| format!("{:+.0}", (share - truth) * 100.0)),
        findings
            .about
            .lost_samples
            .value()
            .filter(|lost| **lost > 0)
            .map_or(String::new(), |lost| format!("  {lost} samples lost")),
        if holds { "" } else { "  BROKEN" },
    );
    Ok(holds)
}

fn words<'a>(command: &'a str, more: &'a str) -> impl Iterator<Item = &'a str> {
    command.split(' ').chain(more.split(' ').filter(|word| !word.is_empty())).chain(["--seconds", SECONDS])
}

fn record(folder: &Path, case: &Case) -> Result<Findings, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("a.sqlite");
    let mut words = words(case.command, "");
    let program = folder.join(words.next().unwrap_or_default());
    let command = silent([program.into()].into_iter().chain(words.map(Into::into)));
    let request = RecordRequest {
        skid_instructions: host::timer::skid_for(None, &pmu::Live),
        ..RecordRequest::new(RecordTarget::Launch(command), &file)
    };
    recorder::record(&request, &pmu::Live, &machine::Source::live())?;
    Ok(analyse(&record::file::read(&file)?, None, &TimerOptions::default()))
}

/// Share of processor time per step that goes away with the bottleneck.
fn truth(folder: &Path, command: &str, without: &str) -> Result<f64, Box<dyn Error>> {
    let with = cost(folder, command, "")?;
    Ok((1.0 - cost(folder, command, without)? / with).max(0.0))
}

/// Processor time per step, in units of its own, as the program prints it.
fn cost(folder: &Path, command: &str, more: &str) -> Result<f64, Box<dyn Error>> {
    let mut words = words(command, more);
    let program = folder.join(words.next().unwrap_or_default());
    let output = Command::new(program).args(words).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let number = |before| number_behind(&text, before);
    let parts = number(" rounds in ").zip(number("s (")).zip(number("CPU time), "));
    let ((seconds, processor), per_step) =
        parts.ok_or_else(|| format!("{command} {more}: no pace in {text:?}"))?;
    Ok(per_step * processor / seconds)
}
