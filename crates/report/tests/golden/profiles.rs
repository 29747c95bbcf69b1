//! Profiles made by hand.

use machine::{
    Bytes, CpuSet, Profile,
    profile::{
        Bandwidths, CoreOperation, CoreToCore, Estimate, Extent, Fingerprint, LatencyPoint, LevelName,
        LoadedLatency, Noise, OperationCost, Overheads, ProfileLevel, Tlb, TlbPoint,
    },
};

use crate::benches::clock;

/// 2026-03-01 14:05 UTC.
pub const MEASURED_AT: u64 = 1_772_373_900;

pub fn about(value: f64) -> Estimate {
    Estimate { value, low: value * 0.98, high: value * 1.02, samples: 15 }
}

fn rough(value: f64) -> Estimate {
    Estimate { value, low: value * 0.8, high: value * 1.15, samples: 15 }
}

fn bandwidths(load: f64, store: f64, copy: f64) -> Bandwidths {
    Bandwidths {
        load: Some(about(load * 1e9)),
        store: Some(about(store * 1e9)),
        copy: Some(about(copy * 1e9)),
    }
}

fn cache(
    number: u32,
    claimed: Bytes,
    usable: Estimate,
    latency_ns: f64,
    one: Bandwidths,
    all: Bandwidths,
) -> ProfileLevel {
    ProfileLevel {
        name: LevelName::Cache(number),
        claimed: Some(claimed),
        shared_by: Some(1),
        unseen: None,
        usable: Some(usable),
        measured_with: Some(Bytes(claimed.0 / 2)),
        latency_ns: Some(about(latency_ns)),
        one_core: one,
        all_cores: all,
    }
}

fn memory(node: u32, local: bool, latency_ns: f64, one: Bandwidths, all: Bandwidths) -> ProfileLevel {
    ProfileLevel {
        name: LevelName::Memory { node, local },
        claimed: Some(Bytes::gib(24)),
        shared_by: None,
        unseen: None,
        usable: None,
        measured_with: Some(Bytes::mib(512)),
        latency_ns: Some(about(latency_ns)),
        one_core: one,
        all_cores: all,
    }
}

fn latency_curve(plateaus: &[(u64, f64)], last: u32) -> Vec<LatencyPoint> {
    let at = |size: u64| {
        let plateau = plateaus.iter().position(|(end, _)| size <= *end).unwrap_or(plateaus.len() - 1);
        plateaus[plateau].1
    };
    let sizes = (12..last).flat_map(|exponent| [1u64 << exponent, 3 << (exponent - 1)]);
    let point =
        |size| LatencyPoint { size: Bytes(size), latency_ns: about(at(size)), huge_pages: size < 1 << 28 };
    sizes.map(point).collect()
}

/// A two-CPU guest whose L3 is not what it claims.
pub fn guest() -> Profile {
    Profile {
        schema: "memwall.profile/1".into(),
        fingerprint: Fingerprint {
            id: "5f1c09a2b7d3".into(),
            cpu: "GenuineIntel Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, family 6, model 143, stepping 8".into(),
            microcode: "0xffffffff".into(),
            topology: "1 socket, 2 cores, 2 threads, L1 48 KiB, L2 2 MiB, L3 260 MiB, 1 node".into(),
            kernel: "6.12.41-cloud-amd64".into(),
            hypervisor: "KVM".into(),
        },
        simulated: None,
        measured_at: MEASURED_AT,
        memwall: "0.1.0".into(),
        extent: Extent { quick: false, complete: true },
        seed: 1,
        cpus: [0, 1].into_iter().collect(),
        clock: Some(clock()),
        operations: vec![
            OperationCost { operation: CoreOperation::FpAdd, latency_cycles: Some(3.02), per_cycle: Some(2.0) },
            OperationCost { operation: CoreOperation::Store, latency_cycles: None, per_cycle: Some(0.99) },
        ],
        overheads: Some(Overheads {
            tsc_read_ns: Some(8.13),
            clock_read_ns: 24.9,
            syscall_ns: 131.0,
            clock_step_ns: 1.0,
        }),
        levels: guest_levels(),
        latency_curve: latency_curve(
            &[(47 << 10, 1.34), (1900 << 10, 4.4), (10 << 20, 22.0), (40 << 20, 61.0), (1 << 40, 104.0)],
            30,
        ),
        tlb: Some(Tlb {
            curve: [(16, 1.3), (96, 1.3), (1024, 3.9), (16384, 31.0)]
                .map(|(pages, ns)| TlbPoint { pages, small_ns: about(ns), huge_ns: Some(about(1.3)) })
                .to_vec(),
            reach_pages: vec![96, 2048],
            walk_penalty_ns: Some(29.7),
        }),
        loaded_latency: loaded(104.0),
        timer: None,
        core_to_core: vec![CoreToCore { from: 0, to: 1, latency_ns: about(58.3) }],
        probes: Vec::new(),
        squeeze: None,
        remarks: vec![
            "L3 claims 260 MiB; one core can use about 10 MiB of it: size data to the measured number, other guests \
             share the rest."
                .into(),
            "L1 gives 47 KiB of the 48 KiB it claims.".into(),
        ],
        noise: Some(Noise {
            wall_ns: 5.8e10,
            steal_ns: Some(1.4e9),
            involuntary_switches: Some(212),
            spread: Some(0.013),
        }),
    }
}

