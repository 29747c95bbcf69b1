//! A moment and a few flags in one word: what is noted about every line of a simulated cache, so that twice as many
//! lines fit into the caches of the host.

const FLAG_BITS: u32 = 4;
const FLAGS: u64 = (1 << FLAG_BITS) - 1;

/// A moment of less than 2⁶⁰ fs (19 minutes; later ones are cut there) and four flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LruStamp(u64);

impl LruStamp {
    #[inline]
    pub fn new(moment_fs: u64, flags: u8) -> Self {
        Self(moment_fs.min(u64::MAX >> FLAG_BITS) << FLAG_BITS | u64::from(flags) & FLAGS)
    }

    #[inline]
    pub fn moment_fs(self) -> u64 {
        self.0 >> FLAG_BITS
    }

    #[inline]
    pub fn flags(self) -> u8 {
        (self.0 & FLAGS) as u8
    }

    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.0 = self.0 & !FLAGS | u64::from(flags) & FLAGS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_come_back(moment in 0u64..1 << 60, flags in 0u8..16, others in 0u8..16) {
            let mut stamp = LruStamp::new(moment, flags);
            prop_assert_eq!((stamp.moment_fs(), stamp.flags()), (moment, flags));
            stamp.set_flags(others);
            prop_assert_eq!((stamp.moment_fs(), stamp.flags()), (moment, others));
        }
    }

    #[test]
    fn what_is_too_late_keeps_its_flags() {
        let stamp = LruStamp::new(u64::MAX, 5);
        assert_eq!((stamp.moment_fs(), stamp.flags()), ((1 << 60) - 1, 5));
    }
}
