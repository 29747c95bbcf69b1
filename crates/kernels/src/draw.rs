//! Random indices from the distributions of casas2017 Table 2, fast enough for a kernel's loop.
//!
//! A kernel cannot afford an inverse normal per access, so it draws through a table of 1024 equally likely slots.
//! One step of the [`Lcg`] gives *x*; its top 10 bits choose the slot, the next 32 bits the place within:
//!
//! ```text
//! x     ← x · 6364136223846793005 + 1442695040888963407
//! entry ← table[x >> 54]                      start: low 32 bits, span: high 32 bits
//! index ← start + ((((x >> 22) & 0xffffffff) · span) >> 32)
//! ```
//!
//! The low 22 bits of *x* are not used: they are the poor ones of such a generator. Within a slot all elements
//! are equally likely, so the probabilities are a staircase under the true density. [`DrawTable::pmf_of_range`]
//! gives them exactly, and the models of [`DrawTable::hit_rate_che`] and [`DrawTable::hit_rate_casas`] use the
//! staircase, so that they predict what the kernel does and not what the textbook says.

use std::num::NonZeroU64;

mod distribution;
mod generators;
mod hit_rate;

pub use distribution::{Distribution, UnknownDistribution};
pub use generators::{LCG_INCREMENT, LCG_MULTIPLIER, Lcg, SplitMix};

/// Slots of a table.
pub const SLOTS: usize = 1024;

/// How far *x* is shifted down to give the slot.
pub const SLOT_SHIFT: u32 = 54;

/// How far *x* is shifted down to give the place within the slot, in its low 32 bits.
pub const FRACTION_SHIFT: u32 = 22;

/// Bits of *x* that choose the place within a slot.
const FRACTION_BITS: u32 = 32;

/// Equally likely values of the used bits of *x*: slots times fractions, 2⁴².
const OUTCOMES: u64 = (SLOTS as u64) << FRACTION_BITS;

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// Nothing to draw from.
    #[error("there is nothing to draw from: the buffer holds no whole element; make it larger")]
    NoElements,
    /// An index would not fit an entry.
    #[error("cannot draw from {elements} elements, at most 4294967295; make the buffer smaller")]
    TooManyElements {
        /// What was asked for.
        elements: u64,
    },
}

/// The table a kernel draws from.
///
/// ```
/// use kernels::draw::{Distribution, DrawTable, Lcg};
/// let table = DrawTable::new(Distribution::Exp4, 1_000_000)?;
/// let mut lcg = Lcg::new(1);
/// assert!((0..1000).all(|_| table.index(lcg.next()) < 1_000_000));
/// # Ok::<(), kernels::draw::DrawError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawTable {
    entries: Box<[u64; SLOTS]>,
    elements: u64,
}

/// One slot: `span` elements from `start`, or the element `start` alone where the span is 0.
#[derive(Clone, Copy)]
struct DrawSlot {
    start: u64,
    span: u64,
}

impl DrawSlot {
    fn unpack(entry: u64) -> Self {
        Self { start: entry & u64::from(u32::MAX), span: entry >> 32 }
    }

    /// One past the last element the slot can give.
    fn end(self) -> u64 {
        self.start + self.span.max(1)
    }

    /// How many of the 2³² fractions give an element below `index`. The fraction *f* gives an element below
    /// start + *j* exactly if *f* · span < *j* · 2³², hence the ceiling.
    fn fractions_below(self, index: u64) -> u64 {
        if index >= self.end() {
            1 << FRACTION_BITS
        } else {
            // Not reached with a span of 0, except for an index at the start.
            (index.saturating_sub(self.start) << FRACTION_BITS).div_ceil(self.span.max(1))
        }
    }
}

/// Neighbouring lines that are equally likely.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DrawRun {
    lines: f64,
    /// Of each line.
    probability: f64,
}

