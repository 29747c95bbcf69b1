//! What a recording says.

use analysis::{
    findings::{Findings, Objects},
    reading::Reading,
};
use serde::Serialize;

/// Of `memwall run` and `memwall report`: the findings, and what they say about data.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RunDocument<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    objects: &'a Objects,
}

impl<'a> RunDocument<'a> {
    /// Of a recording that was read.
    pub fn new(reading: &'a Reading) -> Self {
        Self { findings: &reading.findings, objects: &reading.objects }
    }
}
