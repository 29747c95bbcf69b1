//! Page sizes behind a range of addresses, from the text of `/proc/<pid>/smaps`.

use std::ops::Range;

use machine::Bytes;
use serde::{Deserialize, Serialize};

/// What a buffer's pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    /// Resident bytes on huge pages, transparent or from the huge page pool.
    pub huge: Bytes,
    /// All resident bytes. More than was asked for where whole huge pages were given, 0 before the first touch.
    pub total: Bytes,
}

impl Backing {
    /// Share of the resident bytes that is on huge pages, 0 to 1; `None` while nothing is resident.
    pub fn huge_share(&self) -> Option<f64> {
        (self.total.0 > 0).then(|| self.huge.0 as f64 / self.total.0 as f64)
    }
}

/// One mapping of the file: its addresses and the fields used here, in bytes.
#[derive(Default)]
struct SmapsArea {
    range: Range<u64>,
    resident: Option<u64>,
    anon_huge: Option<u64>,
    /// Kernels before 4.4 do not list pool pages; nor do they count them as resident.
    pool: u64,
}

/// The pages behind `range`, or `None` where the text does not tell: part of the range is not mapped, a field is
/// missing, or a mapping reaches beyond the range, so that its pages cannot be told from a neighbour's.
pub(super) fn backing(smaps: &str, range: Range<u64>) -> Option<Backing> {
    let mut sum = Backing::default();
    let mut next = range.start;
    for area in areas(smaps).iter().filter(|a| a.range.start < range.end && range.start < a.range.end) {
        if area.range.start != next || area.range.end > range.end {
            return None;
        }
        sum.huge.0 += area.anon_huge?.checked_add(area.pool)?;
        sum.total.0 += area.resident?.checked_add(area.pool)?;
        next = area.range.end;
    }
    (next == range.end).then_some(sum)
}

fn areas(smaps: &str) -> Vec<SmapsArea> {
    let mut areas: Vec<SmapsArea> = Vec::new();
    for line in smaps.lines() {
        if let Some(range) = header(line) {
            areas.push(SmapsArea { range, ..SmapsArea::default() });
        } else if let (Some(area), Some((name, value))) = (areas.last_mut(), field(line)) {
            match name {
                "Rss" => area.resident = Some(value),
                "AnonHugePages" => area.anon_huge = Some(value),
                "Private_Hugetlb" | "Shared_Hugetlb" => area.pool = area.pool.saturating_add(value),
                _ => {}
            }
        }
    }
    areas
}

/// `7f5a00000000-7f5a00200000 rw-p …` → its addresses.
fn header(line: &str) -> Option<Range<u64>> {
    let (low, high) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(low)?..address(high)?)
}

/// `Rss:   2048 kB` → name and bytes.
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some((name, kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
55d000000000-55d000001000 r-xp 00000000 fe:01 42                         /usr/bin/odd-name 12-34
Size:                  4 kB
Rss:                   4 kB
AnonHugePages:         0 kB
Private_Hugetlb:       0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 
Size:               4096 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0 
Rss:                   0 kB
AnonHugePages:         0 kB
Private_Hugetlb:    2048 kB
7f0000800000-7f0000801000 rw-p 00000000 00:00 0 
Rss:                   4 kB
";

    #[test]
    fn sums_the_mappings_of_the_range() {
        let one = backing(TEXT, 0x7f00_0000_0000..0x7f00_0040_0000);
        assert_eq!(one, Some(Backing { huge: Bytes::mib(2), total: Bytes::mib(4) }));
        let both = backing(TEXT, 0x7f00_0000_0000..0x7f00_0060_0000);
        assert_eq!(both, Some(Backing { huge: Bytes::mib(4), total: Bytes::mib(6) }));
        assert_eq!(one.and_then(|b| b.huge_share()), Some(0.5));
        assert_eq!(Backing::default().huge_share(), None);
    }

    #[test]
    fn what_cannot_be_told_is_absent() {
        for (range, why) in [
            (0x7f00_0000_0000..0x7f00_0020_0000, "mapping reaches beyond the range"),
            (0x7f00_0020_0000..0x7f00_0040_0000, "mapping starts before the range"),
            (0x7f00_0040_0000..0x7f00_0080_1000, "hole"),
            (0x7f00_0080_0000..0x7f00_0080_1000, "no AnonHugePages field"),
            (0x1000..0x2000, "not mapped"),
        ] {
            assert_eq!(backing(TEXT, range), None, "{why}");
        }
        assert_eq!(backing("", 0x1000..0x2000), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-f]{0,17}-[0-9a-f]{0,17} |Rss: |AnonHugePages: |[0-9]{1,20} kB|\n){0,20}") {
            let _ = backing(&text, 0..u64::MAX);
        }
    }
}
