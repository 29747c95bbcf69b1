//! How an instruction walks through memory.

use code::blame::AddressBehind;

use crate::{
    findings::{AccessPattern, Pattern, Rate},
    statistics::quantile,
};

use super::{
    facts::{LINE, feeds_itself},
    pace::STEADY,
    program::DecodedProgram,
    streams::{AddressStream, AddressStreams, StreamStep},
};

/// Steps needed to name a pattern.
const FEWEST: usize = 8;

/// How the site's operand moves; none if it has none.
pub(crate) fn pattern(
    program: &DecodedProgram,
    streams: &AddressStreams,
    site: usize,
) -> Option<AccessPattern> {
    let (block, instruction) = program.instruction(program.sites.get(site)?)?;
    let stream = streams.of(site)?;
    let chases = instruction.has_load() && feeds_itself(block, instruction);
    let advance = advance(stream);
    let name = match walk(stream) {
        Some(Pattern::OnePlace) => Pattern::OnePlace,
        _ if chases => Pattern::PointerChasing,
        Some(pattern) => pattern,
        None => Pattern::Unknown,
    };
    Some(AccessPattern {
        pattern: name,
        addresses: stream.addresses,
        next_address: AddressBehind::of(block, instruction) == AddressBehind::Next,
        span: stream.span,
        stride_bytes: stride(stream),
        advance: advance.filter(|_| matches!(name, Pattern::Streaming | Pattern::Strided)),
    })
}

/// The name of a stream's walk, by its addresses alone; none with too few of them.
pub(crate) fn walk(stream: &AddressStream) -> Option<Pattern> {
    if stream.steps.len() < FEWEST {
        return None;
    }
    let (low, high) = stream.span?;
    if high - low < LINE {
        return Some(Pattern::OnePlace);
    }
    if !is_steady(stream) {
        return Some(Pattern::Random);
    }
    let touched = stream.lines_per_turn() * LINE;
    Some(if stream.turn_bytes().unwrap_or(stream.divisor) > touched {
        Pattern::Strided
    } else {
        Pattern::Streaming
    })
}

fn is_steady(stream: &AddressStream) -> bool {
    // A loop over constants is steady however often it begins again between two samples.
    stream.is_linear || keeps_direction(stream)
}

fn keeps_direction(stream: &AddressStream) -> bool {
    let moved =
        |wanted: fn(i64) -> bool| stream.steps.iter().filter(|step| wanted(step.bytes)).count() as f64;
    let (onward, back) = (moved(|bytes| bytes > 0), moved(|bytes| bytes < 0));
    onward.max(back) >= STEADY * (onward + back)
}

/// The constant distance that all steps are multiples of, towards where most go.
fn stride(stream: &AddressStream) -> Option<i64> {
    if stream.steps.len() < FEWEST || stream.divisor == 0 || !is_steady(stream) {
        return None;
    }
    let onward = stream.steps.iter().filter(|step| step.bytes > 0).count() * 2 >= stream.steps.len();
    let distance = i64::try_from(stream.divisor).ok()?;
    Some(if onward { distance } else { -distance })
}

/// Bytes per second at which a steady stream advances.
pub(crate) fn advance(stream: &AddressStream) -> Option<Rate> {
    if stream.advance.is_some() {
        return stream.advance;
    }
    if stream.steps.len() < FEWEST || !is_steady(stream) {
        return None;
    }
    // A loop may have gone round between two samples: then it seems to go back as often as on.
    if stream.is_linear && !keeps_direction(stream) {
        return None;
    }
    let onward = stream.steps.iter().filter(|step| step.bytes > 0).count() * 2 >= stream.steps.len();
    let along = |step: &&StreamStep| step.ns > 0 && step.bytes != 0 && (step.bytes > 0) == onward;
    let speed = |step: &StreamStep| step.bytes.unsigned_abs() as f64 / step.ns as f64 * 1e9;
    let mut rates: Vec<f64> = stream.steps.iter().filter(along).map(speed).collect();
    rates.sort_by(f64::total_cmp);
    // Of a large stride only whole lines are moved.
    let touched = (stream.lines_per_turn() * LINE) as f64;
    let stride = stream.turn_bytes().unwrap_or(stream.divisor) as f64;
    let part = if stride > touched { touched / stride } else { 1.0 };
    Some(Rate {
        bytes_per_s: quantile(&rates, 0.5)? * part,
        low: quantile(&rates, 0.25)? * part,
        high: quantile(&rates, 0.75)? * part,
        pairs: rates.len() as u64,
    })
}
