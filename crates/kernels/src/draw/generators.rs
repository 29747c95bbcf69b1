//! Random numbers that repeat to the bit: one generator small enough for a kernel's loop, one for set-up.

/// The multiplier of Knuth's 64-bit generator (MMIX).
pub const LCG_MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// Its increment; odd, so the period is 2⁶⁴.
pub const LCG_INCREMENT: u64 = 1_442_695_040_888_963_407;

/// The generator that kernels run in machine code: one multiplication and one addition.
///
/// Bit *k* of the state repeats every 2^(k+1) steps: the low bits are poor. Use the high ones only, as
/// [`super::DrawTable::index`] does (the upper 42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lcg(u64);

impl Lcg {
    /// Starts with `state`, as the machine code does that finds it in its argument.
    pub fn new(state: u64) -> Self {
        Self(state)
    }

    /// Starts stream number `stream` of `seed`. States are scattered: two members that started from nearby
    /// states would draw nearby numbers.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut seeds = SplitMix::new(seed);
        let offset = seeds.next_u64();
        Self(SplitMix::new(offset ^ stream.wrapping_mul(LCG_MULTIPLIER)).next_u64())
    }

    /// The current state.
    pub fn state(self) -> u64 {
        self.0
    }

    /// Steps, and returns the new state.
    #[expect(clippy::should_implement_trait, reason = "never ends, so there is no Option to return")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(LCG_MULTIPLIER).wrapping_add(LCG_INCREMENT);
        self.0
    }

    /// The generator `steps` steps on: x → ax + c composed with itself by squaring.
    pub fn after(self, mut steps: u64) -> Self {
        let (mut factor, mut addend) = (1u64, 0u64);
        let (mut a, mut c) = (LCG_MULTIPLIER, LCG_INCREMENT);
        while steps > 0 {
            if steps & 1 == 1 {
                factor = factor.wrapping_mul(a);
                addend = addend.wrapping_mul(a).wrapping_add(c);
            }
            c = a.wrapping_mul(c).wrapping_add(c);
            a = a.wrapping_mul(a);
            steps >>= 1;
        }
        Self(self.0.wrapping_mul(factor).wrapping_add(addend))
    }
}

/// SplitMix64: all bits are good and any seed will do. For shuffles and seeds, outside of measured loops.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 if that is 0. The bias is at most `bound` / 2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sequences() {
        let mut lcg = Lcg::new(0);
        assert_eq!(lcg.next(), LCG_INCREMENT);
        assert_eq!(lcg.next(), 1_876_011_003_808_476_466);
        assert_eq!(lcg.state(), 1_876_011_003_808_476_466);
        // The published first outputs for seed 1234567.
        let mut mix = SplitMix::new(1_234_567);
        assert_eq!(mix.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(mix.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn streams_differ_in_their_high_bits() {
        let mut tops: Vec<u64> = (0..64).map(|stream| Lcg::stream(1, stream).next() >> 44).collect();
        tops.sort_unstable();
        tops.dedup();
        assert_eq!(tops.len(), 64, "20 bits each, so a repeat among 64 is a one in five hundred chance");
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut mix = SplitMix::new(3);
        let mut seen = [0u32; 7];
        for _ in 0..700 {
            seen[mix.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (60..150).contains(&n)), "{seen:?}");
        assert_eq!(mix.below(0), 0);
    }
}
