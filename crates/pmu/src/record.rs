//! Records as they lie in a ring, and the few sample fields needed to see that sampling works.

use perf_event_open_sys::bindings;

/// Bytes taken from a ring.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// `PERF_RECORD_` number.
    pub kind: u32,
    /// `PERF_RECORD_MISC_` bits.
    pub misc: u16,
    /// What follows the header.
    pub body: &'a [u8],
}

/// Bytes of type, flags and size in front of each record.
pub(crate) const HEADER: usize = 8;

impl Records {
    /// Records one after the other.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Each whole record. Ends at the first header that cannot be true.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (header, _) = rest.split_first_chunk::<HEADER>()?;
            let [k0, k1, k2, k3, m0, m1, s0, s1] = *header;
            let size = usize::from(u16::from_ne_bytes([s0, s1]));
            if size < HEADER || size > rest.len() {
                return None;
            }
            let (record, next) = rest.split_at(size);
            rest = next;
            Some(Record {
                kind: u32::from_ne_bytes([k0, k1, k2, k3]),
                misc: u16::from_ne_bytes([m0, m1]),
                body: &record[HEADER..],
            })
        })
    }

    /// Only the samples.
    pub fn samples(&self) -> impl Iterator<Item = Record<'_>> {
        self.iter().filter(|record| record.kind == bindings::PERF_RECORD_SAMPLE)
    }
}

impl Record<'_> {
    /// The processor vouches that the address is that of the instruction itself.
    pub fn is_exact(&self) -> bool {
        u32::from(self.misc) & bindings::PERF_RECORD_MISC_EXACT_IP != 0
    }

    /// The body as words, the form of every fixed sample field.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.body.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word))
    }
}

/// A record as the kernel would write it, for scripts.
pub fn encode(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_headers_end_the_records() {
        let good = encode(9, 0x4002, &7u64.to_ne_bytes());
        for tail in [vec![0; 8], vec![1; 3], encode(9, 0, &[0; 32])[..20].to_vec()] {
            let records = Records::new([good.clone(), tail].concat());
            let all: Vec<_> = records.samples().collect();
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].words().collect::<Vec<_>>(), [7]);
            assert!(all[0].is_exact());
        }
    }
}
