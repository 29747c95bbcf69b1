//! What memwall says of plain loops that were recorded on machines of several makes, against what their data cost them there.
//!
//! Recorded with `cargo bench -p memwall --bench loops -- SET --keep FOLDER` on loops that no rule was made on, and made
//! small with `tests/loops/keep`. Each folder holds the machine's profile, the recordings, and `truth.tsv`: loop, bytes, the two
//! truths, and the levels that are right. The machines were not validated.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use flate2::read::GzDecoder;
use serde_json::Value;

/// One loop at one size.
struct KeptCase {
    name: String,
    truth: f64,
    levels: Vec<String>,
    findings: Value,
}

impl KeptCase {
    fn memory(&self) -> Option<[f64; 3]> {
        let memory = &self.findings["verdict"]["memory"];
        Some([memory["value"].as_f64()?, memory["low"].as_f64()?, memory["high"].as_f64()?])
    }

    fn error(&self) -> Option<f64> {
        let is_decided = self.findings["verdict"]["held_back"] != "unknown";
        self.memory().filter(|_| is_decided).map(|[value, ..]| (value - self.truth).abs())
    }

    fn is_high(&self) -> bool {
        self.findings["verdict"]["confidence"] == "high"
    }

    /// The level named; none if it hardly waits, or none was named.
    fn is_level_right(&self) -> Option<bool> {
        let first = &self.findings["levels"]["value"]["parts"][0]["level"];
        let cache = first["cache"].as_u64().map(|number| format!("L{number}"));
        let named = cache.or_else(|| first.as_str().map(str::to_owned))?;
        (self.truth > 0.2 && !self.levels.is_empty()).then(|| self.levels.contains(&named))
    }
}

fn folder(machine: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loops").join(machine)
}

/// All cases whose truths were steady to three points.
fn cases(machine: &str) -> Vec<KeptCase> {
    let folder = folder(machine);
    let home = tempfile::tempdir().unwrap();
    let profiles = home.path().join("memwall/profiles");
    fs::create_dir_all(&profiles).unwrap();
    for file in fs::read_dir(folder.join("profiles")).unwrap().flatten() {
        fs::copy(file.path(), profiles.join(file.file_name())).unwrap();
    }
    let truth = fs::read_to_string(folder.join("truth.tsv")).unwrap();
    let case = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        let [name, bytes, first, second, levels] = words[..] else { panic!("{line}") };
        let (first, second): (f64, f64) = (first.parse().unwrap(), second.parse().unwrap());
        if (first - second).abs() > 0.03 {
            return None;
        }
        let name = format!("{name}-{bytes}");
        let kept = fs::File::open(folder.join(&name).with_extension("sqlite.gz")).unwrap();
        let recording = home.path().join(&name).with_extension("sqlite");
        std::io::copy(&mut GzDecoder::new(kept), &mut fs::File::create(&recording).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.env("XDG_DATA_HOME", home.path()).arg("report").arg(recording).arg("--json");
        let output = command.output().unwrap();
        let findings = serde_json::from_slice(&output.stdout).unwrap();
        let levels = levels.split('/').filter(|level| !level.is_empty()).map(str::to_owned).collect();
        Some(KeptCase { name, truth: (first + second) / 2.0, levels, findings })
    };
    truth.lines().filter_map(case).collect()
}

fn part(of: usize, all: usize) -> f64 {
    of as f64 / all.max(1) as f64
}

/// Nothing is called sure that nobody tried, bounds hold, and most is decided.
fn judge(machine: &str) {
    let cases = cases(machine);
    assert!(cases.len() >= 15, "{machine}: {} cases", cases.len());
    let named = |chosen: &dyn Fn(&&KeptCase) -> bool| -> Vec<&str> {
        cases.iter().filter(|case| chosen(case)).map(|case| case.name.as_str()).collect()
    };
    let high = named(&|case| case.is_high());
    assert!(high.is_empty(), "{machine} was not validated, yet sure of {high:?}");
    let missed = named(&|case| {
        case.memory().is_none_or(|[_, low, high]| case.truth < low - 0.03 || case.truth > high + 0.03)
    });
    let held = part(cases.len() - missed.len(), cases.len());
    assert!(held >= LEAST_HELD, "{machine}: intervals of {missed:?} of {} miss", cases.len());
    let mut errors: Vec<f64> = cases.iter().filter_map(KeptCase::error).collect();
    errors.sort_by(f64::total_cmp);
    let decided = part(errors.len(), cases.len());
    assert!(decided >= LEAST_DECIDED, "{machine}: {} of {}", errors.len(), cases.len());
    assert!(errors[errors.len() / 2] <= 0.05, "{machine}: median {}", errors[errors.len() / 2]);
    let wrong = named(&|case| case.is_level_right() == Some(false));
    let levels = cases.iter().filter_map(KeptCase::is_level_right).count();
    assert!(part(levels - wrong.len(), levels) >= LEAST_RIGHT, "{machine}: levels of {wrong:?} of {levels}");
}

/// What these cases gave when they were kept, rounded down; 9 of 10 is what is aimed at.
const LEAST_HELD: f64 = 0.8;
const LEAST_DECIDED: f64 = 0.8;
const LEAST_RIGHT: f64 = 0.8;

#[test]
fn loops_on_emerald_rapids() {
    judge("emerald-rapids");
}

#[test]
fn loops_on_zen_4() {
    judge("zen4");
}
