//! What a file says of the machine, of perf and of build ids: decoded by linux-perf-data.
//!
//! It is given a file of its own with nothing but sections that were found whole, and one event that is none.

use std::{collections::BTreeMap, io::Cursor};

use linux_perf_data::{DsoKey, Feature, PerfFile, PerfFileReader};

use crate::{
    container::{FILE_HEADER, MAGIC, MAGIC_OTHER_ORDER},
    file_order::FileOrder,
    stream::split_first,
};

/// What perf calls the kernel's own code.
pub(crate) const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// Bytes of the build ids in records.
const LONGEST_BUILD_ID: usize = 20;

/// Sections that are looked at.
const WANTED: [Feature; 9] = [
    Feature::BUILD_ID,
    Feature::HOSTNAME,
    Feature::OSRELEASE,
    Feature::VERSION,
    Feature::ARCH,
    Feature::NRCPUS,
    Feature::CPUDESC,
    Feature::CPUID,
    Feature::CMDLINE,
];

/// Whether a section is looked at.
pub(crate) fn is_wanted(feature: u32) -> bool {
    WANTED.iter().any(|wanted| wanted.0 == feature)
}

/// What a file says beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub host: Option<String>,
    pub kernel: Option<String>,
    pub perf: Option<String>,
    pub architecture: Option<String>,
    pub cpus_online: Option<u32>,
    pub cpu: Option<String>,
    pub cpu_id: Option<String>,
    pub command: Vec<String>,
    /// By path; `[vdso]` and the like as they are called.
    pub build_ids: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Decodes sections; also gives what is wrong with them.
pub(crate) fn read(mut sections: BTreeMap<u32, Vec<u8>>, order: FileOrder) -> (FileFacts, Vec<String>) {
    sections.retain(|feature, bytes| is_wanted(*feature) && is_sound(*feature, bytes, order));
    let kernel = sections.get(&Feature::BUILD_ID.0).and_then(|section| kernel_build_id(section, order));
    let Ok(PerfFileReader { perf_file, .. }) =
        PerfFileReader::parse_file(Cursor::new(small_file(&sections, order)))
    else {
        return (FileFacts::default(), vec!["what it says of the machine makes no sense".to_owned()]);
    };
    let mut faults = Vec::new();
    let mut facts = decoded(&perf_file, &mut faults);
    // Compressed modules are taken for the kernel there.
    facts.build_ids.remove(KERNEL);
    facts.build_ids.extend(kernel.map(|id| (KERNEL.to_vec(), id)));
    (facts, faults)
}

fn decoded(file: &PerfFile, faults: &mut Vec<String>) -> FileFacts {
    fn kept<T>(
        what: &str,
        faults: &mut Vec<String>,
        found: Result<Option<T>, linux_perf_data::Error>,
    ) -> Option<T> {
        found.unwrap_or_else(|error| {
            faults.push(format!("{what} cannot be read ({error})"));
            None
        })
    }
    let owned = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let build_ids = kept("build ids", faults, file.build_ids().map(Some)).unwrap_or_default();
    FileFacts {
        host: kept("the name of the machine", faults, file.hostname()).and_then(owned),
        kernel: kept("its kernel", faults, file.os_release()).and_then(owned),
        perf: kept("the version of perf", faults, file.perf_version()).and_then(owned),
        architecture: kept("its architecture", faults, file.arch()).and_then(owned),
        cpus_online: kept("its number of CPUs", faults, file.nr_cpus()).map(|cpus| cpus.nr_cpus_online),
        cpu: kept("the name of its CPU", faults, file.cpu_desc()).and_then(owned),
        cpu_id: kept("the id of its CPU", faults, file.cpu_id()).and_then(owned),
        command: kept("the command line of perf", faults, file.cmdline())
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        build_ids: build_ids
            .into_iter()
            .filter(|(_, about)| !about.build_id.is_empty())
            .map(|(key, about)| match key {
                DsoKey::User { full_path, .. } => (full_path, about.build_id),
                other => (other.name().as_bytes().to_vec(), about.build_id),
            })
            .collect(),
    }
}

/// The build id of a record that tells of one: behind a process 20 bytes, and how many of them it has; older ones do not say.
pub(crate) fn build_id(body: &[u8]) -> Option<Vec<u8>> {
    let id = body.get(4..4 + LONGEST_BUILD_ID)?;
    let length = body.get(24).copied().map(usize::from);
    let length = length.filter(|length| (1..=LONGEST_BUILD_ID).contains(length));
    Some(id[..length.unwrap_or(LONGEST_BUILD_ID)].to_vec())
}

/// The build id of the kernel itself; entries are records, with a path behind the build id.
fn kernel_build_id(mut section: &[u8], order: FileOrder) -> Option<Vec<u8>> {
    loop {
        let (record, size) = split_first(section, order).ok()??;
        section = section.get(size..)?;
        let path = record.body.get(28..)?.split(|byte| *byte == 0).next()?;
        if path.starts_with(KERNEL) {
            return build_id(record.body);
        }
    }
}

/// A list states how many texts it has, and room is reserved for them.
fn is_sound(feature: u32, bytes: &[u8], order: FileOrder) -> bool {
    if feature != Feature::CMDLINE.0 {
        return true;
    }
    let count = order.half(bytes, 0).map(|count| count as usize);
    count.is_some_and(|count| count <= bytes.len() / 4)
}

/// A file with these sections, no records, and one event: it has to have one.
fn small_file(sections: &BTreeMap<u32, Vec<u8>>, order: FileOrder) -> Vec<u8> {
    const EVENT: u64 = 64;
    let mut flags = [0u64; 4];
    for feature in sections.keys() {
        flags[*feature as usize / 64] |= 1 << (feature % 64);
    }
    let mut event = [0u64; EVENT as usize / 8];
    // Of the software type, with the size of the first version: the kernel's clock. Two halves, the type first.
    let is_little = cfg!(target_endian = "little") == (order == FileOrder::Same);
    event[0] = if is_little { EVENT << 32 | 1 } else { 1 << 32 | EVENT };
    let data_at = FILE_HEADER + EVENT;
    let mut words = vec![FILE_HEADER, EVENT, FILE_HEADER, EVENT, data_at, 0, 0, 0];
    words.extend(flags);
    words.extend(event);
    let mut at = data_at + 16 * sections.len() as u64;
    for bytes in sections.values() {
        words.extend([at, bytes.len() as u64]);
        at += bytes.len() as u64;
    }
    let magic = if order == FileOrder::Same { MAGIC } else { MAGIC_OTHER_ORDER };
    let head = magic.iter().copied().chain(words.into_iter().flat_map(|word| order.bytes(word)));
    head.chain(sections.values().flatten().copied()).collect()
}
