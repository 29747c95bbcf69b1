//! Damage, the same for the same seed on every machine.

/// Numbers at which parsers break.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 1,
    u64::MAX,
];

/// Words at which parsers of text break.
const WORDS: [&str; 14] = [
    "-1",
    "0",
    "18446744073709551616",
    "1e999",
    "nan",
    "\"",
    "[[",
    "]",
    "{",
    "null",
    "\\u0000",
    "é",
    "=",
    "\n",
];

/// A stream of numbers that looks random: xorshift64*.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        // The upper half is the more random one.
        (self.number() >> 32) as usize % bound.max(1)
    }
}

/// One of the seeds with one to six things changed.
pub fn damaged(seeds: &[Vec<u8>], draw: &mut Draw) -> Vec<u8> {
    let mut bytes = seeds.get(draw.below(seeds.len())).cloned().unwrap_or_default();
    for _ in 0..=draw.below(6) {
        damage(&mut bytes, seeds, draw);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], draw: &mut Draw) {
    let at = draw.below(bytes.len() + 1);
    let some = draw.below(64).min(bytes.len() - at);
    match draw.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << draw.below(8),
        1 if at < bytes.len() => bytes[at] = draw.number() as u8,
        2 => {
            let number = NUMBERS[draw.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][draw.below(4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..at + some)),
        5 => {
            let copy = bytes[at..at + some].to_vec();
            let to = draw.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        6 => {
            let word = WORDS[draw.below(WORDS.len())].bytes();
            let end = at + draw.below(4).min(bytes.len() - at);
            bytes.splice(at..end, word);
        }
        7 => {
            let other = seeds.get(draw.below(seeds.len())).map_or(&[][..], Vec::as_slice);
            let from = draw.below(other.len() + 1);
            let end = from + draw.below(200).min(other.len() - from);
            bytes.splice(at..at + some, other[from..end].iter().copied());
        }
        _ => number_in_text(bytes, at, draw),
    }
}

/// Another number in the place of the next one that is written in digits.
fn number_in_text(bytes: &mut Vec<u8>, at: usize, draw: &mut Draw) {
    let Some(begin) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
    let digits = bytes[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = NUMBERS[draw.below(NUMBERS.len())] >> draw.below(20);
    bytes.splice(begin..begin + digits, number.to_string().into_bytes());
}
