//! `perf stat -j`: an object on each line.

use events::CountedPlace;
use serde_json::Value;

use super::{StatLine, StatOutput, StatValue, nanoseconds, place};

/// Keys that say where.
const PLACES: [&str; 7] = ["socket", "die", "cluster", "core", "node", "cache", "thread"];

pub(super) fn parse(lines: &[&str]) -> StatOutput {
    let found: Vec<StatLine> = lines.iter().filter_map(|text| line(text)).collect();
    let unread = (lines.len() - found.len()) as u64;
    StatOutput { form: "perf stat -j", lines: found, unread }
}

fn line(text: &str) -> Option<StatLine> {
    let object: Value = serde_json::from_str(text.trim().trim_end_matches(',')).ok()?;
    let value = match object.get("counter-value")? {
        Value::String(text) => StatValue::parse(text)?,
        number => StatValue::parse(&number.to_string())?,
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    let event = text("event").filter(|event| !event.is_empty())?.to_owned();
    let end_ns = match object.get("interval") {
        Some(seconds) => Some(nanoseconds(seconds.as_f64()?)?),
        None => None,
    };
    let metric = number("metric-value").zip(text("metric-unit").filter(|unit| !unit.is_empty()));
    Some(StatLine {
        end_ns,
        place: place_of(&object),
        value,
        unit: text("unit").unwrap_or_default().to_owned(),
        event,
        running_ns: object.get("event-runtime").and_then(Value::as_u64).unwrap_or(0),
        running_share: (number("pcnt-running").unwrap_or(100.0) / 100.0).clamp(0.0, 1.0),
        metric: metric.map(|(value, unit)| (value, unit.to_owned())),
    })
}

fn place_of(object: &Value) -> CountedPlace {
    let word = |key: &str| match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if let Some(cpu) = word("cpu").and_then(|cpu| cpu.trim_start_matches("CPU").parse().ok()) {
        return CountedPlace::Cpu(cpu);
    }
    PLACES.iter().find_map(|key| word(key)).map_or(CountedPlace::Target, |name| place(&name))
}
