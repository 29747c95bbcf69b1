//! What is said about the machine once everything is measured.

use machine::{CpuSet, Profile, Topology, topology::CoreKind, units::significant};

/// Steal above this share of the CPU time watched is worth a sentence.
const STEAL_SHARE: f64 = 0.01;

/// A typical spread above this makes small differences meaningless.
const SPREAD: f64 = 0.05;

/// Sentences on noise, quotas and core kinds.
pub(super) fn closing(machine: &Topology, profile: &Profile) -> Vec<String> {
    [stolen(profile), spread(profile), quota(machine, profile), hybrid(machine, &profile.cpus)]
        .into_iter()
        .flatten()
        .collect()
}

fn per_cent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 2))
}

fn stolen(profile: &Profile) -> Option<String> {
    let noise = profile.noise?;
    let watched_ns = noise.wall_ns * profile.cpus.len() as f64;
    let share = noise.steal_ns? / watched_ns;
    (watched_ns > 0.0 && share > STEAL_SHARE).then(|| {
        format!(
            "The hypervisor gave {} of the CPU time to others while this was measured: expect bandwidths to be low.",
            per_cent(share)
        )
    })
}

fn spread(profile: &Profile) -> Option<String> {
    let spread = profile.noise?.spread.filter(|&spread| spread > SPREAD)?;
    Some(format!(
        "Repeated measurements typically differed by {} of their median: calibrate again on a quieter machine.",
        per_cent(spread)
    ))
}

fn quota(machine: &Topology, profile: &Profile) -> Option<String> {
    let quota = machine.limits.cpu_quota.filter(|&quota| quota < profile.cpus.len() as f64)?;
    Some(format!(
        "The cgroup allows {} CPUs of time on {} cores: numbers for all cores are cut down by that.",
        significant(quota, 2),
        profile.cpus.len()
    ))
}

fn hybrid(machine: &Topology, cpus: &CpuSet) -> Option<String> {
    let first = cpus.first()?;
    let kind = |cpu: u32| machine.cpus.iter().find(|known| known.id == cpu).map(|known| known.kind);
    let name = match kind(first)? {
        CoreKind::Uniform => return None,
        CoreKind::Performance => "performance",
        CoreKind::Efficient => "efficient",
    };
    let others = cpus.iter().any(|cpu| kind(cpu) != kind(first));
    others.then(|| format!("Levels are those of CPU {first}, a {name} core; the other kind of core differs."))
}
