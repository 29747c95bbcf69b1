//! What validation finds on the machine of molka2017, beside what the papers found.
//!
//! `cargo bench -p memwall-validate --bench validate [-- [MODEL] [--full]]` validates, prints the best indicators with their
//! highest rates beside those of molka2017 Tables 2 and 3, then claim by claim what the papers say and what was found.
//! It fails if a claim does not hold.

#[path = "../tests/validate/papers.rs"]
mod papers;

use std::{process::ExitCode, sync::atomic::AtomicBool, time::Instant};

use machine::{model::Model, profile::Fingerprint};
use record::validate::Observation;
use sim::pmu::{Flaws, SimulatedPmu};
use trust::Validation;
use validate::{Observer, Request, simulated::SimulatedBench, validate};

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = arguments.iter().find(|argument| !argument.starts_with('-'));
    let name = asked.map_or("haswell-ep-e5-2680v3", String::as_str);
    let full = arguments.iter().any(|argument| argument == "--full");
    let model = Model::builtin(name).expect("a model");
    let pmu = SimulatedPmu::new(&model, Flaws::of(&model)).expect("events");
    let catalogue = pmu.catalogue();
    let kernels = kernels::KernelCatalogue::builtin().expect("kernels");
    let known = validate::roles::JudgingKernels::of(&kernels).expect("kernels");
    let mut bench = SimulatedBench::new(&model, pmu, kernels, 1, host::simulated::Conditions::default());
    let request = Request {
        quick: !full,
        runs: 10,
        all_events: false,
        random_kernels: 0,
        relieved_kernels: 0,
        now: 0,
        simulated: Some(name.to_owned()),
        fingerprint: Fingerprint::of_model(&model),
    };
    let began = Instant::now();
    let validation = validate(&mut bench, catalogue, &known, &request, &mut Alone, &AtomicBool::new(false));
    let experiments: usize = validation.steps.iter().map(|step| step.experiments).sum();
    println!("{experiments} experiments in {:.0} s\n", began.elapsed().as_secs_f64());
    tables(&validation);
    let claims = papers::claims(&validation);
    for claim in &claims {
        let mark = if claim.holds { "yes" } else { "NO " };
        println!("{mark} {}\n      {}", claim.says, claim.found);
    }
    let missed = claims.iter().filter(|claim| !claim.holds).count();
    println!("\n{} of {} claims hold", claims.len() - missed, claims.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tables(validation: &Validation) {
    println!(
        "{:<20} {:>5} | {:>9} {:>9} | {:>9} {:>9} |",
        "M/s", "cores", "transfers", "paper", "events", "paper"
    );
    let millions = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
    for row in &papers::TABLES {
        let Some(best) = papers::beside(row, validation) else { continue };
        // The paper's rate is that of its own indicator.
        let events = match &best.paper {
            Some(paper) => paper.events_per_s,
            None => best.events_per_s,
        };
        println!(
            "{:<20} {:>5} | {:>9.0} {:>9.0} | {:>9} {:>9} | {}",
            best.name(),
            best.cores,
            best.lines_per_s / 1e6,
            row.million_transfers_per_s,
            millions(events.map(|rate| rate / 1e6)),
            millions(row.million_events_per_s),
            best.indicator.as_deref().unwrap_or("none fit"),
        );
    }
    println!();
}
