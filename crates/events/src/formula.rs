//! Formulas of metrics: `+ - * /`, parentheses, `max(a, b)`, `min(a, b)`, `capped(a, b)`, `sum(a, b, …)`, numbers, names of events,
//! `time`.
//!
//! `capped(a, b)` is `min(a, b)` where `a` should not be above `b` at all: what it cuts off is a contradiction between
//! events, and can be asked for. `sum` is for parts that are known to be parts: those that are missing are left out, and the
//! value says so.

use std::fmt;

use crate::bound::{BoundedValue, ValueBound};

/// Longest formula that is read.
const LONGEST: usize = 4096;
/// Deepest nesting that is read.
const DEEPEST: u32 = 64;

/// A formula that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    expression: Expression,
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Name(String),
    Minus(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// Parts none of which is below 0.
    Sum(Vec<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
    Capped,
}

/// What is wrong with a formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {position} of the formula: {message}")]
pub struct FormulaError {
    /// From 1, in characters.
    pub position: usize,
    /// What is wrong.
    pub message: String,
}

/// Why a formula has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Absent {
    /// One of its inputs has no value.
    #[error("{0} is missing")]
    Missing(String),
    /// Something is divided by 0.
    #[error("{0} is 0")]
    DividedByZero(String),
    /// It lies between two bounds that are far apart, and nothing says where.
    #[error("undecided between {0:.0} and {1:.0}: {2}")]
    Undecided(f64, f64, String),
    /// The result is too large for a number.
    #[error("the result is no number")]
    NotFinite,
}

impl Formula {
    /// Reads a formula.
    ///
    /// ```
    /// use events::formula::{Absent, Formula};
    /// let formula = Formula::parse("64 * (in + out) / time")?;
    /// let values = |name: &str| match name { "in" => Some(3.0), "time" => Some(2.0), _ => None };
    /// assert_eq!(formula.value(&values), Err(Absent::Missing("out".into())));
    /// assert_eq!(formula.value(&|name| values(name).or(Some(1.0))), Ok(128.0));
    /// # Ok::<(), events::formula::FormulaError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        if text.len() > LONGEST {
            return Err(parser.error(format!("a formula has at most {LONGEST} bytes")));
        }
        let expression = parser.sum()?;
        match parser.peek() {
            None => Ok(Self { text: text.to_owned(), expression }),
            Some(c) => Err(parser.error(format!("expected an operator, found '{c}'"))),
        }
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names it needs, each once, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.expression.names(&mut names);
        names
    }

    /// Its value, if every input has one and nothing is divided by 0.
    pub fn value(&self, input: &dyn Fn(&str) -> Option<f64>) -> Result<f64, Absent> {
        let known =
            |name: &str| input(name).map(BoundedValue::exact).ok_or_else(|| Absent::Missing(name.to_owned()));
        let found = self.bounded(&known)?;
        match found.without.into_iter().next() {
            None => Ok(found.value),
            Some(name) => Err(Absent::Missing(name)),
        }
    }

    /// Its value from inputs that may themselves lack a part; a `sum` does without parts that are missing.
    pub fn bounded(
        &self,
        input: &dyn Fn(&str) -> Result<BoundedValue, Absent>,
    ) -> Result<BoundedValue, Absent> {
        self.expression.value(input, Caps::Hold)
    }

    /// What its value would be if nothing were cut off where events contradict each other.
    ///
    /// ```
    /// let formula = events::formula::Formula::parse("100 * capped(part, whole) / whole")?;
    /// let counts = |name: &str| Some(if name == "part" { 3.0 } else { 2.0 });
    /// assert_eq!((formula.value(&counts), formula.uncapped(&counts)), (Ok(100.0), Ok(150.0)));
    /// # Ok::<(), events::formula::FormulaError>(())
    /// ```
    pub fn uncapped(&self, input: &dyn Fn(&str) -> Option<f64>) -> Result<f64, Absent> {
        let known =
            |name: &str| input(name).map(BoundedValue::exact).ok_or_else(|| Absent::Missing(name.to_owned()));
        Ok(self.bounded_uncapped(&known)?.value)
    }

    /// The same from inputs that may themselves lack a part.
    pub fn bounded_uncapped(
        &self,
        input: &dyn Fn(&str) -> Result<BoundedValue, Absent>,
    ) -> Result<BoundedValue, Absent> {
        self.expression.value(input, Caps::Lifted)
    }
}

