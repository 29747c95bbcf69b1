//! What memory does to one core, and to several, follows from fill buffers, latency, prefetchers, channels and pages.

mod machine_support;

use machine::model::Model;
use machine_support::{Rig, Work, cycles_per_load, gb_per_s, huge, small_haswell};
use sim::memory::{MemoryOptions, PrefetchSwitches};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn quiet() -> MemoryOptions {
    MemoryOptions { prefetchers: PrefetchSwitches::OFF, ..huge() }
}

/// Cold data, read once: all of it comes from memory.
fn cold(bytes_per_thread: u64) -> Work {
    Work { warm: 0, ..Work::new("load", bytes_per_thread) }
}

fn near(found: f64, wanted: f64, percent: f64) -> bool {
    (found / wanted - 1.0).abs() * 100.0 <= percent
}

#[test]
fn bandwidth_of_one_core_is_fill_buffers_times_line_by_latency() {
    let model = small_haswell();
    let read = |model: &Model| gb_per_s(model, quiet(), cold(MIB));
    let as_is = read(&model);
    let latency_ns = model.idle_latencies().local_ns;
    let little = f64::from(model.l1d.misses_in_flight) * 64.0 / latency_ns;
    assert!(near(as_is, little, 15.0), "{as_is} GB/s, Little's law says {little}");
    let mut halved = model.clone();
    halved.l1d.misses_in_flight /= 2;
    let half = read(&halved);
    assert!(near(half, as_is / 2.0, 15.0), "{half} with half the fill buffers, {as_is} with all");
    let mut slow = model.clone();
    slow.memory.idle_latency_ns += latency_ns;
    let doubled = read(&slow);
    assert!(near(doubled, as_is / 2.0, 15.0), "{doubled} at twice the latency, {as_is} at once");
}

#[test]
fn prefetchers_raise_sequential_bandwidth_of_shared_cache_and_memory() {
    let model = small_haswell();
    for (work, gain) in [(Work::new("load", MIB), 1.02), (cold(2 * MIB), 1.3)] {
        let (on, off) = (gb_per_s(&model, huge(), work), gb_per_s(&model, quiet(), work));
        assert!(on > gain * off, "{} KiB: {on} with, {off} without", work.bytes_per_thread / KIB);
    }
}

#[test]
fn a_chase_does_not_care_about_fill_buffers() {
    let model = small_haswell();
    let mut few = model.clone();
    few.l1d.misses_in_flight = 2;
    for (bytes, warm) in [(2 * MIB, 1), (8 * MIB, 0)] {
        let work = Work { warm, ..Work::new("chase", bytes) };
        let (ten, two) = (cycles_per_load(&model, quiet(), work), cycles_per_load(&few, quiet(), work));
        assert!(near(two, ten, 0.1), "{two} cycles with two, {ten} with ten");
    }
}

#[test]
fn bandwidth_of_cores_grows_until_the_channels_are_full() {
    let model = small_haswell();
    let read = |threads: usize| gb_per_s(&model, huge(), Work { threads, ..cold(MIB) });
    let found = [1, 2, 4, 6, 7, 8, 12].map(|threads| (threads, read(threads)));
    let [one, two, four, six, seven, eight, all] = found.map(|(_, rate)| rate);
    assert!(near(two, 2.0 * one, 10.0) && near(four, 4.0 * one, 15.0), "{found:?}");
    assert!(six > 1.2 * four, "{found:?}");
    assert!(seven > 0.93 * all && near(eight, all, 6.0), "{found:?}");
    let channels = model.memory.channel_bytes_per_s as f64 * f64::from(model.memory.channels) / 1e9;
    assert!(all < channels && all > 0.85 * channels, "{found:?} of {channels}");
}

#[test]
fn remote_memory_is_slower_than_local() {
    let model = small_haswell();
    let on = |node: u32, work: Work| Work { node: Some(node), ..work };
    let chase = Work { warm: 0, ..Work::new("chase", 4 * MIB) };
    let chased = |node| cycles_per_load(&model, quiet(), on(node, chase));
    let idle = model.idle_latencies();
    let (local, remote) = (chased(0), chased(1));
    let wanted = idle.remote_ns.unwrap_or(0.0) / idle.local_ns;
    assert!(near(remote / local, wanted, 5.0), "{remote} by {local} cycles, wanted {wanted}");
    let read = |node| gb_per_s(&model, huge(), on(node, cold(2 * MIB)));
    let (local, remote) = (read(0), read(1));
    assert!(remote < 0.8 * local, "{remote} GB/s remote, {local} local");
}

#[test]
fn a_stored_line_moves_twice_and_past_the_caches_once() {
    let model = small_haswell();
    let lines = 12 * MIB / 64;
    let moved = |kernel| {
        let mut rig = Rig::new(&model, huge(), Work::new(kernel, 12 * MIB));
        rig.run(1);
        let before = *rig.memory().memory_stats(0);
        rig.run(1);
        let after = *rig.memory().memory_stats(0);
        let per_line = |after: u64, before: u64| (after - before) as f64 / lines as f64;
        (per_line(after.reads, before.reads), per_line(after.writes, before.writes))
    };
    let (reads, writes) = moved("store");
    assert!(near(reads, 1.0, 1.0) && near(writes, 1.0, 1.0), "{reads} read, {writes} written");
    let (reads, writes) = moved("store-nt");
    assert!(reads < 0.01 && near(writes, 1.0, 1.0), "{reads} read, {writes} written");
}

#[test]
fn small_pages_beyond_the_reach_of_the_tlb_are_walked_for() {
    let model = small_haswell();
    let reach = u64::from(model.tlb.l2.entries);
    let chase = |pages: u64, options: MemoryOptions| {
        let mut rig = Rig::new(&model, options, Work::new("chase-pages", pages * 4096));
        rig.run(2);
        let before = rig.memory().core_stats(0).walks;
        let elapsed = rig.run(1).elapsed();
        let walks = rig.memory().core_stats(0).walks - before;
        (walks as f64 / pages as f64, elapsed.ns() / pages as f64)
    };
    let small = MemoryOptions { prefetchers: PrefetchSwitches::OFF, ..MemoryOptions::default() };
    assert!(chase(reach / 2, small).0 < 0.02);
    let (walks, small_ns) = chase(4 * reach, small);
    assert!(walks > 0.95, "{walks} walks per load");
    let (walks, huge_ns) = chase(4 * reach, quiet());
    assert!(walks < 0.01, "{walks} walks per load in huge pages");
    assert!(small_ns > huge_ns + 3.0, "{small_ns} ns in small pages, {huge_ns} in huge ones");
}
