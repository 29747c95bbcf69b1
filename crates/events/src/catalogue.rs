//! What each microarchitecture can count, as data: one file per microarchitecture, and one of meanings.

mod cpus;
mod entry;
mod file;
mod meaning;

use std::{collections::HashMap, sync::OnceLock};

use machine::{DataFileError, model::Model, topology::CpuIdentity};

pub use cpus::CpuRange;
pub use entry::{Alternative, CountedAt, Entry};
pub use meaning::{EventMeaning, MeaningLevel, Moves, meanings};

use crate::{
    Encoding, Event, PmuResources, Signal, Unit,
    names::{is_box_of, near},
};

/// Longest text of an event file.
pub(crate) const LARGEST_FILE: usize = 1 << 20;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../catalogue/", $name, ".toml")))),*]
    };
}

/// The files that come with the program: name and text.
const FILES: &[(&str, &str)] = files![
    "core2",
    "nehalem-ep",
    "westmere-ep",
    "sandy-bridge-ep",
    "ivy-bridge-ep",
    "haswell-ep",
    "broadwell-ep",
    "skylake-x",
    "cascade-lake",
    "ice-lake-x",
    "sapphire-rapids",
    "emerald-rapids",
    "granite-rapids",
    "alder-lake-p",
    "zen2",
    "zen3",
    "zen4",
    "zen5",
];

/// The events of one microarchitecture.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// What users type: `haswell-ep`.
    pub name: String,
    /// The products.
    pub title: String,
    /// Which CPUs have these events.
    pub cpus: Vec<CpuRange>,
    /// Programmable counters of each thread if both threads of a core are in use.
    pub general_counters: u32,
    /// Fixed counters of each thread.
    pub fixed_counters: u32,
    /// Where what is not said otherwise comes from.
    pub source: String,
    /// The ring and the last cache change their clock with the cores: what waits for them gains nothing at a lower one.
    pub uncore_follows_core: bool,
    /// The kernel's name of the PMU of each unit, without the number of the box.
    pub pmus: Vec<(Unit, String)>,
    /// Events, in the order of the file.
    pub entries: Vec<Entry>,
    /// What each PMU has, by its name without the number of the box.
    resources: Vec<(String, PmuResources)>,
    /// Entries by name in the form of [`key`]; aliases too.
    index: HashMap<String, usize>,
}

/// No microarchitecture of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no events are known for '{name}'; known: {known}")]
pub struct UnknownCatalogue {
    /// As asked for.
    pub name: String,
    /// Those there are.
    pub known: String,
}

impl Catalogue {
    /// Those that come with the program, each read when it is first asked for.
    pub fn all() -> impl ExactSizeIterator<Item = &'static Self> {
        (0..FILES.len()).map(Self::builtin)
    }

    /// # Panics
    /// Never in a build that passes its tests: they load every file.
    fn builtin(index: usize) -> &'static Self {
        static LOADED: [OnceLock<Catalogue>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
        LOADED[index].get_or_init(|| {
            let (name, text) = FILES[index];
            match Self::parse(text, &format!("{name}.toml")) {
                Ok(catalogue) => catalogue,
                Err(error) => panic!("built-in event file: {error}"),
            }
        })
    }

    /// Reads an event file. `origin` is its name in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Self, DataFileError> {
        file::parse(text, origin)
    }

    /// For a CPU that no file describes: nothing is known of its events.
    pub fn without_events() -> Self {
        Self {
            name: "none".to_owned(),
            title: "no event file".to_owned(),
            cpus: Vec::new(),
            general_counters: 0,
            fixed_counters: 0,
            source: String::new(),
            uncore_follows_core: false,
            pmus: Vec::new(),
            entries: Vec::new(),
            resources: Vec::new(),
            index: HashMap::new(),
        }
    }

    /// By name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownCatalogue> {
        let index = FILES.iter().position(|(known, _)| *known == name);
        index.map(Self::builtin).ok_or_else(|| UnknownCatalogue {
            name: name.to_owned(),
            known: FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        })
    }

    /// Of a CPU by what CPUID says of it. `None` if no file names it.
    pub fn for_cpu(cpu: &CpuIdentity) -> Option<&'static Self> {
        let vendor = cpu.vendor.as_deref()?;
        Self::for_identity(vendor, cpu.family?, cpu.model?, cpu.stepping)
    }

    /// Of a simulated machine.
    pub fn for_model(model: &Model) -> Option<&'static Self> {
        let identity = &model.identity;
        Self::for_identity(&identity.vendor, identity.family, identity.model, Some(identity.stepping))
    }

    fn for_identity(vendor: &str, family: u32, model: u32, stepping: Option<u32>) -> Option<&'static Self> {
        // Only the head of a file is needed to choose it.
        let fits = |(_, text): &(&str, &str)| {
            cpus::of_head(text).iter().any(|range| range.contains(vendor, family, model, stepping))
        };
        FILES.iter().position(fits).map(Self::builtin)
    }

    /// The entry of a name or alias; case, and `.` or `:`, do not matter.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.index.get(&key(name)).map(|&at| &self.entries[at])
    }

    /// The event of a name, ready to be opened. `NAME@SOURCE` gives what another source says.
    pub fn event(&self, name: &str) -> Option<Event> {
        match name.split_once('@') {
            None => self.entry(name).map(Entry::event),
            Some((name, source)) => self.entry(name)?.event_according_to(source),
        }
    }

    /// All names, aliases left out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Up to three names that look like `name`.
    pub fn near(&self, name: &str) -> Vec<String> {
        near::nearest(name, self.names())
    }

    /// What a PMU of these machines has, by its name with or without the number of a box.
    pub fn resources(&self, pmu: &str) -> Option<&PmuResources> {
        self.resources.iter().find(|(name, _)| is_box_of(pmu, name)).map(|(_, resources)| resources)
    }

    /// Entries of a meaning.
    pub fn meaning<'a>(&'a self, meaning: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.meaning == meaning)
    }

    /// The entry with the same unit, code, mask and filter as an encoding.
    pub fn of_encoding(&self, encoding: &Encoding) -> Option<&Entry> {
        let same = |entry: &&Entry| {
            let fields = |one: &Encoding, other: &Encoding| {
                one.fields.iter().all(|(name, value)| other.field(name) == *value)
            };
            let known = &entry.encoding;
            known.unit == encoding.unit && fields(known, encoding) && fields(encoding, known)
        };
        self.entries.iter().find(same)
    }

    /// What the kernel programs for one of its generic events here, for machines without that kernel.
    pub fn generic(&self, signal: &Signal) -> Option<&Entry> {
        let meaning = |meaning| self.meaning(meaning).next();
        match signal {
            Signal::Hardware(0) => meaning("cycles"),
            Signal::Hardware(1) => meaning("instructions"),
            Signal::Hardware(2) => meaning("l3_references"),
            Signal::Hardware(3) => meaning("l3_misses"),
            Signal::Hardware(4) => meaning("branches"),
            Signal::Hardware(5) => meaning("mispredicts"),
            Signal::Hardware(9) => meaning("reference_cycles"),
            Signal::HardwareCache(packed) => {
                self.entry(&format!("perf::{}", crate::names::generic::cache_name(*packed)?))
            }
            _ => None,
        }
    }
}

/// A name without what does not matter in it.
pub(crate) fn key(name: &str) -> String {
    name.trim().chars().map(|c| if c == ':' { '.' } else { c.to_ascii_uppercase() }).collect()
}
