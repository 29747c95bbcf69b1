//! Speed of the simulated core, in µops per second of the host: data in the L1, streamed from DRAM, drawn at random
//! from DRAM. `cargo bench -p memwall-sim --bench core`, with a part of a case's name after `--` for some only.

use std::time::Instant;

use kernels::KernelCatalogue;
use machine::{Bytes, model::Model};
use sim::{
    access::{MemoryPort, Supplier},
    engine::{Engine, EngineJob},
    memory::{MemoryOptions, MemorySystem},
    plan_source::{AddressOrder, PlacedPlan},
    scripted_memory::ScriptedMemory,
    time::Time,
};

const MODEL: &str = "haswell-ep-e5-2680v3";
/// Each case is run this often; the fastest counts, as other programs can only slow it down.
const ROUNDS: usize = 3;

struct Case {
    name: &'static str,
    kernel: &'static str,
    size: Bytes,
    passes: u64,
    /// From the requirements.
    wanted_millions_per_s: f64,
}

const CASES: [Case; 5] = [
    Case {
        name: "triad in L1",
        kernel: "triad",
        size: Bytes::kib(16),
        passes: 6000,
        wanted_millions_per_s: 10.0,
    },
    Case {
        name: "copy in DRAM",
        kernel: "copy",
        size: Bytes::mib(64),
        passes: 1,
        wanted_millions_per_s: 5.0,
    },
    // Few µops per line: the hardest of streams.
    Case {
        name: "load in DRAM",
        kernel: "load",
        size: Bytes::mib(64),
        passes: 1,
        wanted_millions_per_s: 5.0,
    },
    Case {
        name: "random DRAM",
        kernel: "random-uni",
        size: Bytes::mib(256),
        passes: 1,
        wanted_millions_per_s: 2.0,
    },
    Case {
        name: "chase in DRAM",
        kernel: "chase",
        size: Bytes::mib(64),
        passes: 1,
        wanted_millions_per_s: 2.0,
    },
];

fn main() {
    if let Err(error) = all() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn all() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::builtin(MODEL)?;
    let catalogue = KernelCatalogue::builtin()?;
    println!(
        "{:<16}{:>14}{:>10}{:>14}{:>14}{:>12}",
        "case", "wanted", "ratio", "µops/s", "core alone", "µops/cycle"
    );
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        let kernel = catalogue.get(case.kernel)?;
        let plan = kernels::Job::new(kernel, case.size, &[0]).plan(&model.isa)?;
        let team = PlacedPlan::new(plan, AddressOrder::ByThread { from: 1 << 32 })?;
        let whole = best(|| {
            let memory = MemorySystem::new(&model, MemoryOptions::default())?;
            measure(&model, &team, memory, case.passes)
        })?;
        let alone = best(|| measure(&model, &team, scripted(&model, &team, case), case.passes))?;
        let (per_s, wanted) = (whole.per_s / 1e6, case.wanted_millions_per_s);
        let (ratio, alone) = (per_s / wanted, alone.per_s / 1e6);
        println!(
            "{:<16}{wanted:>12.1} M{ratio:>10.2}{per_s:>12.1} M{alone:>12.1} M{:>12.2}",
            case.name, whole.per_cycle
        );
    }
    Ok(())
}

/// How fast one run was.
#[derive(Clone, Copy, Default)]
struct Speed {
    /// µops per second of the host.
    per_s: f64,
    /// µops per simulated cycle.
    per_cycle: f64,
}

type Measured = Result<Speed, Box<dyn std::error::Error>>;

fn best(mut run: impl FnMut() -> Measured) -> Measured {
    let mut best = Speed::default();
    for _ in 0..ROUNDS {
        let speed = run()?;
        if speed.per_s > best.per_s {
            best = speed;
        }
    }
    Ok(best)
}

/// The core alone: memory is a table of latencies.
fn scripted(model: &Model, team: &PlacedPlan, case: &Case) -> ScriptedMemory {
    let l1 = Time::cycle_of(model.clock.core_hz).times(model.l1d.latency.into());
    let memory = ScriptedMemory::new(l1, model.l1d.misses_in_flight as usize);
    if case.size < model.l1d.geometry.size {
        return memory;
    }
    team.data().fold(memory, |memory, place| {
        let addresses = place.address..place.address + place.bytes;
        memory.with(addresses, Supplier::LocalMemory, Time::from_ns(96.4))
    })
}

fn measure<M: MemoryPort>(model: &Model, team: &PlacedPlan, memory: M, passes: u64) -> Measured {
    let mut engine = Engine::new(model, memory)?;
    let mut sources = team.step_sources(0, passes);
    let Some(source) = sources.first_mut() else { return Ok(Speed::default()) };
    let begin = Stopwatch::start();
    let outcome = engine.run(&mut [EngineJob { core: 0, thread: 0, background: false, source }])?;
    let seconds = begin.seconds();
    let statistics = &outcome.jobs[0].statistics;
    let uops = statistics.uops_retired as f64;
    Ok(Speed { per_s: uops / seconds, per_cycle: uops / statistics.cycles as f64 })
}

/// Time this thread was on a CPU, so that a busy host does not count; the clock where the kernel does not say.
struct Stopwatch {
    clock: Instant,
    on_cpu_ns: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { clock: Instant::now(), on_cpu_ns: on_cpu_ns() }
    }

    fn seconds(&self) -> f64 {
        match (self.on_cpu_ns, on_cpu_ns()) {
            (Some(begin), Some(end)) if end > begin => (end - begin) as f64 / 1e9,
            _ => self.clock.elapsed().as_secs_f64(),
        }
    }
}

fn on_cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}
