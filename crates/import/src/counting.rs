//! What `perf stat` counted, as `memwall count` would have: events by what they count, and the metrics they give.

use std::collections::BTreeMap;

use events::{
    Catalogue, Count, CountedPlace, Event, Missing, SignalId, Value,
    groups::MetricGroup,
    names::{self, Context},
};
use record::count::{
    CountedEvent, CountedInterval, CountedRun, Counts, GroupMetrics, MetricsAround, SCHEMA, group_metrics,
};

use crate::perf_stat::{StatLine, StatOutput, StatValue};

/// Values of one event at one place, by the end of their interval.
type Series = BTreeMap<Option<u64>, Value>;

/// Counts of an output; `name` is that of its file.
pub(crate) fn counts(output: StatOutput, name: &str, catalogue: Option<&'static Catalogue>) -> Counts {
    let context = Context { catalogue, pmus: &[], libpfm: false };
    let mut events: Vec<Event> = Vec::new();
    let mut series: BTreeMap<(usize, CountedPlace), Series> = BTreeMap::new();
    let mut left_out: BTreeMap<String, &'static str> = BTreeMap::new();
    for line in &output.lines {
        if is_about_time(&line.event) {
            continue;
        }
        let known = events.iter().position(|event| event.name == line.event);
        let index = match known.map_or_else(|| parsed(line, &context).map(Some), |_| Ok(None)) {
            Ok(None) => known.unwrap_or_default(),
            Ok(Some(event)) => {
                events.push(event);
                events.len() - 1
            }
            Err(why) => {
                left_out.insert(line.event.clone(), why);
                continue;
            }
        };
        let value = value(line, &events[index]);
        series.entry((index, line.place.clone())).or_default().insert(line.end_ns, value);
    }
    let elapsed_ns = elapsed(&output.lines);
    let run = CountedRun {
        elapsed_ns: elapsed_ns.unwrap_or(0),
        ending: None,
        usage: None,
        counts: series.iter().map(|((event, place), series)| whole(*event, place, series)).collect(),
        intervals: intervals(&series),
    };
    let mut remarks = remarks(&left_out, catalogue.is_some());
    if output.unread > 0 {
        remarks.push(format!("{} lines of {name} are no counts and were left out.", output.unread));
    }
    if elapsed_ns.is_none() {
        remarks.push(
            "How long was counted does not stand in the file: rates per second are missing.".to_owned(),
        );
    }
    let metrics = metrics(&events, std::slice::from_ref(&run), catalogue);
    Counts {
        schema: SCHEMA.to_owned(),
        instrument: output.form.to_owned(),
        target: name.to_owned(),
        events: events.into_iter().map(counted).collect(),
        runs: vec![run],
        metrics,
        remarks,
        ..Counts::default()
    }
}

/// The event of a line, or why it is none.
fn parsed(line: &StatLine, context: &Context<'_>) -> Result<Event, &'static str> {
    let is_bytes = bytes_of(&line.unit).is_some();
    if !is_bytes && !matches!(line.unit.as_str(), "" | "msec" | "ns") {
        return Err("perf wrote it in a unit that is not known here");
    }
    let parsed = names::parse(&line.event, context).map_err(|_| "its name is not understood")?;
    let mut event = Event { name: line.event.clone(), ..parsed.event };
    if is_bytes {
        let scale = event.scale.get_or_insert_with(|| "1B".to_owned());
        bytes_of_count(scale).ok_or("perf wrote it in bytes, and it does not count any")?;
    }
    Ok(event)
}

/// Bytes of a unit that perf multiplied counts into.
fn bytes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" | "Bytes" | "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    })
}

/// Bytes that one count stands for, by its scale: `64B`.
fn bytes_of_count(scale: &str) -> Option<f64> {
    scale.strip_suffix('B')?.parse().ok().filter(|each: &f64| *each > 0.0)
}

/// Counts that one of perf's unit stands for.
fn counts_of_unit(unit: &str, event: &Event) -> f64 {
    let scale = event.scale.as_deref().unwrap_or_default();
    match (bytes_of(unit), bytes_of_count(scale)) {
        (Some(unit), Some(each)) => unit / each,
        _ if unit == "msec" && scale == "1ns" => 1e6,
        _ => 1.0,
    }
}

fn counted(event: Event) -> CountedEvent {
    let Event { name, signal, scale, errata, .. } = event;
    CountedEvent { name, signal, scale, errata, trust: None }
}

/// Events of perf itself, which count how long it took.
fn is_about_time(event: &str) -> bool {
    matches!(event, "duration_time" | "user_time" | "system_time")
}

/// What perf scaled up is scaled down again: values carry how long they had a counter.
fn value(line: &StatLine, event: &Event) -> Value {
    let unit = counts_of_unit(&line.unit, event);
    match line.value {
        StatValue::NotSupported => {
            Value::Missing(Missing::Refused("perf says that the machine does not support it".into()))
        }
        StatValue::NotCounted => Value::Missing(Missing::NeverRan),
        StatValue::Counted(_) if line.running_share == 0.0 => Value::Missing(Missing::NeverRan),
        StatValue::Counted(scaled) => Value::Counted {
            raw: (scaled * unit * line.running_share).round() as u64,
            enabled_ns: (line.running_ns as f64 / line.running_share).round() as u64,
            running_ns: line.running_ns.max(1),
        },
    }
}

