//! Periods that do not march in step with the program.

/// How far periods are spread, and the seed they are drawn with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// The most a period may differ from the one asked for, as a share of it: 0.1 for ±10 %.
    pub share: f64,
    /// The same seed draws the same periods.
    pub seed: u64,
}

/// Draws one period after the other, and keeps account of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Periods {
    mean: u64,
    spread: u64,
    state: u64,
    /// Rates (1 / period) drawn since the last mark, and how many.
    rates: f64,
    drawn: u32,
    /// Rates of the time before, times that time.
    passed: f64,
    passed_ns: f64,
}

impl Periods {
    pub fn new(mean: u64, jitter: Option<Jitter>) -> Self {
        let share = jitter.map_or(0.0, |jitter| jitter.share.clamp(0.0, 0.5));
        let spread = (mean as f64 * share) as u64;
        let state = jitter.map_or(0, |jitter| jitter.seed);
        Self { mean, spread, state, rates: 0.0, drawn: 0, passed: 0.0, passed_ns: 0.0 }
    }

    pub fn are_all_the_same(&self) -> bool {
        self.spread == 0
    }

    /// Between `mean - spread` and `mean + spread`, and never 0.
    pub fn draw(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let width = 2 * u128::from(self.spread) + 1;
        let above = ((u128::from(word) * width) >> 64) as u64;
        let period = (self.mean - self.spread).saturating_add(above).max(1);
        self.rates += 1.0 / period as f64;
        self.drawn += 1;
        period
    }

    /// The periods drawn so far held for `ns`; others are about to be drawn.
    pub fn mark(&mut self, ns: f64) {
        self.passed += self.rate() * ns;
        self.passed_ns += ns;
        (self.rates, self.drawn) = (0.0, 0);
    }

    /// Time per sample over all that was marked and the `ns` since.
    pub fn mean_over(&self, ns: f64) -> f64 {
        let (time, samples) = (self.passed_ns + ns, self.passed + self.rate() * ns);
        if samples > 0.0 { time / samples } else { 1.0 / self.rate() }
    }

    /// The mean rate of the periods in force.
    fn rate(&self) -> f64 {
        if self.drawn == 0 { 1.0 / self.mean.max(1) as f64 } else { self.rates / f64::from(self.drawn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_periods_stay_near_the_mean_and_differ() {
        let mut periods = Periods::new(1_000_000, Some(Jitter { share: 0.1, seed: 7 }));
        let drawn: Vec<_> = (0..1000).map(|_| periods.draw()).collect();
        assert!(drawn.iter().all(|period| (900_000..=1_100_000).contains(period)));
        let mean = drawn.iter().sum::<u64>() / 1000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
        let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert!(distinct.len() > 950);
        let again = Periods::new(1_000_000, Some(Jitter { share: 0.1, seed: 7 })).draw();
        assert_eq!(again, drawn[0]);
    }

    #[test]
    fn the_mean_is_that_of_the_time_each_period_held() {
        let mut periods = Periods::new(1000, Some(Jitter { share: 0.5, seed: 7 }));
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
        assert!(near(periods.mean_over(0.0), 1000.0));
        let first = periods.draw() as f64;
        assert!(near(periods.mean_over(0.0), first) && near(periods.mean_over(5e6), first));
        periods.mark(3e6);
        let second = periods.draw() as f64;
        let samples = 3e6 / first + 1e6 / second;
        assert!(near(periods.mean_over(1e6), 4e6 / samples));
    }

    #[test]
    fn extremes() {
        assert_eq!(Periods::new(1000, None).draw(), 1000);
        assert_eq!(Periods::new(0, None).draw(), 1);
        let mut wide = Periods::new(u64::MAX, Some(Jitter { share: f64::INFINITY, seed: 1 }));
        assert!((0..100).all(|_| wide.draw() >= u64::MAX / 4));
        assert_eq!(Periods::new(9, Some(Jitter { share: f64::NAN, seed: 1 })).draw(), 9);
    }
}
