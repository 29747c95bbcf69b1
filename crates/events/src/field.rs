//! The fields of an event by the names of the kernel's `format` files, and how wide they are at most.

/// Field, greatest width over all machines in the catalogue.
const FIELDS: &[(&str, u32)] = &[
    ("event", 14),
    ("umask", 32),
    ("cmask", 8),
    ("inv", 1),
    ("edge", 1),
    ("any", 1),
    ("thresh", 8),
    ("offcore_rsp", 64),
    ("ldlat", 16),
    ("frontend", 24),
    ("filter_opc", 9),
    ("filter_state", 10),
    ("config", 64),
    ("config1", 64),
    ("config2", 64),
    ("rdwrmask", 2),
    ("enallcores", 1),
    ("enallslices", 1),
    ("sliceid", 3),
    ("slicemask", 4),
    ("threadmask", 8),
    ("cnt_ctl", 1),
    ("l3missonly", 1),
    ("rand_en", 1),
];

/// How many bits a field has, if there is such a field.
pub fn bits(name: &str) -> Option<u32> {
    FIELDS.iter().find(|(field, _)| *field == name).map(|(_, bits)| *bits)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(name, _)| *name)
}

/// A number as people write it: decimal, or hexadecimal with `0x`.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}
