use super::*;
use crate::patterns::{PatternState, judge};

/// A program whose runs take so long, with so much user time, of which so much waits for memory and for others.
fn run(threads: u32, round: u32, elapsed: f64, user: f64, memory: f64, others: f64) -> ScalingRun {
    ScalingRun {
        threads,
        seen: Some(threads),
        round,
        elapsed_ns: (elapsed * 1e9) as u64,
        user_ns: Some(user * 1e9),
        useful_ns: Some((user - others) * 1e9),
        memory_ns: Some(memory * 1e9),
        synchronising_ns: Some(others * 1e9),
        imbalance: (threads > 1).then_some(0.0),
        stream_bytes_per_s: None,
        spoilt: None,
    }
}

/// Three rounds that differ by a little, which grows with time.
fn series(of: [(u32, f64, f64, f64, f64); 2]) -> Scaling {
    let rounds = [1.0, 1.1, 1.3];
    let runs = rounds.iter().enumerate().flat_map(|(round, drift)| {
        of.map(|(threads, elapsed, user, memory, others)| {
            run(threads, round as u32, elapsed * drift, user * drift, memory * drift, others * drift)
        })
    });
    Scaling { cpus: 2, cores: Some(2), runs: runs.collect() }
}

#[test]
fn ratios_are_taken_within_rounds_so_that_drift_cancels() {
    let found = scaling(&series([(1, 10.0, 10.0, 1.0, 0.0), (2, 5.0, 10.0, 1.0, 0.0)]));
    let step = found.compared.unwrap();
    assert!(
        (step.efficiency.low - 1.0).abs() < 1e-9 && (step.efficiency.high - 1.0).abs() < 1e-9,
        "{step:?}"
    );
    assert_eq!((step.few, step.many, step.rounds, step.is_disturbed), (1, 2, 3, false));
    let point = &found.points[1];
    assert!((point.elapsed_ns.high / point.elapsed_ns.low - 1.3).abs() < 1e-6);
    assert!((point.speedup.unwrap().value - 2.0).abs() < 1e-9);
}

/// Streams that one thread alone moves half as slowly as two: judged with what samples say of the run itself.
fn judged(series: &Scaling, stream_waiting: f64, of_limit: f64) -> PatternState {
    let mut known = Indicators::new("a PMU");
    for (name, value) in [("stream_waiting", stream_waiting), ("bandwidth_of_limit", of_limit)] {
        known.put(name, IndicatorValue::new("in words", value, Confidence::High));
    }
    indicators(&scaling(series), &mut known);
    judge(&known).into_iter().find(|one| one.name == "bandwidth-saturation").unwrap().state
}

#[test]
fn streams_that_more_threads_do_not_speed_up_are_saturated_whatever_the_profile_says() {
    let saturated = series([(1, 10.0, 10.0, 7.0, 0.0), (2, 9.0, 18.0, 15.0, 0.0)]);
    let scales = series([(1, 10.0, 10.0, 7.0, 0.0), (2, 5.0, 10.0, 7.0, 0.0)]);
    assert_eq!(judged(&saturated, 0.8, 0.6), PatternState::Found);
    assert_eq!(judged(&saturated, 0.05, 0.6), PatternState::Absent);
    // The profile may be of another time: what scales is not saturated.
    assert_eq!(judged(&scales, 0.7, 0.9), PatternState::Absent);
    assert_eq!(judged(&scales, 0.7, 0.6), PatternState::Absent);
}

#[test]
fn a_program_that_does_not_follow_is_said_to() {
    let mut fixed = series([(1, 10.0, 10.0, 1.0, 0.0), (2, 10.0, 10.0, 1.0, 0.0)]);
    fixed.runs.iter_mut().for_each(|run| run.seen = Some(4));
    let found = scaling(&fixed);
    assert!(found.compared.is_none() && found.remarks[0].contains("{threads}"), "{:?}", found.remarks);
}

#[test]
fn threads_without_a_cpu_of_their_own_say_nothing_and_disturbed_runs_are_left_out_while_others_are_left() {
    let mut many = series([(2, 10.0, 10.0, 1.0, 0.0), (4, 10.0, 20.0, 1.0, 0.0)]);
    assert!(scaling(&many).compared.is_none());
    many.cpus = 4;
    many.runs[0].spoilt = Some("others took it".to_owned());
    let found = scaling(&many);
    assert_eq!(found.compared.map(|step| (step.rounds, step.is_disturbed)), Some((2, false)));
    assert!(found.compared.is_some_and(|step| step.shares_cores));
    assert!(found.remarks.iter().any(|remark| remark.contains("1 of 6 runs")), "{:?}", found.remarks);
    many.runs[2].spoilt = Some("others took it".to_owned());
    let found = scaling(&many);
    assert_eq!(found.compared.map(|step| (step.rounds, step.is_disturbed)), Some((3, true)));
    // Nothing is judged by those.
    let mut known = Indicators::new("a PMU");
    indicators(&found, &mut known);
    assert!(known.get("scaling_efficiency").is_err());
}

#[test]
fn waiting_for_others_that_does_not_grow_is_no_synchronisation() {
    let state = |series: &Scaling| {
        let mut known = Indicators::new("a PMU");
        known.put("synchronising", IndicatorValue::new("in words", 0.4, Confidence::High));
        known.put("blocked", IndicatorValue::new("in words", 0.0, Confidence::High));
        indicators(&scaling(series), &mut known);
        judge(&known).into_iter().find(|one| one.name == "synchronisation").unwrap().state
    };
    assert_eq!(state(&series([(1, 10.0, 10.0, 0.0, 0.0), (2, 9.0, 18.0, 0.0, 8.0)])), PatternState::Found);
    assert_eq!(state(&series([(1, 10.0, 10.0, 0.0, 4.0), (2, 5.0, 10.0, 0.0, 4.0)])), PatternState::Absent);
}
