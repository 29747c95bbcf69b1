//! Programs made of kernels: what they do is known, as it is of each kernel they are made of.
//!
//! - [`Scenario`]: the program as plain data; [`parse()`] reads it from a file, [`shipped`] holds those that come
//!   with memwall.
//! - [`Plan`]: the same for a number of threads, a CPU and a scale: which code, on which bytes of which buffer.
//!   Natively and on a simulated machine the same plan is run.
//! - [`truth`]: what each thread does in each region, by construction.
//! - [`pace`]: how many empty operations slow a stream down to the rate asked for.

mod definition;
mod file;
mod handover;
mod layout;
pub mod pace;
mod parse;
mod plan;
mod resolve;
mod reuse;
mod schedule;
pub mod shipped;
pub mod truth;

pub use definition::{
    Body, BufferHome, BufferSharing, BufferSpec, Scenario, ScenarioRegion, ScenarioStep, ScenarioVariable,
    StepSpan,
};
pub use layout::{Chain, Instance};
pub use parse::{ScenarioError, parse};
pub use plan::{Plan, PlanError, PlanPart, PlannedRegion, PlannedStep};
pub use schedule::{Event, Schedule};
pub use shipped::Shipped;

#[cfg(test)]
mod tests;
