//! Recordings: older ones stay, and what is said of new ones is true.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    time::Duration,
};

use prerequisites::Need;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, memwall, mode, said, until},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a recording fails before the program starts",
        must_hold: "the older recording of that name stays as it is, alone",
        held: failed_recording,
    },
    Fault {
        name: "there is an older recording of that name",
        must_hold: "it is kept beside the new one, and that is said",
        held: older_recording,
    },
    Fault {
        name: "what stands in the way of a recording is no recording",
        must_hold: "it is not overwritten, and the program does not start",
        held: strangers_in_the_way,
    },
    Fault {
        name: "two recorders, one file",
        must_hold: "the second fails at once, the first is not disturbed",
        held: two_recorders,
    },
    Fault {
        name: "a recording is removed, replaced or moved meanwhile",
        must_hold: "that is said, and nothing is said to be kept",
        held: taken_away,
    },
    Fault {
        name: "a reader holds the recording to its end",
        must_hold: "every sample that is said to be in it is in it",
        held: held_by_reader,
    },
    Fault {
        name: "memwall is killed before its recording took its place",
        must_hold: "the next recording of that name finds no obstacle",
        held: half_begun,
    },
    Fault {
        name: "the disk is full before or while the program runs",
        must_hold: "its output stays; a recording that is lost is said, exit code 1",
        held: full_disk,
    },
    Fault {
        name: "two thirds of the kernel's records are lost",
        must_hold: "times are the kernel's, what is estimated is marked",
        held: lost_records,
    },
    Fault {
        name: "memwall is killed and leaves its folders",
        must_hold: "the next one removes what nobody needs; the doctor shows the rest",
        held: left_behind,
    },
    Fault {
        name: "helpers of the program outlive it",
        must_hold: "the library stays for them, and goes with a later recording",
        held: outlived,
    },
    Fault {
        name: "what looks left behind is not, or is another user's",
        must_hold: "it is not touched",
        held: not_left_behind,
    },
];

/// Works for some time, or until there is a file `enough`.
const BUSY: &str = "i=0; end=$(($(date +%s) + SECONDS_TO_GO)); \
                    while [ ! -e enough ] && [ $(date +%s) -lt $end ]; do j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done; done";

fn busy(seconds: u32) -> String {
    BUSY.replace("SECONDS_TO_GO", &seconds.to_string())
}

fn record(place: &Place, program: &[&str]) -> Output {
    let arguments = [&["record", "-o", "a.sqlite", "--"], program].concat();
    place.memwall(&arguments).output().expect("it starts")
}

/// Begins a recording of a program that works for some seconds; comes back when the program runs.
fn begun(place: &Place, command: &[&str], seconds: u32) -> Child {
    let program = format!("echo > began; {}", busy(seconds));
    let mut memwall = place.memwall(&[command, &["--", "sh", "-c", &program]].concat());
    let child = memwall.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    until("the program began", || place.path("began").exists());
    // Behind the first commit.
    std::thread::sleep(Duration::from_millis(900));
    child
}

/// What `memwall report` says of a recording.
fn findings(place: &Place, file: &str) -> Value {
    let report = place.memwall(&["report", file, "--json"]).output().expect("it starts");
    assert!(report.status.success(), "{file}: {}", said(&report.stderr));
    serde_json::from_slice(&report.stdout).expect("JSON")
}

fn about(place: &Place, file: &str) -> Value {
    findings(place, file)["about"].clone()
}

/// The number of samples that memwall says are in the recording.
fn claimed(stderr: &str) -> Option<u64> {
    stderr.lines().find_map(|line| line.strip_prefix("memwall: ")?.split_once(" samples in ")?.0.parse().ok())
}

/// Names of what is in the folder and begins like the recording.
fn beside(place: &Place) -> Vec<String> {
    let mut names = names_in(&place.path("."));
    names.retain(|name| name.starts_with("a.sqlite"));
    names
}

