//! A perf.data of a gigabyte imported, beside `perf script` on the same file in the same run: within a minute and 200 MB.
//!
//! `cargo bench -p memwall-import --bench large`; `-- 256` for as many MB instead. The records of a short file are repeated
//! with later times: samples of 56 bytes, as small as perf writes them with a CPU, in three files, without and with call
//! chains, and at more places than a recording keeps. Fails where a bound is broken.
#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    io::{BufWriter, Write as _},
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use import::{
    ImageFolders, ImportRequest,
    scripted::{ScriptedEvent, ScriptedFile, ScriptedSample},
};
use pmu::bindings as b;

/// Samples of a round, and rounds that are written and then repeated.
const ROUND: u64 = 4096;
const ROUNDS: u64 = 8;
const PERIOD_NS: u64 = 1000;

/// Where samples lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlacesOfSamples {
    /// Close together, every sixteenth in the kernel.
    Program,
    /// At more places than a recording keeps.
    Everywhere,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [role, file, output] = &arguments[..]
        && role == "--import"
    {
        return import_once(file, output);
    }
    let megabytes: u64 = arguments.first().map_or(1000, |size| size.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut broken = 0;
    for (name, chain, places) in [
        ("samples of 56 bytes", 0, PlacesOfSamples::Program),
        ("with call chains of 12", 12, PlacesOfSamples::Program),
        ("in the kernel, nearly each at a place of its own", 0, PlacesOfSamples::Everywhere),
    ] {
        let file = folder.path().join("perf.data");
        let samples = write_large(&file, megabytes * 1_000_000, chain, places);
        broken += compare(name, &file, samples, megabytes);
        let _ = fs::remove_file(folder.path().join("perf.sqlite"));
    }
    println!("{broken} bounds broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn compare(name: &str, file: &Path, samples: u64, megabytes: u64) -> u32 {
    let output = file.with_extension("sqlite");
    let began = Instant::now();
    let child =
        Command::new(env::current_exe().unwrap()).arg("--import").args([file, output.as_path()]).output();
    let child = child.unwrap();
    let import_s = began.elapsed().as_secs_f64();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    let mut numbers = said.split_whitespace().map(|word| word.parse::<u64>().unwrap());
    let (peak_kb, imported) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert_eq!(imported, samples, "all of them");
    let began = Instant::now();
    let told = Command::new("perf")
        .args(["script", "-G", "--ns", "-F", "pid,tid,time,period,event,ip", "-i"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let peer = match told.is_ok_and(|status| status.success()) {
        true => {
            let perf_s = began.elapsed().as_secs_f64();
            format!("perf script {perf_s:.1} s: {:.2} times its time", import_s / perf_s)
        }
        false => "perf script did not read it".to_owned(),
    };
    let (peak_mb, limit_s) = (peak_kb as f64 / 1024.0, 60.0 * megabytes as f64 / 1000.0);
    println!("{megabytes} MB, {samples} {name}: {import_s:.1} s, {peak_mb:.0} MB of memory; {peer}");
    u32::from(import_s > limit_s) + u32::from(peak_mb > 200.0)
}

/// What the child does: imports, and says its peak memory and how many samples there are.
fn import_once(file: &str, output: &str) -> ExitCode {
    let outcome = import::import(&ImportRequest {
        files: vec![file.into()],
        output: output.into(),
        trust: None,
        cpu_id: None,
        folders: ImageFolders::default(),
        memwall: "bench".to_owned(),
    })
    .unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{} {}", peak.split_whitespace().nth(1).unwrap(), outcome.record.events[0].samples);
    ExitCode::SUCCESS
}

/// A program of this machine, with its build id and its code.
fn program() -> (PathBuf, Vec<u8>, std::ops::Range<u64>) {
    let path = env::current_exe().unwrap();
    let image = symbols::Image::open(&path, None).unwrap();
    let segment = image.segments().iter().find(|segment| segment.executable).unwrap();
    (path.clone(), image.identity().build_id.clone().unwrap_or_default(), segment.file.clone())
}

/// Writes a file of so many bytes; gives how many samples it has.
fn write_large(path: &Path, bytes: u64, chain: u64, places: PlacesOfSamples) -> u64 {
    const BASE: u64 = 0x5555_0000_0000;
    let fields = b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_IP | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME;
    let chains = if chain > 0 { b::PERF_SAMPLE_CALLCHAIN } else { 0 };
    let event = ScriptedEvent {
        name: "cpu-clock".to_owned(),
        kind: b::PERF_TYPE_SOFTWARE,
        pace: PERIOD_NS,
        sample_type: u64::from(fields | b::PERF_SAMPLE_CPU | b::PERF_SAMPLE_PERIOD | chains),
        id: 1,
        ..ScriptedEvent::default()
    };
    let (program, build_id, code) = program();
    let mut head = ScriptedFile::of(vec![event]);
    head.say(6, "x86_64");
    head.execute((77, 77), 500, "large");
    head.map((77, 77), 501, (BASE, BASE + code.end), program.to_str().unwrap(), &build_id);
    let begin = head.records.len();
    let length = code.end - code.start;
    let mut random = 1u64;
    let mut address = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        BASE + code.start + (random >> 33) % 20_000 * 7 % length
    };
    for sample in 0..ROUND * ROUNDS {
        let ip = address();
        let callers = (0..chain).map(|depth| if depth == 0 { ip } else { BASE + code.start + depth * 64 });
        let chain: Vec<u64> =
            if chain == 0 { Vec::new() } else { [-512i64 as u64].into_iter().chain(callers).collect() };
        let in_kernel = places == PlacesOfSamples::Everywhere || sample % 16 == 0;
        let mode = if in_kernel { b::PERF_RECORD_MISC_KERNEL } else { b::PERF_RECORD_MISC_USER };
        let time_ns = 1000 + sample * PERIOD_NS;
        let cpu = (sample % 2) as u32;
        let filled = ScriptedSample {
            ip,
            task: (77, 77),
            time_ns,
            cpu,
            period: PERIOD_NS,
            chain,
            ..Default::default()
        };
        head.sample(0, mode as u16, &filled);
        if sample % ROUND == ROUND - 1 {
            head.finish_round();
        }
    }
    let step = if places == PlacesOfSamples::Everywhere { length } else { 0 };
    repeat(path, &head.file(), begin..head.records.len(), bytes, step)
}

/// Writes a small file with some of its records repeated at later times, each time `step` further on in memory.
fn repeat(path: &Path, small: &[u8], records: Range<usize>, bytes: u64, step: u64) -> u64 {
    let Range { start: begin, end } = records;
    let word = |at: usize| u64::from_ne_bytes(small[at..at + 8].try_into().unwrap());
    let data_at = word(40) as usize;
    let mut piece = small[data_at + begin..data_at + end].to_vec();
    let turns = bytes / piece.len() as u64;
    let more = (turns - 1) * piece.len() as u64;
    let mut head = small[..data_at + begin].to_vec();
    head[48..56].copy_from_slice(&(word(48) + more).to_ne_bytes());
    let mut out = BufWriter::new(fs::File::create(path).unwrap());
    out.write_all(&head).unwrap();
    for _ in 0..turns {
        out.write_all(&piece).unwrap();
        let mut at = 0;
        while at < piece.len() {
            let size = usize::from(u16::from_ne_bytes(piece[at + 6..at + 8].try_into().unwrap()));
            if piece[at] == b::PERF_RECORD_SAMPLE as u8 {
                // Behind the header: number, instruction pointer, thread, time.
                let field = at + 8 + 24..at + 8 + 32;
                let time = u64::from_ne_bytes(piece[field.clone()].try_into().unwrap());
                piece[field].copy_from_slice(&(time + ROUND * ROUNDS * PERIOD_NS).to_ne_bytes());
                let field = at + 8 + 8..at + 8 + 16;
                let ip = u64::from_ne_bytes(piece[field.clone()].try_into().unwrap());
                piece[field].copy_from_slice(&(ip + step).to_ne_bytes());
            }
            at += size;
        }
    }
    // Sections lie as much later as there are more records.
    let mut tail = small[data_at + end..].to_vec();
    let flags: u32 = (0..4).map(|at| word(72 + 8 * at).count_ones()).sum();
    for entry in 0..flags as usize {
        let offset = u64::from_ne_bytes(tail[16 * entry..16 * entry + 8].try_into().unwrap());
        tail[16 * entry..16 * entry + 8].copy_from_slice(&(offset + more).to_ne_bytes());
    }
    out.write_all(&tail).unwrap();
    out.flush().unwrap();
    turns * ROUND * ROUNDS
}
