//! CPUID, from the processor or from a text dump.

use std::collections::BTreeMap;

use raw_cpuid::{CpuId, CpuIdReader, CpuIdResult};

use crate::{
    Bytes,
    source::{clean, name},
    topology::{CacheKind, Gap},
};

/// Lines of a dump beyond this many are not leaves of one processor.
const MOST_LEAVES: usize = 4096;
/// Subleaves of the cache leaf looked at; processors have four or five.
const MOST_CACHES: u32 = 16;
/// Lines of a dump that are reported one by one when they make no sense.
const MOST_COMPLAINTS: usize = 4;

/// The answers of the CPUID instruction.
#[derive(Clone, Debug)]
pub struct Cpuid(Answers);

#[derive(Clone, Debug)]
enum Answers {
    #[cfg(target_arch = "x86_64")]
    Native,
    Dump(BTreeMap<(u32, u32), CpuIdResult>),
}

impl CpuIdReader for Answers {
    fn cpuid2(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Native => raw_cpuid::CpuIdReaderNative.cpuid2(leaf, subleaf),
            // Absent leaves read as zero, as on the processor.
            Self::Dump(leaves) => leaves.get(&(leaf, subleaf)).copied().unwrap_or(CpuIdResult {
                eax: 0,
                ebx: 0,
                ecx: 0,
                edx: 0,
            }),
        }
    }
}

/// One cache as CPUID leaf 4 or 0x8000001D describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidCache {
    /// 1, 2, 3, …
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Line times partitions times ways times sets.
    pub size: Bytes,
    /// Associativity.
    pub ways: u32,
    /// Line size.
    pub line: Bytes,
    /// Number of sets; 2³² does not fit and is never real.
    pub sets: Option<u32>,
    /// How many APIC numbers share it, rounded up to a power of two.
    pub apic_ids: u32,
}

/// How many events a core counts at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreCounters {
    /// Programmable counters.
    pub general: u32,
    /// Counters for one event each.
    pub fixed: u32,
}

impl Cpuid {
    /// Of the CPU this thread happens to run on; `None` unless it is an x86-64.
    pub fn native() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(Self(Answers::Native));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// Parses a dump: one leaf per line, as `cpuid -r` prints them. Only the first processor is taken; lines
    /// that are no leaf are returned as gaps.
    ///
    /// ```
    /// let dump = "CPU 0:\n   0x00000000 0x00: eax=0x0d ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n";
    /// let (cpuid, gaps) = machine::cpuid::Cpuid::parse(dump);
    /// assert_eq!(cpuid.and_then(|cpuid| cpuid.vendor()).as_deref(), Some("GenuineIntel"));
    /// assert!(gaps.is_empty());
    /// ```
    pub fn parse(text: &str) -> (Option<Self>, Vec<Gap>) {
        let mut leaves = BTreeMap::new();
        let mut gaps = Vec::new();
        for (index, line) in text.lines().enumerate().take(MOST_LEAVES) {
            let line = line.trim();
            if line.starts_with("CPU") && !leaves.is_empty() {
                break;
            }
            if line.is_empty() || line.starts_with(['#', 'C']) {
                continue;
            }
            match leaf(line) {
                Some((key, registers)) => {
                    leaves.entry(key).or_insert(registers);
                }
                None if gaps.len() < MOST_COMPLAINTS => {
                    let shown: String = line.chars().take(40).collect();
                    let why = format!("'{}' is not a CPUID leaf", clean(&shown));
                    gaps.push(Gap { what: format!("/cpuid.txt line {}", index + 1), why });
                }
                None => {}
            }
        }
        if leaves.is_empty() {
            gaps.push(Gap { what: "/cpuid.txt".into(), why: "holds no CPUID leaf".into() });
            return (None, gaps);
        }
        (Some(Self(Answers::Dump(leaves))), gaps)
    }

    fn decoded(&self) -> CpuId<Answers> {
        CpuId::with_cpuid_reader(self.0.clone())
    }

    /// `GenuineIntel`, `AuthenticAMD`, …
    pub fn vendor(&self) -> Option<String> {
        name(self.decoded().get_vendor_info()?.as_str().trim_matches('\0'))
    }

    /// The brand string.
    pub fn brand(&self) -> Option<String> {
        name(self.decoded().get_processor_brand_string()?.as_str())
    }

    /// Family, model and stepping with their extensions. Decoded here because the library's sum of the two
    /// family fields overflows on a damaged dump.
    pub fn signature(&self) -> Option<(u32, u32, u32)> {
        let eax = self.0.cpuid2(1, 0).eax;
        let bits = |low: u32, count: u32| (eax >> low) & ((1 << count) - 1);
        let (family, model, stepping) = (bits(8, 4), bits(4, 4), bits(0, 4));
        let extended_model = if family == 6 || family == 15 { bits(16, 4) << 4 } else { 0 };
        let extended_family = if family == 15 { bits(20, 8) } else { 0 };
        (eax != 0).then_some((family + extended_family, model + extended_model, stepping))
    }

