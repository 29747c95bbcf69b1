//! Programs that are copied while they run must not notice: what they wait for, what they print, how they end.

use std::{
    fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use record::relief::ReliefBarrier;

use crate::program::{CopyNumbers, ProgramThread};

/// All that descend from a process, itself included.
fn family(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&parent) = all.get(at) {
        at += 1;
        let path = format!("/proc/{parent}/task/{parent}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    all
}

struct Watched {
    said: String,
    code: Option<i32>,
    copies: usize,
}

/// Runs a command and copies it and its children all the while; with `copies` false it is left alone.
fn run(command: &mut Command, copies: bool) -> Watched {
    let mut child: Child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        out.read_to_string(&mut said).map(|_| said).unwrap_or_default()
    });
    let pid = i32::try_from(child.id()).unwrap();
    let numbers = CopyNumbers::default();
    let mut taken = 0;
    let began = Instant::now();
    let is_over = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    while copies && !is_over() && began.elapsed() < Duration::from_secs(60) {
        for pid in family(pid) {
            if numbers.lock().unwrap().contains(&pid) {
                continue;
            }
            match (ProgramThread { pid, tid: pid }).take_copy(&numbers, |_| true) {
                Ok(found) => {
                    taken += 1;
                    // It lives on while the program does, and dies in between.
                    std::thread::sleep(Duration::from_millis(2));
                    drop(found);
                }
                Err(refused) => assert!(
                    matches!(
                        refused.barrier,
                        ReliefBarrier::NotThere | ReliefBarrier::Ended | ReliefBarrier::Trouble
                    ),
                    "{refused:?}"
                ),
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    let code = child.wait().unwrap().code();
    Watched { said: reader.join().unwrap(), code, copies: taken }
}

/// The same alone and copied.
fn assert_unnoticed(mut command: impl FnMut() -> Command) {
    let alone = run(&mut command(), false);
    let copied = run(&mut command(), true);
    assert_eq!((copied.said, copied.code), (alone.said, alone.code));
    assert!(copied.copies > 0, "nothing was copied");
}

#[test]
fn a_shell_waits_for_its_own_children_only() {
    let script = "sleep 0.1 & (exit 3) & a=$!; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; \
                  wait $a; echo $? $i; wait; echo $?; exit 7";
    assert_unnoticed(|| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    });
}

#[test]
fn make_counts_its_own_jobs() {
    if !prerequisites::needs("make") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rule = "%:\n\t@i=0; while [ $$i -lt 60000 ]; do i=$$((i+1)); done; echo done $$i\n";
    fs::write(folder.path().join("Makefile"), format!("all: a b c d e f\n{rule}")).unwrap();
    assert_unnoticed(|| {
        let mut command = Command::new("make");
        command.args(["-s", "-j3", "-C"]).arg(folder.path());
        command
    });
}

/// Workers that compute, a parent that computes and hears of each worker's end by a signal.
const SERVER: &str = r"
import os, signal, sys
ended = []
def on_child(number, frame):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        ended.append((pid, os.waitstatus_to_exitcode(status)))
signal.signal(signal.SIGCHLD, on_child)
def compute(turns):
    total = 0
    for turn in range(turns):
        total += turn * turn % 7
    return total
workers = {}
for number in range(3):
    pid = os.fork()
    if pid == 0:
        compute(700000)
        try:
            os.waitpid(-1, 0)
            os._exit(99)
        except ChildProcessError:
            os._exit(number)
    workers[pid] = number
while len(ended) < 3:
    compute(200000)
try:
    found = os.waitpid(-1, 0x40000000)
except ChildProcessError:
    found = None
strangers = [end for end in ended if end[0] not in workers]
print(sorted(code for _, code in ended), strangers, found, compute(1000))
";

#[test]
fn a_server_with_workers_hears_of_its_own_only() {
    if !prerequisites::needs("python3") {
        return;
    }
    assert_unnoticed(|| {
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]);
        command
    });
}

#[test]
fn one_that_is_gone_has_ended() {
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(ProgramThread { pid: own, tid: own }.barrier(), Ok(()));
    let gone = ProgramThread { pid: i32::MAX, tid: i32::MAX };
    assert_eq!(gone.barrier().unwrap_err().barrier, ReliefBarrier::Ended);
}
