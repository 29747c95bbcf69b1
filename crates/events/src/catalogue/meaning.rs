//! What events mean, apart from how they are programmed.

use std::{collections::BTreeMap, sync::OnceLock};

use serde::Deserialize;

/// Where something is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum MeaningLevel {
    /// In the core, whatever the caches do.
    #[serde(rename = "core")]
    Core,
    /// First-level data cache.
    L1,
    /// Second-level cache.
    L2,
    /// Cache shared by cores.
    L3,
    /// Memory and its controllers.
    #[serde(rename = "memory")]
    Memory,
    /// Between packages.
    #[serde(rename = "link")]
    Link,
    /// Address translation.
    #[serde(rename = "TLB")]
    Tlb,
}

/// Which way data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moves {
    /// Towards the core: into a cache, out of memory.
    In,
    /// Away from the core: out of a cache, into memory.
    Out,
}

/// What an event means.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventMeaning {
    /// What one count is: `lines`, `loads`, `cycles`, …
    pub counts: String,
    /// Where.
    pub level: MeaningLevel,
    /// Which way, if data moves.
    pub moves: Option<Moves>,
    /// One line in plain words.
    pub summary: String,
}

/// All meanings by their keys.
///
/// # Panics
/// Never in a build that passes its tests: they load the file.
pub fn meanings() -> &'static BTreeMap<String, EventMeaning> {
    static ALL: OnceLock<BTreeMap<String, EventMeaning>> = OnceLock::new();
    ALL.get_or_init(|| match toml::from_str(include_str!("../../catalogue/meanings.toml")) {
        Ok(meanings) => meanings,
        Err(error) => panic!("meanings.toml: {error}"),
    })
}
