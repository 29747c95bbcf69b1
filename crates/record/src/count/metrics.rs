//! What groups say over counted repetitions.

use events::{
    BoundedValue, Count, ValueBound,
    groups::{
        CYCLES, Chosen, FormulaInputs, Metric, MetricBar, MetricValue, ProfileFigures, ReferenceBands,
        ValueRange,
    },
};
use serde::{Deserialize, Serialize};
use trust::Standing;

use super::{CountedRun, MeasuredBy, PackageMetrics, total};

/// Parts may differ from their whole by this share of it without a word (kruse2011 ch. 4: the error is typically below 3 %).
const APART: f64 = 0.03;
/// Below this share of the whole its parts leave something unexplained.
const EXPLAINED: f64 = 0.8;
/// How units of shares begin.
const SHARE: &str = "% of ";
/// An impact from this share of the cycles on gets its advice.
const WORTH_ADVICE: f64 = 0.1;

/// What a group says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupMetrics {
    /// Its name.
    pub group: String,
    /// Its metrics.
    pub metrics: Vec<CountedMetric>,
    /// The paper and section it is from.
    #[serde(default)]
    pub source: Option<String>,
    /// Wholes and their parts.
    #[serde(default)]
    pub bars: Vec<CountedBar>,
    /// Numbers of the paper, beside those measured on this machine.
    #[serde(default)]
    pub constants: Vec<CountedConstant>,
    /// What could stall the program and was not counted, in words.
    #[serde(default)]
    pub uncounted: Vec<String>,
    /// What does not add up, in plain sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The same of each package, where its events were counted apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageMetrics>,
}

/// One metric over all repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedMetric {
    /// Its name.
    pub name: String,
    /// Its unit; `1` for a plain ratio.
    pub unit: String,
    /// What it tells.
    pub about: String,
    /// One per repetition that has it.
    pub values: Vec<f64>,
    /// One per interval of the first repetition, where it was cut into intervals; none where it lacks it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Option<f64>>,
    /// Between what it lies, one per repetition, where events say so; a repetition may have this and no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<ValueRange>,
    /// Why repetitions lack it, each reason once.
    pub missing: Vec<String>,
    /// The events behind it.
    pub events: Vec<String>,
    /// What each of these is taken for, by the key of a purpose; none if it is taken for whatever it is best at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub purposes: Vec<Option<String>>,
    /// What was cut off from each value because events contradict each other, in its unit; below 0 what was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_off: Vec<f64>,
    /// How far it can be believed here; none if nobody tried. Of a broken metric no value is kept.
    pub trust: Option<Standing>,
    /// On which side of the truth the values lie, where a part is missing.
    #[serde(default)]
    pub bound: ValueBound,
    /// The parts that are missing.
    #[serde(default)]
    pub without: Vec<String>,
    /// With the penalties measured on this machine instead of the paper's; empty where that changes nothing.
    #[serde(default)]
    pub measured: Vec<f64>,
    /// As the paper prints it, where it slips.
    #[serde(default)]
    pub printed: Option<PrintedMetric>,
    /// What to do about it, where it is large enough.
    #[serde(default)]
    pub advice: Option<String>,
    /// Low, medium or high.
    #[serde(default)]
    pub level: Option<MetricLevel>,
}

/// A metric by the formula that a paper prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrintedMetric {
    /// The formula, in the names of the group's inputs.
    pub formula: String,
    /// One per repetition that has it.
    pub values: Vec<f64>,
    /// What is wrong with it.
    pub note: String,
}

/// Where a metric lies between low and high.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricLevel {
    /// 0 low, 1 medium, 2 high.
    pub level: u8,
    /// Medium from here on.
    pub medium: f64,
    /// High from here on.
    pub high: f64,
    /// What that means.
    pub means: String,
    /// Where the limits come from.
    pub source: String,
}

/// A whole and its parts, means over repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedBar {
    /// What is divided.
    pub title: String,
    /// The metric that is the whole; none where shares of one thing are divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The whole, if it was counted.
    pub whole: Option<f64>,
    /// Its unit, and that of the parts.
    pub unit: String,
    /// The parts that have a value.
    pub parts: Vec<BarPart>,
    /// The parts that have none.
    pub missing: Vec<String>,
}

/// A part of a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarPart {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// With the penalties measured on this machine, where that is another.
    pub measured: Option<f64>,
}

/// A number of a paper beside the machine's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedConstant {
    /// Its name in formulas.
    pub name: String,
    /// What the paper has; none of a figure that every machine has its own of.
    pub value: Option<f64>,
    /// Where it is from.
    pub source: String,
    /// What was measured on this machine.
    pub measured: Option<f64>,
    /// By what; where several figures make it, `validate` if one of them is its.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<MeasuredBy>,
}

