//! Metrics over time and the use of each level, as every form shows them.

use analysis::views::{EventLine, EventViews};
use record::count::{CountedMetric, Counts};

use super::figures::{number, scaled};

/// Pictures in one view, as many as kruse2011's graphs fit one (§5.1).
pub const MOST_LINES: usize = 12;

/// A metric interval by interval.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricLine {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// One per interval; none where it has no value.
    pub values: Vec<Option<f64>>,
}

impl MetricLine {
    /// The largest value; none of nothing.
    pub fn most(&self) -> Option<f64> {
        self.values.iter().flatten().copied().reduce(f64::max)
    }

    /// The smallest value; none of nothing.
    pub fn least(&self) -> Option<f64> {
        self.values.iter().flatten().copied().reduce(f64::min)
    }

    /// In at most `parts` parts: the mean of the intervals that share one.
    pub fn parts(&self, parts: usize) -> Vec<Option<f64>> {
        let each = self.values.len().div_ceil(parts.max(1)).max(1);
        let mean = |part: &[Option<f64>]| {
            let known: Vec<f64> = part.iter().flatten().copied().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        self.values.chunks(each).map(mean).collect()
    }

    /// Name, unit and range in words.
    pub fn words(&self) -> String {
        let [(least, lower), (most, upper)] = [self.least(), self.most()].map(|value| {
            let (value, unit) = scaled(value, &self.unit);
            (number(value).text().to_owned(), unit)
        });
        let lower = if lower == upper { String::new() } else { format!(" {lower}") };
        format!("{}: {least}{lower} to {most} {upper}", self.name).trim_end().to_owned()
    }
}

/// Several metrics over the same intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeLines {
    /// Ends of the intervals.
    pub ends_ns: Vec<u64>,
    /// At most [`MOST_LINES`].
    pub lines: Vec<MetricLine>,
    /// Metrics beyond those.
    pub left_out: usize,
}

impl TimeLines {
    /// Of counts; nothing where they were not cut into intervals.
    pub fn of(counts: &Counts) -> Self {
        let ends_ns: Vec<u64> = counts
            .runs
            .first()
            .map_or_else(Vec::new, |run| run.intervals.iter().map(|one| one.end_ns).collect());
        let metrics = counts.metrics.iter().flat_map(|group| &group.metrics);
        let is_line = |metric: &&CountedMetric| metric.series.iter().flatten().count() > 1;
        let mut lines: Vec<MetricLine> = Vec::new();
        for metric in metrics.filter(is_line) {
            // Groups share metrics.
            if lines.iter().all(|line| line.name != metric.name) {
                let (name, unit) = (metric.name.clone(), metric.unit.clone());
                lines.push(MetricLine { name, unit, values: metric.series.clone() });
            }
        }
        let left_out = lines.len().saturating_sub(MOST_LINES);
        lines.truncate(MOST_LINES);
        Self { ends_ns, lines, left_out }
    }
}

/// Sampled events over time, and how much of their cycles is stalled.
pub fn of_views(views: &EventViews) -> TimeLines {
    let found = &views.over_time;
    let line = |line: &EventLine| MetricLine {
        name: views.events[line.event].name.clone(),
        unit: "/s".to_owned(),
        values: line.per_second.clone(),
    };
    let percent = |share: &Option<f64>| share.map(|share| 100.0 * share);
    let stalled = (!found.stalled.is_empty()).then(|| MetricLine {
        name: "stalled cycles".to_owned(),
        unit: "% of cycles".to_owned(),
        values: found.stalled.iter().map(percent).collect(),
    });
    let mut lines: Vec<MetricLine> = stalled.into_iter().chain(found.lines.iter().map(line)).collect();
    let intervals = lines.first().map_or(0, |line| line.values.len()) as u64;
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let ends_ns = (1..=intervals).map(|number| number.saturating_mul(found.interval_ns)).collect();
    TimeLines { ends_ns, lines, left_out }
}

/// A level, controller or link, and how much of what it gives is used.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedLevel {
    /// `L2`, `memory`.
    pub name: String,
    /// Share of the most that was measured, or why there is none.
    pub used: Result<f64, String>,
    /// How much passes, with its unit.
    pub rate: Option<(f64, String)>,
}

