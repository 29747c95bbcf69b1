//! `memwall topology`: the machine as it claims to be.

use std::path::{Path, PathBuf};

use machine::{Source, Topology};
use report::json::TopologyDocument;

use crate::{
    failure::Failure,
    forms::{Forms, Screen},
    target::Target,
};

/// Draw the machine as it claims to be: sockets, cores, caches, memory nodes and what is left to us
///
/// Read from sysfs, procfs and CPUID; nothing is measured. What could not be read is listed at the end.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopologyArgs {
    #[command(flatten)]
    forms: Forms,
    /// Read another machine, captured as DIR/sys and DIR/proc
    ///
    /// DIR/cpuid.txt, if there, holds its CPUID leaves as `cpuid -r` prints them.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  memwall topology                      this machine
  memwall topology --on sim:tiny        a simulated machine
  memwall topology --root captured/     a machine whose /sys and /proc were copied to captured/
  memwall topology --json | jq '.caches[] | select(.level == 3)'

Schema of --json: memwall.topology/1.";

/// Reads and prints.
pub fn run(args: &TopologyArgs, machine: &Target) -> Result<(), Failure> {
    let topology = match (machine, &args.root) {
        (Target::Native, None) => Topology::read(&Source::live()),
        (Target::Native, Some(root)) => Topology::read(&captured(root)?),
        (Target::Simulated(model), None) => model.topology(),
        (Target::Simulated(_), Some(_)) => {
            return Err(Failure::Usage(
                "--root and a simulated machine are two machines; leave one out".to_owned(),
            ));
        }
    };
    let document = TopologyDocument::new(&topology);
    args.forms.give(Screen::Out, &document, |columns| report::terminal::topology::text(&topology, columns))
}

/// A directory that looks like a captured machine.
fn captured(root: &Path) -> Result<Source, Failure> {
    let bad = |why: &str| Failure::Usage(format!("--root {}: {why}", root.display()));
    let next = "give a directory that holds copies of /sys and /proc";
    match root.metadata() {
        Err(error) => return Err(bad(&format!("{error}; {next}"))),
        Ok(found) if !found.is_dir() => return Err(bad(&format!("not a directory; {next}"))),
        Ok(_) => {}
    }
    if !root.join("sys").exists() && !root.join("proc").exists() {
        return Err(bad(&format!("holds neither sys nor proc; {next}")));
    }
    Ok(Source::under(root))
}
