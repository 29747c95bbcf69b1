//! What cores do to each other: latency under load, and lines handed from one to another.

use std::collections::BTreeMap;

use machine::{
    CpuSet, Profile,
    profile::{Estimate, LoadedLatency},
    units::significant,
};

use crate::{
    layout::figures::{self, is_rough},
    layout::prose::{counted, listed, titled, width, wrap_in},
    layout::style::{HEADING, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// More CPUs than this make a matrix nobody reads.
const MATRIX_CPUS: usize = 16;

/// Latency of one core against the bandwidth the others draw.
pub(super) fn loaded_latency(profile: &Profile, columns: usize) -> Option<String> {
    if profile.loaded_latency.is_empty() {
        return None;
    }
    let mut points = profile.loaded_latency.clone();
    points.sort_by(|a, b| {
        a.delay_nops.is_some().cmp(&b.delay_nops.is_some()).then(a.drawn.total_cmp(&b.drawn))
    });
    let idle = points.iter().find(|point| point.delay_nops.is_none()).map(|point| point.latency_ns.value);
    let mut table = Table::new(vec![
        Column::new("drawn, GB/s"),
        Column::new("latency, ns"),
        Column::new("× idle"),
        Column::new("loading cores").drop_rank(1),
        Column::new("nops between reads").drop_rank(2),
    ]);
    for point in &points {
        let times = idle.map(|idle| point.latency_ns.value / idle).filter(|times| times.is_finite());
        table.row(vec![
            if point.delay_nops.is_none() { "idle".into() } else { figures::number(Some(point.drawn / 1e9)) },
            marked(point),
            times.map_or_else(figures::absent, |times| format!("{times:.2}").into()),
            if point.delay_nops.is_none() { "none".into() } else { point.loaders.to_string().into() },
            point.delay_nops.map_or_else(|| "".into(), |nops| nops.to_string().into()),
        ]);
    }
    let heading = "Latency under load: one core waits for memory while others draw bandwidth";
    let rendered = table.render(columns);
    let mut out = wrap_in(HEADING, "", heading, columns) + &rendered.text;
    if let Some(note) = contradiction(&points) {
        out += &wrap_in(WARNING, "", &note, columns);
    }
    if !rendered.left_out.is_empty() {
        let text = format!("no room for {}; --json has all", listed(&rendered.left_out));
        out += &wrap_in(QUIET, "", &text, columns);
    }
    Some(out)
}

/// Stands behind a latency that another one contradicts.
const CONTRADICTED: &str = " !";

fn marked(point: &LoadedLatency) -> Cell {
    let cell = figures::estimate(Some(&point.latency_ns), 1.0);
    if point.contradicts { Cell::styled(format!("{}{CONTRADICTED}", cell.text()), WARNING) } else { cell }
}

/// What marked points mean; nothing where none is.
pub fn contradiction(points: &[LoadedLatency]) -> Option<String> {
    let marked = points.iter().filter(|point| point.contradicts).count();
    (marked > 0).then(|| {
        format!(
            "{marked} of {} ({}) contradict each other: latency cannot fall as more is drawn, and these do beyond their \
             intervals, so some of them were disturbed",
            counted(points.len(), "point"),
            CONTRADICTED.trim()
        )
    })
}

/// The matrix, or its summary where it would be too large.
pub(super) fn core_to_core(profile: &Profile, columns: usize) -> Option<String> {
    let title = "Core to core";
    let pairs = CorePairs::of(profile);
    let cpus: Vec<u32> = pairs.cpus().iter().collect();
    if pairs.by_cpu.is_empty() {
        return None;
    }
    if !(3..=MATRIX_CPUS).contains(&cpus.len()) {
        return Some(titled(title, &pairs.summary(), columns));
    }
    let rendered = pairs.matrix(&cpus).render(usize::MAX).text;
    let fits = anstream::adapter::strip_str(&rendered).to_string().lines().all(|line| width(line) <= columns);
    Some(if fits {
        let heading = format!("{title}: ns for a line to go one way");
        wrap_in(HEADING, "", &heading, columns) + &rendered
    } else {
        titled(title, &pairs.summary(), columns)
            + &wrap_in(QUIET, "", "no room for the matrix; --json has it", columns)
    })
}

/// Latency of each unordered pair; both directions, where measured, are averaged.
struct CorePairs {
    by_cpu: BTreeMap<(u32, u32), Estimate>,
}

impl CorePairs {
    fn of(profile: &Profile) -> Self {
        let mut directions: BTreeMap<(u32, u32), Vec<Estimate>> = BTreeMap::new();
        for hop in profile.core_to_core.iter().filter(|hop| hop.from != hop.to) {
            let pair = (hop.from.min(hop.to), hop.from.max(hop.to));
            directions.entry(pair).or_default().push(hop.latency_ns);
        }
        Self { by_cpu: directions.into_iter().map(|(pair, estimates)| (pair, average(&estimates))).collect() }
    }

    fn cpus(&self) -> CpuSet {
        self.by_cpu.keys().flat_map(|&(a, b)| [a, b]).collect()
    }

    /// The lower triangle.
    fn matrix(&self, cpus: &[u32]) -> Table {
        let shown = cpus.len().saturating_sub(1);
        let columns = std::iter::once(Column::new("CPU"));
        let mut table =
            Table::new(columns.chain(cpus[..shown].iter().map(|cpu| Column::new(cpu.to_string()))).collect());
        for (i, &row) in cpus.iter().enumerate().skip(1) {
            let mut cells: Vec<Cell> = vec![Cell::styled(row.to_string(), HEADING)];
            cells.extend(cpus[..i].iter().map(|&column| match self.by_cpu.get(&(column, row)) {
                Some(estimate) if is_rough(estimate) => {
                    Cell::styled(format!("~{}", short(estimate.value)), WARNING)
                }
                Some(estimate) => short(estimate.value).into(),
                None => figures::absent(),
            }));
            table.row(cells);
        }
        table
    }

    /// Least, middle and most in a sentence.
    fn summary(&self) -> String {
        let mut sorted: Vec<(&(u32, u32), &Estimate)> = self.by_cpu.iter().collect();
        sorted.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let show = |estimate: &Estimate| {
            format!("{}{} ns", if is_rough(estimate) { figures::ROUGH } else { "" }, short(estimate.value))
        };
        match sorted.as_slice() {
            [] => String::new(),
            [(pair, estimate)] => {
                format!("{} for a line to go one way between CPUs {} and {}", show(estimate), pair.0, pair.1)
            }
            [first, .., last] => {
                let median = sorted[sorted.len() / 2].1;
                format!(
                    "a line goes one way in {} (CPUs {} and {}) to {} (CPUs {} and {}), median {}, of {}",
                    show(first.1),
                    first.0.0,
                    first.0.1,
                    show(last.1),
                    last.0.0,
                    last.0.1,
                    show(median),
                    counted(sorted.len(), "pair")
                )
            }
        }
    }
}

fn average(estimates: &[Estimate]) -> Estimate {
    let mean = |of: fn(&Estimate) -> f64| estimates.iter().map(of).sum::<f64>() / estimates.len() as f64;
    Estimate {
        value: mean(|e| e.value),
        low: mean(|e| e.low),
        high: mean(|e| e.high),
        samples: estimates.iter().map(|e| e.samples).sum(),
    }
}

/// Whole nanoseconds, so that a matrix stays narrow; two digits where there would be one.
fn short(ns: f64) -> String {
    if ns >= 10.0 { format!("{ns:.0}") } else { significant(ns, 2) }
}
