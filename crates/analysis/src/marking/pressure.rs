//! Saturation that hurts, told from saturation that does not (helm2019 §7): prefetchers can keep memory busy without a
//! load that waits any longer.

use record::count::Counts;
use trust::{Indicator, Standing, TrustCatalogue};

/// From this share of the measured peak on memory is called busy.
const BUSY_PERCENT: f64 = 60.0;

/// What the counts say about it, in sentences; nothing without a threshold of this machine.
pub(super) fn remarks(counts: &Counts, catalogue: &TrustCatalogue) -> Vec<String> {
    let mean = |name: &str| {
        let mut metrics = counts.metrics.iter().flat_map(|group| &group.metrics);
        let metric = metrics.find(|metric| metric.name == name)?;
        let broken = metric.trust.as_ref().is_some_and(Standing::is_broken);
        let values = Some(&metric.values).filter(|_| !broken)?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let threshold = catalogue.threshold(&Indicator::LoadMissRealLatency);
    let (Some(latency), Some(threshold)) = (mean("load-miss real latency"), threshold) else {
        return Vec::new();
    };
    let busy = mean("memory utilisation").filter(|percent| *percent >= BUSY_PERCENT);
    let compared = format!(
        "Loads that miss wait {latency:.0} cycles; above {:.0} this machine's loads wait for bandwidth",
        threshold.value
    );
    let sentence = match (latency > threshold.value, busy) {
        (true, Some(percent)) => {
            format!("{compared}, and memory is busy ({percent:.0} % of its peak): it holds the program back.")
        }
        (true, None) => format!("{compared}: it holds the program back."),
        (false, Some(percent)) => {
            format!("{compared}. Memory is busy ({percent:.0} % of its peak) without harm.")
        }
        (false, None) => format!("{compared}: it does not hold the program back."),
    };
    vec![sentence]
}
