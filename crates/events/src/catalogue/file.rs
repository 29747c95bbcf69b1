//! Event files: TOML, one event per line. Every error names line and column.

use std::collections::{BTreeMap, HashMap};

use machine::DataFileError;
use serde::Deserialize;
use toml::{Spanned, Value};

use super::{Alternative, Catalogue, CountedAt, CpuRange, Entry, LARGEST_FILE, key, meaning::meanings};
use crate::{
    Encoding, PmuResources, Unit, data_file::Origin, event::Counters, field::bits, placement::PmuTable,
};

type Events = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<Value>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    name: String,
    title: String,
    cpus: Vec<CpuRange>,
    general_counters: Spanned<u32>,
    fixed_counters: u32,
    source: String,
    #[serde(default)]
    uncore_follows_core: bool,
    pmus: BTreeMap<Spanned<Unit>, String>,
    #[serde(default)]
    pmu: BTreeMap<String, Spanned<PmuTable>>,
    #[serde(default)]
    core: Events,
    #[serde(default)]
    slice: Events,
    #[serde(default)]
    home_agent: Events,
    #[serde(default)]
    memory_controller: Events,
    #[serde(default)]
    link: Events,
    #[serde(default)]
    fabric: Events,
    #[serde(default)]
    package: Events,
    #[serde(default)]
    alternative: Vec<AlternativeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlternativeTable {
    of: Spanned<String>,
    says: String,
    set: BTreeMap<Spanned<String>, Spanned<u64>>,
    note: String,
}

/// Reads an event file.
pub fn parse(text: &str, origin: &str) -> Result<Catalogue, DataFileError> {
    let origin = Origin { name: origin, text };
    if text.len() > LARGEST_FILE {
        return Err(origin.error(0, format!("an event file has at most {LARGEST_FILE} bytes")));
    }
    let mut file: CatalogueFile = toml::from_str(text).map_err(|error| origin.toml(&error))?;
    let general = file.general_counters.get_ref();
    if !(1..=32).contains(general) {
        return Err(origin.error(file.general_counters.span().start, "a thread has 1 to 32 counters"));
    }
    let units = [
        (Unit::Core, std::mem::take(&mut file.core)),
        (Unit::Slice, std::mem::take(&mut file.slice)),
        (Unit::HomeAgent, std::mem::take(&mut file.home_agent)),
        (Unit::MemoryController, std::mem::take(&mut file.memory_controller)),
        (Unit::Link, std::mem::take(&mut file.link)),
        (Unit::Fabric, std::mem::take(&mut file.fabric)),
        (Unit::Package, std::mem::take(&mut file.package)),
    ];
    let mut catalogue = Catalogue {
        pmus: file.pmus.into_iter().map(|(unit, pmu)| (unit.into_inner(), pmu)).collect(),
        name: file.name,
        title: file.title,
        cpus: file.cpus,
        general_counters: file.general_counters.into_inner(),
        fixed_counters: file.fixed_counters,
        source: file.source,
        uncore_follows_core: file.uncore_follows_core,
        entries: Vec::new(),
        resources: Vec::new(),
        index: HashMap::new(),
    };
    add_resources(&mut catalogue, file.pmu, origin)?;
    for (unit, events) in units {
        add(&mut catalogue, unit, events, origin)?;
    }
    for alternative in file.alternative {
        add_alternative(&mut catalogue, alternative, origin)?;
    }
    Ok(catalogue)
}

