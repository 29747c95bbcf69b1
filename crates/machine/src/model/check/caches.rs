//! Caches and TLBs.

use super::{Checked, all_within, ensure, within};
use crate::{
    Bytes,
    model::{CacheGeometry, Inclusion, Model, ModelTlb, PrivateCache, Replacement, SharedCache, TlbModel},
};

/// All caches of the machine together: the simulator keeps a few bytes per line.
const MOST: Bytes = Bytes::gib(2);

/// The only line size: requests, links and kernels count in lines of 64 bytes.
const LINE: Bytes = Bytes(64);

pub(super) fn all(model: &Model) -> Checked {
    let Model { l1d, l2, l3, cores_per_socket, .. } = model;
    private("l1d", l1d)?;
    private("l2", l2)?;
    ensure(l1d.shared_by_cores == 1, "l1d.shared_by_cores", || "an L1 belongs to one core".into())?;
    ensure(cores_per_socket % l2.shared_by_cores == 0, "l2.shared_by_cores", || {
        format!("{cores_per_socket} cores per socket cannot share L2s by {}", l2.shared_by_cores)
    })?;
    ensure(l2.latency > l1d.latency, "l2.latency", || {
        format!("{} cycles are not more than the L1's {}", l2.latency, l1d.latency)
    })?;
    ensure(l2.geometry.size > l1d.geometry.size, "l2.geometry.size", || {
        format!("{} are not more than the L1's {}", l2.geometry.size, l1d.geometry.size)
    })?;
    if let Some(l3) = l3 {
        shared(l3, l2, cores_per_socket / l2.shared_by_cores)?;
    }
    total(model)
}

fn private(table: &str, cache: &PrivateCache) -> Checked {
    geometry(&format!("{table}.geometry"), &cache.geometry, 1)?;
    ensure(cache.geometry.size <= Bytes::mib(64), &format!("{table}.geometry.size"), || {
        format!("{} are more than a private cache has: at most 64 MiB", cache.geometry.size)
    })?;
    all_within(table, 1..=1000, &[("latency", cache.latency)])?;
    all_within(table, 1..=1024, &[("misses_in_flight", cache.misses_in_flight)])?;
    let occupied = [
        ("fill_cycles", cache.fill_cycles),
        ("evict_cycles", cache.evict_cycles),
        ("serve_cycles", cache.serve_cycles),
    ];
    all_within(table, 0..=1000, &occupied)?;
    all_within(table, 1..=2, &[("shared_by_cores", cache.shared_by_cores)])
}

fn shared(l3: &SharedCache, l2: &PrivateCache, l2s: u32) -> Checked {
    within("l3.slices", l3.slices, 1..=256)?;
    geometry("l3.geometry", &l3.geometry, l3.slices)?;
    all_within("l3", 1..=10_000, &[("latency", l3.latency)])?;
    all_within("l3", 0..=10_000, &[("core_latency", l3.core_latency), ("snoop_latency", l3.snoop_latency)])?;
    all_within("l3", 1..=1000, &[("slice_cycles", l3.slice_cycles)])?;
    all_within("l3", 1..=1024, &[("misses_in_flight", l3.misses_in_flight)])?;
    let above = Bytes(l2.geometry.size.0.saturating_mul(u64::from(l2s)));
    ensure(l3.inclusion == Inclusion::Victim || l3.geometry.size >= above, "l3.geometry.size", || {
        format!("an inclusive L3 of {} cannot hold the {above} of its {l2s} L2s", l3.geometry.size)
    })
}

/// Memory of the host is bounded by this.
fn total(model: &Model) -> Checked {
    let cores = u64::from(model.cores());
    let bytes = |size: Bytes, count: u64| size.0.saturating_mul(count);
    let private = bytes(model.l1d.geometry.size, cores)
        .saturating_add(bytes(model.front_end.l1i.size, cores))
        .saturating_add(bytes(model.l2.geometry.size, cores / u64::from(model.l2.shared_by_cores)));
    let shared = model.l3.map_or(0, |l3| bytes(l3.geometry.size, u64::from(model.sockets)));
    let all = Bytes(private.saturating_add(shared));
    let largest = if shared > private { "l3.geometry.size" } else { "l2.geometry.size" };
    ensure(all <= MOST, largest, || format!("all caches together would have {all}: at most {MOST}"))
}

/// Geometry of a cache of which each of `slices` is indexed on its own.
pub(super) fn geometry(path: &str, geometry: &CacheGeometry, slices: u32) -> Checked {
    let CacheGeometry { size, ways, line, replacement } = geometry;
    ensure(*line == LINE, &format!("{path}.line"), || format!("{line}: lines must have {LINE}"))?;
    within(&format!("{path}.ways"), *ways, 1..=128)?;
    within(&format!("{path}.size"), *size, LINE..=MOST)?;
    let tree = *replacement == Replacement::TreePlru;
    ensure(!tree || ways.is_power_of_two(), &format!("{path}.replacement"), || {
        format!("tree-plru needs a power of two of ways, not {ways}; lru and random take any")
    })?;
    let part = u64::from(*ways) * line.0 * u64::from(slices);
    let sets = size.0 / part;
    ensure(size.0 % part == 0 && sets.is_power_of_two(), &format!("{path}.size"), || {
        let of = if slices == 1 { String::new() } else { format!(" in {slices} slices") };
        format!("{size} with {ways} ways of {line}{of} make no power of two of sets")
    })
}

pub(super) fn tlb(tlb: &TlbModel) -> Checked {
    tlb_level("tlb.l1_small", &tlb.l1_small)?;
    tlb_level("tlb.l1_huge", &tlb.l1_huge)?;
    tlb_level("tlb.l2", &tlb.l2)?;
    all_within("tlb", 0..=1000, &[("l2_latency", tlb.l2_latency), ("walk_cycles", tlb.walk_cycles)])?;
    all_within("tlb", 0..=3, &[("walk_levels_cached", tlb.walk_levels_cached)])?;
    all_within("tlb", 1..=64, &[("walkers", tlb.walkers)])
}

pub(super) fn tlb_level(path: &str, level: &ModelTlb) -> Checked {
    let ModelTlb { entries, ways } = level;
    within(&format!("{path}.entries"), *entries, 1..=8192)?;
    within(&format!("{path}.ways"), *ways, 1..=*entries)?;
    let indexable = entries % ways == 0 && (entries / ways).is_power_of_two();
    ensure(indexable, &format!("{path}.entries"), || {
        format!("{entries} entries with {ways} ways make no power of two of sets")
    })
}
