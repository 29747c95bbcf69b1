//! What any machine allows: rows that need a clock and nothing else. It is not the paper's machine, so nothing is concluded.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use events::formula::Formula;
use host::{Host, repeat::RepeatPlan};
use kernels::Job;
use machine::{Bytes, Topology, Width};
use record::reproduce::{ReproducedItem, ReproducedPaper, ReproducedRow, Reproduction, SCHEMA};
use trust::KernelPlace;

use crate::{
    paper::{PaperRow, PublishedPaper},
    session::ItemChoice,
    setup::PaperSetup,
};

/// Seconds for each setup.
const SECONDS: f64 = 0.3;
/// What a clock gives, by the names that formulas use.
const BY_CLOCK: [&str; 5] = ["time", "loads", "stores", "chain", "cores"];
/// Bytes of an access of the papers' kernels.
const VECTOR: f64 = 32.0;

/// Measures what can be of the rows chosen.
pub fn measure(choice: &ItemChoice, host: &mut dyn Host, interrupt: &AtomicBool) -> Reproduction {
    let mut known: BTreeMap<String, Result<BTreeMap<&'static str, f64>, String>> = BTreeMap::new();
    let mut papers = Vec::new();
    for paper in choice.papers() {
        let mut items = Vec::new();
        for item in paper.items.iter().filter(|item| choice.makes(paper, item)) {
            let rows: Vec<ReproducedRow> = item
                .rows
                .iter()
                .filter(|row| row.names().iter().all(|name| of_row_or_clock(name)))
                .filter_map(|row| Some((row, paper.setups.get(row.on.as_ref()?)?)))
                // What interference takes here `memwall squeeze --calibrate` says.
                .filter(|(_, setup)| setup.squeezed.is_none())
                .map(|(row, setup)| {
                    let key = setup.key();
                    let reading = known.entry(key).or_insert_with(|| run(setup, host, interrupt));
                    beside(paper, &item.id, row, reading)
                })
                .collect();
            if !rows.is_empty() {
                items.push(ReproducedItem {
                    id: item.id.clone(),
                    title: item.title.clone(),
                    method: None,
                    filled_by: None,
                    left_out: false,
                    rows,
                    figures: Vec::new(),
                    slips: item.slips.clone(),
                });
            }
        }
        if !items.is_empty() {
            let (id, title, machine) = (paper.id.clone(), paper.title.clone(), "this machine".to_owned());
            papers.push(ReproducedPaper { id, title, machine, items });
        }
    }
    let complete = !interrupt.load(Ordering::Relaxed);
    Reproduction { schema: SCHEMA.to_owned(), full: choice.full, here: true, complete, papers }
}

/// What other rows and the published number give is not asked of the machine.
fn of_row_or_clock(name: &str) -> bool {
    BY_CLOCK.contains(&name) || ["ours", "published"].contains(&name) || name.starts_with("row::")
}

fn beside(
    paper: &PublishedPaper,
    item: &str,
    row: &PaperRow,
    reading: &Result<BTreeMap<&'static str, f64>, String>,
) -> ReproducedRow {
    let value = |reading: &BTreeMap<&'static str, f64>| {
        let formula = Formula::parse(&row.ours).map_err(|error| error.to_string())?;
        formula.value(&|name| reading.get(name).copied()).map_err(|absent| absent.to_string())
    };
    let ours = reading.as_ref().map_err(Clone::clone).and_then(value);
    ReproducedRow {
        claim: format!("{}/{item}/{}", paper.id, row.id),
        label: row.label.clone(),
        unit: row.unit.clone(),
        published: row.published,
        ours: ours.as_ref().ok().copied(),
        missing: ours.err(),
        deviation: None,
        concludes: row.concludes.clone(),
        holds_if: String::new(),
        same: None,
        why: None,
        not_independent: None,
    }
}

fn run(
    setup: &PaperSetup,
    host: &mut dyn Host,
    interrupt: &AtomicBool,
) -> Result<BTreeMap<&'static str, f64>, String> {
    if interrupt.load(Ordering::Relaxed) {
        return Err("interrupted".to_owned());
    }
    if setup.remote || setup.across || !setup.prefetch || setup.noise {
        return Err("remote memory, prefetchers and noise are not chosen on this machine".to_owned());
    }
    let topology = host.topology();
    let cores: Vec<u32> = topology.usable_cores().iter().collect();
    let cpus = match setup.cores {
        0 => cores,
        count => cores.into_iter().take(count as usize).collect::<Vec<u32>>(),
    };
    let first = *cpus.first().ok_or("no CPU may be used")?;
    let size =
        size(setup, topology, first, cpus.len() as u64).ok_or("the sizes of the caches are not known")?;
    let mut kernel = host.kernels().get(&setup.kernel).map_err(|error| error.to_string())?;
    for (name, value) in &setup.parameters {
        kernel = kernel.with(name, *value).map_err(|error| error.to_string())?;
    }
    let mut job = Job::new(kernel, size, &cpus);
    let wide = topology.isa.supports(Width::Avx2) && job.kernel.widths().contains(&Width::Avx2);
    job.width = setup.width.or(wide.then_some(Width::Avx2));
    let plan = RepeatPlan::asked(None, Some(SECONDS), None).map_err(|error| error.to_string())?;
    let measured = host.measure(&job, &plan, interrupt).map_err(|error| error.to_string())?;
    let mut samples = measured.repeated.samples_ns.clone();
    samples.sort_by(f64::total_cmp);
    let median = samples.get(samples.len() / 2).ok_or("interrupted")?;
    let accesses = measured.work.program_bytes / VECTOR;
    Ok(BTreeMap::from([
        ("time", median / 1e9),
        ("loads", accesses),
        ("stores", accesses),
        ("chain", measured.work.chain),
        ("cores", cpus.len() as f64),
    ]))
}

/// As on a model, from what the caches claim.
fn size(setup: &PaperSetup, topology: &Topology, cpu: u32, cores: u64) -> Option<Bytes> {
    let caches = topology.data_caches_of(cpu);
    let of = |level| caches.iter().find(|cache| cache.level == level).and_then(|cache| cache.size);
    let (l1, l2) = (of(1)?.0, of(2)?.0);
    let last = of(3).map_or(l2 * cores, |size| size.0);
    Some(match (setup.size, setup.level) {
        (Some(size), _) => size,
        (None, None | Some(KernelPlace::Registers)) => Bytes(0),
        (None, Some(KernelPlace::L1)) => Bytes(l1 / 2 * cores),
        (None, Some(KernelPlace::L2)) => Bytes(l2 / 2 * cores),
        (None, Some(KernelPlace::L3)) => Bytes((l2 * 4 * cores).min(last / 2)),
        // A guest's last cache may claim far more than it gives.
        (None, Some(KernelPlace::Memory)) => Bytes((last * 2).clamp(64 << 20, 1 << 30)),
    })
}