/// What each PMU has. Those of cores have the counters that stand at the head of the file.
fn add_resources(
    catalogue: &mut Catalogue,
    tables: BTreeMap<String, Spanned<PmuTable>>,
    origin: Origin,
) -> Result<(), DataFileError> {
    let (general, fixed) = (catalogue.general_counters, catalogue.fixed_counters);
    let core = catalogue.pmus.iter().find(|(unit, _)| *unit == Unit::Core).map(|(_, pmu)| pmu.clone());
    let core = core.unwrap_or_default();
    for (name, table) in tables {
        let at = table.span().start;
        let table = table.into_inner();
        if let Some(fault) = table.fault() {
            return Err(origin.error(at, fault));
        }
        match (name == core, table.counters, table.free) {
            (true, None, false) => catalogue.resources.push((name, table.resources(general, fixed))),
            (false, Some(counters), false) => catalogue.resources.push((name, table.resources(counters, 0))),
            (false, None, true) => catalogue.resources.push((name, table.resources(0, 0))),
            (true, ..) => return Err(origin.error(at, "counters of cores stand at the head of the file")),
            (false, ..) => {
                return Err(origin.error(at, format!("{name} has either `counters` or `free = true`")));
            }
        }
    }
    if catalogue.resources(&core).is_none() {
        catalogue.resources.push((core, PmuTable::default().resources(general, fixed)));
    }
    Ok(())
}

fn add(catalogue: &mut Catalogue, unit: Unit, events: Events, origin: Origin) -> Result<(), DataFileError> {
    let mut events: Vec<_> = events.into_iter().collect();
    events.sort_by_key(|(name, _)| name.span().start);
    for (name, attributes) in events {
        let at = name.span().start;
        let entry = entry(catalogue, unit, name, attributes, origin)?;
        for name in std::iter::once(&entry.name).chain(&entry.also) {
            if catalogue.index.insert(key(name), catalogue.entries.len()).is_some() {
                return Err(origin.error(at, format!("'{name}' is there already")));
            }
        }
        catalogue.entries.push(entry);
    }
    Ok(())
}

fn entry(
    catalogue: &Catalogue,
    unit: Unit,
    name: Spanned<String>,
    attributes: BTreeMap<Spanned<String>, Spanned<Value>>,
    origin: Origin,
) -> Result<Entry, DataFileError> {
    let start = name.span().start;
    let pmu = catalogue.pmus.iter().find(|(known, _)| *known == unit).map(|(_, pmu)| pmu.clone());
    let mut entry = Entry {
        name: name.into_inner(),
        also: Vec::new(),
        encoding: Encoding { unit, pmu: pmu.unwrap_or_default(), fields: Vec::new() },
        counters: Counters::default(),
        place: CountedAt::default(),
        meaning: String::new(),
        precise: 0,
        scale: None,
        errata: Vec::new(),
        alone: false,
        pair: false,
        leader: None,
        note: None,
        source: catalogue.source.clone(),
        alternatives: Vec::new(),
    };
    // The order of the line is the order in which fields are shown.
    let mut attributes: Vec<_> = attributes.into_iter().collect();
    attributes.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in attributes {
        attribute(&mut entry, catalogue, &name, value, origin)?;
    }
    if entry.meaning.is_empty() {
        return Err(origin.error(start, format!("'{}' has no `means`", entry.name)));
    }
    if entry.encoding.pmu.is_empty() {
        return Err(origin.error(start, format!("'{}' has no PMU: name one under [pmus]", entry.name)));
    }
    Ok(entry)
}

fn attribute(
    entry: &mut Entry,
    catalogue: &Catalogue,
    name: &Spanned<String>,
    value: Spanned<Value>,
    origin: Origin,
) -> Result<(), DataFileError> {
    let at = value.span().start;
    let bad = |what: &str| origin.error(at, format!("`{}` must be {what}", name.get_ref()));
    let text = |value: Value| match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(bad("a text")),
    };
    let texts = |value: Value| value.try_into::<Vec<String>>().map_err(|_| bad("a list of texts"));
    let yes = |value: Value| value.as_bool().ok_or_else(|| bad("true or false"));
    match (name.get_ref().as_str(), value.into_inner()) {
        ("means", value) => {
            entry.meaning = text(value)?;
            if !meanings().contains_key(&entry.meaning) {
                return Err(origin.error(at, format!("no meaning '{}'; see meanings.toml", entry.meaning)));
            }
        }
        ("pmu", value) => entry.encoding.pmu = text(value)?,
        ("on", value) => {
            (entry.counters, entry.place) = counters(&text(value)?, entry.encoding.unit, catalogue)
                .map_err(|message| origin.error(at, message))?;
        }
        ("precise", Value::Integer(level @ 0..=2)) => entry.precise = u8::try_from(level).unwrap_or_default(),
        ("precise", _) => return Err(bad("0, 1 or 2")),
        ("scale", value) => entry.scale = Some(text(value)?),
        ("errata", value) => entry.errata = texts(value)?,
        ("also", value) => entry.also = texts(value)?,
        ("alone", value) => entry.alone = yes(value)?,
        ("pair", value) => entry.pair = yes(value)?,
        ("leader", value) => entry.leader = Some(text(value)?),
        ("note", value) => entry.note = Some(text(value)?),
        ("source", value) => entry.source = text(value)?,
        (field, value) => {
            let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
            let number = number.ok_or_else(|| bad("a number"))?;
            check(name, at, number, origin)?;
            entry.encoding.fields.push((field.to_owned(), number));
        }
    }
    Ok(())
}