impl CountedMetric {
    /// Between what it lies, over all repetitions.
    pub fn range(&self) -> Option<ValueRange> {
        let joined = |one: ValueRange, other: ValueRange| ValueRange {
            least: one.least.min(other.least),
            most: one.most.max(other.most),
        };
        self.between.iter().copied().reduce(joined)
    }
}

impl CountedBar {
    /// All parts together.
    pub fn sum(&self) -> f64 {
        self.parts.iter().map(|part| part.value).sum()
    }

    /// What shares are of: the whole, or the parts together where they are more or it is not known.
    pub fn base(&self) -> f64 {
        self.whole.map_or_else(|| self.sum(), |whole| whole.max(self.sum()))
    }
}

/// Who measured a figure, by its name.
pub type FigureMakers<'a> = &'a dyn Fn(&str) -> Option<MeasuredBy>;

/// What formulas are given beside counts.
#[derive(Clone, Copy, Default)]
pub struct MetricsAround<'a> {
    /// Figures of the machine by name, if it was measured.
    pub profile: Option<ProfileFigures<'a>>,
    /// Who measured a figure, if that is known.
    pub measured_by: Option<FigureMakers<'a>>,
    /// Cycles of the whole program, where the counts are those of a part of it.
    pub program_cycles: Option<f64>,
}

/// Cycles of the whole program over its repetitions, by the event that a group takes for them.
pub fn program_cycles(inputs: &[(&str, usize)], program: &[CountedRun]) -> Option<f64> {
    let (_, event) = inputs.iter().find(|(name, _)| *name == CYCLES)?;
    mean(&estimates(program, *event))
}

/// The metrics of a group over repetitions; `inputs` names the event of each of its inputs by index. A repetition whose
/// duration is not known, 0, has no rates.
pub fn group_metrics(
    chosen: &Chosen<'_>,
    inputs: &[(&str, usize)],
    runs: &[CountedRun],
    around: MetricsAround<'_>,
) -> GroupMetrics {
    let MetricsAround { profile, program_cycles, .. } = around;
    let mut metrics: Vec<CountedMetric> = chosen.metrics.iter().map(|metric| begin(chosen, metric)).collect();
    let mut cycles = Vec::new();
    let counted = runs.iter().any(|run| has_any(run, inputs));
    for run in runs.iter().filter(|run| !counted || has_any(run, inputs)) {
        let event = |input: &str| inputs.iter().find(|(name, _)| *name == input).map(|(_, event)| *event);
        // A pass that was made once more has some of the events: the others enter with their mean.
        let count = |input: &str| {
            let event = event(input)?;
            match total(&run.counts, event, |_| true) {
                Some(found) => found.estimate(),
                None => mean(&estimates(runs, event)),
            }
        };
        let lacks = inputs.iter().any(|(_, event)| total(&run.counts, *event, |_| true).is_none());
        let elapsed_ns = match lacks {
            false => run.elapsed_ns as f64,
            true => runs.iter().map(|run| run.elapsed_ns as f64).sum::<f64>() / runs.len() as f64,
        };
        let seconds = (elapsed_ns > 0.0).then_some(elapsed_ns / 1e9);
        cycles.extend(count(CYCLES));
        let given = FormulaInputs { count: &count, seconds, program_cycles, profile };
        for (metric, value) in metrics.iter_mut().zip(chosen.evaluate(&given)) {
            add(metric, value);
        }
    }
    add_series(&mut metrics, chosen, inputs, runs.first(), around);
    metrics
        .iter_mut()
        .filter(|one| one.cut_off.iter().all(|cut| *cut == 0.0))
        .for_each(|one| one.cut_off.clear());
    let mut group = GroupMetrics {
        group: chosen.group.name.clone(),
        source: chosen.group.source.clone(),
        uncounted: chosen.group.uncounted.clone(),
        constants: constants(chosen, around),
        ..GroupMetrics::default()
    };
    let cycles = mean(&cycles);
    for (counted, metric) in metrics.iter_mut().zip(&chosen.metrics) {
        judge(counted, metric, cycles, &mut group.remarks);
    }
    group.bars = chosen.group.bars.iter().map(|wanted| bar(wanted, chosen, &metrics)).collect();
    group.metrics = metrics;
    let remarks: Vec<String> = group.bars.iter().filter_map(|bar| adds_up(bar, &group)).collect();
    group.remarks.extend(remarks);
    group
}

