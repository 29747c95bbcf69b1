//! `perf stat -x`: fields with some character between them, of which only those in the middle have a fixed order.

use events::CountedPlace;

use super::{StatLine, StatOutput, StatValue, nanoseconds, place};

/// Characters that people give to `-x`.
const SEPARATORS: [char; 6] = [',', ';', '\t', '|', '!', ':'];

/// Fields before the value, at most: an interval, a place, how many CPUs it has.
const MOST_BEFORE: usize = 3;

/// Takes the separator with which most lines make sense.
pub(super) fn parse(lines: &[&str]) -> StatOutput {
    let with = |separator: char| lines.iter().filter_map(|text| line(text, separator)).collect::<Vec<_>>();
    let best = SEPARATORS
        .map(with)
        .into_iter()
        .reduce(|best, other| if other.len() > best.len() { other } else { best });
    let found = best.unwrap_or_default();
    let unread = (lines.len() - found.len()) as u64;
    StatOutput { form: "perf stat -x", lines: found, unread }
}

fn line(text: &str, separator: char) -> Option<StatLine> {
    let fields: Vec<&str> = text.split(separator).map(str::trim).collect();
    (0..=MOST_BEFORE).find_map(|at| from(&fields, at, separator))
}

/// The line if its value stands at `at`: value, unit, event, running time, share of it.
fn from(fields: &[&str], at: usize, separator: char) -> Option<StatLine> {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let value = StatValue::parse(fields.get(at)?)?;
    let unit = *fields.get(at + 1)?;
    if is_number(unit) || unit.starts_with('<') {
        return None;
    }
    let (event, mut next) = event(fields, at + 2, separator)?;
    // With repetitions, their spread.
    next += usize::from(fields.get(next).is_some_and(|field| field.ends_with('%')));
    let running_ns: u64 = fields.get(next)?.parse().ok()?;
    let percent: f64 = fields.get(next + 1)?.parse().ok()?;
    let metric = fields.get(next + 2).zip(fields.get(next + 3));
    let metric = metric.and_then(|(value, unit)| Some((value.parse().ok()?, (*unit).to_owned())));
    let (end_ns, place) = before(&fields[..at])?;
    Some(StatLine {
        end_ns,
        place,
        value,
        unit: unit.to_owned(),
        event,
        running_ns,
        running_share: (percent / 100.0).clamp(0.0, 1.0),
        metric,
    })
}

/// The event's name and the field behind it. A name in slashes may have the separator within.
fn event(fields: &[&str], at: usize, separator: char) -> Option<(String, usize)> {
    let mut name = (*fields.get(at)?).to_owned();
    let mut next = at + 1;
    while name.matches('/').count() == 1 && next < fields.len() {
        name.push(separator);
        name.push_str(fields[next]);
        next += 1;
    }
    let is_name = !name.is_empty() && name.parse::<f64>().is_err() && !name.starts_with('<');
    is_name.then_some((name, next))
}

/// What stands before the value: when, and where. `None`: something else.
fn before(fields: &[&str]) -> Option<(Option<u64>, CountedPlace)> {
    let (end_ns, rest) = match fields {
        [first, rest @ ..] if first.contains('.') && first.parse::<f64>().is_ok() => {
            (Some(nanoseconds(first.parse().ok()?)?), rest)
        }
        all => (None, all),
    };
    match rest {
        [] => Some((end_ns, CountedPlace::Target)),
        [name] if name.parse::<f64>().is_err() => Some((end_ns, place(name))),
        // How many CPUs are summed up there.
        [name, count] if name.parse::<f64>().is_err() && count.parse::<u32>().is_ok() => {
            Some((end_ns, place(name)))
        }
        _ => None,
    }
}
