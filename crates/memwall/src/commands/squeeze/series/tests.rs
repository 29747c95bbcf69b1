use machine::{
    Bytes,
    profile::Estimate,
    squeezing::{Interference, SqueezeForm},
};
use record::squeeze::{
    HarmVerdict, ProgramClass, SlowdownPoint, SqueezeCurve, SqueezedRun, TimedBy, UseBounds,
};

use super::*;

fn exact(value: f64) -> Estimate {
    Estimate { value, low: value, high: value, samples: 9 }
}

fn interference(kind: SqueezeKind, threads: usize) -> Interference {
    Interference { kind, form: SqueezeForm::Shared, threads, bytes_each: Bytes(0), pause: 0, left: None }
}

fn curve(kind: SqueezeKind, whole: f64, used: (f64, f64), lost: f64) -> SqueezeCurve {
    let point = SlowdownPoint {
        interference: interference(kind, 1),
        left: exact(whole / 2.0),
        slowdown: exact(1.0 + lost),
        elsewhere: 0.0,
        verdict: HarmVerdict::Harmful,
    };
    SqueezeCurve {
        kind,
        whole: Some(whole),
        points: vec![point],
        bounds: Some(UseBounds { at_least: Some(used.0), at_most: Some(used.1) }),
        refused: None,
    }
}

/// So many processes of 5 MB each, which take this long.
fn member(many: usize, seconds: f64) -> SeriesMember {
    let run = SqueezeRun {
        schema: String::new(),
        program: "five".to_owned(),
        simulated: None,
        seed: 1,
        timed_by: TimedBy::Wall,
        harm: 0.05,
        cpus: CpuSet::default(),
        spare: CpuSet::default(),
        processes: many,
        budget_s: None,
        spent_s: 0.0,
        ended: SqueezeEnd::Told,
        storage: curve(SqueezeKind::Storage, 20e6, (4.5e6, 5.5e6), 0.4),
        bandwidth: curve(SqueezeKind::Bandwidth, 40e9, (0.5e9, 1e9), 0.0),
        class: ProgramClass::CacheSensitive,
        evidence: Vec::new(),
        parts: Vec::new(),
        crashes: Vec::new(),
        runs: vec![SqueezedRun { interference: None, round: 0, ns: Some(seconds * 1e9) }],
        remarks: Vec::new(),
    };
    SeriesMember { value: many.to_string(), alone_ns: alone_ns(&run), run: Some(run), failed: None }
}

#[test]
fn the_most_that_lose_nothing_and_why_no_more() {
    let found = best(&[member(4, 1.3), member(1, 1.0), member(2, 1.01)]).expect("a mapping");
    assert_eq!((found.per_socket, found.cause), (2, Some(SqueezeKind::Storage)));
    assert_eq!(found.why, "4 are each 30 % slower, for want of cache");
    let all = best(&[member(1, 1.0), member(2, 1.0)]).expect("a mapping");
    assert_eq!((all.per_socket, all.cause), (2, None));
    assert!(all.why.contains("no more than that were tried"));
    assert_eq!(best(&[]), None);
}

#[test]
fn launchers_bind_each_process_to_a_cpu() {
    let program: Vec<OsString> = vec!["./app".into(), "-s".into()];
    let cpus: CpuSet = [0, 2, 5].into_iter().collect();
    let words = |launcher: Launcher| {
        let (command, copies) = launcher.command(&program, 3, &cpus);
        (session::words(&command), copies)
    };
    assert_eq!(words(Launcher::Copies), ("./app -s".to_owned(), 3));
    assert_eq!(
        words(Launcher::Mpirun),
        ("mpirun -n 3 --cpu-list 0,2,5 --bind-to cpu-list:ordered ./app -s".to_owned(), 1)
    );
    assert_eq!(words(Launcher::Srun), ("srun -n 3 --cpu-bind=map_cpu:0,2,5 ./app -s".to_owned(), 1));
}

#[test]
fn strengths_with_more_threads_than_spare_cores_are_left_out() {
    let point = |kind, threads: usize| SqueezePoint {
        interference: (threads > 0).then(|| interference(kind, threads)),
        ..SqueezePoint::default()
    };
    let profile = SqueezeProfile {
        storage: [0, 1, 3, 5].map(|threads| point(SqueezeKind::Storage, threads)).to_vec(),
        bandwidths: [0, 5].map(|threads| point(SqueezeKind::Bandwidth, threads)).to_vec(),
        ..SqueezeProfile::default()
    };
    let planned = PlannedMember {
        value: "4".to_owned(),
        command: Vec::new(),
        set: Vec::new(),
        own: (0..4).collect(),
        spare: vec![4, 5, 6, 7],
        processes: 4,
        copies: 4,
    };
    let left = within(&profile, &planned);
    assert_eq!((left.storage.len(), left.bandwidths.len()), (3, 1));
    assert!(left.refusal(SqueezeKind::Storage).is_none());
    let why = left.refusal(SqueezeKind::Bandwidth).expect("a reason");
    assert!(why.contains("has 5 threads or more") && why.contains("4 cores are spare"), "{why}");
    // What would do is said in full.
    assert!(why.contains("squeeze --calibrate --cpus 0-3"), "{why}");
}