    /// How many performance counters a core says it has; `None` if it says it has none, as many guests do.
    pub fn counters(&self) -> Option<CoreCounters> {
        let leaf = |leaf| self.0.cpuid2(leaf, 0);
        if self.vendor().is_some_and(|vendor| vendor == "AuthenticAMD") {
            let (features, extended) = (leaf(0x8000_0001), leaf(0x8000_0022));
            let general = match (extended.eax & 1, features.ecx >> 23 & 1) {
                (1, _) => extended.ebx & 0xf,
                (_, 1) => 6,
                _ => 4,
            };
            return Some(CoreCounters { general, fixed: 0 });
        }
        let leaf = leaf(0xa);
        let (version, general) = (leaf.eax & 0xff, leaf.eax >> 8 & 0xff);
        let fixed = if version > 1 { leaf.edx & 0x1f } else { 0 };
        (version > 0 && general > 0).then_some(CoreCounters { general, fixed })
    }

    /// What the processor and the operating system allow, from the leaves alone: the OSXSAVE bit stands for the
    /// system's permission, since a dump has no XCR0.
    pub fn isa(&self) -> crate::Isa {
        let decoded = self.decoded();
        let base = decoded.get_feature_info();
        let extended = decoded.get_extended_feature_info();
        let allowed = base.as_ref().is_some_and(|features| features.has_oxsave());
        crate::Isa {
            x86_64: decoded
                .get_extended_processor_and_feature_identifiers()
                .is_some_and(|features| features.has_64bit_mode()),
            avx: allowed && base.as_ref().is_some_and(|features| features.has_avx()),
            fma: allowed && base.as_ref().is_some_and(|features| features.has_fma()),
            avx2: allowed && extended.as_ref().is_some_and(|features| features.has_avx2()),
            avx512f: allowed && extended.as_ref().is_some_and(|features| features.has_avx512f()),
        }
    }

    /// Whether leaf 1 says that a hypervisor is there.
    pub fn is_guest(&self) -> bool {
        self.0.cpuid2(1, 0).ecx >> 31 == 1
    }

    /// The signatures of the hypervisor leaves: one, or two where one hypervisor poses as another.
    pub fn hypervisor_signatures(&self) -> Vec<String> {
        let signature = |leaf: u32| {
            let CpuIdResult { ebx, ecx, edx, .. } = self.0.cpuid2(leaf, 0);
            let bytes = [ebx, ecx, edx].map(u32::to_le_bytes).concat();
            let text = String::from_utf8(bytes).ok()?;
            let text = text.trim_matches(['\0', ' ']).to_owned();
            (text.len() >= 4 && text.chars().all(|c| c.is_ascii_graphic() || c == ' ')).then_some(text)
        };
        [0x4000_0000, 0x4000_0100].into_iter().filter_map(signature).collect()
    }

    /// Which leaf describes the caches, by vendor.
    pub fn cache_leaf(&self) -> u32 {
        match self.vendor().as_deref() {
            Some("AuthenticAMD" | "HygonGenuine") => 0x8000_001d,
            _ => 4,
        }
    }

    /// The caches seen by one processor, innermost first. Decoded here because the library's sum for the
    /// number of sets overflows on a damaged dump.
    pub fn caches(&self) -> Vec<CpuidCache> {
        let leaf = self.cache_leaf();
        let highest = self.0.cpuid2(leaf & 0x8000_0000, 0).eax;
        if highest < leaf {
            return Vec::new();
        }
        (0..MOST_CACHES).map_while(|subleaf| cache(self.0.cpuid2(leaf, subleaf))).collect()
    }
}

fn cache(registers: CpuIdResult) -> Option<CpuidCache> {
    let CpuIdResult { eax, ebx, ecx, .. } = registers;
    let kind = match eax & 0x1f {
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        3 => CacheKind::Unified,
        _ => return None,
    };
    let line = (ebx & 0xfff) + 1;
    let partitions = ((ebx >> 12) & 0x3ff) + 1;
    let ways = (ebx >> 22) + 1;
    // At most 2¹² · 2¹⁰ · 2¹⁰ · 2³² bytes: the one product that 64 bits cannot hold.
    let size = u64::from(line) * u64::from(partitions) * u64::from(ways);
    Some(CpuidCache {
        level: (eax >> 5) & 7,
        kind,
        size: Bytes(size.saturating_mul(u64::from(ecx) + 1)),
        ways,
        line: Bytes(u64::from(line)),
        sets: ecx.checked_add(1),
        apic_ids: ((eax >> 14) & 0xfff) + 1,
    })
}

