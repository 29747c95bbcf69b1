//! One file per command.

pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod count;
pub mod count_simulated;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod import;
pub mod kernels;
pub mod methods;
pub mod models;
pub mod patterns;
pub mod predict;
mod probing;
pub mod profile;
pub mod record;
pub mod recording;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod setup;
pub mod squeeze;
pub mod topology;
pub mod validate;

use std::path::Path;

use ::kernels::KernelCatalogue;
use machine::regular::{self, LARGEST_DATA_FILE};

use crate::failure::Failure;

/// The kernels that come with memwall, and those of the user's file.
fn catalogue(file: Option<&Path>) -> Result<KernelCatalogue, Failure> {
    let mut catalogue = KernelCatalogue::builtin().map_err(Failure::measurement)?;
    if let Some(path) = file {
        let text = regular::read_text(path, LARGEST_DATA_FILE).map_err(|error| {
            Failure::Usage(format!("cannot read kernel file {}: {error}", path.display()))
        })?;
        catalogue.add(&text, &path.display().to_string()).map_err(Failure::usage)?;
    }
    Ok(catalogue)
}