/// Whether `capped` cuts anything off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caps {
    Hold,
    Lifted,
}

impl Expression {
    fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) if names.contains(&name.as_str()) => {}
            Self::Name(name) => names.push(name),
            Self::Minus(inner) => inner.names(names),
            Self::Binary(_, left, right) => {
                left.names(names);
                right.names(names);
            }
            Self::Sum(parts) => parts.iter().for_each(|part| part.names(names)),
        }
    }

    fn value(
        &self,
        input: &dyn Fn(&str) -> Result<BoundedValue, Absent>,
        caps: Caps,
    ) -> Result<BoundedValue, Absent> {
        let found = match self {
            Self::Number(number) => BoundedValue::exact(*number),
            Self::Name(name) => input(name)?,
            Self::Minus(inner) => BoundedValue::exact(0.0).less(inner.value(input, caps)?),
            Self::Sum(parts) => sum(parts, input, caps)?,
            Self::Binary(operator, left, right) => {
                let (one, other) = (left.value(input, caps)?, right.value(input, caps)?);
                match operator {
                    Operator::Add => one.with(other, |one, other| one + other),
                    Operator::Subtract => one.less(other),
                    Operator::Multiply => one.with(other, |one, other| one * other),
                    Operator::Divide if other.value == 0.0 => {
                        return Err(Absent::DividedByZero(right.to_string()));
                    }
                    Operator::Divide => one.over(other),
                    Operator::Max => one.with(other, f64::max),
                    Operator::Capped if caps == Caps::Lifted => one,
                    Operator::Min | Operator::Capped => one.with(other, f64::min),
                }
            }
        };
        if found.value.is_finite() { Ok(found) } else { Err(Absent::NotFinite) }
    }
}

