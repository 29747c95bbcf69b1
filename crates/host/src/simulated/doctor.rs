//! `memwall doctor` on a simulated machine: what it offers, and what it has not.

use events::{Catalogue, Instrument, Unit};
use machine::model::Model;
use record::doctor::{BestInstrument, Capability, CapabilityState, Checkup};
use sim::pmu::{Flaws, SimulatedPmu};

/// Loads this long left the core's own caches; the events that sample them, one of which a model may have.
pub const LONG_LOADS: [&str; 2] =
    ["MEM_TRANS_RETIRED.LOAD_LATENCY_GT_32", "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_8"];

/// Nothing is tried: what is simulated is known.
pub fn examine(model: &Model) -> Checkup {
    let nodes = model.sockets;
    let catalogue = Catalogue::for_model(model);
    let rows = vec![
        row("core_pmu", "core PMU", core_pmu(catalogue), "hardware events"),
        row(
            "memory_controllers",
            "memory controller counters",
            controllers(catalogue),
            "bytes moved by memory itself",
        ),
        row("clock_sampling", "clock sampling", Err(NO_PROGRAMS), "where the time goes"),
        row(
            "precise_sampling",
            "precise sampling",
            precise_sampling(model),
            "latency, source and address of single loads",
        ),
        row("user_registers", "user registers", Err(NO_PROGRAMS), "addresses without precise sampling"),
        row("breakpoint_events", "breakpoint events", Err(NO_PROGRAMS), "accesses to one address"),
        row(
            "resctrl_monitoring",
            "resctrl monitoring",
            Err("simulated: there is no resctrl"),
            "memory bandwidth of one program",
        ),
        row(
            "prefetcher_control",
            "prefetcher control",
            prefetchers(model),
            "measuring with and without prefetchers",
        ),
        row(
            "huge_pages",
            "huge pages",
            Ok("2 MiB, as many as memory holds".to_owned()),
            "latency without page walks",
        ),
        row(
            "numa_binding",
            "NUMA binding",
            if nodes > 1 { Ok(format!("{nodes} nodes")) } else { Err("simulated: one node only") },
            "local and remote memory apart",
        ),
        row(
            "pinning",
            "pinning",
            Ok(format!("{} cores, one thread each", model.cores())),
            "threads that stay",
        ),
        row(
            "frequency_control",
            "core clock",
            Ok(format!(
                "fixed at {:.2} GHz unless an experiment changes it",
                model.clock.core_hz as f64 / 1e9
            )),
            "cycles from nanoseconds",
        ),
        row("steal_time", "steal time", Err("simulated: nobody steals"), "noise of neighbours"),
    ];
    Checkup {
        schema: "memwall.doctor/1".to_owned(),
        rows,
        instrument: if catalogue.is_some() { BestInstrument::Pmu } else { BestInstrument::Squeeze },
        because: match catalogue {
            Some(_) => format!("every counter of simulated {} can be read, all in one run", model.name),
            None => format!(
                "no events are known for simulated {}; its clock is exact and repeats to the bit",
                model.name
            ),
        },
        cannot_tell: vec![
            "How an operating system, other programs or a hypervisor disturb a program: there are none."
                .to_owned(),
        ],
    }
}

const NO_PROGRAMS: &str = "simulated: kernels run there, not programs";
const NO_EVENTS: &str = "simulated: no events are known for the CPU that this model names";

fn core_pmu(catalogue: Option<&Catalogue>) -> Result<String, &'static str> {
    let one = catalogue.ok_or(NO_EVENTS)?;
    let (free, fixed) = (one.general_counters, one.fixed_counters);
    Ok(format!("simulated: events of {}, {free} free and {fixed} fixed counters", one.name))
}

fn precise_sampling(model: &Model) -> Result<String, &'static str> {
    let pmu = SimulatedPmu::new(model, Flaws::of(model)).map_err(|_| NO_EVENTS)?;
    let loads = LONG_LOADS.iter().find(|event| pmu.resolve(event).is_ok());
    let loads = loads.ok_or("simulated: no event of this CPU samples loads with their latency")?;
    Ok(format!("simulated: {loads}, of scenarios"))
}

fn controllers(catalogue: Option<&Catalogue>) -> Result<String, &'static str> {
    let one = catalogue.ok_or(NO_EVENTS)?;
    match one.entries.iter().filter(|entry| entry.encoding.unit == Unit::MemoryController).count() {
        0 => Err("simulated: this CPU has no events of its memory controllers"),
        events => Ok(format!("simulated: {events} events")),
    }
}

fn prefetchers(model: &Model) -> Result<String, &'static str> {
    let has = model.prefetch;
    let names = [
        ("L1 next line", has.l1_next_line),
        ("L1 stride", has.l1_stride),
        ("L2 adjacent line", has.l2_adjacent),
        ("L2 streamer", has.l2_streamer.is_some()),
    ];
    let names: Vec<&str> = names.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    if names.is_empty() { Err("simulated: this model has no prefetchers") } else { Ok(names.join(", ")) }
}

fn row(key: &str, name: &str, state: Result<String, &str>, unlocks: &str) -> Capability {
    let (state, detail) = match state {
        Ok(detail) => (CapabilityState::Found, detail),
        Err(why) => (CapabilityState::Missing, why.to_owned()),
    };
    Capability {
        key: key.to_owned(),
        name: name.to_owned(),
        state,
        detail,
        tried: "not tried: what a model has is known".to_owned(),
        unlocks: unlocks.to_owned(),
        unlock_with: None,
    }
}
