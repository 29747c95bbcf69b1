//! Which CPUs an event file is for.

use serde::Deserialize;

/// CPUs by what CPUID says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRange {
    /// `GenuineIntel`, `AuthenticAMD`, or that of a simulated machine.
    pub vendor: String,
    /// Family, extended family included.
    pub family: u32,
    /// First and last model of each range.
    pub models: Vec<(u32, u32)>,
    /// First and last stepping, if not all.
    pub steppings: Option<(u32, u32)>,
}

impl CpuRange {
    /// Whether a CPU is one of these. An unknown stepping fits any.
    pub fn contains(&self, vendor: &str, family: u32, model: u32, stepping: Option<u32>) -> bool {
        let within = |(first, last): (u32, u32), value| (first..=last).contains(&value);
        self.vendor == vendor
            && self.family == family
            && self.models.iter().any(|&models| within(models, model))
            && self
                .steppings
                .is_none_or(|steppings| stepping.is_none_or(|stepping| within(steppings, stepping)))
    }
}

/// The CPUs of an event file, from what stands before its first table.
pub(super) fn of_head(text: &str) -> Vec<CpuRange> {
    #[derive(Deserialize)]
    struct Head {
        cpus: Vec<CpuRange>,
    }
    let head = text.split("\n[").next().unwrap_or_default();
    toml::from_str(head).map(|head: Head| head.cpus).unwrap_or_default()
}
