//! The table of levels: claimed and measured capacity, latency and bandwidth.

use machine::{
    Bytes, Profile,
    profile::{Bandwidths, LevelName, ProfileLevel},
};

use crate::{
    layout::conditions::{believable_hz, no_cycles_because},
    layout::figures::{self, ABSENT},
    layout::prose::{listed, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// Measured over claimed capacity outside these limits is coloured.
const AGREES: std::ops::RangeInclusive<f64> = 0.67..=1.5;

/// The table and what is needed to read it.
pub(super) fn section(profile: &Profile, columns: usize) -> Option<String> {
    if profile.levels.is_empty() {
        return None;
    }
    let all_cores = profile.levels.iter().any(|level| level.all_cores != Bandwidths::default());
    let rendered = table(profile, all_cores).render(columns);
    let mut out = rendered.text;
    let mut note = |text: &str| out += &wrap_in(QUIET, "", text, columns);
    if let Some(why) = no_cycles_because(profile.clock.as_ref()) {
        note(&format!("cycles {ABSENT}: {why}"));
    }
    if !all_cores && profile.cpus.len() == 1 {
        note("one CPU: all cores together is the one core");
    } else if !all_cores {
        note("bandwidth of all cores together: not measured");
    }
    if !rendered.left_out.is_empty() {
        note(&format!("no room for {}; --json has all", listed(&rendered.left_out)));
    }
    Some(out)
}

fn table(profile: &Profile, all_cores: bool) -> Table {
    let mut columns = vec![
        Column::new("level").left(),
        Column::new("claimed").group("capacity").part(1),
        Column::new("measured").group("capacity").part(1),
        Column::new("between").group("capacity").part(1).drop_rank(1),
        Column::new("ns").group("latency").part(2),
        Column::new("cycles").group("latency").part(2).drop_rank(2),
    ];
    let groups = [("one core, GB/s", true), ("all cores, GB/s", all_cores)];
    for (part, (group, _)) in groups.iter().enumerate().filter(|(_, (_, shown))| *shown) {
        for title in ["load", "store", "copy"] {
            columns.push(Column::new(title).group(*group).part(3 + part));
        }
    }
    columns.push(Column::new("data set used").part(5).drop_rank(3));
    let mut table = Table::new(columns);
    let nodes = profile.levels.iter().filter(|level| matches!(level.name, LevelName::Memory { .. })).count();
    for level in &profile.levels {
        table.row(row(profile, level, nodes, all_cores));
    }
    table
}

fn row(profile: &Profile, level: &ProfileLevel, nodes: usize, all_cores: bool) -> Vec<Cell> {
    let cycles = level.latency_ns.zip(believable_hz(profile.clock.as_ref()));
    let mut cells: Vec<Cell> = vec![
        name(&level.name, nodes).into(),
        level.claimed.map_or_else(figures::absent, |claimed| claimed.to_string().into()),
        capacity(level),
        between(level),
        figures::estimate(level.latency_ns.as_ref(), 1.0),
        figures::number(cycles.map(|(ns, hz)| ns.value * hz / 1e9)),
    ];
    for bandwidths in [Some(&level.one_core), all_cores.then_some(&level.all_cores)].into_iter().flatten() {
        let Bandwidths { load, store, copy } = bandwidths;
        cells.extend([load, store, copy].map(|estimate| figures::estimate(estimate.as_ref(), 1e9)));
    }
    cells.push(level.measured_with.map_or_else(figures::absent, |size| size.to_string().into()));
    cells
}

/// The measured capacity, coloured where it is far from the claim.
fn capacity(level: &ProfileLevel) -> Cell {
    let cell = figures::capacity(level.usable.as_ref());
    let ratio = level.usable.zip(level.claimed).map(|(usable, claimed)| usable.value / claimed.0 as f64);
    match ratio {
        Some(ratio) if !AGREES.contains(&ratio) => Cell::styled(cell.text(), WARNING),
        _ => cell,
    }
}

/// What the capacity lies between, as pages fell and neighbours let it.
fn between(level: &ProfileLevel) -> Cell {
    let Some(usable) = level.usable.filter(|usable| usable.low.is_finite() && usable.high.is_finite()) else {
        return if level.unseen.is_some() { Cell::styled("not seen", WARNING) } else { figures::absent() };
    };
    let show = |bytes: f64| Bytes(bytes.max(0.0).round() as u64).to_string();
    format!("{} to {}", show(usable.low), show(usable.high)).into()
}

fn name(name: &LevelName, nodes: usize) -> String {
    match name {
        LevelName::Cache(number) => format!("L{number}"),
        LevelName::Memory { .. } if nodes == 1 => "memory".to_owned(),
        LevelName::Memory { node, local: true } => format!("node {node}, local"),
        LevelName::Memory { node, local: false } => format!("node {node}, remote"),
    }
}
