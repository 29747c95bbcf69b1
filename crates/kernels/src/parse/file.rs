//! The TOML of a kernel file, before its meaning is checked.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFile {
    pub kernel: Vec<KernelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelEntry {
    pub name: Spanned<String>,
    pub about: String,
    #[serde(default)]
    pub source: Option<String>,
    pub element: Option<Spanned<u64>>,
    pub widths: Option<Spanned<String>>,
    pub unroll: Option<Spanned<u64>>,
    #[serde(default)]
    pub pointers: bool,
    #[serde(default)]
    pub parameters: BTreeMap<String, Spanned<u64>>,
    #[serde(default)]
    pub streams: Vec<Spanned<StreamEntry>>,
    #[serde(default)]
    pub constants: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    pub lanes: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    pub chains: BTreeMap<String, Spanned<toml::Value>>,
    pub body: Option<Vec<Spanned<String>>>,
    pub triangle: Option<Vec<Spanned<String>>>,
    pub turns: Option<TurnsEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnsEntry {
    pub lines: Spanned<String>,
    pub first: Vec<Spanned<String>>,
    pub second: Vec<Spanned<String>>,
}

/// A stream: its name alone, or a table.
pub struct StreamEntry(pub StreamTable);

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct StreamTable {
    pub name: String,
    pub pattern: Option<String>,
    pub stride: Option<u64>,
    pub element: Option<u64>,
    pub distribution: Option<String>,
    pub buffers: Option<u64>,
    pub below: Option<u64>,
    pub of: Option<String>,
}

impl<'de> Deserialize<'de> for StreamEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = StreamEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a stream name or a table with a name")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<StreamEntry, E> {
                Ok(StreamEntry(StreamTable { name: name.to_owned(), ..StreamTable::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StreamEntry, A::Error> {
                StreamTable::deserialize(MapAccessDeserializer::new(map)).map(StreamEntry)
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}