fn failed_recording() -> Tried {
    let place = Place::new();
    assert!(record(&place, &["true"]).status.success());
    let before = fs::read(place.path("a.sqlite")).expect("a recording");
    let script = place.path("script");
    prerequisites::write_script("#! /no/such/interpreter\n", &script);
    let source = include_str!("../../../../examples/odd/denied.c");
    let Some(denied) = place.build("cc", "denied", source, &[]) else { return Missing(Need::Program("cc")) };
    let mut refused = place.command(denied);
    refused.args([memwall(), "record", "--need-samples", "-o", "a.sqlite", "--", "true"]);
    for output in [
        record(&place, &["./script"]),
        record(&place, &["no-such-program"]),
        refused.output().expect("it starts"),
        place.memwall(&["record", "-o", "a.sqlite", "--pid", "4194304"]).output().expect("it starts"),
    ] {
        assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
        assert!(fs::read(place.path("a.sqlite")).is_ok_and(|now| now == before), "{}", said(&output.stderr));
        assert_eq!(beside(&place), ["a.sqlite"], "{}", said(&output.stderr));
    }
    Held
}

fn older_recording() -> Tried {
    let place = Place::new();
    let code = |file| about(&place, file)["ending"]["exited"].clone();
    for (exits, words) in [(3, None), (4, Some("a.sqlite.old")), (5, Some("in place of"))] {
        let output = record(&place, &["sh", "-c", &format!("exit {exits}")]);
        assert_eq!(output.status.code(), Some(exits));
        let said = said(&output.stderr);
        assert_eq!(said.contains("older"), words.is_some(), "{said}");
        assert!(words.is_none_or(|words| said.contains(words)), "{said}");
    }
    assert_eq!((code("a.sqlite"), code("a.sqlite.old")), (5.into(), 4.into()));
    assert_eq!(beside(&place), ["a.sqlite", "a.sqlite.old"]);
    assert_eq!(mode(&place.path("a.sqlite")), 0o600);
    Held
}

fn strangers_in_the_way() -> Tried {
    for (name, needs_older) in [("a.sqlite", false), ("a.sqlite.part", false), ("a.sqlite.old", true)] {
        let place = Place::new();
        if needs_older {
            assert!(record(&place, &["true"]).status.success());
        }
        let refuses = || {
            let output = record(&place, &["touch", "started"]);
            assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
            assert!(said(&output.stderr).contains(&format!("{name}: exists")), "{}", said(&output.stderr));
            assert!(!place.path("started").exists(), "{name}");
        };
        fs::write(place.path(name), "a letter").expect("written");
        refuses();
        assert_eq!(fs::read_to_string(place.path(name)).expect("there"), "a letter");
        fs::remove_file(place.path(name)).expect("ours");
        // Nothing is written where a link leads.
        fs::write(place.path("elsewhere"), "").expect("written");
        symlink("elsewhere", place.path(name)).expect("made");
        let _ = record(&place, &["true"]);
        assert_eq!(fs::read_to_string(place.path("elsewhere")).expect("there"), "", "{name}");
    }
    Held
}

fn two_recorders() -> Tried {
    let place = Place::new();
    let mut first = begun(&place, &["record", "-o", "a.sqlite"], 60);
    let second = record(&place, &["touch", "started"]);
    assert_eq!(second.status.code(), Some(1), "{}", said(&second.stderr));
    assert!(said(&second.stderr).contains("another memwall is recording into it"), "{second:?}");
    assert!(!place.path("started").exists());
    assert!(first.try_wait().expect("a child").is_none(), "the second waited for the first");
    fs::write(place.path("enough"), "").expect("written");
    let first = first.wait_with_output().expect("a child");
    assert_eq!(first.status.code(), Some(0));
    let words = said(&first.stderr);
    assert_eq!(claimed(&words), about(&place, "a.sqlite")["samples"].as_u64(), "{words}");
    // Nobody is left who holds it.
    assert!(record(&place, &["true"]).status.success());
    Held
}

