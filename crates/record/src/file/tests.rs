//! Written, damaged and read back.
#![allow(clippy::unwrap_used)]

use std::{fs, num::NonZeroU64, path::Path};

use machine::{
    probe::{ProbeReading, ProbedChase},
    profile::{Fingerprint, Noise},
};
use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::{data::*, ids::*, inlined::*, loads::*, probe::*, regions::*, relief::*, run::*};

fn about() -> About {
    About {
        memwall: "0.1.0".into(),
        command: vec!["./app".into(), "--fast".into(), String::new()],
        attached: None,
        started_at: 1_800_000_000,
        fingerprint: Fingerprint {
            id: "0123".into(),
            cpu: "a CPU".into(),
            microcode: "1".into(),
            topology: "1 socket".into(),
            kernel: "6.1".into(),
            hypervisor: "none".into(),
        },
        rate_hz: 1000.0,
        period_ns: 1e6,
        skid_instructions: 1,
        elapsed_ns: Some(5_000_000),
        ending: Ending::Exited(37),
        usage: Some(Usage { user_ns: 4_000_000, system_ns: 9, minor_faults: 3, ..Usage::default() }),
        slowed: None,
        clock_hz: None,
        lost_samples: Some(0),
        noise: Some(Noise { wall_ns: 5e6, steal_ns: None, involuntary_switches: Some(2), spread: None }),
        slice_ns: 100_000_000,
    }
}

fn data() -> Data {
    let area = |start, end, kind, pages| Area { process: ProcessId(0), start, end, kind, pages };
    let pages = AreaPages { resident_bytes: 8192, huge_bytes: 0, nodes: vec![(0, 4096), (1, 4096)] };
    let block = |time_ns, kind, site| HeapBlock {
        process: ProcessId(0),
        time_ns,
        address: 0x7f00_0000,
        size_bytes: 1 << 20,
        stands_for_bytes: (kind == BlockKind::Small).then_some(9 << 20),
        kind,
        tid: 7,
        site,
    };
    let site = |line, callers: &[&str]| Site {
        variable: callers.first().map(|_| "rows".to_owned()),
        function: "make \"table\"".into(),
        module: "/bin/app".into(),
        address: 0x1010,
        line,
        callers: callers.iter().map(|caller| (*caller).to_owned()).collect(),
    };
    Data {
        areas: vec![
            area(0x1000, 0x2000, AreaKind::File("/bin/app".into()), None),
            area(0x3000, 0x4000, AreaKind::Heap, Some(pages)),
            area(0x5000, 0x6000, AreaKind::Anonymous, Some(AreaPages::default())),
            area(0x7fff_0000_0000, 0x7fff_0001_0000, AreaKind::Stack(ThreadId(0)), None),
            area(u64::MAX - 0x1000, u64::MAX, AreaKind::Anonymous, None),
        ],
        variables: vec![Variable {
            process: ProcessId(0),
            start: 0x1000,
            end: 0x1040,
            name: "table".into(),
            module: "/bin/app".into(),
        }],
        sites: vec![site(Some(("app.c".into(), 12)), &["main", "a\\b"]), site(None, &[])],
        blocks: vec![
            block(0, BlockKind::Large, Some(1)),
            block(5, BlockKind::Small, Some(0)),
            block(6, BlockKind::Mapped, Some(0)),
            block(7, BlockKind::Unmapped, None),
        ],
        heap: vec![
            HeapLog { process: ProcessId(0), inherits: None, began_ns: 0, problem: None },
            HeapLog {
                process: ProcessId(0),
                inherits: Some(ProcessId(0)),
                began_ns: 3,
                problem: Some("cut".into()),
            },
        ],
    }
}

fn loads() -> Vec<LoadSample> {
    let known = LoadSample {
        time_ns: 1_500_000,
        thread: ThreadId(0),
        cpu: 3,
        place: PlaceId(0),
        address: NonZeroU64::new(u64::MAX - 7),
        latency_cycles: Some(312),
        origin: Some(DataOrigin::Dram),
        translated_at_hand: Some(true),
    };
    let walked = LoadSample { time_ns: 1_550_000, translated_at_hand: Some(false), ..known };
    let unknown = LoadSample {
        time_ns: 1_600_000,
        address: None,
        latency_cycles: None,
        origin: None,
        translated_at_hand: None,
        ..known
    };
    vec![known, walked, unknown]
}

