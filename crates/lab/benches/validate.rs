//! What validation finds on the machine of molka2017, and whether it is what the papers found.
//!
//! `cargo bench -p memwall-lab --bench validate [-- MODEL]` validates quickly, prints the best indicators with their
//! highest rates, and fails where an indicator of molka2017 Tables 2 and 3 was found unfit without a better one.

use std::{process::ExitCode, sync::atomic::AtomicBool, time::Instant};

use lab::validate::{Observer, Request, simulated::SimulatedBench, validate};
use machine::{model::Model, profile::Fingerprint};
use record::validate::{Observation, Trust};
use sim::pmu::{Flaws, Pmu};

/// Nobody watches, nothing is kept.
struct Alone;

impl Observer for Alone {
    fn progress(&mut self, _: &str, _: f64) {}
    fn keep(&mut self, _: &Observation) {}
    fn kept(&mut self, _: &str) -> Option<Observation> {
        None
    }
}

fn main() -> ExitCode {
    let asked = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let name = asked.unwrap_or_else(|| "haswell-ep-e5-2680v3".to_owned());
    let model = Model::builtin(&name).expect("a model");
    let pmu = Pmu::new(&model, Flaws::of(&model)).expect("events");
    let catalogue = pmu.catalogue();
    let kernels = kernels::Catalogue::builtin().expect("kernels");
    let mut bench = SimulatedBench::new(&model, pmu, kernels, 1, lab::simulated::Conditions::default());
    let request = Request {
        quick: true,
        runs: 2,
        all_events: false,
        now: 0,
        simulated: Some(name),
        fingerprint: Fingerprint::of_model(&model),
    };
    let began = Instant::now();
    let validation = validate(&mut bench, catalogue, &request, &mut Alone, &AtomicBool::new(false));
    println!("{:.0} s", began.elapsed().as_secs_f64());
    let mut unfit = 0;
    for best in &validation.best {
        let error = match &best.trust {
            Some(Trust::Trusted { error }) => format!("{:.1} %", error * 100.0),
            Some(trust) => trust.word().to_owned(),
            None => "none".to_owned(),
        };
        println!(
            "{:>7} {:>5} {:>3} cores {:>8.0} M lines/s {:>8.0} M events/s {:>10}  {}",
            best.level.name(),
            best.direction,
            best.cores,
            best.lines_per_s / 1e6,
            best.events_per_s.unwrap_or(0.0) / 1e6,
            error,
            best.indicator.as_deref().unwrap_or("none fit"),
        );
        if let Some(paper) = &best.paper {
            println!("        the paper's {} is {}", paper.indicator, paper.trust.word());
        }
        unfit += u32::from(best.indicator.is_none());
    }
    println!("{unfit} levels without an indicator");
    if unfit == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