/// All intervals together; those in which nothing was counted add nothing.
fn whole(event: usize, place: &CountedPlace, series: &Series) -> Count {
    let sum = series.values().cloned().reduce(|sum, next| match (sum, next) {
        (
            Value::Counted { raw, enabled_ns, running_ns },
            Value::Counted { raw: more, enabled_ns: enabled, running_ns: running },
        ) => Value::Counted {
            raw: raw.saturating_add(more),
            enabled_ns: enabled_ns.saturating_add(enabled),
            running_ns: running_ns.saturating_add(running),
        },
        (Value::Missing(_), counted @ Value::Counted { .. }) => counted,
        (sum, _) => sum,
    });
    let value = sum.unwrap_or(Value::Missing(Missing::NeverRan));
    Count { event, place: place.clone(), value }
}

fn intervals(series: &BTreeMap<(usize, CountedPlace), Series>) -> Vec<CountedInterval> {
    let mut by_end: BTreeMap<u64, Vec<Count>> = BTreeMap::new();
    for ((event, place), values) in series {
        for (end_ns, value) in values {
            let Some(end_ns) = end_ns else { continue };
            let count = Count { event: *event, place: place.clone(), value: value.clone() };
            by_end.entry(*end_ns).or_default().push(count);
        }
    }
    by_end.into_iter().map(|(end_ns, counts)| CountedInterval { end_ns, counts }).collect()
}

/// How long was counted: to the end of the last interval, or what perf's own event says.
fn elapsed(lines: &[StatLine]) -> Option<u64> {
    let last = lines.iter().filter_map(|line| line.end_ns).max();
    let own = || {
        let line = lines.iter().find(|line| line.event == "duration_time")?;
        match line.value {
            // In nanoseconds.
            StatValue::Counted(value) if line.unit.is_empty() || line.unit == "ns" => Some(value as u64),
            _ => None,
        }
    };
    last.or_else(own)
}

fn remarks(left_out: &BTreeMap<String, &'static str>, has_catalogue: bool) -> Vec<String> {
    if left_out.is_empty() {
        return Vec::new();
    }
    let all: Vec<String> = left_out.iter().map(|(event, why)| format!("{event} ({why})")).collect();
    let hint = match has_catalogue {
        true => "",
        false => {
            " Events of a CPU are known by its id: give a perf.data of the machine as well, or --cpu-id."
        }
    };
    vec![format!("Left out: {}.{hint}", all.join(", "))]
}

/// Metrics of the groups whose events were counted.
fn metrics(
    events: &[Event],
    runs: &[CountedRun],
    catalogue: Option<&'static Catalogue>,
) -> Vec<GroupMetrics> {
    let context = Context { catalogue, pmus: &[], libpfm: false };
    let ids: Vec<SignalId> = events.iter().map(|event| SignalId::new(&event.signal, catalogue)).collect();
    let index = |name: &str| {
        let parsed = names::parse(name, &context).ok()?;
        let wanted = SignalId::new(&parsed.event.signal, catalogue);
        ids.iter().position(|id| *id == wanted)
    };
    let mut all = Vec::new();
    for group in MetricGroup::all() {
        let chosen = group.choose(&|event| index(event).is_some());
        let inputs: Vec<(&str, usize)> =
            chosen.events.iter().filter_map(|(input, event)| Some((*input, index(event)?))).collect();
        // Of a group made for one machine a few events that all machines have are not worth showing.
        if group.family.is_some() && 2 * chosen.missing.len() > group.inputs.len() {
            continue;
        }
        let mut found = group_metrics(&chosen, &inputs, runs, MetricsAround::default());
        // What a group lacks was not asked for: only what is there is shown, under the names it was counted by.
        found.metrics.retain(|metric| !metric.values.is_empty() || !metric.between.is_empty());
        for metric in &mut found.metrics {
            for name in &mut metric.events {
                if let Some(index) = index(name) {
                    name.clone_from(&events[index].name);
                }
            }
        }
        if !found.metrics.is_empty() {
            all.push(found);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 cycles of which 600 retire nothing, in long waits, and one division: what memory costs of them no event of these tells.
    #[test]
    fn what_is_only_known_between_bounds_is_kept() {
        let haswell = Catalogue::named("haswell-ep").unwrap();
        let context = Context { catalogue: Some(haswell), pmus: &[], libpfm: false };
        let chosen =
            MetricGroup::named("TOPDOWN_EVENTS").unwrap().choose(&|event| names::is_known(event, &context));
        let value = |input: &str| match input {
            "cycles" => 1000,
            "retired" | "slots_of_four" | "issued" => 800,
            "missing" => 900,
            "retire_stalls" => 600,
            "stalled" | "loads" | "one_or_more" => 500,
            "two_or_more" => 400,
            "stalls" => 50,
            "load_stalls" | "retire_waits" => 20,
            "divides" => 1,
            _ => 0,
        };
        let line = |(input, event): &(&str, &str)| format!("{},,{event},7,100.00,,\n", value(input));
        let text: String = chosen.events.iter().map(line).collect();
        let counts = counts(crate::perf_stat::parse(&text).unwrap(), "x", Some(haswell));
        let group = counts.metrics.iter().find(|group| group.group == "TOPDOWN_EVENTS").unwrap();
        let memory = group.metrics.iter().find(|metric| metric.name == "memory bound").unwrap();
        assert_eq!(memory.range().map(|range| (range.least, range.most)), Some((31.6, 80.0)), "{memory:?}");
        assert!(memory.values.is_empty() && memory.missing[0].starts_with("undecided"), "{memory:?}");
        assert!(group.metrics.iter().all(|metric| !metric.values.is_empty()
            || metric.name == "memory bound"
            || !metric.between.is_empty()));
    }
}