fn run() -> Run {
    let address = |address| NonZeroU64::new(address);
    Run {
        about: about(),
        processes: vec![Process {
            pid: 7,
            parent: None,
            name: "app".into(),
            executable: Some("/bin/app".into()),
            began_ns: 0,
            ended_ns: Some(5_000_000),
        }],
        threads: vec![RecordedThread {
            tid: 7,
            process: ProcessId(0),
            name: "app".into(),
            began_ns: 0,
            ended_ns: None,
        }],
        modules: vec![
            Module {
                path: "/bin/app".into(),
                kind: ModuleKind::File,
                build_id: Some("ab".into()),
                problem: None,
            },
            Module {
                path: "generated".into(),
                kind: ModuleKind::Anonymous,
                build_id: None,
                problem: Some("x".into()),
            },
        ],
        functions: vec![Function {
            module: ModuleId(0),
            symbol: Some("main".into()),
            name: "main".into(),
            start: 0x1000,
            end: 0x1010,
            code: Some(vec![0x90; 16]),
        }],
        files: vec!["app.c".into(), "/usr/include/swap.h".into()],
        inlined: InlinedCode {
            ranges: vec![InlinedRange { module: ModuleId(0), start: 0x1004, end: 0x1008, call: 1 }],
            calls: vec![
                InlinedCall { function: "sort<int>".into(), file: Some(0), line: Some(14), caller: None },
                InlinedCall { function: "swap".into(), file: Some(1), line: Some(3), caller: Some(0) },
            ],
        },
        lines: vec![
            LineRange { module: ModuleId(0), start: 0x1000, end: 0x1004, file: 0, line: 12 },
            LineRange { module: ModuleId(0), start: 0x1004, end: 0x1008, file: 1, line: 7 },
        ],
        places: vec![
            Place { module: ModuleId(0), address: 0x1004, function: Some(FunctionId(0)) },
            Place { module: ModuleId(1), address: 0xffff_ffff_ffff_f000, function: None },
        ],
        samples: Samples {
            time_ns: vec![1_000_000, 2_000_000, 3_000_000],
            thread: vec![ThreadId(0); 3],
            cpu: vec![0, 1, 65535],
            place: [0, 1, 0].map(PlaceId).to_vec(),
            address: vec![address(u64::MAX), None, address(0x7fff_0000)],
            stack: vec![Some(0), None, Some(1)],
        },
        bursts: Samples {
            time_ns: vec![1_500_000, 1_560_000],
            thread: vec![ThreadId(0); 2],
            cpu: vec![1, 1],
            place: vec![PlaceId(0); 2],
            address: vec![None, address(0x7fff_0040)],
            stack: Vec::new(),
        },
        passes: Samples {
            time_ns: vec![1_000_000],
            thread: vec![ThreadId(0)],
            cpu: vec![0],
            place: vec![PlaceId(0)],
            address: vec![address(7)],
            stack: Vec::new(),
        },
        regions: Regions {
            list: vec![
                Region { name: "solve".into(), is_parallel: false },
                Region { name: "f._omp_fn.0".into(), is_parallel: true },
            ],
            of_samples: vec![None, Some(RegionId(1)), Some(RegionId(0))],
            of_bursts: vec![Some(RegionId(0)), None],
            visits: vec![RegionVisits {
                region: RegionId(1),
                thread: ThreadId(0),
                visits: 7,
                unended: 1,
                wall_ns: 900,
                waits_ns: Some(50),
                counts: Some(RegionCounts {
                    visits: 3,
                    minor_faults: 11,
                    major_faults: 1,
                    voluntary_switches: 5,
                    involuntary_switches: 2,
                }),
            }],
            events: Some(EventsDone { done: 9, skipped: 2, first_ns: Some(40), last_ns: 800 }),
        },
        loads: LoadSamples::Taken(loads()),
        relief: ReliefRecord::Tried {
            loops: vec![RelievedLoop {
                module: ModuleId(0),
                ranges: vec![(0x1000, 0x1010)],
                tid: 100,
                stretches: vec![ReliefStretch {
                    time_ns: 5,
                    turns: 40,
                    lines: 41,
                    near_ns: Some(0.25),
                    turn_ns: None,
                    timing: Some(TurnTiming::Strides),
                    pause_ns: 7,
                    refusal: Some(ReliefRefusal::new(ReliefBarrier::NoTurnTime, "why")),
                }],
                near_ns: Some(Bounded { value: 0.25, low: 0.2, high: 0.5 }),
                turn_ns: None,
                share: None,
                has_wild_branches: true,
                has_atomics: false,
                refusal: Some(ReliefBarrier::OtherEnd.into()),
            }],
            cost: ReliefCost { copies: 3, paused_ns: 9, longest_pause_ns: 4, page_faults: 2, copies_ns: 1 },
        },
        probes: probes(),
        import: None,
        scaling: None,
        sampled: crate::sampled::SampledEvents::default(),
        stacks: vec![vec![PlaceId(0), PlaceId(1)], vec![PlaceId(0)]],
        data: data(),
        slices: vec![Slice { thread: ThreadId(0), slice: 0, running_ns: 4, blocked_ns: 5, preempted_ns: 6 }],
        remarks: vec!["Something was lost.".into()],
    }
}

