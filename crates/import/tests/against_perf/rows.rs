//! Samples as `perf script` prints them, and as memwall reads them.

use std::{path::Path, process::Command};

use import::{
    EventAttributes, ImportError,
    perf_data::{PerfOutcome, RecordConsumer},
};
use pmu::sampling::{FileSample, RingRecord};

/// A sample. What a file does not have is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub time_ns: u64,
    pub pid: i32,
    pub tid: i32,
    pub period: u64,
    pub event: String,
    pub ip: u64,
}

impl Row {
    /// Only with the fields that perf can print of the file.
    pub fn of_fields(self, fields: &[&str]) -> Self {
        let has = |field: &str| fields.contains(&field);
        Self {
            time_ns: if has("time") { self.time_ns } else { 0 },
            period: if has("period") { self.period } else { 0 },
            ip: if has("ip") { self.ip } else { 0 },
            ..self
        }
    }
}

#[derive(Default)]
struct Rows(Vec<Row>);

impl RecordConsumer for Rows {
    fn sample(&mut self, events: &[EventAttributes], event: usize, sample: &FileSample<'_>) {
        let (pid, tid) = sample.task.unwrap_or_default();
        self.0.push(Row {
            time_ns: sample.time_ns.unwrap_or(0),
            pid,
            tid,
            period: sample.period.unwrap_or(0),
            event: events[event].name(),
            ip: sample.ip.unwrap_or(0),
        });
    }

    fn beside(&mut self, _: &[EventAttributes], _: u64, _: RingRecord<'_>) {}
}

/// What memwall reads.
pub fn read(file: &Path) -> Result<(Vec<Row>, PerfOutcome), ImportError> {
    let mut rows = Rows::default();
    let outcome = import::read_perf(file, &mut rows)?;
    Ok((rows.0, outcome))
}

/// What perf says.
pub struct ToldRows {
    pub rows: Vec<Row>,
    /// Those of the fields that the file has.
    pub fields: Vec<&'static str>,
    /// What else it said.
    pub warnings: String,
}

/// Asks `perf script`; the error is what it said.
pub fn told_by_perf(file: &Path) -> Result<ToldRows, String> {
    let mut fields = vec!["pid", "tid", "time", "period", "event", "ip"];
    loop {
        let mut command = Command::new("perf");
        command.args(["script", "-G", "--ns", "--no-itrace", "-F", &fields.join(","), "-i"]).arg(file);
        let told = command.output().expect("perf starts");
        let warnings = String::from_utf8_lossy(&told.stderr).into_owned();
        let lacking = fields.iter().position(|field| {
            warnings.contains(&format!("do not have {} attribute", field.to_uppercase()))
                || warnings.contains(&format!("Cannot print '{field}' field"))
        });
        if let Some(lacking) = lacking {
            fields.remove(lacking);
            continue;
        }
        if !told.status.success() {
            return Err(warnings);
        }
        let text = String::from_utf8_lossy(&told.stdout);
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let rows = lines.map(|line| row(line, &fields)).collect();
        return Ok(ToldRows { rows, fields, warnings });
    }
}

/// `  7622/7622  37078.728908943:     250000 cpu-clock:      7f4d7866362a`
fn row(line: &str, fields: &[&str]) -> Row {
    let has = |field: &str| fields.contains(&field);
    let bad = |what: &str| -> ! { panic!("{what}: {line}") };
    let (head, ip) = match has("ip") {
        true => line.trim_end().rsplit_once(' ').unwrap_or_else(|| bad("an address")),
        false => (line, "0"),
    };
    let mut words = head.split_whitespace();
    let mut next = || words.next().unwrap_or_else(|| bad("a field is missing"));
    // Wide numbers of processes are printed apart from their thread.
    let (pid, tid) = next().split_once('/').unwrap_or_else(|| bad("process and thread"));
    let tid = if tid.is_empty() { next() } else { tid };
    let time = if has("time") { next().trim_end_matches(':') } else { "0.000000000" };
    let (seconds, fraction) = time.split_once('.').unwrap_or_else(|| bad("a time"));
    assert_eq!(fraction.len(), 9, "nanoseconds: {line}");
    let period = if has("period") { next() } else { "0" };
    let event = words.collect::<Vec<_>>().join(" ");
    Row {
        time_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap(),
        pid: pid.parse().unwrap(),
        tid: tid.parse().unwrap(),
        period: period.parse().unwrap(),
        event: event.strip_suffix(':').unwrap_or_else(|| bad("an event")).to_owned(),
        ip: u64::from_str_radix(ip, 16).unwrap_or_else(|_| bad("an address")),
    }
}
