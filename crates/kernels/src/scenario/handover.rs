//! Lines that pass from one thread to another: who wrote what last, followed through the regions.
//!
//! Threads enter a region together, so what they did before is over. Within a region nothing orders them: where
//! one writes what another touches, only bounds are known. Where several read what one wrote before, the lines are
//! counted for the one named first.

use super::{
    layout::{self, Touched},
    plan::{Plan, PlannedStep},
    truth::{Transfers, per_thread, slot},
};
use crate::description::{KernelShape, Op};

/// Who wrote a line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineWriter {
    /// Nobody since it was read by another: no cache holds it modified.
    Nobody,
    /// This thread.
    Thread(usize),
    /// One of several, depending on time.
    Somebody,
}

/// A stretch of an instance.
#[derive(Clone, Copy, Debug)]
struct HandoverSegment {
    start: u64,
    end: u64,
    writer: LineWriter,
}

/// One part's use of an instance, in a region without regions inside.
struct LineUse {
    thread: usize,
    instance: usize,
    range: Touched,
    /// Another thread of the region touches some of it, and one of them writes.
    contended: bool,
}

/// Transfers of each region's own steps, for each of its threads.
pub fn count(plan: &Plan) -> Vec<Vec<Transfers>> {
    let mut follow = Follow {
        plan,
        uses: (0..plan.regions.len()).map(|region| uses(plan, region)).collect(),
        segments: vec![Vec::new(); plan.instances.len()],
        sums: per_thread(plan),
    };
    if plan.instances.iter().any(|instance| instance.thread.is_none()) {
        plan.outermost().for_each(|region| follow.region(region));
    }
    follow.sums
}

/// What the steps of a region do to shared buffers, but for those that take turns.
fn uses(plan: &Plan, region: usize) -> Vec<LineUse> {
    let steps = &plan.steps[plan.regions[region].steps.clone()];
    let mut uses = Vec::new();
    for step in steps.iter().filter(|step| !step.takes_turns()) {
        for part in &step.parts {
            let Some(instance) = part.instance.filter(|&index| plan.instances[index].thread.is_none()) else {
                continue;
            };
            let ranges = layout::touched(&step.kernel, part).into_iter();
            uses.extend(ranges.map(|range| LineUse {
                thread: part.thread,
                instance,
                range,
                contended: false,
            }));
        }
    }
    for index in 0..uses.len() {
        let mine: &LineUse = &uses[index];
        let meets = |other: &LineUse| {
            other.thread != mine.thread
                && other.instance == mine.instance
                && (other.range.written || mine.range.written)
                && other.range.start < mine.range.end
                && mine.range.start < other.range.end
        };
        uses[index].contended = uses.iter().any(meets);
    }
    uses
}

struct Follow<'a> {
    plan: &'a Plan,
    uses: Vec<Vec<LineUse>>,
    segments: Vec<Vec<HandoverSegment>>,
    sums: Vec<Vec<Transfers>>,
}