fn probes() -> Probes {
    let chase = |bytes, latency_ns| ProbedChase { bytes, latency_ns };
    let reading = ProbeReading {
        level: Some(3),
        chases: vec![chase(1 << 20, 14.5), chase(2 << 20, 15.25)],
        memory: chase(64 << 20, 112.0),
        load_bytes_per_s: 1.25e10,
        took_ns: 4.5e7,
    };
    Probes {
        before: ProbeOutcome::Reading(reading),
        after: ProbeOutcome::LeftOut("the program goes on".into()),
    }
}

fn written(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("a.mw");
    write(&path, &run()).unwrap();
    path
}

/// Samples of before, by chance, as many as count; all of after; regions with their samples.
#[test]
fn samples_of_before_it_slowed_down_are_thinned_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut long = run();
    let (before, after) = (40_000usize, 500usize);
    let of_samples = before + after;
    long.samples = Samples {
        time_ns: (0..of_samples as u64).collect(),
        thread: vec![ThreadId(0); of_samples],
        cpu: (0..of_samples).map(|number| (number % 7) as u16).collect(),
        place: (0..of_samples).map(|number| PlaceId(u32::from(number % 4 == 0))).collect(),
        address: vec![None; of_samples],
        stack: Vec::new(),
    };
    long.regions.of_samples =
        (0..of_samples).map(|number| Some(RegionId(u32::from(number % 4 == 0)))).collect();
    long.about.slowed = Some(SlowedSampling { from_ns: before as u64, counted_before: 0.025 });
    write(&path, &long).unwrap();
    let found = read(&path).unwrap();
    let times = &found.samples.time_ns;
    let left = times.partition_point(|time| *time < before as u64);
    assert_eq!(times.len() - left, after, "none of after is left out");
    // 1000 expected, 31 the standard deviation.
    assert!((880..1120).contains(&left), "{left}");
    let early = times.iter().filter(|time| **time < before as u64 / 2).count();
    assert!((early as f64 / left as f64 - 0.5).abs() < 0.08, "{early} of {left}");
    let quarter =
        found.samples.place[..left].iter().filter(|place| place.0 == 1).count() as f64 / left as f64;
    assert!((quarter - 0.25).abs() < 0.06, "{quarter}");
    for (index, time) in times.iter().enumerate() {
        assert_eq!(found.samples.cpu[index], (time % 7) as u16);
        assert_eq!(found.regions.of_samples[index], Some(RegionId(u32::from(time % 4 == 0))));
    }
    let again = folder.path().join("b.mw");
    write(&again, &found).unwrap();
    assert_eq!(read(&again).unwrap(), found, "what was thinned is not thinned again");
}

/// A memwall that was killed has said so before.
#[test]
fn a_recording_that_was_cut_off_knows_that_it_slowed_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut writer = Writer::create(&path, &about()).unwrap();
    writer.settle().unwrap();
    let slowed = Some(SlowedSampling { from_ns: 77, counted_before: 1.0 });
    writer.about(&About { slowed, period_ns: 4e7, ..about() });
    writer.flush().unwrap();
    let found = read(&path).unwrap().about;
    assert_eq!((found.slowed, found.period_ns), (slowed, 4e7));
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    assert_eq!(read(&path).unwrap(), run());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "one file, no journal");
    // Absent stays absent.
    let mut bare = run();
    bare.about.usage = None;
    bare.about.noise = None;
    bare.about.lost_samples = None;
    bare.about.elapsed_ns = None;
    bare.about.attached = Some(12);
    for ending in [Ending::Signalled(9), Ending::Detached, Ending::Unknown] {
        bare.about.ending = ending;
        write(&path, &bare).unwrap();
        assert_eq!(read(&path).unwrap(), bare);
    }
}

