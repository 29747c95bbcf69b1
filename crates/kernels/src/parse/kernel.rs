//! From the TOML of one kernel to its checked description.

use toml::Spanned;

use super::{Complaint, body, file, names};
use crate::{
    description::{
        Amount, Description, KernelRegister, KernelShape, KernelStream, NumberBound, Op, Parameter,
        RegisterLife, RegisterStart, StreamPattern, Widths,
    },
    draw::Distribution,
    geometry::LINE,
};

/// Copies of a body beyond this only bloat the code.
const MOST_UNROLLED: u64 = 64;
/// More streams than this do not fit in registers.
const MOST_STREAMS: usize = 6;
/// A parameter beyond this is a mistake; loops of nops count to it.
pub const LARGEST_PARAMETER: u64 = 1_000_000;

pub fn build(raw: &file::KernelEntry, text: &str) -> Result<Description, Complaint> {
    let name = raw.name.get_ref();
    let well_named = !name.is_empty()
        && name.len() <= 40
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !well_named {
        let message = format!("'{name}' is no kernel name: up to 40 lower-case letters, digits and dashes");
        return Err(Complaint::new(raw.name.span().start + 1, message));
    }
    let streams = raw.streams.iter().map(|one| stream(one, &raw.streams)).collect::<Result<Vec<_>, _>>()?;
    if streams.len() > MOST_STREAMS {
        let message = format!("at most {MOST_STREAMS} streams");
        return Err(Complaint::new(raw.streams[MOST_STREAMS].span().start, message));
    }
    let mut description = Description {
        name: name.clone(),
        about: raw.about.clone(),
        source: raw.source.clone().unwrap_or_else(|| "user's file".to_owned()),
        element: within(raw.element.as_ref(), 8, "element", |n| n == 4 || n == 8, "4 or 8 bytes")?,
        widths: Widths::All,
        unroll: within(raw.unroll.as_ref(), 4, "unroll", |n| (1..=MOST_UNROLLED).contains(&n), "1 to 64")?,
        pointers: raw.pointers,
        parameters: parameters(raw)?,
        registers: registers(raw, &streams)?,
        streams,
        shape: KernelShape::Private(Vec::new()),
    };
    description.shape = shape(raw, &description, text)?;
    description.widths = widths(raw, &description)?;
    check_streams(raw, &description)?;
    names::check_indices(&description, raw.name.span().start + 1)?;
    Ok(description)
}

fn within(
    given: Option<&Spanned<u64>>,
    default: u64,
    name: &str,
    fits: impl Fn(u64) -> bool,
    wanted: &str,
) -> Result<u64, Complaint> {
    match given {
        None => Ok(default),
        Some(value) if fits(*value.get_ref()) => Ok(*value.get_ref()),
        Some(value) => Err(Complaint::new(value.span().start, format!("{name} must be {wanted}"))),
    }
}

fn parameters(raw: &file::KernelEntry) -> Result<Vec<Parameter>, Complaint> {
    raw.parameters
        .iter()
        .map(|(name, value)| match *value.get_ref() {
            default if default <= LARGEST_PARAMETER => Ok(Parameter { name: name.clone(), default }),
            _ => {
                Err(Complaint::new(value.span().start, format!("a parameter is at most {LARGEST_PARAMETER}")))
            }
        })
        .collect()
}

