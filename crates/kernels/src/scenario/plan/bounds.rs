//! What a plan may come to: it must be recorded and counted.

use super::{Plan, PlanError, PlanPart};
use crate::program::{ProgramNode, Times};

/// Entries and executions of all threads: each leaves a record.
const MOST_EVENTS: u64 = 1_000_000;
/// Instructions of one thread. Below this no count overflows and every one is a whole number as a float.
const MOST_INSTRUCTIONS: f64 = (1u64 << 50) as f64;
/// Random branches of all threads: they are counted one by one.
const MOST_COINS: f64 = 3e8;

impl Plan {
    pub(super) fn check_events(&self) -> Result<(), PlanError> {
        let mut events = 0u64;
        for region in &self.regions {
            let steps: usize = self.steps[region.steps.clone()].iter().map(|step| step.parts.len()).sum();
            let each = (region.threads.len() + steps) as u64;
            events = events.saturating_add(region.entries.saturating_mul(each));
            if events > MOST_EVENTS {
                let place = format!("'{}'", region.path);
                return Err(PlanError::TooMuch { place, what: "more than a million entries and steps" });
            }
        }
        Ok(())
    }

    /// Whether everything can be counted without overflow, random branches in reasonable time.
    pub(super) fn check_volume(&self) -> Result<(), PlanError> {
        let (mut coins, mut work) = (0.0, vec![0.0; self.threads]);
        for (index, step) in self.steps.iter().enumerate() {
            let entries = self.regions[step.region].entries as f64;
            for part in &step.parts {
                let turns = part.geometry.turns as f64;
                work[part.thread] += entries * turns * volume(&part.program.flow, part, step.passes as f64);
                if step.flips_coins() {
                    coins += entries * step.passes as f64 * part.geometry.iterations as f64;
                }
            }
            let too_much = |what| Err(PlanError::TooMuch { place: self.place(index), what });
            if work.iter().any(|work| *work > MOST_INSTRUCTIONS) {
                return too_much("more instructions than can be counted");
            }
            if coins > MOST_COINS {
                return too_much("more random branches than can be counted");
            }
        }
        Ok(())
    }
}

/// Instructions of one call, roughly and without overflow.
fn volume(nodes: &[ProgramNode], part: &PlanPart, passes: f64) -> f64 {
    let geometry = &part.geometry;
    let sum = |node: &ProgramNode| match node {
        ProgramNode::Piece { piece, .. } => part.program.pieces[*piece].counts.instructions as f64,
        ProgramNode::Coin { .. } | ProgramNode::Branch { .. } => 2.0,
        ProgramNode::Loop { times, body } => {
            let times = match times {
                Times::Passes => passes,
                Times::Iterations => geometry.iterations as f64,
                Times::Fixed(times) => *times as f64,
                Times::Rows => (geometry.rows.1 - geometry.rows.0) as f64,
                Times::Head | Times::Vectors => geometry.order as f64,
            };
            times * volume(body, part, passes)
        }
    };
    nodes.iter().map(sum).sum()
}
