//! Large pages, transparent and pooled.

use machine::Bytes;
use record::doctor::Capability;

use super::{Patient, row::RowSubject};

const SUBJECT: RowSubject = RowSubject {
    key: "huge_pages",
    name: "Huge pages",
    tried: "mapped memory, asked for huge pages, touched it and looked in smaps; reserved a page of the hugetlb pool",
    unlocks: "latencies free of TLB misses, and what those misses cost",
};

const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";

pub(super) fn huge_pages(patient: Patient<'_>) -> Capability {
    let page = patient.number(&format!("{FOLDER}/hpage_pmd_size")).and_then(|size| u64::try_from(size).ok());
    let page =
        page.filter(|size| (Bytes::kib(64).0..=Bytes::gib(1).0).contains(size)).map_or(Bytes::mib(2), Bytes);
    let transparent = patient.system.transparent_huge_pages(page);
    let pool = match patient.system.pooled_huge_page() {
        Ok(()) => "hugetlb pool usable".to_owned(),
        Err(errno) if errno.0 == libc::ENOMEM => "hugetlb pool empty".to_owned(),
        Err(errno) => format!("hugetlb pool: {errno}"),
    };
    match transparent {
        Ok(got) if got.0 > 0 => SUBJECT.found(format!("transparent pages of {page}; {pool}")),
        _ if pool.ends_with("usable") => SUBJECT.found(format!("no transparent ones; {pool}")),
        Ok(_) => refused(patient, &pool),
        Err(errno) if errno.is_permission() => SUBJECT.blocked(format!("{errno}; {pool}"), None),
        Err(errno) => SUBJECT.missing(format!("{errno}: this kernel has no transparent huge pages; {pool}")),
    }
}

/// The kernel heard the wish and did not grant it: a setting, or no free block of that size.
fn refused(patient: Patient<'_>, pool: &str) -> Capability {
    let enabled = patient.text(&format!("{FOLDER}/enabled")).unwrap_or_default();
    if enabled.contains("[never]") {
        let command = format!("echo madvise | sudo tee /{FOLDER}/enabled");
        return SUBJECT.blocked(format!("transparent huge pages are set to never; {pool}"), Some(command));
    }
    SUBJECT.blocked(
        format!("asked for and not given: memory is fragmented or short; {pool}"),
        Some("echo 1 | sudo tee /proc/sys/vm/compact_memory".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::Errno;
    use record::doctor::CapabilityState;

    #[test]
    fn given_refused_and_absent() {
        let mut script = Script::new();
        script.system.transparent = Ok(Bytes::mib(2));
        let row = huge_pages(script.patient());
        assert_eq!(row.state, CapabilityState::Found);
        assert_eq!(row.detail, "transparent pages of 2 MiB; hugetlb pool empty");

        script.system.transparent = Ok(Bytes(0));
        assert!(huge_pages(script.patient()).unlock_with.unwrap().contains("compact_memory"));
        script.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
        let row = huge_pages(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.unlock_with.unwrap().starts_with("echo madvise | sudo tee /sys/kernel/mm"));

        script.system.transparent = Err(Errno(libc::EINVAL));
        assert_eq!(huge_pages(script.patient()).state, CapabilityState::Missing);
        script.system.pooled = Ok(());
        assert_eq!(huge_pages(script.patient()).state, CapabilityState::Found);
    }
}
