//! What the names of a loop body stand for.

use std::collections::BTreeMap;

use super::{Complaint, body::BodyWord, kernel};
use crate::description::{
    Amount, Description, NumberBound, Op, Operand, OperandPlace, RegisterLife, RegisterStart, StreamPattern,
};

/// What a name stands for at some point of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    Vector,
    Integer,
}

/// Names and what they hold so far.
pub(super) struct KnownNames<'a> {
    pub description: &'a Description,
    kinds: BTreeMap<String, WordKind>,
}

impl<'a> KnownNames<'a> {
    /// Those that are declared.
    pub fn declared(description: &'a Description) -> Self {
        let kind = |start: &RegisterStart| match start {
            RegisterStart::Float(_) => WordKind::Vector,
            RegisterStart::Integer(_) | RegisterStart::AddressOf(_) => WordKind::Integer,
        };
        let declared =
            description.registers.iter().map(|register| (register.name.clone(), kind(&register.start)));
        Self { description, kinds: declared.collect() }
    }

    pub fn read(&self, word: BodyWord, kind: WordKind) -> Result<String, Complaint> {
        match self.kinds.get(word.text) {
            Some(found) if *found == kind => Ok(word.text.to_owned()),
            Some(_) => {
                let wanted = if kind == WordKind::Vector { "a vector" } else { "an integer" };
                Err(Complaint::new(word.at, format!("'{}' is not {wanted} register", word.text)))
            }
            None => {
                let message = format!("'{}' holds nothing yet: declare it, or write it first", word.text);
                Err(Complaint::new(word.at, message))
            }
        }
    }

    pub fn write(&mut self, word: BodyWord, kind: WordKind) -> Result<String, Complaint> {
        let named = word.text.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.text.len() <= 20
            && word.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !named {
            return Err(Complaint::new(word.at, format!("'{}' is not a register name", word.text)));
        }
        let declared = self.description.register(word.text);
        if declared.is_some_and(|register| register.life == RegisterLife::Constant) {
            return Err(Complaint::new(word.at, format!("'{}' is a constant", word.text)));
        }
        if self.kinds.contains_key(word.text) {
            return self.read(word, kind);
        }
        self.kinds.insert(word.text.to_owned(), kind);
        Ok(word.text.to_owned())
    }

    /// A register of this kind, or `[S]`.
    pub fn operand(&self, word: BodyWord, kind: WordKind) -> Result<Operand, Complaint> {
        match word.text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => self.place(BodyWord::new(inner, word.at + 1)).map(Operand::Memory),
            None => self.read(word, kind).map(Operand::Register),
        }
    }

    /// `S`, `S+4`, `S[i]`.
    pub fn place(&self, word: BodyWord) -> Result<OperandPlace, Complaint> {
        let (base, offset) = match word.text.split_once('+') {
            None => (word.text, 0),
            Some((base, offset)) => match offset.trim().parse::<i64>() {
                Ok(bytes @ 0..=4096) => (base, bytes),
                _ => return Err(Complaint::new(word.at + base.len() + 1, "an offset is 0 to 4096 bytes")),
            },
        };
        let (name, index) = match base.split_once('[') {
            None => (base, None),
            Some((name, index)) => {
                let index_at = word.at + name.len() + 1;
                let Some(index) = index.trim_end().strip_suffix(']') else {
                    return Err(Complaint::new(index_at, "']' is missing"));
                };
                (name, Some(self.read(BodyWord::new(index, index_at), WordKind::Integer)?))
            }
        };
        let name = BodyWord::new(name, word.at);
        let stream = self.stream(name, "", |_| true)?;
        match (self.description.streams[stream].pattern, &index) {
            (StreamPattern::Cycle { .. }, _) => {
                Err(Complaint::new(name.at, "a cycle is only walked with deref"))
            }
            (StreamPattern::Drawn { .. } | StreamPattern::Coprime { .. }, None) => {
                Err(Complaint::new(name.at, format!("write {}[i] with i from draw or step", name.text)))
            }
            (StreamPattern::Gathered { .. }, None) => {
                let message = format!("write {}[i] with i loaded from a stream of its numbers", name.text);
                Err(Complaint::new(name.at, message))
            }
            // Beyond their end others begin, whose bytes are no numbers; and numbers must stay what they are.
            (StreamPattern::Gathered { .. } | StreamPattern::Numbers { .. }, _) if offset != 0 => {
                Err(Complaint::new(name.at, "numbers and what is gathered by them have no offset"))
            }
            (
                StreamPattern::Sequential { .. } | StreamPattern::Fixed | StreamPattern::Numbers { .. },
                Some(_),
            ) => Err(Complaint::new(name.at, "this stream is not indexed: it has its own order")),
            _ => Ok(OperandPlace { stream, offset, index }),
        }
    }

    pub fn stream(
        &self,
        word: BodyWord,
        wanted: &str,
        fits: impl Fn(&StreamPattern) -> bool,
    ) -> Result<usize, Complaint> {
        let streams = &self.description.streams;
        match streams.iter().position(|stream| stream.name == word.text) {
            Some(index) if fits(&streams[index].pattern) => Ok(index),
            Some(_) => Err(Complaint::new(word.at, format!("'{}' is not a {wanted} stream", word.text))),
            None => Err(Complaint::new(word.at, format!("there is no stream '{}'", word.text))),
        }
    }

    pub fn deref(&mut self, to: BodyWord, pointer: BodyWord) -> Result<Op, Complaint> {
        let register = self.description.register(pointer.text);
        let on_cycle = register.is_some_and(|register| match register.start {
            RegisterStart::AddressOf(stream) => {
                register.life == RegisterLife::Chain
                    && matches!(self.description.streams[stream].pattern, StreamPattern::Cycle { .. })
            }
            _ => false,
        });
        if to.text != pointer.text || !on_cycle {
            let message = "deref moves one pointer on: p = deref p, with p in chains the address of a cycle";
            return Err(Complaint::new(pointer.at, message));
        }
        Ok(Op::Deref { pointer: to.text.to_owned() })
    }

    pub fn amount(&self, word: BodyWord) -> Result<Amount, Complaint> {
        amount(word.text, word.at, self.description)
    }

    pub fn inline_amount(&self, word: BodyWord) -> Result<Amount, Complaint> {
        let amount = self.amount(word)?;
        kernel::check_inline(amount, self.description, word.at)?;
        Ok(amount)
    }
}

