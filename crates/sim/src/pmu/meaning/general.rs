//! Events of microarchitectures without a file of their own, by what the catalogue says they mean.

use std::{collections::BTreeMap, sync::OnceLock};

use events::{Catalogue, Encoding, Entry, Unit};
use machine::model::Model;
use serde::Deserialize;

use super::{Flaws, SignalMeaning, file};
use crate::{
    pmu::{
        recipe::{Recipe, Term},
        shape::PmuShape,
        tape::TapeMoment,
    },
    signal::{BoxSignal, CoreSignal, Number, OffcoreAnswer, OffcoreRequest},
};

/// The microarchitecture whose file is the reference.
const REFERENCE: &str = "haswell-ep";
/// Fields that shape a count.
const SHAPING: [&str; 4] = ["cmask", "inv", "edge", "thresh"];

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    offcore: OffcoreSignal,
    meaning: BTreeMap<String, Means>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OffcoreSignal {
    requests: BTreeMap<String, Vec<String>>,
    answers: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Means {
    unit: Option<Unit>,
    #[serde(default)]
    is: Vec<String>,
    #[serde(default)]
    when: file::ConditionEntry,
    /// Conditions that must hold together, whatever threshold the encoding uses for that.
    #[serde(default)]
    all: Vec<RetiredCondition>,
    /// The shape of the encoding is how the hardware gets at it: nothing is left to shape.
    #[serde(default)]
    shaped: bool,
    /// Counts once for every slot that a cycle has.
    #[serde(default)]
    each_slot: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetiredCondition {
    is: String,
    when: file::ConditionEntry,
}

fn general() -> &'static General {
    static FILE: OnceLock<General> = OnceLock::new();
    FILE.get_or_init(|| match toml::from_str(include_str!("../../../pmu/meanings.toml")) {
        Ok(general) => general,
        Err(error) => panic!("built-in file pmu/meanings.toml: {error}"),
    })
}

/// What an encoding counts by the meaning of its entry in the catalogue.
pub(super) fn recipe(
    catalogue: &Catalogue,
    encoding: &Encoding,
    model: &Model,
    flaws: Flaws,
) -> Result<Recipe, String> {
    let nothing = || {
        let (code, umask) = (encoding.field("event"), encoding.field("umask"));
        format!("nothing in the simulated machine stands behind event {code:#x} with mask {umask:#x}")
    };
    if let Some(entry) = catalogue.of_encoding(encoding) {
        return of_entry(catalogue, entry, model, flaws);
    }
    // The same event with a shape of the user's own.
    let mut plain = encoding.clone();
    plain.fields.retain(|(field, _)| !SHAPING.contains(&field.as_str()));
    let entry = catalogue.of_encoding(&plain).ok_or_else(nothing)?;
    match of_entry(catalogue, entry, model, flaws)? {
        Recipe::Core { terms, shape, seen_percent } if shape.is_sum() => {
            Ok(Recipe::Core { terms, shape: shape_of(encoding), seen_percent })
        }
        _ => Err(nothing()),
    }
}

fn shape_of(encoding: &Encoding) -> PmuShape {
    PmuShape {
        threshold: encoding.field("cmask").min(u32::MAX.into()) as u32,
        inverted: encoding.field("inv") == 1,
        edge: encoding.field("edge") == 1,
    }
}

fn of_entry(catalogue: &Catalogue, entry: &Entry, model: &Model, flaws: Flaws) -> Result<Recipe, String> {
    let nothing = || format!("nothing in the simulated machine stands behind '{}'", entry.meaning);
    if entry.encoding.field("any") == 1 && model.threads_per_core > 1 {
        return Err("the simulated PMU counts one hardware thread at a time; leave out any=1".into());
    }
    if let Some(means) = general().meaning.get(&entry.meaning) {
        let recipe = of_means(means, entry, model).ok_or_else(nothing)?;
        return never_happens(&recipe, model).map_or(Ok(recipe), |why| Err(why.to_owned()));
    }
    if let Some(terms) = offcore(&entry.meaning) {
        if let Some(why) = never_counts(&terms, model) {
            return Err(why.to_owned());
        }
        return Ok(Recipe::Core { terms, shape: shape_of(&entry.encoding), seen_percent: 100 });
    }
    if catalogue.name == REFERENCE {
        return Err(nothing());
    }
    let reference = Catalogue::named(REFERENCE).map_err(|error| error.to_string())?;
    // What one count stands for must be the same: a flit of another link is another thing.
    let same = |other: &&Entry| other.encoding.unit != Unit::Link || other.scale == entry.scale;
    let other = reference.meaning(&entry.meaning).find(same).ok_or_else(nothing)?;
    let meaning = SignalMeaning::named(REFERENCE).ok_or_else(nothing)?;
    meaning.recipe(&other.encoding, model, flaws)
}

/// Why what an event counts cannot happen on a model.
fn never_happens(recipe: &Recipe, model: &Model) -> Option<&'static str> {
    match recipe {
        Recipe::Core { terms, .. } => never_counts(terms, model),
        Recipe::Boxes { .. } => None,
    }
}

