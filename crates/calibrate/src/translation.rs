//! Step: what address translation costs with 4 KiB pages.
//!
//! One line is touched in each page, so that the data stay small while the pages grow many. How far the TLBs
//! reach shows against the same number of lines packed densely; what a walk costs, against the same addresses
//! on huge pages.

use machine::{
    Bytes, Profile,
    profile::{LatencyPoint, Tlb, TlbPoint},
};

use super::{
    knees::{CurvePoint, rises},
    session::Session,
};

/// Fewest pages: every first-level TLB holds them.
const FEWEST: u64 = 16;

/// Pages beyond every second-level TLB known (3072 entries), with room to see the far side.
const MOST_QUICK: u64 = 8 << 10;

/// As above, far enough to leave the page-walk caches too.
const MOST_FULL: u64 = 64 << 10;

const PAGE: u64 = 4096;

const LINE: u64 = 64;

/// The walk takes pages in groups of this many.
const GROUP: f64 = 4.0;

/// Both page sizes over growing numbers of pages.
pub(super) fn pages(session: &mut Session<'_>) {
    let (most, per_octave) = if session.request.quick { (MOST_QUICK, 1) } else { (MOST_FULL, 2) };
    let most = most.min(session.memory().0 / PAGE).max(FEWEST);
    let counts = page_counts(most, per_octave);
    let mut curve = Vec::new();
    for (done, &pages) in counts.iter().enumerate() {
        if session.interrupted() {
            break;
        }
        let remaining = 2 * (counts.len() - done);
        if let Some(small_ns) = walk(session, pages, false, remaining).map(|(latency, _)| latency) {
            let huge = walk(session, pages, true, remaining - 1);
            let huge_ns = huge.filter(|(_, all_huge)| *all_huge).map(|(latency, _)| latency);
            curve.push(TlbPoint { pages, small_ns, huge_ns });
        }
        session.progress((done + 1) as f64 / counts.len() as f64);
    }
    if curve.iter().any(|point| point.huge_ns.is_none()) {
        session.remark(
            "Huge pages could not be had for every size, so the cost of a page walk cannot be told from \
             that of a cache miss there."
                .to_owned(),
        );
    }
    if !curve.is_empty() {
        let extra_ns = |point: &TlbPoint| Some((point.small_ns.value - point.huge_ns?.value).max(0.0));
        let walk_penalty_ns = curve.last().and_then(extra_ns);
        session.profile.tlb = Some(Tlb { curve, reach_pages: Vec::new(), walk_penalty_ns });
    }
}

fn walk(
    session: &mut Session<'_>,
    pages: u64,
    huge: bool,
    remaining: usize,
) -> Option<(machine::profile::Estimate, bool)> {
    let job = session.job("chase-pages", Bytes(pages * PAGE), &[session.cpu])?;
    let measured = session.measure(&if huge { job } else { job.on_small_pages() }, remaining)?;
    measured.step_ns().map(|latency| (latency, measured.all_huge()))
}

fn page_counts(most: u64, per_octave: u32) -> Vec<u64> {
    let octaves = (most as f64 / FEWEST as f64).log2();
    let mut counts: Vec<u64> = (0..=(octaves * f64::from(per_octave)) as u32)
        .map(|step| FEWEST as f64 * 2f64.powf(f64::from(step) / f64::from(per_octave)))
        .map(|pages| ((pages / GROUP).round() * GROUP) as u64)
        .collect();
    counts.dedup();
    counts
}

/// What address translation adds to a load at a random place, by the number of pages in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TranslationCost {
    /// Pages a level of TLBs reaches, and nanoseconds added when it misses.
    levels: Vec<(f64, f64)>,
}

impl TranslationCost {
    /// From walks over pages and the latency of as many lines packed densely.
    ///
    /// Packed lines are in the same caches and on few pages: what a walk costs beyond them is translation.
    /// Huge pages would do as a reference on bare metal; a guest's may be small pages to its host, and then
    /// run out of TLB entries as early.
    fn new(walks: &[(u64, f64)], dense: &[LatencyPoint]) -> Self {
        // As if all data were in the first-level cache: its latency plus what translation adds.
        let base_ns = walks.iter().map(|walk| walk.1).fold(f64::INFINITY, f64::min);
        let translated: Vec<CurvePoint> = walks
            .iter()
            .filter_map(|&(pages, walk_ns)| {
                let extra_ns = (walk_ns - packed_latency_ns(dense, pages * LINE)?).max(0.0);
                Some(CurvePoint { size: Bytes(pages), latency_ns: base_ns + extra_ns })
            })
            .collect();
        let found = rises(&translated);
        Self {
            levels: found.iter().map(|rise| (rise.capacity.value, rise.outer_ns - rise.inner_ns)).collect(),
        }
    }

    /// Nanoseconds per load of a chase over `size` bytes. It comes to a page at random, so a TLB that reaches
    /// `r` of `n` pages misses with probability `1 - r/n`.
    fn at(&self, size: Bytes) -> f64 {
        let pages = size.0 as f64 / PAGE as f64;
        self.levels.iter().map(|(reach, cost_ns)| cost_ns * (1.0 - reach / pages).max(0.0)).sum()
    }

    /// The pages of the innermost TLB that runs out of entries, if any does.
    pub(super) fn first_reach(&self) -> Option<u64> {
        self.levels.first().map(|(reach, _)| reach.round() as u64)
    }

