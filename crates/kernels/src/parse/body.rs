//! The language of loop bodies: one operation per line, `x = fma a, [B], c`.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{Complaint, kernel};
use crate::description::{
    Amount, Arithmetic, Description, IntegerOp, Op, Operand, OperandPlace, RegisterLife, RegisterStart,
    StreamPattern,
};

/// What a name stands for at some point of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    Vector,
    Integer,
}

struct KnownNames<'a> {
    description: &'a Description,
    kinds: BTreeMap<String, WordKind>,
}

/// Longest body: unrolled, it must stay a small piece of code.
const MOST_OPS: usize = 256;

/// Reads the lines of a body in order; what a line writes, the next may read.
pub fn ops(lines: &[Spanned<String>], description: &Description, text: &str) -> Result<Vec<Op>, Complaint> {
    let declared = description.registers.iter().map(|register| {
        let kind = if matches!(register.start, RegisterStart::Float(_)) {
            WordKind::Vector
        } else {
            WordKind::Integer
        };
        (register.name.clone(), kind)
    });
    let mut known = KnownNames { description, kinds: declared.collect() };
    if lines.is_empty() || lines.len() > MOST_OPS {
        let at = lines.get(MOST_OPS).map_or(0, |line| line.span().start);
        return Err(Complaint::new(at, format!("a body has 1 to {MOST_OPS} operations")));
    }
    lines.iter().map(|line| op(line.get_ref(), string_start(line, text), &mut known)).collect()
}

/// Where the characters of a string begin, past its quotes.
fn string_start(line: &Spanned<String>, text: &str) -> usize {
    let span = line.span();
    let quotes =
        text.get(span.clone()).map_or(1, |raw| raw.len() - raw.trim_start_matches(['"', '\'']).len());
    span.start + quotes
}

fn op(line: &str, at: usize, known: &mut KnownNames<'_>) -> Result<Op, Complaint> {
    let (to, rest, rest_at) = match line.split_once('=') {
        Some((to, rest)) => (Some(BodyWord::new(to, at)), rest, at + to.len() + 1),
        None => (None, line, at),
    };
    let call = BodyWord::new(rest, rest_at);
    let (name, arguments, arguments_at) = match call.text.split_once(' ') {
        Some((name, arguments)) => (BodyWord::new(name, call.at), arguments, call.at + name.len() + 1),
        None => (call, "", call.at + call.text.len()),
    };
    let mut arguments = BodyArguments { rest: Some(arguments), at: arguments_at };
    let op = match to {
        Some(to) => assignment(to, name, &mut arguments, known),
        None => statement(name, &mut arguments, known),
    }?;
    match arguments.next() {
        Some(extra) if !extra.text.is_empty() => {
            Err(Complaint::new(extra.at, "nothing more is expected here"))
        }
        _ => Ok(op),
    }
}

fn assignment(
    to: BodyWord,
    name: BodyWord,
    arguments: &mut BodyArguments,
    known: &mut KnownNames,
) -> Result<Op, Complaint> {
    match name.text {
        "load" | "load-halves" => {
            let from = known.place(arguments.word("a stream")?)?;
            let to = known.write(to, WordKind::Vector)?;
            Ok(if name.text == "load" { Op::Load { to, from } } else { Op::LoadHalves { to, from } })
        }
        "add" | "mul" | "div" => {
            let kind = match name.text {
                "add" => Arithmetic::Add,
                "mul" => Arithmetic::Mul,
                _ => Arithmetic::Div,
            };
            let left = known.read(arguments.word("a register")?, WordKind::Vector)?;
            let right = known.operand(arguments.word("a register or [stream]")?)?;
            Ok(Op::Arithmetic { kind, to: known.write(to, WordKind::Vector)?, left, right })
        }
        "fma" => {
            let a = known.read(arguments.word("a register")?, WordKind::Vector)?;
            let b = known.operand(arguments.word("a register or [stream]")?)?;
            let c = known.read(arguments.word("a register")?, WordKind::Vector)?;
            Ok(Op::Fma { to: known.write(to, WordKind::Vector)?, a, b, c })
        }
        "deref" => known.deref(to, arguments.word("the pointer")?),
        "iload4" | "iload8" => {
            let from = known.place(arguments.word("a stream")?)?;
            let bytes = if name.text == "iload4" { 4 } else { 8 };
            Ok(Op::IntLoad { to: known.write(to, WordKind::Integer)?, from, bytes })
        }
        "draw" => {
            let stream = known.stream(arguments.word("a drawn stream")?, "drawn", |pattern| {
                matches!(pattern, StreamPattern::Drawn { .. })
            })?;
            Ok(Op::Draw { to: known.write(to, WordKind::Integer)?, stream })
        }
        "step" => {
            let stream = known.stream(arguments.word("a coprime stream")?, "coprime", |pattern| {
                matches!(pattern, StreamPattern::Coprime { .. })
            })?;
            let is_chain = |register: &crate::description::KernelRegister| {
                register.life == RegisterLife::Chain && register.start == RegisterStart::Integer(0)
            };
            if !known.description.register(to.text).is_some_and(is_chain) {
                return Err(Complaint::new(to.at, "step needs a register declared in chains as 0"));
            }
            Ok(Op::Step { to: known.write(to, WordKind::Integer)?, stream })
        }
        other => Err(Complaint::new(
            name.at,
            format!(
                "unknown operation '{other}'; with a result: load, load-halves, add, mul, div, fma, deref, iload4, \
                 iload8, draw, step"
            ),
        )),
    }
}

