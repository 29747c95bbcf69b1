//! What the events of a microarchitecture mean on the simulated machine, as data.
//!
//! A file gives, for an event code, the signals behind each unit mask. Masks are bits: all parts whose bits an event's
//! mask contains add up, and every bit must belong to one of them. What is not in the file, or is there with a reason, is
//! refused.

mod file;
mod general;
mod offcore;

use std::sync::OnceLock;

use events::{Catalogue, Encoding, Unit};
use machine::model::Model;

use super::{
    recipe::{Recipe, Term},
    shape::PmuShape,
    tape::TapeMoment,
};
use crate::signal::{BoxSignal, CoreSignal, Number};
use file::{MaskEntry, MeaningFile};
use offcore::Offcore;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../pmu/", $name, ".toml")))),*]
    };
}

/// The files that come with the program.
const FILES: &[(&str, &str)] = files!["haswell-ep", "broadwell-ep"];

/// Fields of an encoding that are understood everywhere.
const FIELDS: [&str; 8] = ["event", "umask", "cmask", "inv", "edge", "any", "offcore_rsp", "ldlat"];

/// What the events of a microarchitecture mean.
#[derive(Clone, Debug, Default)]
pub struct SignalMeaning {
    events: Vec<DescribedEvent>,
    refused: Vec<file::RefusedEntry>,
    flaws: Vec<file::FlawEntry>,
    offcore: Option<Offcore>,
}

/// An event code.
#[derive(Clone, Debug)]
struct DescribedEvent {
    unit: Unit,
    code: u64,
    exact: bool,
    masks: Vec<MaskEntry>,
}

/// Whether described flaws are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaws {
    /// Counters see all that happens.
    Off,
    /// Errata that make a counter miss some of it.
    On,
}

impl Flaws {
    /// Real products have theirs, made-up machines have none.
    pub fn of(model: &Model) -> Self {
        if model.identity.vendor == "Memwall" { Self::Off } else { Self::On }
    }
}