impl Follow<'_> {
    fn region(&mut self, region: usize) {
        for _ in 0..self.plan.regions[region].repeat {
            for &inner in &self.plan.regions[region].inside {
                self.region(inner);
            }
            self.steps(region);
        }
    }

    /// One entry of a region's own steps.
    fn steps(&mut self, region: usize) {
        let uses = std::mem::take(&mut self.uses[region]);
        for used in &uses {
            let found = self.touch(region, used.thread, used.instance, used.range);
            if !used.contended {
                self.sums[region][slot(self.plan, region, used.thread)].add(found);
            }
        }
        for used in uses.iter().filter(|used| used.contended && used.range.written) {
            self.set(used.instance, used.range, LineWriter::Somebody);
        }
        self.uses[region] = uses;
        let plan = self.plan;
        for step in &plan.steps[plan.regions[region].steps.clone()] {
            if step.takes_turns() {
                self.turns(region, step);
            } else {
                self.contend(region, step);
            }
        }
    }

    /// Where threads write the same lines at the same time, each access may find its line gone.
    fn contend(&mut self, region: usize, step: &PlannedStep) {
        for part in &step.parts {
            let of_part =
                |used: &&LineUse| used.thread == part.thread && Some(used.instance) == part.instance;
            let ranges = layout::touched(&step.kernel, part);
            let contended = |used: &LineUse| used.contended && ranges.contains(&used.range);
            if self.uses[region].iter().filter(of_part).any(contended) {
                let counts = step.counts(part, step.passes);
                let most = Transfers { least: 0, most: counts.loads + counts.stores };
                self.sums[region][slot(self.plan, region, part.thread)].add(most);
            }
        }
    }

    /// One after the other over the same lines: known exactly.
    fn turns(&mut self, region: usize, step: &PlannedStep) {
        let KernelShape::Turns { first, second, .. } = &step.kernel.description().shape else { return };
        let writes = |body: &[Op]| {
            body.iter().any(|op| matches!(op, Op::IntStore { .. } | Op::Store { .. } | Op::Rmw { .. }))
        };
        let [one, two] = step.parts.as_slice() else { return };
        let Some(instance) = one.instance else { return };
        for range in layout::touched(&step.kernel, one) {
            let range = Touched { written: writes(first), ..range };
            let found = self.touch(region, one.thread, instance, range);
            let lines = one.geometry.turns * one.geometry.iterations;
            let back = if writes(second) { lines * (step.passes - 1) } else { 0 };
            let there = if writes(first) { lines * step.passes } else { 0 };
            let to = |thread| slot(self.plan, region, thread);
            let (one_at, two_at) = (to(one.thread), to(two.thread));
            self.sums[region][one_at].add(found);
            self.sums[region][one_at].add(Transfers { least: back, most: back });
            self.sums[region][two_at].add(Transfers { least: there, most: there });
            let last = if writes(second) { LineWriter::Thread(two.thread) } else { LineWriter::Nobody };
            self.set(instance, range, last);
        }
    }

    /// What `thread` finds written by others, and what it leaves behind.
    fn touch(&mut self, region: usize, thread: usize, instance: usize, range: Touched) -> Transfers {
        let together = &self.plan.regions[region].threads;
        let mut found = Transfers::default();
        for segment in &self.segments[instance] {
            let lines = range.lines_between(segment.start, segment.end);
            match segment.writer {
                LineWriter::Nobody => {}
                LineWriter::Thread(writer) if writer == thread => {}
                // Entering together has put an order between the two.
                LineWriter::Thread(writer) if together.contains(&writer) => {
                    found.add(Transfers { least: lines, most: lines });
                }
                LineWriter::Thread(_) | LineWriter::Somebody => {
                    found.add(Transfers { least: 0, most: lines })
                }
            }
        }
        if range.written {
            self.set(instance, range, LineWriter::Thread(thread));
        } else if range.read {
            self.clean(instance, range, thread);
        }
        found
    }

    /// What another thread reads is modified nowhere afterwards.
    fn clean(&mut self, instance: usize, range: Touched, reader: usize) {
        let segments = std::mem::take(&mut self.segments[instance]);
        for segment in segments {
            let (start, end) = (segment.start.max(range.start), segment.end.min(range.end));
            self.segments[instance].push(segment);
            if start < end && segment.writer != LineWriter::Thread(reader) {
                self.set(instance, Touched { start, end, ..range }, LineWriter::Nobody);
            }
        }
    }

    fn set(&mut self, instance: usize, range: Touched, writer: LineWriter) {
        let mut kept = Vec::new();
        for segment in self.segments[instance].drain(..) {
            let before = HandoverSegment { end: segment.end.min(range.start), ..segment };
            let after = HandoverSegment { start: segment.start.max(range.end), ..segment };
            kept.extend([before, after].into_iter().filter(|part| part.start < part.end));
        }
        if writer != LineWriter::Nobody {
            kept.push(HandoverSegment { start: range.start, end: range.end, writer });
        }
        self.segments[instance] = kept;
    }
}
