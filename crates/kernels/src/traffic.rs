//! Cache lines that must move when a kernel runs over its data again and again.
//!
//! The rule is that of a cache that replaces the line unused for longest: a data set that fits stays, one that
//! does not fit and is walked over in the same order each time is gone before it is used again. A store brings
//! its line in first (read for ownership, molka2017 §3.1) and sends it out later; a store past the caches
//! (non-temporal) does neither and goes to memory.

use std::num::NonZeroU64;

use machine::Bytes;

use crate::{
    description::{Description, KernelShape, Op, Operand, StreamPattern},
    draw::{Distribution, DrawError, DrawTable},
    geometry::{Geometry, LINE},
    kernel::Kernel,
    lower::places,
};

/// Lines that cross the boundary below one cache level in one pass of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrafficLines {
    /// Towards the core: what loads want and stores must own.
    pub inward: f64,
    /// Away from the core: written lines that are evicted.
    pub outward: f64,
    /// Past the caches, straight to memory.
    pub non_temporal: f64,
    /// Follows exactly from the description; otherwise it is an expected value over random draws.
    pub exact: bool,
}

impl TrafficLines {
    /// All bytes that cross.
    pub fn bytes(&self) -> f64 {
        (self.inward + self.outward + self.non_temporal) * LINE as f64
    }
}

/// How a kernel uses one of its streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficUse {
    /// Loaded from.
    pub read: bool,
    /// Stored to through the caches.
    pub written: bool,
    /// Stored to past the caches.
    pub non_temporal: bool,
}

/// How a kernel uses each of its streams.
pub fn uses(description: &Description) -> Vec<TrafficUse> {
    let mut uses = vec![TrafficUse::default(); description.streams.len()];
    for op in description.ops() {
        if let Op::Deref { .. } = op {
            uses[0].read = true;
        }
        let Some(place) = places(op) else { continue };
        let used = &mut uses[place.stream];
        match op {
            Op::Store { non_temporal: true, .. } => used.non_temporal = true,
            Op::Store { .. } | Op::IntStore { .. } => used.written = true,
            Op::Rmw { .. } => (used.read, used.written) = (true, true),
            Op::Arithmetic { right: Operand::Memory(_), .. } | Op::Fma { b: Operand::Memory(_), .. } => {
                used.read = true;
            }
            _ => used.read = true,
        }
    }
    if matches!(description.shape, KernelShape::Triangle(_)) {
        uses[2].written = true;
    }
    uses
}

/// Lines that cross below a cache of this capacity, in one pass of the thread with this geometry, once the
/// caches hold what they can hold.
pub fn lines_below(kernel: &Kernel, geometry: &Geometry, capacity: Bytes) -> Result<TrafficLines, DrawError> {
    let description = kernel.description();
    let uses = uses(description);
    let Some(first) = description.streams.first() else {
        return Ok(TrafficLines { exact: true, ..TrafficLines::default() });
    };
    match (&description.shape, first.pattern) {
        (KernelShape::Triangle(_), _) => Ok(triangle(geometry, capacity)),
        (_, StreamPattern::Drawn { distribution, element }) => {
            let table = DrawTable::new(distribution, geometry.elements)?;
            Ok(drawn(description, geometry, &table, element, capacity, uses[0]))
        }
        (_, StreamPattern::Coprime { buffers, .. }) => {
            let touched = (geometry.iterations * description.unroll * buffers) as f64;
            Ok(if_it_does_not_fit(geometry.size, capacity, touched, uses[0]))
        }
        // A line at a fixed place stays in any cache.
        (_, StreamPattern::Fixed) => Ok(TrafficLines { exact: true, ..TrafficLines::default() }),
        (
            _,
            StreamPattern::Sequential { .. }
            | StreamPattern::Cycle { .. }
            | StreamPattern::Numbers { .. }
            | StreamPattern::Gathered { .. },
        ) => gathered(description, geometry, &uses, capacity),
    }
}

/// Streams in order, and elements all over others: what does not fit together is gone from the former, and found in the
/// latter as often as among random draws.
fn gathered(
    description: &Description,
    geometry: &Geometry,
    uses: &[TrafficUse],
    capacity: Bytes,
) -> Result<TrafficLines, DrawError> {
    let element = |stream: usize| match description.streams[stream].pattern {
        StreamPattern::Gathered { element } => Some(element),
        _ => None,
    };
    let mut walked = uses.to_vec();
    let is_gathered = |stream: &usize| element(*stream).is_some();
    if !(0..uses.len()).any(|stream| is_gathered(&stream)) || geometry.size <= capacity.0 {
        return Ok(swept(geometry, uses, capacity));
    }
    (0..uses.len()).filter(is_gathered).for_each(|stream| walked[stream] = TrafficUse::default());
    let mut sum = swept(geometry, &walked, Bytes(0));
    for (stream, used) in uses.iter().enumerate() {
        let Some(element) = element(stream) else { continue };
        let table = DrawTable::new(Distribution::Uni, geometry.stream_bytes / element)?;
        let touches = description.ops().filter_map(places).filter(|place| place.stream == stream).count();
        let lines = drawn(description, geometry, &table, element, capacity, *used);
        sum.inward += lines.inward * touches as f64;
        sum.outward += lines.outward * touches as f64;
    }
    Ok(TrafficLines { exact: false, ..sum })
}