/// A number, or `$name` for a parameter.
pub fn amount(text: &str, at: usize, description: &Description) -> Result<Amount, Complaint> {
    if let Some(name) = text.strip_prefix('$') {
        let found = description.parameters.iter().position(|parameter| parameter.name == name);
        return found
            .map(Amount::Parameter)
            .ok_or_else(|| Complaint::new(at, format!("there is no parameter '{name}'")));
    }
    match text.parse() {
        Ok(number) if number <= kernel::LARGEST_PARAMETER => Ok(Amount::Is(number)),
        _ => Err(Complaint::new(at, format!("'{text}' is neither a small number nor a $parameter"))),
    }
}

/// Code goes where its indices say: each must come from where only good ones come from.
pub(super) fn check_indices(description: &Description, at: usize) -> Result<(), Complaint> {
    let bad = |message: String| Err(Complaint::new(at, message));
    let written = |op: &Op| match op {
        Op::Store { to, .. } | Op::IntStore { to, .. } | Op::Rmw { place: to, .. } => Some(to.clone()),
        _ => None,
    };
    let pattern = |stream: usize| description.streams[stream].pattern;
    let has_numbers =
        description.streams.iter().any(|stream| matches!(stream.pattern, StreamPattern::Numbers { .. }));
    for place in description.ops().filter_map(written).filter(|_| has_numbers) {
        if matches!(pattern(place.stream), StreamPattern::Numbers { .. }) {
            return bad("a stream of numbers cannot be written to: they say where to go".to_owned());
        }
        if place.offset != 0 {
            return bad(
                "beside a stream of numbers stores have no offset: they might reach into it".to_owned()
            );
        }
    }
    for op in description.ops() {
        let place = crate::lower::places(op);
        let (name, stream) = match (op, place) {
            (Op::Branch { on, .. }, _) => (on, None),
            (_, Some(OperandPlace { index: Some(name), stream, .. })) => (name, Some(*stream)),
            _ => continue,
        };
        let fits = |writer: &Op| match (writer, stream) {
            (Op::Draw { stream: of, .. } | Op::Step { stream: of, .. }, Some(stream)) => *of == stream,
            (Op::IntLoad { from, .. }, stream) => match (pattern(from.stream), stream) {
                (StreamPattern::Numbers { .. }, None) => true,
                (StreamPattern::Numbers { below, .. }, Some(stream)) => {
                    below == NumberBound::ElementsOf(stream)
                }
                _ => false,
            },
            _ => false,
        };
        let steps = |writer: &Op| matches!(writer, Op::Step { .. });
        let is_declared = description.register(name).is_some();
        let writers = || description.ops().filter(|op| integer_result(op) == Some(name.as_str()));
        if !writers().all(fits) || (is_declared && !writers().any(steps)) {
            let source =
                if stream.is_some() { "draw, step or a load of its numbers" } else { "a load of numbers" };
            return bad(format!("'{name}' must come from {source}, and from nothing else"));
        }
    }
    Ok(())
}

/// The integer register that an operation writes.
fn integer_result(op: &Op) -> Option<&str> {
    match op {
        Op::IntLoad { to, .. }
        | Op::Integer { to, .. }
        | Op::IntMax { to, .. }
        | Op::Chain { to, .. }
        | Op::Draw { to, .. }
        | Op::Step { to, .. } => Some(to),
        Op::Deref { pointer } => Some(pointer),
        _ => None,
    }
}
