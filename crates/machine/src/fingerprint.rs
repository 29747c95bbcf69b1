//! Which machine a profile belongs to.

use std::fmt::{self, Write};

use crate::{Bytes, Source, Topology, model::Model, profile::Fingerprint, topology::CacheKind};

/// With this begins the id of every simulated machine.
pub const SIMULATED_ID: &str = "sim-";

/// With this begins the id of every machine that is known from a file only.
pub const IMPORTED_ID: &str = "imported-";

impl Fingerprint {
    /// Of the machine that `topology` describes, under a kernel of this release. Limits of our cgroup, free
    /// memory and gaps play no part: they change without the machine changing.
    pub fn of(topology: &Topology, kernel: &str) -> Self {
        let mut fingerprint = Self {
            id: String::new(),
            cpu: cpu(topology),
            microcode: topology.cpu.microcode.clone().unwrap_or_else(|| "unknown".into()),
            topology: summary(topology),
            kernel: kernel.to_owned(),
            hypervisor: topology.hypervisor.clone().unwrap_or_else(|| "none".into()),
        };
        fingerprint.id = format!("{:016x}", fnv1a(fingerprint.parts().map(|(_, text)| text)));
        fingerprint
    }

    /// Of a simulated machine: of every number of its model, so that no real machine and no other model has it.
    pub fn of_model(model: &Model) -> Self {
        let mut fingerprint = Self::of(&model.topology(), "none: simulated");
        // A model is plain numbers and texts, so that it has one text; if it had none, its name would do.
        let content = serde_json::to_string(model).unwrap_or_else(|_| model.name.clone());
        fingerprint.id = format!("{SIMULATED_ID}{:016x}", fnv1a([content.as_str()]));
        fingerprint
    }

    /// Of a machine that is known from a file only, by the name it has there. No machine that was measured has its id.
    pub fn of_file(host: &str, cpu: String, topology: String, kernel: String) -> Self {
        let unknown = || "unknown".to_owned();
        let id = fnv1a([host, &cpu, &topology, &kernel]);
        let id = format!("{IMPORTED_ID}{id:016x}");
        Self { id, cpu, microcode: unknown(), topology, kernel, hypervisor: unknown() }
    }

    /// Of the machine at `source`; an unreadable kernel release becomes `unknown`.
    pub fn read(source: &Source) -> Self {
        Self::with_topology(&Topology::read(source), source)
    }

    /// The same where its topology was read already.
    pub fn with_topology(topology: &Topology, source: &Source) -> Self {
        let kernel = source.kernel_release().unwrap_or_else(|_| "unknown".into());
        Self::of(topology, &kernel)
    }

    /// What differs between the machine of a kept profile (`self`) and the machine as it is `now`.
    pub fn changes(&self, now: &Self) -> Vec<FingerprintChange> {
        let pairs = self.parts().into_iter().zip(now.parts());
        pairs
            .filter(|((_, before), (_, after))| before != after)
            .map(|((part, before), (_, after))| FingerprintChange {
                part,
                before: before.into(),
                after: after.into(),
            })
            .collect()
    }

    fn parts(&self) -> [(&'static str, &str); 5] {
        [
            ("CPU", &self.cpu),
            ("microcode", &self.microcode),
            ("topology", &self.topology),
            ("kernel", &self.kernel),
            ("hypervisor", &self.hypervisor),
        ]
    }
}

/// One part of a machine that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintChange {
    /// `CPU`, `microcode`, `topology`, `kernel` or `hypervisor`.
    pub part: &'static str,
    /// In the kept profile.
    pub before: String,
    /// Now.
    pub after: String,
}

impl fmt::Display for FingerprintChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was '{}', is now '{}'", self.part, self.before, self.after)
    }
}

fn cpu(topology: &Topology) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    let number = |value: Option<u32>| value.map_or_else(|| "unknown".into(), |value| value.to_string());
    let cpu = &topology.cpu;
    format!(
        "{} {}, family {} model {} stepping {}",
        text(&cpu.vendor),
        text(&cpu.model_name),
        number(cpu.family),
        number(cpu.model),
        number(cpu.stepping),
    )
}

/// Sockets, cores, threads, caches and nodes in one line. Memory sizes are left out: a guest's grow and shrink.
fn summary(topology: &Topology) -> String {
    let mut line = format!(
        "{} {}, {} {}, {} {}",
        topology.sockets(),
        plural("socket", topology.sockets()),
        topology.cores().len(),
        plural("core", topology.cores().len()),
        topology.cpus.len(),
        plural("thread", topology.cpus.len()),
    );
    let mut rest = topology.caches.as_slice();
    while let Some(first) = rest.first() {
        let like = |c: &crate::topology::Cache| (c.level, c.kind, c.size, c.ways, c.shared_by.len());
        let count = rest.iter().take_while(|cache| like(cache) == like(first)).count();
        let kind = match first.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        let size = first.size.map_or_else(|| "?".into(), exact);
        let ways = first.ways.map_or_else(|| "?".into(), |ways| ways.to_string());
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            ", {count}x L{}{kind} {size} {ways}-way of {} {}",
            first.level,
            first.shared_by.len(),
            plural("thread", first.shared_by.len()),
        );
        rest = &rest[count..];
    }
    for node in &topology.nodes {
        let _ = write!(line, ", node {} of CPUs {} at {:?}", node.id, node.cpus, node.distances);
    }
    line
}

/// In whole KiB where it is, in bytes otherwise: rounding would make two machines one.
fn exact(size: Bytes) -> String {
    if size.0.is_multiple_of(1024) { format!("{} KiB", size.0 / 1024) } else { format!("{} B", size.0) }
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

/// 64-bit FNV-1a over the parts, each ended by a byte that no text holds. Written out because the standard
/// library's hash may change between versions, and the result names files.
fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::MachineLimits;

    #[test]
    fn the_hash_is_the_published_one() {
        // FNV-1a of "a" is af63dc4c8601ec8c; the end byte is hashed on top.
        let a = 0xaf63_dc4c_8601_ec8c_u64;
        assert_eq!(fnv1a(["a"]), (a ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3));
        assert_ne!(fnv1a(["ab", "c"]), fnv1a(["a", "bc"]));
    }

    #[test]
    fn limits_and_free_memory_do_not_make_another_machine() {
        let mut topology = Topology::default();
        let before = Fingerprint::of(&topology, "6.1.0");
        topology.limits = MachineLimits {
            memory: Some(Bytes::gib(1)),
            memory_available: Some(Bytes::mib(7)),
            cpu_quota: Some(0.5),
            ..MachineLimits::default()
        };
        assert_eq!(before, Fingerprint::of(&topology, "6.1.0"));
    }

    #[test]
    fn each_change_is_named() {
        let mut topology = Topology::default();
        let before = Fingerprint::of(&topology, "6.1.0");
        topology.cpu.microcode = Some("0x49".into());
        topology.hypervisor = Some("KVM".into());
        let after = Fingerprint::of(&topology, "6.2.0");
        assert_ne!(before.id, after.id);
        let parts: Vec<_> = before.changes(&after).into_iter().map(|change| change.part).collect();
        assert_eq!(parts, ["microcode", "kernel", "hypervisor"]);
        assert_eq!(before.changes(&after)[1].to_string(), "kernel was '6.1.0', is now '6.2.0'");
        assert_eq!(before.changes(&before), []);
    }
}
