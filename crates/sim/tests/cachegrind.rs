//! An oracle that is not ours: the address trace of a real program, recorded by valgrind's lackey, gives the memory-only
//! mode exactly the counts that cachegrind reports for the same program. Skipped, with the reason, without valgrind.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use machine::{
    Bytes,
    model::{CacheGeometry, Replacement},
};
use sim::memory::trace::{AccessCounts, TwoLevel, TwoLevelCounts};

/// Both tools see the program at the same addresses, with the same environment.
fn valgrind(arguments: &[&str], program: &[&str]) -> Option<()> {
    let fixed = Command::new("setarch").args(["-R", "true"]).stderr(Stdio::null()).status();
    let mut command = match fixed {
        Ok(status) if status.success() => {
            let mut command = Command::new("setarch");
            command.args(["-R", "valgrind"]);
            command
        }
        _ => Command::new("valgrind"),
    };
    let status = command
        .args(arguments)
        .args(program)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok()?.success().then_some(())
}

struct Caches {
    first: CacheGeometry,
    last: CacheGeometry,
}

impl Caches {
    fn new(first: (u64, u32), last: (u64, u32)) -> Self {
        let geometry = |(size, ways)| CacheGeometry {
            size: Bytes(size),
            ways,
            line: Bytes(64),
            replacement: Replacement::Lru,
        };
        Self { first: geometry(first), last: geometry(last) }
    }

    fn simulated(&self, trace: &Path) -> TwoLevelCounts {
        let mut caches = TwoLevel::new(&self.first, &self.first, &self.last);
        let lines = BufReader::new(File::open(trace).expect("the trace")).lines();
        for line in lines.map(|line| line.expect("text")) {
            let Some((kind, access)) = line.trim_start().split_once(' ') else { continue };
            let Some((address, size)) = access.trim().split_once(',') else { continue };
            let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.parse()) else { continue };
            match kind {
                "I" => caches.instruction(address, size),
                "L" | "M" => caches.read(address, size),
                "S" => caches.write(address, size),
                _ => {}
            }
        }
        *caches.counts()
    }

    fn cachegrind(&self, folder: &Path, program: &[&str]) -> Option<TwoLevelCounts> {
        let out = folder.join("cachegrind.out");
        let option =
            |name: &str, cache: &CacheGeometry| format!("--{name}={},{},64", cache.size.0, cache.ways);
        let arguments = [
            "--tool=cachegrind".to_owned(),
            "--cache-sim=yes".to_owned(),
            option("I1", &self.first),
            option("D1", &self.first),
            option("LL", &self.last),
            format!("--cachegrind-out-file={}", out.display()),
            format!("--log-file={}", folder.join("cachegrind.log").display()),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        valgrind(&arguments, program)?;
        let text = std::fs::read_to_string(out).ok()?;
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "))?;
        let counts: Vec<u64> = summary.split_whitespace().filter_map(|count| count.parse().ok()).collect();
        let kind = |first: usize| AccessCounts {
            accesses: counts[first],
            first_misses: counts[first + 1],
            last_misses: counts[first + 2],
        };
        (counts.len() == 9).then(|| TwoLevelCounts { instructions: kind(0), reads: kind(3), writes: kind(6) })
    }
}

fn accesses(counts: &TwoLevelCounts) -> [u64; 3] {
    [counts.instructions.accesses, counts.reads.accesses, counts.writes.accesses]
}

/// Compares one program in all caches; false, with the reason printed, where its two runs were not the same run.
fn compare(program: &[&str], caches: &[Caches]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let log = format!("--log-file={}", trace.display());
    if valgrind(&["--tool=lackey", "--trace-mem=yes", &log], program).is_none() {
        println!("not compared, {program:?}: lackey could not run it");
        return false;
    }
    for caches in caches {
        let simulated = caches.simulated(&trace);
        let Some(expected) = caches.cachegrind(folder.path(), program) else {
            println!("not compared, {program:?}: cachegrind could not run it");
            return false;
        };
        if accesses(&simulated) != accesses(&expected) {
            println!(
                "not compared, {program:?}: it ran differently under the two tools: {simulated:?} {expected:?}"
            );
            return false;
        }
        println!("{program:?}: {simulated:?}");
        assert_eq!(simulated, expected, "{program:?}");
        assert!(
            simulated.reads.last_misses > 0 && simulated.reads.first_misses > simulated.reads.last_misses
        );
    }
    true
}

#[test]
fn counts_are_those_of_cachegrind() {
    if !prerequisites::needs("valgrind") {
        return;
    }
    let caches = [
        Caches::new((32 << 10, 8), (1 << 20, 16)),
        Caches::new((8 << 10, 2), (64 << 10, 4)),
        Caches::new((4 << 10, 1), (32 << 10, 1)),
    ];
    let programs: [&[&str]; 2] = [&["/bin/true"], &["/bin/ls", "/"]];
    let compared = programs.iter().filter(|program| compare(program, &caches)).count();
    assert!(compared > 0, "no program ran the same way twice; see the reasons above");
}
