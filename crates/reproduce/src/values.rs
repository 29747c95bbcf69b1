//! What names in formulas stand for, and what is taken of several values.

use crate::{metrics, paper::Summary, squeezed};

/// Names of what a run did by construction; all others are events.
const OF_WORK: [&str; 26] = [
    "time",
    "cores",
    "instructions",
    "loads",
    "stores",
    "branches",
    "flops",
    "cycles",
    "chain",
    "handed_over",
    "l1_in",
    "l1_in_read",
    "l1_in_owned",
    "l1_out",
    "l2_in",
    "l2_in_read",
    "l2_in_owned",
    "l2_out",
    "l3_in",
    "l3_in_read",
    "l3_in_owned",
    "l3_out",
    "past",
    "sampled_latency",
    "samples",
    "core_hz",
];
/// Names that a row gives itself.
const OF_ROW: [&str; 2] = ["ours", "published"];

/// Whether a name without a setup is an event.
pub fn is_event(name: &str) -> bool {
    let of_victim = name.starts_with(squeezed::PREFIX);
    !OF_WORK.contains(&name) && !OF_ROW.contains(&name) && !name.starts_with("row::") && !of_victim
}

/// The event behind a name, or the group: `EVENT@cpu0` is one of `EVENT`.
pub fn event_of(name: &str) -> &str {
    if let Some(group) = metrics::group_of(name) {
        return group;
    }
    match name.rsplit_once("@cpu") {
        Some((event, cpu)) if cpu.bytes().all(|digit| digit.is_ascii_digit()) => event,
        _ => name,
    }
}

/// One value of several; none of none.
pub fn summary(summary: Summary, values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)?;
    Some(match summary {
        Summary::Mean | Summary::Separates => mean,
        Summary::Least => values.iter().copied().fold(f64::INFINITY, f64::min),
        Summary::Most => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Summary::Worst => values
            .iter()
            .copied()
            .fold(0.0, |worst: f64, value| if value.abs() > worst.abs() { value } else { worst }),
        Summary::Variation if values.len() < 2 || mean == 0.0 => return None,
        Summary::Variation => {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            100.0 * (squares / (count - 1.0)).sqrt() / mean.abs()
        }
    })
}

/// How much of a resource a setup draws, and how much slower each of its threads is than alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReaderLoad {
    /// By all threads together.
    pub by: f64,
    /// Time over that of the same work on one core; none of what runs alone, or where nobody ran it alone.
    pub slowdown: Option<f64>,
}

impl ReaderLoad {
    /// Whether the resource is what limits it, of which `highest` is the most that any setup draws; none in between.
    ///
    /// Bandwidth alone does not tell: a prefetcher may draw all there is while nobody waits (helm2019 §6.3, of Fig. 9). The bounds
    /// are those of `memwall validate`.
    fn saturated(&self, highest: f64) -> Option<bool> {
        let share = self.by / highest;
        if share >= 0.9 && self.slowdown.is_some_and(|slower| slower >= 1.1) {
            return Some(true);
        }
        let unharmed = self.slowdown.is_some_and(|slower| slower <= 1.05);
        (share <= 0.7 || unharmed).then_some(false)
    }
}

/// Of pairs of a saturated setup and one that is not, how many `values` put in the right order, percent; equal ones count half.
pub fn separation(values: &[f64], drawn: &[ReaderLoad]) -> Option<f64> {
    let highest = drawn.iter().map(|one| one.by).fold(f64::NEG_INFINITY, f64::max);
    let those = |wanted: bool| {
        let pairs = values.iter().zip(drawn);
        pairs.filter(move |(_, one)| one.saturated(highest) == Some(wanted)).map(|(value, _)| *value)
    };
    let (mut right, mut pairs) = (0.0, 0.0);
    for high in those(true) {
        for low in those(false) {
            pairs += 1.0;
            right += if high > low {
                1.0
            } else if high == low {
                0.5
            } else {
                0.0
            };
        }
    }
    (pairs > 0.0).then(|| 100.0 * right / pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_few_values() {
        let of = |kind, values: &[f64]| summary(kind, values);
        assert_eq!(of(Summary::Mean, &[]), None);
        assert_eq!(of(Summary::Variation, &[1.0]), None);
        assert_eq!(of(Summary::Worst, &[1.0, -3.0, 2.0]), Some(-3.0));
        assert!(of(Summary::Variation, &[99.0, 101.0]).is_some_and(|cv| (cv - 2f64.sqrt()).abs() < 1e-9));
    }

    #[test]
    fn a_setup_is_saturated_where_much_is_drawn_and_somebody_is_slower_for_it() {
        let drawn = |by, slowdown| ReaderLoad { by, slowdown };
        let all = [drawn(10.0, None), drawn(50.0, Some(1.3)), drawn(100.0, Some(2.0))];
        assert_eq!(separation(&[1.0, 2.0, 3.0], &all), Some(100.0));
        assert_eq!(separation(&[3.0, 2.0, 1.0], &all), Some(0.0));
        // All is drawn and nobody waits: a low latency is right there.
        let eased = [drawn(10.0, None), drawn(98.0, Some(1.02)), drawn(100.0, Some(2.0))];
        assert_eq!(separation(&[1.0, 2.0, 3.0], &eased), Some(100.0));
        // Neither: left out.
        let between = [drawn(10.0, None), drawn(80.0, Some(1.3)), drawn(100.0, Some(2.0))];
        assert_eq!(separation(&[1.0, 9.0, 3.0], &between), Some(100.0));
        assert_eq!(separation(&[1.0], &[drawn(1.0, None)]), None);
    }

    #[test]
    fn events_are_what_no_work_does() {
        assert!(is_event("L1D.REPLACEMENT") && !is_event("loads") && !is_event("ours"));
        assert_eq!(event_of("AVX_INSTS.CALC@cpu1"), "AVX_INSTS.CALC");
        assert_eq!(event_of("L2_RQSTS.RFO_HIT@0x42"), "L2_RQSTS.RFO_HIT@0x42");
    }
}