/// From the core outwards; others behind.
const ORDER: [&str; 5] = ["L1", "L2", "L3", "memory", "link"];

/// What metrics called `… utilisation` say.
pub fn used_levels(counts: &Counts) -> Vec<UsedLevel> {
    let metrics = || counts.metrics.iter().flat_map(|group| &group.metrics);
    let mut levels: Vec<UsedLevel> = Vec::new();
    for metric in metrics() {
        let Some(name) = metric.name.strip_suffix(" utilisation") else { continue };
        let used = mean(&metric.values).map(|percent| percent / 100.0);
        let used = used.ok_or_else(|| metric.missing.join("; "));
        let known = levels.iter().position(|level| level.name == name);
        // Both directions together where they are counted so, else the busier one.
        let rates = metrics().filter(|other| other.unit == "B/s" && other.name.starts_with(name));
        let rate = rates.filter_map(|other| mean(&other.values)).reduce(f64::max);
        let rate = rate.map(|rate| (rate, "B/s".to_owned()));
        match known {
            Some(at) if levels[at].used.is_err() => {
                levels[at] = UsedLevel { name: name.to_owned(), used, rate }
            }
            Some(_) => {}
            None => levels.push(UsedLevel { name: name.to_owned(), used, rate }),
        }
    }
    let rank = |level: &UsedLevel| ORDER.iter().position(|name| *name == level.name).unwrap_or(ORDER.len());
    levels.sort_by_key(rank);
    levels
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use record::count::{CountedInterval, CountedRun, GroupMetrics};

    use super::*;

    pub fn metric(name: &str, unit: &str, values: &[f64], series: &[Option<f64>]) -> CountedMetric {
        CountedMetric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            values: values.to_vec(),
            series: series.to_vec(),
            missing: if values.is_empty() { vec!["no peak was measured".to_owned()] } else { Vec::new() },
            ..CountedMetric::default()
        }
    }

    pub fn counts() -> Counts {
        let interval = |end_ns| CountedInterval { end_ns, counts: Vec::new() };
        Counts {
            target: "app".to_owned(),
            runs: vec![CountedRun {
                elapsed_ns: 400,
                ending: None,
                usage: None,
                counts: Vec::new(),
                intervals: (1..=4).map(|number| interval(number * 100)).collect(),
            }],
            metrics: vec![GroupMetrics {
                group: "G".to_owned(),
                metrics: vec![
                    metric(
                        "memory utilisation",
                        "% of the measured peak",
                        &[80.0],
                        &[Some(60.0), None, Some(90.0), Some(90.0)],
                    ),
                    metric("memory read bandwidth", "B/s", &[5e9], &[]),
                    metric("memory bandwidth", "B/s", &[8e9], &[Some(6e9), None, Some(9e9), Some(9e9)]),
                    metric("L2 utilisation", "% of the measured peak", &[], &[None; 4]),
                    metric("CPI", "1", &[2.0], &[]),
                ],
                ..GroupMetrics::default()
            }],
            ..Counts::default()
        }
    }

    #[test]
    fn lines_keep_gaps_and_share_parts_by_their_mean() {
        let lines = TimeLines::of(&counts());
        let names: Vec<&str> = lines.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!((names, lines.ends_ns.len()), (vec!["memory utilisation", "memory bandwidth"], 4));
        assert_eq!(lines.lines[0].parts(2), [Some(60.0), Some(90.0)], "what is missing is no 0");
        assert_eq!(lines.lines[0].words(), "memory utilisation: 60.0 to 90.0 % of the measured peak");
        assert_eq!(TimeLines::of(&Counts::default()), TimeLines::default());
    }

    #[test]
    fn levels_stand_from_the_core_outwards_and_say_why_they_have_no_value() {
        let levels = used_levels(&counts());
        let names: Vec<&str> = levels.iter().map(|level| level.name.as_str()).collect();
        assert_eq!(names, ["L2", "memory"]);
        assert_eq!(levels[0].used, Err("no peak was measured".to_owned()));
        assert_eq!(
            (levels[1].used.clone(), levels[1].rate.clone()),
            (Ok(0.8), Some((8e9, "B/s".to_owned())))
        );
    }
}
