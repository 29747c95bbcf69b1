//! Where an imported recording comes from, and what each event says, below what a run says.

use analysis::import::{EventFinding, EventFunction, ImportFindings};
use record::{
    import::{ImportFile, ImportMachine},
    sampled::EventUse,
};

use crate::layout::{
    figures::percent_text,
    prose::{dotted, visible, wrap, wrap_in},
    style::{HEADING, WARNING},
};

use super::count::{self, CountSum};

/// All of it in at most `columns`; functions of each event if everything is asked for, else of those that are no samples
/// of time.
pub fn text(import: &ImportFindings, verbose: bool, columns: usize) -> String {
    let top = if verbose { 10 } else { 3 };
    let mut out = wrap_in(HEADING, "", "Imported", columns);
    out.extend(import.files.iter().map(|file| wrap("  ", &file_sentence(file, &import.machine), columns)));
    out.push_str(&wrap_in(WARNING, "  ", trust_sentence(import), columns));
    let events = import.events.iter().filter(|found| found.event.samples > 0);
    out.extend(events.map(|event| wrap("  • ", &event_sentence(event, top, verbose), columns)));
    out.extend(omission_sentence(import).map(|sentence| wrap("  ", &sentence, columns)));
    let counts = import.counts.iter().map(|counts| count::text(counts, CountSum::Whole, columns));
    [out].into_iter().chain(counts).collect::<Vec<_>>().join("\n")
}

/// The same as sentences, for a page.
pub(crate) fn sentences(import: &ImportFindings) -> Vec<String> {
    let files = import.files.iter().map(|file| file_sentence(file, &import.machine));
    let events = import.events.iter().filter(|found| found.event.samples > 0);
    let events = events.map(|event| event_sentence(event, 10, true));
    files.chain([trust_sentence(import).to_owned()]).chain(events).chain(omission_sentence(import)).collect()
}

fn file_sentence(file: &ImportFile, machine: &ImportMachine) -> String {
    let mut of = vec![format!("{} ({})", visible(&file.path), file.form)];
    let parts = [&machine.host, &machine.cpu, &machine.architecture];
    of.extend(parts.into_iter().flatten().map(|text| visible(text)));
    of.extend(machine.kernel.as_ref().map(|kernel| format!("Linux {}", visible(kernel))));
    of.extend(file.perf.as_ref().map(|perf| format!("perf {}", visible(perf))));
    of.extend(file.cut_short.as_ref().map(|_| "not read to its end".to_owned()));
    dotted(of.iter().map(String::as_str))
}

fn trust_sentence(import: &ImportFindings) -> &'static str {
    match import.was_validated {
        true => "Trust: as the validation of that machine says that was given with --trust.",
        false => {
            "Trust: untested. Nothing of that machine was tried; 'memwall import --trust FILE' takes what 'memwall \
             validate --json' wrote on it."
        }
    }
}

fn event_sentence(found: &EventFinding, top: usize, all: bool) -> String {
    let event = &found.event;
    let of = |samples: u64| percent_text(samples as f64 / event.samples.max(1) as f64);
    let used_for = match event.used_for {
        EventUse::Time => "samples of time",
        EventUse::Loads => "sampled accesses",
        EventUse::Counted => "samples",
    };
    let mut sentence = format!("{}: {} {used_for}", visible(&event.name), event.samples);
    for (part, place) in [(event.in_kernel, "in the kernel"), (event.in_guests, "in guests")] {
        if part > 0 {
            sentence.push_str(&format!(", {} % {place}", of(part)));
        }
    }
    // Functions of the program stand above, beside their share of user time; those of the kernel nowhere else.
    let shows_all = all || event.used_for != EventUse::Time;
    let is_shown = |of_function: &&EventFunction| {
        shows_all || (of_function.module == "[kernel]" && of_function.name != of_function.module)
    };
    let named =
        |of_function: &EventFunction| format!("{} {} %", visible(&of_function.name), of(of_function.samples));
    let functions: Vec<String> = found.functions.iter().filter(is_shown).take(top).map(named).collect();
    if !functions.is_empty() {
        let there = if shows_all { "most" } else { "there most" };
        sentence.push_str(&format!("; {there} in {}", functions.join(", ")));
    }
    sentence + "."
}

fn omission_sentence(import: &ImportFindings) -> Option<String> {
    let named = import.omissions.iter().map(|left| format!("{} {}", left.count, left.what));
    let all: Vec<String> = named.collect();
    (!all.is_empty()).then(|| format!("Not imported: {}.", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{import::Omission, sampled::RecordedEvent};

    #[test]
    fn time_in_the_kernel_names_its_functions_where_they_are_known() {
        let function = |name: &str, module: &str, samples| EventFunction {
            name: name.to_owned(),
            module: module.to_owned(),
            samples,
        };
        let mut found = EventFinding {
            event: RecordedEvent {
                samples: 10,
                in_kernel: 5,
                ..RecordedEvent::new("cycles".to_owned(), EventUse::Time, None)
            },
            functions: vec![function("clear_page", "[kernel]", 4), function("main", "/a", 5)],
        };
        let said = event_sentence(&found, 3, false);
        assert_eq!(said, "cycles: 10 samples of time, 50 % in the kernel; there most in clear_page 40 %.");
        found.functions[0].name = "[kernel]".to_owned();
        assert_eq!(event_sentence(&found, 3, false), "cycles: 10 samples of time, 50 % in the kernel.");
    }

    #[test]
    fn an_import_says_where_it_comes_from_and_that_nothing_was_tried() {
        let import = ImportFindings {
            files: vec![ImportFile {
                path: "a.data".to_owned(),
                form: "perf.data".to_owned(),
                bytes: 1,
                perf: Some("6.1".to_owned()),
                command: Vec::new(),
                cut_short: None,
                origin_ns: None,
            }],
            machine: ImportMachine { host: Some("far".to_owned()), ..ImportMachine::default() },
            was_validated: false,
            events: vec![EventFinding {
                event: RecordedEvent {
                    samples: 8,
                    in_kernel: 2,
                    ..RecordedEvent::new("page-faults".to_owned(), EventUse::Counted, None)
                },
                functions: vec![EventFunction {
                    name: "fill".to_owned(),
                    module: "/a".to_owned(),
                    samples: 6,
                }],
            }],
            omissions: vec![Omission { what: "branch stacks of samples".to_owned(), count: 8 }],
            counts: Vec::new(),
        };
        let text = anstream::adapter::strip_str(&text(&import, false, 200)).to_string();
        for said in [
            "a.data (perf.data) · far · perf 6.1",
            "Trust: untested",
            "page-faults: 8 samples, 25 % in the kernel; most in fill 75 %.",
            "Not imported: 8 branch stacks of samples.",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
