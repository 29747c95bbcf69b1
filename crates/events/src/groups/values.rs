//! What the metrics of a group come to.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{CYCLES, Metric, MetricGroup, PROGRAM_CYCLES, TIME};
use crate::{
    bound::BoundedValue,
    formula::{Absent, Formula},
};

/// A group as one machine has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen<'a> {
    /// The group.
    pub group: &'a MetricGroup,
    /// Input and the event that stands for it.
    pub events: Vec<(&'a str, &'a str)>,
    /// Inputs for which this machine has no event.
    pub missing: Vec<&'a str>,
    /// Metrics, one of each name.
    pub metrics: Vec<&'a Metric>,
}

/// Figures of a machine's profile by name.
pub type ProfileFigures<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// What formulas are given.
pub struct FormulaInputs<'a> {
    /// Counts by input.
    pub count: &'a dyn Fn(&str) -> Option<f64>,
    /// Seconds counted.
    pub seconds: Option<f64>,
    /// Cycles of the whole program, where the counts are those of a part of it.
    pub program_cycles: Option<f64>,
    /// Figures of the machine's profile by name, if it has one; with them constants are the machine's own.
    pub profile: Option<ProfileFigures<'a>>,
}

/// A value that lacks no part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeValue {
    /// In the unit of the metric.
    pub value: f64,
    /// How much higher it would be if nothing were cut off where events contradict each other; below 0, how much lower.
    pub cut_off: f64,
}

/// Between what a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueRange {
    /// It is as much or more.
    pub least: f64,
    /// It is as much or less.
    pub most: f64,
}

impl ValueRange {
    /// The part of it between two other bounds; where these contradict each other, all there is below the upper one.
    fn narrowed(self, least: f64, most: f64) -> Self {
        let most = most.clamp(self.least, self.most);
        Self { least: least.clamp(self.least, most), most }
    }
}

/// Bounds no further apart than this, in the unit of the metric, are an answer by themselves.
const NARROW: f64 = 20.0;

/// What one metric came to.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue<'a> {
    /// The metric.
    pub metric: &'a Metric,
    /// With the constants of the paper, inside its bounds; none where these are far apart and nothing says where between them.
    pub value: Result<BoundedValue, Absent>,
    /// Between what it lies, where its bounds are known.
    pub range: Option<ValueRange>,
    /// How much higher it would be if nothing were cut off where events contradict each other; below 0, how much lower.
    pub cut_off: f64,
    /// With those of the machine, as far as it has them; none where that changes nothing.
    pub measured: Option<BoundedValue>,
    /// By the formula as printed, where the paper slips.
    pub printed: Option<Result<BoundedValue, Absent>>,
}

/// A formula's value, with or without what it cuts off.
type HowComputed =
    fn(&Formula, &dyn Fn(&str) -> Result<BoundedValue, Absent>) -> Result<BoundedValue, Absent>;

/// Values by key, as far as they are known.
type Known = HashMap<String, Result<BoundedValue, Absent>>;

