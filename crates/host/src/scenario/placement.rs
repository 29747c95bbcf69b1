//! Which CPU each thread runs on, and which node each buffer lies on.

use kernels::scenario::{BufferHome, Plan, Scenario};
use machine::{CpuSet, Topology};

use super::RunError;
use crate::request_check::{BadRequest, check_cpus, check_node};

/// The CPU of each thread: those named, or one of each core first and then the rest. With `oversubscribe`, threads
/// share CPUs where there are too few.
pub fn choose_cpus(
    scenario: &Scenario,
    machine: &Topology,
    named: Option<&CpuSet>,
    oversubscribe: bool,
) -> Result<Vec<u32>, RunError> {
    let candidates: Vec<u32> = match named {
        Some(named) => {
            check_cpus(machine, named)?;
            named.iter().collect()
        }
        None => {
            let (cores, usable) = (machine.usable_cores(), machine.usable_cpus());
            cores.iter().chain(usable.difference(&cores).iter()).collect()
        }
    };
    if candidates.is_empty() {
        return Err(BadRequest::NoCpus { usable: machine.usable_cpus() }.into());
    }
    let Some(needed) = scenario.threads else {
        let threads = if named.is_some() { candidates.len() } else { machine.usable_cores().len().max(1) };
        return Ok(candidates[..threads.min(candidates.len())].to_vec());
    };
    let (given, name) = (candidates.len(), scenario.name.clone());
    if named.is_some() && given > needed {
        return Err(RunError::TooManyCpus { scenario: name, needed, given });
    }
    if given < needed && !oversubscribe {
        let cpus = candidates.into_iter().collect();
        return Err(RunError::TooFewCpus { scenario: name, needed, given, cpus });
    }
    Ok(candidates.into_iter().cycle().take(needed).collect())
}

/// The node of each instance; `None`: where its owner touches it first.
pub fn nodes(plan: &Plan, cpus: &[u32], machine: &Topology) -> Result<Vec<Option<u32>>, RunError> {
    let instances = plan.instances().iter();
    instances
        .map(|instance| {
            let buffer = &plan.scenario().buffers[instance.buffer];
            let cpu = cpus[instance.thread.unwrap_or(0)];
            match buffer.home {
                BufferHome::Local | BufferHome::FirstTouch => Ok(None),
                BufferHome::Node(node) => {
                    check_node(machine, node)?;
                    Ok(Some(node))
                }
                BufferHome::Remote => remote(machine, cpu)
                    .map(Some)
                    .ok_or_else(|| RunError::NoRemoteNode { buffer: buffer.name.clone(), cpu }),
            }
        })
        .collect()
}

/// The next node with memory, after the one `cpu` belongs to, that we may have memory from.
fn remote(machine: &Topology, cpu: u32) -> Option<u32> {
    let home = machine.cpus.iter().find(|known| known.id == cpu)?.node?;
    let usable = machine.nodes.iter().filter(|node| {
        node.id != home
            && node.memory.is_none_or(|memory| memory.0 > 0)
            && check_node(machine, node.id).is_ok()
    });
    let mut others: Vec<u32> = usable.map(|node| node.id).collect();
    others.sort_by_key(|&node| (node < home, node));
    others.first().copied()
}
