//! What people have and must not lose.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use prerequisites::Need;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, memwall, said},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a calibration is interrupted",
        must_hold: "the whole profile of before is kept, and that is said",
        held: interrupted_calibration,
    },
    Fault {
        name: "a calibration is quicker than the one that is kept",
        must_hold: "the thorough profile is kept unless --replace",
        held: quicker_calibration,
    },
    Fault {
        name: "a profile or a validation cannot be read",
        must_hold: "it is not overwritten",
        held: unreadable_profile,
    },
    Fault {
        name: "a validation tries fewer indicators than the one that is kept",
        must_hold: "the better one is kept, and that is said; --replace",
        held: poorer_validation,
    },
    Fault {
        name: "perf_event is refused to a validation",
        must_hold: "the validation of before is kept",
        held: refused_validation,
    },
    Fault {
        name: "a report cannot be written where it was asked for",
        must_hold: "that is said before the program starts, with exit code 2",
        held: no_place_for_report,
    },
    Fault {
        name: "the folder for temporary files is not there (TMPDIR)",
        must_hold: "the program runs, and there is a report",
        held: no_temporary_folder,
    },
    Fault {
        name: "a report cannot be written after all",
        must_hold: "the recording is kept, and where is said",
        held: report_fails,
    },
];

const TINY: [&str; 2] = ["--on", "sim:tiny"];

/// The only JSON of a folder in memwall's data directory.
fn only_file(place: &Place, folder: &str) -> PathBuf {
    let folder = place.path("data/memwall").join(folder);
    let files = fs::read_dir(folder).expect("there").map(|entry| entry.expect("an entry").path());
    let files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == "json")).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

fn calibrate(place: &Place, more: &[&str]) -> std::process::Output {
    place.memwall(&[&TINY[..], &["calibrate"], more].concat()).output().expect("it starts")
}

fn interrupted_calibration() -> Tried {
    let place = Place::new();
    assert!(calibrate(&place, &["--quick"]).status.success());
    let file = only_file(&place, "profiles");
    let before = fs::read(&file).expect("a profile");
    // The moment differs from machine to machine; whenever it comes, the profile stays.
    for delay_ms in [100, 200, 400, 800, 1600, 3200] {
        let mut child = place.memwall(&[&TINY[..], &["calibrate"]].concat());
        let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill_process(Pid::from_child(&child), Signal::INT).expect("nobody has waited for it");
        let output = child.wait_with_output().expect("a child");
        assert_eq!(
            fs::read(&file).expect("a profile"),
            before,
            "after {delay_ms} ms: {}",
            said(&output.stderr)
        );
        if said(&output.stderr).contains("this profile was not kept: it is interrupted") {
            return Held;
        }
    }
    panic!("it was never interrupted while it measured");
}

fn quicker_calibration() -> Tried {
    let place = Place::new();
    assert!(calibrate(&place, &["--quick"]).status.success());
    let file = only_file(&place, "profiles");
    // As a thorough one would have left it.
    let text = fs::read_to_string(&file).expect("a profile").replace("\"quick\": true", "\"quick\": false");
    fs::write(&file, &text).expect("written");
    let output = calibrate(&place, &["--quick"]);
    assert!(said(&output.stderr).contains("it is quick, and the thorough one"), "{output:?}");
    assert_eq!(fs::read_to_string(&file).expect("a profile"), text);
    assert!(calibrate(&place, &["--quick", "--replace"]).status.success());
    assert!(fs::read_to_string(&file).expect("a profile").contains("\"quick\": true"));
    Held
}

fn unreadable_profile() -> Tried {
    let place = Place::new();
    assert!(calibrate(&place, &["--quick"]).status.success());
    let profile = only_file(&place, "profiles");
    let trust = place.path("data/memwall/trust").join(profile.file_name().expect("a name"));
    fs::create_dir_all(trust.parent().expect("a folder")).expect("made");
    for (file, command) in [(&profile, "calibrate"), (&trust, "validate")] {
        fs::write(file, "{ half a file").expect("written");
        let output = place.memwall(&[&TINY[..], &[command, "--quick"]].concat()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output.stderr).contains("move it away"), "{output:?}");
        assert_eq!(fs::read_to_string(file).expect("kept"), "{ half a file");
    }
    Held
}

