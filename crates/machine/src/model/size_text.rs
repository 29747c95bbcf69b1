//! Sizes in model files: a number of bytes, or a text with a binary suffix.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, Visitor},
};

use crate::Bytes;

/// Reads `32768` and `"32K"` alike.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    struct Size;

    impl Visitor<'_> for Size {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of bytes or a text such as \"32K\"")
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<Bytes, E> {
            Ok(Bytes(bytes))
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<Bytes, E> {
            u64::try_from(bytes).map(Bytes).map_err(|_| E::custom(format!("{bytes} is not a size")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
            text.parse().map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Size)
}
