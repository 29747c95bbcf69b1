//! `pmu/event=0x..,umask=0x../mods`, `pmu/name/`, `resctrl/value/`.

use super::{Context, NameError, NameOrigin, Parsed, PmuView, modifiers, near};
use crate::{Encoding, Event, Signal, Unit, catalogue::key, event::Counters, field};

/// What resctrl keeps.
const RESCTRL: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

/// Beginnings of PMU names, and the part of the machine they belong to.
const UNITS: &[(&str, Unit)] = &[
    ("uncore_cbox", Unit::Slice),
    ("uncore_cha", Unit::Slice),
    ("amd_l3", Unit::Slice),
    ("uncore_ha", Unit::HomeAgent),
    ("uncore_m2m", Unit::HomeAgent),
    ("uncore_b2cmi", Unit::HomeAgent),
    ("uncore_imc", Unit::MemoryController),
    ("uncore_hbm", Unit::MemoryController),
    ("amd_umc", Unit::MemoryController),
    ("uncore_qpi", Unit::Link),
    ("uncore_upi", Unit::Link),
    ("amd_df", Unit::Fabric),
    ("uncore", Unit::Package),
];

/// The part of the machine a PMU belongs to, by its name.
pub fn unit_of_pmu(name: &str) -> Unit {
    UNITS.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Unit::Core, |(_, unit)| *unit)
}

/// The PMU of the cores.
pub fn core_name(context: &Context) -> String {
    let catalogue = context.catalogue.and_then(|catalogue| {
        catalogue.pmus.iter().find(|(unit, _)| *unit == Unit::Core).map(|(_, pmu)| pmu.clone())
    });
    let listed = || context.pmus.iter().find(|pmu| pmu.name == "cpu" || pmu.name == "cpu_core");
    catalogue.or_else(|| listed().map(|pmu| pmu.name.clone())).unwrap_or_else(|| "cpu".into())
}

/// Whether a PMU of sysfs is one of that name, with or without the number of its box: `uncore_imc_3` is one of
/// `uncore_imc`.
pub fn is_box_of(pmu: &str, name: &str) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit());
    pmu.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number))
}

/// Understands a name with slashes.
pub fn parse(name: &str, context: &Context) -> Result<Parsed, NameError> {
    let error = |at, message: String| NameError::new(name, at, message);
    let (pmu, rest) = name.split_once('/').unwrap_or((name, ""));
    let body_at = pmu.len() + 1;
    let Some((body, after)) = rest.rsplit_once('/') else {
        return Err(error(pmu.len(), "expected a closing slash, as in pmu/event=0x12,umask=0x34/".into()));
    };
    let pmu = pmu.trim_end_matches('*').trim_end_matches('_');
    // Hybrid machines have no `cpu`; people and scripts write it all the same.
    let core = core_name(context);
    let pmu = if pmu == "cpu" { core.as_str() } else { pmu };
    if pmu.is_empty() || body.trim().is_empty() {
        return Err(error(0, "expected pmu/event/, as in cpu/event=0x12,umask=0x34/".into()));
    }
    if pmu == "resctrl" {
        return resctrl(name, body, body_at);
    }
    let mut parsed = match in_pmu(pmu, body.trim(), context) {
        Some(parsed) => parsed,
        None => terms(name, pmu, body, body_at, context)?,
    };
    let after = after.trim_start_matches(':');
    if !after.is_empty() {
        parsed.event.modifiers = modifiers::modes(after)
            .ok_or_else(|| error(body_at + body.len() + 1, format!("'{after}' is no modifier: u, k, p")))?;
    }
    Ok(parsed)
}

fn resctrl(name: &str, body: &str, at: usize) -> Result<Parsed, NameError> {
    let Some(known) = RESCTRL.iter().find(|known| **known == body) else {
        let mut error = NameError::new(name, at, format!("resctrl keeps {}", RESCTRL.join(", ")));
        error.near = near::nearest(body, RESCTRL.into_iter());
        return Err(error);
    };
    let event = Event::new(name, Signal::Resctrl((*known).to_owned()));
    Ok(Parsed { event, origin: NameOrigin::Resctrl, entry: None })
}