fn statement(name: BodyWord, arguments: &mut BodyArguments, known: &mut KnownNames) -> Result<Op, Complaint> {
    match name.text {
        "store" | "store-nt" => {
            let word = arguments.word("a stream")?;
            let to = known.place(word)?;
            let non_temporal = name.text == "store-nt";
            let plain =
                known.description.streams[to.stream].pattern == StreamPattern::Sequential { stride: None };
            if non_temporal && (to.offset != 0 || !plain) {
                return Err(Complaint::new(
                    word.at,
                    "store-nt needs a plain sequential stream without offset",
                ));
            }
            let from = known.read(arguments.word("a register")?, WordKind::Vector)?;
            Ok(Op::Store { to, from, non_temporal })
        }
        "istore4" | "istore8" => {
            let to = known.place(arguments.word("a stream")?)?;
            let from = known.read(arguments.word("a register")?, WordKind::Integer)?;
            Ok(Op::IntStore { to, from, bytes: if name.text == "istore4" { 4 } else { 8 } })
        }
        "rmw4" | "rmw8" => {
            let place = known.place(arguments.word("a stream")?)?;
            Ok(Op::Rmw { place, bytes: if name.text == "rmw4" { 4 } else { 8 } })
        }
        "chain" | "spread" => repeated(name, arguments, known),
        "nops" => Ok(Op::Nops { times: known.amount(arguments.word("a number")?)? }),
        "coin" => {
            let heads = known.read(arguments.word("a register")?, WordKind::Integer)?;
            let tails = known.read(arguments.word("a register")?, WordKind::Integer)?;
            let by = known.read(arguments.word("a register")?, WordKind::Integer)?;
            Ok(Op::Coin { heads, tails, by })
        }
        other => Err(Complaint::new(
            name.at,
            format!(
                "unknown operation '{other}'; without a result: store, store-nt, istore4, istore8, rmw4, rmw8, \
                 chain, spread, nops, coin"
            ),
        )),
    }
}

/// `chain imul p, one, $n` and `spread imul one, $n`.
fn repeated(name: BodyWord, arguments: &mut BodyArguments, known: &mut KnownNames) -> Result<Op, Complaint> {
    let first = arguments.word("imul or iadd and a register")?;
    let (kind, register) = match first.text.split_once(' ') {
        Some(("imul", register)) => (IntegerOp::Mul, BodyWord::new(register, first.at + 5)),
        Some(("iadd", register)) => (IntegerOp::Add, BodyWord::new(register, first.at + 5)),
        _ => return Err(Complaint::new(first.at, "write imul or iadd and a register")),
    };
    if name.text == "spread" {
        let by = known.read(register, WordKind::Integer)?;
        let times = known.inline_amount(arguments.word("a number")?)?;
        return Ok(Op::Spread { kind, by, times });
    }
    known.read(register, WordKind::Integer)?;
    let to = known.write(register, WordKind::Integer)?;
    let by = known.read(arguments.word("a register")?, WordKind::Integer)?;
    let times = known.inline_amount(arguments.word("a number")?)?;
    Ok(Op::Chain { kind, to, by, times })
}

impl KnownNames<'_> {
    fn read(&self, word: BodyWord, kind: WordKind) -> Result<String, Complaint> {
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

    fn write(&mut self, word: BodyWord, kind: WordKind) -> Result<String, Complaint> {
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

    fn operand(&self, word: BodyWord) -> Result<Operand, Complaint> {
        match word.text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) => self.place(BodyWord::new(inner, word.at + 1)).map(Operand::Memory),
            None => self.read(word, WordKind::Vector).map(Operand::Register),
        }
    }

    /// `S`, `S+4`, `S[i]`.
    fn place(&self, word: BodyWord) -> Result<OperandPlace, Complaint> {
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
            (StreamPattern::Sequential { .. } | StreamPattern::Fixed, Some(_)) => {
                Err(Complaint::new(name.at, "this stream is not indexed: it has its own order"))
            }
            _ => Ok(OperandPlace { stream, offset, index }),
        }
    }

    fn stream(
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

    fn deref(&mut self, to: BodyWord, pointer: BodyWord) -> Result<Op, Complaint> {
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

    fn amount(&self, word: BodyWord) -> Result<Amount, Complaint> {
        amount(word.text, word.at, self.description)
    }

    fn inline_amount(&self, word: BodyWord) -> Result<Amount, Complaint> {
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

/// A trimmed piece of a line and where it begins in the file.
#[derive(Clone, Copy)]
struct BodyWord<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> BodyWord<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        Self { text: text.trim(), at: at + (text.len() - text.trim_start().len()) }
    }
}

/// What stands between the commas.
struct BodyArguments<'a> {
    rest: Option<&'a str>,
    at: usize,
}

impl<'a> BodyArguments<'a> {
    fn next(&mut self) -> Option<BodyWord<'a>> {
        let rest = self.rest?;
        let at = self.at;
        match rest.split_once(',') {
            Some((first, others)) => {
                self.rest = Some(others);
                self.at += first.len() + 1;
                Some(BodyWord::new(first, at))
            }
            None => {
                self.rest = None;
                self.at += rest.len();
                Some(BodyWord::new(rest, at))
            }
        }
    }

    fn word(&mut self, wanted: &str) -> Result<BodyWord<'a>, Complaint> {
        let at = self.at;
        self.next()
            .filter(|word| !word.text.is_empty())
            .ok_or_else(|| Complaint::new(at, format!("{wanted} is missing here")))
    }
}
