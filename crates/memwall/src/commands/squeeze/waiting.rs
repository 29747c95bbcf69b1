//! Which of the two insensitive cases a program is (casas2017 §1): one that waits for loads overflows the cache, one that does
//! not lives above it. Told by memwall's own timer, in one run more.

use std::{
    env,
    ffi::OsString,
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use record::squeeze::{ProgramClass, SqueezeRun};

use crate::{commands::recording, failure::Failure};

/// Share of user time in waiting for loads above which data comes from further away than a core's own caches.
const WAITS: f64 = 0.10;

/// Sets the class, and says what it rests on; leaves it where nothing can be sampled.
pub(super) fn tell_apart(run: &mut SqueezeRun, command: &[OsString], input: Option<&Path>) {
    match waiting_on_loads(command, input) {
        Ok(share) => {
            let (class, sentence) = judged(share);
            if let Some(class) = class {
                run.class = class;
            }
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

/// Runs `memwall run` on it, and reads the share of waiting for loads.
fn waiting_on_loads(command: &[OsString], input: Option<&Path>) -> Result<[f64; 3], String> {
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
        .args([OsString::from("run"), "--output".into(), recording.into(), json_flag, "--".into()])
        .args(command)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(said)?;
    let text =
        std::fs::read_to_string(&json).map_err(|_| format!("'memwall run' on it ended with {status}"))?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let share = |end: &str| document["verdict"]["loads"][end].as_f64();
    match (share("low"), share("value"), share("high")) {
        (Some(low), Some(value), Some(high)) => Ok([low, value, high]),
        _ => Err("'memwall run' has too few samples of it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_tells_the_two_apart() {
        assert_eq!(judged([0.5, 0.6, 0.7]).0, Some(ProgramClass::Overflows));
        assert_eq!(judged([0.0, 0.01, 0.04]).0, Some(ProgramClass::LivesAbove));
        let (open, said) = judged([0.05, 0.1, 0.2]);
        assert_eq!(open, None);
        assert!(said.contains("5 to 20") && said.contains("leaves open"), "{said}");
    }
}
