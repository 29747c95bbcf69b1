//! Which machine a command is about: this one, or a simulated one.

use std::path::{Path, PathBuf};

use machine::{
    model::Model,
    regular::{self, LARGEST_DATA_FILE},
};

use crate::failure::Failure;

/// Options that every command takes.
#[derive(clap::Args)]
#[command(next_help_heading = "Which machine")]
pub struct Choice {
    /// The machine: native, or sim:NAME for a simulated one that 'memwall models' lists
    ///
    /// A simulated machine runs the same kernels in simulated time and gives the same numbers every time. sim:NAME/16
    /// is a sixteenth of it: caches, reach of the TLBs and memory divided, to be given a sixteenth of the data.
    #[arg(long, global = true, value_name = "MACHINE")]
    on: Option<String>,
    /// Simulate the machine of a model file of your own; implies --on sim
    #[arg(long, global = true, value_name = "FILE")]
    model_file: Option<PathBuf>,
    /// Prefetchers that are on in a simulated machine: none, or some of l1-next-line,l1-stride,l2-adjacent,l2-streamer
    ///
    /// Without this all are on that the machine has. What is calibrated or validated so is kept apart.
    #[arg(long, global = true, value_name = "LIST")]
    prefetchers: Option<String>,
}

/// A machine.
pub enum Target {
    /// The one we run on.
    Native,
    /// A simulated one.
    Simulated(Box<Model>),
}

impl Choice {
    /// Finds the model, if one was asked for, and switches its prefetchers.
    pub fn target(&self) -> Result<Target, Failure> {
        match (self.machine()?, &self.prefetchers) {
            (machine, None) => Ok(machine),
            (Target::Simulated(model), Some(names)) => {
                let model = model.with_prefetchers(names).map_err(|error| {
                    Failure::Usage(format!("--prefetchers {names}: {error}"))
                })?;
                Ok(Target::Simulated(Box::new(model)))
            }
            (Target::Native, Some(_)) => Err(Failure::Usage(
                "--prefetchers switches those of a simulated machine; add --on sim:NAME. On this machine the firmware's \
                 settings or its registers do"
                    .to_owned(),
            )),
        }
    }

    /// The machine, if one was named.
    pub fn named(&self) -> Result<Option<Target>, Failure> {
        let is_named = self.on.is_some() || self.model_file.is_some() || self.prefetchers.is_some();
        is_named.then(|| self.target()).transpose()
    }

    /// Another way to name one: as an older flag did.
    pub fn of_name(name: &str) -> Result<Target, Failure> {
        Self { on: Some(name.to_owned()), model_file: None, prefetchers: None }.target()
    }

    fn machine(&self) -> Result<Target, Failure> {
        match (self.on.as_deref().unwrap_or("native"), &self.model_file) {
            ("native", None) => Ok(Target::Native),
            ("native" | "sim", Some(path)) => Ok(Target::Simulated(Box::new(model_file(path)?))),
            ("sim", None) => Err(Failure::Usage(
                "--on sim: which machine? write sim:NAME ('memwall models' lists them) or add --model-file FILE"
                    .to_owned(),
            )),
            (on, file) => match (on.strip_prefix("sim:"), file) {
                (Some(name), None) => Ok(Target::Simulated(Box::new(builtin(name)?))),
                (Some(name), Some(path)) => Err(Failure::Usage(format!(
                    "--on sim:{name} and --model-file {} are two machines; leave one out",
                    path.display()
                ))),
                (None, _) => Err(Failure::Usage(format!(
                    "--on {on}: no such machine; write native, or sim:NAME with a name that 'memwall models' lists"
                ))),
            },
        }
    }

    /// For commands that run real programs.
    pub fn native_only(&self) -> Result<(), Failure> {
        match self.target()? {
            Target::Native => Ok(()),
            Target::Simulated(_) => Err(Failure::Usage(
                "programs run on this machine only; a simulated machine runs kernels ('memwall bench') and scenarios \
                 ('memwall scenario')"
                    .to_owned(),
            )),
        }
    }

    /// For commands that are about no machine.
    pub fn none(&self) -> Result<(), Failure> {
        match self.target()? {
            Target::Native => Ok(()),
            Target::Simulated(_) => Err(Failure::Usage(
                "this command lists what memwall has and is about no machine; leave --on and --model-file out"
                    .to_owned(),
            )),
        }
    }
}

/// A model that comes with memwall, or a part of it: `tiny`, `haswell-ep-e5-2680v3/16`.
pub fn builtin(name: &str) -> Result<Model, Failure> {
    let Some((name, divisor)) = name.split_once('/') else {
        return Model::builtin(name).map_err(Failure::usage);
    };
    let model = Model::builtin(name).map_err(Failure::usage)?;
    let divisor = divisor.parse().map_err(|_| {
        Failure::Usage(format!(
            "--on sim:{name}/{divisor}: write sim:{name}/16 for a sixteenth of the machine"
        ))
    })?;
    model.scaled(divisor).map_err(Failure::usage)
}

/// A user's own model.
pub fn model_file(path: &Path) -> Result<Model, Failure> {
    let text = regular::read_text(path, LARGEST_DATA_FILE)
        .map_err(|error| Failure::Usage(format!("cannot read model file {}: {error}", path.display())))?;
    Model::parse(&text, &path.display().to_string()).map_err(Failure::usage)
}
