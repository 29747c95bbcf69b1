//! Files that the machine at hand cannot record, written by `import::scripted`: hardware events, weights, data sources,
//! branch stacks, hybrid cores, hardware traces; and damaged ones. All of them are made up; none was measured.
#![allow(clippy::unwrap_used)]

mod damage;
mod elsewhere;
mod folders;
mod programs;
mod records;
mod stat;
mod trusting;

use std::{fs, io::Cursor, path::PathBuf};

use import::{
    EventAttributes, ImageFolders, ImportError, ImportOutcome, ImportRequest, PipedInput, SeekableInput,
    perf_data::{self, PerfOutcome, RecordConsumer},
    scripted::{ScriptedEvent, ScriptedFile, ScriptedSample},
};
use pmu::{
    bindings as b,
    sampling::{FileSample, RingRecord},
};
use record::run::Run;
use tempfile::TempDir;

/// Event, time, thread, instruction pointer, period.
type Row = (String, u64, i32, u64, Option<u64>);

#[derive(Default)]
struct Rows {
    all: Vec<Row>,
    lost: u64,
    throttled: u64,
}

impl RecordConsumer for Rows {
    fn sample(&mut self, events: &[EventAttributes], event: usize, sample: &FileSample<'_>) {
        let (_, tid) = sample.task.unwrap_or_default();
        let (time, ip) = (sample.time_ns.unwrap_or(0), sample.ip.unwrap_or(0));
        self.all.push((events[event].name(), time, tid, ip, sample.period));
    }

    fn beside(&mut self, _: &[EventAttributes], _: u64, record: RingRecord<'_>) {
        match record {
            RingRecord::Lost { records, .. } => self.lost += records,
            RingRecord::Throttle { .. } => self.throttled += 1,
            _ => {}
        }
    }
}

fn read(bytes: &[u8]) -> Result<(Rows, PerfOutcome), ImportError> {
    let mut rows = Rows::default();
    let outcome = perf_data::read(&mut SeekableInput(Cursor::new(bytes)), "it", &mut rows)?;
    Ok((rows, outcome))
}

fn read_pipe(bytes: &[u8]) -> Result<(Rows, PerfOutcome), ImportError> {
    let mut rows = Rows::default();
    let outcome = perf_data::read(&mut PipedInput(bytes), "it", &mut rows)?;
    Ok((rows, outcome))
}

/// A folder with files that are imported together.
struct Imports {
    folder: TempDir,
    request: ImportRequest,
}

impl Imports {
    fn of(files: &[(&str, &[u8])]) -> Self {
        let folder = TempDir::new().unwrap();
        let write = |(name, bytes): &(&str, &[u8])| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let request = ImportRequest {
            files: files.iter().map(write).collect(),
            output: folder.path().join("out.sqlite"),
            trust: None,
            cpu_id: None,
            folders: ImageFolders::default(),
            memwall: "test".to_owned(),
        };
        Self { folder, request }
    }

    fn import(&self) -> Result<(ImportOutcome, Run), ImportError> {
        let outcome = import::import(&self.request)?;
        Ok((outcome, record::file::read(&self.request.output).unwrap()))
    }
}

const BASIC: u32 = b::PERF_SAMPLE_IDENTIFIER
    | b::PERF_SAMPLE_IP
    | b::PERF_SAMPLE_TID
    | b::PERF_SAMPLE_TIME
    | b::PERF_SAMPLE_CPU
    | b::PERF_SAMPLE_PERIOD;

/// Generic cycles at a fixed period, with more fields if need be.
fn cycles(more: u32) -> ScriptedEvent {
    ScriptedEvent {
        name: "cycles:u".to_owned(),
        kind: b::PERF_TYPE_HARDWARE,
        pace: 100_003,
        sample_type: u64::from(BASIC | more),
        id: 11,
        ..ScriptedEvent::default()
    }
}

fn sample(time_ns: u64, ip: u64) -> ScriptedSample {
    ScriptedSample { ip, task: (7, 7), time_ns, cpu: 1, period: 100_003, ..ScriptedSample::default() }
}

const USER: u16 = b::PERF_RECORD_MISC_USER as u16;
const KERNEL: u16 = b::PERF_RECORD_MISC_KERNEL as u16;

/// A hundred samples of a program, every tenth in the kernel, in rounds.
fn ordinary() -> ScriptedFile {
    let mut file = ScriptedFile::of(vec![cycles(0)]);
    file.say(3, "far");
    file.say(4, "5.4.0");
    file.say(6, "x86_64");
    file.say(8, "Some Xeon");
    file.say(9, "GenuineIntel,6,85,4");
    file.execute((7, 7), 1000, "app");
    for turn in 0..100 {
        // Two rings: what the second holds is older.
        let time_ns = 2000 + 10 * (turn ^ 1);
        let mode = if turn % 10 == 0 { KERNEL } else { USER };
        file.sample(0, mode, &sample(time_ns, 0x40_0000 + turn));
        if turn % 20 == 19 {
            file.finish_round();
        }
    }
    file
}
