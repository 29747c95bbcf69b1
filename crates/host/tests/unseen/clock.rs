//! What is called free at a lower core clock (molka2017 §5), against how much longer it takes there.

use std::{ops::Range, time::Duration};

use analysis::lower_clock;
use events::CountShare;
use host::{
    Host,
    count::{PartsRequest, Selection, count_intervals, count_regions},
    repeat::RepeatPlan,
    scenario::{self, ScenarioJob},
    simulated::Simulated,
};
use kernels::{Job, KernelCatalogue, draw::SplitMix, generate::RandomKernel};
use machine::{
    Bytes, Profile,
    model::Model,
    profile::{Bandwidths, Estimate, LevelName, ProfileLevel},
};
use record::{
    count::{Counts, MachineFigures},
    scenario::{RegionRun, ScenarioEntry, ScenarioRun},
};
use sim::pmu::{Flaws, SimulatedPmu};

use crate::{HASWELL, RUNNING, counted, value};

/// Data that no cache holds.
const LARGE: Bytes = Bytes::mib(256);

/// What all cores of one package move from and to memory at most, in bytes per second, as `calibrate` would find it with data of this size.
fn peak(model: &Model, size: Bytes) -> f64 {
    let mut host = Simulated::new(model, 1).unwrap();
    let cpus: Vec<u32> = (0..model.cores_per_socket).collect();
    let moved = [("load", 1.0), ("store", 2.0), ("copy", 1.5)].map(|(kernel, lines)| {
        let job = host.job(kernel, size, &cpus).unwrap();
        let measured = host.measure(&job, &RepeatPlan::within(1e9, 0.05), &RUNNING).unwrap();
        measured.program_bytes_per_s().unwrap().value * lines
    });
    moved.into_iter().fold(0.0, f64::max)
}

/// A phase of one package: a kernel that comes with memwall or one drawn at random, on one core to all.
fn phase(seed: u64, model: &Model) -> Job {
    let mut random = SplitMix::new(seed);
    let mut below = |limit: u64| random.below(limit);
    let threads = 1 + below(u64::from(model.cores_per_socket)) as u32;
    let cpus: Vec<u32> = (0..threads).collect();
    // From the second cache to memory, each doubling equally likely.
    let each = (65536.0 * (9.0 * below(1 << 20) as f64 / f64::from(1u32 << 20)).exp2()) as u64;
    let size = Bytes(each * u64::from(threads));
    let known = ["load", "store", "copy", "daxpy", "stream", "triad", "update", "sum", "chase-independent"];
    let catalogue = KernelCatalogue::builtin().unwrap();
    match below(3) {
        0 => {
            let drawn = RandomKernel::draw(seed, &model.topology().isa).unwrap();
            Job { size, cpus, ..drawn.job(0) }
        }
        1 => {
            let slow = catalogue.get("delayed-read").unwrap().with("nops", 8 * below(16)).unwrap();
            Job::new(slow, size, &cpus)
        }
        _ => Job::new(catalogue.get(known[below(known.len() as u64) as usize]).unwrap(), size, &cpus),
    }
}

/// One phase: what is said of it, and what really happens.
struct ClockRow {
    name: String,
    free: bool,
    least: f64,
    most: f64,
    in_use: f64,
    longer: f64,
}

fn clock_row(model: &Model, job: &Job, peak: f64) -> ClockRow {
    let figure = |name: &str| (name == "memory_traffic_peak").then_some(peak);
    let (group, ns) = counted(model, job, lower_clock::GROUP, Some(&figure));
    let slower = at_lower_clock(model);
    let (_, slower_ns) = counted(&slower, job, "CYCLES", None);
    let in_use = value(&group, "memory in use").unwrap();
    let mut counts = Counts { metrics: vec![group], ..Counts::default() };
    lower_clock::judge(&mut counts, events::Catalogue::for_model(model));
    let verdict = counts.lower_clock.unwrap_or_else(|| panic!("{job}: {:?}", counts.metrics));
    ClockRow {
        name: format!("`{}`, {}, {} threads", job.kernel.name(), job.size, job.cpus.len()),
        free: verdict.free,
        least: verdict.if_waiting_shrinks_percent,
        most: verdict.if_waiting_stays_percent,
        in_use,
        longer: 100.0 * (slower_ns / ns - 1.0),
    }
}

/// Prints the phases of these seeds; how many were called free although they lose 2 % or more, and how many were not although
/// they lose less than 1 %.
fn clock_table(seeds: Range<u64>) -> (usize, usize) {
    let model = Model::builtin(HASWELL).unwrap();
    let peak = peak(&model, LARGE);
    println!(
        "| phase | memory in use, % | called free | said, % longer | is, % longer |\n|---|---|---|---|---|"
    );
    let (mut all, mut free, mut wrong, mut missed) = (0, 0, 0, 0);
    for seed in seeds {
        let row = clock_row(&model, &phase(seed, &model), peak);
        let (said, word) = match row.free {
            true => ("hardly".to_owned(), "yes"),
            false => (format!("{:.0} to {:.0}", row.least, row.most), "no"),
        };
        println!("| {} | {:.0} | {word} | {said} | {:.1} |", row.name, row.in_use, row.longer);
        all += 1;
        free += usize::from(row.free);
        wrong += usize::from(row.free && row.longer >= 2.0);
        missed += usize::from(!row.free && row.longer < 1.0);
    }
    println!("{free} of {all} called free, {wrong} wrongly; {missed} that lose less than 1 % were missed");
    (wrong, missed)
}

