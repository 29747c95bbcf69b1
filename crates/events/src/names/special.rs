//! Names with a form of their own: breakpoints, raw codes, tracepoints.

use super::{Context, NameError, NameOrigin, Parsed, kernel, modifiers};
use crate::{Encoding, Event, Signal, Unit, field, names::pmu};

/// `mem:ADDR[/LEN][:rwx][:u]`. `None` if it does not begin so.
pub fn breakpoint(name: &str) -> Result<Option<Parsed>, NameError> {
    let Some(rest) = name.strip_prefix("mem:") else { return Ok(None) };
    let error = |at: usize, message: String| NameError::new(name, at, message);
    let (place, after) = rest.split_once(':').map_or((rest, ""), |(place, after)| (place, after));
    let (address, length) = place.split_once('/').map_or((place, None), |(a, l)| (a, Some(l)));
    let address = field::number(address)
        .ok_or_else(|| error(4, format!("'{address}' is no address; write a number such as 0x7f001000")))?;
    let mut parts = after.split(':').filter(|part| !part.is_empty()).peekable();
    let access = parts.next_if(|part| part.chars().all(|c| "rwx".contains(c))).unwrap_or("rw");
    let (read, write, execute) = (access.contains('r'), access.contains('w'), access.contains('x'));
    let length_at = 5 + place.find('/').unwrap_or(place.len());
    let after_at = 5 + place.len();
    if execute && (read || write) {
        return Err(error(after_at, "executions are counted alone: write x, or r and w".into()));
    }
    let length = match length {
        None if execute => 8,
        None => 4,
        Some(text) => field::number(text)
            .filter(|length| [1, 2, 4, 8].contains(length))
            .ok_or_else(|| error(length_at, format!("'{text}' is no length; one of 1, 2, 4, 8")))?,
    };
    let signal = Signal::Breakpoint { address, length, read, write, execute };
    let mut parsed = kernel(name, signal);
    for part in parts {
        let more = modifiers::modes(part)
            .ok_or_else(|| error(after_at, format!("'{part}' is no access (r, w, x) and no modifier")))?;
        modifiers::merge(&mut parsed.event.modifiers, more).map_err(|message| error(after_at, message))?;
    }
    Ok(Some(parsed))
}

/// `rNNNN`: the bits of the core PMU's `config`.
pub fn raw(name: &str, context: &Context) -> Option<Parsed> {
    let digits = name.strip_prefix('r').filter(|digits| (1..=16).contains(&digits.len()))?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let config = u64::from_str_radix(digits, 16).ok()?;
    let mut encoding = Encoding { unit: Unit::Core, pmu: pmu::core_name(context), fields: Vec::new() };
    // Event, mask, edge, inversion and counter mask lie alike on Intel and AMD; the rest goes as it is.
    const ALIKE: u64 = 0xff84_ffff;
    if config & !ALIKE == 0 {
        let fields = [("event", 0, 8), ("umask", 8, 8), ("edge", 18, 1), ("inv", 23, 1), ("cmask", 24, 8)];
        for (name, shift, width) in fields {
            let value = config >> shift & ((1 << width) - 1);
            if value != 0 || name == "event" {
                encoding.set(name, value);
            }
        }
    } else {
        encoding.set("config", config);
    }
    Some(Parsed { event: Event::new(name, Signal::Encoded(encoding)), origin: NameOrigin::Raw, entry: None })
}

/// `subsystem:name`, unless the first part is an event of the catalogue: then the mask is wrong.
pub fn tracepoint(name: &str, context: &Context) -> Option<Parsed> {
    let (subsystem, point) = name.split_once(':')?;
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
    };
    let prefix = format!("{}.", crate::catalogue::key(subsystem));
    let names = context.catalogue.into_iter().flat_map(|catalogue| catalogue.names());
    let is_event = names.into_iter().any(|name| crate::catalogue::key(name).starts_with(&prefix));
    let shouted = subsystem.bytes().any(|c| c.is_ascii_uppercase());
    if !plain(subsystem) || !plain(point) || is_event || shouted {
        return None;
    }
    let signal = Signal::Tracepoint { subsystem: subsystem.to_owned(), name: point.to_owned() };
    Some(kernel(name, signal))
}
