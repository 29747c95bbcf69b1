//! Experiments of papers on models of their machines, beside what was published.
//!
//! What the papers published is data (`papers/*.toml`): tables, figures and findings, each row with its section, how it
//! is measured here and what our number must be for the same conclusion. A row that can be wrong is a **claim**; it
//! counts only if some mutated machine (`mutants.toml`) makes it fall.
#![deny(unsafe_code)]

pub mod condition;
pub mod doubled;
pub mod here;
pub mod keep;
pub mod measure;
mod metrics;
pub mod mutants;
mod needs;
pub mod paper;
pub mod session;
pub mod setup;
pub mod squeezed;
mod values;

/// Names the simulator and all it consists of: readings of another one are not used.
pub const SIMULATOR: &str = env!("MEMWALL_SIMULATOR");
