//! `memwall kernels`: the known work that can be run.

use std::path::PathBuf;

use kernels::Kernel;
use report::json::{KernelEntry, KernelsDocument};

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
};

/// List the kernels: known work for `memwall bench`
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KernelsArgs {
    /// Show only kernels whose name contains this
    pattern: Option<String>,
    /// Add the kernels of a file
    #[arg(long, value_name = "FILE")]
    kernel_file: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
}

const EXAMPLES: &str = "\
Examples:
  memwall kernels                           all kernels, what they do and where they come from
  memwall kernels chase                     those with 'chase' in their name
  memwall kernels --kernel-file mine.toml   check a file of your own; docs/kernels.md says how to write one

Schema of --json: memwall.kernels/1.";

/// Lists.
pub fn run(args: &KernelsArgs) -> Result<(), Failure> {
    let catalogue = super::catalogue(args.kernel_file.as_deref())?;
    let wanted =
        |kernel: &&Kernel| args.pattern.as_ref().is_none_or(|pattern| kernel.name().contains(pattern));
    let entries: Vec<KernelEntry<'_>> = catalogue.iter().filter(wanted).map(entry).collect();
    if entries.is_empty() {
        let pattern = args.pattern.clone().unwrap_or_default();
        return Err(Failure::Usage(format!(
            "no kernel's name contains '{pattern}'; 'memwall kernels' lists all"
        )));
    }
    let document = KernelsDocument::new(&entries);
    args.forms.give(Screen::Out, &document, |columns| report::terminal::kernels::text(&entries, columns))
}

fn entry(kernel: &Kernel) -> KernelEntry<'_> {
    let description = kernel.description();
    KernelEntry {
        name: kernel.name(),
        about: &description.about,
        source: &description.source,
        widths: kernel.widths().iter().map(|width| width.name()).collect(),
        parameters: kernel.parameters().collect(),
        threads: description.fixed_threads(),
        runs_here: kernel.width_on(&machine::Isa::native(), None).is_ok(),
    }
}
