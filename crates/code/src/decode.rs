//! Bytes to blocks.

use std::{collections::BTreeSet, iter::Peekable, ops::Range};

use iced_x86::{Decoder, DecoderError, DecoderOptions, Formatter, Instruction as Iced, IntelFormatter};

use crate::{
    block::{Block, Ending},
    builder::{Builder, near_target},
};

/// Why bytes are not code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There is nothing to decode.
    #[error("no bytes to decode at {address:#x}; check that the code is mapped there")]
    Empty {
        /// Where the bytes were said to lie.
        address: u64,
    },
    /// These bytes are no instruction.
    #[error(
        "no instruction at {address:#x} (offset {offset}); check that it is code, and that decoding began at an \
         instruction"
    )]
    Invalid {
        /// Offset into the bytes given.
        offset: usize,
        /// The same as an address.
        address: u64,
    },
    /// The bytes end within an instruction.
    #[error(
        "the bytes end within the instruction at {address:#x} (offset {offset}); give at least 15 bytes from there"
    )]
    Truncated {
        /// Offset into the bytes given.
        offset: usize,
        /// The same as an address.
        address: u64,
    },
}

/// The blocks found in a range of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// In address order.
    pub blocks: Vec<Block>,
    /// Where the bytes were not code. Decoding goes on only at the next known leader, if there is one.
    pub gaps: Vec<DecodeError>,
}

impl Decoded {
    /// The blocks, if every byte was code.
    pub fn complete(self) -> Result<Vec<Block>, DecodeError> {
        match self.gaps.first() {
            Some(&gap) => Err(gap),
            None => Ok(self.blocks),
        }
    }

    /// The block with an instruction that begins at `address`, and the index of that instruction.
    pub fn find(&self, address: u64) -> Option<(&Block, usize)> {
        let after = self.blocks.partition_point(|block| block.address() <= address);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        Some((block, block.index_of(address)?))
    }
}

/// Decodes the block that begins at the first byte: up to and including the first control transfer, or to the end
/// of the bytes.
pub fn decode_block(bytes: &[u8], address: u64) -> Result<Block, DecodeError> {
    let mut builder = Builder::new();
    let mut decoder = decoder(bytes, address);
    let mut iced = Iced::default();
    while decoder.can_decode() && builder.len() < Block::MAX_INSTRUCTIONS {
        next(&mut decoder, &mut iced, bytes, address)?;
        if builder.push(&iced).is_transfer() {
            return builder.finish(Ending::Transfer).ok_or(DecodeError::Empty { address });
        }
    }
    let ending = if decoder.can_decode() { Ending::Full } else { Ending::EndOfBytes };
    builder.finish(ending).ok_or(DecodeError::Empty { address })
}

/// Decodes a range of code into blocks, in one sweep from its first byte.
///
/// A block begins at the first byte, behind each control transfer, at each target of a direct branch of the range
/// that lies in the range, and at each of `leaders`, the addresses the caller knows to be entered (they need not
/// be sorted, nor lie in the range). A leader within an instruction is ignored.
pub fn decode_range(bytes: &[u8], address: u64, leaders: &[u64]) -> Decoded {
    let sweep = LinearSweep::over(bytes, address, leaders);
    let mut leaders = sweep.leaders.iter().copied().peekable();
    let mut builder = Builder::new();
    let mut blocks = Vec::new();
    for stretch in &sweep.stretches {
        let ending = if stretch.end == bytes.len() { Ending::EndOfBytes } else { Ending::Undecodable };
        let mut decoder = decoder(&bytes[stretch.clone()], address.wrapping_add(stretch.start as u64));
        let mut iced = Iced::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut iced);
            let is_transfer = builder.push(&iced).is_transfer();
            let ending = if is_transfer {
                Ending::Transfer
            } else if !decoder.can_decode() {
                ending
            } else if is_leader(&mut leaders, decoder.ip().wrapping_sub(address)) {
                Ending::Leader
            } else if builder.len() == Block::MAX_INSTRUCTIONS {
                Ending::Full
            } else {
                continue;
            };
            blocks.extend(builder.finish(ending));
        }
    }
    Decoded { blocks, gaps: sweep.gaps }
}