#[test]
fn what_is_called_free_at_a_lower_clock_is() {
    let model = Model::builtin(HASWELL).unwrap();
    let peak = peak(&model, LARGE);
    let catalogue = KernelCatalogue::builtin().unwrap();
    let all: Vec<u32> = (0..model.cores_per_socket).collect();
    let row = |kernel: &str, size: Bytes| {
        clock_row(&model, &Job::new(catalogue.get(kernel).unwrap(), size, &all), peak)
    };
    let memory = row("triad", LARGE);
    assert!(memory.free && memory.longer < 2.0, "{} takes {} % longer", memory.name, memory.longer);
    for kept in [row("load", Bytes::mib(6)), row("chase", LARGE)] {
        assert!(!kept.free && kept.longer >= 2.0, "{} takes {} % longer", kept.name, kept.longer);
    }
}

#[test]
fn an_l3_that_follows_the_cores_is_not_called_free() {
    let model = Model::builtin("sandy-bridge-ep-e5-2670").unwrap();
    let all: Vec<u32> = (0..model.cores_per_socket).collect();
    let load = KernelCatalogue::builtin().unwrap().get("load").unwrap();
    let row = clock_row(&model, &Job::new(load, Bytes::mib(8), &all), 40e9);
    assert!(!row.free && row.longer > 50.0, "{} % longer", row.longer);
}

/// A profile that knows what memory moves at most.
fn profile_with(peak: f64) -> Profile {
    let rate = Estimate { value: peak, low: peak, high: peak, samples: 1 };
    let mut profile = Profile::unmeasured();
    let all_cores = Bandwidths { load: Some(rate), ..Bandwidths::default() };
    let memory = ProfileLevel::unmeasured(LevelName::Memory { node: 0, local: true });
    profile.levels = vec![ProfileLevel { all_cores, ..memory }];
    profile
}

/// Memory that gives all it can, the shared cache, and arithmetic, in turn: what loses nothing at a lower clock is one of them.
const PHASES: &str = r#"
name = "phases"
about = "memory, the shared cache and arithmetic in turn"
threads = "any"

[[buffer]]
name = "much"
size = "384K"

[[buffer]]
name = "little"
size = "64K"

[[region]]
name = "program"
repeat = 2

[[region.region]]
name = "memory"
[[region.region.step]]
kernel = "triad"
buffer = "much"

[[region.region]]
name = "fill"
[[region.region.step]]
kernel = "load"
buffer = "little"

[[region.region]]
name = "cache"
[[region.region.step]]
kernel = "load"
buffer = "little"
passes = 12

[[region.region]]
name = "compute"
[[region.region.step]]
kernel = "fma-lanes"
passes = 20
"#;

/// A stretch in which all threads were in one region, and how much longer it takes at the lower clock.
struct Phase {
    region: String,
    start_ns: f64,
    end_ns: f64,
    longer: f64,
}

/// Innermost regions at both clocks.
fn phases(present: &ScenarioRun, slower: &ScenarioRun) -> Vec<Phase> {
    // Of all threads.
    let bounds = |region: &RegionRun, entry: usize| {
        let of_threads = || region.threads.iter().map(move |thread| &thread.entries[entry]);
        let start_ns = of_threads().map(|entry| entry.start_ns).fold(0.0, f64::max);
        let [first, last] = [f64::min, f64::max]
            .map(|of: fn(f64, f64) -> f64| of_threads().map(|entry| entry.end_ns).reduce(of).unwrap());
        (ScenarioEntry { start_ns, end_ns: first }, last - start_ns)
    };
    let inner = present.regions.iter().zip(&slower.regions).filter(|(region, _)| region.depth > 0);
    inner
        .flat_map(|(region, later)| {
            (0..region.threads[0].entries.len()).map(move |entry| (region, later, entry))
        })
        .map(|(region, later, entry)| {
            let (ScenarioEntry { start_ns, end_ns }, took) = bounds(region, entry);
            let longer = 100.0 * (bounds(later, entry).1 / took - 1.0);
            Phase { region: region.path.clone(), start_ns, end_ns, longer }
        })
        .collect()
}

