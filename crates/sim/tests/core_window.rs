//! Widths, buffers and clocks: what limits throughput.

mod core_support;

use core_support::{LoopSource, data_at, haswell, kernel, l1_only, per_pass, run, run_one, team};
use machine::Width;
use sim::{access::Supplier, engine::Engine, time::Time};

const NOP: &[u8] = &[0x90];
const DEC_RCX: &[u8] = &[0x48, 0xff, 0xc9];
/// `add r8, rdx`, the same for r9 and r10: three chains.
const ADDS: [&[u8]; 3] = [&[0x49, 0x01, 0xd0], &[0x49, 0x01, 0xd1], &[0x49, 0x01, 0xd2]];

/// Slots per cycle of a loop.
fn slots_per_cycle(model: &machine::model::Model, body: &[&[u8]]) -> f64 {
    let statistics = run_one(model, l1_only(model), &mut LoopSource::new(body, 20_000, |_, _| ()));
    statistics.slots_retired as f64 / statistics.cycles as f64
}

#[test]
fn no_more_than_the_width_is_dispatched_per_cycle() {
    let mut body = vec![NOP; 30];
    body.push(DEC_RCX);
    for width in [2, 4] {
        let mut model = haswell();
        model.core.dispatch_width = width;
        let ipc = slots_per_cycle(&model, &body);
        assert!(ipc <= f64::from(width) && ipc > 0.97 * f64::from(width), "{width}: {ipc}");
    }
    let mut model = haswell();
    model.core.retire_width = 3;
    let ipc = slots_per_cycle(&model, &body);
    assert!(ipc <= 3.0 && ipc > 2.9, "{ipc}");
}

#[test]
fn ports_limit_what_the_width_would_allow() {
    // Three chains of additions and the loop's own: four per cycle with four ports for integers, two with two.
    let body = [ADDS[0], ADDS[1], ADDS[2], DEC_RCX];
    let wide = slots_per_cycle(&haswell(), &body);
    assert!(wide > 3.8, "{wide}");
    let mut model = haswell();
    let integer = machine::model::OpClass::Integer;
    for port in &mut model.core.ports {
        if ["p5", "p1"].contains(&port.name.as_str()) {
            port.runs.retain(|&class| class != integer);
        }
    }
    let narrow = slots_per_cycle(&model, &body);
    assert!((1.9..=2.01).contains(&narrow), "{narrow}");
}

/// Bytes per nanosecond of a stream of loads from DRAM, and nanoseconds per load of a chase there.
fn dram(buffers: usize, latency_ns: f64) -> (f64, f64) {
    let model = haswell();
    let latency = Time::from_ns(latency_ns);
    let size = 1 << 20;
    let of = |name: &str, width| {
        let team = team(&kernel(name, &[]), width, size, 1);
        let memory = data_at(&model, &team, Supplier::LocalMemory, latency, buffers);
        per_pass(&model, &team, memory, 1).cycles / 2.5
    };
    (size as f64 / of("load", Width::Avx2), of("chase", Width::Scalar) / (size as f64 / 64.0))
}

#[test]
fn bandwidth_is_fill_buffers_over_latency() {
    // Little's law: ten lines in flight, 96.4 ns each.
    let (ten, chase_ten) = dram(10, 96.4);
    assert!((ten / (10.0 * 64.0 / 96.4) - 1.0).abs() < 0.15, "{ten} GB/s");
    let (five, chase_five) = dram(5, 96.4);
    assert!((ten / five / 2.0 - 1.0).abs() < 0.15, "{ten} {five}");
    assert!((chase_ten / chase_five - 1.0).abs() < 0.001, "{chase_ten} {chase_five}");
    let (slow, chase_slow) = dram(10, 192.8);
    assert!((ten / slow / 2.0 - 1.0).abs() < 0.15, "{ten} {slow}");
    assert!((chase_slow / chase_ten / 2.0 - 1.0).abs() < 0.01, "{chase_ten} {chase_slow}");
}

#[test]
fn a_small_window_hides_less() {
    // Loads one line apart with work between: the window decides how many are in flight.
    let in_flight = |entries: u32| {
        let mut model = haswell();
        model.core.reorder_entries = entries;
        let team = team(&kernel("chase-independent", &[("muls", 64)]), Width::Scalar, 1 << 18, 1);
        let memory = data_at(&model, &team, Supplier::LocalMemory, Time::from_ns(96.4), 10);
        per_pass(&model, &team, memory, 1).without_execution
    };
    // A chase of 241 cycles with 64 multiplications: a window of 192 reaches them, one of 24 only some.
    assert!(in_flight(24) > 1.05 * in_flight(192), "{} {}", in_flight(24), in_flight(192));
}

#[test]
fn the_store_buffer_fills_behind_slow_stores() {
    let model = haswell();
    let team = team(&kernel("store", &[]), Width::Avx2, 1 << 18, 1);
    let memory = data_at(&model, &team, Supplier::LocalMemory, Time::from_ns(96.4), 10);
    let mut engine = Engine::new(&model, memory).expect("an engine");
    let statistics = run(&mut engine, &team, 1).jobs[0].statistics;
    assert!(statistics.stall_store_buffer * 10 > 9 * statistics.cycles, "{statistics:?}");
    assert_eq!(statistics.stall_load_buffer, 0);
    // Requests for ownership overlap: the time is that of ten lines at once, not of one.
    let lines = (1 << 18) as f64 / 64.0;
    let per_line = statistics.cycles as f64 / lines;
    assert!((per_line / 24.1 - 1.0).abs() < 0.15, "{per_line}");
}

#[test]
fn half_the_clock_doubles_computing_and_leaves_waiting() {
    let model = haswell();
    let time = |name: &str, width, hz: u64| {
        let team = team(&kernel(name, &[]), width, 1 << 20, 1);
        let memory = data_at(&model, &team, Supplier::LocalMemory, Time::from_ns(96.4), 10);
        let mut engine = Engine::new(&model, memory).expect("an engine");
        run(&mut engine, &team, 1);
        engine.set_core_clock(0, hz).expect("a core");
        run(&mut engine, &team, 2).elapsed().ns()
    };
    let ratio = |name, width| time(name, width, 1_250_000_000) / time(name, width, 2_500_000_000);
    let computing = ratio("mul-chain", Width::Scalar);
    assert!((computing / 2.0 - 1.0).abs() < 0.001, "{computing}");
    let waiting = ratio("load", Width::Avx2);
    assert!((1.0 - 1e-6..1.05).contains(&waiting), "{waiting}");
}