fn taken_away() -> Tried {
    for (deed, words) in [
        ("rm a.sqlite", "removed"),
        ("echo letter > other; mv other a.sqlite", "removed"),
        ("> a.sqlite", "kept"),
        ("mv a.sqlite b.sqlite", "moved"),
    ] {
        for command in [&["record", "-o", "a.sqlite"][..], &["run", "--to", "b.txt", "-o", "a.sqlite"]] {
            let place = Place::new();
            let memwall = begun(&place, command, 3);
            assert!(place.shell(deed).status.success());
            let output = memwall.wait_with_output().expect("a child");
            let heard = said(&output.stderr);
            assert!(
                heard.contains("nothing is kept in a.sqlite") && heard.contains(words),
                "{deed}: {heard}"
            );
            assert!(!heard.contains("is kept:") && claimed(&heard).is_none(), "{deed}: {heard}");
            assert!(!heard.contains("before is kept"), "{deed}: {heard}");
            assert_eq!(output.status.code(), Some(1), "{deed}");
            if deed.contains("letter") {
                assert_eq!(fs::read_to_string(place.path("a.sqlite")).expect("theirs"), "letter\n");
            }
        }
    }
    Held
}

fn held_by_reader() -> Tried {
    let place = Place::new();
    let memwall = begun(&place, &["record", "-o", "a.sqlite"], 4);
    let reader = Connection::open(place.path("a.sqlite")).expect("a recording");
    reader.execute_batch("BEGIN").expect("a reader");
    let count = || -> i64 {
        reader.query_row("SELECT count(*) FROM sample", [], |row| row.get(0)).expect("a number")
    };
    let before = count();
    let output = memwall.wait_with_output().expect("a child");
    assert_eq!(count(), before, "a transaction sees one moment");
    drop(reader);
    let words = said(&output.stderr);
    let found = about(&place, "a.sqlite");
    assert_eq!(claimed(&words), found["samples"].as_u64(), "{words}");
    assert_eq!(found["ending"]["exited"], 0, "{words}");
    assert_eq!(beside(&place), ["a.sqlite"], "{words}");
    Held
}

