//! The machine cut into parts: sockets, dies, shared caches, cores; equal neighbours merged.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::once,
};

use machine::{
    Bytes, CpuSet, Topology,
    topology::{Cache, CacheKind, CoreKind},
};

use super::spaced;
use crate::layout::prose::{counted, dotted, listed};

/// A part of the machine, or several that look alike.
#[derive(Clone, Debug)]
pub(super) struct TopologyPart {
    /// What it is, without the CPUs that tell it from its like.
    pub(super) what: String,
    /// Further lines about it.
    pub(super) details: Vec<String>,
    /// The CPUs of each instance.
    pub(super) places: Vec<CpuSet>,
    /// What the first instance is made of.
    pub(super) inner: Vec<TopologyPart>,
}

impl TopologyPart {
    fn new(what: impl Into<String>, cpus: CpuSet, inner: Vec<TopologyPart>) -> Self {
        Self { what: what.into(), details: Vec::new(), places: vec![cpus], inner }
    }

    /// The same but for the CPU numbers.
    fn is_like(&self, other: &Self) -> bool {
        self.what == other.what
            && self.details == other.details
            && self.inner.len() == other.inner.len()
            && self
                .inner
                .iter()
                .zip(&other.inner)
                .all(|(a, b)| a.is_like(b) && a.places.len() == b.places.len())
    }
}

/// The sockets with all that is in them.
pub(super) fn sockets(topology: &Topology) -> Vec<TopologyPart> {
    let by_socket = grouped(topology, |cpu| cpu.socket, &online(topology));
    let sockets = by_socket.into_iter().map(|(socket, cpus)| {
        let (label, known) = node_label(topology, &cpus, false);
        let name = socket.map_or("socket not known".into(), |socket| format!("socket {socket}"));
        let inner = dies(topology, &cpus, known);
        TopologyPart::new(dotted([name.as_str(), &label]), cpus, inner)
    });
    sockets.collect()
}

/// The dies of a socket that has several, or else what is in its only one.
fn dies(topology: &Topology, cpus: &CpuSet, node_known: bool) -> Vec<TopologyPart> {
    let by_die = grouped(topology, |cpu| cpu.die, cpus);
    if by_die.len() < 2 {
        return caches(topology, cpus, deepest(topology), node_known);
    }
    let dies = by_die.into_iter().map(|(die, cpus)| {
        let (label, known) = node_label(topology, &cpus, node_known);
        let name = die.map_or("die not known".into(), |die| format!("die {die}"));
        let inner = caches(topology, &cpus, deepest(topology), known);
        TopologyPart::new(dotted([name.as_str(), &label]), cpus, inner)
    });
    dies.collect()
}

/// What `cpus` share at `level` and below. Caches of a single core are told with the core.
fn caches(topology: &Topology, cpus: &CpuSet, level: u32, node_known: bool) -> Vec<TopologyPart> {
    if level == 0 {
        return cores(topology, cpus, node_known);
    }
    let mut rest = cpus.clone();
    let mut parts = Vec::new();
    for cache in topology.caches.iter().filter(|cache| cache.level == level && is_shared(topology, cache)) {
        let inside = cache.shared_by.intersection(&rest);
        if inside.is_empty() {
            continue;
        }
        rest = rest.difference(&inside);
        let (label, known) = node_label(topology, &inside, node_known);
        let inner = caches(topology, &inside, level - 1, known);
        let mut part =
            TopologyPart::new(dotted([cache_text(topology, cache).as_str(), &label]), inside, inner);
        let outside = cache.shared_by.difference(cpus);
        if !outside.is_empty() {
            part.details.push(format!("shared with CPUs {} elsewhere", spaced(&outside)));
        }
        parts.push(part);
    }
    if !rest.is_empty() {
        parts.extend(caches(topology, &rest, level - 1, node_known));
    }
    parts.sort_by_key(|part| part.places[0].first());
    merged(parts)
}

/// Cores that look alike, together.
fn cores(topology: &Topology, cpus: &CpuSet, node_known: bool) -> Vec<TopologyPart> {
    let mut alike: BTreeMap<(CoreKind, usize, String, String), Vec<CpuSet>> = BTreeMap::new();
    for core in topology.cores() {
        let threads = core.intersection(cpus);
        let Some(first) = threads.first() else { continue };
        let kind = topology.cpus.iter().find(|cpu| cpu.id == first).map_or(CoreKind::Uniform, |cpu| cpu.kind);
        let (label, _) = node_label(topology, &threads, node_known);
        alike.entry((kind, threads.len(), label, own_caches(topology, first))).or_default().push(threads);
    }
    let parts = alike.into_iter().map(|((kind, threads, label, caches), cores)| {
        let kind = match kind {
            CoreKind::Uniform => "core",
            CoreKind::Performance => "performance core",
            CoreKind::Efficient => "efficient core",
        };
        let smt =
            if threads > 1 { format!(" of {threads} threads {}", numbering(&cores)) } else { String::new() };
        let what = dotted([format!("{}{smt}", counted(cores.len(), kind)).as_str(), &label]);
        let each = if cores.len() > 1 { "each " } else { "" };
        let mut part = TopologyPart::new(what, cores.iter().flat_map(CpuSet::iter).collect(), Vec::new());
        part.details.push(if caches.is_empty() {
            "no cache known".into()
        } else {
            format!("{each}{caches}")
        });
        part
    });
    let mut parts: Vec<TopologyPart> = parts.collect();
    parts.sort_by_key(|part| part.places[0].first());
    parts
}

