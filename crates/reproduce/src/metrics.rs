//! Metrics of groups in formulas: `ACCOUNTING.stalled_share` is what `memwall count -g ACCOUNTING` shows as "stalled share".

use std::collections::BTreeSet;

use events::{MetricGroup, groups::Chosen};

use crate::measure::SetupReading;

/// The group whose metric a name is.
pub(crate) fn group_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(group, _)| group).filter(|group| is_group(group))
}

/// Whether a group, or several for different machines, have this name.
pub(crate) fn is_group(name: &str) -> bool {
    MetricGroup::all().iter().any(|group| group.name == name || group.family.as_deref() == Some(name))
}

/// A metric's name as it stands in formulas: "stalled share" is `stalled_share`.
pub(crate) fn in_formulas(metric: &str) -> String {
    metric.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// A group as a machine has it, under the name that was asked for.
pub(crate) struct AskedGroup {
    name: String,
    chosen: Chosen<'static>,
}

impl AskedGroup {
    /// None if no group has the name.
    pub(crate) fn new(name: &str, has: &dyn Fn(&str) -> bool) -> Option<Self> {
        let chosen = MetricGroup::fitting(name, has).filter(|_| is_group(name))?.choose(has);
        Some(Self { name: name.to_owned(), chosen })
    }

    /// What has to be counted for it.
    pub(crate) fn add_events(&self, events: &mut BTreeSet<String>) {
        events.extend(self.chosen.events.iter().map(|(_, event)| (*event).to_owned()));
    }

    /// Its metrics of what was counted, with the constants of its paper.
    pub(crate) fn add_to(&self, reading: &mut SetupReading) {
        let event = |input: &str| self.chosen.events.iter().find(|(name, _)| *name == input);
        let count = |input: &str| event(input).and_then(|(_, event)| reading.values.get(*event).copied());
        let seconds = reading.values.get("time").copied();
        let found: Vec<_> = self
            .chosen
            .values(&count, seconds)
            .into_iter()
            .map(|(metric, value)| (format!("{}.{}", self.name, in_formulas(&metric.name)), value))
            .collect();
        for (name, value) in found {
            match value {
                Ok(value) => _ = reading.values.insert(name, value.value),
                Err(absent) => _ = reading.missing.insert(name, absent.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_from_events() {
        assert_eq!(group_of("ACCOUNTING.stalled_share"), Some("ACCOUNTING"));
        assert_eq!(group_of("RESOURCE_STALLS.SB"), None);
        assert_eq!(in_formulas("L2 misses of counted stalls"), "l2_misses_of_counted_stalls");
    }
}