impl DrawTable {
    /// The table of `distribution` over `elements` elements.
    ///
    /// Slot *k* covers the elements from ⌊quantile(*k*/1024)⌋ up to ⌊quantile((*k*+1)/1024)⌋, so every element is
    /// in a slot. Where several slots fall into one element, their span is 0 and they give that element.
    pub fn new(distribution: Distribution, elements: u64) -> Result<Self, DrawError> {
        match elements {
            0 => return Err(DrawError::NoElements),
            1..=0xffff_ffff => {}
            _ => return Err(DrawError::TooManyElements { elements }),
        }
        let bound = |slot: usize| match slot {
            0 => 0,
            SLOTS => elements,
            _ => {
                let place = distribution.quantile(slot as f64 / SLOTS as f64) * elements as f64;
                // Below the end even if rounding says otherwise: the last slot must not be empty.
                (place as u64).min(elements - 1)
            }
        };
        let mut entries = Box::new([0; SLOTS]);
        let mut start = 0;
        for (slot, entry) in entries.iter_mut().enumerate() {
            let end = bound(slot + 1).max(start);
            *entry = start | (end - start) << 32;
            start = end;
        }
        Ok(Self { entries, elements })
    }

    /// The entries, for machine code.
    pub fn entries(&self) -> &[u64; SLOTS] {
        &self.entries
    }

    /// How many elements are drawn from.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The index that the generator's state `x` gives; always below [`DrawTable::elements`].
    pub fn index(&self, x: u64) -> u64 {
        let slot = DrawSlot::unpack(self.entries[(x >> SLOT_SHIFT) as usize]);
        let fraction = (x >> FRACTION_SHIFT) & 0xffff_ffff;
        slot.start + ((fraction * slot.span) >> FRACTION_BITS)
    }

    /// Exact probability that an index is in `low..high`, over all states of the generator.
    pub fn pmf_of_range(&self, low: u64, high: u64) -> f64 {
        let count = self.outcomes_below(high).saturating_sub(self.outcomes_below(low));
        count as f64 / OUTCOMES as f64
    }

    /// How many of the 2⁴² outcomes give an element below `index`.
    fn outcomes_below(&self, index: u64) -> u64 {
        let whole = self.entries.partition_point(|&entry| DrawSlot::unpack(entry).end() <= index);
        let part = self.entries.get(whole).map_or(0, |&entry| DrawSlot::unpack(entry).fractions_below(index));
        ((whole as u64) << FRACTION_BITS) + part
    }

    /// The probabilities of all lines of `granule` elements, in order, equal neighbours together: at most one run
    /// inside each slot and one for the line across its end. (Rounding of the 2³² fractions, at most 2⁻⁴² per
    /// element, is left out.)
    fn runs(&self, granule: NonZeroU64) -> Vec<DrawRun> {
        let granule = granule.get();
        let share = 1.0 / SLOTS as f64;
        let mut runs = Vec::with_capacity(2 * SLOTS);
        // The line being filled, which may get more from the next slot.
        let (mut line, mut filled) = (0, 0.0);
        for slot in self.entries.iter().map(|&entry| DrawSlot::unpack(entry)) {
            let each = share / (slot.end() - slot.start) as f64;
            let (first, last) = (slot.start / granule, (slot.end() - 1) / granule);
            if first != line {
                runs.push(DrawRun { lines: 1.0, probability: filled });
                (line, filled) = (first, 0.0);
            }
            if first == last {
                filled += share;
                continue;
            }
            filled += ((first + 1) * granule - slot.start) as f64 * each;
            runs.push(DrawRun { lines: 1.0, probability: filled });
            if last - first > 1 {
                runs.push(DrawRun { lines: (last - first - 1) as f64, probability: granule as f64 * each });
            }
            (line, filled) = (last, (slot.end() - last * granule) as f64 * each);
        }
        runs.push(DrawRun { lines: 1.0, probability: filled });
        runs
    }
}

#[cfg(test)]
mod tests;
