//! Loads that the processor sampled itself.

use analysis::findings::{KnownLimits, LoadFindings, LoadSummary};
use record::loads::DataOrigin;

use crate::{
    layout::figures::percent_text,
    layout::prose::{visible, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET},
};

/// Latency and origin of all sampled loads, of the functions with most of them, and of the data.
pub fn text(loads: &KnownLimits<LoadFindings>, top: usize, columns: usize) -> String {
    let style = if loads.value().is_some() { PLAIN } else { QUIET };
    let lines = sentences(loads, top).into_iter().map(|line| wrap_in(style, "  ", &line, columns));
    wrap_in(HEADING, "", "Sampled loads", columns) + &lines.collect::<String>()
}

/// The same, a sentence for each.
pub(crate) fn sentences(loads: &KnownLimits<LoadFindings>, top: usize) -> Vec<String> {
    match loads {
        KnownLimits::Missing(reason) => vec![format!("Not sampled: {}.", reason.trim_end_matches('.'))],
        KnownLimits::Value(found) => {
            let line = |what: &str, name: &str, loads: &LoadSummary| {
                format!("{what} {}: {}.", visible(name), sentence(loads))
            };
            let functions = found.functions.iter().take(top);
            let objects = found.objects.iter().take(top);
            [format!("All: {}.", sentence(&found.all))]
                .into_iter()
                .chain(functions.map(|of| line("Function", &of.name, &of.loads)))
                .chain(objects.map(|of| line("Object", &of.name, &of.loads)))
                .collect()
        }
    }
}

/// One line for a screen; none if loads were not sampled.
pub(super) fn short(loads: &KnownLimits<LoadFindings>) -> Option<String> {
    loads.value().map(|found| sentence(&found.all))
}

fn sentence(loads: &LoadSummary) -> String {
    let latency = match &loads.median_cycles {
        KnownLimits::Value(cycles) => format!("median {cycles:.0} cycles"),
        KnownLimits::Missing(_) => "latency not known".to_owned(),
    };
    let of = |samples: u64| percent_text(samples as f64 / loads.samples.max(1) as f64);
    let mut served: Vec<String> = loads
        .origins
        .iter()
        .map(|(origin, samples)| format!("{} {} %", origin.label(), of(*samples)))
        .collect();
    let known: u64 = loads.origins.iter().map(|(_, samples)| samples).sum();
    if known < loads.samples {
        served.push(format!("not known {} %", of(loads.samples - known)));
    }
    format!("{} loads, {latency}, from {}{}", loads.samples, served.join(", "), of_memory(loads))
}

/// The latency of memory itself, where memory served any (helm2019 §6.1).
fn of_memory(loads: &LoadSummary) -> String {
    let walked = match loads.walked_samples {
        0 => String::new(),
        walked => format!(
            "; {} % waited for a page walk",
            percent_text(walked as f64 / loads.samples.max(1) as f64)
        ),
    };
    let served = loads.origins.iter().any(|(origin, _)| *origin == DataOrigin::Dram);
    let memory = match &loads.memory_cycles {
        KnownLimits::Value(cycles) => {
            format!(
                "; memory's own latency: median {cycles:.0} cycles, of the {} that it served without a page walk",
                loads.memory_samples
            )
        }
        KnownLimits::Missing(why) if served => format!("; memory's own latency is not known: {why}"),
        KnownLimits::Missing(_) => String::new(),
    };
    walked + &memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::findings::{FunctionLoads, ObjectId, ObjectLoads};
    use record::ids::ModuleId;

    fn summary(samples: u64, median_cycles: KnownLimits<f64>) -> LoadSummary {
        LoadSummary {
            samples,
            median_cycles,
            memory_cycles: KnownLimits::Missing("nobody said which walked".to_owned()),
            memory_samples: 0,
            walked_samples: 0,
            origins: vec![(DataOrigin::L1, 1), (DataOrigin::Dram, 2)],
        }
    }

    #[test]
    fn latency_and_origin_of_functions_and_objects() {
        let function = |name: &str, loads| FunctionLoads {
            function: None,
            name: name.to_owned(),
            module_id: ModuleId(0),
            module: None,
            loads,
        };
        let object = |name: &str, loads| ObjectLoads { id: ObjectId::Unknown, name: name.to_owned(), loads };
        let found = LoadFindings {
            all: summary(4, KnownLimits::Value(312.4)),
            functions: vec![function("walk", summary(3, KnownLimits::Value(400.0)))],
            objects: vec![object("table", summary(3, KnownLimits::Missing("no".to_owned())))],
        };
        let text =
            anstream::adapter::strip_str(&text(&KnownLimits::Value(found.clone()), 5, 100)).to_string();
        assert!(
            text.contains("All: 4 loads, median 312 cycles, from L1 25 %, DRAM 50 %, not known 25 %;"),
            "{text}"
        );
        assert!(text.contains("Function walk: 3 loads, median 400 cycles"), "{text}");
        assert!(text.contains("Object table: 3 loads, latency not known"), "{text}");
        assert!(text.contains("known: nobody said which walked"), "{text}");
        let mut walked = summary(4, KnownLimits::Value(500.0));
        walked.memory_cycles = KnownLimits::Value(310.0);
        (walked.memory_samples, walked.walked_samples) = (2, 1);
        let said = short(&KnownLimits::Value(LoadFindings { all: walked, ..found.clone() })).expect("loads");
        assert!(said.contains("25 % waited for a page walk"), "{said}");
        assert!(said.contains("median 310 cycles, of the 2 that it served without a page walk"), "{said}");
        let missing = KnownLimits::Missing("no PMU".to_owned());
        assert!(super::text(&missing, 5, 80).contains("Not sampled: no PMU."));
        assert_eq!(short(&missing), None);
    }
}
