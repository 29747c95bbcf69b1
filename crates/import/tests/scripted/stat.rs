//! Counts of `perf stat`, alone and beside samples.

use super::*;
use events::{Missing, Value};

const COUNTS: &str = "# started on Mon Jan  1 00:00:00 2024\n\n\
    2000000,,cycles:u,1000000,100.00,,\n\
    3000000,,instructions:u,500000,50.00,1.50,insn per cycle\n\
    <not supported>,,cache-misses,0,100.00,,\n\
    12.50,msec,task-clock,12500000,100.00,0.9,CPUs utilized\n\
    4.2,MiB,uncore_imc/cas_count_read/,1,100.00,,\n\
    7,,no_such_event_anywhere,1,100.00,,\n\
    20000000,ns,duration_time,20000000,100.00,,\n";

#[test]
fn counts_have_values_reasons_and_the_metrics_of_their_groups() {
    let (outcome, run) = Imports::of(&[("counts.csv", COUNTS.as_bytes())]).import().unwrap();
    let counts = &outcome.record.counts[0];
    assert_eq!(run.import.as_ref().unwrap().counts[0], *counts, "as it was written");
    let names: Vec<&str> = counts.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cycles:u", "instructions:u", "cache-misses", "task-clock"]);
    let [run] = &counts.runs[..] else { panic!("{:?}", counts.runs) };
    assert_eq!(run.elapsed_ns, 20_000_000);
    // Scaled by perf: half of its time it had no counter.
    let half = Value::Counted { raw: 1_500_000, enabled_ns: 1_000_000, running_ns: 500_000 };
    assert_eq!((&run.counts[1].value, run.counts[1].value.estimate()), (&half, Some(3e6)));
    assert!(matches!(run.counts[2].value, Value::Missing(Missing::Refused(_))));
    assert_eq!(run.counts[3].value.estimate(), Some(12.5e6), "in nanoseconds");
    let metrics: Vec<_> = counts.metrics.iter().flat_map(|group| &group.metrics).collect();
    let per_cycle = metrics.iter().find(|metric| metric.values == [1.5]);
    assert!(per_cycle.is_some(), "{metrics:?}");
    assert!(metrics.iter().all(|metric| !metric.values.is_empty()));
    let said = counts.remarks.join(" ");
    assert!(said.contains("cas_count_read") && said.contains("no_such_event_anywhere"), "{said}");
}

#[test]
fn intervals_are_kept_and_summed_up() {
    let text = "0.100000000,1000,,cycles,100,100.00,,\n0.100000000,<not counted>,,page-faults,0,100.00,,\n\
                0.200000000,500,,cycles,100,100.00,,\n0.200000000,3,,page-faults,100,100.00,,\n";
    let json = r#"{"interval" : 0.1, "counter-value" : "1000", "unit" : "", "event" : "cycles", "event-runtime" : 100, "pcnt-running" : 100.00}
{"interval" : 0.1, "counter-value" : "<not counted>", "unit" : "", "event" : "page-faults", "event-runtime" : 0, "pcnt-running" : 100.00}
{"interval" : 0.2, "counter-value" : "500", "unit" : "", "event" : "cycles", "event-runtime" : 100, "pcnt-running" : 100.00}
{"interval" : 0.2, "counter-value" : "3", "unit" : "", "event" : "page-faults", "event-runtime" : 100, "pcnt-running" : 100.00}
"#;
    for text in [text, json] {
        let (_, run) = Imports::of(&[("counts", text.as_bytes())]).import().unwrap();
        let counts = &run.import.as_ref().unwrap().counts[0];
        let run = &counts.runs[0];
        assert_eq!((run.elapsed_ns, run.intervals.len()), (200_000_000, 2));
        let totals: Vec<_> = run.counts.iter().map(|count| count.value.estimate()).collect();
        assert_eq!(totals, [Some(1500.0), Some(3.0)]);
        assert_eq!(run.intervals[1].end_ns, 200_000_000);
        assert_eq!(run.intervals[0].counts[1].value, Value::Missing(Missing::NeverRan), "not 0");
    }
}

#[test]
fn events_of_a_cpu_are_known_by_the_id_in_the_file_beside_or_by_the_one_given() {
    let text = "5,,MEM_LOAD_RETIRED.L3_MISS,10,100.00,,\n";
    let (alone, _) = Imports::of(&[("counts.csv", text.as_bytes())]).import().unwrap();
    let counts = &alone.record.counts[0];
    assert!(counts.events.is_empty() && counts.remarks[0].contains("--cpu"), "{:?}", counts.remarks);
    let file = ordinary().file();
    let (beside, run) =
        Imports::of(&[("counts.csv", text.as_bytes()), ("perf.data", &file)]).import().unwrap();
    assert_eq!((beside.record.counts[0].events.len(), run.samples.place.len()), (1, 90));
    let mut given = Imports::of(&[("counts.csv", text.as_bytes())]);
    given.request.cpu_id = Some("GenuineIntel-6-55-4".to_owned());
    assert_eq!(given.import().unwrap().0.record.counts[0].events.len(), 1);
}

#[test]
fn what_perf_multiplied_into_bytes_is_counted_in_lines_again() {
    let text = "4.25,MiB,uncore_imc/cas_count_read/,1000,100.00,,\n\
                640,Bytes,UNC_M_CAS_COUNT.WR,1000,50.00,,\n\
                3.5,Joules,power/energy-pkg/,1000,100.00,,\n\
                20000000,ns,duration_time,20000000,100.00,,\n";
    let mut imports = Imports::of(&[("counts.csv", text.as_bytes())]);
    imports.request.cpu_id = Some("GenuineIntel-6-55-4".to_owned());
    let (outcome, _) = imports.import().unwrap();
    let counts = &outcome.record.counts[0];
    let lines: Vec<_> = counts.runs[0].counts.iter().map(|count| count.value.estimate()).collect();
    assert_eq!(lines, [Some(4.25 * 1_048_576.0 / 64.0), Some(10.0)]);
    assert!(counts.events.iter().all(|event| event.scale.as_deref() == Some("64B")), "{:?}", counts.events);
    let volumes: Vec<&str> = counts.metrics.iter().map(|group| group.group.as_str()).collect();
    assert!(!volumes.is_empty(), "reads and writes of memory give metrics: {volumes:?}");
    let said = counts.remarks.join(" ");
    assert!(said.contains("power/energy-pkg/") && said.contains("unit"), "{said}");
}

#[test]
fn two_recordings_do_not_become_one() {
    let file = ordinary().file();
    let imports = Imports::of(&[("a.data", &file), ("b.data", &file)]);
    let error = imports.import().err().unwrap().to_string();
    assert!(error.contains("a.data") && error.contains("memwall compare"), "{error}");
    assert!(!imports.request.output.exists(), "nothing is left behind");
    let error = Imports::of(&[("a.txt", b"hello\n")]).import().err().unwrap();
    assert!(matches!(error, ImportError::Foreign { .. }), "{error}");
}
