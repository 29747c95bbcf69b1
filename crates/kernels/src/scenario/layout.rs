//! Where the threads of a step find their data, and what a buffer must hold for all steps that use it.

use machine::{Bytes, Width};

use super::{
    definition::{BufferSharing, BufferSpec, ScenarioStep, StepSpan},
    plan::{Plan, PlanError, PlanPart},
};
use crate::{
    description::{Description, KernelShape, StreamPattern},
    geometry::{self, Geometry, LINE, SLACK},
    lower::places,
    numbers::{NumberStretch, Numbering},
    program::AssembleError,
    traffic,
};

/// A buffer in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Index into the scenario's buffers.
    pub buffer: usize,
    /// The thread it belongs to; `None` if it is shared.
    pub thread: Option<usize>,
    /// Bytes to allocate: what steps use, and what their operations may touch beyond it.
    pub allocate: Bytes,
    /// Stretches that hold a cycle of pointers.
    pub chains: Vec<Chain>,
    /// Stretches that hold numbers of elements.
    pub numbers: Vec<NumberStretch>,
    /// Bytes of the numbers everything else is filled with; `None` where steps only follow pointers or draw places,
    /// whatever is found there.
    pub element: Option<u64>,
}

/// A random cycle of pointers through part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Bytes per pointer.
    pub stride: u64,
}

/// Role, geometry and stream offsets of one thread.
type Placed = (usize, Geometry, [u64; 6]);

/// The share of each of `threads` threads in a step on `size` bytes.
pub fn place(
    step: &ScenarioStep,
    buffer: Option<&BufferSpec>,
    width: Width,
    size: Bytes,
    threads: usize,
) -> Result<Vec<Placed>, AssembleError> {
    let kernel = &step.kernel;
    let shape = &kernel.description().shape;
    let streams = kernel.description().streams.len() as u64;
    let alone = || geometry::divide(kernel, width, size, 1);
    let shared = buffer.is_some_and(|buffer| buffer.sharing == BufferSharing::Shared);
    let geometries = match (shape, shared && step.span == StepSpan::Own) {
        (KernelShape::Private(_), false) => vec![alone()?.swap_remove(0); threads],
        _ => geometry::divide(kernel, width, size, threads)?,
    };
    let place = |(index, geometry): (usize, Geometry)| {
        let mut offsets = [0; 6];
        let (role, begin) = match shape {
            KernelShape::Turns { .. } => (index, 0),
            KernelShape::Triangle(_) => (0, 0),
            KernelShape::Private(_) if shared && step.span == StepSpan::Own => {
                (0, index as u64 * geometry.stream_pitch * streams)
            }
            KernelShape::Private(_) => (0, index as u64 * step.shift),
        };
        for (stream, offset) in offsets.iter_mut().enumerate().take(streams as usize) {
            *offset = begin + stream as u64 * geometry.stream_pitch;
        }
        if let KernelShape::Triangle(_) = shape {
            // Matrix, then vector, then result; each thread begins at its rows.
            let first = geometry.rows.0;
            offsets[2] = offsets[1] + geometry.pitch.next_multiple_of(4096) + first * 8;
            offsets[0] = first * geometry.pitch;
        }
        (role, geometry, offsets)
    };
    Ok(geometries.into_iter().enumerate().map(place).collect())
}

/// The buffers of a plan, and which of them each part uses. A buffer that no step uses is none.
pub fn instances(plan: &mut Plan) -> Result<Vec<Instance>, PlanError> {
    let mut instances: Vec<Instance> = Vec::new();
    for index in 0..plan.steps.len() {
        let (place, step) = (plan.place(index), &mut plan.steps[index]);
        let Some(buffer) = step.buffer else { continue };
        let spec = &plan.scenario.buffers[buffer];
        let description = step.kernel.description();
        for part in &mut step.parts {
            let thread = (spec.sharing == BufferSharing::Private).then_some(part.thread);
            let known = instances.iter().position(|known| known.buffer == buffer && known.thread == thread);
            let number = known.unwrap_or_else(|| {
                let (chains, numbers) = (Vec::new(), Vec::new());
                instances.push(Instance {
                    buffer,
                    thread,
                    allocate: Bytes(0),
                    chains,
                    numbers,
                    element: None,
                });
                instances.len() - 1
            });
            part.instance = Some(number);
            let instance = &mut instances[number];
            let end = part.offsets[0] + part.geometry.allocate;
            instance.allocate = Bytes(instance.allocate.0.max(end));
            match description.streams.first().map(|stream| stream.pattern) {
                Some(StreamPattern::Cycle { stride }) => {
                    let (offset, bytes) = (part.offsets[0], part.geometry.stream_bytes);
                    instance
                        .add_chain(Chain { offset, bytes, stride })
                        .map_err(|()| PlanError::Chain { place: place.clone(), buffer: spec.name.clone() })?;
                }
                Some(StreamPattern::Drawn { .. }) => {}
                _ => instance.element = instance.element.max(Some(description.element)),
            }
            instance
                .add_numbers(description, part)
                .map_err(|()| PlanError::Numbers { place: place.clone(), buffer: spec.name.clone() })?;
        }
    }
    check_writers(plan, &instances)?;
    Ok(instances)
}

