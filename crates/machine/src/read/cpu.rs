//! Which CPUs there are, where they sit, and of which kind.

use std::collections::HashMap;

use super::{MOST_CPUS, cpuinfo::CpuInfo, list, some_list};
use crate::{
    CpuSet, Source,
    gaps::Gaps,
    source::ReadError,
    topology::{CoreKind, Cpu},
};

const CPUS: &str = "sys/devices/system/cpu";

/// Online CPUs: from the kernel's list, or else from the CPUs that have a topology, or else from procfs.
pub(super) fn online(source: &Source, info: &CpuInfo, gaps: &mut Gaps) -> CpuSet {
    let wanted = "a list of CPUs";
    if let Some(online) = gaps.take(source.value(&format!("{CPUS}/online"), wanted, some_list)) {
        return online;
    }
    // The topology folder of a CPU vanishes while it is offline.
    let numbers = source.numbered(CPUS, "cpu").unwrap_or_default();
    let online: CpuSet = numbers
        .into_iter()
        .filter(|&cpu| cpu < MOST_CPUS && source.exists(&format!("{CPUS}/cpu{cpu}/topology")))
        .collect();
    if !online.is_empty() {
        gaps.note(format!("/{CPUS}/online"), "replaced by the CPUs that have a topology folder");
        return online;
    }
    let online: CpuSet = info.numbers().filter(|&cpu| cpu < MOST_CPUS).collect();
    let why = if online.is_empty() { "no CPU is listed anywhere" } else { "replaced by /proc/cpuinfo" };
    gaps.note(format!("/{CPUS}/online"), why);
    online
}

/// CPUs that exist and are switched off. The kernel's own `offline` list also has those that could be plugged
/// in one day, so it only serves where `present` is unknown.
pub(super) fn offline(source: &Source, online: &CpuSet, gaps: &mut Gaps) -> CpuSet {
    if let Some(present) = gaps.take(source.value(&format!("{CPUS}/present"), "a list of CPUs", some_list)) {
        return present.difference(online);
    }
    match gaps.take(source.value(&format!("{CPUS}/offline"), "a list of CPUs", list)) {
        Some(offline) => {
            gaps.note(format!("/{CPUS}/offline"), "may include CPUs that were never plugged in");
            offline.difference(online)
        }
        None => CpuSet::default(),
    }
}

/// Every online CPU with its place.
pub(super) fn cpus(source: &Source, online: &CpuSet, arch: Option<&str>, gaps: &mut Gaps) -> Vec<Cpu> {
    let kinds = kinds(source, online, arch, gaps);
    let cores = cores(source, online, gaps);
    let cpu = |id| Cpu {
        id,
        socket: gaps.take(number(source, id, "physical_package_id")),
        die: gaps.take(number(source, id, "die_id")),
        core: gaps.take(number(source, id, "core_id")),
        node: None,
        siblings: cores.get(&id).cloned().unwrap_or_else(|| CpuSet::from_iter([id])),
        kind: kinds.of(id),
    };
    online.iter().map(cpu).collect()
}

/// A number of the topology folder; the kernel writes -1 for what the firmware does not say.
fn number(source: &Source, cpu: u32, file: &str) -> Result<u32, ReadError> {
    source.value(&format!("{CPUS}/cpu{cpu}/topology/{file}"), "a number from 0 on", |text| {
        text.parse().ok().filter(|&number| number <= i32::MAX as u32)
    })
}

