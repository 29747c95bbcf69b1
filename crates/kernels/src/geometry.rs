//! How a data set is divided: threads, streams, iterations.

use machine::{Bytes, Width};

use crate::{
    description::{KernelShape, KernelStream, StreamPattern},
    forms::Form,
    kernel::Kernel,
    program::AssembleError,
};

/// Bytes of a cache line; every x86-64 has this size.
pub const LINE: u64 = 64;
/// Streams begin at a multiple of this, so that none is slightly behind another modulo 4 KiB: loads would
/// falsely wait for stores.
const PAGE: u64 = 4096;
/// Iterations of a pass where no data set gives a number.
const PASS_WITHOUT_DATA: u64 = 1024;
/// What an operation may touch beyond the end of its stream.
pub(crate) const SLACK: u64 = 2 * PAGE;

/// The part of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of each stream that are walked over.
    pub stream_bytes: u64,
    /// Bytes from the beginning of one stream to the next.
    pub stream_pitch: u64,
    /// Bytes to allocate for all streams.
    pub allocate: u64,
    /// Bytes from one vector of a stream to the next.
    pub stride: u64,
    /// What the position advances per iteration.
    pub step: u64,
    /// Iterations of one pass.
    pub iterations: u64,
    /// Elements of a drawn stream, or of one buffer of a coprime stream.
    pub elements: u64,
    /// Elements a coprime walk steps by.
    pub element_step: u64,
    /// Bytes from one buffer of a coprime stream to the next.
    pub pitch: u64,
    /// Rows and columns of a triangle.
    pub order: u64,
    /// This thread's rows of a triangle.
    pub rows: (u64, u64),
    /// Turns of a pass.
    pub turns: u64,
    /// Data set of this thread; shared data is counted by the thread that owns it.
    pub size: u64,
}

/// The geometry of every thread for a total size.
pub fn divide(
    kernel: &Kernel,
    width: Width,
    total: Bytes,
    threads: usize,
) -> Result<Vec<Geometry>, AssembleError> {
    if let Some(needed) = kernel.description().fixed_threads()
        && needed != threads
    {
        return Err(AssembleError::WrongThreads { kernel: kernel.name().to_owned(), needed, given: threads });
    }
    match &kernel.description().shape {
        KernelShape::Private(_) => {
            let one = private(kernel, width, total.0 / threads.max(1) as u64)?;
            Ok(vec![one; threads])
        }
        KernelShape::Turns { lines, .. } => turns(kernel, kernel.amount(*lines), total.0),
        KernelShape::Triangle(_) => triangle(kernel, width, total.0, threads),
    }
}

fn too_small(kernel: &Kernel, least: u64) -> AssembleError {
    AssembleError::TooSmall { kernel: kernel.name().to_owned(), least: Bytes(least) }
}

fn too_large(kernel: &Kernel, most: u64) -> AssembleError {
    AssembleError::TooLarge { kernel: kernel.name().to_owned(), most: Bytes(most) }
}

impl Geometry {
    fn empty() -> Self {
        Self {
            stream_bytes: 0,
            stream_pitch: 0,
            allocate: 0,
            stride: 0,
            step: 1,
            iterations: 0,
            elements: 0,
            element_step: 0,
            pitch: 0,
            order: 0,
            rows: (0, 0),
            turns: 1,
            size: 0,
        }
    }

    fn with_streams(mut self, streams: u64, bytes: u64) -> Self {
        self.stream_bytes = bytes;
        self.stream_pitch = bytes.next_multiple_of(PAGE);
        self.allocate = self.stream_pitch * streams + SLACK;
        self.size = bytes * streams;
        self
    }

    /// Where the loop's position ends.
    pub fn end(&self) -> u64 {
        self.iterations * self.step
    }

    /// Single elements of a triangle's row from its diagonal, in bytes from the row's start, to its vectors.
    pub fn head(&self, diagonal: u64) -> u64 {
        (diagonal.next_multiple_of(self.step) - diagonal) / 8
    }

    /// Vector iterations of a triangle's row.
    pub fn vectors(&self, diagonal: u64) -> u64 {
        (self.end() - diagonal.next_multiple_of(self.step)) / self.step
    }
}

