//! The call before a return address.

use code::{Block, Flow, decode_block};
use symbols::Image;

/// `call rax` to `call [r12+disp32]` with prefixes.
const LENGTHS: std::ops::RangeInclusive<u64> = 2..=8;

/// The call that returns to `address` of `image`, as a block of its own; a direct one if several fit.
pub(super) fn call_before(image: &Image, address: u64) -> Option<(Flow, Block)> {
    let mut found = None;
    for length in LENGTHS {
        let Some(start) = address.checked_sub(length) else { break };
        let Some(bytes) = image.bytes(start..address) else { continue };
        let Ok(block) = decode_block(bytes, start) else { continue };
        let [instruction] = block.instructions() else { continue };
        match instruction.flow() {
            Flow::Call => return Some((Flow::Call, block)),
            Flow::IndirectCall => found = Some((Flow::IndirectCall, block)),
            _ => {}
        }
    }
    found
}

/// Whether a call stands before an address.
pub(super) fn follows_call(image: &Image, address: u64) -> bool {
    call_before(image, address).is_some()
}
