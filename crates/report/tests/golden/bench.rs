//! `report::terminal::bench`.

use machine::{Bytes, profile::Clock};
use record::bench::{BackingPages, Bench, Stopped};
use report::terminal::bench::{csv, text};

use crate::{benches::*, check, plain};

fn shown(bench: &Bench, columns: usize) -> String {
    let text = plain(&text(bench, columns, true));
    check(&text, columns);
    text
}

fn one_size() -> Bench {
    triad(vec![triad_point(Bytes::gib(1), 17.1)])
}

#[test]
fn single_size() {
    insta::assert_snapshot!("single_60", shown(&one_size(), 60));
    insta::assert_snapshot!("single_80", shown(&one_size(), 80));
}

#[test]
fn sweep_with_plot() {
    for columns in [40, 60, 80, 120] {
        insta::assert_snapshot!(format!("sweep_{columns}"), shown(&triad_sweep(), columns));
    }
}

#[test]
fn chase_with_noise() {
    for columns in [40, 60, 80, 120] {
        insta::assert_snapshot!(format!("chase_{columns}"), shown(&chase_sweep(), columns));
    }
}

#[test]
fn loads_need_one_bandwidth() {
    let mut bench = triad_sweep();
    bench.kernel = "load".into();
    bench.summary = "reads A[i]".into();
    bench.points.truncate(5);
    for point in &mut bench.points {
        point.work.memory_bytes = point.work.program_bytes;
        point.pages = Some(BackingPages { huge: Bytes(0), total: Bytes::mib(2) });
    }
    insta::assert_snapshot!("load_80", shown(&bench, 80));
}

#[test]
fn interrupted() {
    let mut bench = triad_sweep();
    bench.interrupted = true;
    bench.points.truncate(3);
    bench.points[2].stopped = Stopped::Interrupted;
    bench.points[2].time_ns.samples = 1;
    insta::assert_snapshot!("interrupted_80", shown(&bench, 80));
    bench.points.clear();
    insta::assert_snapshot!("interrupted_at_once_80", shown(&bench, 80));
}

#[test]
fn clocks_that_disagree_and_steal_unknown() {
    let mut bench = one_size();
    bench.clock = Some(Clock { add_hz: 7.4e9, mul_hz: 3.7e9, tsc_hz: None });
    bench.points[0].noise.steal_ns = None;
    bench.points[0].noise.spread = None;
    bench.points[0].pages = Some(BackingPages { huge: Bytes::mib(1), total: Bytes::mib(2) });
    bench.points[0].asked = Bytes(1_100_000_000);
    insta::assert_snapshot!("no_clock_no_steal_80", shown(&bench, 80));
    insta::assert_snapshot!("no_clock_no_steal_csv", csv(&bench));
    bench.clock = None;
    assert!(shown(&bench, 80).contains("the core clock was not estimated"));
}

#[test]
fn no_memory_at_all() {
    insta::assert_snapshot!("divide_80", shown(&divide(), 80));
}

#[test]
fn pipes_get_no_plot() {
    let piped = text(&triad_sweep(), 80, false);
    assert!(!piped.chars().any(|c| ('\u{2800}'..='\u{28ff}').contains(&c)));
    assert!(text(&triad_sweep(), 80, true).len() > piped.len());
}

#[test]
fn every_width_is_kept() {
    let mut bare = one_size();
    bare.clock = None;
    for bench in [one_size(), triad_sweep(), chase_sweep(), divide(), bare] {
        for columns in 40..=140 {
            shown(&bench, columns);
        }
    }
}

#[test]
fn impossible_numbers_are_dashes() {
    let mut bench = one_size();
    bench.points[0].time_ns.value = f64::NAN;
    bench.points[0].noise.wall_ns = 0.0;
    let text = shown(&bench, 80);
    assert!(text.contains('–'), "{text}");
    assert!(!csv(&bench).contains("NaN"));
}

#[test]
fn csv_has_a_field_per_column() {
    let mut bench = chase_sweep();
    bench.kernel = "my, \"own\" chase".into();
    let csv = csv(&bench);
    insta::assert_snapshot!("chase_csv", csv);
    let names = csv.lines().next().unwrap_or_default().split(',').count();
    // The kernel's name holds the only quoted comma.
    assert!(csv.lines().skip(1).all(|line| line.split(',').count() == names + 1), "{csv}");
    assert_eq!(csv.lines().count(), bench.points.len() + 1);
}
