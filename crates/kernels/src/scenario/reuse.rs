//! Which of a thread's data a cache still holds when a step comes back to it.
//!
//! The rule is that of [`crate::traffic`], carried from step to step: between two uses of the same bytes, all
//! bytes that the thread touched in between and those themselves must fit. Within a step the kernel's own rule
//! holds from its second pass on.

use machine::Bytes;

use super::{
    layout,
    plan::{Plan, PlanPart, PlannedStep},
    schedule::Event,
    truth::{per_thread, slot},
};
use crate::{
    description::StreamPattern,
    draw::DrawError,
    geometry::LINE,
    traffic::{self, TrafficLines},
};

/// Bytes of an instance that a part uses, and the order in which it goes through them.
#[derive(Clone, Copy, PartialEq)]
struct ReuseBlock {
    instance: usize,
    start: u64,
    end: u64,
    /// In whole lines, without holes.
    bytes: u64,
    /// Pattern, and what lies between streams and between accesses.
    order: (StreamPattern, u64, u64),
}

/// What is left of a block when it is used again.
enum ReuseLeft {
    /// All of it.
    All,
    /// Nothing, or it was never used.
    Nothing,
    /// Nothing by the rule; it was used in another order last, so that some lines may be left.
    Perhaps,
}

/// What one execution of a part moves.
struct ReuseMoves {
    block: Option<ReuseBlock>,
    /// If nothing of it is cached at first.
    cold: TrafficLines,
    /// If all of it is that the capacity allows.
    warm: TrafficLines,
}

/// Lines that cross below a cache of `capacity`, for each region and each of its threads.
pub fn lines(plan: &Plan, capacity: Bytes) -> Result<Vec<Vec<TrafficLines>>, DrawError> {
    let none = TrafficLines { exact: true, ..TrafficLines::default() };
    let mut sums: Vec<Vec<TrafficLines>> = per_thread(plan);
    sums.iter_mut().flatten().for_each(|sum| *sum = none);
    for thread in 0..plan.threads {
        let moves = plan
            .steps
            .iter()
            .map(|step| step.part(thread).map(|part| of_part(step, part, capacity)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let (mut inside, mut recent) = (Vec::new(), Vec::new());
        for event in plan.schedule(thread) {
            match event {
                Event::Enter { region } => inside.push((region, slot(plan, region, thread))),
                Event::Leave { .. } => {
                    inside.pop();
                }
                Event::Run { step } => {
                    let Some(moves) = &moves[step] else { continue };
                    let left = moves.block.map_or(ReuseLeft::All, |block| used(&mut recent, block, capacity));
                    let mut moved = if matches!(left, ReuseLeft::All) { moves.warm } else { moves.cold };
                    moved.exact &= !matches!(left, ReuseLeft::Perhaps);
                    inside.iter().for_each(|&(region, slot)| add(&mut sums[region][slot], &moved, 1.0));
                }
            }
        }
    }
    Ok(sums)
}

/// What is left of `block` since it was last used, in a cache of `capacity`; notes its use.
fn used(recent: &mut Vec<ReuseBlock>, block: ReuseBlock, capacity: Bytes) -> ReuseLeft {
    let holds = |other: &ReuseBlock| {
        other.instance == block.instance && other.start <= block.start && block.end <= other.end
    };
    let left = match recent.iter().rposition(holds) {
        None => ReuseLeft::Nothing,
        Some(last) => {
            let since: u64 = recent[last + 1..].iter().map(|other| other.bytes).sum();
            match since + block.bytes.max(recent[last].bytes) {
                bytes if bytes <= capacity.0 => ReuseLeft::All,
                _ if recent[last] == block => ReuseLeft::Nothing,
                _ => ReuseLeft::Perhaps,
            }
        }
    };
    recent.retain(|other| *other != block);
    recent.push(block);
    left
}

fn add(sum: &mut TrafficLines, moved: &TrafficLines, times: f64) {
    sum.inward += moved.inward * times;
    sum.outward += moved.outward * times;
    sum.non_temporal += moved.non_temporal * times;
    sum.exact &= moved.exact;
}

fn of_part(step: &PlannedStep, part: &PlanPart, capacity: Bytes) -> Result<ReuseMoves, DrawError> {
    let block = block(step, part);
    if step.takes_turns() {
        let moved = turns(step, part, capacity);
        return Ok(ReuseMoves { block, cold: moved, warm: moved });
    }
    let pass = traffic::lines_below(&step.kernel, &part.geometry, capacity)?;
    let pattern = step.kernel.description().streams.first().map(|stream| stream.pattern);
    let first = match pattern {
        // Draws of one pass do not reach everything: what is expected of any pass is expected of the first.
        Some(StreamPattern::Drawn { .. }) => pass,
        _ => traffic::lines_below(&step.kernel, &part.geometry, Bytes(0))?,
    };
    let mut warm = TrafficLines { exact: true, ..TrafficLines::default() };
    add(&mut warm, &pass, step.passes as f64);
    let mut cold = TrafficLines { exact: true, ..TrafficLines::default() };
    add(&mut cold, &first, 1.0);
    add(&mut cold, &pass, step.passes as f64 - 1.0);
    Ok(ReuseMoves { block, cold, warm })
}

/// The second thread finds no line where it left it; the first needs its own again only if they did not fit.
fn turns(step: &PlannedStep, part: &PlanPart, capacity: Bytes) -> TrafficLines {
    let lines = (part.geometry.turns * part.geometry.iterations * step.passes) as f64;
    let inward = part.role == 1 || part.geometry.stream_bytes > capacity.0;
    TrafficLines { inward: if inward { lines } else { 0.0 }, outward: 0.0, non_temporal: 0.0, exact: true }
}

fn block(step: &PlannedStep, part: &PlanPart) -> Option<ReuseBlock> {
    let touched = layout::touched(&step.kernel, part);
    let first = step.kernel.description().streams.first()?;
    Some(ReuseBlock {
        order: (first.pattern, part.geometry.stream_pitch, part.geometry.stride),
        instance: part.instance?,
        start: touched.iter().map(|range| range.start).min()?,
        end: touched.iter().map(|range| range.end).max()?,
        bytes: touched.iter().map(|range| range.lines * LINE).sum(),
    })
}