/// Whether a run counted any of the inputs.
fn has_any(run: &CountedRun, inputs: &[(&str, usize)]) -> bool {
    run.counts.iter().any(|count| inputs.iter().any(|(_, event)| *event == count.event))
}

/// What runs that counted an event counted.
fn estimates(runs: &[CountedRun], event: usize) -> Vec<f64> {
    runs.iter().filter_map(|run| total(&run.counts, event, |_| true)?.estimate()).collect()
}

/// All places of an input's event together.
fn count_of(inputs: &[(&str, usize)], counts: &[Count], input: &str) -> Option<f64> {
    let (_, event) = inputs.iter().find(|(name, _)| *name == input)?;
    total(counts, *event, |_| true)?.estimate()
}

/// The same metrics interval by interval.
fn add_series(
    metrics: &mut [CountedMetric],
    chosen: &Chosen<'_>,
    inputs: &[(&str, usize)],
    run: Option<&CountedRun>,
    around: MetricsAround<'_>,
) {
    // An interval is a part of its run.
    let own = || program_cycles(inputs, std::slice::from_ref(run?));
    let program_cycles = around.program_cycles.or_else(own);
    let mut began_ns = 0;
    for interval in run.into_iter().flat_map(|run| &run.intervals) {
        let count = |input: &str| count_of(inputs, &interval.counts, input);
        let lasted = interval.end_ns.saturating_sub(began_ns);
        began_ns = interval.end_ns;
        let seconds = (lasted > 0).then_some(lasted as f64 / 1e9);
        let given = FormulaInputs { count: &count, seconds, program_cycles, profile: around.profile };
        for (metric, found) in metrics.iter_mut().zip(chosen.evaluate(&given)) {
            let value = found.value.ok().and_then(|value| as_share(value, &metric.unit).ok());
            metric.series.push(value.map(|value| value.value));
        }
    }
}

fn begin(chosen: &Chosen<'_>, metric: &Metric) -> CountedMetric {
    let inputs: Vec<&str> =
        chosen.inputs_of(metric).into_iter().filter(|input| chosen.event(input).is_some()).collect();
    let purposes: Vec<_> = inputs.iter().map(|input| chosen.purpose(input).map(str::to_owned)).collect();
    CountedMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        about: metric.about.clone(),
        events: inputs.iter().filter_map(|input| chosen.event(input)).map(str::to_owned).collect(),
        purposes: if purposes.iter().any(Option::is_some) { purposes } else { Vec::new() },
        printed: metric.printed.as_ref().map(|printed| PrintedMetric {
            formula: printed.formula.text().to_owned(),
            values: Vec::new(),
            note: printed.note.clone(),
        }),
        ..CountedMetric::default()
    }
}

fn add(metric: &mut CountedMetric, found: MetricValue<'_>) {
    metric.between.extend(found.range);
    let value = found.value.map_err(|reason| reason.to_string());
    match value.and_then(|value| as_share(value, &metric.unit)) {
        Ok(BoundedValue { value, bound, without }) => {
            metric.values.push(value);
            metric.cut_off.push(found.cut_off);
            metric.bound = metric.bound.and(bound);
            for name in without {
                if !metric.without.contains(&name) {
                    metric.without.push(name);
                }
            }
        }
        Err(reason) => {
            if !metric.missing.contains(&reason) {
                metric.missing.push(reason);
            }
        }
    }
    metric.measured.extend(found.measured.map(|measured| measured.value));
    if let (Some(printed), Some(Ok(value))) = (&mut metric.printed, found.printed) {
        printed.values.push(value.value);
    }
}

/// How far above its whole a share may come out by the way events are counted, in percent: less is printed as the whole.
const ROUNDED: f64 = 0.5;

/// What claims to be a share of something must be one: more than all of it, or less than nothing, is no value.
fn as_share(found: BoundedValue, unit: &str) -> Result<BoundedValue, String> {
    let Some(whole) = unit.strip_prefix(SHARE) else { return Ok(found) };
    match found.value {
        value if value > 100.0 + ROUNDED => Err(format!(
            "{value:.0} % is no share of {whole}: its events count more than that, or something else besides"
        )),
        value if value < -ROUNDED => Err(format!(
            "{value:.0} % is no share of {whole}: what is taken off is more than what it is taken from"
        )),
        value => Ok(BoundedValue { value: value.clamp(0.0, 100.0), ..found }),
    }
}

