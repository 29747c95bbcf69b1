//! Recordings of every version so far are read.
//!
//! `recordings/version-2.sqlite` was written by `memwall record -- ./walk`, a walk of dependent loads over 8 MiB, and
//! vacuumed; `version-1.sqlite` is the same with the tables that version 2 added taken out again. `version-4.sqlite` is of such a
//! walk whose steps were inlined, `version-4-loads.sqlite` of a scenario on `sim:tiny` (`memwall scenario FILE --on sim:tiny -o`),
//! `version-3-loads.sqlite` the same without the tables that version 4 added; of all three the pages are 512 bytes, so that
//! they are small. Another one of version 3 is beside the loops that no rule was made on.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use record::{
    file::{VERSION, read},
    loads::LoadSamples,
    run::Run,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn recording(name: &str) -> Run {
    read(&folder().join(name)).unwrap()
}

fn version(file: &Path) -> i64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// A version that is made has to be kept before the next one comes.
#[test]
fn one_of_each_version_is_kept() {
    let kept = fs::read_dir(folder()).unwrap().map(|file| version(&file.unwrap().path()));
    assert_eq!(kept.collect::<BTreeSet<_>>(), (1..=VERSION).collect());
}

#[test]
fn version_1_has_code_and_samples_without_data() {
    let run = recording("version-1.sqlite");
    assert_eq!((run.about.command[0].as_str(), run.samples.time_ns.len()), ("./walk", 376));
    assert_eq!(run.samples.address.iter().flatten().count(), 375);
    assert!(run.functions.iter().any(|function| function.name == "walk" && function.code.is_some()));
    assert_eq!(run.loads, LoadSamples::NotAsked);
    assert!(run.data.blocks.is_empty() && run.data.areas.is_empty() && run.stacks.is_empty());
}

#[test]
fn version_2_has_data_too() {
    let run = recording("version-2.sqlite");
    assert_eq!(run.samples, recording("version-1.sqlite").samples);
    assert_eq!((run.data.blocks.len(), run.data.areas.len()), (1, 11));
    assert_eq!(run.data.blocks[0].size_bytes, 8 << 20);
}

#[test]
fn version_3_has_lines_without_what_was_inlined() {
    let loops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../memwall/tests/loops/zen4");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("columns.sqlite");
    let kept = fs::File::open(loops.join("columns-163840.sqlite.gz")).unwrap();
    io::copy(&mut GzDecoder::new(kept), &mut fs::File::create(&file).unwrap()).unwrap();
    let run = read(&file).unwrap();
    assert!(!run.samples.time_ns.is_empty() && run.inlined.ranges.is_empty() && run.inlined.calls.is_empty());
    assert_eq!(version(&file), 3);
}

#[test]
fn version_3_has_loads_and_so_has_version_4() {
    let [before, run] = ["version-3-loads.sqlite", "version-4-loads.sqlite"].map(recording);
    assert_eq!(before, run);
    let LoadSamples::Taken(loads) = &run.loads else { panic!("{:?}", run.loads) };
    assert_eq!(loads.len(), 284);
    assert!(loads.iter().all(|load| load.address.is_some() && load.origin.is_some()));
    assert!(loads.iter().all(|load| load.latency_cycles.is_some_and(|cycles| cycles > 4)));
    assert_eq!((run.regions.list.len(), run.sampled.list.len()), (1, 5));
}

#[test]
fn version_4_has_what_was_inlined() {
    let run = recording("version-4.sqlite");
    let names: Vec<&str> = run.inlined.calls.iter().map(|call| call.function.as_str()).collect();
    assert_eq!((names, run.inlined.ranges.len()), (vec!["walk", "step"], 2));
    assert_eq!((run.samples.time_ns.len(), run.data.blocks[0].size_bytes), (41, 8 << 20));
}
