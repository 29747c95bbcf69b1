//! Step: latency and bandwidth of each level, for one core and for all.

use machine::{
    Bytes, CpuSet,
    profile::{Bandwidths, LevelName, ProfileLevel},
    topology::Cache,
};

use super::{answers, session::Session};
use host::sizes::whole_lines;

/// The streaming kernels, in the order of [`Bandwidths`].
const KERNELS: [&str; 3] = ["load", "store", "copy"];

/// A data set this many times the outermost cache is in memory for all practical purposes.
const IN_MEMORY: f64 = 4.0;

/// The same where all cores stream and it is not known how much of the outermost cache is theirs: part of what was streamed is
/// kept whatever comes behind it. 45 MiB beside 32 gave 1.8 times what memory did, 64 MiB 1.3 times, and 256 the same.
const SURELY_IN_MEMORY: f64 = 6.0;

/// Memory is measured with at least this much.
const LEAST_IN_MEMORY: f64 = (64u64 << 20) as f64;

/// One level to be measured.
struct Target {
    name: LevelName,
    /// For one core.
    size: Bytes,
    /// For all cores together, and which those are; `None` if there is no size that stays in the level.
    all: Option<(Bytes, Vec<u32>)>,
    node: Option<u32>,
}

/// Every cache level that was seen, then the memory of every node.
pub(super) fn levels(session: &mut Session<'_>) {
    let mut targets = cache_targets(session);
    targets.extend(memory_targets(session));
    let per_target = 1 + 2 * KERNELS.len();
    let total = targets.len() * per_target;
    for (done, target) in targets.iter().enumerate() {
        if session.interrupted() {
            return;
        }
        measure(session, target, total - done * per_target);
        session.progress((done + 1) as f64 / targets.len() as f64);
    }
}

fn measure(session: &mut Session<'_>, target: &Target, mut remaining: usize) {
    let cpu = session.cpu;
    let Some(chase) = session.job("chase", target.size, &[cpu]) else { return };
    let chase = chase.on_node(target.node);
    // One pass over memory takes as long as all samples of a cache: give it more time.
    let in_memory = matches!(target.name, LevelName::Memory { .. });
    let share = if in_memory { remaining.div_ceil(4) } else { remaining };
    let Some(chased) = session.measure(&chase, share) else {
        return;
    };
    let mut one_core = Bandwidths::default();
    let mut all_cores = Bandwidths::default();
    for (index, kernel) in KERNELS.into_iter().enumerate() {
        remaining = remaining.saturating_sub(2).max(1);
        let mut bandwidth = |size, cpus: &[u32]| {
            let job = session.job(kernel, size, cpus)?.on_node(target.node);
            session.measure(&job, remaining + 1).and_then(|measured| measured.program_bytes_per_s())
        };
        let one = bandwidth(target.size, &[cpu]);
        let all = match &target.all {
            Some((_, cpus)) if *cpus == [cpu] => one,
            Some((size, cpus)) => bandwidth(*size, cpus),
            None => None,
        };
        *slot(&mut one_core, index) = one;
        *slot(&mut all_cores, index) = all;
    }
    level_mut(session, &target.name).measured_with = Some(target.size);
    answers::note(session, &target.name, &chased);
    let level = level_mut(session, &target.name);
    level.one_core = one_core;
    level.all_cores = all_cores;
}

fn slot(bandwidths: &mut Bandwidths, index: usize) -> &mut Option<machine::profile::Estimate> {
    match index {
        0 => &mut bandwidths.load,
        1 => &mut bandwidths.store,
        _ => &mut bandwidths.copy,
    }
}

/// The profile's entry for a level, made if it is not there.
pub(super) fn level_mut<'s>(session: &'s mut Session<'_>, name: &LevelName) -> &'s mut ProfileLevel {
    let levels = &mut session.profile.levels;
    let index = levels.iter().position(|level| level.name == *name).unwrap_or_else(|| {
        levels.push(ProfileLevel::unmeasured(name.clone()));
        levels.len() - 1
    });
    &mut levels[index]
}

/// The cache levels whose capacity is known.
fn cache_targets(session: &mut Session<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut inner = None::<f64>;
    for level in session.profile.levels.clone() {
        let (LevelName::Cache(number), Some(usable)) = (&level.name, level.usable) else {
            continue;
        };
        let all = per_thread_when_all_run(session, *number, inner, usable.value)
            .map(|per_thread| (whole_lines(per_thread * session.cores.len() as f64), session.cores.clone()));
        if all.is_none() {
            session.remark(format!(
                "L{number} has no bandwidth for all cores: their private caches together hold as much as it does."
            ));
        }
        targets.push(Target {
            name: level.name,
            size: whole_lines(inside(inner, usable.value)),
            all,
            node: None,
        });
        inner = Some(usable.value);
    }
    targets
}