/// How the threads of a core are numbered: one rule for all cores, or each core by itself.
fn numbering(cores: &[CpuSet]) -> String {
    let offsets = |core: &CpuSet| -> Vec<u32> {
        let first = core.first().unwrap_or_default();
        core.iter().skip(1).map(|cpu| cpu - first).collect()
    };
    if cores.iter().all(|core| offsets(core) == offsets(&cores[0])) {
        let rule: Vec<String> =
            once("n".into()).chain(offsets(&cores[0]).iter().map(|offset| format!("n+{offset}"))).collect();
        return format!("(CPU {})", listed(&rule));
    }
    let each: Vec<String> = cores
        .iter()
        .map(|core| core.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+"))
        .collect();
    format!("({})", each.join(", "))
}

/// Caches of the core of `cpu` alone, and instruction caches even if shared.
fn own_caches(topology: &Topology, cpu: u32) -> String {
    let of_core = topology.caches.iter().filter(|cache| {
        cache.shared_by.contains(cpu) && (cache.kind == CacheKind::Instruction || !is_shared(topology, cache))
    });
    let text = |cache: &Cache| {
        let shared = if is_shared(topology, cache) {
            format!(" shared by CPUs {}", spaced(&cache.shared_by))
        } else {
            String::new()
        };
        cache_text(topology, cache) + &shared
    };
    let texts: Vec<String> = of_core.map(text).collect();
    dotted(texts.iter().map(String::as_str))
}

/// Whether a data or unified cache, or an instruction cache, serves more than one core.
fn is_shared(topology: &Topology, cache: &Cache) -> bool {
    let core = cache.shared_by.first().and_then(|first| topology.cpus.iter().find(|cpu| cpu.id == first));
    core.is_some_and(|cpu| !cache.shared_by.difference(&cpu.siblings).is_empty())
}

/// `L1d 32 KiB 8-way`; the line size only where it is not the usual one of this machine.
fn cache_text(topology: &Topology, cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = cache.size.map_or("of unknown size".into(), size_text);
    let ways = match (cache.ways, cache.sets) {
        (Some(_), Some(1)) => " fully associative".into(),
        (Some(ways), _) => format!(" {ways}-way"),
        (None, _) => String::new(),
    };
    let line = match cache.line {
        Some(line) if common_line(topology) != Some(line) => format!(" {line} lines"),
        _ => String::new(),
    };
    format!("L{}{kind} {size}{ways}{line}", cache.level)
}

/// Exact, unlike memory: 1280 KiB is the claim, 1.2 MiB would be another.
fn size_text(size: Bytes) -> String {
    if size.0.is_multiple_of(1 << 20) || !size.0.is_multiple_of(1 << 10) || size > Bytes::mib(10) {
        size.to_string()
    } else {
        format!("{} KiB", size.0 >> 10)
    }
}

/// The line size of all caches that state one, if they agree.
pub(super) fn common_line(topology: &Topology) -> Option<Bytes> {
    let lines: BTreeSet<Bytes> = topology.caches.iter().filter_map(|cache| cache.line).collect();
    lines.first().copied().filter(|_| lines.len() == 1)
}

/// The node of `cpus` for a machine with several, at the outermost part that lies in one; and whether it has
/// been told now.
fn node_label(topology: &Topology, cpus: &CpuSet, known: bool) -> (String, bool) {
    if known || topology.nodes.len() < 2 {
        return (String::new(), known);
    }
    match topology.nodes.iter().find(|node| cpus.difference(&node.cpus).is_empty()) {
        Some(node) => (format!("node {}", node.id), true),
        None => (String::new(), false),
    }
}

fn merged(parts: Vec<TopologyPart>) -> Vec<TopologyPart> {
    let mut out: Vec<TopologyPart> = Vec::new();
    for part in parts {
        match out.iter_mut().find(|other| other.is_like(&part)) {
            Some(other) if !part.inner.is_empty() => other.places.extend(part.places),
            _ => out.push(part),
        }
    }
    out
}

fn grouped(
    topology: &Topology,
    key: impl Fn(&machine::topology::Cpu) -> Option<u32>,
    cpus: &CpuSet,
) -> BTreeMap<Option<u32>, CpuSet> {
    let mut groups: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpus.contains(cpu.id)) {
        groups.entry(key(cpu)).or_default().insert(cpu.id);
    }
    groups
}

fn online(topology: &Topology) -> CpuSet {
    topology.cpus.iter().map(|cpu| cpu.id).collect()
}

fn deepest(topology: &Topology) -> u32 {
    topology.caches.iter().map(|cache| cache.level).max().unwrap_or(0)
}
