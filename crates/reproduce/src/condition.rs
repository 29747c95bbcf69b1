//! What our numbers must be for the paper's conclusion: comparisons of formulas.

use events::formula::{Absent, Formula, FormulaError};

/// `a < b` or `a > b`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    less: Formula,
    more: Formula,
}

/// Why a condition cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// It compares nothing.
    #[error("'{0}' has neither < nor >")]
    NoComparison(String),
    /// One of its sides is no formula.
    #[error("in '{text}': {source}")]
    Formula {
        /// The condition.
        text: String,
        /// What is wrong.
        source: FormulaError,
    },
}

impl Condition {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let formula = |part: &str| {
            let wrong = |source| ConditionError::Formula { text: text.to_owned(), source };
            Formula::parse(part.trim()).map_err(wrong)
        };
        let at = text.find(['<', '>']).ok_or_else(|| ConditionError::NoComparison(text.to_owned()))?;
        let (left, right) = (formula(&text[..at])?, formula(&text[at + 1..])?);
        let (less, more) = if text[at..].starts_with('<') { (left, right) } else { (right, left) };
        Ok(Self { text: text.to_owned(), less, more })
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names it needs.
    pub fn names(&self) -> Vec<&str> {
        let mut names = self.less.names();
        names.extend(self.more.names());
        names
    }

    /// Whether it holds, if all it needs has a value.
    pub fn holds(&self, input: &dyn Fn(&str) -> Option<f64>) -> Result<bool, Absent> {
        Ok(self.less.value(input)? < self.more.value(input)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_and_what_is_missing() {
        let value = |name: &str| (name == "ours").then_some(2.0);
        let holds = |text: &str| Condition::parse(text).expect("a condition").holds(&value);
        assert_eq!(holds("ours < 1 + 2"), Ok(true));
        assert_eq!(holds("ours > 3"), Ok(false));
        assert_eq!(holds("ours > theirs"), Err(Absent::Missing("theirs".to_owned())));
        assert!(matches!(Condition::parse("ours"), Err(ConditionError::NoComparison(_))));
        assert!(matches!(Condition::parse("ours < (1"), Err(ConditionError::Formula { .. })));
    }
}
