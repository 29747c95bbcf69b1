//! What kernels do, replayed from files: each request gives the right value or the right words.
#![allow(clippy::unwrap_used)]

mod script;

use std::{fs, path::Path};

use events::{
    CountRefusal, CountRequest, CountShare, Counting, Encoding, Event, Instrument, Signal, TooMany, Unit,
};
use machine::Source;
use pmu::{PerfEvents, scripted::Scripted};
use script::{Case, Script, scope, show};

fn play(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let script = Script::read(&folder.join(name).with_extension("toml"));
    assert!(!script.about.is_empty() && !script.case.is_empty());
    let root = tempfile::tempdir().unwrap();
    script.plant(root.path());
    for (number, case) in script.case.iter().enumerate() {
        let kernel = script.kernel();
        let here = PerfEvents::new(&kernel, Source::under(root.path()));
        let here = if case.probe { here.probing() } else { here };
        check(&here, case, &format!("{name}, case {}", number + 1));
        assert_eq!(kernel.open_events(), 0, "{name}: everything is closed");
    }
}

fn check(here: &PerfEvents<'_>, case: &Case, name: &str) {
    let outcome = count(here, case);
    let refusal = outcome.as_ref().err().map(ToString::to_string);
    assert_eq!(refusal, case.refusal, "{name}");
    if let Ok((counts, notes)) = outcome {
        assert_eq!(counts, case.counts, "{name}");
        assert_eq!(notes, case.notes, "{name}");
    }
}

fn count(here: &PerfEvents<'_>, case: &Case) -> Result<(Vec<String>, Vec<String>), CountRefusal> {
    let events = case.events.iter().map(|name| here.resolve(name)).collect::<Result<Vec<_>, _>>()?;
    let request = CountRequest {
        events,
        scope: scope(&case.scope),
        too_many: if case.refuse { TooMany::Refuse } else { TooMany::Multiplex },
        share: if case.each { CountShare::Each } else { CountShare::Together },
    };
    if let Some(runs) = &case.runs {
        assert_eq!(&here.runs(&request.events, &request.scope)?, runs);
    }
    let mut counting = here.open_counting(&request)?;
    if let Some(groups) = case.groups {
        assert_eq!(counting.open_groups(), groups);
    }
    counting.start()?;
    let mut counts = Vec::new();
    for _ in 0..case.reads {
        counts = counting.read()?;
    }
    counting.stop()?;
    Ok((counts.iter().map(|count| show(count, &case.events)).collect(), counting.notes()))
}

macro_rules! scripts {
    ($($test:ident),* $(,)?) => {
        $(#[test] fn $test() { play(&stringify!($test).replace('_', "-")); })*

        #[test]
        fn every_script_is_played() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
            let played = [$(stringify!($test).replace('_', "-")),*];
            for entry in fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
                assert!(played.contains(&name), "{name}.toml is not played");
            }
        }
    };
}

scripts! {
    paranoid_3,
    paranoid_2,
    paranoid_1,
    paranoid_0,
    refused_encodings,
    guest_without_counters,
    auxiliary_event,
    too_few_descriptors,
    breakpoints,
    multiplexing,
    never_runs,
    short_reads,
    phantom_channels,
    hybrid,
    epyc,
    inherited_groups,
    control_group,
    filter_registers,
    nehalem,
    what_events_need,
}

#[test]
fn everything_at_once_is_for_simulated_machines() {
    let kernel = Scripted::new(|_| panic!("nothing is opened"));
    let root = tempfile::tempdir().unwrap();
    let here = PerfEvents::new(&kernel, Source::under(root.path()));
    let request = CountRequest {
        events: vec![here.resolve("cycles").unwrap()],
        scope: scope("thread"),
        too_many: TooMany::AllAtOnce,
        share: CountShare::Together,
    };
    let words = here.open(&request).err().unwrap().to_string();
    assert!(words.contains("let events take turns, or split them over runs"), "{words}");
}

#[test]
fn an_event_of_one_kind_of_core_does_not_open_on_another() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let script = Script::read(&folder.join("hybrid.toml"));
    let root = tempfile::tempdir().unwrap();
    script.plant(root.path());
    let kernel = script.kernel();
    let here = PerfEvents::new(&kernel, Source::under(root.path()));
    let encoding = Encoding { unit: Unit::Core, pmu: "cpu".into(), fields: vec![("event".into(), 0xd0)] };
    let request = CountRequest {
        events: vec![Event::new("loads", Signal::Encoded(encoding))],
        scope: scope("thread"),
        too_many: TooMany::Multiplex,
        share: CountShare::Together,
    };
    let words = here.open(&request).err().unwrap().to_string();
    assert!(words.contains("write one of cpu_atom, cpu_core instead of cpu"), "{words}");
}
