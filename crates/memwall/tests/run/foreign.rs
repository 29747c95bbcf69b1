//! Programs nobody here wrote: the same output and the same exit code, watched or not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use prerequisites::installed;
use serde_json::Value;

use super::place::{Recorded, can_sample, example, functions};

/// Runs it with and without memwall; gives the recording, if there is such a program.
fn unharmed(name: &str, arguments: &[&str]) -> Option<Recorded> {
    let program = installed(name)?;
    let plain: Output = Command::new(&program).args(arguments).output().expect("it starts");
    let recorded = Recorded::new(&[], &program, arguments);
    assert_eq!(recorded.output.status.code(), plain.status.code(), "{name}: {}", recorded.stderr());
    assert!(recorded.output.stdout == plain.stdout, "{name}: its output differs");
    Some(recorded)
}

/// A file with lines that are not in order.
fn lines(folder: &Path) -> PathBuf {
    let file = folder.join("lines");
    let line = |index: u64| format!("{:016x}\n", index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    fs::write(&file, (0..60_000).map(line).collect::<String>()).expect("written");
    file
}

#[test]
fn tools_of_the_system_run_unharmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = lines(folder.path());
    let file = file.to_str().expect("a plain path");
    unharmed("sort", &[file]);
    unharmed("xz", &["-2", "-c", "-k", file]);
    let query = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 400000) \
                 select sum(x * x % 7) from c;";
    unharmed("sqlite3", &[":memory:", query]);
    unharmed("perl", &["-e", "my $s = 0; $s += $_ * $_ % 7 for 1 .. 1_500_000; print qq($s\\n); exit 3"]);
    unharmed("ls", &["/no/such/folder"]);
}

#[test]
fn interpreters_are_found_by_their_symbols() {
    let code = "print(sum(x * x % 7 for x in range(2_000_000))); raise SystemExit(5)";
    let Some(recorded) = unharmed("python3", &["-c", code]) else { return };
    assert_eq!(recorded.output.status.code(), Some(5));
    let found = recorded.findings();
    if can_sample() && found["about"]["samples"].as_u64() > Some(50) {
        let names = functions(&found);
        let named = names.iter().take(10).any(|name| name.contains("Py") || name.contains("long"));
        assert!(named, "{names:?}");
    }
}

#[test]
fn ranks_of_a_parallel_program_are_followed() {
    let Some(mpirun) = installed("mpirun") else { return };
    let ranks = example("odd/ranks");
    let is_there = ranks.is_file();
    if !is_there {
        prerequisites::skip(
            prerequisites::Need::Program("mpicc"),
            "ranks that do not know of each other take the place of those that do",
        );
    }
    let (program, work) = match is_there {
        true => (ranks, ["--rounds", "100"]),
        false => (example("odd/exits"), ["--code", "0"]),
    };
    let arguments =
        ["--allow-run-as-root", "--oversubscribe", "-n", "2", program.to_str().expect("a plain path")];
    let arguments = [&arguments[..], &work].concat();
    let plain = Command::new(&mpirun).args(&arguments).output().expect("it starts");
    if !plain.status.success() {
        prerequisites::skip(prerequisites::Need::Program("mpirun"), String::from_utf8_lossy(&plain.stderr));
        return;
    }
    let recorded = Recorded::new(&[], &mpirun, &arguments);
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.stderr());
    let printed = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_eq!(recorded.stdout(), printed);
    assert!(!is_there || printed.starts_with("ranks: 2 of them"), "{printed}");
    let found = recorded.findings();
    assert!(found["about"]["processes"].as_u64() >= Some(3), "{}", found["about"]);
    assert!(
        !can_sample() || functions(&found).iter().any(|name| name == "work_step"),
        "{}",
        found["symbols"]
    );
}

fn recorded(name: &str, arguments: &[&str]) -> (Recorded, Value) {
    let program = example(name);
    let plain = Command::new(&program).args(arguments).output().expect("it starts");
    let recorded = Recorded::new(&[], &program, arguments);
    assert_eq!(recorded.output.status.code(), plain.status.code(), "{}", recorded.stderr());
    assert_eq!(recorded.output.stdout, plain.stdout);
    let findings = recorded.findings();
    (recorded, findings)
}

fn is_nameless(name: &Value) -> bool {
    name.as_str().is_some_and(|name| name.contains("unnamed") || name.contains("unknown"))
}

#[test]
fn a_static_program_has_names_and_a_stripped_one_says_that_it_has_none() {
    if !can_sample() {
        return;
    }
    let arguments = ["--size", "L2", "--seconds", "0.4"];
    let names = functions(&recorded("odd/chase_static", &arguments).1);
    assert!(names.iter().any(|name| name == "chase"), "{names:?}");
    let (_, stripped) = recorded("odd/chase_stripped", &arguments);
    let symbols = stripped["symbols"].as_array().expect("symbols").iter();
    let mut own = symbols.filter(|symbol| symbol["module"].to_string().contains("chase_stripped"));
    assert!(own.any(|symbol| is_nameless(&symbol["name"])), "{}", stripped["symbols"]);
}

#[test]
fn generated_code_is_named_as_unknown() {
    if !can_sample() {
        return;
    }
    let (_, found) = recorded("odd/jit", &["--seconds", "0.5"]);
    let symbols = found["symbols"].as_array().expect("symbols");
    assert!(symbols.iter().any(|symbol| is_nameless(&symbol["name"])), "{}", found["symbols"]);
}

#[test]
fn a_program_that_compiles_while_it_runs_is_unharmed() {
    let code =
        "let s = 0; for (let i = 0; i < 3e7; i++) s = (s + i * i) % 1000003; console.log(s); process.exit(9)";
    if let Some(recorded) = unharmed("node", &["-e", code]) {
        assert_eq!(recorded.output.status.code(), Some(9));
        assert_eq!(recorded.findings()["schema"], "memwall.run/1");
    }
}