impl Instance {
    /// Two steps may follow the same pointers, or pointers in different places.
    fn add_chain(&mut self, chain: Chain) -> Result<(), ()> {
        if self.chains.contains(&chain) {
            return Ok(());
        }
        let end = chain.offset + chain.bytes;
        if self.chains.iter().any(|other| other.offset < end && chain.offset < other.offset + other.bytes) {
            return Err(());
        }
        self.chains.push(chain);
        Ok(())
    }

    /// Two steps may go by the same numbers, or by numbers in different places.
    fn add_numbers(&mut self, description: &Description, part: &PlanPart) -> Result<(), ()> {
        for stream in 0..description.streams.len() {
            let Some(numbers) = Numbering::of(description, &part.geometry, stream) else { continue };
            let stretch =
                NumberStretch { offset: part.offsets[stream], bytes: part.geometry.stream_bytes, numbers };
            if self.numbers.contains(&stretch) {
                continue;
            }
            let end = stretch.offset + stretch.bytes;
            let meets =
                |other: &NumberStretch| other.offset < end && stretch.offset < other.offset + other.bytes;
            if self.numbers.iter().any(meets) {
                return Err(());
            }
            self.numbers.push(stretch);
        }
        Ok(())
    }
}

/// Code that follows pointers or numbers trusts them: nobody may write where they lie.
fn check_writers(plan: &Plan, instances: &[Instance]) -> Result<(), PlanError> {
    for (index, step) in plan.steps.iter().enumerate() {
        let uses = traffic::uses(step.kernel.description());
        let writes = uses.iter().any(|used| used.written || used.non_temporal);
        for instance in step.parts.iter().filter_map(|part| part.instance).filter(|_| writes) {
            if !instances[instance].chains.is_empty() {
                let buffer = plan.scenario.buffers[instances[instance].buffer].name.clone();
                return Err(PlanError::Chain { place: plan.place(index), buffer });
            }
        }
        for part in &step.parts {
            let Some(instance) = part.instance.map(|instance| &instances[instance]) else { continue };
            let written = touched(&step.kernel, part).into_iter().filter(|range| range.written);
            // Operations may touch a little beyond the end of their stream.
            let meets = |range: Touched, numbers: &NumberStretch| {
                let beyond = if step.kernel.description().has_offsets() { SLACK } else { 0 };
                range.start < numbers.offset + numbers.bytes && numbers.offset < range.end + beyond
            };
            let holds_both = !instance.numbers.is_empty() && !instance.chains.is_empty();
            if holds_both
                || written
                    .into_iter()
                    .any(|range| instance.numbers.iter().any(|numbers| meets(range, numbers)))
            {
                let buffer = plan.scenario.buffers[instance.buffer].name.clone();
                return Err(PlanError::Numbers { place: plan.place(index), buffer });
            }
        }
    }
    Ok(())
}

/// Bytes of an instance that a part touches, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    pub start: u64,
    pub end: u64,
    pub read: bool,
    pub written: bool,
    /// Lines touched between start and end; not all if strides or a triangle leave some out.
    pub lines: u64,
}

impl Touched {
    /// Lines touched between two places of the range.
    pub fn lines_between(&self, start: u64, end: u64) -> u64 {
        let (start, end) = (start.max(self.start), end.min(self.end));
        if start >= end {
            return 0;
        }
        let share = u128::from(self.lines) * u128::from(end - start) / u128::from(self.end - self.start);
        share as u64
    }
}

/// What a part touches, stream by stream.
pub fn touched(kernel: &crate::Kernel, part: &PlanPart) -> Vec<Touched> {
    let description = kernel.description();
    let geometry = &part.geometry;
    let rows = geometry.rows.1 - geometry.rows.0;
    let extent = |stream: usize| match (&description.shape, description.streams[stream].pattern) {
        (KernelShape::Triangle(_), _) => match stream {
            0 => (0, rows * geometry.pitch),
            // Nobody needs elements of the vector before its first diagonal.
            1 => (geometry.rows.0 * 8, geometry.pitch),
            _ => (0, rows * 8),
        },
        (_, StreamPattern::Fixed) => {
            let places = description.ops().filter_map(places).filter(|place| place.stream == stream);
            let ends = places.map(|place| place.offset.max(0) as u64 + 8);
            (0, ends.max().unwrap_or(8))
        }
        _ => (0, geometry.stream_bytes),
    };
    let uses = traffic::uses(description);
    let is_gathered =
        |stream: usize| matches!(description.streams[stream].pattern, StreamPattern::Gathered { .. });
    (uses.iter().enumerate())
        .map(|(stream, used)| {
            let (from, to) = extent(stream);
            let start = (part.offsets[stream] + from) / LINE * LINE;
            let end = (part.offsets[stream] + to).next_multiple_of(LINE);
            let lines = match (&description.shape, stream) {
                (KernelShape::Triangle(_), 0) => traffic::matrix_lines(geometry),
                _ if is_gathered(stream) => (end - start).div_ceil(LINE),
                _ => (end - start).div_ceil(geometry.stride.max(LINE)),
            };
            Touched { start, end, read: used.read, written: used.written || used.non_temporal, lines }
        })
        .collect()
}