    /// The points without translation, so that what is left are the caches.
    pub(super) fn taken_from(&self, points: &[CurvePoint]) -> Vec<CurvePoint> {
        let least_ns = points.iter().map(|point| point.latency_ns).fold(f64::INFINITY, f64::min);
        let caches_alone = |point: &CurvePoint| CurvePoint {
            latency_ns: (point.latency_ns - self.at(point.size)).max(least_ns),
            ..*point
        };
        points.iter().map(caches_alone).collect()
    }
}

/// Fills in how far the TLBs reach, now that there is a latency curve to tell them from the caches. Returns
/// what translation costs on the pages that curve was measured with.
pub(super) fn against_curve(profile: &mut Profile) -> TranslationCost {
    let dense = &profile.latency_curve;
    let Some(tlb) = &mut profile.tlb else {
        return TranslationCost::default();
    };
    let small: Vec<(u64, f64)> = tlb.curve.iter().map(|point| (point.pages, point.small_ns.value)).collect();
    let on_small = TranslationCost::new(&small, dense);
    tlb.reach_pages = on_small.levels.iter().map(|(reach, _)| reach.round() as u64).collect();
    if dense.iter().any(|point| !point.huge_pages) {
        return on_small;
    }
    let huge: Option<Vec<(u64, f64)>> =
        tlb.curve.iter().map(|point| Some((point.pages, point.huge_ns?.value))).collect();
    huge.map_or_else(TranslationCost::default, |walks| TranslationCost::new(&walks, dense))
}

/// Latency of a dense chase over so many bytes, from the curve, straight between its points in log size.
fn packed_latency_ns(dense: &[LatencyPoint], bytes: u64) -> Option<f64> {
    let after = dense.iter().position(|point| point.size.0 >= bytes)?;
    let (x1, y1) = (dense[after].size.0 as f64, dense[after].latency_ns.value);
    let Some(before) = after.checked_sub(1).map(|before| &dense[before]) else {
        return Some(y1);
    };
    let (x0, y0) = (before.size.0 as f64, before.latency_ns.value);
    let share = (bytes as f64 / x0).ln() / (x1 / x0).ln();
    Some(y0 + share * (y1 - y0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::profile::Estimate;

    fn exactly(value: f64) -> Estimate {
        Estimate { value, low: value, high: value, samples: 9 }
    }

    /// Translation costs 2 ns beyond 64 pages and 10 ns beyond 2048, on top of a cache that holds 512 lines.
    fn imagined(with_huge: bool) -> (Vec<TlbPoint>, Vec<LatencyPoint>) {
        let cache_ns = |lines: u64| if lines > 512 { 4.0 } else { 1.0 };
        let walks = page_counts(64 << 10, 2).into_iter().map(|pages| {
            let translation_ns = [0.0, 2.0, 10.0][usize::from(pages > 64) + usize::from(pages > 2048)];
            TlbPoint {
                pages,
                small_ns: exactly(cache_ns(pages) + translation_ns),
                huge_ns: with_huge.then(|| exactly(cache_ns(pages))),
            }
        });
        let dense = host::sizes::sweep(Bytes::kib(4), Bytes::mib(8), 4).expect("a sweep");
        let dense = dense.into_iter().map(|size| LatencyPoint {
            size,
            latency_ns: exactly(cache_ns(size.0 / LINE)),
            huge_pages: with_huge,
        });
        (walks.collect(), dense.collect())
    }

    fn costs(walks: &[TlbPoint], huge: bool, dense: &[LatencyPoint]) -> TranslationCost {
        let latency = |point: &TlbPoint| if huge { point.huge_ns } else { Some(point.small_ns) };
        let walks: Vec<(u64, f64)> =
            walks.iter().filter_map(|point| Some((point.pages, latency(point)?.value))).collect();
        TranslationCost::new(&walks, dense)
    }

    #[test]
    fn reach_is_told_apart_from_the_caches() {
        let (walks, dense) = imagined(true);
        let found = costs(&walks, false, &dense).levels;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((64.0..=90.0).contains(&found[0].0) && (2048.0..=2900.0).contains(&found[1].0), "{found:?}");
        assert!((found[0].1 - 2.0).abs() < 0.1 && (found[1].1 - 8.0).abs() < 0.1, "{found:?}");
        // Huge pages that are huge cost nothing.
        assert_eq!(costs(&walks, true, &dense), TranslationCost::default());
    }

    #[test]
    fn without_a_reference_nothing_is_made_up() {
        let (walks, _) = imagined(false);
        assert_eq!(costs(&walks, false, &[]), TranslationCost::default());
    }

    #[test]
    fn a_chase_misses_the_tlb_as_often_as_chance_has_it() {
        let cost = TranslationCost { levels: vec![(64.0, 2.0)] };
        assert_eq!(cost.at(Bytes::kib(128)), 0.0);
        assert_eq!(cost.at(Bytes::kib(512)), 1.0);
        let flat: Vec<CurvePoint> = [128u64, 256, 512, 1024, 4096]
            .map(|kib| CurvePoint { size: Bytes::kib(kib), latency_ns: 4.0 + cost.at(Bytes::kib(kib)) })
            .into();
        assert!(cost.taken_from(&flat).iter().all(|point| (point.latency_ns - 4.0).abs() < 1e-9));
    }

    #[test]
    fn counts_double_or_better() {
        assert_eq!(page_counts(128, 1), [16, 32, 64, 128]);
        assert_eq!(page_counts(32, 2), [16, 24, 32]);
        assert_eq!(page_counts(16, 2), [16]);
    }
}
