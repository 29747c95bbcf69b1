//! Values to dots along an axis, and round values to label.

use super::{Axis, PlottedQuantity, Scale};

/// An axis with the range it covers and the dots it is drawn on.
pub(crate) struct AxisRange {
    pub(crate) axis: Axis,
    low: f64,
    high: f64,
    dots: usize,
}

impl AxisRange {
    /// The range of `values`, all of which the scale can show; to round ends if `round`. `None` if they span
    /// nothing.
    pub(crate) fn new(
        axis: Axis,
        values: impl Iterator<Item = f64> + Clone,
        dots: usize,
        round: bool,
    ) -> Option<Self> {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match (axis.scale, round) {
            // One round value for all: room around it, so that there is a range.
            (Scale::Log, true) if round_up(high) < round_down(low) * 1.001 => (low / 2.0, high * 2.0),
            (Scale::Log, true) => (round_down(low), round_up(high)),
            (Scale::Log, false) => (low, high),
            (Scale::Linear, _) => (0.0, high),
        };
        (low < high).then_some(Self { axis, low, high, dots })
    }

    /// The dot of `value`, or `None` outside the range.
    pub(crate) fn dot(&self, value: f64) -> Option<usize> {
        let along = match self.axis.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        // A value on the very edge must not fall off it by rounding.
        (-1e-9..=1.0 + 1e-9)
            .contains(&along)
            .then(|| (along.clamp(0.0, 1.0) * (self.dots - 1) as f64).round() as usize)
    }

    /// Round values inside the range, ascending.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match (self.axis.scale, self.axis.quantity) {
            (Scale::Log, PlottedQuantity::Bytes) => {
                let (first, last) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
                (first..=last).map(|exponent| 2f64.powi(exponent)).collect()
            }
            (Scale::Log, _) => {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let values = (first..=last).flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e)));
                values.filter(|&value| self.dot(value).is_some()).collect()
            }
            (Scale::Linear, _) => {
                let step = round_down(self.high / 3.0);
                (0..=(self.high / step + 1e-9) as usize).map(|i| i as f64 * step).collect()
            }
        }
    }
}

/// The largest of 1, 2, 5 times a power of ten that is not above `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powi((value * (1.0 + 1e-9)).log10().floor() as i32);
    [5.0, 2.0, 1.0].into_iter().map(|m| m * power).find(|&v| v <= value * (1.0 + 1e-9)).unwrap_or(power)
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `value`: the series is its own reciprocal.
fn round_up(value: f64) -> f64 {
    1.0 / round_down(1.0 / value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_one_two_five() {
        for (value, down, up) in [(1.0, 1.0, 1.0), (3.0, 2.0, 5.0), (0.07, 0.05, 0.1), (480.0, 200.0, 500.0)]
        {
            assert!((round_down(value) / down - 1.0).abs() < 1e-6);
            assert!((round_up(value) / up - 1.0).abs() < 1e-6);
        }
    }
}