/// The core of each CPU as the set of its CPUs. Every CPU ends up in one core: one whose own list is unreadable
/// belongs where another CPU names it, and where two lists disagree the lower CPU's counts.
fn cores(source: &Source, online: &CpuSet, gaps: &mut Gaps) -> HashMap<u32, CpuSet> {
    let mut cores: HashMap<u32, CpuSet> = HashMap::new();
    for cpu in online.iter() {
        let Some((path, listed)) = siblings(source, cpu, gaps) else {
            continue;
        };
        let listed = listed.intersection(online);
        match cores.get(&cpu) {
            Some(known) if *known == listed => {}
            Some(known) => gaps.note(path, format!("lists {listed}, but a sibling lists {known}")),
            None => {
                let free: CpuSet = listed.iter().filter(|other| !cores.contains_key(other)).collect();
                if free != listed {
                    gaps.note(path, format!("lists {listed}, some of which are of another core"));
                }
                cores.extend(free.iter().map(|member| (member, free.clone())));
            }
        }
    }
    cores
}

/// What one CPU states of its siblings, and in which file. `thread_siblings_list` is the old name, which all
/// kernels have so far.
fn siblings(source: &Source, cpu: u32, gaps: &mut Gaps) -> Option<(String, CpuSet)> {
    let with_itself = |text: &str| list(text).filter(|set| set.contains(cpu));
    let path = |file: &str| format!("{CPUS}/cpu{cpu}/topology/{file}");
    let read = |file: &str| source.value(&path(file), "a list with the CPU itself", with_itself);
    let new = gaps.take_if_there(read("core_cpus_list")).map(|set| (path("core_cpus_list"), set));
    let (path, set) = match new {
        Some(found) => found,
        None => (path("thread_siblings_list"), gaps.take(read("thread_siblings_list"))?),
    };
    Some((format!("/{path}"), set))
}

/// Which CPUs are of which kind.
#[derive(Debug, Default)]
struct Kinds {
    performance: CpuSet,
    efficient: CpuSet,
}

impl Kinds {
    fn of(&self, cpu: u32) -> CoreKind {
        match (self.performance.contains(cpu), self.efficient.contains(cpu)) {
            (true, false) => CoreKind::Performance,
            (false, true) => CoreKind::Efficient,
            _ => CoreKind::Uniform,
        }
    }
}

fn kinds(source: &Source, online: &CpuSet, arch: Option<&str>, gaps: &mut Gaps) -> Kinds {
    let mut listed = |paths: &[&str]| -> CpuSet {
        let lists =
            paths.iter().filter_map(|path| gaps.take_if_there(source.value(path, "a list of CPUs", list)));
        lists.flat_map(|set| set.iter().collect::<Vec<_>>()).collect()
    };
    let types = "sys/devices/system/cpu/types";
    let (core, atom) = (format!("{types}/intel_core_0/cpulist"), format!("{types}/intel_atom_0/cpulist"));
    let kinds = Kinds {
        performance: listed(&["sys/devices/cpu_core/cpus", &core]),
        efficient: listed(&["sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus", &atom]),
    };
    if arch == Some("aarch64") { by_capacity(source, online, gaps) } else { kinds }
}

/// Arm kernels state a capacity relative to the largest core. A little core has less than 60 % of it; the same
/// core at a lower clock, or a middle one, has more.
fn by_capacity(source: &Source, online: &CpuSet, gaps: &mut Gaps) -> Kinds {
    let capacity = |cpu| {
        let path = format!("{CPUS}/cpu{cpu}/cpu_capacity");
        let sane = |text: &str| text.parse::<u32>().ok().filter(|value| (1..=1 << 16).contains(value));
        Some((cpu, gaps.take_if_there(source.value(&path, "a capacity", sane))?))
    };
    let capacities: Vec<(u32, u32)> = online.iter().filter_map(capacity).collect();
    let largest = capacities.iter().map(|(_, value)| *value).max().unwrap_or_default();
    let (little, big): (Vec<_>, Vec<_>) = capacities.iter().partition(|(_, value)| value * 5 < largest * 3);
    if little.is_empty() {
        return Kinds::default();
    }
    let numbers = |cpus: Vec<(u32, u32)>| cpus.into_iter().map(|(cpu, _)| cpu).collect();
    Kinds { performance: numbers(big), efficient: numbers(little) }
}
