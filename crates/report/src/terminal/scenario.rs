//! A program made of kernels: time and bandwidth of its regions, and how its threads shared the work.

use machine::units::{gb_per_s, nanos};
use record::scenario::{RegionRun, ScenarioRun, ThreadRun, Truth};

use crate::{
    layout::conditions::{ConditionsSeen, noise_sentences},
    layout::figures::{absent, number, percent, time},
    layout::prose::{counted, dotted, listed, titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// A rate this far from what was asked is worth a warning.
const RATE_MISSED: f64 = 0.05;

/// What people read: header, regions, threads, and what disturbed the numbers.
pub fn text(run: &ScenarioRun, columns: usize) -> String {
    let regions = regions(run).render(columns);
    let mut sections = vec![header(run, columns), regions.text];
    let mut left_out = regions.left_out;
    if run.cpus.len() > 1 {
        let threads = threads(run).render(columns);
        sections.push(threads.text);
        left_out.extend(threads.left_out);
    }
    sections.push(notes(run, &left_out, columns));
    sections.join("\n")
}

fn header(run: &ScenarioRun, columns: usize) -> String {
    let cpus: Vec<String> = run.cpus.iter().map(u32::to_string).collect();
    let machine = run.simulated.as_ref().map_or(String::new(), |name| format!("simulated {name}"));
    let threads = match cpus.as_slice() {
        [one] => format!("one thread on CPU {one}"),
        _ => format!("{} threads on CPUs {}", cpus.len(), cpus.join(",")),
    };
    let scale = if run.scale > 1 { format!("1/{} of the data", run.scale) } else { String::new() };
    let mut parts = vec![machine, threads, format!("seed {}", run.seed), scale];
    parts.extend(run.values.iter().map(|(name, value)| format!("{name}={value}")));
    parts.push(format!("{} in all", nanos(run.wall_ns)));
    let mut out = titled(&run.scenario, &run.about, columns);
    out += &wrap("", &dotted(parts.iter().map(String::as_str)), columns);
    if run.interrupted {
        let text = "warning: interrupted; entries that were not finished are left out";
        out += &wrap_in(WARNING, "", text, columns);
    }
    out
}

fn regions(run: &ScenarioRun) -> Table {
    let mut table = Table::new(vec![
        Column::new("region").left(),
        Column::new("entries"),
        Column::new("time"),
        Column::new("time %").called("share of time"),
        Column::new("program").group("GB/s").drop_rank(1),
        Column::new("uncached").group("GB/s").drop_rank(2),
        Column::new("Gflop/s").drop_rank(3),
        Column::new("slowest/mean").called("imbalance").drop_rank(4),
        Column::new("spread %").drop_rank(5),
    ]);
    for region in &run.regions {
        let giga = |amount: fn(&Truth) -> f64| giga(region.per_s(amount));
        let imbalance = region.imbalance().filter(|_| region.threads.len() > 1);
        table.row(vec![
            indented(region).into(),
            entries(region),
            if region.entries() > 0 { time(region.wall_ns()) } else { absent() },
            percent((run.wall_ns > 0.0 && region.entries() > 0).then(|| region.wall_ns() / run.wall_ns)),
            giga(|truth| truth.work.program_bytes),
            giga(|truth| truth.work.memory_bytes),
            giga(|truth| truth.work.flops),
            number(imbalance),
            percent(region.spread),
        ]);
    }
    table
}

/// Billions per second; what a call adds to work in registers is not worth digits.
fn giga(per_s: Option<f64>) -> Cell {
    match per_s {
        Some(rate) if rate < 1e6 => "<0.001".into(),
        _ => number(per_s.map(|rate| rate / 1e9)),
    }
}

fn indented(region: &RegionRun) -> String {
    format!("{}{}", "  ".repeat(region.depth), region.name)
}

/// How many were finished; of how many, where that differs.
fn entries(region: &RegionRun) -> Cell {
    match region.entries() as u64 {
        all if all == region.planned_entries => all.to_string().into(),
        some => Cell::styled(format!("{some}/{}", region.planned_entries), WARNING),
    }
}

/// Regions without regions inside: the others only add these up.
fn innermost(run: &ScenarioRun) -> impl Iterator<Item = &RegionRun> {
    let next_depths = run.regions.iter().skip(1).map(|region| region.depth).chain([0]);
    run.regions
        .iter()
        .zip(next_depths)
        .filter(|(region, next)| *next <= region.depth)
        .map(|(region, _)| region)
}

fn threads(run: &ScenarioRun) -> Table {
    let shared = run.regions.iter().flat_map(|region| &region.threads).any(|t| t.truth.most_transfers > 0);
    let mut columns = vec![
        Column::new("region").left(),
        Column::new("thread"),
        Column::new("CPU"),
        Column::new("time"),
        Column::new("of slowest %"),
        Column::new("work %").called("share of work").drop_rank(1),
        Column::new("data").drop_rank(2),
    ];
    if shared {
        columns.push(Column::new("lines taken over").drop_rank(1));
    }
    let mut table = Table::new(columns);
    for region in innermost(run) {
        let slowest = region.threads.iter().map(ThreadRun::busy_ns).fold(0.0, f64::max);
        let work: f64 = region.threads.iter().map(|thread| thread.truth.work.instructions).sum();
        for (index, thread) in region.threads.iter().enumerate() {
            let busy = thread.busy_ns();
            let timed = !thread.entries.is_empty();
            let mut row = vec![
                if index == 0 { region.path.clone().into() } else { "".into() },
                thread.thread.to_string().into(),
                run.cpus.get(thread.thread).map_or_else(absent, |cpu| cpu.to_string().into()),
                if timed { time(busy) } else { absent() },
                percent((timed && slowest > 0.0).then(|| busy / slowest)),
                percent((work > 0.0).then(|| thread.truth.work.instructions / work)),
                thread.truth.data.to_string().into(),
            ];
            if shared {
                row.push(transfers(&thread.truth).into());
            }
            table.row(row);
        }
    }
    table
}

fn transfers(truth: &Truth) -> String {
    match (truth.least_transfers, truth.most_transfers) {
        (least, most) if least == most => most.to_string(),
        (0, most) => format!("≤ {most}"),
        (least, most) => format!("{least} to {most}"),
    }
}

fn notes(run: &ScenarioRun, left_out: &[String], columns: usize) -> String {
    let mut warnings = match run.simulated {
        // Nothing disturbs it.
        Some(_) => Vec::new(),
        None => noise_sentences(&[ConditionsSeen { at: String::new(), noise: &run.noise }], run.cpus.len()),
    };
    let mut cpus = run.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < run.cpus.len() {
        let text = format!(
            "{} on {}: threads wait for each other's turn, so their times say little",
            counted(run.cpus.len(), "thread"),
            counted(cpus.len(), "CPU")
        );
        warnings.push(text);
    }
    let mut plain = Vec::new();
    for pace in &run.paces {
        let met = (pace.alone_bytes_per_s / pace.asked_bytes_per_s - 1.0).abs() <= RATE_MISSED;
        let text = format!(
            "{} in '{}': {} asked for, {} got when it ran alone, with {} per iteration",
            pace.kernel,
            pace.region,
            gb_per_s(pace.asked_bytes_per_s),
            gb_per_s(pace.alone_bytes_per_s),
            counted(pace.nops as usize, "nop")
        );
        if met { plain.push(text) } else { warnings.push(text) }
    }
    plain.push(
        "time: from the first thread in to the last out, all entries; program: bytes loaded and stored; uncached: \
         lines that would move if no cache held anything, write-allocates included"
            .to_owned(),
    );
    if run.cpus.len() > 1 {
        plain.push(
            "work: share of the region's instructions, by construction; slowest/mean: 1 is balance"
                .to_owned(),
        );
    }
    if run.regions.iter().flat_map(|region| &region.threads).any(|thread| thread.truth.most_transfers > 0) {
        plain.push("lines taken over: lines that another thread wrote last, by construction".to_owned());
    }
    if !left_out.is_empty() {
        plain.push(format!("no room for {}; --json has all", listed(left_out)));
    }
    let warned = warnings.iter().map(|note| wrap_in(WARNING, "• ", note, columns));
    let said = plain.iter().map(|note| wrap_in(QUIET, "• ", note, columns));
    warned.chain(said).collect()
}

/// One line per scenario: its name, threads, and what it does.
pub fn list(rows: &[(String, String, String)], columns: usize) -> String {
    let widest = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, threads, about)| {
            wrap(&format!("{name:widest$}  "), &format!("{about} ({threads})"), columns)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use machine::{Bytes, profile::Noise};
    use record::{
        bench::Work,
        scenario::{ScenarioEntry, ScenarioPace},
    };

    use super::*;
    use crate::layout::figures::ABSENT;

    fn thread(thread: usize, end_ns: f64, instructions: f64, most_transfers: u64) -> ThreadRun {
        let work = Work { instructions, program_bytes: 3e6, memory_bytes: 1e3, ..Work::default() };
        ThreadRun {
            thread,
            entries: vec![ScenarioEntry { start_ns: 0.0, end_ns }],
            truth: Truth { work, data: Bytes::kib(64), least_transfers: 0, most_transfers },
        }
    }

    fn region(path: &str, depth: usize, threads: Vec<ThreadRun>) -> RegionRun {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        RegionRun { path: path.to_owned(), name, depth, planned_entries: 1, spread: Some(0.02), threads }
    }

    fn run(interrupted: bool) -> ScenarioRun {
        let threads = || vec![thread(0, 3e6, 75.0, 0), thread(1, 1e6, 25.0, 12)];
        ScenarioRun {
            schema: "memwall.scenario/1".to_owned(),
            scenario: "uneven".to_owned(),
            about: "one thread has more to do".to_owned(),
            source: "a test".to_owned(),
            simulated: None,
            seed: 1,
            scale: 16,
            values: vec![("size".to_owned(), "8M".to_owned())],
            cpus: vec![0, 0],
            buffers: Vec::new(),
            paces: vec![ScenarioPace {
                region: "outer/inner".to_owned(),
                kernel: "delayed-read".to_owned(),
                asked_bytes_per_s: 9e9,
                nops: 0,
                alone_bytes_per_s: 6e9,
            }],
            regions: vec![region("outer", 0, threads()), region("outer/inner", 1, threads())],
            wall_ns: 4e6,
            noise: Noise { wall_ns: 4e6, steal_ns: Some(0.0), involuntary_switches: Some(0), spread: None },
            interrupted,
        }
    }

    #[test]
    fn regions_and_threads_are_told_with_their_shares() {
        let text = text(&run(false), 110);
        let text = anstream::adapter::strip_str(&text).to_string();
        let row = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).expect(start);
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        // 6 MB in 3 ms; the other bandwidth is too small to be worth digits.
        assert_eq!(row("  inner"), ["inner", "1", "3.00", "ms", "75", "2.00", "<0.001", "–", "1.50", "2.0"]);
        assert_eq!(
            row("outer/inner"),
            ["outer/inner", "0", "0", "3.00", "ms", "100", "75", "64", "KiB", "0"]
        );
        assert!(text.contains("≤ 12") && text.contains("1/16 of the data"), "{text}");
        assert!(text.contains("9.00 GB/s asked for, 6.00 GB/s got"), "{text}");
        assert!(text.contains("2 threads on 1 CPU:"), "{text}");
        assert!(!text.contains("interrupted"), "{text}");
    }

    #[test]
    fn what_was_not_reached_is_a_dash() {
        let mut run = run(true);
        run.regions[1].threads[1].entries.clear();
        let text = anstream::adapter::strip_str(&text(&run, 110)).to_string();
        assert!(text.contains("warning: interrupted") && text.contains("0/1"), "{text}");
        let inner = text.lines().find(|line| line.starts_with("  inner")).expect("the region");
        assert!(inner.contains(ABSENT), "{inner}");
    }

    #[test]
    fn narrow_terminals_lose_columns_not_lines() {
        for columns in [60, 80, 100] {
            let text = anstream::adapter::strip_str(&text(&run(false), columns)).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
        }
    }
}
