//! The TOML of a scenario file, before its meaning is checked.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    pub name: Spanned<String>,
    pub about: String,
    pub source: Option<String>,
    pub seed: Option<Spanned<Scalar>>,
    pub threads: Spanned<Scalar>,
    #[serde(default)]
    pub set: BTreeMap<String, Spanned<Scalar>>,
    #[serde(default)]
    pub buffer: Vec<BufferEntry>,
    #[serde(default)]
    pub region: Vec<RegionEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferEntry {
    pub name: Spanned<String>,
    pub size: Spanned<Scalar>,
    pub sharing: Option<Spanned<Scalar>>,
    pub node: Option<Spanned<Scalar>>,
    pub pages: Option<Spanned<Scalar>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionEntry {
    pub name: Spanned<String>,
    pub repeat: Option<Spanned<Scalar>>,
    pub threads: Option<Spanned<Vec<u64>>>,
    #[serde(default)]
    pub step: Vec<StepEntry>,
    #[serde(default)]
    pub region: Vec<RegionEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepEntry {
    pub kernel: Spanned<Scalar>,
    #[serde(default)]
    pub parameters: BTreeMap<String, Spanned<Scalar>>,
    pub width: Option<Spanned<Scalar>>,
    pub buffer: Option<Spanned<String>>,
    pub passes: Option<Spanned<Scalar>>,
    pub threads: Option<Spanned<Vec<u64>>>,
    pub span: Option<Spanned<Scalar>>,
    pub shift: Option<Spanned<Scalar>>,
    pub rate: Option<Spanned<Scalar>>,
}

/// A whole number or a text; a text may stand for a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    Number(i64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a text")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Scalar, E> {
                i64::try_from(number).map(Scalar::Number).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}
