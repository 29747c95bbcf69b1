//! `memwall doctor` on a simulated machine: what it offers, and what it has not.

use machine::model::Model;
use record::doctor::{Capability, Checkup, Instrument, State};

/// Nothing is tried: what is simulated is known.
pub fn examine(model: &Model) -> Checkup {
    let nodes = model.sockets;
    let rows = vec![
        row("core_pmu", "core PMU", Err("simulated: counters are not simulated yet"), "hardware events"),
        row(
            "memory_controllers",
            "memory controller counters",
            Err("simulated: counters are not simulated yet"),
            "bytes moved by memory itself",
        ),
        row(
            "clock_sampling",
            "clock sampling",
            Err("simulated: no samples are taken yet"),
            "where the time goes",
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
        instrument: Instrument::Squeeze,
        because: format!(
            "the clock of simulated {} is exact and repeats to the bit; its counters are not simulated yet",
            model.name
        ),
        cannot_tell: vec![
            "Counter readings: a simulated machine keeps count of everything, but has no PMU to read it yet."
                .to_owned(),
            "How an operating system, other programs or a hypervisor disturb a program: there are none."
                .to_owned(),
        ],
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
        Ok(detail) => (State::Found, detail),
        Err(why) => (State::Missing, why.to_owned()),
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
