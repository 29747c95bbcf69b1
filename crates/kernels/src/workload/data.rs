//! The buffers of a plan, each touched first by the thread it belongs to and filled with what steps expect there.
//!
//! # Safety
//! Rows of a shared matrix are written by several threads at once. What must hold: each row belongs to one of them.
#![allow(unsafe_code)]

use std::error::Error;

use machine::Bytes;

use super::WorkloadError;
use crate::{
    cycle::{self, Spacing},
    description::KernelShape,
    geometry::LINE,
    memory::{Buffer, Placement},
    scenario::{BufferHome, Instance, Plan},
    team::Team,
};

/// One buffer for each instance of the plan, in its order.
pub(super) fn buffers(
    plan: &Plan,
    team: &mut Team,
    nodes: &[Option<u32>],
) -> Result<Vec<Buffer>, WorkloadError> {
    let filled = team.setup(|thread| {
        let instances = plan.instances().iter().enumerate();
        instances
            .filter(|(_, instance)| instance.thread.unwrap_or(0) == thread)
            .map(|(index, instance)| {
                let pages = plan.scenario().buffers[instance.buffer].pages;
                let node = nodes.get(index).copied().flatten();
                let begin = matrix_bytes(plan, index);
                let placement = Placement { pages, node };
                Ok((index, filled(instance, begin, placement, plan.scenario().seed)?))
            })
            .collect::<Result<Vec<_>, WorkloadError>>()
    })?;
    let mut buffers = Vec::new();
    for part in filled {
        buffers.extend(part?);
    }
    buffers.sort_by_key(|(index, _)| *index);
    let buffers: Vec<Buffer> = buffers.into_iter().map(|(_, buffer)| buffer).collect();
    fill_rows(plan, team, &buffers)?;
    Ok(buffers)
}

pub(super) fn failed(kernel: &str, error: &dyn Error) -> WorkloadError {
    WorkloadError::Data { kernel: kernel.to_owned(), reason: error.to_string() }
}

/// A buffer from `begin` on with what its steps expect to find: pointers where they are followed, ordinary numbers
/// elsewhere, so that no kernel meets subnormals or overflows. Runs on the thread whose CPU is to touch it first.
fn filled(instance: &Instance, begin: u64, placement: Placement, seed: u64) -> Result<Buffer, WorkloadError> {
    let mut buffer = Buffer::allocate(instance.allocate, placement)?;
    match instance.element {
        None => buffer.touch(),
        Some(4) => buffer.as_mut_slice::<u32>()[(begin / 4) as usize..].fill(1.0f32.to_bits()),
        Some(_) => buffer.as_mut_slice::<u64>()[(begin / 8) as usize..].fill(1.0f64.to_bits()),
    }
    let base = buffer.as_ptr() as u64;
    for chain in &instance.chains {
        let spacing = Spacing::every_stride(Bytes(LINE), Bytes(chain.stride));
        let spacing = spacing.map_err(|error| failed("chase", &error))?;
        let words = (chain.offset / 8) as usize..((chain.offset + chain.bytes) / 8) as usize;
        cycle::fill_cycle(&mut buffer.as_mut_slice::<u64>()[words], base + chain.offset, spacing, seed)
            .map_err(|error| failed("chase", &error))?;
    }
    for stretch in &instance.numbers {
        let words = (stretch.offset / 8) as usize..((stretch.offset + stretch.bytes) / 8) as usize;
        stretch.numbers.fill(&mut buffer.as_mut_slice::<u64>()[words]);
    }
    Ok(buffer)
}

/// Whether the rows of an instance lie where the threads run that work on them.
fn is_touched_by_row(plan: &Plan, instance: usize) -> bool {
    plan.scenario().buffers[plan.instances()[instance].buffer].home == BufferHome::FirstTouch
}

/// Bytes at the front of an instance that its owner leaves to the threads whose rows lie there.
fn matrix_bytes(plan: &Plan, instance: usize) -> u64 {
    let triangles = plan.steps().iter().filter(|step| is_triangle(&step.kernel));
    let parts = triangles.flat_map(|step| &step.parts).filter(|part| part.instance == Some(instance));
    let bytes = parts.map(|part| part.geometry.stream_pitch).max().unwrap_or(0);
    if is_touched_by_row(plan, instance) { bytes } else { 0 }
}

fn is_triangle(kernel: &crate::Kernel) -> bool {
    matches!(kernel.description().shape, KernelShape::Triangle(_))
}

/// Rows that lie where they are touched first are filled by the threads that work on them, with the thread's number
/// from 1 on.
fn fill_rows(plan: &Plan, team: &mut Team, buffers: &[Buffer]) -> Result<(), WorkloadError> {
    for step in plan.steps().iter().filter(|step| is_triangle(&step.kernel)) {
        let rows: Vec<Option<(u64, u64)>> = (0..plan.threads())
            .map(|thread| {
                let part = step.part(thread)?;
                let instance = part.instance.filter(|&instance| is_touched_by_row(plan, instance))?;
                let (first, last) = part.geometry.rows;
                let start = part.bases(buffers[instance].as_ptr() as u64)[0];
                Some((start, (last - first) * part.geometry.pitch))
            })
            .collect();
        team.setup(|thread| {
            let Some((start, bytes)) = rows[thread] else { return };
            let value = (thread as f64 + 1.0).to_bits();
            for at in (start..start + bytes).step_by(8) {
                // SAFETY: these rows lie in the buffer, which nobody else uses yet, and belong to this thread alone.
                unsafe { (at as *mut u64).write(value) };
            }
        })?;
    }
    Ok(())
}
