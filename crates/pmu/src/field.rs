//! Where a PMU keeps the fields of its events, and events written as text.
//!
//! A PMU's `format` folder says which bits of which word a field takes (`config1:1,6-10,44`), and its `events`
//! folder names events in terms of those fields (`event=0x04,umask=0x03`).

use std::collections::BTreeMap;

use crate::KernelEvent;

/// Where one field lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    word: FormatWord,
    /// Runs of bits, lowest bit of the value first: first and last bit.
    runs: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatWord {
    Config,
    Config1,
    Config2,
    Config3,
}

/// A text of sysfs that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// Not `config:0-7` or alike.
    #[error("'{0}' is no format of an event field; expected one such as config:0-7,32")]
    Format(String),
    /// Not `event=0x04,umask=0x03` or alike.
    #[error("'{0}' is no event; expected one such as event=0x04,umask=0x03")]
    Event(String),
    /// The PMU has no such field.
    #[error("the PMU has no field '{0}'")]
    Unknown(String),
    /// The value needs more bits than the field has.
    #[error("{value:#x} does not fit the field '{field}'")]
    TooLarge {
        /// The field.
        field: String,
        /// What should go there.
        value: u64,
    },
}

impl Field {
    /// Reads the text of a file in a `format` folder.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::Format(text.trim().to_owned());
        let (word, runs) = text.trim().split_once(':').ok_or_else(bad)?;
        let word = match word {
            "config" => FormatWord::Config,
            "config1" => FormatWord::Config1,
            "config2" => FormatWord::Config2,
            "config3" => FormatWord::Config3,
            _ => return Err(bad()),
        };
        let bit = |text: &str| text.trim().parse().ok().filter(|bit| *bit < 64).ok_or_else(bad);
        let run = |text: &str| -> Result<(u32, u32), FieldError> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (bit(first)?, bit(last)?);
            if first <= last { Ok((first, last)) } else { Err(bad()) }
        };
        Ok(Self { word, runs: runs.split(',').map(run).collect::<Result<_, _>>()? })
    }

    /// How many bits it has.
    pub fn bits(&self) -> u32 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Puts `value` into the bits of this field. `None` if it needs more bits than there are.
    pub fn put(&self, event: &mut KernelEvent, value: u64) -> Option<()> {
        let word = match self.word {
            FormatWord::Config => &mut event.config,
            FormatWord::Config1 => &mut event.config1,
            FormatWord::Config2 => &mut event.config2,
            FormatWord::Config3 => &mut event.config3,
        };
        let (mut left, mut filled) = (Some(value), *word);
        for &(first, last) in &self.runs {
            let width = last - first + 1;
            let mask = u64::MAX >> (64 - width);
            let rest = left.unwrap_or(0);
            filled = filled & !(mask << first) | (rest & mask) << first;
            left = rest.checked_shr(width);
        }
        if left.unwrap_or(0) != 0 {
            return None;
        }
        *word = filled;
        Some(())
    }
}

/// Fills `event` from a text such as `event=0x04,umask=0x03`; a field without a value is set to 1.
pub fn apply(
    text: &str,
    fields: &BTreeMap<String, Field>,
    event: &mut KernelEvent,
) -> Result<(), FieldError> {
    let bad = || FieldError::Event(text.trim().to_owned());
    for term in text.trim().split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.trim().strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
            None => value.trim().parse(),
        };
        let value = value.map_err(|_| bad())?;
        let name = name.trim();
        match (name, fields.get(name)) {
            (_, Some(field)) => field
                .put(event, value)
                .ok_or_else(|| FieldError::TooLarge { field: name.to_owned(), value })?,
            // Whole words may be given without a format.
            ("config", None) => event.config = value,
            ("config1", None) => event.config1 = value,
            ("config2", None) => event.config2 = value,
            ("config3", None) => event.config3 = value,
            _ => return Err(FieldError::Unknown(name.to_owned())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields() -> BTreeMap<String, Field> {
        [
            ("event", "config:0-7,32-35\n"),
            ("umask", "config:8-15"),
            ("odd", "config1:1,6-10,44"),
            ("all", "config2:0-63"),
        ]
        .map(|(name, text)| (name.to_owned(), Field::parse(text).unwrap()))
        .into()
    }

    #[test]
    fn split_fields_are_filled_from_the_low_end() {
        let mut event = KernelEvent::new(4, 0);
        apply("event=0xa04,umask=0x3,odd=0x7f,all=0xffffffffffffffff\n", &fields(), &mut event).unwrap();
        assert_eq!(event.config, 0xa_0000_0304);
        assert_eq!(event.config1, 1 << 1 | 0x1f << 6 | 1 << 44);
        assert_eq!(event.config2, u64::MAX);
        apply("umask=1,config1=2", &fields(), &mut event).unwrap();
        assert_eq!((event.config, event.config1), (0xa_0000_0104, 2));
    }

    #[test]
    fn each_mistake_is_named() {
        let mut event = KernelEvent::new(4, 0);
        let mut error = |text| apply(text, &fields(), &mut event).unwrap_err().to_string();
        assert_eq!(error("event=0x1000"), "0x1000 does not fit the field 'event'");
        assert_eq!(error("colour=1"), "the PMU has no field 'colour'");
        assert!(error("event=blue").contains("'event=blue' is no event"));
        for text in ["", "config", "config4:1", "config:64", "config:7-3", "config:1,,2", "config:a"] {
            assert!(matches!(Field::parse(text), Err(FieldError::Format(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_put_can_be_taken_back(value in 0u64..4096) {
            let mut event = KernelEvent::new(4, 0);
            apply(&format!("event={value:#x}"), &fields(), &mut event).unwrap();
            prop_assert_eq!(event.config & 0xff | (event.config >> 32 & 0xf) << 8, value);
        }

        #[test]
        fn no_text_panics(format in ".{0,12}", event in ".{0,16}") {
            let _ = Field::parse(&format);
            let _ = apply(&event, &fields(), &mut KernelEvent::new(4, 0));
        }
    }
}
