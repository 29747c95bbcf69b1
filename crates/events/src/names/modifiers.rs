//! What may follow an event's name: modes, precision, and fields such as `cmask=1`.

use crate::{Encoding, event::Modifiers, field};

/// Reads `u`, `k`, `upp`, …; `None` if the text is something else.
pub fn modes(text: &str) -> Option<Modifiers> {
    let mut modifiers = Modifiers::default();
    for c in text.chars() {
        match c {
            'u' if !modifiers.user => modifiers.user = true,
            'k' if !modifiers.kernel => modifiers.kernel = true,
            'p' if modifiers.precise < 3 => modifiers.precise += 1,
            _ => return None,
        }
    }
    (!text.is_empty()).then_some(modifiers)
}

/// Puts `u` and `pp` written apart together.
pub fn merge(into: &mut Modifiers, more: Modifiers) -> Result<(), String> {
    into.user |= more.user;
    into.kernel |= more.kernel;
    into.precise += more.precise;
    if into.precise > 3 {
        return Err("an event has at most three p".into());
    }
    Ok(())
}

/// Applies `cmask=2`, `c=2`, `inv`, `edge`, `ldlat=30`, … to an encoding. `Ok(false)` if the text is no such thing.
pub fn set(encoding: &mut Encoding, text: &str) -> Result<bool, String> {
    let lower = text.to_ascii_lowercase();
    let (name, value) = match lower.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (lower.as_str(), None),
    };
    let core = encoding.unit == crate::Unit::Core;
    let name = match name {
        "c" | "cmask" | "thresh" | "t" if core && name != "t" && name != "thresh" => "cmask",
        "c" | "cmask" | "thresh" | "t" if !core => "thresh",
        "i" | "inv" => "inv",
        "e" | "edge" => "edge",
        "t" | "any" => "any",
        name => match field::names().find(|known| *known == name) {
            Some(known) => known,
            None => return Ok(false),
        },
    };
    let value = match value {
        None if matches!(name, "inv" | "edge" | "any") => 1,
        None => return Ok(false),
        Some(value) => field::number(value).ok_or_else(|| format!("'{value}' is no number"))?,
    };
    let bits = field::bits(name).unwrap_or(64);
    if bits < 64 && value >> bits != 0 {
        return Err(format!("{value:#x} needs more than the {bits} bits of {name}"));
    }
    encoding.set(name, value);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    #[test]
    fn modes_are_letters() {
        assert_eq!(modes("u"), Some(Modifiers { user: true, ..Modifiers::default() }));
        assert_eq!(modes("kpp"), Some(Modifiers { kernel: true, precise: 2, ..Modifiers::default() }));
        for bad in ["", "x", "uu", "pppp", "upx"] {
            assert_eq!(modes(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_are_named_as_perf_and_libpfm_do() {
        let mut core = Encoding { unit: Unit::Core, pmu: "cpu".into(), fields: Vec::new() };
        for text in ["cmask=0x2", "i", "edge=1", "t", "ldlat=30"] {
            assert_eq!(set(&mut core, text), Ok(true), "{text}");
        }
        let fields: Vec<_> = core.fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(fields, [("cmask", 2), ("inv", 1), ("edge", 1), ("any", 1), ("ldlat", 30)]);
        let mut link = Encoding { unit: Unit::Link, ..core };
        assert_eq!(set(&mut link, "c=3"), Ok(true));
        assert_eq!(link.field("thresh"), 3);
        assert_eq!(set(&mut link, "L1D_WB"), Ok(false));
        assert!(set(&mut link, "cmask=300").unwrap_err().contains("8 bits"));
        assert!(set(&mut link, "cmask=x").unwrap_err().contains("no number"));
    }
}
