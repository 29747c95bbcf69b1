//! `memwall squeeze` and `memwall predict` as users type them. How strong interference is does not matter here: profiles
//! are made up, so that programs run beside hardly anything, and simulated machines are small.

mod schema_files;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use machine::{
    Bytes, CpuSet, Profile, Source, Topology,
    model::Model,
    profile::{Estimate, Fingerprint},
    squeezing::{Interference, SqueezeForm, SqueezeKind, SqueezePoint, SqueezeProfile},
    store::Store,
};
use record::{
    run::Ending,
    squeeze::{SqueezeEnd, SqueezeRun, SqueezeSeries},
};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn memwall(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(args).env("XDG_DATA_HOME", self.path()).env("COLUMNS", "100").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.memwall(args).output().expect("memwall runs")
    }

    fn result(&self, name: &str) -> SqueezeRun {
        let text = fs::read_to_string(self.path().join(name)).expect("a result");
        serde_json::from_str(&text).expect("of a squeeze")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A machine that leaves half of everything at its one strength, and takes next to nothing. `None` on one CPU.
fn made_up(home: &Home) -> Option<()> {
    let topology = Topology::read(&Source::live());
    let cpus: Vec<u32> = topology.usable_cpus().iter().collect();
    let (own, spare) = match cpus.as_slice() {
        [own, .., spare] => (*own, *spare),
        _ => {
            prerequisites::skip(prerequisites::Need::TwoCpus, "interference needs a CPU of its own");
            return None;
        }
    };
    let squeeze = half_of_everything([own, spare].into_iter().collect(), [spare].into_iter().collect());
    keep(home, Fingerprint::read(&Source::live()), squeeze);
    Some(())
}

/// The same of a small simulated machine with eight cores around 320 KiB, of which five are spare.
fn made_up_small(home: &Home) {
    let model = Model::builtin("sandy-bridge-ep-e5-2670").expect("a model").scaled(64).expect("a part of it");
    let fingerprint = Fingerprint::of_model(&model);
    keep(home, fingerprint, half_of_everything((0..8).collect(), (3..8).collect()));
}

const SMALL: &str = "sim:sandy-bridge-ep-e5-2670/64";

fn keep(home: &Home, fingerprint: Fingerprint, squeeze: SqueezeProfile) {
    let profile = Profile { fingerprint, squeeze: Some(Box::new(squeeze)), ..Profile::unmeasured() };
    Store::at(home.path().join("memwall/profiles")).save(&profile).expect("kept");
}

fn half_of_everything(domain: CpuSet, spare: CpuSet) -> SqueezeProfile {
    let exact = |value: f64| Estimate { value, low: value, high: value, samples: 1 };
    let point = |kind: SqueezeKind, taken: bool| SqueezePoint {
        interference: taken.then_some(Interference {
            kind,
            form: SqueezeForm::Shared,
            threads: 1,
            bytes_each: Bytes::kib(64),
            pause: 0,
            left: None,
        }),
        cache_left: Some(exact(if taken && kind == SqueezeKind::Storage { 1e7 } else { 2e7 })),
        bandwidth_left: Some(exact(if taken && kind == SqueezeKind::Bandwidth { 2e10 } else { 4e10 })),
        ..SqueezePoint::default()
    };
    let points = |kind| vec![point(kind, false), point(kind, true)];
    SqueezeProfile {
        measured_at: 1,
        memwall: "test".to_owned(),
        seed: 1,
        level: 3,
        claimed: Bytes::mib(20),
        domain,
        spare,
        bandwidth: 4e10,
        storage: points(SqueezeKind::Storage),
        bandwidths: points(SqueezeKind::Bandwidth),
        storage_orthogonal: 2,
        bandwidth_orthogonal: 2,
        ..SqueezeProfile::default()
    }
}

#[test]
fn output_and_exit_code_pass_through_once() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let json = format!("--json={}", home.file("run.json").display());
    let output =
        home.run(&["squeeze", "--budget", "20", &json, "--", "sh", "-c", "echo said; sleep 0.02; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "said\n");
    assert!(text(&output.stderr).contains("runs follow"), "the cost comes first: {}", text(&output.stderr));
    let run = home.result("run.json");
    assert!(run.crashes.is_empty(), "its usual exit code is no crash");
    assert!(run.runs.len() >= 18 && run.runs.iter().all(|run| run.ns.is_some_and(|ns| ns >= 2e7)));
}

#[test]
fn a_crash_is_reported_and_the_rest_goes_on() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let counter = home.file("counter");
    let script = format!(
        "echo x >> {0}; test $(wc -l < {0}) -eq 5 && kill -SEGV $$; sleep 0.02; exit 0",
        counter.display()
    );
    let json = format!("--json={}", home.file("run.json").display());
    let text_file = home.file("run.txt");
    let told = format!("--text={}", text_file.display());
    let output = home.run(&["squeeze", "--budget", "20", &json, &told, "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = home.result("run.json");
    assert_eq!(run.crashes.len(), 1);
    assert_eq!(run.crashes[0].ending, Ending::Signalled(11));
    assert!(run.runs.len() > 10, "{}", run.runs.len());
    let told = fs::read_to_string(text_file).expect("a report");
    let words: Vec<&str> = told.split_whitespace().collect();
    assert!(words.join(" ").contains("was killed by signal 11"), "{told}");
}

#[test]
fn a_program_that_stands_no_interference_is_given_up_soon() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let json = format!("--json={}", home.file("run.json").display());
    let told = format!("--text={}", home.file("run.txt").display());
    let script = "cat /proc/$PPID/task/*/comm 2>/dev/null | grep -q memwall-beside && exit 7; sleep 0.01";
    let output = home.run(&["squeeze", "--budget", "60", &json, &told, "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = home.result("run.json");
    assert_eq!(run.crashes.len(), 6, "three of each kind's one strength");
    let told = fs::read_to_string(home.file("run.txt")).expect("a report");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(told.matches("exit code 7").count(), 2, "{told}");
    assert!(told.contains("3 runs beside cache interference"), "{told}");
}

#[test]
fn a_program_that_is_killed_at_once_gives_what_its_shell_would() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    for args in [
        &["squeeze", "--", "sh", "-c", "kill -SEGV $$"][..],
        &["squeeze", "--map", "1", "--", "sh", "-c", "kill -SEGV $$"],
    ] {
        let output = home.run(args);
        assert_eq!(output.status.code(), Some(128 + 11), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("killed by signal 11"), "{}", text(&output.stderr));
    }
}

#[test]
fn an_interrupt_in_a_first_run_ends_the_series() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let counter = home.file("counter");
    // The second value is interrupted while it runs for the first time.
    let script = format!("echo {{t}} >> {}; sleep {{t}}", counter.display());
    let vary = ["squeeze", "--budget", "1", "--vary", "t=0.01,30,31", "--", "sh", "-c", &script];
    let mut child =
        home.memwall(&vary).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("memwall runs");
    let began = Instant::now();
    let reached = || fs::read_to_string(&counter).is_ok_and(|text| text.lines().any(|line| line == "30"));
    while !reached() && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(reached());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
    child.wait().expect("it ends");
    let lines = fs::read_to_string(&counter).expect("lines");
    assert!(!lines.lines().any(|line| line == "31"), "no further value is begun: {lines}");
}

#[test]
fn copies_of_a_scenario_have_data_and_cores_of_their_own() {
    let home = Home::new();
    made_up_small(&home);
    let json = home.file("series.json");
    let told = format!("--json={}", json.display());
    let scenario = ["working-set", "--set", "w=120K", "--set", "rounds=1"];
    let squeeze = |more: &[&str]| {
        let output = home.run(&[&["squeeze", "--on", SMALL, &told][..], more, &scenario].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let text = fs::read_to_string(&json).expect("a result");
        (text, output)
    };
    let series: SqueezeSeries = serde_json::from_str(&squeeze(&["--map", "1,2,4"]).0).expect("of a series");
    let cpus: Vec<String> =
        series.members.iter().map(|member| member.run.as_ref().expect("a run").cpus.to_string()).collect();
    assert_eq!(cpus, ["0", "0-1", "0-3"]);
    // Two sets of 120 KiB fit into 320, four do not.
    let alone: Vec<f64> = series.members.iter().filter_map(|member| member.alone_ns).collect();
    assert!(alone[1] < 1.1 * alone[0] && alone[2] > 1.3 * alone[0], "{alone:?}");
    assert_eq!(series.best.map(|best| best.per_socket), Some(2));
    // Those that are named, in their order, and interference on the others.
    let named: SqueezeSeries =
        serde_json::from_str(&squeeze(&["--map", "2", "--cpus", "5-7"]).0).expect("of a series");
    let run = named.members[0].run.as_ref().expect("a run");
    assert_eq!(run.cpus.to_string(), "5-6");
    let (copies, output) = squeeze(&["--copies", "2"]);
    let run: SqueezeRun = serde_json::from_str(&copies).expect("a run");
    assert_eq!((run.cpus.to_string().as_str(), run.processes), ("0-1", 2));
    assert!(text(&output.stderr).contains("runs follow"), "the cost is said: {}", text(&output.stderr));
    for (more, says) in [
        (&["--map", "8", "working-set"][..], "need 8 cores"),
        (&["--map", "2", "--cpus", "7-9", "working-set"], "name some of these"),
        (&["--map", "2", "--copies", "3", "working-set"], "leave out --copies"),
        (&["--map", "2", "--launcher", "mpirun", "working-set"], "leave out --launcher"),
        (&["--copies", "9", "working-set"], "9 copies with 1 threads"),
    ] {
        let output = home.run(&[&["squeeze", "--on", SMALL][..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{more:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let json = format!("--json={}", home.file("run.json").display());
    let counter = home.file("counter");
    let script = format!("echo x >> {}; sleep 0.05", counter.display());
    let mut child = home
        .memwall(&["squeeze", "--budget", "600", &json, "--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("memwall runs");
    let runs = || fs::read_to_string(&counter).map_or(0, |text| text.lines().count());
    let began = Instant::now();
    while runs() < 6 && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
    child.wait().expect("it ends");
    let run = home.result("run.json");
    assert_eq!(run.ended, SqueezeEnd::Interrupted);
    assert!(run.runs.len() >= 3, "{}", run.runs.len());
}

#[test]
fn interference_ends_with_memwall_whatever_ends_it() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let started = home.file("started");
    let script = format!("echo $$ >> {}; sleep 0.2", started.display());
    let mut child = home
        .memwall(&["squeeze", "--budget", "600", "--", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("memwall runs");
    // In whatever process it runs: all that are started here have this home.
    let home_of_all = format!("XDG_DATA_HOME={}", home.path().display());
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = |process: &PathBuf| {
        fs::read(process.join("environ"))
            .is_ok_and(|words| words.split(|byte| *byte == 0).any(|word| word == home_of_all.as_bytes()))
    };
    let is_interference = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("memwall-beside"))
    };
    let beside = || {
        let processes = inside(PathBuf::from("/proc")).filter(ours);
        processes.flat_map(|process| inside(process.join("task"))).filter(is_interference).count()
    };
    let began = Instant::now();
    while beside() == 0 && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(2));
    }
    assert!(beside() > 0, "interference runs");
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert_eq!(beside(), 0);
}

#[test]
fn rates_and_marks_in_place_of_wall_time() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let json = format!("--json={}", home.file("run.json").display());
    let printed = ["squeeze", "--budget", "20", &json, "--metric-regex", "rate: ([0-9.]+)", "--"];
    let output = home.run(&[&printed[..], &["sh", "-c", "echo 'rate: 250.0 MB/s'"]].concat());
    assert_eq!(text(&output.stdout), "rate: 250.0 MB/s\n", "{}", text(&output.stderr));
    assert!(home.result("run.json").runs.iter().all(|run| run.ns == Some(1e9 / 250.0)));
    let silent = home.run(&[&printed[..], &["true"]].concat());
    assert_eq!(silent.status.code(), Some(2));
    assert!(text(&silent.stderr).contains("printed nothing that matches"), "{}", text(&silent.stderr));

    let script = "sleep 0.05; echo begin > $MEMWALL_MARKS; echo end > $MEMWALL_MARKS; sleep 0.05";
    let output = home.run(&["squeeze", "--budget", "20", &json, "--marks", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let marked = home.result("run.json");
    let least = marked.runs.iter().filter_map(|run| run.ns).fold(f64::INFINITY, f64::min);
    assert!(least < 5e7, "only what lies between the marks: {least}");
}

#[test]
fn two_cores_are_too_few_and_that_is_said_with_numbers() {
    let home = Home::new();
    let calibrated = home.run(&["squeeze", "--calibrate", "--steps", "1", "--on", "sim:tiny"]);
    assert_eq!(calibrated.status.code(), Some(0), "{}", text(&calibrated.stderr));
    let said = text(&calibrated.stdout);
    assert!(said.contains("too few spare cores: 1 core is left"), "{said}");
    assert!(said.contains("full strength took"), "{said}");
    let refused = home.run(&["squeeze", "--on", "sim:tiny", "neither"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert_eq!(said.matches("what would do").count(), 1, "{said}");
}

#[test]
fn the_help_names_what_a_varied_value_stands_for() {
    // The parser of arguments takes some words in braces for its own.
    for help in ["-h", "--help"] {
        let said = Home::new().run(&["squeeze", help]);
        let said = text(&said.stdout);
        assert!(said.contains("{size} in") && said.contains("./app -s {size}"), "{said}");
    }
}

#[test]
fn what_makes_no_sense_is_said() {
    let home = Home::new();
    // Said before it is asked to calibrate.
    for (args, says) in [
        (&["squeeze"][..], "squeeze what?"),
        (&["squeeze", "working-set", "--", "true"], "not both"),
        (&["squeeze", "--on", "sim:tiny", "--", "true"], "runs scenarios"),
    ] {
        let output = home.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    let nothing = home.run(&["squeeze", "--", "true"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("squeeze --calibrate"), "{}", text(&nothing.stderr));
    if made_up(&home).is_none() {
        return;
    }
    let empty = home.file("empty.json");
    fs::write(&empty, "{}").expect("a file");
    let empty = empty.display().to_string();
    for (args, says) in [
        (&["squeeze", "--harm", "0", "--", "true"][..], "--harm"),
        (&["squeeze", "--budget", "0", "--", "true"], "--budget"),
        (&["squeeze", "--metric-regex", "(", "--", "true"], "--metric-regex"),
        (&["squeeze", "--", "./no-such-program"], "no such program"),
        (&["predict", &empty, "--cache", "50%"], "not the result of a squeeze"),
    ] {
        let output = home.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn one_run_for_each_input_and_each_mapping() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let (json, page) = (home.file("series.json"), home.file("series.html"));
    let (json_flag, page_flag) = (format!("--json={}", json.display()), page.display().to_string());
    let said = "echo size {n}; sleep 0.0{n}; exit {n}";
    let output = home.run(&[
        "squeeze", "--budget", "4", &json_flag, "--html", &page_flag, "--vary", "n=2,5", "--", "sh", "-c",
        said,
    ]);
    // Each value passes its output through once; the exit code is that of the first.
    assert_eq!(text(&output.stdout), "size 2\nsize 5\n", "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(2));
    let series = || -> SqueezeSeries {
        serde_json::from_str(&fs::read_to_string(&json).expect("a result")).expect("of a series")
    };
    let varied = series();
    assert_eq!((varied.varied.as_str(), varied.members.len()), ("n", 2));
    let alone: Vec<f64> = varied.members.iter().filter_map(|member| member.alone_ns).collect();
    assert!(alone[0] >= 2e7 && alone[1] >= 5e7, "{alone:?}");
    assert!(fs::read_to_string(&page).expect("a page").contains("squeezed by n"));

    let count = home.file("count");
    let script = format!("echo x >> {}; sleep 0.02", count.display());
    let mapped = home.run(&["squeeze", "--budget", "2", &json_flag, "--map", "1", "--", "sh", "-c", &script]);
    assert_eq!(mapped.status.code(), Some(0), "{}", text(&mapped.stderr));
    let mapped = series();
    assert_eq!((mapped.varied.as_str(), mapped.members[0].value.as_str()), ("processes", "1"));
    assert_eq!(mapped.best.map(|best| best.per_socket), Some(1));
    for (args, says) in [
        (&["squeeze", "--vary", "n", "--", "true"][..], "no list"),
        (&["squeeze", "--vary", "n=1", "--", "true"], "has no {n}"),
        (&["squeeze", "--map", "9", "--", "true"], "around the cache"),
    ] {
        let output = home.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

/// Types of the fields, by documents printed with the machine that is made up above. `MEMWALL_WRITE_SCHEMAS=1` writes them anew.
#[test]
fn documents_are_as_their_schemas_say() {
    let home = Home::new();
    if made_up(&home).is_none() {
        return;
    }
    let (squeezed, predicted) = (home.file("run.json"), home.file("predict.json"));
    let squeeze = format!("--json={}", squeezed.display());
    let output = home.run(&["squeeze", "--budget", "20", &squeeze, "--", "sleep", "0.02"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let predict = format!("--json={}", predicted.display());
    let output = home.run(&["predict", &squeezed.display().to_string(), "--cache", "15M", &predict]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let series = home.file("series.json");
    let told = format!("--json={}", series.display());
    let vary = ["squeeze", "--budget", "2", &told, "--vary", "t=0.02,0.03", "--", "sleep", "{t}"];
    let output = home.run(&vary);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let documents = [
        ("memwall.squeeze/1", squeezed),
        ("memwall.predict/1", predicted),
        ("memwall.squeeze-series/1", series),
    ];
    for (name, file) in documents {
        let text = fs::read_to_string(file).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["schema"], name);
        schema_files::hold_outline(name, &document, schema_files::is_writing());
    }
}
