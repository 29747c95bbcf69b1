//! What boxes count while others draw from the same machine.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, sync::atomic::AtomicBool};

use machine::{Bytes, model::Model};
use reproduce::{
    measure::{Measurement, SetupReading},
    paper::NoiseAmplitudes,
    setup::PaperSetup,
};

const LINES_PER_S: f64 = 1e8;

/// Loads of one core from memory of its own package or another's, each of two packages disturbed as much.
fn disturbed(more: &str) -> SetupReading {
    let mut model = Model::builtin("haswell-ep-e5-2680v3").unwrap();
    let l3 = model.l3.as_mut().unwrap();
    l3.geometry.size = Bytes(l3.geometry.size.0 / 8);
    let noise = NoiseAmplitudes {
        memory_lines_per_s: LINES_PER_S,
        l3_lines_per_s: 0.0,
        interrupt_every_ns: 1e9,
        interrupt_lasts_ns: 1.0,
        source: String::new(),
    };
    let text = format!("kernel = 'load'\nlevel = 'memory'\nnoise = true\ninstructions = 40000\n{more}");
    let setup: PaperSetup = toml::from_str(&text).unwrap();
    let events = ["UNC_M_CAS_COUNT.ALL".to_owned()];
    let aliases = BTreeMap::new();
    let measured = Measurement {
        model: &model,
        noise: Some(&noise),
        setup: &setup,
        seed: 0,
        events: &events,
        aliases: &aliases,
    };
    measured.run(&AtomicBool::new(false)).unwrap()
}

/// What others drew at an idle package is no error of what is counted at one that works.
#[test]
fn controllers_of_packages_that_work_or_have_the_data_count_and_no_others() {
    for (more, packages) in [("", 1.0), ("remote = true", 2.0)] {
        let values = disturbed(more).values;
        let others = values["UNC_M_CAS_COUNT.ALL"] - values["l3_in"] - values["l3_out"];
        let drawn = packages * LINES_PER_S * values["time"];
        assert!((others / drawn - 1.0).abs() < 0.15, "{more}: {others} of {drawn}");
    }
}
