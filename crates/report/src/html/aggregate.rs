//! A run over time, small enough to put into a page: how many samples of each row and activity fall into each interval.
//!
//! The size does not grow with the number of samples: intervals, rows and cells are capped, and what is not kept by
//! itself is kept together, so that sums over a range stay whole.

use analysis::{
    findings::{Findings, ThreadActivity},
    reading::SamplePart,
};
use serde::Serialize;

/// Intervals, at most.
pub const MOST_INTERVALS: usize = 600;
/// Rows of each view that are kept by themselves, at most.
pub const MOST_ROWS: usize = 400;
/// Cells of each view, at most; about seven bytes each in the page.
pub const MOST_CELLS: usize = 150_000;

const ACTIVITIES: usize = ThreadActivity::ALL.len();

/// Samples by interval, for each view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Aggregate {
    /// All intervals together; each has the same part of it.
    pub span_ns: u64,
    /// How many intervals.
    pub intervals: usize,
    /// By thread.
    pub threads: Tracks,
    /// By function.
    pub symbols: Tracks,
    /// By instruction.
    pub instructions: Tracks,
    /// By object.
    pub objects: Tracks,
}

/// The rows of one view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tracks {
    /// Rows kept by themselves.
    pub rows: Vec<AggregateRow>,
    /// All others together.
    pub rest: Vec<Track>,
}

/// One thread, function, instruction or object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateRow {
    /// Index in its view.
    pub index: usize,
    /// One for each activity it has.
    pub tracks: Vec<Track>,
}

/// Samples of one activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Track {
    /// Index in [`ThreadActivity::ALL`].
    pub activity: usize,
    /// In pairs: intervals since the pair before, samples.
    pub cells: Vec<u32>,
}

impl Aggregate {
    /// Of samples in any order. Intervals divide those of the findings' time line, or join them if there are too many.
    pub fn collect(findings: &Findings, objects: usize, parts: impl IntoIterator<Item = SamplePart>) -> Self {
        let timeline = &findings.timeline;
        let (count, length) = (timeline.intervals.len(), timeline.interval_ns.max(1));
        if count == 0 {
            return Self::default();
        }
        // Either several of ours in one of theirs, or several of theirs in one of ours.
        let finer = (MOST_INTERVALS / count).max(1);
        let coarser = count.div_ceil(MOST_INTERVALS);
        let intervals = count.div_ceil(coarser) * finer;
        // A damaged recording may claim times near the end of all numbers.
        let span_ns = length.saturating_mul(count.next_multiple_of(coarser) as u64);
        let view = |rows: usize| AggregateView::new(rows.min(MOST_ROWS), intervals);
        let mut threads = view(findings.threads.len());
        let mut symbols = view(findings.symbols.len());
        let mut instructions = view(findings.instructions.len());
        let mut by_object = view(objects);
        for sample in parts {
            let interval = (u128::from(sample.time_ns) * intervals as u128 / u128::from(span_ns)) as usize;
            let interval = interval.min(intervals - 1);
            threads.add(sample.thread, interval, &sample.parts);
            instructions.add(sample.instruction, interval, &sample.parts);
            if let Some(found) = findings.instructions.get(sample.instruction) {
                symbols.add(found.symbol, interval, &sample.parts);
            }
            if let Some(object) = sample.object {
                by_object.add(object, interval, &sample.parts);
            }
        }
        Self {
            span_ns,
            intervals,
            threads: threads.tracks(),
            symbols: symbols.tracks(),
            instructions: instructions.tracks(),
            objects: by_object.tracks(),
        }
    }
}

/// Sums of one row: intervals of one activity, if it has any.
type Sums = [Option<Box<[f32]>>; ACTIVITIES];

struct AggregateView {
    intervals: usize,
    /// The last one is the rest.
    rows: Vec<Sums>,
}

impl AggregateView {
    fn new(rows: usize, intervals: usize) -> Self {
        Self { intervals, rows: (0..=rows).map(|_| Sums::default()).collect() }
    }