impl SignalMeaning {
    /// Of the microarchitecture whose events a catalogue of this name has.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they load every file.
    pub fn named(name: &str) -> Option<&'static Self> {
        static ALL: OnceLock<Vec<(&str, SignalMeaning)>> = OnceLock::new();
        let load = |&(name, text): &(&'static str, &str)| match Self::parse(text) {
            Ok(meaning) => (name, meaning),
            Err(error) => panic!("built-in file pmu/{name}.toml: {error}"),
        };
        ALL.get_or_init(|| FILES.iter().map(load).collect())
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, meaning)| meaning)
    }

    /// What an encoding counts on a machine with these events, or in words why it cannot be counted.
    pub fn of(
        catalogue: &Catalogue,
        encoding: &Encoding,
        model: &Model,
        flaws: Flaws,
    ) -> Result<Recipe, String> {
        let own = Self::named(&catalogue.name).map(|meaning| meaning.recipe(encoding, model, flaws));
        match own {
            Some(Ok(recipe)) => Ok(recipe),
            Some(Err(why)) => general::recipe(catalogue, encoding, model, flaws).map_err(|_| why),
            None => general::recipe(catalogue, encoding, model, flaws),
        }
    }

    /// Reads a file; the words say what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let MeaningFile { like, event, refused, flaw, offcore } =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let mut meaning = match &like {
            Some(name) => {
                let (_, text) = FILES
                    .iter()
                    .find(|(known, text)| known == name && !text.contains("\nlike = "))
                    .ok_or_else(|| format!("no file '{name}' to be like"))?;
                Self::parse(text)?
            }
            None => Self::default(),
        };
        for found in event {
            found.check()?;
            let same = |known: &DescribedEvent| known.unit == found.unit && known.code == found.code;
            meaning.events.retain(|known| !same(known));
            meaning.refused.retain(|known| known.unit != found.unit || known.code != found.code);
            let file::FileEvent { unit, code, exact, masks, .. } = found;
            meaning.events.push(DescribedEvent { unit, code, exact, masks });
        }
        meaning.refused.extend(refused);
        meaning.flaws.extend(flaw);
        if let Some(found) = offcore {
            meaning.offcore = Some(Offcore::new(&found)?);
        }
        Ok(meaning)
    }

    /// What an encoding counts, or in words why it cannot be.
    pub fn recipe(&self, encoding: &Encoding, model: &Model, flaws: Flaws) -> Result<Recipe, String> {
        let (code, umask) = (encoding.field("event"), encoding.field("umask"));
        if encoding.field("any") == 1 && model.threads_per_core > 1 {
            return Err("the simulated PMU counts one hardware thread at a time; leave out any=1".into());
        }
        let shape = PmuShape {
            threshold: encoding.field("cmask").max(encoding.field("thresh")).min(u32::MAX.into()) as u32,
            inverted: encoding.field("inv") == 1,
            edge: encoding.field("edge") == 1,
        };
        if encoding.unit == Unit::Core
            && let Some(offcore) = self.offcore.as_ref().filter(|offcore| offcore.is(code, umask))
        {
            let terms = offcore.terms(encoding.field("offcore_rsp"))?;
            let seen_percent = self.seen(encoding, model, flaws);
            return Ok(Recipe::Core { terms, shape, seen_percent });
        }
        let masks = self.masks(encoding)?;
        if encoding.unit == Unit::Core {
            let terms = terms(&masks, model, |name| CoreSignal::named(name).map(Number::from));
            return Ok(Recipe::Core { terms, shape, seen_percent: self.seen(encoding, model, flaws) });
        }
        if !shape.is_sum() {
            return Err("boxes outside the cores only add up here; leave out thresh, inv and edge".into());
        }
        Ok(Recipe::Boxes { unit: encoding.unit, terms: terms(&masks, model, BoxSignal::named) })
    }

    /// The parts of an event.
    fn masks(&self, encoding: &Encoding) -> Result<Vec<&MaskEntry>, String> {
        let (unit, code, umask) = (encoding.unit, encoding.field("event"), encoding.field("umask"));
        let refused = |umask: u64| {
            let about = |refused: &&file::RefusedEntry| {
                refused.unit == unit
                    && refused.code == code
                    && refused
                        .umask
                        .is_none_or(|refused| refused & umask == refused && (refused != 0 || umask == 0))
            };
            self.refused.iter().find(about).map(|refused| refused.why.clone())
        };
        let nothing = || {
            refused(umask).unwrap_or_else(|| {
                format!("nothing in the simulated machine stands behind event {code:#x} with mask {umask:#x}")
            })
        };
        let event =
            self.events.iter().find(|event| event.unit == unit && event.code == code).ok_or_else(nothing)?;
        let filters =
            |mask: &MaskEntry| mask.with.iter().all(|(field, value)| encoding.field(field) == *value);
        let fits = |mask: &&MaskEntry| match event.exact || mask.umask == 0 || umask == 0 {
            true => mask.umask == umask,
            false => mask.umask & umask == mask.umask,
        };
        let found: Vec<&MaskEntry> = event.masks.iter().filter(fits).filter(|mask| filters(mask)).collect();
        let covered = found.iter().fold(0, |bits, mask| bits | mask.umask);
        if found.is_empty() || covered != umask {
            return Err(nothing());
        }
        let known = |field: &str| FIELDS.contains(&field) || found.iter().any(|mask| mask.knows(field));
        if let Some((field, value)) =
            encoding.fields.iter().find(|(field, value)| *value != 0 && !known(field))
        {
            return Err(format!("{field}={value:#x} has no meaning in the simulated machine; leave it out"));
        }
        match found.iter().find_map(|mask| mask.never.as_ref()) {
            Some(why) if found.iter().all(|mask| mask.never.is_some()) => Err(why.clone()),
            _ => Ok(found),
        }
    }

    fn seen(&self, encoding: &Encoding, model: &Model, flaws: Flaws) -> u32 {
        let of = |flaw: &&file::FlawEntry| {
            flaw.code == encoding.field("event")
                && flaw.umask == encoding.field("umask")
                && model.threads_per_core >= flaw.threads
        };
        match flaws {
            Flaws::On => self.flaws.iter().find(of).map_or(100, |flaw| flaw.seen_percent.min(100)),
            Flaws::Off => 100,
        }
    }
}

fn terms<S>(masks: &[&MaskEntry], model: &Model, named: impl Fn(&str) -> Option<S>) -> Vec<Term<S>> {
    let mut terms = Vec::new();
    for mask in masks {
        let when = match mask.when {
            file::ConditionEntry::Value => TapeMoment::Value,
            file::ConditionEntry::Any => TapeMoment::Any,
            file::ConditionEntry::None => TapeMoment::None,
            file::ConditionEntry::Full => TapeMoment::AtLeast(model.l2.misses_in_flight),
        };
        // Loading checked the names.
        let signals = mask.is.iter().filter_map(|name| named(name));
        terms.extend(signals.map(|signal| Term { signal, when, weight: mask.weight }));
    }
    terms
}

#[cfg(test)]
mod tests;
