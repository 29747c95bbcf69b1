//! What is recorded: this test program again, as a program of two threads and a child that compute, touch memory and call
//! the kernel.

use std::{env, ffi::OsString, hint::black_box, io::Read as _, process::Command, thread};

const ROLE: &str = "work::role";

/// Program and arguments.
pub fn command() -> Vec<OsString> {
    let program = env::current_exe().expect("this program");
    [program.into_os_string()].into_iter().chain(arguments()).collect()
}

fn arguments() -> impl Iterator<Item = OsString> {
    ["--exact", ROLE, "--ignored", "--nocapture"].into_iter().map(OsString::from)
}

/// The same, waiting for a line first.
pub fn start() -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(arguments()).env("WAIT_FOR_A_LINE", "1").stdout(std::process::Stdio::null());
    command
}

#[test]
#[ignore = "what is recorded"]
fn role() {
    if env::var_os("WAIT_FOR_A_LINE").is_some() {
        let mut line = [0; 1];
        let _ = std::io::stdin().read(&mut line);
    }
    if env::var_os("CHILD").is_none() {
        let other = thread::spawn(|| compute(30));
        compute(30);
        other.join().expect("it ends");
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(arguments()).env("CHILD", "1").env_remove("WAIT_FOR_A_LINE");
        let _ = child.stdout(std::process::Stdio::null()).status();
    }
    compute(10);
}

fn compute(turns: u64) {
    for turn in 0..turns {
        let mut value = turn;
        for step in 0..400_000u64 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(black_box(step));
        }
        let mut bytes = vec![0u8; 1 << 18];
        bytes.iter_mut().step_by(512).for_each(|byte| *byte = value as u8);
        black_box(&bytes);
        // A call into the kernel.
        let _ = std::fs::metadata("/proc/self/stat");
    }
}