    fn add(&mut self, row: usize, interval: usize, parts: &[f32; ACTIVITIES]) {
        let row = row.min(self.rows.len() - 1);
        for (sums, part) in self.rows[row].iter_mut().zip(parts).filter(|(_, part)| **part > 0.0) {
            sums.get_or_insert_with(|| vec![0.0; self.intervals].into())[interval] += part;
        }
    }

    /// The rows with most samples until the cells are used up; the others join the rest.
    fn tracks(mut self) -> Tracks {
        let mut rest = self.rows.pop().unwrap_or_default();
        let total = |sums: &Sums| {
            sums.iter().flatten().flat_map(|sums| sums.iter()).map(|sum| f64::from(*sum)).sum::<f64>()
        };
        let mut order: Vec<(usize, f64)> =
            self.rows.iter().map(total).enumerate().filter(|row| row.1 > 0.0).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut rows, mut cells) = (Vec::new(), 0);
        for (index, _) in order {
            let tracks = tracks_of(&self.rows[index]);
            let more: usize = tracks.iter().map(|track| track.cells.len() / 2).sum();
            if cells + more <= MOST_CELLS {
                cells += more;
                rows.push(AggregateRow { index, tracks });
            } else {
                self.join(index, &mut rest);
            }
        }
        Tracks { rows, rest: tracks_of(&rest) }
    }

    fn join(&self, row: usize, rest: &mut Sums) {
        for (from, to) in self.rows[row].iter().zip(rest) {
            let Some(from) = from else { continue };
            let to = to.get_or_insert_with(|| vec![0.0; self.intervals].into());
            to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to += from);
        }
    }
}

fn tracks_of(row: &Sums) -> Vec<Track> {
    let tracks = row.iter().enumerate().filter_map(|(activity, sums)| {
        let cells = cells(sums.as_deref()?);
        (!cells.is_empty()).then_some(Track { activity, cells })
    });
    tracks.collect()
}

/// Whole samples in pairs; what rounding leaves over goes to the next interval, so that the sum stays.
fn cells(sums: &[f32]) -> Vec<u32> {
    let (mut cells, mut last, mut left) = (Vec::new(), 0, 0.0);
    for (interval, sum) in sums.iter().enumerate() {
        let exact = f64::from(*sum) + left;
        let whole = exact.round().max(0.0);
        left = exact - whole;
        if whole > 0.0 {
            cells.extend([(interval - last) as u32, whole as u32]);
            last = interval;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(cells: &[u32]) -> Vec<(u32, u32)> {
        let mut at = 0;
        cells
            .chunks(2)
            .map(|pair| {
                at += pair[0];
                (at, pair[1])
            })
            .collect()
    }

    #[test]
    fn parts_of_samples_add_up_to_whole_ones() {
        assert_eq!(unpacked(&cells(&[0.3; 10])), [(1, 1), (4, 1), (8, 1)]);
        assert_eq!(unpacked(&cells(&[0.0, 2.0, 0.0, 7.0])), [(1, 2), (3, 7)]);
        assert!(cells(&[0.2, 0.1]).is_empty());
    }

    #[test]
    fn cells_are_capped_and_the_rest_keeps_the_sum() {
        let intervals = 600;
        let mut view = AggregateView::new(MOST_ROWS, intervals);
        let mut part = [0.0; ThreadActivity::ALL.len()];
        part[ThreadActivity::Loads as usize] = 1.0;
        part[ThreadActivity::Executing as usize] = 1.0;
        for row in 0..MOST_ROWS + 50 {
            for interval in 0..intervals {
                view.add(row, interval, &part);
            }
        }
        let tracks = view.tracks();
        let sum = |tracks: &[Track]| -> u64 {
            tracks
                .iter()
                .flat_map(|track| unpacked(&track.cells))
                .map(|(_, samples)| u64::from(samples))
                .sum()
        };
        let kept: usize =
            tracks.rows.iter().flat_map(|row| &row.tracks).map(|track| track.cells.len() / 2).sum();
        assert!(kept <= MOST_CELLS && kept > MOST_CELLS - 2 * intervals, "{kept}");
        let all: u64 = tracks.rows.iter().map(|row| sum(&row.tracks)).sum::<u64>() + sum(&tracks.rest);
        assert_eq!(all, 2 * 450 * 600);
    }
}
