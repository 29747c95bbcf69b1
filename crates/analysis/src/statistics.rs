//! Shares and quantiles with the care that small numbers need.

use crate::findings::TimeShare;

/// Wilson's score interval at 95 %: sensible also for few samples and for shares near 0 and 1. None without samples.
pub(crate) fn share(part: f64, samples: f64) -> Option<TimeShare> {
    const Z: f64 = 1.96;
    if samples.is_nan() || samples <= 0.0 {
        return None;
    }
    let value = (part / samples).clamp(0.0, 1.0);
    let z2 = Z * Z / samples;
    let middle = (value + z2 / 2.0) / (1.0 + z2);
    let half = Z * (value * (1.0 - value) / samples + z2 / (4.0 * samples)).sqrt() / (1.0 + z2);
    let low = (middle - half).clamp(0.0, value);
    Some(TimeShare { value, low, high: (middle + half).clamp(value, 1.0) })
}

/// The value below which the given part of the sorted values lies; none of none.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part).round() as usize).copied()
}

/// The median of sorted values; none of none.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_say_little() {
        let few = share(2.0, 4.0).unwrap();
        let many = share(2000.0, 4000.0).unwrap();
        assert_eq!((few.value, many.value), (0.5, 0.5));
        assert!(few.high - few.low > 0.6 && many.high - many.low < 0.04);
        let none = share(0.0, 10.0).unwrap();
        assert!(none.low == 0.0 && none.high > 0.2 && none.high < 0.4);
        assert_eq!(share(0.0, 0.0), None);
    }

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!([median(&[]), median(&[3.0]), median(&[1.0, 2.0])], [None, Some(3.0), Some(1.5)]);
        assert_eq!(quantile(&[1.0, 2.0, 9.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 9.0], 1.0), Some(9.0));
    }
}
