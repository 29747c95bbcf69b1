//! The form of a group file.

use std::collections::BTreeMap;

use machine::DataFileError;
use serde::Deserialize;
use toml::Spanned;

use super::{
    GroupConstant, Metric, MetricBar, MetricBounds, MetricCheck, MetricGroup, PROGRAM_CYCLES, PrintedFormula,
    ReferenceBands, TIME,
};
use crate::{data_file::Origin, formula::Formula};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: Vec<GroupTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    name: Spanned<String>,
    family: Option<String>,
    about: String,
    source: Option<String>,
    #[serde(default)]
    uncounted: Vec<String>,
    inputs: BTreeMap<Spanned<String>, Vec<String>>,
    #[serde(default)]
    constants: BTreeMap<Spanned<String>, ConstantTable>,
    #[serde(default)]
    purposes: BTreeMap<Spanned<String>, String>,
    metric: Vec<MetricTable>,
    #[serde(default)]
    bar: Vec<BarTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantTable {
    value: Option<f64>,
    source: String,
    measured: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricTable {
    name: String,
    key: Option<Spanned<String>>,
    formula: Spanned<String>,
    unit: String,
    about: String,
    bounds: Option<BoundsTable>,
    printed: Option<Spanned<String>>,
    note: Option<String>,
    advice: Option<String>,
    check: Option<CheckTable>,
    reference: Option<ReferenceTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundsTable {
    least: Spanned<String>,
    most: Spanned<String>,
    likely: Option<[Spanned<String>; 2]>,
    clear: Spanned<String>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    is: f64,
    within: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceTable {
    medium: f64,
    high: f64,
    means: [String; 3],
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BarTable {
    title: Spanned<String>,
    of: Option<String>,
    parts: Vec<String>,
}

pub(super) fn read(text: &str, origin: Origin) -> Result<Vec<MetricGroup>, DataFileError> {
    let file: GroupFile = toml::from_str(text).map_err(|error| origin.toml(&error))?;
    let mut groups: Vec<MetricGroup> = Vec::new();
    for table in file.group {
        let at = table.name.span().start;
        if groups.iter().any(|group| group.name == *table.name.get_ref()) {
            return Err(origin.error(at, format!("a second group {}", table.name.get_ref())));
        }
        groups.push(build(table, origin)?);
    }
    Ok(groups)
}

fn build(table: GroupTable, origin: Origin) -> Result<MetricGroup, DataFileError> {
    let mut inputs: Vec<_> = table.inputs.into_iter().collect();
    inputs.sort_by_key(|(name, _)| name.span().start);
    for (name, events) in &inputs {
        if events.is_empty() || name.get_ref() == TIME {
            let message = format!("input '{}' needs an event, and a name other than time", name.get_ref());
            return Err(origin.error(name.span().start, message));
        }
    }
    let mut known: Vec<String> = vec![TIME.to_owned(), PROGRAM_CYCLES.to_owned()];
    known.extend(inputs.iter().map(|(name, _)| name.get_ref().clone()));
    let mut constants = Vec::new();
    for (name, constant) in table.constants {
        let at = name.span().start;
        let name = name.into_inner();
        if known.contains(&name) {
            return Err(origin.error(at, format!("'{name}' is there already")));
        }
        let measured = constant.measured.map(|text| formula(&text, origin)).transpose()?;
        if constant.value.is_none() && measured.is_none() {
            return Err(origin.error(at, format!("'{name}' needs a value, or a way to measure it")));
        }
        known.push(name.clone());
        constants.push(GroupConstant { name, value: constant.value, source: constant.source, measured });
    }
    let mut purposes = Vec::new();
    for (name, purpose) in table.purposes {
        if !inputs.iter().any(|(input, _)| input.get_ref() == name.get_ref()) {
            let message = format!("'{}' is no input of group {}", name.get_ref(), table.name.get_ref());
            return Err(origin.error(name.span().start, message));
        }
        purposes.push((name.into_inner(), purpose));
    }
    let mut group = MetricGroup {
        name: table.name.into_inner(),
        purposes,
        family: table.family,
        about: table.about,
        source: table.source,
        inputs: inputs.into_iter().map(|(name, events)| (name.into_inner(), events)).collect(),
        constants,
        metrics: Vec::new(),
        bars: Vec::new(),
        uncounted: table.uncounted,
    };
    for metric in table.metric {
        add(&mut group, &mut known, metric, origin)?;
    }
    for bar in table.bar {
        let at = bar.title.span().start;
        let lacking = |key: &&String| group.keyed(key).is_none();
        if let Some(key) = bar.parts.iter().chain(&bar.of).find(lacking) {
            return Err(origin.error(at, format!("no metric of group {} has the key '{key}'", group.name)));
        }
        group.bars.push(MetricBar { title: bar.title.into_inner(), of: bar.of, parts: bar.parts });
    }
    Ok(group)
}

/// Adds a metric, and its key to the names that formulas behind it may use.
fn add(
    group: &mut MetricGroup,
    known: &mut Vec<String>,
    table: MetricTable,
    origin: Origin,
) -> Result<(), DataFileError> {
    let understood = |text: &Spanned<String>| -> Result<Formula, DataFileError> {
        let formula = formula(text, origin)?;
        match formula.names().iter().find(|name| !known.iter().any(|known| known == *name)) {
            None => Ok(formula),
            Some(name) => {
                Err(origin.error(text.span().start, format!("'{name}' is no input of group {}", group.name)))
            }
        }
    };
    let printed = match (&table.printed, table.note) {
        (Some(printed), Some(note)) => Some(PrintedFormula { formula: understood(printed)?, note }),
        (None, None) => None,
        _ => {
            let at = table.formula.span().start;
            return Err(origin.error(at, "'printed' and 'note' belong together".to_owned()));
        }
    };
    let bounds = table.bounds.map(|BoundsTable { least, most, likely, clear, why }| {
        let [least, most, clear] = [least, most, clear].map(|text| understood(&text));
        let likely = likely.map(|[least, most]| Ok([understood(&least)?, understood(&most)?]));
        Ok(MetricBounds { least: least?, most: most?, likely: likely.transpose()?, clear: clear?, why })
    });
    let metric = Metric {
        name: table.name,
        bounds: bounds.transpose()?,
        formula: understood(&table.formula)?,
        key: table.key.as_ref().map(|key| key.get_ref().clone()),
        unit: table.unit,
        about: table.about,
        printed,
        advice: table.advice,
        check: table.check.map(|CheckTable { is, within }| MetricCheck { is, within }),
        reference: table.reference.map(|bands| ReferenceBands {
            medium: bands.medium,
            high: bands.high,
            means: bands.means,
            source: bands.source,
        }),
    };
    if let Some(key) = table.key {
        // A metric that is written several times has the same key each time.
        let again = group.metrics.iter().any(|other| other.key == metric.key && other.name == metric.name);
        if known.contains(key.get_ref()) && !again {
            return Err(origin.error(key.span().start, format!("'{}' is there already", key.get_ref())));
        }
        if !again {
            known.push(key.into_inner());
        }
    }
    group.metrics.push(metric);
    Ok(())
}

fn formula(text: &Spanned<String>, origin: Origin) -> Result<Formula, DataFileError> {
    let at = text.span().start;
    // Past the quote that opens the text.
    Formula::parse(text.get_ref()).map_err(|error| origin.error(at + error.position, error.message))
}
