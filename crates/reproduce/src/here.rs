//! What any machine allows: rows that need a clock and nothing else. It is not the paper's machine, so nothing is concluded.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use events::formula::Formula;
use host::{Host, repeat::RepeatPlan};
use kernels::Job;
use machine::{Bytes, Profile, Topology, Width};
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

/// Measures what can be of the rows chosen. Data is as large as caches were measured to hold, where a profile says so.
pub fn measure(
    choice: &ItemChoice,
    host: &mut dyn Host,
    profile: Option<&Profile>,
    interrupt: &AtomicBool,
) -> Reproduction {
    let caches = HereCaches::of(profile, host.topology());
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
                    let reading =
                        known.entry(key).or_insert_with(|| run(setup, host, caches.as_ref(), interrupt));
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
            let machine = caches.as_ref().map_or_else(|| "this machine".to_owned(), HereCaches::machine);
            papers.push(ReproducedPaper { id: paper.id.clone(), title: paper.title.clone(), machine, items });
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
    caches: Option<&HereCaches>,
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
    if cpus.is_empty() {
        return Err("no CPU may be used".to_owned());
    }
    let size = match setup.size {
        Some(size) => size,
        None => caches.ok_or("the sizes of the caches are not known")?.data(setup.level, cpus.len() as u64),
    };
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

/// What the caches of the first core hold.
struct HereCaches {
    /// First to last; without a third level the last is the second.
    bytes: [u64; 3],
    /// What the last of them claims, if that is more: data in memory must be beyond that too.
    beyond: u64,
    /// Levels whose size is only claimed.
    claimed: Vec<u32>,
}

impl HereCaches {
    /// As measured, or else as claimed; none if nobody knows the first two.
    fn of(profile: Option<&Profile>, topology: &Topology) -> Option<Self> {
        let first = topology.usable_cores().iter().next()?;
        let caches = topology.data_caches_of(first);
        let claim = |level| caches.iter().find(|cache| cache.level == level).and_then(|cache| cache.size);
        let measured = |level| profile.and_then(|profile| profile.usable_cache(level));
        let size = |level| measured(level).or(claim(level)).map(|bytes| bytes.0);
        let (l1, l2) = (size(1)?, size(2)?);
        let claimed = (1..=3).filter(|&level| measured(level).is_none() && claim(level).is_some()).collect();
        let last = size(3).unwrap_or(l2);
        let beyond = last.max(claim(3).or(claim(2)).map_or(0, |bytes| bytes.0));
        Some(Self { bytes: [l1, l2, last], beyond, claimed })
    }

    /// This machine, and what is only claimed of it.
    fn machine(&self) -> String {
        let levels: Vec<String> = self.claimed.iter().map(|level| format!("L{level}")).collect();
        match levels.is_empty() {
            true => "this machine".to_owned(),
            false => format!(
                "this machine (size of {} as claimed; 'memwall calibrate' measures it)",
                levels.join(", ")
            ),
        }
    }

    /// Data of all threads together, as on a model.
    fn data(&self, level: Option<KernelPlace>, cores: u64) -> Bytes {
        let [l1, l2, last] = self.bytes;
        Bytes(match level {
            None | Some(KernelPlace::Registers) => 0,
            Some(KernelPlace::L1) => l1 / 2 * cores,
            Some(KernelPlace::L2) => l2 / 2 * cores,
            Some(KernelPlace::L3) => (l2 * 4 * cores).min(last / 2),
            Some(KernelPlace::Memory) => (self.beyond * 2).clamp(64 << 20, 1 << 30),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use host::imagined::{ImaginedHost, machine};
    use kernels::KernelCatalogue;
    use machine::profile::{Estimate, LevelName, ProfileLevel};

    use super::*;

    /// The rows of molka2017 Table 2 on a machine that reads and writes 10 GB/s and claims an L3 of 32 MiB, and the data that ran.
    fn table2(profile: Option<&Profile>) -> (Reproduction, Vec<Bytes>) {
        let sizes = RefCell::new(Vec::new());
        let kernels = KernelCatalogue::builtin().expect("kernels");
        let mut host = ImaginedHost::new(machine(2), kernels, |job: &Job, passes| {
            sizes.borrow_mut().push(job.size);
            passes as f64 * job.size.0 as f64 / 10.0
        });
        let (paper, item) = (Some("molka2017".to_owned()), Some("table2".to_owned()));
        let choice = ItemChoice { paper, item, ..ItemChoice::default() };
        let made = measure(&choice, &mut host, profile, &AtomicBool::new(false));
        let mut sizes = sizes.into_inner();
        sizes.dedup();
        (made, sizes)
    }

    /// A profile with this much of the third level.
    fn measured(bytes: Bytes) -> Profile {
        let value = bytes.0 as f64;
        let usable = Some(Estimate { value, low: value, high: value, samples: 1 });
        let level = ProfileLevel { usable, ..ProfileLevel::unmeasured(LevelName::Cache(3)) };
        Profile { levels: vec![level], ..Profile::unmeasured() }
    }

    #[test]
    fn what_a_clock_gives_is_measured_here_and_nothing_is_concluded() {
        let (made, _) = table2(None);
        let [paper] = &made.papers[..] else { panic!("{made:?}") };
        let rows: Vec<&ReproducedRow> = paper.items.iter().flat_map(|item| &item.rows).collect();
        assert!(made.here && made.complete && !rows.is_empty());
        assert!(rows.iter().all(|row| row.same.is_none() && row.deviation.is_none()), "{rows:?}");
        let of = |id: &str| rows.iter().find(|row| row.claim == format!("molka2017/table2/{id}"));
        let read = of("l1_read").expect("a row");
        assert!((read.ours.expect("a number") - 10.0).abs() < 1e-6, "{read:?}");
        // Events need more than a clock.
        assert!(of("l1_read_events").is_none());
    }

    #[test]
    fn what_the_machine_cannot_be_told_has_a_reason_and_no_number() {
        let (made, _) = table2(None);
        let rows = made.papers[0].items.iter().flat_map(|item| &item.rows);
        let remote = rows.into_iter().find(|row| row.claim == "molka2017/table2/remote_read").expect("a row");
        assert_eq!(remote.ours, None);
        assert!(remote.missing.as_ref().is_some_and(|why| why.contains("remote")), "{remote:?}");
    }

    #[test]
    fn data_is_as_large_as_caches_were_measured_to_hold_and_else_as_they_claim() {
        let (claimed, as_claimed) = table2(None);
        let profile = measured(Bytes::mib(4));
        let (here, as_measured) = table2(Some(&profile));
        // Four times the L2 of 1 MiB is half of nothing measured here.
        assert!(as_claimed.contains(&Bytes::mib(4)), "{as_claimed:?}");
        assert!(
            as_measured.contains(&Bytes::mib(2)) && !as_measured.contains(&Bytes::mib(4)),
            "{as_measured:?}"
        );
        // What is to come from memory is beyond the claim as well.
        assert!([&as_claimed, &as_measured].iter().all(|sizes| sizes.contains(&Bytes::mib(64))));
        assert!(claimed.papers[0].machine.contains("L1, L2, L3 as claimed"), "{}", claimed.papers[0].machine);
        assert!(here.papers[0].machine.contains("L1, L2 as claimed"), "{}", here.papers[0].machine);
    }
}
