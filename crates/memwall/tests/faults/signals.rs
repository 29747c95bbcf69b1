//! Signals that memwall and its program get, and dispositions that they inherit.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use prerequisites::Need;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, memwall, said, until},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "the caller ignores SIGCHLD",
        must_hold: "the program's exit code comes out",
        held: ignored_sigchld,
    },
    Fault {
        name: "the caller ignores signals, or none",
        must_hold: "the program ignores, blocks and catches what it would alone",
        held: dispositions,
    },
    Fault {
        name: "the largest file allowed is smaller than the recording",
        must_hold: "the program goes on, its exit code comes out",
        held: recording_too_large,
    },
    Fault {
        name: "the terminal hangs up where memwall leads the session",
        must_hold: "the program gets SIGHUP, memwall does not panic",
        held: hang_up,
    },
    Fault {
        name: "stderr cannot be written",
        must_hold: "the program's exit code comes out, no panic",
        held: full_stderr,
    },
    Fault {
        name: "stdin, stdout or stderr is closed",
        must_hold: "the program runs, has it closed too, and its exit code comes out",
        held: closed_streams,
    },
];

fn ignored_sigchld() -> Tried {
    let place = Place::new();
    for command in ["run --to report.txt", "record -o a.sqlite", "count -e task-clock"] {
        let output = place.shell(&format!("trap '' CHLD; exec $memwall {command} -- sh -c 'exit 7'"));
        assert_eq!(output.status.code(), Some(7), "{command}: {}", said(&output.stderr));
    }
    Held
}

fn dispositions() -> Tried {
    let place = Place::new();
    let show = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    for trap in ["", "trap '' CHLD;", "trap '' PIPE;", "trap '' XFSZ;", "trap '' HUP INT USR1;"] {
        let alone = place.shell(&format!("{trap} exec {show}"));
        let with = place.shell(&format!("{trap} exec $memwall run --to report.txt -- {show}"));
        assert_eq!(said(&with.stdout), said(&alone.stdout), "{trap}");
    }
    Held
}

fn recording_too_large() -> Tried {
    let place = Place::new();
    // Nothing can be begun: that is said, with our exit code.
    let output = place.shell("ulimit -f 1; exec $memwall record -o a.sqlite -- sh -c 'exit 7'");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output.stderr));
    // It cannot grow: the program does not notice. 600 KiB are room for its beginning.
    let script = "ulimit -f 600; exec $memwall record --rate 20000 -o a.sqlite -- \
                  python3 -c 'import time,sys\nend=time.time()+1.5\nwhile time.time()<end: pass\nsys.exit(7)'";
    let output = place.shell(script);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output.stderr));
    Held
}

fn hang_up() -> Tried {
    if Command::new("setsid").arg("--version").output().is_err() {
        return Missing(Need::Program("setsid"));
    }
    let place = Place::new();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("text");
    let open = || fs::File::options().read(true).write(true).open(&name).expect("its other end");
    let mut leader = place.command("setsid");
    leader.args(["--ctty", memwall(), "run", "--", "sh", "-c"]);
    leader.arg("trap 'echo hung up > heard; exit 3' HUP; echo > began; while :; do sleep 0.1; done");
    let mut leader = leader.stdin(open()).stdout(open()).stderr(open()).spawn().expect("it starts");
    until("the program began", || place.path("began").exists());
    drop(terminal);
    until("the program heard", || place.path("heard").exists());
    let status = leader.wait().expect("it ends");
    // 101 is how a panic ends.
    assert_eq!((status.code(), status.signal()), (Some(3), None));
    Held
}

fn closed_streams() -> Tried {
    let place = Place::new();
    // The exit code says which of them are open.
    let program = "sh -c 'touch ran; code=100; for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && code=$((code + (1 << n))); done; \
                   exit $code'";
    for (closed, code) in
        [("<&-", 106), (">&-", 105), ("2>&-", 103), ("<&- >&-", 104), ("<&- >&- 2>&-", 100), ("", 107)]
    {
        for command in ["run --to report.txt", "record -o a.sqlite", "count -e task-clock --to counts.txt"] {
            let output = place.shell(&format!("$memwall {command} -- {program} {closed}"));
            assert_eq!(output.status.code(), Some(code), "{command} {closed}: {}", said(&output.stderr));
            fs::remove_file(place.path("ran")).expect("the program ran");
        }
    }
    Held
}

fn full_stderr() -> Tried {
    let place = Place::new();
    for (command, code) in
        [("run -- sh -c 'exit 7'", 7), ("record -- sh -c 'exit 7'", 7), ("report no-such", 1)]
    {
        let full = fs::File::options().write(true).open("/dev/full").expect("it is there");
        let mut shell = place.command("bash");
        shell.args(["-c", &format!("exec $memwall {command}")]).env("memwall", memwall());
        let status = shell.stdout(Stdio::null()).stderr(full).status().expect("bash starts");
        assert_eq!(status.code(), Some(code), "{command}");
    }
    Held
}