fn guest_levels() -> Vec<ProfileLevel> {
    vec![
        cache(
            1,
            Bytes::kib(48),
            about(48128.0),
            1.34,
            bandwidths(452.0, 228.0, 391.0),
            bandwidths(896.0, 452.0, 770.0),
        ),
        cache(
            2,
            Bytes::mib(2),
            about(1.95e6),
            4.4,
            bandwidths(148.0, 81.2, 97.4),
            bandwidths(294.0, 161.0, 190.0),
        ),
        cache(
            3,
            Bytes::mib(260),
            rough(1.07e7),
            22.1,
            bandwidths(27.3, 14.0, 18.8),
            bandwidths(51.0, 25.9, 35.2),
        ),
        memory(0, true, 104.0, bandwidths(12.9, 7.91, 11.4), bandwidths(21.8, 11.6, 17.0)),
    ]
}

pub fn loaded(idle: f64) -> Vec<LoadedLatency> {
    let point = |delay_nops, drawn: f64, times: f64| LoadedLatency {
        delay_nops,
        loaders: usize::from(delay_nops.is_some()),
        drawn: drawn * 1e9,
        latency_ns: about(idle * times),
        rising_ns: Some(idle * times),
        contradicts: false,
    };
    vec![
        point(Some(0), 12.4, 1.61),
        point(Some(64), 9.7, 1.33),
        point(Some(256), 4.1, 1.09),
        point(Some(1024), 1.2, 1.02),
        point(None, 0.0, 1.0),
    ]
}

/// Neighbours held the last level, and disturbed the latency under load.
pub fn crowded() -> Profile {
    let mut profile = guest();
    let l3 = &mut profile.levels[2];
    (l3.usable, l3.latency_ns, l3.measured_with) = (None, None, None);
    (l3.one_core, l3.all_cores) = (Bandwidths::default(), Bandwidths::default());
    l3.unseen = Some("beyond 1.9 MiB a load takes 104.0 ns in place of 4.4 at once".into());
    let l2 = &mut profile.levels[1];
    l2.usable = Some(Estimate { value: 9e5, low: 4e5, high: 2_097_152.0, samples: 41 });
    for (point, ns) in profile.loaded_latency.iter_mut().zip([280.0, 214.0, 258.0, 121.0, 104.0]) {
        point.latency_ns = about(ns);
        point.rising_ns = Some(if ns == 214.0 || ns == 258.0 { 236.0 } else { ns });
        point.contradicts = point.rising_ns != Some(ns);
    }
    profile.remarks = vec!["L3 claims 260 MiB, but the latency curve shows no such level.".into()];
    profile
}

/// Stopped during the bandwidth measurements.
pub fn interrupted() -> Profile {
    let mut profile = Profile {
        extent: Extent { quick: true, complete: false },
        tlb: None,
        loaded_latency: vec![],
        timer: None,
        core_to_core: vec![],
        remarks: vec![],
        noise: None,
        ..guest()
    };
    for level in &mut profile.levels {
        level.all_cores = Bandwidths::default();
    }
    profile.levels[2].one_core.copy = None;
    profile.levels[3].one_core = Bandwidths::default();
    profile
}

/// One CPU: nothing to load it with, nobody to talk to.
pub fn one_cpu() -> Profile {
    let mut profile = Profile {
        cpus: [0].into_iter().collect(),
        clock: None,
        operations: Vec::new(),
        loaded_latency: vec![],
        timer: None,
        core_to_core: vec![],
        remarks: vec![],
        noise: Some(Noise {
            wall_ns: 5e10,
            steal_ns: None,
            involuntary_switches: Some(0),
            spread: Some(0.004),
        }),
        ..guest()
    };
    profile.fingerprint.hypervisor = "none".into();
    for level in &mut profile.levels {
        level.all_cores = Bandwidths::default();
    }
    if let Some(tlb) = &mut profile.tlb {
        tlb.reach_pages.clear();
        tlb.walk_penalty_ns = None;
    }
    profile
}

/// Two sockets of `cores` each, no SMT.
pub fn two_nodes(cores: u32) -> Profile {
    let cpus: CpuSet = (0..2 * cores).collect();
    let pairs = (0..2 * cores).flat_map(|from| (0..2 * cores).map(move |to| (from, to)));
    let hop = |(from, to): (u32, u32)| {
        let ns =
            if (from < cores) == (to < cores) { 48.0 + f64::from(to % 7) } else { 121.0 + f64::from(to % 5) };
        CoreToCore { from, to, latency_ns: if (from, to) == (1, 0) { rough(ns) } else { about(ns) } }
    };
    let mut profile = guest();
    profile.fingerprint.cpu =
        "GenuineIntel Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz, family 6, model 63, stepping 2".into();
    profile.fingerprint.topology = format!("2 sockets, {} cores, {0} threads, 2 nodes", 2 * cores);
    profile.fingerprint.hypervisor = "none".into();
    profile.levels[2] = cache(
        3,
        Bytes::mib(30),
        about(2.9e7),
        18.4,
        bandwidths(31.0, 17.4, 22.9),
        bandwidths(610.0, 322.0, 430.0),
    );
    profile.levels[3] = memory(0, true, 88.0, bandwidths(12.1, 7.4, 10.2), bandwidths(118.0, 61.0, 89.0));
    profile.levels.push(memory(1, false, 139.0, bandwidths(8.2, 4.9, 6.1), Bandwidths::default()));
    profile.loaded_latency = loaded(88.0);
    for point in &mut profile.loaded_latency {
        point.drawn *= 9.1;
        point.loaders *= 2 * cores as usize - 1;
    }
    profile.core_to_core = pairs.filter(|(from, to)| from > to).map(hop).collect();
    profile.cpus = cpus;
    profile.remarks.clear();
    profile.noise =
        Some(Noise { wall_ns: 5e10, steal_ns: Some(0.0), involuntary_switches: Some(0), spread: None });
    profile
}
