//! Values that lack a part: on which side of the truth they lie.

use serde::{Deserialize, Serialize};

/// On which side of the truth a value lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueBound {
    /// It is the value.
    #[default]
    Exact,
    /// The truth is as large or larger.
    AtLeast,
    /// The truth is as large or smaller.
    AtMost,
    /// It may be either.
    Unclear,
}

/// A value, and what it lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedValue {
    /// The value.
    pub value: f64,
    /// On which side of the truth.
    pub bound: ValueBound,
    /// What is missing in it, by name.
    pub without: Vec<String>,
}

impl ValueBound {
    /// Of what both enter in the same direction.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact, other) => other,
            (one, Self::Exact) => one,
            (one, other) if one == other => one,
            _ => Self::Unclear,
        }
    }

    /// Of what enters against its direction: subtracted, or divided by.
    pub fn turned(self) -> Self {
        match self {
            Self::AtLeast => Self::AtMost,
            Self::AtMost => Self::AtLeast,
            other => other,
        }
    }

    /// Before a number: `at least`, or nothing.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
            Self::Unclear => "about",
        }
    }
}

impl BoundedValue {
    /// A value that lacks nothing.
    pub fn exact(value: f64) -> Self {
        Self { value, bound: ValueBound::Exact, without: Vec::new() }
    }

    /// Notes something missing, once.
    pub fn lacks(&mut self, name: String) {
        if !self.without.contains(&name) {
            self.without.push(name);
        }
    }

    /// Both in the same direction. Counts are not below 0, so that a product grows with its factors.
    pub fn with(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        let bound = self.bound.and(other.bound);
        let value = combine(self.value, other.value);
        let mut both = Self { value, bound, without: self.without };
        other.without.into_iter().for_each(|name| both.lacks(name));
        both
    }

    /// Their difference.
    pub fn less(self, other: Self) -> Self {
        let other = Self { bound: other.bound.turned(), ..other };
        self.with(other, |one, other| one - other)
    }

    /// Their quotient.
    pub fn over(self, other: Self) -> Self {
        let other = Self { bound: other.bound.turned(), ..other };
        self.with(other, |one, other| one / other)
    }
}