/// Streams walked from front to back, or a cycle: every pass in the same order.
fn swept(geometry: &Geometry, uses: &[TrafficUse], capacity: Bytes) -> TrafficLines {
    let per_stream = (geometry.stream_bytes / geometry.stride.clamp(LINE, u64::MAX)) as f64;
    let cached = uses.iter().filter(|used| used.read || used.written).count() as u64;
    let footprint = cached * geometry.stream_bytes.min(per_stream as u64 * LINE);
    let mut sum = TrafficLines { exact: true, ..TrafficLines::default() };
    for used in uses {
        let lines = if_it_does_not_fit(footprint, capacity, per_stream, *used);
        sum.inward += lines.inward;
        sum.outward += lines.outward;
        sum.non_temporal += if used.non_temporal { per_stream } else { 0.0 };
    }
    sum
}

fn if_it_does_not_fit(footprint: u64, capacity: Bytes, lines: f64, used: TrafficUse) -> TrafficLines {
    let moves = footprint > capacity.0;
    TrafficLines {
        inward: if moves && (used.read || used.written) { lines } else { 0.0 },
        outward: if moves && used.written { lines } else { 0.0 },
        non_temporal: 0.0,
        exact: true,
    }
}

/// Random draws: what is expected under replacement of the line unused for longest.
fn drawn(
    description: &Description,
    geometry: &Geometry,
    table: &DrawTable,
    element: u64,
    capacity: Bytes,
    used: TrafficUse,
) -> TrafficLines {
    let accesses = (geometry.iterations * description.unroll) as f64;
    let granule = NonZeroU64::new(LINE / element).unwrap_or(NonZeroU64::MIN);
    let missed = accesses * (1.0 - table.hit_rate_che(capacity.0 / element, granule));
    TrafficLines {
        inward: missed,
        outward: if used.written { missed } else { 0.0 },
        non_temporal: 0.0,
        exact: false,
    }
}

/// The matrix is read once a pass; the vector once a row unless a row and it fit together; results are few.
fn triangle(geometry: &Geometry, capacity: Bytes) -> TrafficLines {
    let (first, last) = geometry.rows;
    let row_bytes = |row: u64| (geometry.order - row) * 8;
    let matrix = matrix_lines(geometry);
    let bytes: u64 = (first..last).map(row_bytes).sum();
    if bytes + 2 * geometry.pitch <= capacity.0 {
        return TrafficLines { exact: true, ..TrafficLines::default() };
    }
    let vector: u64 = (first..last)
        .filter(|&row| 2 * row_bytes(row) > capacity.0)
        .map(|row| row_bytes(row).div_ceil(LINE))
        .sum();
    let vector = vector.max(row_bytes(first).div_ceil(LINE));
    let results = ((last - first) * 8).div_ceil(LINE);
    TrafficLines {
        inward: (matrix + vector + results) as f64,
        outward: results as f64,
        non_temporal: 0.0,
        exact: true,
    }
}

/// Lines of a triangle's matrix that hold this thread's elements.
pub(crate) fn matrix_lines(geometry: &Geometry) -> u64 {
    let row_lines = |row: u64| {
        let start = row * geometry.pitch + row * 8;
        ((row + 1) * geometry.pitch).div_ceil(LINE) - start / LINE
    };
    (geometry.rows.0..geometry.rows.1).map(row_lines).sum()
}

/// Steps of one iteration that wait for each other: loads of a chase, operations on a chained register.
pub fn chained_steps(kernel: &Kernel) -> u64 {
    let description = kernel.description();
    let carried = |name: &str| {
        description
            .register(name)
            .is_some_and(|register| register.life == crate::description::RegisterLife::Chain)
    };
    let derefs = description.ops().filter(|op| matches!(op, Op::Deref { .. })).count() as u64;
    let others = description.ops().map(|op| match op {
        Op::Arithmetic { to, .. } | Op::Fma { to, .. } | Op::IntLoad { to, .. } if carried(to) => 1,
        Op::Integer { to, .. } | Op::IntMax { to, .. } if carried(to) => 1,
        Op::Chain { to, times, .. } if carried(to) => kernel.amount(*times),
        _ => 0,
    });
    let per_copy = if derefs > 0 { derefs } else { others.sum() };
    per_copy * description.unroll
}