#[test]
fn an_unfinished_recording_has_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let begun = About { ending: Ending::Unknown, elapsed_ns: None, usage: None, noise: None, ..about() };
    let mut writer = Writer::create(&path, &begun).unwrap();
    assert!(!path.exists());
    writer.settle().unwrap();
    let run = run();
    writer.process(ProcessId(0), &run.processes[0]);
    writer.thread(0, &run.threads[0]);
    writer.module(0, &run.modules[0]);
    writer.place(0, &Place { function: None, ..run.places[0].clone() });
    let sample = |time_ns| RecordedSample {
        time_ns,
        thread: ThreadId(0),
        cpu: 0,
        place: PlaceId(0),
        address: None,
        stack: None,
    };
    writer.sample(sample(20));
    writer.sample(sample(10));
    writer.flush().unwrap();
    writer.sample(sample(30));
    // Read while it is being written, as after a kill.
    let read = read(&path).unwrap();
    assert_eq!(read.about.ending, Ending::Unknown);
    assert_eq!(read.about.elapsed_ns, None);
    assert_eq!(read.samples.time_ns, [10, 20], "in order of time, without what was not flushed");
    assert_eq!(read.functions, []);
}

#[test]
fn a_reader_in_the_way_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut writer = Writer::create(&path, &about()).unwrap();
    writer.settle().unwrap();
    writer.remark("first");
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM about").unwrap();
    writer.flush().unwrap();
    reader.execute_batch("COMMIT").unwrap();
    writer.remark("second");
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().remarks, ["first", "second"]);
}

#[test]
fn a_reader_that_stays_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut writer = Writer::create(&path, &about()).unwrap();
    writer.settle().unwrap();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM about").unwrap();
    writer.remark("last");
    writer.finish(&about(), &Code::default()).unwrap();
    assert!(Writer::create(&path, &about()).is_err(), "still ours");
    assert_eq!(reader.query_row("SELECT count(*) FROM remark", [], |row| row.get(0)), Ok(0));
    assert_eq!(read(&path).unwrap().remarks, ["last"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_gone_or_was_never_there_is_not_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let before = fs::read(&path).unwrap();
    drop(Writer::create(&path, &about()).unwrap());
    assert_eq!((fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (before, 1));
    let mut writer = Writer::create(&path, &about()).unwrap();
    assert!(matches!(Writer::create(&path, &about()), Err(FileError::Taken { .. })));
    writer.settle().unwrap();
    assert_eq!(writer.older().unwrap().path, path.with_extension("mw.old"));
    assert!(matches!(Writer::create(&path, &about()), Err(FileError::Taken { .. })));
    assert_eq!(writer.samples(), Some(0));
    fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert!(matches!(writer.flush(), Err(FileError::Moved { .. })));
    fs::remove_file(folder.path().join("elsewhere")).unwrap();
    assert!(matches!(writer.finish(&about(), &Code::default()), Err(FileError::Removed { .. })));
    assert_eq!(writer.samples(), None);
}

#[test]
fn other_files_are_told_apart_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    assert!(matches!(read(&path), Err(FileError::Missing { .. })));
    for content in [&b""[..], b"hello", &[0xff; 5000], b"SQLite format 3\0 and then nothing of the kind"] {
        fs::write(&path, content).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, FileError::Foreign { .. } | FileError::Damaged { .. }), "{error:?}");
        if !content.is_empty() {
            let error = Writer::create(&path, &about()).err().unwrap();
            assert!(matches!(error, FileError::Occupied { .. }), "{error:?}");
            assert_eq!(fs::read(&path).unwrap(), content);
        }
    }
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    assert!(matches!(read(&path), Err(FileError::Foreign { is: "a SQLite file of another program", .. })));
    assert!(matches!(Writer::create(&path, &about()), Err(FileError::Occupied { .. })));
    assert!(matches!(read(folder.path()), Err(FileError::Foreign { .. })));
    assert!(matches!(Writer::create(folder.path(), &about()), Err(FileError::Occupied { .. })));
    let nowhere = folder.path().join("no/such/folder/a.mw");
    assert!(matches!(Writer::create(&nowhere, &about()), Err(FileError::Uncreatable { .. })));
}

