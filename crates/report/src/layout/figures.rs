//! Single numbers as table cells. What was not measured is a dash, never a zero.

use machine::{
    Bytes,
    profile::Estimate,
    units::{nanos, significant},
};

use crate::{
    layout::style::{PLAIN, QUIET, WARNING},
    layout::table::Cell,
};

/// Stands for a value that is not there.
pub const ABSENT: &str = "–";
/// Stands before a value whose confidence interval is wide.
pub const ROUGH: &str = "~";
/// Half the confidence interval over the value, above which a value counts as rough.
pub const ROUGH_ABOVE: f64 = 0.10;
/// Stands for a value whose confidence interval is so wide that the value would say nothing.
pub const UNTOLD: &str = "?";
/// Half the confidence interval over the value, above which a value is not shown.
pub const UNTOLD_ABOVE: f64 = 1.0;
/// Fewer samples than this cannot give a 95 % interval of the median: 1 − 2·½ⁿ is below it.
pub const SAMPLES_FOR_INTERVAL: usize = 6;

/// A dash.
pub fn absent() -> Cell {
    Cell::styled(ABSENT, QUIET)
}

/// Whether the interval of `estimate` is too wide to show the value unmarked.
pub fn is_rough(estimate: &Estimate) -> bool {
    // An undefined precision is not a good one.
    !matches!(estimate.precision(), precision if precision <= ROUGH_ABOVE)
}

/// Three significant digits, or a dash for what is absent or no number.
pub fn number(value: Option<f64>) -> Cell {
    match value {
        Some(value) if value.is_finite() => significant(value, 3).into(),
        _ => absent(),
    }
}

/// A ratio as per cent, the unit being in the column's head. Tenths below ten.
pub fn percent(ratio: Option<f64>) -> Cell {
    match ratio {
        Some(ratio) if ratio.is_finite() => percent_text(ratio).into(),
        _ => absent(),
    }
}

/// A ratio as per cent without the sign.
pub fn percent_text(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        p if p > 0.0 && p < 0.05 => "<0.1".to_owned(),
        p if p < 9.95 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    }
}

/// A time with its unit.
pub fn time(ns: f64) -> Cell {
    if ns.is_finite() { nanos(ns).into() } else { absent() }
}

/// A metric's value in a unit that reads well.
pub fn scaled(value: Option<f64>, unit: &str) -> (Option<f64>, String) {
    let large = |value: f64, unit: &str| match value.abs() {
        v if v >= 1e9 => (Some(value / 1e9), format!("G{unit}")),
        v if v >= 1e6 => (Some(value / 1e6), format!("M{unit}")),
        v if v >= 1e3 => (Some(value / 1e3), format!("k{unit}")),
        _ => (Some(value), unit.to_owned()),
    };
    match (value, unit) {
        (Some(value), "B" | "B/s" | "flop/s" | "Hz" | "flop" | "/s") => large(value, unit),
        (value, "1") => (value, String::new()),
        (value, unit) => (value, unit.to_owned()),
    }
}

/// Values of one metric, all in the unit that suits the largest of them.
pub fn scaled_alike(values: &[Option<f64>], unit: &str) -> (Vec<Option<f64>>, String) {
    let largest = values.iter().flatten().copied().max_by(|one, other| one.abs().total_cmp(&other.abs()));
    let (shown, shown_unit) = scaled(largest, unit);
    let factor = match (shown, largest) {
        (Some(shown), Some(largest)) if largest != 0.0 => shown / largest,
        _ => 1.0,
    };
    (values.iter().map(|value| value.map(|value| value * factor)).collect(), shown_unit)
}

/// An estimate divided by `unit`, marked if rough.
pub fn estimate(estimate: Option<&Estimate>, unit: f64) -> Cell {
    marked(estimate, |value| significant(value / unit, 3))
}

/// An estimated capacity, marked if rough.
pub fn capacity(estimate: Option<&Estimate>) -> Cell {
    marked(estimate, |value| Bytes(value.max(0.0).round() as u64).to_string())
}

fn marked(estimate: Option<&Estimate>, show: impl Fn(f64) -> String) -> Cell {
    match estimate.and_then(|estimate| Some((estimate, marked_text(estimate, show)?))) {
        Some((estimate, text)) => Cell::styled(text, if is_rough(estimate) { WARNING } else { PLAIN }),
        None => absent(),
    }
}

/// The value of an estimate with the mark its interval deserves; `None` for what is no number.
pub fn marked_text(estimate: &Estimate, show: impl Fn(f64) -> String) -> Option<String> {
    match estimate.value {
        value if !value.is_finite() => None,
        _ if estimate.precision() > UNTOLD_ABOVE => Some(UNTOLD.to_owned()),
        value if is_rough(estimate) => Some(format!("{ROUGH}{}", show(value))),
        value => Some(show(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64, half: f64) -> Estimate {
        Estimate { value, low: value - half, high: value + half, samples: 9 }
    }

    #[test]
    fn wide_intervals_are_marked() {
        assert_eq!(estimate(Some(&of(50.0, 4.9)), 1.0).text(), "50.0");
        assert_eq!(estimate(Some(&of(50.0, 5.1)), 1.0).text(), "~50.0");
        assert_eq!(capacity(Some(&of(49152.0, 20000.0))).text(), "~48 KiB");
        assert_eq!(estimate(Some(&of(50.0, f64::NAN)), 1.0).text(), "~50.0");
        let starved = Estimate { value: 2.1, low: 1.9, high: 2800.0, samples: 5 };
        assert_eq!(estimate(Some(&starved), 1.0).text(), UNTOLD);
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        for cell in [number(None), number(Some(f64::NAN)), percent(None), estimate(None, 1e9), capacity(None)]
        {
            assert_eq!(cell.text(), ABSENT);
        }
        assert_eq!(estimate(Some(&of(f64::INFINITY, 1.0)), 1.0).text(), ABSENT);
    }

    #[test]
    fn small_shares_do_not_become_zero() {
        assert_eq!(percent_text(0.0), "0.0");
        assert_eq!(percent_text(0.0001), "<0.1");
        assert_eq!(percent_text(0.0123), "1.2");
        assert_eq!(percent_text(0.0997), "10");
        assert_eq!(percent_text(1.0), "100");
    }
}
