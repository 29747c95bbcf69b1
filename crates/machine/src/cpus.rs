//! Sets of CPU numbers in the kernel's list syntax (`0-3,8`).

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A set of logical CPU (or node) numbers, ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuSet(BTreeSet<u32>);

/// Numbers above this are refused: no kernel supports so many CPUs, and a typo must not eat the memory.
const HIGHEST: u32 = 1 << 20;

/// A text that is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a CPU list; write numbers and ranges such as 0-3,8")]
pub struct CpuListError(pub String);

impl CpuSet {
    /// The numbers in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether `cpu` is a member.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// How many numbers are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest member.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }

    /// Members of this set that the other lacks.
    pub fn difference(&self, other: &Self) -> Self {
        self.0.difference(&other.0).copied().collect()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    /// Parses the kernel's list format. An empty text is the empty set, as in `/sys/devices/system/cpu/offline`.
    ///
    /// ```
    /// let set: machine::CpuSet = "0-2,8".parse()?;
    /// assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 8]);
    /// assert_eq!(set.to_string(), "0-2,8");
    /// # Ok::<(), machine::cpus::CpuListError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let bad = || CpuListError(text.trim().to_owned());
        let number = |part: &str| match part.trim().parse::<u32>() {
            Ok(n) if n <= HIGHEST => Ok(n),
            _ => Err(bad()),
        };
        let mut set = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            match part.split_once('-') {
                None => {
                    set.insert(number(part)?);
                }
                Some((low, high)) => {
                    let (low, high) = (number(low)?, number(high)?);
                    if low > high {
                        return Err(bad());
                    }
                    set.extend(low..=high);
                }
            }
        }
        Ok(Self(set))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        let mut numbers = self.iter().peekable();
        while let Some(low) = numbers.next() {
            let mut high = low;
            while numbers.peek() == Some(&(high + 1)) {
                high += 1;
                numbers.next();
            }
            if !out.is_empty() {
                out.push(',');
            }
            out += &if low == high { format!("{low}") } else { format!("{low}-{high}") };
        }
        f.pad(&out)
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<Self, CpuListError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_that_are_not_lists() {
        for text in ["a", "1-", "-1", "3-1", "1,,2", "0-99999999999", "0-4000000000"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
        assert_eq!("\n".parse::<CpuSet>(), Ok(CpuSet::default()));
    }

    proptest! {
        #[test]
        fn round_trips(numbers in proptest::collection::btree_set(0u32..300, 0..40)) {
            let set: CpuSet = numbers.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }

        #[test]
        fn no_text_panics(text in ".{0,16}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
