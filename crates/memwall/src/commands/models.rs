//! `memwall models`: the machines that can be simulated.

use std::path::PathBuf;

use machine::model::Model;
use report::json::{ModelDocument, ModelsDocument};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    output, target,
};

/// List the machines that can be simulated, or show one with all its numbers and their sources
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct ModelsArgs {
    #[command(flatten)]
    forms: Forms,
    #[command(subcommand)]
    action: Option<ModelsAction>,
}

const EXAMPLES: &str = "\
Examples:
  memwall models                                 all models: cores, caches, memory
  memwall models show haswell-ep-e5-2680v3       one model's numbers, and where each comes from
  memwall models show --model-file mine.toml     check and show a model of your own

Schema of --json: memwall.models/1.";

#[derive(clap::Subcommand)]
enum ModelsAction {
    Show(Show),
}

/// Show all numbers of a model and where they come from
///
/// Numbers are grouped as in the model file: geometry, widths, queue sizes, latencies and clocks. What a simulated
/// machine achieves is not among them: that comes out of a run.
#[derive(clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// A model that 'memwall models' lists
    #[arg(required_unless_present = "model_file", conflicts_with = "model_file")]
    name: Option<String>,
    /// Check and show a model file of your own
    #[arg(long, value_name = "FILE")]
    model_file: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
    /// Print the model file itself, as a start for one of your own
    #[arg(long, conflicts_with_all = ["model_file", "json"])]
    toml: bool,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  memwall models show tiny
  memwall models show haswell-ep-e5-2680v3 --json | jq .l3
  memwall models show tiny --toml > mine.toml && memwall models show --model-file mine.toml

Schema of --json: memwall.model/1.";

/// Lists or shows.
pub fn run(args: &ModelsArgs) -> Result<(), Failure> {
    match &args.action {
        Some(ModelsAction::Show(show)) => show.run(),
        None => list(&args.forms),
    }
}

fn list(forms: &Forms) -> Result<(), Failure> {
    let models: Vec<Model> =
        Model::builtin_names().map(Model::builtin).collect::<Result<_, _>>().map_err(Failure::usage)?;
    forms.give(Screen::Out, &ModelsDocument::new(&models), |columns| {
        report::terminal::model::list(&models, columns)
    })
}

impl Show {
    fn run(&self) -> Result<(), Failure> {
        let name = self.name.as_deref().unwrap_or_default();
        let model = match &self.model_file {
            Some(path) => target::model_file(path)?,
            None => Model::builtin(name).map_err(Failure::usage)?,
        };
        if self.toml {
            return output::text(Model::builtin_file(name).unwrap_or_default());
        }
        let document = ModelDocument::new(&model);
        self.forms.give(Screen::Out, &document, |columns| report::terminal::model::text(&model, columns))
    }
}