/// A size well beyond the level inside and well within this one: two thirds of the way, in octaves, so that
/// what the inner level still holds hardly counts. Half of it where nothing lies inside.
pub(super) fn inside(inner: Option<f64>, usable: f64) -> f64 {
    match inner {
        Some(inner) if inner < usable => (inner * usable * usable).cbrt(),
        _ => usable / 2.0,
    }
}

/// Bytes per thread when all cores run, such that those that share a cache stay in it and out of what lies
/// inside.
fn per_thread_when_all_run(
    session: &Session<'_>,
    number: u32,
    inner: Option<f64>,
    usable: f64,
) -> Option<f64> {
    let cores: CpuSet = session.cores.iter().copied().collect();
    let sharers = session
        .machine
        .caches
        .iter()
        .filter(|cache| cache.level == number && cache.kind != machine::topology::CacheKind::Instruction)
        .map(|cache| cache.shared_by.intersection(&cores).len())
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    // Half as much again as the inner caches hold together is the least that still misses them most of the
    // time.
    let fits = inner.is_none_or(|inner| inner * sharers * 1.5 <= usable);
    fits.then(|| inside(inner.map(|inner| inner * sharers), usable) / sharers)
}

/// The local node as first touch gives it, then every other one by binding.
fn memory_targets(session: &mut Session<'_>) -> Vec<Target> {
    let outermost =
        session.profile.levels.iter().filter_map(|level| level.usable).next_back().map_or(0.0, |u| u.value);
    let memory = session.memory().0 as f64;
    let claimed = session.profile.levels.iter().filter_map(|level| level.claimed).map(|size| size.0 as f64);
    let largest_claim = claimed.fold(0.0, f64::max);
    if session.request.simulated.is_some() && IN_MEMORY * outermost < largest_claim {
        session.remark(
            "Memory was not measured: a data set that the last cache cannot hold would take too long. Calibrate without \
             --quick, or bench the size you need."
                .to_owned(),
        );
        return Vec::new();
    }
    // The claims of a simulated machine are true: no cache can hide.
    let least = if session.request.simulated.is_some() { 4096.0 } else { LEAST_IN_MEMORY };
    let size = (IN_MEMORY * outermost).max(least).min(memory);
    let cores = session.cores.len() as f64;
    let beyond_caches = match session.request.simulated {
        Some(_) => 0.0,
        // Others may have used the cache while it was measured, and whoever measures it alone has one of several.
        None => in_memory_of_all(session, largest_claim.max(outermost)),
    };
    let all_size = (IN_MEMORY * outermost * cores).max(beyond_caches).max(least).min(memory);
    let home = session.machine.cpus.iter().find(|cpu| cpu.id == session.cpu).and_then(|cpu| cpu.node);
    let local = home.unwrap_or(0);
    let mut targets = vec![Target {
        name: LevelName::Memory { node: local, local: true },
        size: whole_lines(size),
        all: Some((whole_lines(all_size), session.cores.clone())),
        node: None,
    }];
    let on_home = |cpu: &u32| session.machine.cpus.iter().any(|known| known.id == *cpu && known.node == home);
    let near: Vec<u32> = session.cores.iter().copied().filter(on_home).collect();
    let allowed = |node: u32| session.machine.limits.nodes.as_ref().is_none_or(|nodes| nodes.contains(node));
    for node in &session.machine.nodes {
        let room = node.memory.map_or(memory, |bytes| bytes.0 as f64 / 4.0);
        if node.id == local || !allowed(node.id) || room < least {
            continue;
        }
        targets.push(Target {
            name: LevelName::Memory { node: node.id, local: false },
            size: whole_lines(size.min(room)),
            all: Some((whole_lines(all_size.min(room)), near.clone())),
            node: Some(node.id),
        });
    }
    targets
}

/// Bytes of all cores together that surely do not stay in their outermost caches.
fn in_memory_of_all(session: &Session<'_>, outermost: f64) -> f64 {
    /// No cache of one core is larger than a sixth of this.
    const MOST_OF_A_CORE: f64 = (512u64 << 20) as f64;
    let one = SURELY_IN_MEMORY * outermost;
    let cores: CpuSet = session.cores.iter().copied().collect();
    let last = session.machine.caches.iter().map(|cache| cache.level).max();
    let has_part =
        |cache: &&Cache| Some(cache.level) == last && !cache.shared_by.intersection(&cores).is_empty();
    match session.machine.hypervisor {
        // What a guest is told of who shares a cache need not be so: each core may have its own.
        Some(_) => one.max(one.min(MOST_OF_A_CORE) * session.cores.len() as f64),
        None => one * session.machine.caches.iter().filter(has_part).count().max(1) as f64,
    }
}
