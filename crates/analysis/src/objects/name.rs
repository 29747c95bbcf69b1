//! Objects in words.

use machine::Bytes;
use record::{
    data::{Area, AreaKind},
    run::Run,
};

use crate::{
    findings::{ObjectId, ObjectKind, ObjectSite, SourceLine},
    timer::origin::RunOrigin,
};

/// The name for people; of one block where it stands for one of that many bytes.
pub(crate) fn of(run: &Run, key: &ObjectId, one_block: Option<u64>) -> String {
    match key {
        ObjectId::Variable(index) => {
            run.data.variables.get(*index as usize).map_or_else(String::new, |variable| variable.name.clone())
        }
        ObjectId::Heap { site, size_class } => {
            let site = run.data.sites.get(*site as usize);
            if let Some(variable) = site.and_then(|site| site.variable.clone()) {
                return variable;
            }
            let function = site.map_or("unknown code", |site| site.function.as_str());
            let several = || size_class_words(*size_class);
            let what = one_block.map_or_else(several, |bytes| format!("block of {}", Bytes(bytes)));
            format!("{what} from {function}")
        }
        ObjectId::Area(index) => {
            run.data.areas.get(*index as usize).map_or_else(String::new, |area| area_name(run, area))
        }
        ObjectId::Unknown => "memory of no known mapping".to_owned(),
    }
}

/// `blocks of 64 to 128 KiB`.
fn size_class_words(class: u32) -> String {
    let (shift, unit) = match class {
        0..10 => (0, "B"),
        10..20 => (10, "KiB"),
        20..30 => (20, "MiB"),
        _ => (30, "GiB"),
    };
    let low = 1u64 << (class - shift);
    format!("blocks of {low} to {} {unit}", low * 2)
}

fn area_name(run: &Run, area: &Area) -> String {
    match &area.kind {
        AreaKind::Stack(thread) => run
            .thread(*thread)
            .map_or_else(|| "a stack".to_owned(), |thread| format!("stack of thread {}", thread.tid)),
        AreaKind::Heap => "heap, block not known".to_owned(),
        AreaKind::File(path) => format!("file {path}"),
        AreaKind::Anonymous => format!("anonymous memory at {:#x}", area.start),
    }
}

/// What kind of memory it is.
pub(super) fn kind(run: &Run, key: &ObjectId) -> ObjectKind {
    match key {
        ObjectId::Variable(_) => ObjectKind::Global,
        ObjectId::Heap { .. } => ObjectKind::Heap,
        ObjectId::Area(index) => match run.data.areas.get(*index as usize).map(|area| &area.kind) {
            Some(AreaKind::Stack(_)) => ObjectKind::Stack,
            Some(AreaKind::File(_)) => ObjectKind::File,
            Some(AreaKind::Heap | AreaKind::Anonymous) => ObjectKind::Anonymous,
            None => ObjectKind::Unknown,
        },
        ObjectId::Unknown => ObjectKind::Unknown,
    }
}

/// Where it was allocated.
pub(super) fn site(run: &Run, key: &ObjectId) -> Option<ObjectSite> {
    let ObjectId::Heap { site: index, .. } = key else { return None };
    let site = run.data.sites.get(*index as usize)?;
    Some(ObjectSite {
        function: site.function.clone(),
        module: site.module.clone(),
        address: site.address,
        source: site.line.as_ref().map(|(file, line)| SourceLine::new(file.as_str(), *line)),
        callers: site.callers.clone(),
    })
}

/// What limits the view of data.
pub(super) fn remarks(run: &Run, addressed: u64, operands: u64) -> Vec<String> {
    let mut remarks = Vec::new();
    if operands > 0 && addressed * 2 < operands {
        remarks.push(format!(
            "Only {} % of the samples of memory instructions gave their address back: objects are named by those.",
            addressed * 100 / operands
        ));
    }
    if run.data.heap.is_empty() {
        remarks.push(RunOrigin::of(run).no_allocations().to_owned());
    }
    for log in &run.data.heap {
        if let Some(problem) = &log.problem {
            let name = run.process(log.process).map_or("a process", |process| process.name.as_str());
            remarks.push(format!("The allocations of {name} are not whole: {problem}."));
        }
    }
    remarks
}
