//! Files that others recorded, on other machines: those in the folder that `MEMWALL_PERF_FILES` names.
//!
//! `MEMWALL_PERF_FILES=~/perffiles cargo test -p memwall-import --test against_perf -- --ignored --nocapture others`
//! prints a line for each, and fails where memwall and perf differ. Each is also cut and changed `MEMWALL_PERF_DAMAGE` times:
//! then nothing may panic.

use std::{
    env, fs,
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use import::{EventAttributes, PipedInput, SeekableInput, perf_data};
use pmu::sampling::{FileSample, RingRecord};

use crate::{
    request,
    rows::{Row, ToldRows, read, told_by_perf},
};

/// Counts, and nothing else.
#[derive(Default)]
struct SampleCount(u64);

impl perf_data::RecordConsumer for SampleCount {
    fn sample(&mut self, _: &[EventAttributes], _: usize, _: &FileSample<'_>) {
        self.0 += 1;
    }

    fn beside(&mut self, _: &[EventAttributes], _: u64, _: RingRecord<'_>) {}
}

fn files() -> Vec<PathBuf> {
    let Some(folder) = env::var_os("MEMWALL_PERF_FILES") else {
        panic!("MEMWALL_PERF_FILES names no folder with files of perf");
    };
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Whether all samples are those of perf and in its order; the error says where they differ.
fn compared(told: &ToldRows, ours: Vec<Row>) -> Result<&'static str, String> {
    let mut ours: Vec<Row> = ours.into_iter().map(|row| row.of_fields(&told.fields)).collect();
    if ours == told.rows {
        return Ok("in the same order");
    }
    if ours.len() != told.rows.len() {
        return Err(format!("{} samples, perf has {}", ours.len(), told.rows.len()));
    }
    let mut theirs = told.rows.clone();
    ours.sort();
    theirs.sort();
    match ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        Some((ours, theirs)) => Err(format!("{ours:?}, perf has {theirs:?}")),
        None => Ok("in another order"),
    }
}

fn imported(file: &Path, folder: &Path) -> Result<u64, String> {
    let output = folder.join("imported.sqlite");
    let _ = fs::remove_file(&output);
    let outcome = import::import(&request(file, &output));
    let outcome = outcome.map_err(|error| error.to_string())?;
    let kept = record::file::imported_samples(&output).map_err(|error| error.to_string())?.len() as u64;
    let omitted = outcome.record.omissions.iter().filter(|left| left.what.starts_with("samples without"));
    let omitted: u64 = omitted.map(|left| left.count).sum();
    let all: u64 = outcome.record.events.iter().map(|event| event.samples).sum();
    match kept + omitted == all {
        true => Ok(kept),
        false => Err(format!("{all} samples, {kept} in the recording, {omitted} left out by name")),
    }
}

#[test]
#[ignore = "asks for a folder with files of perf"]
fn others_files_are_read_as_perf_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut faults = 0;
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let read = catch_unwind(|| read(&file)).unwrap_or_else(|_| panic!("{name}: a panic"));
        let told = told_by_perf(&file);
        let line = match (read, told) {
            (Err(error), Err(_)) => format!("refused by both: {error}"),
            (Err(error), Ok(told)) if told.rows.is_empty() => format!("refused: {error}; perf has no sample"),
            (Err(error), Ok(told)) => {
                faults += 1;
                format!("FAULT: {error}; perf has {} samples", told.rows.len())
            }
            (Ok((rows, outcome)), told) => {
                let kept = imported(&file, folder.path());
                faults += u32::from(kept.is_err());
                let kept = kept.map_or_else(|why| format!("FAULT: {why}"), |kept| format!("{kept} kept"));
                let beside = match told {
                    Err(why) => format!("perf refuses it: {}", why.lines().next().unwrap_or_default()),
                    Ok(told) => match compared(&told, rows) {
                        Ok(order) => {
                            let fields = told.fields.join(" ");
                            format!("{} samples as perf has them, {order} ({fields})", told.rows.len())
                        }
                        Err(why) => {
                            faults += 1;
                            format!("FAULT: {why} [{}]", told.warnings.trim())
                        }
                    },
                };
                let (cut, omissions) = (&outcome.cut_short, &outcome.omissions);
                let rest = (outcome.malformed, outcome.late, &outcome.faults);
                format!("{beside}; {kept}; {cut:?} {rest:?} {omissions:?}")
            }
        };
        println!("{name}: {line}");
    }
    assert_eq!(faults, 0, "files that are not read as perf reads them");
}

#[test]
#[ignore = "asks for a folder with files of perf"]
fn others_files_cut_and_changed_break_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("perf.data");
    let turns: u64 = env::var("MEMWALL_PERF_DAMAGE").map_or(20, |turns| turns.parse().unwrap());
    let mut tried = 0u64;
    for file in files().into_iter().filter(|file| file.is_file()) {
        let whole = fs::read(&file).unwrap();
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit.max(1)
        };
        for turn in 0..turns {
            let mut bytes = whole.clone();
            if turn % 2 == 0 {
                bytes.truncate(below(whole.len()));
            }
            // Near the beginning a change reaches more.
            for _ in 0..1 + below(8) {
                let limit = if below(2) == 0 { bytes.len().min(4096) } else { bytes.len() };
                if let Some(byte) = bytes.get_mut(below(limit)) {
                    *byte = [0, 0xff, 1, 0x80, below(256) as u8][below(5)];
                }
            }
            let attempt = AssertUnwindSafe(|| {
                let mut count = SampleCount::default();
                let _ = perf_data::read(&mut SeekableInput(Cursor::new(&bytes)), "it", &mut count);
                let _ = perf_data::read(&mut PipedInput(bytes.as_slice()), "it", &mut count);
                // Writing takes far longer than reading.
                if turn % 5 == 0 {
                    fs::write(&damaged, &bytes).unwrap();
                    let _ = imported(&damaged, folder.path());
                }
            });
            assert!(catch_unwind(attempt).is_ok(), "{} turn {turn}", file.display());
            tried += 1;
        }
    }
    println!("{tried} damaged files");
    assert!(tried > 0);
}
