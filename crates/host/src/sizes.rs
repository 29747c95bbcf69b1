//! The sizes a user asks for: one, a list, or a sweep.

use machine::{Bytes, units::SizeError};

/// More points than this is a typo, not a measurement.
pub const MOST_SIZES: usize = 1024;

/// Sizes of a sweep are rounded to whole lines.
const LINE: u64 = 64;

/// Why a text names no sizes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// A part is not a size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A part is zero.
    #[error("size 0 holds no data; the smallest useful size is one line, 64")]
    Zero,
    /// Nothing between two commas.
    #[error("'{0}' has an empty entry; write sizes such as 16K, 16K,1M or 16K..1G")]
    Empty(String),
    /// A sweep that ends before it starts.
    #[error("the sweep {from}..{to} ends before it starts; write the smaller size first")]
    Backwards {
        /// First size.
        from: Bytes,
        /// Last size.
        to: Bytes,
    },
    /// The points per octave of a sweep are not a positive number.
    #[error("'{0}' is not a number of points per doubling; write 1 to 64, such as 16K..1G:4")]
    Density(String),
    /// More than [`MOST_SIZES`].
    #[error("that is more than {MOST_SIZES} sizes; ask for a shorter sweep or fewer points per doubling")]
    TooMany,
}

/// Parses `16K`, `16K,1M`, `16K..1G` (doubling) and `16K..1G:4` (four points per doubling), in the order
/// given.
///
/// ```
/// use machine::Bytes;
/// let sizes = host::sizes::parse("16K..64K,1M")?;
/// assert_eq!(sizes, [Bytes::kib(16), Bytes::kib(32), Bytes::kib(64), Bytes::mib(1)]);
/// # Ok::<(), host::sizes::SizesError>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Bytes>, SizesError> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        if part.trim().is_empty() {
            return Err(SizesError::Empty(text.to_owned()));
        }
        match part.split_once("..") {
            None => sizes.push(positive(part)?),
            Some((from, rest)) => {
                let (to, per_octave) = match rest.split_once(':') {
                    None => (rest, 1),
                    Some((to, density)) => (to, parse_density(density)?),
                };
                sizes.extend(sweep(positive(from)?, positive(to)?, per_octave)?);
            }
        }
        if sizes.len() > MOST_SIZES {
            return Err(SizesError::TooMany);
        }
    }
    Ok(sizes)
}

/// Sizes from `from` to `to`, both included, `per_octave` to each doubling, each a whole number of lines.
pub fn sweep(from: Bytes, to: Bytes, per_octave: u32) -> Result<Vec<Bytes>, SizesError> {
    if from > to {
        return Err(SizesError::Backwards { from, to });
    }
    if from.0 == 0 {
        return Err(SizesError::Zero);
    }
    let octaves = (to.0 as f64 / from.0 as f64).log2();
    let steps = (octaves * f64::from(per_octave.max(1)) + 1e-9).floor() as usize;
    if steps > MOST_SIZES {
        return Err(SizesError::TooMany);
    }
    let mut sizes: Vec<Bytes> = (0..=steps)
        .map(|step| from.0 as f64 * 2f64.powf(step as f64 / f64::from(per_octave.max(1))))
        // The ends are taken as given, what lies between in whole lines.
        .map(|size| if size <= from.0 as f64 { from } else { whole_lines(size) })
        .map(|size| size.min(to))
        .collect();
    if sizes.last() != Some(&to) {
        sizes.push(to);
    }
    sizes.dedup();
    Ok(sizes)
}

/// The nearest whole number of lines, at least one.
pub fn whole_lines(size: f64) -> Bytes {
    Bytes(((size / LINE as f64).round() as u64).max(1).saturating_mul(LINE))
}

fn positive(text: &str) -> Result<Bytes, SizesError> {
    match text.parse()? {
        Bytes(0) => Err(SizesError::Zero),
        size => Ok(size),
    }
}

fn parse_density(text: &str) -> Result<u32, SizesError> {
    match text.trim().parse() {
        Ok(density @ 1..=64) => Ok(density),
        _ => Err(SizesError::Density(text.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sweeps_double_and_end_where_asked() {
        let kib = |sizes: &[u64]| sizes.iter().map(|&n| Bytes::kib(n)).collect::<Vec<_>>();
        assert_eq!(parse("16K..128K"), Ok(kib(&[16, 32, 64, 128])));
        assert_eq!(parse("16K..100K"), Ok(kib(&[16, 32, 64, 100])));
        assert_eq!(parse("16K..16K"), Ok(kib(&[16])));
        assert_eq!(parse(" 1M , 16K "), Ok(kib(&[1024, 16])));
        assert_eq!(parse("16K..1G:4").map(|sizes| sizes.len()), Ok(65));
        assert_eq!(parse("16K..32K:2"), Ok(vec![Bytes::kib(16), Bytes(362 * 64), Bytes::kib(32)]));
    }

    #[test]
    fn refused_with_the_reason() {
        assert_eq!(parse("0"), Err(SizesError::Zero));
        assert_eq!(parse("0..1M"), Err(SizesError::Zero));
        assert!(matches!(parse("1G..16K"), Err(SizesError::Backwards { .. })));
        assert!(matches!(parse("16K,,1M"), Err(SizesError::Empty(_))));
        assert!(matches!(parse(""), Err(SizesError::Empty(_))));
        assert!(matches!(parse("16K..1G:0"), Err(SizesError::Density(_))));
        assert!(matches!(parse("16K..1G:x"), Err(SizesError::Density(_))));
        assert!(matches!(parse("16K..ten"), Err(SizesError::Size(_))));
        assert_eq!(parse("1..9000T:64"), Err(SizesError::TooMany));
        assert_eq!(parse(&vec!["1K"; MOST_SIZES + 1].join(",")), Err(SizesError::TooMany));
    }

    proptest! {
        #[test]
        fn sweeps_ascend_in_bounded_steps(from in 64u64..1 << 20, factor in 1.0..4096.0f64, density in 1u32..=16) {
            let to = Bytes((from as f64 * factor) as u64);
            let sizes = sweep(Bytes(from), to, density).expect("a sweep");
            prop_assert_eq!((sizes[0], sizes[sizes.len() - 1]), (Bytes(from), to));
            let step = 2f64.powf(1.0 / f64::from(density));
            for pair in sizes.windows(2) {
                prop_assert!(pair[0] < pair[1]);
                prop_assert!(pair[1].0 as f64 <= pair[0].0 as f64 * step + 128.0);
            }
        }

        #[test]
        fn no_text_panics(text in "[0-9KMGT.,:]{0,16}") {
            let _ = parse(&text);
        }
    }
}
