//! Counted events for spreadsheets: one line per run, event and place. What was not counted has an empty count and a
//! reason.

use events::{Missing, Place, Value};
use record::count::Counts;

use super::values::missing;
use crate::prose::csv_field;

/// A table with a head.
pub fn csv(counts: &Counts) -> String {
    let mut out = "run,end_ns,event,place,count,raw,enabled_ns,running_ns,missing\n".to_owned();
    for (number, run) in counts.runs.iter().enumerate() {
        let whole = [(None, &run.counts)];
        let intervals = run.intervals.iter().map(|interval| (Some(interval.end_ns), &interval.counts));
        for (end, list) in whole.into_iter().chain(intervals) {
            for count in list {
                let name = counts.events.get(count.event).map_or("", |event| event.name.as_str());
                let end = end.map(|end| end.to_string()).unwrap_or_default();
                let head = format!("{number},{end},{},{}", csv_field(name), csv_field(&place(&count.place)));
                out += &match &count.value {
                    Value::Counted { raw, enabled_ns, running_ns } => {
                        let estimate =
                            count.value.estimate().map(|value| format!("{value:.0}")).unwrap_or_default();
                        let reason =
                            if estimate.is_empty() { missing(&Missing::NeverRan) } else { String::new() };
                        let reason = csv_field(&reason);
                        format!("{head},{estimate},{raw},{enabled_ns},{running_ns},{reason}\n")
                    }
                    Value::Missing(reason) => format!("{head},,,,,{}\n", csv_field(&missing(reason))),
                };
            }
        }
    }
    out
}

fn place(place: &Place) -> String {
    match place {
        Place::Target => "target".to_owned(),
        Place::Thread(tid) => format!("thread {tid}"),
        Place::Cpu(cpu) => format!("cpu {cpu}"),
        Place::Box { package, name } => format!("package {package} {name}"),
    }
}