/// Why none of the signals can be there: a mechanism that the model does not have.
fn never_counts(terms: &[Term<Number>], model: &Model) -> Option<&'static str> {
    let only = |fits: &dyn Fn(Number) -> bool| terms.iter().all(|term| fits(term.signal));
    let remote = |signal: Number| {
        signal == CoreSignal::LoadRemoteClean.into()
            || OffcoreRequest::NAMES
                .iter()
                .any(|(request, _)| signal == Number::offcore(*request, OffcoreAnswer::RemoteClean))
    };
    let forwards = model.link.as_ref().is_some_and(|link| link.forwards_clean);
    if !forwards && only(&remote) {
        return Some(
            "unmodified copies of other packages do not supply in this simulated machine, memory does",
        );
    }
    let address = |signal: Number| signal == CoreSignal::LoadsBlockedAddress.into();
    if model.core.load_confidence == 0 && only(&address) {
        return Some(
            "memory disambiguation of this simulated core is perfect: no load waits for a store it does not overlap",
        );
    }
    None
}

fn of_means(means: &Means, entry: &Entry, model: &Model) -> Option<Recipe> {
    let when = |when: file::ConditionEntry| match when {
        file::ConditionEntry::Value => TapeMoment::Value,
        file::ConditionEntry::Any => TapeMoment::Any,
        file::ConditionEntry::None => TapeMoment::None,
        file::ConditionEntry::Full => TapeMoment::AtLeast(model.l2.misses_in_flight),
    };
    if let Some(unit) = means.unit {
        let term = |name: &String| {
            Some(Term { signal: BoxSignal::named(name)?, when: TapeMoment::Value, weight: 1 })
        };
        return Some(Recipe::Boxes { unit, terms: means.is.iter().map(term).collect::<Option<_>>()? });
    }
    let term = |name: &String, how| {
        let weight = if means.each_slot { model.core.dispatch_width } else { 1 };
        Some(Term { signal: CoreSignal::named(name)?.into(), when: when(how), weight })
    };
    if !means.all.is_empty() {
        let terms: Option<Vec<_>> = means.all.iter().map(|part| term(&part.is, part.when)).collect();
        let shape = PmuShape { threshold: means.all.len() as u32, ..PmuShape::default() };
        return Some(Recipe::Core { terms: terms?, shape, seen_percent: 100 });
    }
    let terms: Option<Vec<_>> = means.is.iter().map(|name| term(name, means.when)).collect();
    let shape = if means.shaped { PmuShape::default() } else { shape_of(&entry.encoding) };
    Some(Recipe::Core { terms: terms?, shape, seen_percent: 100 })
}

/// The terms of a meaning `offcore_REQUEST_ANSWER`.
fn offcore(meaning: &str) -> Option<Vec<Term<Number>>> {
    let rest = meaning.strip_prefix("offcore_")?;
    let OffcoreSignal { requests, answers } = &general().offcore;
    let fits =
        |request: &&String| rest.strip_prefix(request.as_str()).is_some_and(|rest| rest.starts_with('_'));
    // The longest request that fits, as some begin like others.
    let request = requests.keys().filter(fits).max_by_key(|request| request.len())?;
    let answers = answers.get(&rest[request.len() + 1..])?;
    let named_request = |name: &String| {
        OffcoreRequest::NAMES.iter().find(|(_, known)| known == name).map(|(found, _)| *found)
    };
    let named_answer =
        |name: &String| OffcoreAnswer::NAMES.iter().find(|(_, known)| known == name).map(|(found, _)| *found);
    let mut terms = Vec::new();
    for request in &requests[request] {
        for answer in answers {
            let (request, answer) = (named_request(request)?, named_answer(answer)?);
            let told = !matches!(request, OffcoreRequest::PrefetchL3 | OffcoreRequest::WriteBack);
            if told || answers.len() == OffcoreAnswer::NAMES.len() {
                terms.push(Term {
                    signal: Number::offcore(request, answer),
                    when: TapeMoment::Value,
                    weight: 1,
                });
            }
        }
    }
    (!terms.is_empty()).then_some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_file_exists() {
        let model = Model::builtin("tiny").expect("a model");
        let entry = &Catalogue::named(REFERENCE).expect("events").entries[0];
        for (meaning, means) in &general().meaning {
            assert!(of_means(means, entry, &model).is_some(), "{meaning}");
            assert!(events::catalogue::meanings().contains_key(meaning), "{meaning} is no meaning");
        }
        let OffcoreSignal { requests, answers } = &general().offcore;
        for name in requests.values().flatten() {
            assert!(OffcoreRequest::NAMES.iter().any(|(_, known)| known == name), "{name}");
        }
        for name in answers.values().flatten() {
            assert!(OffcoreAnswer::NAMES.iter().any(|(_, known)| known == name), "{name}");
        }
        assert_eq!(offcore("offcore_demand_reads_l3_hit").map(|terms| terms.len()), Some(3));
        assert_eq!(offcore("offcore_l3_prefetches_l3_miss"), None, "no answer ever comes");
    }
}
