//! Callers that are found in pieces of stacks (`--call-graph dwarf`), against those that perf finds.

use std::{path::Path, process::Command};

use tempfile::TempDir;

use crate::{Whom, record, request};

/// Files by their last name, and addresses in them, the innermost first.
type Chain = Vec<(String, u64)>;

fn last_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// `11bc middle (/usr/bin/app)` below a line for each sample.
fn told_by_perf(file: &Path) -> Vec<Chain> {
    let mut command = Command::new("perf");
    command.args(["script", "--no-inline", "-F", "time,ip,sym,dso", "-i"]).arg(file);
    let told = command.output().expect("perf starts");
    let mut all: Vec<Chain> = Vec::new();
    for line in String::from_utf8_lossy(&told.stdout).lines().filter(|line| !line.trim().is_empty()) {
        if line.trim_end().ends_with(':') {
            all.push(Chain::new());
            continue;
        }
        let address = line.split_whitespace().next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let module = line.rsplit_once('(').map(|(_, rest)| last_name(rest.trim_end().trim_end_matches(')')));
        let frame = module.zip(address).unwrap_or_else(|| panic!("a frame: {line}"));
        all.last_mut().expect("a sample").push(frame);
    }
    all
}

fn imported(file: &Path, folder: &Path) -> Vec<Chain> {
    let output = folder.join("imported.sqlite");
    import::import(&request(file, &output)).unwrap();
    let run = record::file::read(&output).unwrap();
    // As perf prints them: where in the file.
    let frame = |place| {
        let place = run.place(place).unwrap();
        let path = &run.module(place.module).unwrap().path;
        let segments = symbols::Image::open(path.as_ref(), None).map(|image| image.segments().to_vec());
        let segments = segments.unwrap_or_default();
        let holder = segments.iter().find(|segment| segment.addresses.contains(&place.address));
        let moved = holder.map_or(0, |segment| segment.addresses.start - segment.file.start);
        (last_name(path), place.address - moved)
    };
    let chain = |index: usize| -> Chain {
        let own = run.samples.place[index];
        match run.samples.stack.get(index).copied().flatten() {
            Some(stack) => run.stacks[stack as usize].iter().map(|place| frame(*place)).collect(),
            None => vec![frame(own)],
        }
    };
    (0..run.samples.place.len()).map(chain).collect()
}

#[test]
fn callers_in_pieces_of_stacks_are_those_that_perf_finds() {
    if !prerequisites::needs("perf") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("perf.data");
    let options = ["--call-graph", "dwarf,16384", "-e", "cpu-clock:u", "-F", "1000"];
    if record(&options, Whom::Program, &file).is_none() {
        return prerequisites::skip(prerequisites::Need::PerfEvent, "perf may not record");
    }
    let (theirs, ours) = (told_by_perf(&file), imported(&file, folder.path()));
    assert_eq!(ours.len(), theirs.len());
    // A caller stands at its call here, and at its last byte there.
    let is_same = |(ours, theirs): (&(String, u64), &(String, u64))| {
        ours.0 == theirs.0 && ours.1.abs_diff(theirs.1) <= 1
    };
    // perf leaves out where a thread began now and then.
    let same = |(ours, theirs): &(&Chain, &Chain)| {
        (theirs.len()..=theirs.len() + 1).contains(&ours.len()) && ours.iter().zip(theirs.iter()).all(is_same)
    };
    // Of some samples perf finds no caller at all.
    let pairs: Vec<(&Chain, &Chain)> =
        ours.iter().zip(&theirs).filter(|(_, theirs)| theirs.len() > 1).collect();
    let equal = pairs.iter().filter(|pair| same(pair)).count();
    let differs = pairs.iter().find(|pair| !same(pair));
    println!("{equal} of {} chains are the same; {differs:?}", pairs.len());
    assert!(pairs.len() * 2 > ours.len(), "perf found hardly any caller");
    assert!(equal * 10 >= pairs.len() * 9, "{equal} of {}: {differs:?}", pairs.len());
}