fn stream(
    raw: &Spanned<file::StreamEntry>,
    all: &[Spanned<file::StreamEntry>],
) -> Result<KernelStream, Complaint> {
    let at = raw.span().start;
    let table = &raw.get_ref().0;
    let complain = |message: &str| Err(Complaint::new(at, format!("stream '{}': {message}", table.name)));
    let element = table.element.unwrap_or(8);
    if element != 4 && element != 8 {
        return complain("element must be 4 or 8 bytes");
    }
    let pattern = match table.pattern.as_deref().unwrap_or("sequential") {
        "sequential" => match table.stride {
            Some(stride) if !(8..=4096).contains(&stride) || stride % 8 != 0 => {
                return complain("stride must be a multiple of 8 from 8 to 4096 bytes");
            }
            stride => StreamPattern::Sequential { stride },
        },
        "fixed" => StreamPattern::Fixed,
        "cycle" => match table.stride.unwrap_or(LINE) {
            stride if stride.is_power_of_two() && (LINE..=4096).contains(&stride) => {
                StreamPattern::Cycle { stride }
            }
            _ => return complain("the stride of a cycle is a power of two from 64 to 4096 bytes"),
        },
        "drawn" => match table.distribution.as_deref().unwrap_or("uni").parse::<Distribution>() {
            Ok(distribution) => StreamPattern::Drawn { distribution, element },
            Err(error) => return complain(&error.to_string()),
        },
        "coprime" => match table.buffers.unwrap_or(1) {
            buffers @ 1..=256 => StreamPattern::Coprime { element, buffers },
            _ => return complain("buffers must be 1 to 256"),
        },
        "gathered" => StreamPattern::Gathered { element },
        "numbers" => match (table.below, &table.of) {
            (Some(below @ 1..=0x7fff_ffff), None) => {
                StreamPattern::Numbers { element, below: NumberBound::Is(below) }
            }
            (None, Some(of)) => {
                let is_it = |one: &Spanned<file::StreamEntry>| {
                    let table = &one.get_ref().0;
                    table.name == *of && table.pattern.as_deref() == Some("gathered")
                };
                match all.iter().position(is_it) {
                    Some(at) => StreamPattern::Numbers { element, below: NumberBound::ElementsOf(at) },
                    None => return complain(&format!("there is no gathered stream '{of}'")),
                }
            }
            _ => return complain("numbers need one of below = 100 and of = \"G\""),
        },
        other => {
            let message = format!(
                "unknown pattern '{other}'; one of sequential, fixed, cycle, drawn, coprime, numbers, gathered"
            );
            return complain(&message);
        }
    };
    if (table.below.is_some() || table.of.is_some()) && !matches!(pattern, StreamPattern::Numbers { .. }) {
        return complain("only numbers have below or of");
    }
    let strided = matches!(pattern, StreamPattern::Sequential { .. } | StreamPattern::Cycle { .. });
    if table.stride.is_some() && !strided {
        return complain("only a sequential stream or a cycle has a stride");
    }
    Ok(KernelStream { name: table.name.clone(), pattern })
}

fn registers(raw: &file::KernelEntry, streams: &[KernelStream]) -> Result<Vec<KernelRegister>, Complaint> {
    let groups = [
        (&raw.constants, RegisterLife::Constant),
        (&raw.lanes, RegisterLife::Lanes),
        (&raw.chains, RegisterLife::Chain),
    ];
    let mut registers: Vec<KernelRegister> = Vec::new();
    for (group, life) in groups {
        for (name, value) in group {
            let at = value.span().start;
            if registers.iter().any(|register| register.name == *name) {
                return Err(Complaint::new(at, format!("'{name}' is declared twice")));
            }
            let start = match value.get_ref() {
                toml::Value::Float(number) => RegisterStart::Float(*number),
                toml::Value::Integer(number) => RegisterStart::Integer(*number),
                toml::Value::String(text) => address_of(text, streams).ok_or_else(|| {
                    Complaint::new(at + 1, format!("'{text}' is not the address of a stream, such as \"&S\""))
                })?,
                _ => return Err(Complaint::new(at, "write 1.5, 1 or \"&S\"")),
            };
            if life == RegisterLife::Lanes && !matches!(start, RegisterStart::Float(_)) {
                return Err(Complaint::new(at, "lanes are vector registers: write 0.0"));
            }
            registers.push(KernelRegister { name: name.clone(), start, life });
        }
    }
    Ok(registers)
}

fn address_of(text: &str, streams: &[KernelStream]) -> Option<RegisterStart> {
    let name = text.strip_prefix('&')?;
    streams.iter().position(|stream| stream.name == name).map(RegisterStart::AddressOf)
}

fn shape(raw: &file::KernelEntry, description: &Description, text: &str) -> Result<KernelShape, Complaint> {
    let parse = |lines: &[Spanned<String>]| body::ops(lines, description, text);
    let at = raw.name.span().start + 1;
    match (&raw.body, &raw.triangle, &raw.turns) {
        (Some(lines), None, None) => Ok(KernelShape::Private(parse(lines)?)),
        (None, Some(lines), None) => {
            let sequential =
                |stream: &KernelStream| matches!(stream.pattern, StreamPattern::Sequential { stride: None });
            if description.streams.len() != 3 || !description.streams.iter().all(sequential) {
                return Err(Complaint::new(at, "a triangle has three plain streams: matrix, vector, result"));
            }
            let lanes = |register: &&KernelRegister| register.life == RegisterLife::Lanes;
            if description.element != 8 || description.registers.iter().filter(lanes).count() != 1 {
                return Err(Complaint::new(at, "a triangle sums 8-byte elements in one register of lanes"));
            }
            Ok(KernelShape::Triangle(parse(lines)?))
        }
        (None, None, Some(turns)) => {
            let lines = names::amount(turns.lines.get_ref(), turns.lines.span().start + 1, description)?;
            let per_line = StreamPattern::Sequential { stride: Some(64) };
            if description.streams.len() != 1
                || description.streams[0].pattern != per_line
                || description.unroll != 1
            {
                return Err(Complaint::new(at, "turns need one stream of stride 64 and unroll = 1"));
            }
            Ok(KernelShape::Turns { first: parse(&turns.first)?, second: parse(&turns.second)?, lines })
        }
        _ => Err(Complaint::new(
            at,
            format!("kernel '{}' needs one of body, triangle or turns", raw.name.get_ref()),
        )),
    }
}

