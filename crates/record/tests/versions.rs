//! Recordings of every version so far are read.
//!
//! `recordings/version-2.sqlite` was written by `memwall record -- ./walk`, a walk of dependent loads over 8 MiB, and
//! vacuumed; `version-1.sqlite` is the same with the tables that version 2 added taken out again. One of
//! version 3 is beside the loops that no rule was made on.
#![allow(clippy::unwrap_used)]

use std::{fs, io, path::Path};

use flate2::read::GzDecoder;
use record::{file::read, loads::LoadSamples, run::Run};

fn recording(name: &str) -> Run {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)).unwrap()
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
    let connection = rusqlite::Connection::open(&file).unwrap();
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 3);
}