impl Chosen<'_> {
    /// Values of all metrics, from the counts by input and the seconds counted.
    pub fn values(
        &self,
        count: &dyn Fn(&str) -> Option<f64>,
        seconds: Option<f64>,
    ) -> Vec<(&Metric, Result<WholeValue, Absent>)> {
        let inputs = FormulaInputs { count, seconds, program_cycles: None, profile: None };
        let whole = |found: MetricValue<'_>| match found.value?.without.into_iter().next() {
            None => Ok(found.cut_off),
            Some(name) => Err(Absent::Missing(name)),
        };
        let value = |found: &MetricValue<'_>| found.value.as_ref().map_or(0.0, |value| value.value);
        let values = self.evaluate(&inputs).into_iter();
        values
            .map(|found| {
                let (metric, value) = (found.metric, value(&found));
                (metric, whole(found).map(|cut_off| WholeValue { value, cut_off }))
            })
            .collect()
    }

    /// Values of all metrics, in order.
    pub fn evaluate(&self, inputs: &FormulaInputs<'_>) -> Vec<MetricValue<'_>> {
        let mut known = self.constants(inputs, false);
        let mut own = inputs.profile.map(|_| self.constants(inputs, true));
        let mut values = Vec::new();
        for &metric in &self.metrics {
            let value = self.compute(&metric.formula, inputs, &known, Formula::bounded);
            let (value, range) = self.within(metric, value, inputs, &known);
            let uncapped = self.compute(&metric.formula, inputs, &known, Formula::bounded_uncapped);
            let cut_off = match (&value, uncapped) {
                (Ok(value), Ok(uncapped)) => uncapped.value - value.value,
                _ => 0.0,
            };
            let printed = metric
                .printed
                .as_ref()
                .map(|printed| self.compute(&printed.formula, inputs, &known, Formula::bounded));
            let measured = own.as_ref().map(|own| {
                let value = self.compute(&metric.formula, inputs, own, Formula::bounded);
                self.within(metric, value, inputs, own).0
            });
            if let Some(key) = &metric.key {
                known.insert(key.clone(), value.clone());
                if let (Some(own), Some(measured)) = (&mut own, &measured) {
                    own.insert(key.clone(), measured.clone());
                }
            }
            let measured = measured.and_then(Result::ok).filter(|found| Ok(found) != value.as_ref());
            values.push(MetricValue { metric, value, range, cut_off, measured, printed });
        }
        values
    }

    /// A value inside the bounds of its metric, and these; one whose bounds are far apart is a value only where that is clear.
    fn within(
        &self,
        metric: &Metric,
        value: Result<BoundedValue, Absent>,
        inputs: &FormulaInputs<'_>,
        known: &Known,
    ) -> (Result<BoundedValue, Absent>, Option<ValueRange>) {
        let Some(bounds) = &metric.bounds else { return (value, None) };
        let whole = |formula: &Formula| {
            let found = self.compute(formula, inputs, known, Formula::bounded).ok();
            // What lacks a part is no bound.
            found.filter(|found| found.without.is_empty()).map(|found| found.value)
        };
        let [Some(least), Some(most), Some(clear)] = [&bounds.least, &bounds.most, &bounds.clear].map(whole)
        else {
            return (value, None);
        };
        let range = ValueRange { least: least.min(most), most };
        let likely = bounds.likely.as_ref().map(|likely| likely.each_ref().map(whole));
        let ValueRange { least, most } = match likely {
            Some([Some(least), Some(most)]) => range.narrowed(least, most),
            _ => range,
        };
        let is_narrow = most - least <= NARROW;
        if clear <= 0.0 && !is_narrow {
            return (Err(Absent::Undecided(range.least, range.most, bounds.why.clone())), Some(range));
        }
        // Between narrow bounds no further from either than it need be.
        let (low, high) = match is_narrow {
            true => (least.max(most - NARROW / 2.0), most.min(least + NARROW / 2.0)),
            false => (least, most),
        };
        let inside = |found: BoundedValue| BoundedValue { value: found.value.clamp(low, high), ..found };
        (value.map(inside), Some(range))
    }

    /// The constants: the paper's where it has them, or those of a profile where that has them.
    fn constants(&self, inputs: &FormulaInputs<'_>, own_first: bool) -> Known {
        let value = |constant: &super::GroupConstant| {
            let measured = inputs.profile.zip(constant.measured.as_ref());
            let measured = measured.and_then(|(profile, formula)| formula.value(profile).ok());
            let found = if own_first { measured.or(constant.value) } else { constant.value.or(measured) };
            let name = || format!("{} ('memwall calibrate' measures it)", constant.name);
            found.map(BoundedValue::exact).ok_or_else(|| Absent::Missing(name()))
        };
        let constants = self.group.constants.iter();
        constants.map(|constant| (constant.name.clone(), value(constant))).collect()
    }

    fn compute(
        &self,
        formula: &Formula,
        inputs: &FormulaInputs<'_>,
        known: &Known,
        how: HowComputed,
    ) -> Result<BoundedValue, Absent> {
        let input = |name: &str| {
            if let Some(found) = known.get(name) {
                return found.clone();
            }
            let value = match name {
                TIME => inputs.seconds,
                PROGRAM_CYCLES => inputs.program_cycles.or_else(|| (inputs.count)(CYCLES)),
                input => (inputs.count)(input),
            };
            // Users know events, not inputs.
            let named = || self.event(name).unwrap_or(name).to_owned();
            value.map(BoundedValue::exact).ok_or_else(|| Absent::Missing(named()))
        };
        how(formula, &input)
    }

    /// What an input is taken for, if its group says so.
    pub fn purpose(&self, input: &str) -> Option<&str> {
        let found = self.group.purposes.iter().find(|(name, _)| name == input);
        found.map(|(_, purpose)| purpose.as_str())
    }

    /// The event that stands for an input; if there is none, the first that could.
    pub fn event(&self, input: &str) -> Option<&str> {
        let found = self.events.iter().find(|(name, _)| *name == input).map(|(_, event)| *event);
        let first =
            || self.group.inputs.iter().find(|(name, _)| name == input)?.1.first().map(String::as_str);
        found.or_else(first)
    }

    /// Inputs that a metric needs, those of metrics it uses included.
    pub fn inputs_of(&self, metric: &Metric) -> Vec<&str> {
        let mut inputs = Vec::new();
        self.collect_inputs(&metric.formula, &mut inputs);
        if let Some(bounds) = &metric.bounds {
            self.collect_inputs(&bounds.least, &mut inputs);
            self.collect_inputs(&bounds.most, &mut inputs);
            bounds.likely.iter().flatten().for_each(|likely| self.collect_inputs(likely, &mut inputs));
        }
        inputs
    }

    fn collect_inputs<'a>(&'a self, formula: &Formula, inputs: &mut Vec<&'a str>) {
        for name in formula.names() {
            let name = if name == PROGRAM_CYCLES { CYCLES } else { name };
            if let Some((input, _)) = self.group.inputs.iter().find(|(input, _)| input == name) {
                if !inputs.contains(&input.as_str()) {
                    inputs.push(input);
                }
            } else if let Some(metric) =
                self.metrics.iter().find(|metric| metric.key.as_deref() == Some(name))
            {
                self.collect_inputs(&metric.formula, inputs);
            }
        }
    }
}
