//! The hybrid of helm2019 §7 on the timer: code and data of flagged intervals alone.

use std::collections::{BTreeMap, HashMap};

use crate::{
    findings::{Flagged, FlaggedPart, ObjectId, Timeline},
    statistics,
};

/// Samples, and what of them waits on loads.
#[derive(Clone, Copy, Default)]
struct FlaggedSum {
    samples: u64,
    loads: f64,
}

impl FlaggedSum {
    fn add(&mut self, loads: f64) {
        self.samples += 1;
        self.loads += loads;
    }
}

/// Samples inside flagged intervals.
#[derive(Default)]
pub(super) struct FlaggedTally {
    all: FlaggedSum,
    symbols: BTreeMap<usize, FlaggedSum>,
    objects: HashMap<ObjectId, FlaggedSum>,
}

impl FlaggedTally {
    /// A sample of a function, whatever it did.
    pub fn code(&mut self, symbol: Option<usize>, loads: f64) {
        self.all.add(loads);
        if let Some(symbol) = symbol {
            self.symbols.entry(symbol).or_default().add(loads);
        }
    }

    /// A sample whose data is known.
    pub fn data(&mut self, key: ObjectId, loads: f64) {
        self.objects.entry(key).or_default().add(loads);
    }

    /// What they say; none without a flag.
    pub fn finding(&self, timeline: &Timeline, ranks: &HashMap<ObjectId, u32>) -> Option<Flagged> {
        let intervals = timeline.intervals.iter().filter(|interval| interval.flagged).count() as u64;
        (intervals > 0).then(|| Flagged {
            intervals,
            samples: self.all.samples,
            symbols: self.ranked(&self.symbols, |symbol| Some(*symbol)),
            objects: self.ranked(&self.objects, |key| ranks.get(key).map(|rank| *rank as usize)),
        })
    }

    fn ranked<'a, K: 'a>(
        &self,
        parts: impl IntoIterator<Item = (&'a K, &'a FlaggedSum)>,
        index: impl Fn(&K) -> Option<usize>,
    ) -> Vec<FlaggedPart> {
        let part = |(key, part): (&K, &FlaggedSum)| {
            let load_waiting = statistics::share(part.loads, self.all.loads)?;
            Some(FlaggedPart { index: index(key)?, samples: part.samples, load_waiting })
        };
        let mut found: Vec<FlaggedPart> = parts.into_iter().filter_map(part).collect();
        found.sort_by(|a, b| {
            b.load_waiting.value.total_cmp(&a.load_waiting.value).then(a.index.cmp(&b.index))
        });
        found
    }
}