/// Whether a field exists and holds the value.
fn check(name: &Spanned<String>, at: usize, value: u64, origin: Origin) -> Result<(), DataFileError> {
    let field = name.get_ref();
    let Some(bits) = bits(field) else {
        return Err(origin.error(name.span().start, format!("no field or attribute '{field}'")));
    };
    if bits < 64 && value >> bits != 0 {
        return Err(origin.error(at, format!("{value:#x} needs more than the {bits} bits of `{field}`")));
    }
    Ok(())
}

/// `0-3`, `0,2-3`, `F1`, `0-3,F0`, `fixed`, `free`, `metrics`, `ibs`.
fn counters(text: &str, unit: Unit, catalogue: &Catalogue) -> Result<(Counters, CountedAt), String> {
    let mut counters = Counters::default();
    let place = match text {
        "free" | "fixed" => CountedAt::Free,
        "metrics" => CountedAt::Metrics,
        "ibs" => CountedAt::Sampling,
        _ => CountedAt::Counters,
    };
    if place != CountedAt::Counters {
        return Ok((counters, place));
    }
    let pmu = catalogue.pmus.iter().find(|(known, _)| *known == unit).map_or("", |(_, pmu)| pmu);
    let Some(PmuResources::Limited { general, fixed, .. }) = catalogue.resources(pmu) else {
        return Err(format!("how many counters '{pmu}' has must stand under [pmu.{pmu}]"));
    };
    let number = |text: &str, below: u32| text.parse::<u32>().ok().filter(|number| *number < below);
    for part in text.split(',').map(str::trim) {
        let bad = || format!("'{part}' is no counter here; there are {general}, and {fixed} fixed");
        if let Some(text) = part.strip_prefix('F') {
            let number = number(text, *fixed).ok_or_else(bad)?;
            counters.fixed = u8::try_from(number).ok();
            continue;
        }
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = number(first, *general).ok_or_else(bad)?;
        let last = number(last, *general).filter(|last| *last >= first).ok_or_else(bad)?;
        counters.programmable |= (first..=last).fold(0, |bits, number| bits | 1 << number);
    }
    Ok((counters, place))
}

fn add_alternative(
    catalogue: &mut Catalogue,
    table: AlternativeTable,
    origin: Origin,
) -> Result<(), DataFileError> {
    let at = table.of.span().start;
    for (name, value) in &table.set {
        check(name, value.span().start, *value.get_ref(), origin)?;
    }
    let Some(&index) = catalogue.index.get(&key(table.of.get_ref())) else {
        return Err(origin.error(at, format!("no event '{}' to be an alternative of", table.of.get_ref())));
    };
    let entry = &mut catalogue.entries[index];
    let fields: Vec<_> =
        table.set.into_iter().map(|(name, value)| (name.into_inner(), value.into_inner())).collect();
    if fields.iter().all(|(name, value)| entry.encoding.field(name) == *value) {
        return Err(origin.error(at, format!("this is what '{}' has already", entry.name)));
    }
    entry.alternatives.push(Alternative { says: table.says, fields, note: table.note });
    Ok(())
}
