//! Smaller machines that answer alike: caches, reach of the TLBs and memory divided, everything that counts time or
//! requests unchanged. With data divided by the same number, hit rates stay what they were.

use super::{CacheGeometry, InvalidModel, Model, ModelTlb, SourceNote};
use crate::Bytes;

/// Why a model has no smaller version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// Only powers of two keep the numbers of sets powers of two.
    #[error("cannot divide a machine by {0}; the divisor must be a power of two such as 16")]
    Divisor(u32),
    /// A cache would have less than one line.
    #[error("the {cache} of {size} has no part of 1/{divisor}; choose a smaller divisor")]
    TooSmall {
        /// Which cache.
        cache: &'static str,
        /// Its size before.
        size: Bytes,
        /// What it should be divided by.
        divisor: u32,
    },
    /// The smaller machine breaks a rule of models.
    #[error("the smaller machine is not valid: {0}")]
    Invalid(#[from] InvalidModel),
}

impl Model {
    /// The same machine with caches, data TLBs and memory divided by `divisor`. Ways and lines stay as long as there
    /// are sets to give up. Instruction cache and instruction TLB stay: code does not shrink with data.
    ///
    /// ```
    /// use machine::{Bytes, model::Model};
    /// let small = Model::builtin("haswell-ep-e5-2680v3")?.scaled(16)?;
    /// assert_eq!(small.l2.geometry.size, Bytes::kib(16));
    /// assert_eq!(small.l2.geometry.ways, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scaled(&self, divisor: u32) -> Result<Self, ScaleError> {
        if !divisor.is_power_of_two() {
            return Err(ScaleError::Divisor(divisor));
        }
        if divisor == 1 {
            return Ok(self.clone());
        }
        let mut model = self.clone();
        let slices = self.l3.map_or(1, |l3| l3.slices);
        model.l1d.geometry = divided("L1", &self.l1d.geometry, 1, divisor)?;
        model.l2.geometry = divided("L2", &self.l2.geometry, 1, divisor)?;
        if let Some(l3) = &mut model.l3 {
            l3.geometry = divided("L3", &l3.geometry, slices, divisor)?;
        }
        for level in [&mut model.tlb.l1_small, &mut model.tlb.l1_huge, &mut model.tlb.l2] {
            *level = fewer(*level, divisor);
        }
        model.memory.size = Bytes(self.memory.size.0 / u64::from(divisor));
        model.name = format!("{}/{divisor}", self.name);
        model.title = format!("{}, 1/{divisor} of its caches, TLB reach and memory", self.title);
        let l3 = if self.l3.is_some() { ", l3.geometry" } else { "" };
        model.sources.push(SourceNote {
            what: format!("l1d.geometry, l2.geometry{l3}, tlb, memory.size"),
            from: format!("those of {}, divided by {divisor}", self.name),
        });
        model.check()?;
        Ok(model)
    }
}

/// Sets go first, then ways.
fn divided(
    cache: &'static str,
    geometry: &CacheGeometry,
    slices: u32,
    divisor: u32,
) -> Result<CacheGeometry, ScaleError> {
    let too_small = ScaleError::TooSmall { cache, size: geometry.size, divisor };
    let by = u64::from(divisor);
    let sets = geometry.size.0 / (u64::from(geometry.ways) * geometry.line.0 * u64::from(slices));
    let ways = if sets >= by {
        u64::from(geometry.ways)
    } else {
        let ways = u64::from(geometry.ways) * sets / by;
        if ways * by != u64::from(geometry.ways) * sets {
            return Err(too_small);
        }
        ways
    };
    match u32::try_from(ways) {
        Ok(ways) if ways > 0 => Ok(CacheGeometry { size: Bytes(geometry.size.0 / by), ways, ..*geometry }),
        _ => Err(too_small),
    }
}

/// At least one entry stays.
fn fewer(level: ModelTlb, divisor: u32) -> ModelTlb {
    let sets = level.entries / level.ways;
    let sets_left = (sets / divisor).max(1);
    let ways = if sets >= divisor { level.ways } else { (level.entries / divisor).max(1) };
    ModelTlb { entries: sets_left * ways, ways }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_sixteenth() {
        for name in Model::builtin_names().filter(|&name| name != "tiny") {
            let whole = Model::builtin(name).expect("a model");
            let part = whole.scaled(16).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(part.l1d.geometry.size.0 * 16, whole.l1d.geometry.size.0);
            assert_eq!(part.l1d.geometry.ways, whole.l1d.geometry.ways);
            assert_eq!(part.l2.geometry.size.0 * 16, whole.l2.geometry.size.0);
            assert_eq!(part.l3.map(|l3| l3.geometry.size.0 * 16), whole.l3.map(|l3| l3.geometry.size.0));
            assert_eq!(part.tlb.l2.entries * 16, whole.tlb.l2.entries);
            assert_eq!((part.l1d.latency, part.core), (whole.l1d.latency, whole.core));
            assert_eq!(part.name, format!("{name}/16"));
        }
    }

    #[test]
    fn ways_go_when_no_set_is_left() {
        let whole = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
        let part = whole.scaled(128).expect("1/128");
        assert_eq!((part.l1d.geometry.size, part.l1d.geometry.ways), (Bytes(256), 4));
        assert_eq!((part.tlb.l1_small.entries, part.tlb.l1_huge.entries), (1, 1));
    }

    #[test]
    fn divisors_that_make_no_machine() {
        let tiny = Model::builtin("tiny").expect("a model");
        assert_eq!(tiny.scaled(1).as_ref(), Ok(&tiny));
        for divisor in [0, 3, 12] {
            assert_eq!(tiny.scaled(divisor), Err(ScaleError::Divisor(divisor)));
        }
        for divisor in [64, 1 << 20, 1 << 31] {
            let error = tiny.scaled(divisor).expect_err("too small");
            assert!(matches!(error, ScaleError::TooSmall { cache: "L1", .. }), "{error}");
        }
    }
}