/// Whether `offset` is among the sorted `leaders`; asked with growing offsets, it walks along with them.
fn is_leader(leaders: &mut Peekable<impl Iterator<Item = u64>>, offset: u64) -> bool {
    while leaders.next_if(|&leader| leader < offset).is_some() {}
    leaders.peek() == Some(&offset)
}

/// The first instruction of `bytes` in Intel syntax, for reports.
///
/// ```
/// let bytes = [0x48, 0x03, 0x04, 0xcb];
/// assert_eq!(code::disassemble(&bytes, 0x1000)?, "add rax,[rbx+rcx*8]");
/// # Ok::<(), code::DecodeError>(())
/// ```
pub fn disassemble(bytes: &[u8], address: u64) -> Result<String, DecodeError> {
    let mut iced = Iced::default();
    next(&mut decoder(bytes, address), &mut iced, bytes, address)?;
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(true);
    let mut text = String::new();
    formatter.format(&iced, &mut text);
    Ok(text)
}

fn decoder(bytes: &[u8], address: u64) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE)
}

fn next(decoder: &mut Decoder<'_>, iced: &mut Iced, bytes: &[u8], address: u64) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty { address });
    }
    let offset = decoder.position();
    decoder.decode_out(iced);
    let address = address.wrapping_add(offset as u64);
    match decoder.last_error() {
        DecoderError::None => Ok(()),
        DecoderError::NoMoreBytes => Err(DecodeError::Truncated { offset, address }),
        _ => Err(DecodeError::Invalid { offset, address }),
    }
}

/// The first pass over a range: which stretches are code, and where blocks begin.
struct LinearSweep<'a> {
    bytes: &'a [u8],
    address: u64,
    stretches: Vec<Range<usize>>,
    gaps: Vec<DecodeError>,
    /// Offsets.
    leaders: BTreeSet<u64>,
}

impl<'a> LinearSweep<'a> {
    fn over(bytes: &'a [u8], address: u64, leaders: &[u64]) -> Self {
        let (stretches, gaps) = (Vec::new(), Vec::new());
        let mut sweep = Self { bytes, address, stretches, gaps, leaders: BTreeSet::new() };
        leaders.iter().for_each(|&leader| sweep.add_leader(leader));
        let mut start = 0;
        while start < bytes.len() {
            let end = sweep.stretch(start);
            sweep.stretches.extend((end > start).then_some(start..end));
            if end == bytes.len() {
                break;
            }
            // Beyond a gap only a known leader is code for certain.
            let resume = sweep.leaders.range(end as u64 + 1..).next();
            start = resume.map_or(bytes.len(), |&leader| leader as usize);
        }
        sweep
    }

    /// Decodes from `start` to the first gap or the end, and returns where that is.
    fn stretch(&mut self, start: usize) -> usize {
        let bytes = &self.bytes[start..];
        let address = self.address.wrapping_add(start as u64);
        let mut decoder = decoder(bytes, address);
        let mut iced = Iced::default();
        while decoder.can_decode() {
            let offset = decoder.position();
            if let Err(gap) = next(&mut decoder, &mut iced, bytes, address) {
                self.gaps.push(gap.moved(start));
                return start + offset;
            }
            if let Some(target) = near_target(&iced) {
                self.add_leader(target);
            }
        }
        self.bytes.len()
    }

    fn add_leader(&mut self, leader: u64) {
        let offset = leader.wrapping_sub(self.address);
        if offset < self.bytes.len() as u64 {
            self.leaders.insert(offset);
        }
    }
}

impl DecodeError {
    /// The same error seen from bytes that begin `by` earlier.
    fn moved(self, by: usize) -> Self {
        match self {
            Self::Invalid { offset, address } => Self::Invalid { offset: offset + by, address },
            Self::Truncated { offset, address } => Self::Truncated { offset: offset + by, address },
            Self::Empty { address } => Self::Empty { address },
        }
    }
}
