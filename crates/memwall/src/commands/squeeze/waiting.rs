//! Which of the two insensitive cases a program is (casas2017 §1): one that waits for loads overflows the cache, one that does
//! not lives above it. Told by memwall's own timer, in one run more.

use std::{
    env,
    ffi::OsString,
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use machine::squeezing::{KnownPattern, KnownProgram, SqueezeProfile};
use record::run::Run;
use record::squeeze::{ProgramClass, SqueezeEnd, SqueezeRun, SqueezedRun};
use squeeze::scenario::LinesBrought;

use crate::{commands::recording, failure::Failure};

/// Share of user time in waiting for loads above which data comes from further away than a core's own caches.
const WAITS: f64 = 0.10;

/// Whether where its data comes from adds to what was measured.
pub(super) fn tells_more(run: &SqueezeRun) -> bool {
    let open = matches!(run.class, ProgramClass::Insensitive | ProgramClass::BandwidthHarmless);
    open && run.ended != SqueezeEnd::Interrupted
}

/// Where less cache was not tried it is not known to be harmless: what was sampled is said then, and the class stays.
fn conclude(run: &mut SqueezeRun, class: Option<ProgramClass>) {
    if let (ProgramClass::Insensitive, Some(class)) = (run.class, class) {
        run.class = class;
    }
}

/// The same of a scenario, whose lines are known by what it does: `brought` from beyond caches of each core, and from beyond the
/// shared one. Says nothing where the profile has no time of a line from memory.
pub(super) fn tell_scenario_apart(run: &mut SqueezeRun, brought: LinesBrought, profile: &SqueezeProfile) {
    let alone = run.runs.iter().find(|run| run.interference.is_none()).and_then(|run: &SqueezedRun| run.ns);
    let chases = profile.known.iter().filter(|known| known.pattern == KnownPattern::Chase);
    let from_memory = chases.map(|known: &KnownProgram| known.line_ns).max_by(f64::total_cmp);
    let Some((alone_ns, line_ns)) = alone.zip(from_memory) else { return };
    let (class, sentence) = brought_judged(brought, alone_ns * run.cpus.len() as f64, line_ns);
    conclude(run, class);
    run.evidence.push(sentence);
}

/// `time_ns`: of all its threads. `line_ns`: of one line from memory, waited for alone.
fn brought_judged(brought: LinesBrought, time_ns: f64, line_ns: f64) -> (Option<ProgramClass>, String) {
    let LinesBrought { beyond_own, beyond_shared } = brought;
    let share = beyond_own * line_ns / time_ns;
    let lines = format!(
        "By what it does, it brings {beyond_own:.0} lines from beyond caches of its own, {beyond_shared:.0} of them from memory"
    );
    match (share < WAITS, beyond_shared >= beyond_own / 2.0) {
        (true, _) => (
            Some(ProgramClass::LivesAbove),
            format!(
                "{lines}: even one after the other from memory these were {:.1} % of its time.",
                share * 100.0
            ),
        ),
        (_, true) => {
            (Some(ProgramClass::Overflows), format!("{lines}: its data does not live in the cache."))
        }
        _ => (None, format!("{lines}: the shared cache serves it, and it can do with less.")),
    }
}

/// Sets the class, and says what it rests on; leaves it where nothing can be sampled.
pub(super) fn tell_apart(run: &mut SqueezeRun, command: &[OsString], input: Option<&Path>) {
    match waiting_on_loads(command, input) {
        Ok(share) => {
            let (class, sentence) = judged(share);
            conclude(run, class);
            run.evidence.push(sentence);
        }
        Err(why) => run
            .remarks
            .push(format!("Whether it lives above the cache or overflows it could not be told: {why}.")),
    }
}

/// The class that a share of waiting, with its ends, speaks for.
fn judged([low, value, high]: [f64; 3]) -> (Option<ProgramClass>, String) {
    let percent = |share: f64| share * 100.0;
    let sampled = format!(
        "Sampled once, it waits for loads {:.0} % of its user time ({:.0} to {:.0})",
        percent(value),
        percent(low),
        percent(high)
    );
    match (low > WAITS, high < WAITS) {
        (true, _) => (
            Some(ProgramClass::Overflows),
            format!("{sampled}: its data does not live in caches of its own."),
        ),
        (_, true) => (Some(ProgramClass::LivesAbove), format!("{sampled}: caches of its own hold its data.")),
        _ => (None, format!("{sampled}: that leaves open whether its data lives in caches of its own.")),
    }
}

/// The share of waiting for loads.
fn waiting_on_loads(command: &[OsString], input: Option<&Path>) -> Result<[f64; 3], String> {
    let (document, _) = sampled(command, input)?;
    let share = |end: &str| document["verdict"]["loads"][end].as_f64();
    match (share("low"), share("value"), share("high")) {
        (Some(low), Some(value), Some(high)) => Ok([low, value, high]),
        _ => Err("'memwall run' has too few samples of it".to_owned()),
    }
}

/// Runs `memwall run` on it, and reads its answer and its recording.
pub(super) fn sampled(
    command: &[OsString],
    input: Option<&Path>,
) -> Result<(serde_json::Value, Run), String> {
    let said = |error: std::io::Error| error.to_string();
    let (folder, recording) = recording::passing().map_err(Failure::line)?;
    let json = folder.path().join("squeezed.json");
    let mut json_flag = OsString::from("--json=");
    json_flag.push(&json);
    let stdin = match input {
        Some(path) => Stdio::from(File::open(path).map_err(said)?),
        None => Stdio::null(),
    };
    let status = Command::new(env::current_exe().map_err(said)?)
        .args([OsString::from("run"), "--output".into(), recording.clone().into(), json_flag, "--".into()])
        .args(command)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(said)?;
    let text =
        std::fs::read_to_string(&json).map_err(|_| format!("'memwall run' on it ended with {status}"))?;
    let document = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let run = record::file::read(&recording).map_err(|error| error.to_string())?;
    Ok((document, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_scenarios_apart() {
        let brought = |beyond_own, beyond_shared| LinesBrought { beyond_own, beyond_shared };
        let class = |brought| brought_judged(brought, 1e6, 100.0).0;
        assert_eq!(class(brought(128.0, 128.0)), Some(ProgramClass::LivesAbove));
        assert_eq!(class(brought(2e4, 2e4)), Some(ProgramClass::Overflows));
        assert_eq!(class(brought(2e4, 64.0)), None);
    }

    #[test]
    fn waiting_tells_the_two_apart() {
        assert_eq!(judged([0.5, 0.6, 0.7]).0, Some(ProgramClass::Overflows));
        assert_eq!(judged([0.0, 0.01, 0.04]).0, Some(ProgramClass::LivesAbove));
        let (open, said) = judged([0.05, 0.1, 0.2]);
        assert_eq!(open, None);
        assert!(said.contains("5 to 20") && said.contains("leaves open"), "{said}");
    }
}
