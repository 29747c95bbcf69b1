//! The hybrid of helm2019 §7 in words.

use analysis::{findings::KnownLimits, hybrid::HybridFindings};

use super::{
    prose::{counted, visible},
    series::MetricLine,
};

/// What it is called.
pub const HEADING: &str = "Waiting for bandwidth, by events";

/// What it says, in sentences.
pub fn sentences(found: &KnownLimits<HybridFindings>) -> Vec<String> {
    let found = match found {
        KnownLimits::Missing(reason) => {
            return vec![format!("Not told: {}.", visible(reason).trim_end_matches('.'))];
        }
        KnownLimits::Value(found) => found,
    };
    let known = found.intervals.iter().filter(|interval| interval.latency_cycles.is_some()).count();
    let mut all = vec![format!(
        "In {} of {known} intervals loads that miss wait longer than {:.0} cycles, above which this machine's loads wait for \
         bandwidth ({}).",
        found.flagged,
        found.threshold_cycles,
        visible(&found.source)
    )];
    let slow = counted(usize::try_from(found.slow_loads).unwrap_or(usize::MAX), "sampled load");
    all.push(match (found.flagged, found.blamed_loads) {
        (0, _) => format!("No interval is short of bandwidth: {slow} as slow as that blame nothing."),
        (_, 0) => format!("Of {slow} as slow as that none lies in these intervals: nothing is named."),
        (_, blamed) => format!(
            "Of {slow} as slow as that {blamed} lie in these intervals; they alone name code and data."
        ),
    });
    if found.walked_loads > 0 {
        let walked = counted(usize::try_from(found.walked_loads).unwrap_or(usize::MAX), "other");
        all.push(format!("{walked} as slow waited for a page walk, which is no bandwidth: left out."));
    }
    all
}

/// Latency over time.
pub fn line(found: &HybridFindings) -> MetricLine {
    MetricLine {
        name: "load-miss real latency".to_owned(),
        unit: "cycles".to_owned(),
        values: found.intervals.iter().map(|interval| interval.latency_cycles).collect(),
    }
}
