//! Front end and core.

use super::{Checked, all_within, caches, ensure, within, wrong};
use crate::model::{CoreModel, FrontEnd, ModelOperation, ModelPort, OpClass};

pub(super) fn front_end(front_end: &FrontEnd) -> Checked {
    caches::geometry("front_end.l1i", &front_end.l1i, 1)?;
    caches::tlb_level("front_end.itlb", &front_end.itlb)?;
    all_within("front_end", 1..=256, &[("fetch_bytes", front_end.fetch_bytes)])?;
    all_within("front_end", 0..=65_536, &[("uop_cache_uops", front_end.uop_cache_uops)])?;
    all_within("front_end", 1..=32, &[("decode_width", front_end.decode_width)])?;
    let penalties = [
        ("length_change_penalty", front_end.length_change_penalty),
        ("microcode_penalty", front_end.microcode_penalty),
        ("branch.mispredict_penalty", front_end.branch.mispredict_penalty),
    ];
    all_within("front_end", 0..=1000, &penalties)?;
    let branch = &front_end.branch;
    all_within("front_end.branch", 1..=18, &[("table_bits", branch.table_bits)])?;
    all_within("front_end.branch", 0..=64, &[("history_bits", branch.history_bits)])?;
    all_within("front_end.branch", 0..=4096, &[("loop_entries", branch.loop_entries)])
}

pub(super) fn core(core: &CoreModel, l1_latency: u32) -> Checked {
    let widths = [("dispatch_width", core.dispatch_width), ("retire_width", core.retire_width)];
    all_within("core", 1..=32, &widths)?;
    let buffers = [
        ("reorder_entries", core.reorder_entries),
        ("scheduler_entries", core.scheduler_entries),
        ("load_buffer", core.load_buffer),
        ("store_buffer", core.store_buffer),
    ];
    all_within("core", 1..=4096, &buffers)?;
    ensure(core.reorder_entries >= core.dispatch_width, "core.reorder_entries", || {
        format!("the window must hold the {} µops of one cycle", core.dispatch_width)
    })?;
    let times = [
        ("store_forward_latency", core.store_forward_latency),
        ("blocked_forward_penalty", core.blocked_forward_penalty),
        ("line_split_penalty", core.line_split_penalty),
    ];
    all_within("core", 0..=1000, &times)?;
    ports(&core.ports)?;
    operations(&core.operations, l1_latency)
}

fn ports(ports: &[ModelPort]) -> Checked {
    within("core.ports", ports.len(), 1..=32)?;
    for (i, port) in ports.iter().enumerate() {
        let path = format!("core.ports[{i}]");
        super::text(&format!("{path}.name"), &port.name)?;
        ensure(port.name.len() <= 16, &format!("{path}.name"), || "at most 16 letters".into())?;
        let named_alike = ports[..i].iter().any(|other| other.name == port.name);
        ensure(!named_alike, &format!("{path}.name"), || {
            format!("a port '{}' stands above already", port.name)
        })?;
        runs(&path, port)?;
    }
    match OpClass::ALL.into_iter().find(|class| !ports.iter().any(|port| port.runs.contains(class))) {
        Some(class) => wrong("core.ports", format!("no port runs '{}'; add it to one", class.name())),
        None => Ok(()),
    }
}

/// What one port runs, and how wide.
fn runs(path: &str, port: &ModelPort) -> Checked {
    ensure(!port.runs.is_empty(), &format!("{path}.runs"), || {
        "a port that runs nothing; list operations".into()
    })?;
    let repeated = port.runs.iter().enumerate().find(|(i, class)| port.runs[..*i].contains(class));
    if let Some((_, class)) = repeated {
        return wrong(format!("{path}.runs"), format!("'{}' is listed twice", class.name()));
    }
    let moves_data = port.runs.iter().any(|class| matches!(class, OpClass::Load | OpClass::StoreData));
    match port.bytes {
        None => ensure(!moves_data, path, || {
            format!("port '{}' moves data: it needs bytes, the widest access in one cycle", port.name)
        }),
        Some(bytes) => {
            ensure(bytes.is_power_of_two() && (8..=64).contains(&bytes), &format!("{path}.bytes"), || {
                format!("{bytes} is not 8, 16, 32 or 64")
            })
        }
    }
}

fn operations(operations: &[ModelOperation], l1_latency: u32) -> Checked {
    for (i, operation) in operations.iter().enumerate() {
        let path = format!("core.operations[{i}]");
        let name = operation.class.name();
        let listed = operations[..i].iter().any(|other| other.class == operation.class);
        ensure(!listed, &format!("{path}.class"), || format!("'{name}' stands above already"))?;
        within(&format!("{path}.latency"), operation.latency, 0..=1000)?;
        within(&format!("{path}.repeat"), operation.repeat, 1..=1000)?;
        if let Some(repeat) = operation.repeat_wide {
            within(&format!("{path}.repeat_wide"), repeat, 1..=1000)?;
        }
        if operation.class == OpClass::Load {
            ensure(operation.latency == l1_latency, &format!("{path}.latency"), || {
                format!("a load takes as long as a hit in the L1: l1d.latency says {l1_latency}")
            })?;
        }
    }
    match OpClass::ALL.into_iter().find(|class| !operations.iter().any(|known| known.class == *class)) {
        Some(class) => wrong("core.operations", format!("'{}' is missing; add its latency", class.name())),
        None => Ok(()),
    }
}
