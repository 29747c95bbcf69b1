//! Latency curves of imagined machines, for the tests of what reads such curves.

use machine::Bytes;

use super::knees::{CurvePoint, Thoroughness, next_size};

/// How a level gives up lines when the data no longer fit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Replacement {
    /// A cyclic walk misses every time as soon as it does not fit.
    Lru,
    /// The share that still hits is capacity over size.
    Random,
}

/// An imagined machine.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Of each cache, innermost first.
    pub(crate) capacities: Vec<f64>,
    /// Of each cache, then of memory.
    pub(crate) latencies: Vec<f64>,
    replacement: Option<Replacement>,
    noisy: bool,
}

impl Model {
    fn new(capacities_kib: &[f64], latencies: &[f64]) -> Self {
        Self {
            capacities: capacities_kib.iter().map(|kib| kib * 1024.0).collect(),
            latencies: latencies.to_vec(),
            replacement: None,
            noisy: false,
        }
    }

    pub(crate) fn two_levels() -> Self {
        Self::new(&[32.0, 1024.0], &[1.2, 5.0, 90.0])
    }

    pub(crate) fn three_levels() -> Self {
        Self::new(&[48.0, 2048.0, 24576.0], &[1.1, 4.0, 21.0, 110.0])
    }

    pub(crate) fn four_levels() -> Self {
        Self::new(&[32.0, 512.0, 6144.0, 65536.0], &[1.0, 3.5, 14.0, 45.0, 130.0])
    }

    /// A guest whose share of the last level is hardly larger than its private cache.
    pub(crate) fn small_share_of_l3() -> Self {
        Self::new(&[32.0, 1024.0, 6144.0], &[1.2, 4.5, 16.0, 120.0])
    }

    pub(crate) fn with(mut self, replacement: Replacement) -> Self {
        self.replacement = Some(replacement);
        self
    }

    /// Two per cent of noise on every point, and one in thirty is disturbed badly.
    pub(crate) fn noisy(mut self) -> Self {
        self.noisy = true;
        self
    }

    /// Latency without noise.
    pub(crate) fn latency(&self, size: f64) -> f64 {
        match self.replacement.unwrap_or(Replacement::Lru) {
            Replacement::Lru => {
                self.latencies[self.capacities.iter().filter(|&&capacity| size > capacity).count()]
            }
            Replacement::Random => {
                let mut inner = 0.0;
                let mut time = 0.0;
                for (level, &latency) in self.latencies.iter().enumerate() {
                    let reach = self.capacities.get(level).copied().unwrap_or(f64::INFINITY).min(size);
                    time += (reach - inner).max(0.0) * latency;
                    inner = reach.max(inner);
                }
                time / size
            }
        }
    }

    /// Measures as a calibration does: a coarse sweep, then wherever the planner asks.
    pub(crate) fn explore(&self, asked: &Thoroughness, seed: u64) -> Vec<CurvePoint> {
        let mut random = Random::of(seed);
        let mut measure = |size: Bytes| {
            let mut latency_ns = self.latency(size.0 as f64);
            if self.noisy {
                latency_ns *= 1.0 + 0.02 * random.normal();
                if random.uniform() < 1.0 / 30.0 {
                    latency_ns *= 1.5 + 1.5 * random.uniform();
                }
            }
            CurvePoint { size, latency_ns }
        };
        let largest = Bytes((self.capacities[self.capacities.len() - 1] * 16.0) as u64);
        let coarse = host::sizes::sweep(Bytes::kib(4), largest, 2).expect("a sweep");
        let mut points: Vec<CurvePoint> = coarse.into_iter().map(&mut measure).collect();
        while let Some(size) = next_size(&points, asked) {
            points.push(measure(size));
            assert!(points.len() < 500, "the planner does not come to an end");
        }
        points
    }
}

/// A small generator; the tests must repeat.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Near enough to normal for noise.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
