//! Which events are the same, whatever they are called.

use crate::{Catalogue, Encoding, Signal, Unit, names::unit_of_pmu};

/// What an event counts, the same for each of its spellings: by name, by alias, by fields in any order, by raw code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SignalId(Signal);

/// Bits of a core PMU's `config`, alike on Intel and AMD: field, its width, where its bits go, where those beyond go.
const CORE_FIELDS: [(&str, u32, u32, Option<u32>); 6] = [
    ("event", 8, 0, Some(32)),
    ("umask", 8, 8, None),
    ("edge", 1, 18, None),
    ("any", 1, 21, None),
    ("inv", 1, 23, None),
    ("cmask", 8, 24, None),
];
/// Bits of `config` that the kernel sets itself whatever is asked for: modes, pin control, interrupt, enable.
const CORE_IGNORED: u64 = 1 << 16 | 1 << 17 | 1 << 19 | 1 << 20 | 1 << 22;
/// Names that `config1` of a core PMU has by what the event makes of it.
const CORE_SECOND: [&str; 3] = ["offcore_rsp", "ldlat", "frontend"];

impl SignalId {
    /// Of a signal. With the events of its machine, a generic event of the kernel is what the kernel programs for it.
    pub fn new(signal: &Signal, catalogue: Option<&Catalogue>) -> Self {
        let generic = || {
            let entry = catalogue?.generic(signal)?;
            (entry.encoding.unit == Unit::Core).then(|| Signal::Encoded(plain(&entry.encoding)))
        };
        Self(match signal {
            Signal::Encoded(encoding) => Signal::Encoded(plain(encoding)),
            // Any address will do: what is told apart is the kind of access.
            Signal::Breakpoint { read, write, execute, .. } => {
                let (read, write, execute) = (*read, *write, *execute);
                Signal::Breakpoint { address: 0, length: 0, read, write, execute }
            }
            other => generic().unwrap_or_else(|| other.clone()),
        })
    }
}

/// An encoding without what does not matter: order, zeros, the number of the box, names of the same bits.
fn plain(encoding: &Encoding) -> Encoding {
    let mut fields: Vec<(String, u64)> = Vec::new();
    let mut add = |name: &str, value: u64| match fields.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old |= value,
        None => fields.push((name.to_owned(), value)),
    };
    // By the PMU, which knows its bits: Nehalem's uncore is one for several units.
    let unit = unit_of_pmu(&encoding.pmu);
    let core = unit == Unit::Core;
    for (name, value) in encoding.fields.iter().filter(|(_, value)| *value != 0) {
        let bits = CORE_FIELDS.iter().find(|(field, ..)| core && field == name);
        match bits {
            Some(&(_, width, at, beyond)) if value >> width == 0 || beyond.is_some() => {
                let low = (value & ((1 << width) - 1)) << at;
                add("config", low | beyond.map_or(0, |beyond| value >> width << beyond));
            }
            _ if core && name == "config" => add("config", value & !CORE_IGNORED),
            _ if core && CORE_SECOND.contains(&name.as_str()) => add("config1", *value),
            _ => add(name, *value),
        }
    }
    fields.sort();
    Encoding { unit, pmu: without_number(&encoding.pmu).to_owned(), fields }
}

/// `uncore_imc` of `uncore_imc_3`.
fn without_number(pmu: &str) -> &str {
    match pmu.rsplit_once('_') {
        Some((stem, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) => {
            stem
        }
        _ => pmu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Context, parse};

    fn id(name: &str, catalogue: &Catalogue) -> SignalId {
        let context = Context { catalogue: Some(catalogue), pmus: &[], libpfm: false };
        SignalId::new(&parse(name, &context).unwrap().event.signal, Some(catalogue))
    }

    #[test]
    fn every_entry_of_every_catalogue_is_itself_however_its_fields_are_written() {
        for catalogue in Catalogue::all() {
            for entry in catalogue.entries.iter().filter(|entry| !entry.encoding.fields.is_empty()) {
                let Encoding { pmu, fields, .. } = &entry.encoding;
                let terms = fields.iter().rev().map(|(field, value)| format!("{field}={value:#x}"));
                let spelled = format!("{pmu}/{}/", terms.collect::<Vec<_>>().join(","));
                assert_eq!(id(&spelled, catalogue), id(&entry.name, catalogue), "{}", entry.name);
            }
        }
    }

    #[test]
    fn raw_codes_and_generic_names_are_the_events_they_program() {
        let haswell = Catalogue::named("haswell-ep").unwrap();
        let same = |one: &str, other: &str| id(one, haswell) == id(other, haswell);
        for (one, other) in [
            ("r01d3", "MEM_LOAD_UOPS_L3_MISS_RETIRED.LOCAL_DRAM"),
            ("cpu/config=0x1d3/", "r1d3:u"),
            ("cycles", "CPU_CLK_UNHALTED.THREAD"),
            ("cache-misses", "LONGEST_LAT_CACHE.MISS"),
            ("L1-dcache-loads", "MEM_UOPS_RETIRED.ALL_LOADS"),
            ("r1C3010E", "UOPS_ISSUED.STALL_CYCLES"),
            ("cpu/event=0xb7,umask=1,config1=0x10/", "cpu/event=0xb7,umask=1,offcore_rsp=0x10/"),
            ("uncore_imc_3/event=4,umask=3/", "uncore_imc/umask=0x3,event=0x4,thresh=0/"),
            ("mem:0x1000/8:w", "mem:0x2000/4:w:u"),
            ("faults", "page-faults"),
        ] {
            assert!(same(one, other), "{one} and {other}: {:?} {:?}", id(one, haswell), id(other, haswell));
        }
        for (one, other) in [
            ("r01d3", "r02d3"),
            ("CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.THREAD_ANY"),
            ("cpu/event=4,umask=3/", "uncore_imc/event=4,umask=3/"),
            ("mem:0x1000/8:w", "mem:0x1000/8:rw"),
            ("page-faults", "minor-faults"),
        ] {
            assert!(!same(one, other), "{one} and {other}");
        }
        // The higher bits of an AMD event lie apart from the lower ones.
        let zen = Catalogue::named("zen3").unwrap();
        assert_eq!(id("cpu/event=0x165,umask=8/", zen), id("r100000865", zen));
        assert_eq!(id("cpu/event=0x165,umask=8/", zen), id("cpu/config=0x100000865/", zen));
    }

    #[test]
    fn cores_of_two_kinds_are_not_one() {
        let at = |pmu: &str| {
            let fields = vec![("event".to_owned(), 0x3c)];
            SignalId::new(&Signal::Encoded(Encoding { unit: Unit::Core, pmu: pmu.to_owned(), fields }), None)
        };
        assert_ne!(at("cpu_core"), at("cpu_atom"));
    }
}
