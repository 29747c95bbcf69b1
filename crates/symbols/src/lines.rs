//! Source lines of an address.

use std::borrow::Cow;

use crate::debug::DebugInfo;
use crate::demangle::demangle;

/// More inlined frames than this at one address are damage.
const FRAME_LIMIT: usize = 128;

/// A place in the source. What the debug information does not say is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as the compiler recorded it.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// The function written there, demangled: for all but the last location, one that was inlined into the next.
    pub function: Option<String>,
}

/// The places of an address, innermost first.
pub(crate) fn at(info: &DebugInfo, address: u64) -> Vec<SourceLocation> {
    let visited = info.with_frames(address, |mut frames| {
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref();
            found.push(SourceLocation {
                file: location.and_then(|location| location.file).map(str::to_owned),
                // The compiler writes 0 for code that belongs to no line or column.
                line: location.and_then(|location| location.line).filter(|line| *line > 0),
                column: location.and_then(|location| location.column).filter(|column| *column > 0),
                function: name.map(|name| demangle(&name).into_owned()),
            });
            if found.len() == FRAME_LIMIT {
                break;
            }
        }
        found
    });
    visited.unwrap_or_default()
}

/// The raw name of the function whose code this is, whatever was inlined into it.
pub(crate) fn function_name(info: &DebugInfo, address: u64) -> Option<String> {
    info.with_frames(address, |mut frames| {
        let mut outermost = None;
        for _ in 0..FRAME_LIMIT {
            let Ok(Some(frame)) = frames.next() else { break };
            outermost = frame.function.and_then(|function| function.raw_name().map(Cow::into_owned).ok());
        }
        outermost
    })?
}
