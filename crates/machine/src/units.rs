//! Quantities with their units, parsed and formatted in one place.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A number of bytes. Parsed with binary suffixes (`16K`, `2MiB`, `1G`), shown the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` times 1024 bytes.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` times 1024² bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` times 1024³ bytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// Neither digits nor a known suffix.
    #[error("'{0}' is not a size; write a number with an optional K, M, G or T, such as 16K or 1.5G")]
    Malformed(String),
    /// More bytes than 64 bits hold.
    #[error("'{0}' is larger than any memory")]
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = SizeError;

    /// Parses `4096`, `16K`, `16k`, `16KB`, `16KiB`, `1.5G`. Suffixes are binary, as cache sizes are.
    ///
    /// ```
    /// use machine::Bytes;
    /// assert_eq!("16K".parse(), Ok(Bytes::kib(16)));
    /// assert_eq!("1.5MiB".parse(), Ok(Bytes(1536 * 1024)));
    /// assert!("ten".parse::<Bytes>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let malformed = || SizeError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(digits_end);
        let shift = match suffix.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(malformed()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole
                .checked_mul(1 << shift)
                .map(Self)
                .ok_or_else(|| SizeError::TooLarge(text.to_owned()));
        }
        let fraction: f64 = number.parse().map_err(|_| malformed())?;
        let bytes = fraction * (1u64 << shift) as f64;
        if bytes < u64::MAX as f64 {
            Ok(Self(bytes.round() as u64))
        } else {
            Err(SizeError::TooLarge(text.to_owned()))
        }
    }
}

impl fmt::Display for Bytes {
    /// At most four digits and a binary unit: `48 KiB`, `1.5 MiB`, `512 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = usize::from(value.fract() >= 0.05 && value < 100.0);
        f.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

/// Bytes per second as people in this field write it: decimal gigabytes, three significant digits.
///
/// ```
/// assert_eq!(machine::units::gb_per_s(12_345_000_000.0), "12.3 GB/s");
/// ```
pub fn gb_per_s(bytes_per_s: f64) -> String {
    format!("{} GB/s", significant(bytes_per_s / 1e9, 3))
}

/// Nanoseconds with three significant digits, moving to µs, ms and s when they grow.
///
/// ```
/// assert_eq!(machine::units::nanos(1.234), "1.23 ns");
/// assert_eq!(machine::units::nanos(45_600.0), "45.6 µs");
/// ```
pub fn nanos(ns: f64) -> String {
    match ns.abs() {
        x if x < 1e3 => format!("{} ns", significant(ns, 3)),
        x if x < 1e6 => format!("{} µs", significant(ns / 1e3, 3)),
        x if x < 1e9 => format!("{} ms", significant(ns / 1e6, 3)),
        _ => format!("{} s", significant(ns / 1e9, 3)),
    }
}

/// `value` with `digits` significant digits and no exponent.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32 + 1;
    let decimals = (digits as i32 - magnitude).max(0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_that_are_not_sizes() {
        for text in ["", "K", "1X", "-1", "1..2", "1.2.3K", "0x10", "∞"] {
            assert!(matches!(text.parse::<Bytes>(), Err(SizeError::Malformed(_))), "{text}");
        }
        assert!(matches!("99999999999T".parse::<Bytes>(), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn shown_with_their_unit() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes::kib(48).to_string(), "48 KiB");
        assert_eq!(Bytes(1536 << 10).to_string(), "1.5 MiB");
        assert_eq!(Bytes::gib(260).to_string(), "260 GiB");
    }

    proptest! {
        #[test]
        fn whole_sizes_round_trip(n in 1u64..1024, unit in 0usize..4) {
            let text = format!("{n}{}", ["", "K", "M", "G"][unit]);
            prop_assert_eq!(text.parse::<Bytes>(), Ok(Bytes(n << (10 * unit))));
        }

        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
