//! Counted events for spreadsheets: one line per run, event and place. What was not counted has an empty count and a
//! reason. Trust is empty where nobody tried; its error is that of a trusted event, as a share.

use ::trust::Trust;
use events::{CountedPlace, Missing, Value};
use record::count::{CountedEvent, Counts};

use super::values::missing;
use crate::layout::prose::csv_field;

/// A table with a head.
pub fn csv(counts: &Counts) -> String {
    let mut out = "run,end_ns,event,place,count,raw,enabled_ns,running_ns,missing,trust,error\n".to_owned();
    for (number, run) in counts.runs.iter().enumerate() {
        let whole = [(None, &run.counts)];
        let intervals = run.intervals.iter().map(|interval| (Some(interval.end_ns), &interval.counts));
        for (end, list) in whole.into_iter().chain(intervals) {
            for count in list {
                let event = counts.events.get(count.event);
                let (name, trust) = (event.map_or("", |event| event.name.as_str()), trust(event));
                let end = end.map(|end| end.to_string()).unwrap_or_default();
                let head = format!("{number},{end},{},{}", csv_field(name), csv_field(&place(&count.place)));
                out += &match &count.value {
                    Value::Counted { raw, enabled_ns, running_ns } => {
                        let estimate =
                            count.value.estimate().map(|value| format!("{value:.0}")).unwrap_or_default();
                        let reason =
                            if estimate.is_empty() { missing(&Missing::NeverRan) } else { String::new() };
                        let reason = csv_field(&reason);
                        format!("{head},{estimate},{raw},{enabled_ns},{running_ns},{reason},{trust}\n")
                    }
                    Value::Missing(reason) => {
                        format!("{head},,,,,{},{trust}\n", csv_field(&missing(reason)))
                    }
                };
            }
        }
    }
    out
}

fn trust(event: Option<&CountedEvent>) -> String {
    match event.and_then(|event| event.trust.as_ref()).map(|standing| &standing.trust) {
        Some(Trust::Trusted { error }) => format!("trusted,{error:.4}"),
        Some(other) => format!("{},", other.word()),
        None => ",".to_owned(),
    }
}

fn place(place: &CountedPlace) -> String {
    match place {
        CountedPlace::Target => "target".to_owned(),
        CountedPlace::Thread(tid) => format!("thread {tid}"),
        CountedPlace::Cpu(cpu) => format!("cpu {cpu}"),
        CountedPlace::Box { package, name } => format!("package {package} {name}"),
    }
}