/// What was counted of the phases in intervals and by region, judged, and what the phases are.
fn judged_phases(model: &Model) -> (Counts, Vec<(String, Counts)>, Vec<Phase>) {
    let scenario =
        kernels::scenario::parse(PHASES, "phases", &KernelCatalogue::builtin().unwrap(), &[]).unwrap();
    let measured = MachineFigures::from(profile_with(peak(model, Bytes::mib(16))));
    let cpus: Vec<u32> = (0..model.cores_per_socket).collect();
    let pmu = SimulatedPmu::new(model, Flaws::of(model)).unwrap();
    let selection = Selection::new(&pmu, &[], &[lower_clock::GROUP.to_owned()]).unwrap();
    let request = PartsRequest {
        job: ScenarioJob { scenario: &scenario, cpus: &cpus, scale: 1 },
        selection: &selection,
        share: CountShare::Together,
        measured: Some(&measured),
        memory_share: 1.0,
        packages: Vec::new(),
    };
    let host = || Simulated::new(model, 1).unwrap().counted_by(&pmu);
    let every = Duration::from_micros(10);
    let mut counts = count_intervals(&request, every, &mut host(), &pmu, &RUNNING).unwrap();
    let mut regions = count_regions(&request, &mut host(), &pmu, &RUNNING).unwrap();
    let of_regions = regions.iter_mut().map(|(_, counts)| counts);
    for counts in std::iter::once(&mut counts).chain(of_regions) {
        lower_clock::judge(counts, events::Catalogue::for_model(model));
    }
    let run = |model: &Model| {
        scenario::run(&request.job, &mut Simulated::new(model, 1).unwrap(), &RUNNING).unwrap()
    };
    let phases = phases(&run(model), &run(&at_lower_clock(model)));
    (counts, regions, phases)
}

fn at_lower_clock(model: &Model) -> Model {
    model.at_core_clock((model.clock.core_hz as f64 * lower_clock::CLOCK_SHARE) as u64)
}

/// Whether a moment lies in a phase that was called free.
fn is_free(counts: &Counts, at_ns: f64) -> bool {
    let found = counts.lower_clock.as_ref().unwrap().phases.as_ref().unwrap();
    found.free.iter().any(|phase| (phase.start_ns as f64..phase.end_ns as f64).contains(&at_ns))
}

#[test]
fn phases_called_free_at_a_lower_clock_are_and_none_is_missed() {
    let (counts, regions, phases) = judged_phases(&Model::builtin(HASWELL).unwrap().scaled(16).unwrap());
    for Phase { region, start_ns, end_ns, longer } in &phases {
        let mut from_ns = 0.0;
        let mut inside = counts.runs[0].intervals.iter().map(|interval| {
            let (start, end) = (from_ns, interval.end_ns as f64);
            from_ns = end;
            (start, end)
        });
        let inside: Vec<_> =
            inside.by_ref().filter(|(start, end)| start >= start_ns && end <= end_ns).collect();
        let free = inside.iter().filter(|(start, end)| is_free(&counts, (start + end) / 2.0)).count();
        let all = inside.len();
        println!(
            "{region}, {start_ns:.0} to {end_ns:.0} ns: {longer:.1} % longer, {free} of {all} intervals free"
        );
        assert!(*longer < 2.0 || free == 0, "called free");
        // While it begins, memory does not give all it can yet.
        assert!(*longer >= 1.0 || free + 1 >= all, "missed");
    }
    let losing = |phase: &Phase| phase.longer >= 2.0;
    assert!(phases.iter().any(losing) && !phases.iter().all(losing), "both kinds");
    let said = counts.remarks.last().unwrap();
    assert!(said.starts_with("By intervals: for ") && said.contains("0 to 80 µs"), "{said}");
    assert!(!counts.lower_clock.unwrap().free, "as a whole");
    for (path, counts) in regions {
        let verdict = counts.lower_clock.unwrap();
        let of_region = phases.iter().filter(|phase| phase.region == path);
        let longer = of_region.map(|phase| phase.longer).fold(f64::MIN, f64::max);
        assert!(if verdict.free { longer < 2.0 } else { longer >= 1.0 }, "{path}: {longer} %, {verdict:?}");
    }
}

#[test]
fn no_phase_is_free_where_the_l3_follows_the_cores() {
    let model = Model::builtin("sandy-bridge-ep-e5-2670").unwrap().scaled(16).unwrap();
    let (counts, regions, phases) = judged_phases(&model);
    let cache = phases.iter().find(|phase| phase.region.ends_with("cache")).unwrap();
    assert!(cache.longer > 50.0, "{} % longer", cache.longer);
    assert_eq!(counts.lower_clock.unwrap().phases.unwrap().free, []);
    assert!(regions.iter().all(|(_, counts)| !counts.lower_clock.as_ref().unwrap().free));
}

#[test]
#[ignore = "minutes: prints the table of docs/events.md"]
fn lower_clock_of_seeds_nobody_tuned_to() {
    assert_eq!(clock_table(5001..5041), (0, 0));
}

#[test]
#[ignore = "minutes: for developing"]
fn lower_clock_of_seeds_developed_on() {
    clock_table(0..40);
}