#[test]
fn another_version_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", VERSION + 1).unwrap();
    let error = read(&path).unwrap_err();
    assert!(matches!(error, FileError::Newer { found, .. } if found == VERSION + 1), "{error}");
}

#[test]
fn a_recording_without_data_and_call_chains_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let old = "PRAGMA foreign_keys = OFF; DROP VIEW located; ALTER TABLE sample DROP COLUMN stack; DROP TABLE stack;
        DROP TABLE area; DROP TABLE variable; DROP TABLE site; DROP TABLE block; DROP TABLE heap_log;
        DROP TABLE burst; DROP TABLE load; DROP TABLE load_translation; DROP TABLE load_sampling; DROP TABLE inlined_range; DROP TABLE inlined_call;
        DROP TABLE region_visits; DROP TABLE region_sample; DROP TABLE region_burst; DROP TABLE region;
        PRAGMA user_version = 1";
    Connection::open(&path).unwrap().execute_batch(old).unwrap();
    let mut expected = run();
    expected.samples.stack = Vec::new();
    expected.stacks = Vec::new();
    expected.loads = LoadSamples::NotAsked;
    expected.bursts = Samples::default();
    expected.regions = Regions::default();
    expected.data = Data::default();
    expected.inlined = InlinedCode::default();
    assert_eq!(read(&path).unwrap(), expected);
}

#[test]
fn loads_without_their_translations_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    Connection::open(&path).unwrap().execute_batch("DROP TABLE load_translation").unwrap();
    let read = read(&path).unwrap();
    assert_eq!(read.loads.taken().len(), loads().len());
    assert!(read.loads.taken().iter().all(|load| load.translated_at_hand.is_none()), "{:?}", read.loads);
}

#[test]
fn loads_that_were_refused_or_not_asked_for_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    for loads in
        [LoadSamples::NotAsked, LoadSamples::Refused("no PMU".into()), LoadSamples::Taken(Vec::new())]
    {
        let expected = Run { loads, ..run() };
        write(&path, &expected).unwrap();
        assert_eq!(read(&path).unwrap(), expected);
    }
}

#[test]
fn the_address_space_last_seen_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mw");
    let mut writer = Writer::create(&path, &about()).unwrap();
    writer.settle().unwrap();
    writer.process(ProcessId(0), &run().processes[0]);
    let areas = data().areas;
    writer.areas(ProcessId(0), areas[..2].to_vec());
    writer.areas(ProcessId(0), areas[1..3].to_vec());
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().data.areas, areas[1..3]);
    writer.areas(ProcessId(0), areas[..1].to_vec());
    writer.flush().unwrap();
    assert_eq!(read(&path).unwrap().data.areas, areas[..1]);
}

#[test]
fn rows_that_contradict_each_other_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    for change in [
        "UPDATE sample SET thread = 9",
        "UPDATE sample SET thread = -1",
        "UPDATE sample SET cpu = 'zero'",
        "UPDATE place SET module = 2",
        "UPDATE place SET function = 1",
        "UPDATE line SET file = 5",
        "UPDATE thread SET process = 3",
        "UPDATE slice SET thread = 1",
        "UPDATE sample SET stack = 2",
        "UPDATE stack SET places = '[0, 7]'",
        "UPDATE stack SET places = '[0, -1]'",
        "UPDATE stack SET places = 'all of them'",
        "UPDATE area SET process = 1",
        "UPDATE area SET thread = 1 WHERE kind = 'stack'",
        "UPDATE area SET kind = 'file', path = NULL",
        "UPDATE area SET nodes = '[0]'",
        "UPDATE variable SET process = 1",
        "UPDATE site SET callers = '[1]'",
        "UPDATE block SET site = 2",
        "UPDATE block SET kind = 'odd'",
        "UPDATE block SET kind = 5",
        "UPDATE heap_log SET inherits = 1",
        "DROP TABLE block",
        "UPDATE module SET kind = 'liquid'",
        "UPDATE about SET value = 'melted' WHERE key = 'ending'",
        "UPDATE about SET value = 0 WHERE key = 'period_ns'",
        "DELETE FROM about WHERE key = 'rate_hz'",
        "DELETE FROM place WHERE id = 0",
        "DROP TABLE slice",
    ] {
        let path = written(folder.path());
        let change = format!("PRAGMA foreign_keys = OFF; {change}");
        Connection::open(&path).unwrap().execute_batch(&change).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, FileError::Damaged { .. }), "{change}: {error:?}");
    }
}

