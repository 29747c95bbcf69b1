//! What PMUs have, from the event files and from `boxes.toml`.

use std::{collections::BTreeMap, sync::OnceLock};

use serde::Deserialize;

use super::{ExtraRegister, PmuResources};
use crate::Catalogue;

/// A PMU as files describe it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PmuTable {
    /// General counters; none for a core, whose file or CPUID says it elsewhere.
    pub counters: Option<u32>,
    #[serde(default)]
    pub free: bool,
    #[serde(default)]
    pub registers: Vec<RegisterTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterTable {
    pub fields: Vec<String>,
    #[serde(default = "one")]
    pub count: usize,
}

fn one() -> usize {
    1
}

/// Counters of a core of which nothing is known: every x86 core since 2008 has as many.
const CORE_COUNTERS: u32 = 4;

impl PmuTable {
    /// What is wrong with it.
    pub fn fault(&self) -> Option<&'static str> {
        let bad = |register: &RegisterTable| register.fields.is_empty() || register.count == 0;
        match self.counters {
            Some(0) | Some(33..) => Some("a PMU has 1 to 32 counters"),
            _ if self.registers.iter().any(bad) => Some("a register has a field and is there at least once"),
            _ => None,
        }
    }

    /// With so many counters where the table has none.
    pub fn resources(self, general: u32, fixed: u32) -> PmuResources {
        if self.free {
            return PmuResources::Unlimited;
        }
        let register = |table: RegisterTable| ExtraRegister { fields: table.fields, count: table.count };
        PmuResources::Limited {
            general: self.counters.unwrap_or(general),
            fixed,
            taken: Vec::new(),
            registers: self.registers.into_iter().map(register).collect(),
        }
    }
}

impl ExtraRegister {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.fields.first().map_or("", String::as_str)
    }
}

impl PmuResources {
    /// What a PMU of the kernel has, by its name: as the event file says, else as `boxes.toml` does.
    pub fn of_pmu(pmu: &str, catalogue: Option<&Catalogue>) -> Option<Self> {
        let described = catalogue.and_then(|catalogue| catalogue.resources(pmu).cloned());
        described.or_else(|| {
            let fits = |(name, _): &(&String, &Self)| pmu.starts_with(name.as_str());
            let longest = undescribed().iter().filter(fits).max_by_key(|(name, _)| name.len());
            longest.map(|(_, resources)| resources.clone())
        })
    }

    /// The registers beside the counters.
    pub fn registers(&self) -> &[ExtraRegister] {
        match self {
            Self::Unlimited => &[],
            Self::Limited { registers, .. } => registers,
        }
    }
}

/// PMUs by the beginning of their names.
///
/// # Panics
/// Never in a build that passes its tests: they load the file.
fn undescribed() -> &'static BTreeMap<String, PmuResources> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        pmu: BTreeMap<String, PmuTable>,
    }
    static ALL: OnceLock<BTreeMap<String, PmuResources>> = OnceLock::new();
    ALL.get_or_init(|| {
        let file: File = match toml::from_str(include_str!("../../catalogue/boxes.toml")) {
            Ok(file) => file,
            Err(error) => panic!("boxes.toml: {error}"),
        };
        file.pmu.into_iter().map(|(name, table)| (name, table.resources(CORE_COUNTERS, 0))).collect()
    })
}