/// `0x00000004 0x01: eax=0x… ebx=0x… ecx=0x… edx=0x…`
fn leaf(line: &str) -> Option<((u32, u32), CpuIdResult)> {
    let (place, registers) = line.split_once(':')?;
    let mut place = place.split_whitespace();
    let key = (hex(place.next()?)?, place.next().map_or(Some(0), hex)?);
    let register = |name: &str| {
        hex(registers.split_whitespace().find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?)
    };
    let registers = CpuIdResult {
        eax: register("eax")?,
        ebx: register("ebx")?,
        ecx: register("ecx")?,
        edx: register("edx")?,
    };
    Some((key, registers))
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Leaves 0, 1 and 4 of a Xeon E5-2680 v3, by Intel's definition of the fields.
    const HASWELL: &str = "CPU 0:
   0x00000000 0x00: eax=0x0000000f ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69
   0x00000001 0x00: eax=0x000306f2 ebx=0x00200800 ecx=0x7ffefbff edx=0xbfebfbff
   0x00000004 0x00: eax=0x3c004121 ebx=0x01c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x01: eax=0x3c004122 ebx=0x01c0003f ecx=0x0000003f edx=0x00000000
   0x00000004 0x02: eax=0x3c004143 ebx=0x01c0003f ecx=0x000001ff edx=0x00000000
   0x00000004 0x03: eax=0x3c07c163 ebx=0x04c0003f ecx=0x00005fff edx=0x00000006
   0x00000007 0x00: eax=0x00000000 ebx=0x000037ab ecx=0x00000000 edx=0x9c000400
   0x80000000 0x00: eax=0x80000008 ebx=0x00000000 ecx=0x00000000 edx=0x00000000
   0x80000001 0x00: eax=0x00000000 ebx=0x00000000 ecx=0x00000021 edx=0x2c100800
CPU 1:
   0x00000001 0x00: eax=0x00000000 ebx=0x00000000 ecx=0x00000000 edx=0x00000000
";

    #[test]
    fn counters_of_both_makers_and_of_a_guest_without() {
        let counters = |dump: &str| Cpuid::parse(dump).0.and_then(|cpuid| cpuid.counters());
        let intel = "0x00000000 0x00: eax=0x0000000f ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n";
        let four = "0x0000000a 0x00: eax=0x07300403 ebx=0x00000000 ecx=0x00000000 edx=0x00000603\n";
        assert_eq!(counters(&format!("{intel}{four}")), Some(CoreCounters { general: 4, fixed: 3 }));
        assert_eq!(counters(intel), None);
        let amd = "0x00000000 0x00: eax=0x0000000d ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\n";
        let core = "0x80000001 0x00: eax=0x00830f10 ebx=0x40000000 ecx=0x75c237ff edx=0x2fd3fbff\n";
        assert_eq!(counters(&format!("{amd}{core}")), Some(CoreCounters { general: 6, fixed: 0 }));
        assert_eq!(counters(amd), Some(CoreCounters { general: 4, fixed: 0 }));
    }

    #[test]
    fn a_dump_is_the_processor_it_was_taken_from() {
        let (cpuid, gaps) = Cpuid::parse(HASWELL);
        let cpuid = cpuid.expect("leaves");
        assert_eq!(gaps, []);
        assert_eq!(cpuid.signature(), Some((6, 63, 2)));
        let sizes: Vec<_> = cpuid.caches().iter().map(|c| (c.level, c.size, c.ways, c.apic_ids)).collect();
        let expected = [
            (1, Bytes::kib(32), 8, 2),
            (1, Bytes::kib(32), 8, 2),
            (2, Bytes::kib(256), 8, 2),
            (3, Bytes::mib(30), 20, 32),
        ];
        assert_eq!(sizes, expected);
        let isa = cpuid.isa();
        assert!(isa.x86_64 && isa.avx && isa.avx2 && isa.fma && !isa.avx512f);
        assert!(!cpuid.is_guest());
    }

    #[test]
    fn lines_that_are_no_leaf_are_named() {
        let (cpuid, gaps) = Cpuid::parse("0x1 0x0: eax=0x1 ebx=0x2\nnonsense\n");
        assert!(cpuid.is_none());
        assert_eq!(gaps.len(), 3);
        assert!(gaps[1].what.ends_with("line 2") && gaps[1].why.contains("nonsense"));
    }

    proptest! {
        #[test]
        fn no_leaves_panic(leaves in proptest::collection::vec((0u32..16, any::<bool>(), 0u32..6, any::<[u32; 4]>()), 0..60)) {
            let dump: String = leaves.iter().map(|(leaf, extended, subleaf, [a, b, c, d])| {
                let leaf = leaf | (u32::from(*extended) << 31);
                format!("0x{leaf:08x} 0x{subleaf:02x}: eax=0x{a:08x} ebx=0x{b:08x} ecx=0x{c:08x} edx=0x{d:08x}\n")
            }).collect();
            if let (Some(cpuid), _) = Cpuid::parse(&dump) {
                let _ = (cpuid.vendor(), cpuid.brand(), cpuid.signature(), cpuid.isa(), cpuid.caches());
                let _ = (cpuid.is_guest(), cpuid.hypervisor_signatures());
            }
        }

        #[test]
        fn no_text_panics(text in "[ -~\n]{0,200}") {
            let _ = Cpuid::parse(&text);
        }
    }
}
