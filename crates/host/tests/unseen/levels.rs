//! Levels, and bandwidth against latency, on every simulated model that has the events.

use events::{Instrument, MetricGroup};
use host::{Host, repeat::RepeatPlan, simulated::Simulated};
use kernels::Job;
use machine::{Bytes, model::Model};
use sim::pmu::{Flaws, SimulatedPmu};

use crate::{RUNNING, counted, value};

#[test]
fn bandwidth_and_latency_are_told_apart_on_every_model_with_the_events() {
    let mut tried = Vec::new();
    for name in Model::builtin_names() {
        let whole = Model::builtin(name).unwrap();
        let model = whole.scaled(16).unwrap_or(whole);
        let Ok(pmu) = SimulatedPmu::new(&model, Flaws::of(&model)) else { continue };
        let has = |event: &str| pmu.resolve(event).is_ok();
        let chosen = MetricGroup::named("MEMORY_LEVELS").unwrap().choose(&has);
        if ["l2", "pending", "pending_cycles"].iter().any(|input| chosen.missing.contains(input)) {
            continue;
        }
        let mut host = Simulated::new(&model, 1).unwrap();
        let [chase, load] = ["chase", "load"].map(|kernel| host.job(kernel, Bytes::mib(96), &[0]).unwrap());
        let mut measure = |job: &Job| host.measure(job, &RepeatPlan::within(1e9, 0.05), &RUNNING).unwrap();
        let latency_s = measure(&chase).fastest_step_ns().unwrap() / 1e9;
        let lines = measure(&load).program_bytes_per_s().unwrap().value / 64.0 * latency_s;
        let figure = |name: &str| (name == "lines_in_flight").then_some(lines);
        let [waits, streams] = [&chase, &load].map(|job| {
            let (group, _) = counted(&model, job, "MEMORY_LEVELS", Some(&figure));
            let share =
                |name: &str| value(&group, name).unwrap_or_else(|| panic!("{}: {group:?}", model.name));
            (share("beyond L2, latency bound"), share("beyond L2, bandwidth bound"))
        });
        println!("{name}: {lines:.1} lines; chase {waits:?}, load {streams:?} (latency, bandwidth)");
        assert!(waits.0 > 4.0 * waits.1, "{name}: a chase {waits:?}");
        // The invented machine has few lines under way even at its peak: its streams wait for single ones too.
        let times = if name == "tiny" { 1.0 } else { 4.0 };
        assert!(streams.1 > times * streams.0, "{name}: a stream {streams:?}");
        tried.push(name);
    }
    assert!(tried.len() >= 5, "{tried:?}");
}

#[test]
fn loads_wait_where_their_data_is_on_every_model_with_the_events() {
    let mut tried = Vec::new();
    'models: for name in Model::builtin_names() {
        let whole = Model::builtin(name).unwrap();
        // The invented machine is small as it is.
        let scale = if whole.l2.geometry.size < Bytes::kib(64) { 1 } else { 16 };
        let model = whole.scaled(scale).unwrap_or(whole);
        let Some(l3) = &model.l3 else { continue };
        let (l2, l3) = (model.l2.geometry.size.0, l3.geometry.size.0);
        let levels = ["L2 bound", "L3 bound", "DRAM bound"];
        let has_events = SimulatedPmu::new(&model, Flaws::of(&model)).is_ok_and(|pmu| {
            let has = |event: &str| pmu.resolve(event).is_ok();
            !MetricGroup::named("MEMORY_LEVELS").unwrap().choose(&has).missing.contains(&"l2")
        });
        if !has_events {
            continue;
        }
        let host = Simulated::new(&model, 1).unwrap();
        for (size, level) in [(l2 / 2, 0), (l3.min(8 * l2) / 2, 1), (96 << 20, 2)] {
            let job = host.job("chase", Bytes(size), &[0]).unwrap();
            let (group, _) = counted(&model, &job, "MEMORY_LEVELS", None);
            // Not every model has an event, or two, for each level.
            let shares: Option<Vec<f64>> = levels.iter().map(|level| value(&group, level)).collect();
            let Some(shares) = shares else { continue 'models };
            println!("{name}, {}: {shares:.0?}", Bytes(size));
            let others: f64 = shares.iter().sum::<f64>() - shares[level];
            assert!(shares[level] > 2.0 * others, "{name}, {} of {}: {shares:?}", levels[level], Bytes(size));
        }
        let store = host.job("store", Bytes::mib(96), &[0]).unwrap();
        let (group, _) = counted(&model, &store, "MEMORY_LEVELS", None);
        assert!(value(&group, "store bound").unwrap() > 50.0, "{name}: {group:?}");
        tried.push(name);
    }
    assert!(tried.len() >= 6, "{tried:?}");
}