fn no_place_for_report() -> Tried {
    let place = Place::new();
    let refused = |command: &[&str], flag: &str, rest: &[&str]| {
        let output = place.memwall(&[command, &[flag], rest].concat()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{command:?} {flag}: {output:?}");
        assert!(said(&output.stderr).contains("cannot write no/such/a"), "{output:?}");
        assert!(!place.path("started").exists(), "{command:?} {flag}");
    };
    let program = ["--", "touch", "started"];
    for flag in ["--html=no/such/a", "--json=no/such/a", "--text=no/such/a", "--to=no/such/a"] {
        refused(&["run"], flag, &program);
        refused(&["count", "-e", "page-faults"], flag, &program);
    }
    refused(&["count", "-e", "page-faults"], "--csv=no/such/a", &program);
    // It would take minutes.
    let scenario = ["scenario", "bandwidth-compute", "--on", "sim:haswell-ep-e5-2695v3"];
    for flag in ["--json=no/such/a", "--text=no/such/a", "--output=no/such/a"] {
        refused(&scenario, flag, &[]);
    }
    // What can be written is left as it was until there is something to write.
    fs::write(place.path("a.json"), "older").expect("written");
    let output =
        place.memwall(&["run", "--json=a.json", "--html=no/a", "--", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read_to_string(place.path("a.json")).expect("there"), "older");
    Held
}

fn no_temporary_folder() -> Tried {
    let place = Place::new();
    for folder in ["/no/such", "/proc", ""] {
        let mut command = place.memwall(&["run", "--", "sh", "-c", "exit 7"]);
        let output = command.env("TMPDIR", folder).output().expect("it starts");
        assert_eq!(output.status.code(), Some(7), "{folder}: {output:?}");
        assert!(said(&output.stderr).contains("exit code 7"), "{folder}: {output:?}");
    }
    Held
}

fn report_fails() -> Tried {
    let place = Place::new();
    let program = ["rm", "-r", "folder"];
    fs::create_dir(place.path("folder")).expect("made");
    let arguments = [&["run", "--html", "folder/a.html", "--"][..], &program[..]].concat();
    let output = place.memwall(&arguments).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let words = said(&output.stderr);
    let kept =
        words.split("'memwall report ").nth(1).and_then(|rest| rest.split('\'').next()).expect("a place");
    let report = place.memwall(&["report", kept, "--json"]).output().expect("it starts");
    assert!(report.status.success(), "{report:?}");
    fs::remove_dir_all(std::path::Path::new(kept).parent().expect("a folder")).expect("ours");
    Held
}

/// A validation of this machine that was tried on, say, a kernel that allowed more.
fn validated(place: &Place) -> (PathBuf, String) {
    let output = place.memwall(&["validate", "--quick", "--json"]).output().expect("it starts");
    let mut found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let indicators = found["indicators"].as_array_mut().expect("a list");
    let trusted = indicators.iter().find(|one| one["trust"]["trust"] != "untested").expect("one was tried");
    indicators.push(trusted.clone());
    let file = only_file(place, "trust");
    let text = serde_json::to_string_pretty(&found).expect("JSON");
    fs::write(&file, &text).expect("written");
    (file, text)
}

fn poorer_validation() -> Tried {
    let place = Place::new();
    let (file, text) = validated(&place);
    let output = place.memwall(&["validate", "--quick"]).output().expect("it starts");
    assert!(said(&output.stderr).contains("this validation was not kept"), "{output:?}");
    // What random kernels showed is of all that were ever drawn; everything else stays.
    let parsed = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let (mut before, mut after) = (parsed(&text), parsed(&fs::read_to_string(&file).expect("kept")));
    let kernels = |kept: &mut Value| kept["unseen"].take()["all"]["kernels"].as_u64();
    assert!(kernels(&mut before) <= kernels(&mut after));
    assert_eq!(before, after);
    let output = place.memwall(&["validate", "--quick", "--replace"]).output().expect("it starts");
    assert!(output.status.success() && !said(&output.stderr).contains("not kept"), "{output:?}");
    assert_ne!(fs::read_to_string(&file).expect("kept"), text);
    Held
}

fn refused_validation() -> Tried {
    let place = Place::new();
    let (file, text) = validated(&place);
    let source = include_str!("../../../../examples/odd/denied.c");
    let Some(denied) = place.build("cc", "denied", source, &[]) else { return Missing(Need::Program("cc")) };
    let mut command = place.command(denied);
    let output = command.args([memwall(), "validate", "--quick"]).output().expect("it starts");
    assert!(said(&output.stderr).contains("this validation was not kept"), "{output:?}");
    assert_eq!(fs::read_to_string(&file).expect("kept"), text);
    Held
}