/// Advice, level and checks of a metric that has a value.
fn judge(counted: &mut CountedMetric, metric: &Metric, cycles: Option<f64>, remarks: &mut Vec<String>) {
    let Some(value) = mean(&counted.values) else { return };
    counted.level = metric.reference.as_ref().map(|bands| level(bands, value));
    let matters = match (&counted.level, metric.unit.as_str()) {
        (Some(level), _) => level.level > 0,
        (None, "cycles") => cycles.is_some_and(|cycles| value >= WORTH_ADVICE * cycles),
        (None, "% of cycles") => value >= 100.0 * WORTH_ADVICE,
        _ => false,
    };
    counted.advice = metric.advice.clone().filter(|_| matters);
    if let Some(check) = metric.check
        && (value - check.is).abs() > check.within
    {
        remarks.push(format!(
            "{}: {value:.1} {} instead of {} ± {}: the parts do not make up the whole.",
            metric.name, metric.unit, check.is, check.within
        ));
    }
}

fn level(bands: &ReferenceBands, value: f64) -> MetricLevel {
    let level = u8::from(value >= bands.medium) + u8::from(value >= bands.high);
    MetricLevel {
        level,
        medium: bands.medium,
        high: bands.high,
        means: bands.means[usize::from(level)].clone(),
        source: bands.source.clone(),
    }
}

fn constants(chosen: &Chosen<'_>, around: MetricsAround<'_>) -> Vec<CountedConstant> {
    let constants = chosen.group.constants.iter();
    constants
        .map(|constant| {
            let formula = around.profile.zip(constant.measured.as_ref());
            let measured = formula.and_then(|(profile, formula)| formula.value(profile).ok());
            let by = |name: &str| (around.measured_by?)(name);
            let names = constant.measured.iter().flat_map(|formula| formula.names());
            CountedConstant {
                name: constant.name.clone(),
                value: constant.value,
                source: constant.source.clone(),
                measured,
                measured_by: measured.and_then(|_| names.filter_map(by).max()),
            }
        })
        .collect()
}

fn bar(wanted: &MetricBar, chosen: &Chosen<'_>, metrics: &[CountedMetric]) -> CountedBar {
    let keyed = |key: &String| {
        let place = chosen.metrics.iter().position(|metric| metric.key.as_ref() == Some(key))?;
        metrics.get(place)
    };
    let parts: Vec<&CountedMetric> = wanted.parts.iter().filter_map(keyed).collect();
    let of = wanted.of.as_ref().and_then(keyed);
    let (whole, unit) = match &wanted.of {
        Some(_) => (of.and_then(|metric| mean(&metric.values)), of.map(|metric| metric.unit.as_str())),
        // Shares of the same are of all of it.
        None => {
            let unit = parts.first().map(|first| first.unit.as_str()).filter(|unit| unit.starts_with(SHARE));
            let unit = unit.filter(|unit| parts.iter().all(|part| part.unit == *unit));
            (unit.map(|_| 100.0), unit)
        }
    };
    let mut bar = CountedBar {
        title: wanted.title.clone(),
        of: of.map(|metric| metric.name.clone()),
        whole,
        unit: unit.unwrap_or_default().to_owned(),
        parts: Vec::new(),
        missing: Vec::new(),
    };
    for metric in parts {
        match mean(&metric.values) {
            Some(value) => bar.parts.push(BarPart {
                name: metric.name.clone(),
                value: value.max(0.0),
                measured: mean(&metric.measured),
            }),
            None => bar.missing.push(metric.name.clone()),
        }
    }
    bar
}

/// A sentence where the parts of a bar are more, or far less, than their whole.
fn adds_up(bar: &CountedBar, group: &GroupMetrics) -> Option<String> {
    let whole = bar.whole.filter(|whole| *whole > 0.0 && !bar.parts.is_empty())?;
    let share = bar.sum() / whole;
    if bar.unit.starts_with(SHARE) {
        let apart = share > 1.0 + APART || share < 1.0 - APART && bar.missing.is_empty();
        let why = if share > 1.0 { "they overlap" } else { "the rest is in none of them" };
        return apart.then(|| {
            format!("The parts of '{}' come to {:.0} {}: {why}.", bar.title, 100.0 * share, bar.unit)
        });
    }
    if share > 1.0 + APART {
        return Some(format!(
            "The parts of '{}' come to {share:.2} times the whole: they overlap, and none of them is a share of time.",
            bar.title
        ));
    }
    (share < EXPLAINED && !group.uncounted.is_empty() && bar.title.contains("stalled")).then(|| {
        format!(
            "The parts of '{}' explain {:.0} % of it. What cannot be counted: {}.",
            bar.title,
            100.0 * share,
            group.uncounted.join("; ")
        )
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
