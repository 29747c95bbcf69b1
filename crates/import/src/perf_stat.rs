//! What `perf stat` wrote with `-x` or `-j`, with or without `-I`.

mod fields;
mod objects;

use events::CountedPlace;

/// An output of `perf stat`.
#[derive(Clone, Debug, PartialEq)]
pub struct StatOutput {
    /// `perf stat -x` or `perf stat -j`.
    pub form: &'static str,
    /// What it counted, line by line.
    pub lines: Vec<StatLine>,
    /// Lines that were not understood.
    pub unread: u64,
}

/// One event at one place, in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct StatLine {
    /// Nanoseconds since counting began when the interval ended; none without `-I`.
    pub end_ns: Option<u64>,
    /// Where it was counted.
    pub place: CountedPlace,
    /// What was counted.
    pub value: StatValue,
    /// What it is counted in, if not in events: `msec`, `MiB`, `Joules`.
    pub unit: String,
    /// The event, as perf calls it.
    pub event: String,
    /// Nanoseconds that it had a counter.
    pub running_ns: u64,
    /// Share of its time that it had one.
    pub running_share: f64,
    /// A metric that perf made of it, with its unit.
    pub metric: Option<(f64, String)>,
}

/// What perf says of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatValue {
    /// As much, scaled up where it shared its counter.
    Counted(f64),
    /// `<not counted>`: it never had a counter.
    NotCounted,
    /// `<not supported>`: the machine does not have it.
    NotSupported,
}

impl StatValue {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "<not counted>" => Some(Self::NotCounted),
            "<not supported>" => Some(Self::NotSupported),
            number => number
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite() && *value >= 0.0)
                .map(Self::Counted),
        }
    }
}

/// Longest output that is read.
const MOST_LINES: usize = 1 << 22;

/// Reads an output. The error says what it looks like instead.
pub fn parse(text: &str) -> Result<StatOutput, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .take(MOST_LINES)
        .collect();
    if lines.is_empty() {
        return Err("it is empty".to_owned());
    }
    let is_json = lines.iter().any(|line| line.trim_start().starts_with('{'));
    let output = if is_json { objects::parse(&lines) } else { fields::parse(&lines) };
    if output.lines.is_empty() {
        return Err("none of its lines is a count".to_owned());
    }
    Ok(output)
}

/// Seconds as perf writes them, in nanoseconds.
fn nanoseconds(seconds: f64) -> Option<u64> {
    // 500 years.
    (seconds.is_finite() && (0.0..1.6e10).contains(&seconds)).then_some((seconds * 1e9).round() as u64)
}

/// A place by the name perf has for it: `CPU0`, `S0`, `S0-D0-C1`, `N1`, `name-1234`.
fn place(name: &str) -> CountedPlace {
    let name = name.trim();
    if let Some(cpu) = name.strip_prefix("CPU").and_then(|number| number.parse().ok()) {
        return CountedPlace::Cpu(cpu);
    }
    let package = name.strip_prefix('S').and_then(|rest| rest.split('-').next()?.parse().ok());
    if let Some(package) = package {
        return CountedPlace::Box { package, name: name.to_owned() };
    }
    match name.rsplit_once('-').and_then(|(_, tid)| tid.parse().ok()) {
        Some(tid) => CountedPlace::Thread(tid),
        None => CountedPlace::Box { package: 0, name: name.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> StatLine {
        let output = parse(text).unwrap();
        assert_eq!((output.lines.len(), output.unread), (1, 0), "{output:?}");
        output.lines[0].clone()
    }

    #[test]
    fn every_form_of_a_line_is_understood() {
        let plain = one("1.69,msec,task-clock,1685016,100.00,0.816,CPUs utilized");
        assert_eq!((plain.value, plain.unit.as_str()), (StatValue::Counted(1.69), "msec"));
        assert_eq!((plain.running_ns, plain.running_share), (1_685_016, 1.0));
        assert_eq!(plain.metric, Some((0.816, "CPUs utilized".to_owned())));
        let repeated = one("48,,page-faults,0.69%,437919,50.00,111.824,K/sec");
        assert_eq!((repeated.event.as_str(), repeated.running_share), ("page-faults", 0.5));
        let interval = one("     0.100204821;1253007;;cycles:u;1253007;100.00;;");
        assert_eq!((interval.end_ns, interval.event.as_str()), (Some(100_204_821), "cycles:u"));
        let missing = one("     0.200551302;<not counted>;msec;task-clock;0;100.00;;");
        assert_eq!((missing.value, missing.end_ns), (StatValue::NotCounted, Some(200_551_302)));
        assert_eq!(one("<not supported>,,cycles,0,100.00,,").value, StatValue::NotSupported);
        assert_eq!(one("CPU3,5,,cycles,7,100.00,,").place, CountedPlace::Cpu(3));
        assert_eq!(one("0.5,CPU3,5,,cycles,7,100.00,,").place, CountedPlace::Cpu(3));
        let socket = CountedPlace::Box { package: 1, name: "S1".to_owned() };
        assert_eq!(one("S1,16,207,,cycles,7,100.00,,").place, socket);
        assert_eq!(one("a b-77,207,,cycles,7,100.00,,").place, CountedPlace::Thread(77));
        let fields = one("12,,cpu/event=0x3c,umask=0x1/u,7,100.00,,");
        assert_eq!((fields.event.as_str(), fields.running_ns), ("cpu/event=0x3c,umask=0x1/u", 7));
    }

    #[test]
    fn objects_say_the_same() {
        let line = r#"{"interval" : 0.1, "cpu" : "2", "counter-value" : "49.000000", "unit" : "", "event" : "page-faults", "event-runtime" : 623694, "pcnt-running" : 25.00, "metric-value" : 78.5, "metric-unit" : "K/sec"}"#;
        let found = one(line);
        assert_eq!(found.place, CountedPlace::Cpu(2));
        assert_eq!((found.end_ns, found.value), (Some(100_000_000), StatValue::Counted(49.0)));
        assert_eq!((found.running_ns, found.running_share), (623_694, 0.25));
        let socket =
            r#"{"socket" : "S0", "aggregate-number" : 2, "counter-value" : "<not counted>", "event" : "x"}"#;
        assert_eq!(one(socket).value, StatValue::NotCounted);
    }

    #[test]
    fn what_is_no_count_is_not_taken_for_one() {
        for text in ["", "# started on\n", "hello\nworld", "{\"a\": 1}", "1,2,3,4", "a,b,c,d,e,f"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let mixed = parse("5,,cycles,7,100.00,,\nnonsense\n,,,,,,0.5,CPUs utilized\n").unwrap();
        assert_eq!((mixed.lines.len(), mixed.unread), (1, 2));
    }
}