/// Adds the parts that are there; missing if none is.
fn sum(
    parts: &[Expression],
    input: &dyn Fn(&str) -> Result<BoundedValue, Absent>,
    caps: Caps,
) -> Result<BoundedValue, Absent> {
    let (mut total, mut first): (Option<BoundedValue>, _) = (None, None);
    let mut without = Vec::new();
    for part in parts {
        match part.value(input, caps) {
            Ok(value) => {
                total = Some(match total {
                    None => value,
                    Some(total) => total.with(value, |one, other| one + other),
                });
            }
            Err(Absent::Missing(name)) => {
                without.push(name.clone());
                first.get_or_insert(Absent::Missing(name));
            }
            Err(other) => return Err(other),
        }
    }
    let mut total = total.ok_or_else(|| first.unwrap_or(Absent::NotFinite))?;
    if !without.is_empty() {
        total.bound = total.bound.and(ValueBound::AtLeast);
        without.into_iter().for_each(|name| total.lacks(name));
    }
    Ok(total)
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
            Self::Minus(inner) => write!(f, "-{inner}"),
            Self::Sum(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "sum({})", parts.join(", "))
            }
            Self::Binary(operator, left, right) => match operator {
                Operator::Add => write!(f, "({left} + {right})"),
                Operator::Subtract => write!(f, "({left} - {right})"),
                Operator::Multiply => write!(f, "({left} * {right})"),
                Operator::Divide => write!(f, "({left} / {right})"),
                Operator::Max => write!(f, "max({left}, {right})"),
                Operator::Min => write!(f, "min({left}, {right})"),
                Operator::Capped => write!(f, "capped({left}, {right})"),
            },
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> FormulaError {
        FormulaError { position: self.text[..self.at].chars().count() + 1, message: message.into() }
    }

    fn peek(&mut self) -> Option<char> {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn sum(&mut self) -> Result<Expression, FormulaError> {
        self.chain(&[('+', Operator::Add), ('-', Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Expression, FormulaError> {
        self.chain(&[('*', Operator::Multiply), ('/', Operator::Divide)], Self::factor)
    }

    fn chain(
        &mut self,
        operators: &[(char, Operator)],
        part: fn(&mut Self) -> Result<Expression, FormulaError>,
    ) -> Result<Expression, FormulaError> {
        let mut left = part(self)?;
        // A long chain makes a tree as deep as it is long, so it counts as nesting too.
        let mut links = 0;
        while let Some(&(_, operator)) =
            self.peek().and_then(|c| operators.iter().find(|(sign, _)| *sign == c))
        {
            links += 1;
            if links > DEEPEST {
                return Err(self.error(format!("more than {DEEPEST} operators in a row")));
            }
            self.at += 1;
            left = Expression::Binary(operator, Box::new(left), Box::new(part(self)?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, FormulaError> {
        if self.depth >= DEEPEST {
            return Err(self.error(format!("nested deeper than {DEEPEST}")));
        }
        self.depth += 1;
        let factor = match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(Expression::Minus(Box::new(self.factor()?)))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.run(|c| c.is_ascii_alphanumeric() || "_.:@".contains(c)).to_owned();
                self.name_or_call(name)
            }
            _ => Err(self.error("expected a number, a name or '('")),
        };
        self.depth -= 1;
        factor
    }

    fn name_or_call(&mut self, name: String) -> Result<Expression, FormulaError> {
        let operator = match name.as_str() {
            "max" => Operator::Max,
            "min" => Operator::Min,
            "sum" => return self.parts(),
            "capped" => Operator::Capped,
            _ => return Ok(Expression::Name(name)),
        };
        self.expect('(')?;
        let left = self.sum()?;
        self.expect(',')?;
        let right = self.sum()?;
        self.expect(')')?;
        Ok(Expression::Binary(operator, Box::new(left), Box::new(right)))
    }

    fn parts(&mut self) -> Result<Expression, FormulaError> {
        self.expect('(')?;
        let mut parts = vec![self.sum()?];
        while self.peek() == Some(',') {
            if parts.len() as u32 >= DEEPEST {
                return Err(self.error(format!("more than {DEEPEST} parts")));
            }
            self.at += 1;
            parts.push(self.sum()?);
        }
        self.expect(')')?;
        Ok(Expression::Sum(parts))
    }

    fn expect(&mut self, c: char) -> Result<(), FormulaError> {
        if self.peek() == Some(c) {
            self.at += c.len_utf8();
            return Ok(());
        }
        Err(self.error(format!("expected '{c}'")))
    }

    fn run(&mut self, belongs: fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn number(&mut self) -> Result<Expression, FormulaError> {
        let start = self.at;
        self.run(|c| c.is_ascii_digit() || c == '.');
        // `1e9`, `1e-3`.
        let rest = &self.text[self.at..];
        if let Some(exponent) = rest.strip_prefix('e') {
            let signed = usize::from(exponent.starts_with(['-', '+']));
            if exponent[signed..].starts_with(|c: char| c.is_ascii_digit()) {
                self.at += 1 + signed;
                self.run(|c| c.is_ascii_digit());
            }
        }
        let text = &self.text[start..self.at];
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Expression::Number(number)),
            _ => {
                self.at = start;
                Err(self.error(format!(
                    "'{}' is no number",
                    &self.text[start..].chars().take(20).collect::<String>()
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<f64, Absent> {
        Formula::parse(text).unwrap().value(&|name| match name {
            "a" => Some(6.0),
            "b" => Some(2.0),
            "L1D.REPLACEMENT" => Some(5.0),
            "zero" => Some(0.0),
            _ => None,
        })
    }

    #[test]
    fn arithmetic() {
        assert_eq!(value("a - b - 1"), Ok(3.0));
        assert_eq!(value("a / b / 3"), Ok(1.0));
        assert_eq!(value("1 + 2*(a-b) "), Ok(9.0));
        assert_eq!(value("-a + -(-b)"), Ok(-4.0));
        assert_eq!(value("1e3 * 2.5e-1"), Ok(250.0));
        assert_eq!(value("max(a, b) - min(a, b + 1)"), Ok(3.0));
        assert_eq!(value("capped(a, b) + capped(b, a)"), Ok(4.0));
        assert_eq!(value("64*L1D.REPLACEMENT"), Ok(320.0));
    }

    #[test]
    fn absence_has_a_reason() {
        assert_eq!(value("a + gone"), Err(Absent::Missing("gone".into())));
        assert_eq!(value("a / (b - 2)"), Err(Absent::DividedByZero("(b - 2)".into())));
        assert_eq!(value("zero / zero"), Err(Absent::DividedByZero("zero".into())));
        assert_eq!(value("1e308 * 1e308"), Err(Absent::NotFinite));
    }

    #[test]
    fn a_sum_does_without_what_is_missing_and_says_so() {
        assert_eq!(value("sum(a, b, 1)"), Ok(9.0));
        assert_eq!(value("sum(a, gone)"), Err(Absent::Missing("gone".into())), "a plain value must be whole");
        let bounded = |text: &str| {
            Formula::parse(text).unwrap().bounded(&|name| match name {
                "a" => Ok(BoundedValue::exact(6.0)),
                "part" => {
                    Ok(BoundedValue { value: 2.0, bound: ValueBound::AtLeast, without: vec!["x".into()] })
                }
                other => Err(Absent::Missing(other.to_owned())),
            })
        };
        let found = bounded("sum(a, gone * 3, part)").unwrap();
        assert_eq!((found.value, found.bound), (8.0, ValueBound::AtLeast));
        assert_eq!(found.without, ["x", "gone"]);
        assert_eq!(
            bounded("100 * a / sum(a, gone)").unwrap().bound,
            ValueBound::AtMost,
            "of a sum that may be larger"
        );
        assert_eq!(bounded("a - part").unwrap().bound, ValueBound::AtMost);
        assert_eq!(bounded("part / part").unwrap().bound, ValueBound::Unclear);
        assert_eq!(bounded("a + 1").unwrap().bound, ValueBound::Exact);
        assert_eq!(bounded("sum(gone, lost)"), Err(Absent::Missing("gone".into())));
        assert_eq!(bounded("sum(a / (a - 6), a)"), Err(Absent::DividedByZero("(a - 6)".into())));
    }

    #[test]
    fn mistakes_have_a_place() {
        let error = |text: &str| Formula::parse(text).unwrap_err().to_string();
        assert_eq!(error("a +"), "at 4 of the formula: expected a number, a name or '('");
        assert_eq!(error("(a"), "at 3 of the formula: expected ')'");
        assert_eq!(error("max(a b)"), "at 7 of the formula: expected ','");
        assert_eq!(error("a b"), "at 3 of the formula: expected an operator, found 'b'");
        assert!(error("1.2.3").contains("no number"));
        assert!(error(&"(".repeat(1000)).contains("nested deeper"));
        assert!(error(&"-".repeat(1000)).contains("nested deeper"));
        assert!(error(&format!("a{}", "+a".repeat(200))).contains("in a row"));
        assert!(error(&"a".repeat(LONGEST + 1)).contains("at most"));
    }

    #[test]
    fn names_come_once() {
        assert_eq!(Formula::parse("a + b * (a - c)").unwrap().names(), ["a", "b", "c"]);
    }

    fn tree() -> impl Strategy<Value = (String, f64)> {
        let leaf = (0u32..100).prop_map(|number| (number.to_string(), f64::from(number)));
        leaf.prop_recursive(4, 32, 2, |inner| {
            (inner.clone(), prop::sample::select(vec!['+', '-', '*']), inner).prop_map(
                |(one, sign, other)| {
                    let value = match sign {
                        '+' => one.1 + other.1,
                        '-' => one.1 - other.1,
                        _ => one.1 * other.1,
                    };
                    (format!("({} {sign} {})", one.0, other.0), value)
                },
            )
        })
    }

    proptest! {
        #[test]
        fn a_tree_has_the_value_it_was_built_with((text, expected) in tree()) {
            prop_assert_eq!(value(&text), Ok(expected));
        }

        #[test]
        fn no_text_panics(text in "[-+*/()a-z0-9. eé:]{0,40}") {
            if let Ok(formula) = Formula::parse(&text) {
                let _ = formula.value(&|_| Some(0.0));
            }
        }
    }
}
