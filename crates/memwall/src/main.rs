//! The command line: parses, wires, prints, exits.
#![deny(unsafe_code)]

mod ascii;
mod commands;
mod failure;
mod forms;
mod harmless;
mod interrupt;
mod live;
mod output;
mod placeholder;
mod progress;
mod ranks;
mod relieving;
mod source_files;
mod target;
mod trust;
mod typed;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

/// Is a program held back by memory, at which level, and can the number be believed on this machine?
#[derive(Parser)]
#[command(version, about, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = clap::ColorChoice::Auto, value_name = "WHEN")]
    color: clap::ColorChoice,
    #[command(flatten)]
    machine: target::Choice,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  memwall demo                        see it at work on a program of its own, and how right it is
  memwall ./app args                  is the program held back by memory, where, and how sure is that
  memwall doctor                      what can be measured here, and how to unlock the rest
  memwall calibrate --quick           measure this machine's caches and memory in about ten seconds
  memwall bench triad --size 16K..1G  a bandwidth sweep of a known kernel
  memwall --on sim:haswell-ep-e5-2680v3 calibrate --quick
                                      the same of a simulated machine; 'memwall models' lists them

Exit codes: 0 success, 1 a measurement failed, 2 bad usage.";

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::DemoArgs),
    Run(commands::run::RunArgs),
    Record(commands::record::RecordArgs),
    Import(commands::import::ImportArgs),
    Report(commands::report::ReportArgs),
    Compare(commands::compare::CompareArgs),
    Count(Box<commands::count::CountArgs>),
    Events(commands::events::EventsArgs),
    Calibrate(commands::calibrate::CalibrateArgs),
    Profile(commands::profile::ProfileArgs),
    Validate(commands::validate::ValidateArgs),
    Reproduce(commands::reproduce::ReproduceArgs),
    Bench(commands::bench::BenchArgs),
    Kernels(commands::kernels::KernelsArgs),
    Models(commands::models::ModelsArgs),
    Scenario(commands::scenario::ScenarioArgs),
    Squeeze(Box<commands::squeeze::SqueezeArgs>),
    Predict(commands::predict::PredictArgs),
    Topology(commands::topology::TopologyArgs),
    /// What can be measured here, and how to unlock the rest
    Doctor(commands::doctor::Doctor),
    Methods(commands::methods::MethodsArgs),
    Patterns(commands::patterns::PatternsArgs),
    Setup(commands::setup::SetupArgs),
    /// A program without a command before it.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

fn main() -> ExitCode {
    let cli = match typed::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(typed::TypedAnswer::Parser(answer)) => return output::usage(&answer),
        Err(typed::TypedAnswer::Usage(failure)) => return failure.report(),
    };
    output::colour(cli.color);
    match run(&cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn run(cli: &Cli) -> Result<ExitCode, failure::Failure> {
    let machine = &cli.machine;
    match &cli.command {
        Command::Demo(args) => machine.native_only().and_then(|()| commands::demo::run(args)),
        Command::Run(args) => return machine.native_only().and_then(|()| commands::run::run(args)),
        Command::Record(args) => return machine.native_only().and_then(|()| commands::record::run(args)),
        Command::Count(args) => return commands::count::run(args, &machine.target()?),
        Command::Squeeze(args) => return commands::squeeze::run(args, &machine.target()?),
        Command::Reproduce(args) => return machine.none().and_then(|()| commands::reproduce::run(args)),
        Command::Events(args) => commands::events::run(args, &machine.target()?),
        Command::Import(args) => machine.none().and_then(|()| commands::import::run(args)),
        Command::Report(args) => machine.none().and_then(|()| commands::report::run(args)),
        Command::Predict(args) => commands::predict::run(args, machine),
        Command::Compare(args) => return machine.none().and_then(|()| commands::compare::run(args)),
        Command::Calibrate(args) => commands::calibrate::run(args, &machine.target()?),
        Command::Profile(args) => commands::profile::run(args, &machine.target()?),
        Command::Validate(args) => commands::validate::run(args, &machine.target()?),
        Command::Bench(args) => commands::bench::run(args, &machine.target()?),
        Command::Kernels(args) => machine.none().and_then(|()| commands::kernels::run(args)),
        // Its own --model-file names the model to show.
        Command::Models(args) => commands::models::run(args),
        Command::Scenario(args) => commands::scenario::run(args, &machine.target()?),
        Command::Topology(args) => commands::topology::run(args, &machine.target()?),
        Command::Setup(args) => machine.none().and_then(|()| commands::setup::run(args)),
        Command::Doctor(options) => commands::doctor::run(options, &machine.target()?),
        Command::Methods(args) => commands::methods::run(args, &machine.target()?),
        Command::Patterns(args) => commands::patterns::run(args, &machine.target()?),
        // `typed::parse` has made it a run.
        Command::Program(_) => {
            Err(failure::Failure::Usage("write 'memwall run' before the program".to_owned()))
        }
    }?;
    Ok(ExitCode::SUCCESS)
}