fn widths(raw: &file::KernelEntry, description: &Description) -> Result<Widths, Complaint> {
    let is_vector = |op: &Op| {
        matches!(
            op,
            Op::Load { .. }
                | Op::LoadHalves { .. }
                | Op::Store { .. }
                | Op::Arithmetic { .. }
                | Op::Fma { .. }
        )
    };
    let is_single = description.streams.iter().any(|stream| {
        matches!(stream.pattern, StreamPattern::Numbers { .. } | StreamPattern::Gathered { .. })
    });
    let halved = description.ops().any(|op| matches!(op, Op::LoadHalves { .. }));
    let vector = description.ops().any(is_vector);
    let Some(given) = &raw.widths else {
        return Ok(match (vector && !is_single, halved) {
            (false, _) => Widths::ScalarOnly,
            (true, true) => Widths::Halved,
            (true, false) => Widths::All,
        });
    };
    match given.get_ref().as_str() {
        "all" if !halved && vector && !is_single => Ok(Widths::All),
        "halved" if vector && !is_single => Ok(Widths::Halved),
        "scalar" if !halved => Ok(Widths::ScalarOnly),
        "all" | "halved" | "scalar" => {
            Err(Complaint::new(given.span().start + 1, "the body does not fit these widths"))
        }
        _ => Err(Complaint::new(given.span().start + 1, "widths is one of all, halved, scalar")),
    }
}

/// What the machine code relies on: one stride, one random source.
fn check_streams(raw: &file::KernelEntry, description: &Description) -> Result<(), Complaint> {
    // Beside numbers there are single elements only.
    let numbers = |stream: &KernelStream| matches!(stream.pattern, StreamPattern::Numbers { .. });
    let has_numbers = description.streams.iter().any(numbers);
    let mut strides =
        description.streams.iter().enumerate().filter_map(|(index, stream)| match stream.pattern {
            StreamPattern::Sequential { stride: None } if has_numbers => {
                Some((index, Some(description.element)))
            }
            StreamPattern::Sequential { stride } => Some((index, stride)),
            StreamPattern::Numbers { element, .. } => Some((index, Some(element))),
            _ => None,
        });
    if let Some((_, first)) = strides.next()
        && let Some((index, _)) = strides.find(|(_, stride)| *stride != first)
    {
        let at = raw.streams[index].span().start;
        return Err(Complaint::new(at, "all sequential streams of a kernel have the same stride"));
    }
    let last = raw.streams.last().map_or(0, |stream| stream.span().start);
    if description.streams.len() > 1 && mixes(description) {
        return Err(Complaint::new(last, "a cycle, drawn or coprime stream must be a kernel's only stream"));
    }
    let gathered = |stream: &KernelStream| matches!(stream.pattern, StreamPattern::Gathered { .. });
    if description.streams.iter().any(gathered) && !has_numbers {
        return Err(Complaint::new(last, "a gathered stream needs a stream of its numbers"));
    }
    let is_plain = matches!(description.shape, KernelShape::Private(_));
    if !is_plain && (has_numbers || description.pointers) {
        return Err(Complaint::new(last, "numbers and pointers = true need a body"));
    }
    if description.ops().filter(|op| matches!(op, Op::Draw { .. } | Op::Coin { .. })).count() > 1 {
        let at = raw.name.span().start + 1;
        return Err(Complaint::new(at, "at most one draw or coin per body: there is one random sequence"));
    }
    Ok(())
}

fn mixes(description: &Description) -> bool {
    description.streams.iter().any(|stream| {
        matches!(
            stream.pattern,
            StreamPattern::Cycle { .. } | StreamPattern::Drawn { .. } | StreamPattern::Coprime { .. }
        )
    })
}

/// An amount beyond which the code would be unrolled into megabytes.
pub fn check_inline(amount: Amount, description: &Description, at: usize) -> Result<(), Complaint> {
    let value = match amount {
        Amount::Is(value) => value,
        Amount::Parameter(index) => description.parameters[index].default,
    };
    if value > crate::kernel::MOST_INLINE {
        let message = format!("at most {} operations can be written out", crate::kernel::MOST_INLINE);
        return Err(Complaint::new(at, message));
    }
    Ok(())
}