fn half_begun() -> Tried {
    let place = Place::new();
    assert!(record(&place, &["true"]).status.success());
    fs::copy(place.path("a.sqlite"), place.path("a.sqlite.part")).expect("copied");
    // As a kill within a commit leaves it.
    fs::write(place.path("a.sqlite-journal"), [0xd9, 0xd5, 5, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
        .expect("written");
    let output = record(&place, &["sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output.stderr));
    assert_eq!(about(&place, "a.sqlite")["ending"]["exited"], 3);
    assert!(!beside(&place).iter().any(|name| name.ends_with(".part")), "{:?}", beside(&place));
    Held
}

/// On a disk with so little room; `$memwall run` writes there, as does the program.
fn on_small_disk(place: &Place, kib: u32, script: &str) -> Option<Output> {
    fs::create_dir_all(place.path("disk")).expect("made");
    let mounted = format!("mount -t tmpfs -o size={kib}k none disk && echo mounted >&2 && {{ {script}; }}");
    let output = place
        .command("unshare")
        .args(["--mount", "bash", "-c", &mounted])
        .env("memwall", memwall())
        .output()
        .ok()?;
    said(&output.stderr).contains("mounted").then_some(output)
}

fn full_disk() -> Tried {
    let place = Place::new();
    // Not even an empty recording has room: the program does not start for a measurement that cannot be.
    let start = "$memwall run -o disk/a.sqlite -- sh -c 'echo own; exit 3'";
    let Some(output) = on_small_disk(&place, 64, start) else { return Missing(Need::Root) };
    let heard = said(&output.stderr);
    assert_eq!((said(&output.stdout).as_str(), output.status.code()), ("", Some(1)), "{heard}");
    assert!(heard.contains("the disk of disk is full") && heard.contains("-o FILE"), "{heard}");
    assert!(!heard.contains("you may write to"), "permissions are not what is missing: {heard}");
    // The program fills it: what was measured before is kept in the room that was reserved, and its exit code is its own.
    let fill = "head -c 20000000 /dev/zero > disk/rest 2>/dev/null";
    let some = format!("$memwall run -o disk/a.sqlite -- bash -c 'echo own; {fill}; {}; exit 3'", busy(3));
    let output = on_small_disk(&place, 1024, &some).expect("as before");
    let heard = said(&output.stderr);
    assert_eq!((said(&output.stdout).as_str(), output.status.code()), ("own\n", Some(3)), "{heard}");
    // And where the recording is gone as well, the measurement has failed.
    let gone = format!(
        "$memwall run -o disk/a.sqlite -- bash -c 'echo own; until rm disk/a.sqlite; do :; done 2>/dev/null; {fill}; {}; exit 3'",
        busy(2)
    );
    let output = on_small_disk(&place, 1024, &gone).expect("as before");
    let heard = said(&output.stderr);
    assert_eq!((said(&output.stdout).as_str(), output.status.code()), ("own\n", Some(1)), "{heard}");
    assert!(heard.contains("nothing is kept in disk/a.sqlite"), "{heard}");
    // A recording that nobody asked to keep lies among the temporary files.
    let passing = format!("TMPDIR=$PWD/disk $memwall run -- bash -c 'echo own; {fill}; {}; exit 3'", busy(3));
    let output = on_small_disk(&place, 1024, &passing).expect("as before");
    let heard = said(&output.stderr);
    assert_eq!((said(&output.stdout).as_str(), output.status.code()), ("own\n", Some(3)), "{heard}");
    Held
}

fn lost_records() -> Tried {
    let place = Place::new();
    fs::write(place.path("a.sqlite"), include_bytes!("../run/recordings/imbalance.sqlite")).expect("written");
    let recording = Connection::open(place.path("a.sqlite")).expect("a recording");
    let lost = recording.execute("DELETE FROM sample WHERE id % 3 <> 0", []).expect("samples");
    recording
        .execute("UPDATE about SET value = ? WHERE key = 'lost_samples'", [lost as i64])
        .expect("one row");
    drop(recording);
    let found = findings(&place, "a.sqlite");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {value}"));
    let used = number(&found["about"]["usage"]["value"]["user_ns"]);
    let is_near = |ns: f64| (ns / used - 1.0).abs() < 0.05;
    assert!(is_near(number(&found["account"]["user_ns"])), "{} of {used}", found["account"]);
    let threads = found["threads"].as_array().expect("threads");
    let together = threads.iter().map(|thread| number(&thread["account"]["user_ns"])).sum();
    assert!(is_near(together), "{together} of {used}");
    assert_eq!(found["account"]["estimated"]["running"], false);
    assert_eq!(found["account"]["estimated"]["waiting"], true);
    assert!(threads.iter().all(|thread| thread["account"]["estimated"]["running"] == true));
    assert_eq!(found["verdict"]["confidence"], "low");
    let report = place.memwall(&["report", "a.sqlite", "--verbose"]).output().expect("it starts");
    let text = said(&report.stdout);
    for mark in ["estimated since records were lost", "s kernel, ~", "; others were lost", "are estimates"] {
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(mark), "{mark}: {text}");
    }
    Held
}

/// A folder for temporary files with nobody else's in it.
fn temporary(place: &Place) -> PathBuf {
    let folder = place.path("tmp");
    fs::create_dir(&folder).expect("made");
    folder
}

/// Names in a folder, in order.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn left_behind() -> Tried {
    let place = Place::new();
    let temporary = temporary(&place);
    let with = |arguments: &[&str]| {
        let mut memwall = place.memwall(arguments);
        memwall.env("TMPDIR", &temporary).env("COLUMNS", "400");
        memwall
    };
    let run = || {
        let output = with(&["run", "--", "true"]).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output.stderr));
    };
    let mut memwall = with(&["run", "--", "sh", "-c", "echo $$ > began; while :; do sleep 0.2; done"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let program = || fs::read_to_string(place.path("began")).unwrap_or_default().trim().parse::<i32>().ok();
    until("the program began", || program().is_some());
    let number = program().expect("its number");
    let program = Pid::from_raw(number).expect("a number");
    let begun = names_in(&temporary);
    assert_eq!(begun.len(), 2, "{begun:?}");
    // While memwall lives nobody touches them.
    run();
    assert_eq!(names_in(&temporary), begun);
    memwall.kill().and_then(|()| memwall.wait()).expect("killed");
    let doctor = || -> Vec<Value> {
        let output = with(&["doctor", "--json"]).output().expect("it starts");
        let mut found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = found["leftovers"].as_array_mut().expect("a list");
        all.retain(|one| {
            one["path"].as_str().is_some_and(|path| path.contains(&*temporary.to_string_lossy()))
        });
        all.sort_by_key(|one| one["path"].to_string());
        all.iter().map(|one| one["fate"].clone()).collect()
    };
    let fates = doctor();
    assert!(
        fates[0]["needed_by"].as_array().is_some_and(|users| users.contains(&number.into())),
        "{fates:?}"
    );
    assert_eq!(fates[1], "next_recording");
    let words = said(&with(&["doctor"]).output().expect("it starts").stdout);
    for name in &begun {
        assert!(words.contains("Left behind by") && words.contains(name), "{name}: {words}");
    }
    // The program goes on, and what it starts is to find the library.
    run();
    assert_eq!(names_in(&temporary), begun[..1]);
    kill_process(program, Signal::KILL).expect("it goes on");
    until("nobody needs the library", || doctor() == ["next_recording"]);
    run();
    assert_eq!(names_in(&temporary), Vec::<String>::new());
    assert_eq!(doctor(), Vec::<Value>::new());
    Held
}

fn outlived() -> Tried {
    let place = Place::new();
    let temporary = temporary(&place);
    let run = |script: &str| {
        let mut memwall = place.memwall(&["run", "--text", "report.txt", "--", "sh", "-c", script]);
        let output = memwall.env("TMPDIR", &temporary).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output.stderr));
        said(&output.stderr)
    };
    // It waits for a word, and starts another program then: that one loads the library.
    let heard = run("(until [ -e end ]; do sleep 0.1; done; ls end > found 2>&1) >/dev/null 2>&1 & exit 0");
    let left = names_in(&temporary);
    assert!(left.len() == 1 && heard.contains(&left[0]), "{left:?}: {heard}");
    run("true");
    assert_eq!(names_in(&temporary), left, "somebody needs it");
    fs::write(place.path("end"), "").expect("written");
    let found = || fs::read_to_string(place.path("found")).unwrap_or_default();
    until("the helper ended", || !found().is_empty());
    assert_eq!(found(), "end\n", "no complaint of the loader");
    until("nobody needs it", || {
        run("true");
        names_in(&temporary).is_empty()
    });
    Held
}

