//! Values of a scenario file: variables put in, units read, ranges checked.

use std::{collections::BTreeMap, ops::RangeInclusive};

use machine::{Bytes, Width};
use toml::Spanned;

use super::{
    definition::{BufferHome, ScenarioVariable},
    file::Scalar,
};
use crate::memory::PagePolicy;

/// Larger than any machine's memory: a larger size is a typing error.
const LARGEST_SIZE: Bytes = Bytes(1 << 40);
/// Rates outside this range, in bytes per second, are typing errors.
const RATES: RangeInclusive<f64> = 1e5..=1e13;

/// What is wrong, and at which byte of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    pub message: String,
}

impl Fault {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// The variables in force.
pub struct Values {
    variables: BTreeMap<String, (Scalar, bool)>,
}

impl Values {
    /// The variables of a file, some of them set by the user. Gives back a name that the file does not have.
    pub fn new(
        declared: &BTreeMap<String, Spanned<Scalar>>,
        settings: &[(String, String)],
    ) -> Result<Self, String> {
        let declared = declared.iter().map(|(name, value)| (name.clone(), (value.get_ref().clone(), false)));
        let mut variables: BTreeMap<_, _> = declared.collect();
        for (name, value) in settings {
            let slot = variables.get_mut(name).ok_or_else(|| name.clone())?;
            let value = value.trim();
            *slot = (value.parse().map_or_else(|_| Scalar::Text(value.to_owned()), Scalar::Number), true);
        }
        Ok(Self { variables })
    }

    /// All of them, by name.
    pub fn list(&self) -> Vec<ScenarioVariable> {
        let variables = self.variables.iter();
        variables
            .map(|(name, (value, set))| ScenarioVariable {
                name: name.clone(),
                value: value.to_string(),
                set: *set,
            })
            .collect()
    }

    /// The value itself, or that of the variable it names.
    fn look_up<'a>(&'a self, given: &'a Spanned<Scalar>) -> Result<FoundBuffer<'a>, Fault> {
        let at = given.span().start;
        let Scalar::Text(text) = given.get_ref() else {
            return Ok(FoundBuffer { at, value: given.get_ref(), from: None });
        };
        let Some(name) = text.strip_prefix('$') else {
            return Ok(FoundBuffer { at: at + 1, value: given.get_ref(), from: None });
        };
        match self.variables.get(name) {
            Some((value, _)) => Ok(FoundBuffer { at: at + 1, value, from: Some(name) }),
            None => Err(Fault::new(at + 1, format!("there is no variable '{name}'; declare it under [set]"))),
        }
    }

    /// A whole number in a range.
    pub fn number(
        &self,
        given: &Spanned<Scalar>,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Fault> {
        let found = self.look_up(given)?;
        let number = match found.value {
            Scalar::Number(number) => u64::try_from(*number).ok(),
            Scalar::Text(_) => None,
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            found.fault(&format!("{what} is a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// A text.
    pub fn word<'a>(&'a self, given: &'a Spanned<Scalar>, what: &str) -> Result<(&'a str, usize), Fault> {
        let found = self.look_up(given)?;
        match found.value {
            Scalar::Text(text) => Ok((text, found.at)),
            Scalar::Number(_) => Err(found.fault(&format!("{what} is a text"))),
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &self,
        given: Option<&Spanned<Scalar>>,
        what: &str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, Fault> {
        let Some(given) = given else { return Ok(default) };
        let found = self.look_up(given)?;
        let chosen = choices.iter().find(|(name, _)| *found.value == Scalar::Text((*name).to_owned()));
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            found.fault(&format!("{what} is one of {}", names.join(", ")))
        })
    }

    /// A size.
    pub fn size(&self, given: &Spanned<Scalar>) -> Result<Bytes, Fault> {
        let found = self.look_up(given)?;
        let size = match found.value {
            Scalar::Number(number) => Bytes(u64::try_from(*number).unwrap_or(0)),
            Scalar::Text(text) => text.parse().map_err(|error| found.fault(&format!("{error}")))?,
        };
        if size.0 == 0 || size > LARGEST_SIZE {
            return Err(found.fault(&format!("a size is from 1 byte to {LARGEST_SIZE}")));
        }
        Ok(size)
    }

    /// A node.
    pub fn home(&self, given: Option<&Spanned<Scalar>>) -> Result<BufferHome, Fault> {
        let Some(given) = given else { return Ok(BufferHome::Local) };
        let found = self.look_up(given)?;
        match found.value {
            Scalar::Text(text) if text == "local" => Ok(BufferHome::Local),
            Scalar::Text(text) if text == "remote" => Ok(BufferHome::Remote),
            Scalar::Number(number @ 0..=32_767) => Ok(BufferHome::Node(*number as u32)),
            _ => Err(found.fault("node is local, remote or the number of a NUMA node")),
        }
    }

    /// The kind of pages.
    pub fn pages(&self, given: Option<&Spanned<Scalar>>) -> Result<PagePolicy, Fault> {
        let choices = [("huge", PagePolicy::Huge), ("small", PagePolicy::Small)];
        self.choice(given, "pages", &choices, PagePolicy::Huge)
    }

    /// A width.
    pub fn width(&self, given: Option<&Spanned<Scalar>>) -> Result<Option<Width>, Fault> {
        let Some(given) = given else { return Ok(None) };
        let (text, at) = self.word(given, "width")?;
        text.parse().map(Some).map_err(|error| Fault::new(at, format!("{error}")))
    }

    /// Bytes per second.
    pub fn rate(&self, given: Option<&Spanned<Scalar>>) -> Result<Option<f64>, Fault> {
        let Some(given) = given else { return Ok(None) };
        let (text, at) = self.word(given, "rate")?;
        rate(text).map(Some).ok_or_else(|| {
            Fault::new(
                at,
                format!("'{text}' is no rate; write one such as 2GB/s or 500MB/s, 0.1 MB/s to 10 TB/s"),
            )
        })
    }
}

/// A value with where it was used and the variable it came from.
struct FoundBuffer<'a> {
    at: usize,
    value: &'a Scalar,
    from: Option<&'a str>,
}

impl FoundBuffer<'_> {
    fn fault(&self, message: &str) -> Fault {
        let from = self.from.map_or(String::new(), |name| format!(" (${name} is '{}')", self.value));
        Fault::new(self.at, format!("{message}{from}"))
    }
}

/// Decimal, as rates are: `2.5GB/s`, `500 MB/s`.
fn rate(text: &str) -> Option<f64> {
    let units = [("KB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.trim().strip_suffix(name)?, unit)))?;
    let rate = number.trim().parse::<f64>().ok()? * unit;
    RATES.contains(&rate).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_bounded() {
        assert_eq!(rate("2GB/s"), Some(2e9));
        assert_eq!(rate("0.5 MB/s"), Some(5e5));
        for bad in ["", "GB/s", "2", "2GB", "-1GB/s", "nanGB/s", "infGB/s", "0GB/s", "99999TB/s"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
    }
}
