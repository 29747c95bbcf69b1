//! Machines: what they claim, what was measured, what can be measured there.

use ::trust::Basis;
use machine::{Profile, Topology, model::Model};
use record::doctor::{Checkup, Leftover};
use serde::Serialize;

/// Of `memwall doctor`: the checkup, and whether the machine was validated.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DoctorDocument<'a> {
    /// What came of each trial; it carries the schema.
    #[serde(flatten)]
    pub checkup: &'a Checkup,
    /// Which validation there is, or why none.
    pub validation: &'a Basis,
    /// Folders that memwalls left behind.
    pub leftovers: &'a [Leftover],
}

/// Of `memwall profile`: the profile, its age, and what is different now.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileDocument<'a> {
    /// As it is kept; it carries the schema.
    #[serde(flatten)]
    pub profile: &'a Profile,
    /// Seconds since it was measured; what is simulated does not age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// What is not as it was then, in plain words.
    pub changed: Vec<String>,
    /// Which validation there is, or why none.
    pub validation: &'a Basis,
}

/// Of `memwall topology`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TopologyDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    topology: &'a Topology,
}

impl<'a> TopologyDocument<'a> {
    /// Of a machine as it describes itself.
    pub fn new(topology: &'a Topology) -> Self {
        Self { schema: "memwall.topology/1", topology }
    }
}

/// Of `memwall models`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ModelsDocument<'a> {
    schema: &'static str,
    models: &'a [Model],
}

impl<'a> ModelsDocument<'a> {
    /// Of these simulated machines.
    pub fn new(models: &'a [Model]) -> Self {
        Self { schema: "memwall.models/1", models }
    }
}

/// Of `memwall models show`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ModelDocument<'a> {
    schema: &'static str,
    #[serde(flatten)]
    model: &'a Model,
}

impl<'a> ModelDocument<'a> {
    /// Of a simulated machine.
    pub fn new(model: &'a Model) -> Self {
        Self { schema: "memwall.model/1", model }
    }
}