fn not_left_behind() -> Tried {
    let place = Place::new();
    let temporary = temporary(&place);
    let elsewhere = place.path("elsewhere");
    for folder in [&elsewhere, &temporary.join("memwall-run-kept"), &temporary.join("memwall-else")] {
        fs::create_dir(folder).expect("made");
        fs::write(folder.join("letter"), "").expect("written");
    }
    // As a memwall that was killed would have marked it, but behind a link, or of another user.
    fs::write(elsewhere.join("in-use"), "").expect("written");
    fs::write(temporary.join("memwall-else/in-use"), "").expect("written");
    symlink(&elsewhere, temporary.join("memwall-run-link")).expect("made");
    let marked_by_link = temporary.join("memwall-run-mark");
    fs::create_dir(&marked_by_link).expect("made");
    symlink(elsewhere.join("in-use"), marked_by_link.join("in-use")).expect("made");
    if rustix::process::geteuid().is_root() {
        let others = temporary.join("memwall-run-others");
        fs::create_dir(&others).expect("made");
        fs::write(others.join("in-use"), "").expect("written");
        std::os::unix::fs::chown(&others, Some(65534), None).expect("root may");
    }
    let before = names_in(&temporary);
    let mut run = place.memwall(&["run", "--", "true"]);
    assert!(run.env("TMPDIR", &temporary).output().expect("it starts").status.success());
    assert_eq!(names_in(&temporary), before);
    assert_eq!(names_in(&elsewhere), ["in-use", "letter"]);
    Held
}
