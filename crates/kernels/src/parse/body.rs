//! The language of loop bodies: one operation per line, `x = fma a, [B], c`.

use toml::Spanned;

use super::{
    Complaint,
    names::{KnownNames, WordKind},
};
use crate::description::{
    Arithmetic, Description, IntegerOp, Op, RegisterLife, RegisterStart, StreamPattern,
};

/// Longest body: unrolled, it must stay a small piece of code.
const MOST_OPS: usize = 256;

/// Reads the lines of a body in order; what a line writes, the next may read.
pub fn ops(lines: &[Spanned<String>], description: &Description, text: &str) -> Result<Vec<Op>, Complaint> {
    let mut known = KnownNames::declared(description);
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
        "add" | "mul" | "div" | "max" | "addq" => {
            let kind = match name.text {
                "add" => Arithmetic::Add,
                "mul" => Arithmetic::Mul,
                "div" => Arithmetic::Div,
                "max" => Arithmetic::Max,
                _ if known.description.element == 8 => Arithmetic::AddIntegers,
                _ => return Err(Complaint::new(name.at, "addq needs elements of 8 bytes")),
            };
            let left = known.read(arguments.word("a register")?, WordKind::Vector)?;
            let right = known.operand(arguments.word("a register or [stream]")?, WordKind::Vector)?;
            Ok(Op::Arithmetic { kind, to: known.write(to, WordKind::Vector)?, left, right })
        }
        "fma" => {
            let a = known.read(arguments.word("a register")?, WordKind::Vector)?;
            let b = known.operand(arguments.word("a register or [stream]")?, WordKind::Vector)?;
            let c = known.read(arguments.word("a register")?, WordKind::Vector)?;
            Ok(Op::Fma { to: known.write(to, WordKind::Vector)?, a, b, c })
        }
        "deref" => known.deref(to, arguments.word("the pointer")?),
        "iload4" | "iload8" => {
            let from = known.place(arguments.word("a stream")?)?;
            let bytes = if name.text == "iload4" { 4 } else { 8 };
            Ok(Op::IntLoad { to: known.write(to, WordKind::Integer)?, from, bytes })
        }
        "iadd" | "imul" | "imax" => {
            let first = arguments.word("the same register")?;
            known.read(first, WordKind::Integer)?;
            if first.text != to.text {
                return Err(Complaint::new(
                    first.at,
                    format!("write {0} = {1} {0}, ...", to.text, name.text),
                ));
            }
            let to = known.write(to, WordKind::Integer)?;
            if name.text == "imax" {
                let by = known.read(arguments.word("a register")?, WordKind::Integer)?;
                return Ok(Op::IntMax { to, by });
            }
            let by = known.operand(arguments.word("a register or [stream]")?, WordKind::Integer)?;
            let kind = if name.text == "iadd" { IntegerOp::Add } else { IntegerOp::Mul };
            Ok(Op::Integer { kind, to, by })
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
                "unknown operation '{other}'; with a result: load, load-halves, add, mul, div, max, addq, fma, deref, \
                 iload4, iload8, iadd, imul, imax, draw, step"
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
        "rmw4" | "rmw8" | "atomic4" | "atomic8" => {
            let place = known.place(arguments.word("a stream")?)?;
            let bytes = if name.text.ends_with('4') { 4 } else { 8 };
            Ok(Op::Rmw { place, bytes, atomic: name.text.starts_with("atomic") })
        }
        "chain" | "spread" => repeated(name, arguments, known),
        "nops" => Ok(Op::Nops { times: known.amount(arguments.word("a number")?)? }),
        "coin" => {
            let heads = known.read(arguments.word("a register")?, WordKind::Integer)?;
            let tails = known.read(arguments.word("a register")?, WordKind::Integer)?;
            let by = known.read(arguments.word("a register")?, WordKind::Integer)?;
            Ok(Op::Coin { heads, tails, by })
        }
        "branch" => branch(arguments, known),
        other => Err(Complaint::new(
            name.at,
            format!(
                "unknown operation '{other}'; without a result: store, store-nt, istore4, istore8, rmw4, rmw8, \
                 atomic4, atomic8, chain, spread, nops, coin, branch"
            ),
        )),
    }
}

/// `branch v < 30, heads, tails, by`.
fn branch(arguments: &mut BodyArguments, known: &mut KnownNames) -> Result<Op, Complaint> {
    let condition = arguments.word("a condition such as v < 30")?;
    let Some((on, below)) = condition.text.split_once('<') else {
        return Err(Complaint::new(condition.at, "write a condition such as v < 30"));
    };
    let (below, below_at) = (below.trim(), condition.at + on.len() + 1);
    let on = known.read(BodyWord::new(on, condition.at), WordKind::Integer)?;
    let below = match below.parse::<u64>() {
        Ok(below) if below <= i32::MAX as u64 => below,
        _ => return Err(Complaint::new(below_at, format!("'{below}' is no number below 2^31"))),
    };
    let mut register = || known.read(arguments.word("a register")?, WordKind::Integer);
    let (heads, tails, by) = (register()?, register()?, register()?);
    Ok(Op::Branch { on, below, heads, tails, by })
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

/// A trimmed piece of a line and where it begins in the file.
#[derive(Clone, Copy)]
pub(super) struct BodyWord<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> BodyWord<'a> {
    pub fn new(text: &'a str, at: usize) -> Self {
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