/// A table that is not checked could be a trap.
#[test]
fn every_table_is_checked_before_it_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/file");
    let sources = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut made = Vec::new();
    for source in sources.filter(|path| !path.ends_with("tests.rs")) {
        let text = fs::read_to_string(source).unwrap();
        for behind in text.split("CREATE TABLE ").skip(1) {
            let behind = behind.strip_prefix("IF NOT EXISTS ").unwrap_or(behind);
            let name = behind.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
            made.extend(name.filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    assert!(made.len() > 30, "{made:?}");
    // Room that is kept free, which nobody reads.
    made.retain(|name| name != "reserve");
    let missing: Vec<_> = made.iter().filter(|name| !guard::TABLES_READ.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Found by fuzzing: asking for leave to read such a column made a panic be told.
#[test]
fn columns_whose_names_are_no_text_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let (name, other) = (b"waits_ns", b"w\xffits_ns");
    let places: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..at + name.len()].copy_from_slice(other));
    fs::write(&path, bytes).unwrap();
    match read(&path) {
        Err(FileError::Damaged { detail, .. }) => {
            assert_eq!(detail, "a column of 'region_waits' has a name that is no text");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_journal_left_by_a_kill_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    // A commit that stopped half way: its journal is there, and pages of the file are already new.
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE sample SET cpu = 5").unwrap();
    for _ in 0..2000 {
        writer.execute("INSERT INTO remark(text) VALUES(hex(randomblob(100)))", []).unwrap();
    }
    let copy = folder.path().join("copy.mw");
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("a.mw-journal"), folder.path().join("copy.mw-journal")).unwrap();
    assert_ne!(fs::metadata(&copy).unwrap().len(), 0);
    assert_eq!(read(&copy).unwrap(), run());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]
    /// Cut or overwritten anywhere: read or refused, never a panic.
    #[test]
    fn damage_is_survived(cut in 0.0f64..1.0, at in 0.0f64..1.0, noise in prop::collection::vec(any::<u8>(), 0..600)) {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        let start = (bytes.len() as f64 * at) as usize;
        for (byte, noise) in bytes[start..].iter_mut().zip(&noise) {
            *byte = *noise;
        }
        if noise.len() % 2 == 0 {
            bytes.truncate((bytes.len() as f64 * cut) as usize);
        }
        fs::write(&path, &bytes).unwrap();
        let _ = read(&path);
    }
}

#[test]
fn a_line_is_the_programs_own_where_a_library_was_inlined() {
    let run = run();
    assert_eq!(run.line_at(ModuleId(0), 0x1000), Some(("app.c", 12)));
    // In swap, inlined into sort, which the program calls in line 14.
    assert_eq!(run.line_at(ModuleId(0), 0x1004), Some(("app.c", 14)));
    let frames = run.frames_at(ModuleId(0), 0x1006);
    let lines: Vec<_> = frames.iter().map(|frame| (frame.file, frame.line, frame.inlined)).collect();
    let header = "/usr/include/swap.h";
    assert_eq!(lines, [(header, 7, Some("swap")), (header, 3, Some("sort<int>")), ("app.c", 14, None)]);
}

#[test]
fn inlined_calls_that_lead_in_a_circle_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sqlite");
    write(&file, &run()).unwrap();
    let connection = Connection::open(&file).unwrap();
    connection.execute("UPDATE inlined_call SET caller = 1 WHERE id = 0", []).unwrap();
    drop(connection);
    let error = read(&file).unwrap_err();
    assert!(error.to_string().contains("inlined call 0"), "{error}");
}

#[test]
fn a_recording_knows_its_rank_if_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    assert_eq!(rank_of(&path), None);
    let rank = LaunchedRank { rank: 3, ranks: Some(4), node: "n7".into() };
    add_rank(&path, &rank).unwrap();
    assert_eq!(rank_of(&path), Some(rank));
    assert_eq!(read(&path).unwrap(), run());
    let other = folder.path().join("b.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE rank(id, rank, ranks, node)").unwrap();
    assert!(add_rank(&other, &LaunchedRank { rank: 0, ranks: None, node: String::new() }).is_err());
    assert_eq!(rank_of(&other), None);
}