/// `NAME` of a PMU: what sysfs says, else what the catalogue says for the same PMU.
fn in_pmu(pmu: &str, name: &str, context: &Context) -> Option<Parsed> {
    let listed = context.pmus.iter().filter(|view| is_box_of(&view.name, pmu));
    if let Some(text) = listed.filter_map(|view| view.events.get(name)).next() {
        return from_sysfs(pmu, name, text);
    }
    let catalogue = context.catalogue?;
    let entry = catalogue.entry(name)?;
    let same = entry.encoding.pmu == pmu
        || pmu.strip_prefix(&entry.encoding.pmu).is_some_and(|rest| rest.starts_with('_'));
    if !same {
        return None;
    }
    let mut event = entry.event();
    event.name = format!("{pmu}/{name}/");
    if let Signal::Encoded(encoding) = &mut event.signal {
        encoding.pmu = pmu.to_owned();
    }
    Some(Parsed { event, origin: NameOrigin::Catalogue, entry: Some(entry.name.clone()) })
}

/// A bare name that one of the core PMUs lists in sysfs.
pub fn in_sysfs(name: &str, context: &Context) -> Option<Parsed> {
    let core = context.pmus.iter().filter(|view| view.name == "cpu" || view.name.starts_with("cpu_"));
    let (pmu, text) = core.filter_map(|view| Some((view, view.events.get(name)?))).next()?;
    from_sysfs(&pmu.name, name, text)
}

fn from_sysfs(pmu: &str, name: &str, text: &str) -> Option<Parsed> {
    let mut encoding = Encoding { unit: unit_of_pmu(pmu), pmu: pmu.to_owned(), fields: Vec::new() };
    for term in text.trim().split(',') {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        // `ldlat=?` is for the user to fill in; the kernel takes 3 if nobody does.
        let value = if value.trim() == "?" { 3 } else { field::number(value.trim())? };
        encoding.set(field.trim(), value);
    }
    let event = build(format!("{pmu}/{name}/"), encoding, Counters::default());
    Some(Parsed { event, origin: NameOrigin::Sysfs, entry: None })
}

/// `event=0x12,umask=0x34,name=mine`.
fn terms(name: &str, pmu: &str, body: &str, body_at: usize, context: &Context) -> Result<Parsed, NameError> {
    let views: Vec<_> = context.pmus.iter().filter(|view| is_box_of(&view.name, pmu)).collect();
    let mut encoding = Encoding { unit: unit_of_pmu(pmu), pmu: pmu.to_owned(), fields: Vec::new() };
    let (mut shown, mut at) = (name.to_owned(), body_at);
    for term in body.split(',') {
        let error = |message: String| NameError::new(name, at, message);
        let (key, value) =
            term.split_once('=').map_or((term.trim(), None), |(k, v)| (k.trim(), Some(v.trim())));
        let known = match views.as_slice() {
            [] => context.pmus.is_empty() && field::bits(key).is_some(),
            views => key.starts_with("config") || views.iter().any(|view| view.fields.contains(key)),
        };
        if key == "name" {
            shown = value.unwrap_or_default().trim_matches(['\'', '"']).to_owned();
        } else if known {
            let number = field::number(value.unwrap_or("1"));
            let number =
                number.ok_or_else(|| error(format!("'{}' is no number", value.unwrap_or_default())))?;
            encoding.set(key, number);
        } else if let Some(named) = in_pmu(pmu, key, context).filter(|_| value.is_none()) {
            // A named event may be followed by fields that change it.
            if let Signal::Encoded(named) = named.event.signal {
                named.fields.iter().for_each(|(field, number)| encoding.set(field, *number));
            }
        } else {
            return Err(unknown_term(name, at, pmu, key, &views, context));
        }
        at += term.len() + 1;
    }
    let counters = context.catalogue.and_then(|catalogue| catalogue.of_encoding(&encoding));
    let counters = counters.map_or_else(Counters::default, |entry| entry.counters);
    Ok(Parsed { event: build(shown, encoding, counters), origin: NameOrigin::Raw, entry: None })
}

fn unknown_term(
    name: &str,
    at: usize,
    pmu: &str,
    term: &str,
    views: &[&PmuView],
    context: &Context,
) -> NameError {
    let message = if views.is_empty() && !context.pmus.is_empty() {
        format!("this machine has no PMU '{pmu}'")
    } else {
        format!("{pmu} has no event or field '{term}'")
    };
    let mut error = NameError::new(name, at, message);
    let listed = views.iter().flat_map(|view| view.events.keys().chain(&view.fields)).map(String::as_str);
    let unit = unit_of_pmu(pmu);
    let entries = context.catalogue.into_iter().flat_map(|catalogue| &catalogue.entries);
    let known = entries.filter(|entry| entry.encoding.unit == unit).map(|entry| entry.name.as_str());
    error.near = near::nearest(&key(term), listed.chain(known));
    if error.near.is_empty() {
        error.near = near::nearest(&key(term), field::names());
    }
    error
}

fn build(name: String, encoding: Encoding, counters: Counters) -> Event {
    Event { counters, ..Event::new(name, Signal::Encoded(encoding)) }
}
