//! Collecting what could not be read, one line per cause.

use std::collections::HashMap;

use crate::{CpuSet, source::ReadError, topology::Gap};

/// Gaps in the order they were met.
#[derive(Debug, Default)]
pub(crate) struct Gaps(Vec<Gap>);

impl Gaps {
    /// Notes something in words.
    pub(crate) fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.0.push(Gap { what: what.into(), why: why.into() });
    }

    /// The value, or `None` and a gap.
    pub(crate) fn take<T>(&mut self, read: Result<T, ReadError>) -> Option<T> {
        read.map_err(|error| self.0.push(error.into())).ok()
    }

    /// Like [`Gaps::take`] for files that need not exist: a missing one is no gap.
    pub(crate) fn take_if_there<T>(&mut self, read: Result<T, ReadError>) -> Option<T> {
        match read {
            Err(error) if error.is_missing() => None,
            read => self.take(read),
        }
    }

    /// Adds gaps found elsewhere.
    pub(crate) fn extend(&mut self, gaps: impl IntoIterator<Item = Gap>) {
        self.0.extend(gaps);
    }

    /// All gaps; those that differ only in the CPU or node become one, as `/sys/…/cpu[0-47]/…`.
    pub(crate) fn merged(self) -> Vec<Gap> {
        let mut groups: Vec<(Gap, Option<GapPlace>, CpuSet)> = Vec::new();
        let mut known = HashMap::new();
        for gap in self.0 {
            let place = GapPlace::of(&gap.what);
            let key = match &place {
                Some(place) => (place.before.clone(), place.after.clone(), gap.why.clone()),
                None => (gap.what.clone(), String::new(), gap.why.clone()),
            };
            let number = place.as_ref().map(|place| place.number);
            let index = *known.entry(key).or_insert_with(|| {
                groups.push((gap, place, CpuSet::default()));
                groups.len() - 1
            });
            number.into_iter().for_each(|number| groups[index].2.insert(number));
        }
        groups.into_iter().map(|(gap, place, numbers)| named(gap, place, &numbers)).collect()
    }
}

fn named(gap: Gap, place: Option<GapPlace>, numbers: &CpuSet) -> Gap {
    match place {
        Some(place) if numbers.len() > 1 => {
            Gap { what: format!("{}[{numbers}]{}", place.before, place.after), why: gap.why }
        }
        _ => gap,
    }
}

/// A path with the number of a CPU or node in it.
#[derive(Debug)]
struct GapPlace {
    before: String,
    number: u32,
    after: String,
}

impl GapPlace {
    fn of(path: &str) -> Option<Self> {
        ["/cpu/cpu", "/node/node"].into_iter().find_map(|directory| {
            let start = path.find(directory)? + directory.len();
            let digits = path[start..].bytes().take_while(u8::is_ascii_digit).count();
            let (before, rest) = path.split_at(start);
            let (number, after) = rest.split_at(digits);
            Some(Self { before: before.into(), number: number.parse().ok()?, after: after.into() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_gap_of_many_cpus_is_one() {
        let mut gaps = Gaps::default();
        for cpu in [0, 1, 2, 7] {
            gaps.note(format!("/sys/devices/system/cpu/cpu{cpu}/topology/die_id"), "missing");
        }
        gaps.note("/sys/devices/system/cpu/cpu3/topology/die_id", "holds 'x', not a number");
        gaps.note("/proc/meminfo", "missing");
        gaps.note("/proc/meminfo", "missing");
        let texts: Vec<_> = gaps.merged().into_iter().map(|gap| gap.what).collect();
        let expected = [
            "/sys/devices/system/cpu/cpu[0-2,7]/topology/die_id",
            "/sys/devices/system/cpu/cpu3/topology/die_id",
            "/proc/meminfo",
        ];
        assert_eq!(texts, expected);
    }
}
