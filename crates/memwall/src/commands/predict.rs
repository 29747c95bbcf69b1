//! `memwall predict`: what measured curves say about machines with less, and about programs side by side.

use std::path::{Path, PathBuf};

use machine::{
    Bytes,
    regular::{self, LARGEST_RESULT},
};
use record::{
    predict::{Predictions, SCHEMA},
    squeeze::SqueezeRun,
};
use squeeze::predict::{self, Amount, SmallerMachine};

use super::squeeze::KeptProfile;
use crate::{
    failure::Failure,
    forms::{Forms, Page, Screen},
    target::{self, Choice, Target},
};

/// Say from measured curves how fast programs are with less cache or bandwidth, or beside each other
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictArgs {
    /// What 'memwall squeeze --json=FILE' wrote; two of them share a socket
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    runs: Vec<PathBuf>,
    /// A machine with so much cache, such as 8M or 50%
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = cache)]
    cache: Option<Amount>,
    /// A machine with so much bandwidth, such as 20GB/s or 50%
    #[arg(long, value_name = "RATE|PERCENT", value_parser = bandwidth)]
    bandwidth: Option<Amount>,
    /// What --on was called.
    #[arg(long, value_name = "MACHINE", hide = true, conflicts_with = "on")]
    machine: Option<String>,
    /// So many processes of the program on a socket, such as 1,2,4: which is best, and why
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    map: Vec<usize>,
    #[command(flatten)]
    forms: Forms,
    #[command(flatten)]
    page: Page,
}

const EXAMPLES: &str = "\
Examples:
  memwall squeeze --curves --json=app.json -- ./app
  memwall predict app.json --cache 8M --bandwidth 50%   on a machine with less
  memwall predict app.json --on sim:tiny                on a machine that 'memwall squeeze --calibrate' has measured
  memwall predict app.json other.json                   both on one socket
  memwall predict app.json --map 1,2,4                  how many of it to put on a socket

Nothing is said beyond the strengths that were measured.

Schema of --json: memwall.predict/1.";

fn percent(text: &str) -> Option<Result<Amount, String>> {
    let number = text.strip_suffix('%')?.trim();
    let share = number.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 100.0);
    Some(
        share
            .map(|share| Amount::Share(share / 100.0))
            .ok_or_else(|| format!("{text} is no share; write 50%")),
    )
}

fn cache(text: &str) -> Result<Amount, String> {
    percent(text).unwrap_or_else(|| {
        text.parse::<Bytes>().map(|bytes| Amount::Absolute(bytes.0 as f64)).map_err(|error| error.to_string())
    })
}

fn bandwidth(text: &str) -> Result<Amount, String> {
    percent(text).unwrap_or_else(|| {
        let number = text.strip_suffix("GB/s").unwrap_or("").trim();
        let rate = number.parse::<f64>().ok().filter(|rate| *rate > 0.0);
        rate.map(|rate| Amount::Absolute(rate * 1e9)).ok_or_else(|| format!("{text}: write 20GB/s or 50%"))
    })
}

/// Reads, predicts and prints.
pub fn run(args: &PredictArgs, machine: &Choice) -> Result<(), Failure> {
    args.forms.check(&[args.page.file()])?;
    let smaller = smaller(args, machine)?;
    let runs = args.runs.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let mut answers = Vec::new();
    if smaller != SmallerMachine::default() {
        answers.extend(runs.iter().map(|run| predict::on_smaller(run, smaller)));
    }
    let shares = runs.len() == 2 || !args.map.is_empty();
    let kept = if shares { Some(shared_machine(&runs)?) } else { None };
    let profile = kept.as_ref().and_then(KeptProfile::squeeze);
    if let [one, other] = runs.as_slice() {
        answers.extend(predict::side_by_side(one, other, profile));
    }
    let mut best = None;
    if !args.map.is_empty() {
        let (mapped, found) = predict::best_mapping(&runs[0], &args.map, profile);
        answers.extend(mapped);
        best = found;
    }
    if answers.is_empty() {
        return Err(Failure::Usage(
            "predict what? add --cache, --bandwidth, --on, --map, or a second program to share the socket"
                .to_owned(),
        ));
    }
    let programs = runs.iter().map(|run| run.program.clone()).collect();
    let ranges = runs.iter().flat_map(predict::ranges).collect();
    let predictions = Predictions { schema: SCHEMA.to_owned(), programs, answers, best, ranges };
    let refused = predictions.answers.iter().all(|answer| answer.slowdown.is_none());
    args.page.give(|| report::html::predict(&predictions))?;
    args.forms
        .give(Screen::Out, &predictions, |columns| report::terminal::predict::text(&predictions, columns))?;
    if refused {
        return Err(Failure::Measurement("nothing can be predicted from these curves".to_owned()));
    }
    Ok(())
}

/// What is known of the machine that all of them were squeezed on; programs of different machines share none.
fn shared_machine(runs: &[SqueezeRun]) -> Result<KeptProfile, Failure> {
    let machines: Vec<&Option<String>> = runs.iter().map(|run| &run.simulated).collect();
    if machines.iter().any(|machine| *machine != machines[0]) {
        return Err(Failure::Usage(
            "these were squeezed on different machines: squeeze both on the one that they are to share"
                .to_owned(),
        ));
    }
    let target = match machines[0] {
        Some(model) => Target::Simulated(Box::new(target::builtin(model)?)),
        None => Target::Native,
    };
    KeptProfile::of(&target)
}

fn read(path: &Path) -> Result<SqueezeRun, Failure> {
    let bad = |why: String| {
        Failure::Usage(format!("{}: {why}; 'memwall squeeze --json=FILE' writes one", path.display()))
    };
    let text = regular::read_text(path, LARGEST_RESULT).map_err(|error| bad(error.to_string()))?;
    let run: SqueezeRun =
        serde_json::from_str(&text).map_err(|error| bad(format!("not the result of a squeeze: {error}")))?;
    if run.schema != record::squeeze::SCHEMA {
        return Err(bad(format!("schema '{}' is not known", run.schema)));
    }
    Ok(run)
}

/// The machine that is asked about: by what it has, or by name.
fn smaller(args: &PredictArgs, machine: &Choice) -> Result<SmallerMachine, Failure> {
    let named = match &args.machine {
        Some(name) => Some(Choice::of_name(name)?),
        None => machine.named()?,
    };
    match named {
        None => Ok(SmallerMachine { cache: args.cache, bandwidth: args.bandwidth }),
        Some(_) if args.cache.is_some() || args.bandwidth.is_some() => Err(Failure::Usage(
            "--on names a machine with its cache and bandwidth; leave --cache and --bandwidth out, or --on"
                .to_owned(),
        )),
        Some(target) => calibrated(&target),
    }
}

/// What a calibrated machine has.
fn calibrated(target: &Target) -> Result<SmallerMachine, Failure> {
    let kept = KeptProfile::of(target)?;
    let squeeze = kept.squeeze().ok_or_else(|| {
        let name = match target {
            Target::Native => "native".to_owned(),
            Target::Simulated(model) => format!("sim:{}", model.name),
        };
        Failure::Measurement(format!(
            "{name} is not calibrated: 'memwall squeeze --calibrate --on {name}' does that"
        ))
    })?;
    let whole = |kind| squeeze.whole(kind).map(Amount::Absolute);
    Ok(SmallerMachine {
        cache: whole(machine::squeezing::SqueezeKind::Storage),
        bandwidth: Some(Amount::Absolute(squeeze.bandwidth)),
    })
}
