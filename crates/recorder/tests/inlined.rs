//! Inlined functions keep their chain: a line is the program's own although the code is a library's.
#![allow(clippy::unwrap_used)]

use std::{fs, process::Command};

use record::{
    ids::{ModuleId, PlaceId, ThreadId},
    run::{About, Ending, Module, ModuleKind, Place, Run, Samples},
};

/// A function of a library, inlined into another of it, inlined into the program's own.
const SOURCE: &str = r#"
#line 1 "/usr/include/imagined.h"
static inline __attribute__((always_inline)) long put(long *a, long i) {
    long old = a[i & 1023];
    a[i & 1023] = i;
    return old;
}
static inline __attribute__((always_inline)) long exchange(long *a, long i) {
    return put(a, i * 7) ^ i;
}
#line 1 "/src/app.c"
__attribute__((noinline)) long work(long *a, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += exchange(a, i);
    return sum;
}
int main(int count, char **words) {
    static long table[1024];
    (void)words;
    return work(table, count) & 1;
}
"#;

/// As after a recording that was cut off: places and no functions.
fn cut_off(path: &str, build_id: String, address: u64) -> Run {
    Run {
        about: About {
            memwall: "0".into(),
            command: vec![path.to_owned()],
            attached: None,
            started_at: 0,
            fingerprint: Default::default(),
            rate_hz: 1000.0,
            period_ns: 1e6,
            skid_instructions: 1,
            elapsed_ns: None,
            ending: Ending::Unknown,
            usage: None,
            slowed: None,
            clock_hz: None,
            lost_samples: None,
            noise: None,
            slice_ns: 100_000_000,
        },
        import: None,
        scaling: None,
        sampled: record::sampled::SampledEvents::default(),
        processes: Vec::new(),
        threads: Vec::new(),
        modules: vec![Module {
            path: path.to_owned(),
            kind: ModuleKind::File,
            build_id: Some(build_id),
            problem: None,
        }],
        functions: Vec::new(),
        files: Vec::new(),
        lines: Vec::new(),
        inlined: Default::default(),
        places: vec![Place { module: ModuleId(0), address, function: None }],
        samples: Samples {
            time_ns: vec![0],
            thread: vec![ThreadId(0)],
            cpu: vec![0],
            place: vec![PlaceId(0)],
            address: vec![None],
            stack: Vec::new(),
        },
        bursts: Samples::default(),
        passes: Samples::default(),
        regions: Default::default(),
        loads: Default::default(),
        relief: Default::default(),
        probes: Default::default(),
        stacks: Vec::new(),
        data: Default::default(),
        slices: Vec::new(),
        remarks: Vec::new(),
    }
}

#[test]
fn the_chain_of_inlined_functions_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("app.c"), folder.path().join("app"));
    fs::write(&source, SOURCE).unwrap();
    let mut built = Command::new("cc");
    built.args(["-O2", "-g", "-Wl,--build-id", "-o"]).arg(&program).arg(&source);
    assert!(built.status().unwrap().success());
    let names = Command::new("nm").arg(&program).output().unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    let line = names.lines().find(|line| line.ends_with(" work")).unwrap();
    let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let build_id = symbols::build_id(&fs::read(&program).unwrap()).unwrap();
    let build_id = build_id.iter().map(|byte| format!("{byte:02x}")).collect();

    let mut run = cut_off(program.to_str().unwrap(), build_id, address);
    recorder::complete(&mut run);
    let module = ModuleId(0);
    let header = run.files.iter().position(|file| file == "/usr/include/imagined.h").unwrap();
    let inner = run.lines.iter().find(|range| range.file as usize == header && range.line == 3).unwrap();
    let frames = run.frames_at(module, inner.start);
    let found: Vec<_> = frames.iter().map(|frame| (frame.file, frame.line, frame.inlined)).collect();
    let library = "/usr/include/imagined.h";
    assert_eq!(found, [(library, 3, Some("put")), (library, 7, Some("exchange")), ("/src/app.c", 4, None)]);
    // No instruction of the function is a library's line.
    for range in &run.lines {
        let (file, _) = run.line_at(module, range.start).unwrap();
        assert_eq!(file, "/src/app.c", "{range:?}");
    }
}