fn private(kernel: &Kernel, width: Width, bytes: u64) -> Result<Geometry, AssembleError> {
    let description = kernel.description();
    let (unroll, streams) = (description.unroll, description.streams.len() as u64);
    let walked = |stream: &&KernelStream| !matches!(stream.pattern, StreamPattern::Gathered { .. });
    let Some(first) = description.streams.iter().find(walked) else {
        return Ok(Geometry { iterations: PASS_WITHOUT_DATA, ..Geometry::empty() });
    };
    let mut geometry = Geometry::empty();
    match first.pattern {
        StreamPattern::Sequential { .. } | StreamPattern::Numbers { .. } | StreamPattern::Gathered { .. } => {
            let stride = description.stride().unwrap_or_else(|| Form::of(width).bytes(description.element));
            let step = unroll * stride;
            let unit = least_common_multiple(step, LINE);
            let each = bytes / streams / unit * unit;
            if each == 0 {
                return Err(too_small(kernel, unit * streams));
            }
            let is_number =
                |stream: &KernelStream| matches!(stream.pattern, StreamPattern::Numbers { element: 4, .. });
            if description.streams.iter().any(is_number) && each / 4 > u64::from(u32::MAX) {
                return Err(too_large(kernel, u64::from(u32::MAX) * 4 * streams));
            }
            geometry =
                Geometry { stride, step, iterations: each / step, ..geometry }.with_streams(streams, each);
        }
        StreamPattern::Fixed => {
            geometry = Geometry { iterations: PASS_WITHOUT_DATA, ..geometry }.with_streams(streams, PAGE);
        }
        StreamPattern::Cycle { stride } => {
            let slots = bytes / stride / unroll * unroll;
            if slots == 0 {
                return Err(too_small(kernel, stride * unroll));
            }
            if slots > u64::from(u32::MAX) {
                return Err(too_large(kernel, u64::from(u32::MAX) * stride));
            }
            geometry =
                Geometry { stride, iterations: slots / unroll, ..geometry }.with_streams(1, slots * stride);
        }
        StreamPattern::Drawn { element, .. } => {
            let lines = bytes / LINE;
            let elements = lines * LINE / element;
            if lines == 0 {
                return Err(too_small(kernel, LINE));
            }
            if elements > u64::from(u32::MAX) {
                return Err(too_large(kernel, u64::from(u32::MAX) * element));
            }
            let iterations = lines.div_ceil(unroll);
            geometry = Geometry { elements, iterations, ..geometry }.with_streams(1, lines * LINE);
        }
        StreamPattern::Coprime { element, buffers } => {
            let each = bytes / buffers / LINE * LINE;
            if each == 0 {
                return Err(too_small(kernel, buffers * LINE));
            }
            // The buffers' places are 32-bit displacements of the code.
            if each * buffers > i32::MAX as u64 {
                return Err(too_large(kernel, i32::MAX as u64));
            }
            let elements = each / element;
            let element_step = coprime_step(elements);
            let iterations = (each / LINE).div_ceil(unroll);
            geometry = Geometry { elements, element_step, iterations, pitch: each, ..geometry }
                .with_streams(1, each * buffers);
        }
    }
    Ok(geometry)
}

fn turns(kernel: &Kernel, lines: u64, bytes: u64) -> Result<Vec<Geometry>, AssembleError> {
    let per_turn = lines * LINE;
    if per_turn == 0 || bytes < per_turn {
        return Err(too_small(kernel, per_turn.max(LINE)));
    }
    let turns = bytes / per_turn;
    let geometry = Geometry { stride: LINE, step: LINE, iterations: lines, turns, ..Geometry::empty() };
    let owner = geometry.with_streams(1, turns * per_turn);
    let other = Geometry { allocate: 0, size: 0, ..owner.clone() };
    Ok(vec![owner, other])
}

fn triangle(
    kernel: &Kernel,
    width: Width,
    bytes: u64,
    threads: usize,
) -> Result<Vec<Geometry>, AssembleError> {
    let element = kernel.description().element;
    let stride = Form::of(width).bytes(element);
    let step = stride * kernel.description().unroll;
    if !step.is_power_of_two() {
        return Err(AssembleError::OutOfRegisters { kernel: kernel.name().to_owned(), kind: "vector" });
    }
    let unit = step / element;
    let threads = threads.max(1) as u64;
    let order = (bytes / element).isqrt() / unit * unit;
    if order < threads || order == 0 {
        let least = unit.max(threads.next_multiple_of(unit));
        return Err(too_small(kernel, least * least * element));
    }
    let (pitch, matrix) = (order * element, order * order * element);
    let vectors = pitch.next_multiple_of(PAGE);
    let allocate = matrix.next_multiple_of(PAGE) + 2 * vectors + SLACK;
    Ok((0..threads)
        .map(|thread| {
            let owner = thread == 0;
            Geometry {
                stride,
                step,
                iterations: order / unit,
                order,
                pitch,
                rows: (thread * order / threads, (thread + 1) * order / threads),
                stream_bytes: matrix,
                stream_pitch: matrix.next_multiple_of(PAGE),
                allocate: if owner { allocate } else { 0 },
                size: if owner { matrix + 2 * pitch } else { 0 },
                ..Geometry::empty()
            }
        })
        .collect())
}

/// A stride far from 0 and from `elements` that shares no factor with it: neighbouring accesses are far apart
/// and every element is visited (casas2017 §2.1).
fn coprime_step(elements: u64) -> u64 {
    let golden = (elements as f64 * 0.618_033_988_75) as u64;
    (golden.max(1)..=elements.max(1)).find(|&step| greatest_common_divisor(step, elements) == 1).unwrap_or(1)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    a / greatest_common_divisor(a, b) * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_coprime_step_visits_every_element(elements in 1u64..3000) {
            let step = coprime_step(elements);
            let mut seen = vec![false; elements as usize];
            let mut index = 0;
            for _ in 0..elements {
                index = (index + step) % elements;
                seen[index as usize] = true;
            }
            prop_assert!(seen.into_iter().all(|visited| visited));
        }
    }
}
