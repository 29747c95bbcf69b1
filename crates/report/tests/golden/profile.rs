//! `report::terminal::profile`.

use machine::Profile;
use report::terminal::profile::text;

use crate::{check, plain, profiles::*};

const DAY: u64 = 86_400;

fn shown(profile: &Profile, age_s: u64, columns: usize) -> String {
    let text = plain(&text(profile, MEASURED_AT + age_s, columns));
    check(&text, columns);
    text
}

#[test]
fn guest_with_an_absurd_claim() {
    for columns in [40, 60, 80, 120] {
        insta::assert_snapshot!(format!("guest_{columns}"), shown(&guest(), 190, columns));
    }
}

#[test]
fn what_neighbours_spoiled_is_marked() {
    for columns in [60, 120] {
        insta::assert_snapshot!(format!("crowded_{columns}"), shown(&crowded(), 190, columns));
    }
}

#[test]
fn interrupted_quick_and_old() {
    for columns in [60, 120] {
        insta::assert_snapshot!(format!("interrupted_{columns}"), shown(&interrupted(), 45 * DAY, columns));
    }
}

#[test]
fn one_cpu_without_clock() {
    insta::assert_snapshot!("one_cpu_80", shown(&one_cpu(), 5, 80));
}

#[test]
fn two_sockets() {
    for columns in [60, 80, 120] {
        insta::assert_snapshot!(format!("two_nodes_{columns}"), shown(&two_nodes(4), 7200, columns));
    }
    insta::assert_snapshot!("two_nodes_of_12_120", shown(&two_nodes(12), 7200, 120));
}

#[test]
fn nothing_but_a_fingerprint() {
    let mut profile = interrupted();
    profile.levels.clear();
    profile.latency_curve.clear();
    profile.clock = None;
    profile.overheads = None;
    insta::assert_snapshot!("nothing_80", shown(&profile, 0, 80));
}

#[test]
fn every_width_is_kept() {
    for profile in [guest(), crowded(), interrupted(), one_cpu(), two_nodes(4), two_nodes(8), two_nodes(12)] {
        for columns in 40..=140 {
            shown(&profile, DAY, columns);
        }
    }
}

#[test]
fn colours_are_in_the_text() {
    let coloured = text(&guest(), MEASURED_AT, 80);
    assert!(coloured.contains('\u{1b}'));
    assert!(!plain(&coloured).contains('\u{1b}'));
}

#[test]
fn warnings_only_where_due() {
    assert!(!shown(&guest(), 29 * DAY, 80).contains("warning"));
    assert!(shown(&guest(), 31 * DAY, 80).contains("older than 30 days"));
    let mut quick = guest();
    quick.extent.quick = true;
    assert!(shown(&quick, 0, 80).contains("warning: quick"));
}

#[test]
fn impossible_numbers_are_dashes() {
    let mut profile = guest();
    for level in &mut profile.levels {
        level.latency_ns = Some(about(f64::NAN));
        level.usable = Some(about(f64::INFINITY));
        level.one_core.load = Some(about(f64::NAN));
    }
    for point in &mut profile.loaded_latency {
        point.latency_ns.value = f64::NAN;
    }
    for point in &mut profile.latency_curve {
        point.latency_ns.value = f64::NAN;
    }
    assert!(shown(&profile, 0, 120).contains("– not measured"));
}
