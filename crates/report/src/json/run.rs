//! What a recording says.

use analysis::{
    findings::{Findings, KnownLimits, Objects},
    hybrid::HybridFindings,
    import::ImportFindings,
    patterns::{PatternFinding, RegionPatterns},
    phase_check::{self, PhaseCheck},
    reading::Reading,
    regions::RegionFinding,
    scaling::ScalingFindings,
    surroundings::ProgramSurroundings,
    views::EventViews,
    work::WorkFindings,
};
use record::{count::Counts, regions::EventsDone};
use serde::Serialize;

/// Of `memwall run` and `memwall report`: the findings, what they say about data, and what went on around the program.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RunDocument<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    objects: &'a Objects,
    #[serde(skip_serializing_if = "<[RegionFinding]>::is_empty")]
    regions: &'a [RegionFinding],
    views: &'a EventViews,
    #[serde(skip_serializing_if = "Option::is_none")]
    hybrid: Option<&'a KnownLimits<HybridFindings>>,
    work: &'a WorkFindings,
    #[serde(skip_serializing_if = "Option::is_none")]
    scaling: Option<&'a ScalingFindings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_done: Option<&'a EventsDone>,
    patterns: &'a [PatternFinding],
    surroundings: &'a ProgramSurroundings,
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<&'a ImportFindings>,
}

impl<'a> RunDocument<'a> {
    /// Of a recording that was read.
    pub fn new(reading: &'a Reading) -> Self {
        Self {
            findings: &reading.findings,
            objects: &reading.objects,
            regions: &reading.regions,
            views: &reading.views,
            hybrid: reading.hybrid.as_ref(),
            work: &reading.work,
            scaling: reading.scaling.as_ref(),
            events_done: reading.events.as_ref(),
            patterns: &reading.patterns,
            surroundings: &reading.surroundings,
            import: reading.import.as_ref(),
        }
    }
}

/// Of `memwall count`: the counts, and what patterns they show where that was asked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CountDocument<'a> {
    #[serde(flatten)]
    counts: &'a Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    patterns: Option<&'a [PatternFinding]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    region_patterns: &'a [RegionPatterns],
}

impl<'a> CountDocument<'a> {
    /// Of counts, with patterns if they were asked for, and those of regions.
    pub fn new(
        counts: &'a Counts,
        patterns: Option<&'a [PatternFinding]>,
        region_patterns: &'a [RegionPatterns],
    ) -> Self {
        Self { counts, patterns, region_patterns }
    }
}

/// Of `memwall demo`: what the recording says, and how right that is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DemoDocument<'a> {
    schema: &'static str,
    phases: &'a [PhaseCheck],
    report: RunDocument<'a>,
}

impl<'a> DemoDocument<'a> {
    /// Of a recording that was read, and its phases.
    pub fn new(reading: &'a Reading, phases: &'a [PhaseCheck]) -> Self {
        Self { schema: phase_check::SCHEMA, phases, report: RunDocument::new(reading) }
    }
}
