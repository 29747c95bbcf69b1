//! Sharing of caches and bandwidth as the kernel controls and watches it.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use machine::resctrl::ResctrlTree;
use pmu::Errno;
use record::doctor::Capability;

use super::{Patient, row::RowSubject};

const ALLOCATION: RowSubject = RowSubject {
    key: "resctrl_allocation",
    name: "resctrl allocation",
    tried: "looked for a mounted resctrl and what it controls; where mounted, made an empty group and removed it",
    unlocks: "taking cache ways (CAT) or bandwidth (MBA) away from a program, to see what it needs",
};

const MONITORING: RowSubject = RowSubject {
    key: "resctrl_monitoring",
    name: "resctrl monitoring",
    tried: "looked for a mounted resctrl and what it counts; where mounted, made an empty group and removed it",
    unlocks: "memory bandwidth and cache occupancy of one program",
};

/// Names of resctrl resources and counters, with what they are.
const RESOURCES: [(&str, &str); 8] = [
    ("L3", "CAT of L3"),
    ("L3CODE", "CAT of L3 code"),
    ("L3DATA", "CAT of L3 data"),
    ("L2", "CAT of L2"),
    ("L2CODE", "CAT of L2 code"),
    ("L2DATA", "CAT of L2 data"),
    ("MB", "MBA"),
    ("SMBA", "MBA of slow memory"),
];
const COUNTERS: [(&str, &str); 3] = [
    ("llc_occupancy", "occupancy"),
    ("mbm_total_bytes", "bandwidth"),
    ("mbm_local_bytes", "local bandwidth"),
];

/// CPU flags that promise either.
const ALLOCATION_FLAGS: [&str; 6] = ["cat_l3", "cat_l2", "cdp_l3", "cdp_l2", "mba", "smba"];
const MONITORING_FLAGS: [&str; 3] = ["cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"];

/// The row of control.
pub(super) fn allocation(patient: Patient<'_>) -> Capability {
    let Some(tree) = ResctrlTree::find(patient.root) else {
        return unmounted(patient, &ALLOCATION, &ALLOCATION_FLAGS);
    };
    let mount = tree.mount();
    let have = known(&RESOURCES, |name| mount.join("info").join(name).is_dir());
    if have.is_empty() {
        return ALLOCATION.missing("resctrl is mounted and controls nothing here");
    }
    let mut have = have.join(", ");
    match tree.leftovers().len() {
        0 => {}
        1 => have += "; a partition of a squeeze that was killed is left over, which the next squeeze undoes",
        many => {
            have += &format!(
                "; {many} partitions of squeezes that were killed are left over, which the next squeeze undoes"
            );
        }
    }
    with_group(&ALLOCATION, mount, &have)
}

/// The row of watching.
pub(super) fn monitoring(patient: Patient<'_>) -> Capability {
    let Some(tree) = ResctrlTree::find(patient.root) else {
        return unmounted(patient, &MONITORING, &MONITORING_FLAGS);
    };
    let mount = tree.mount();
    let features = fs::read_to_string(mount.join("info/L3_MON/mon_features")).unwrap_or_default();
    let have = known(&COUNTERS, |name| features.lines().any(|line| line.trim() == name));
    if have.is_empty() {
        return MONITORING.missing("resctrl is mounted and watches nothing here");
    }
    with_group(&MONITORING, &mount.join("mon_groups"), &have.join(", "))
}

/// Proves that a group can be made in `folder`.
fn with_group(subject: &RowSubject, folder: &Path, have: &str) -> Capability {
    match TrialGroup::make(folder) {
        Ok(_group) => subject.found(have),
        Err(errno) if errno.is_permission() => subject
            .blocked(format!("{have}; making a group gives {errno}"), Some("sudo memwall doctor".to_owned())),
        Err(errno) if errno.is_shortage() => {
            subject.blocked(format!("{have}; {errno}: the hardware's groups are all in use"), None)
        }
        Err(errno) => subject.missing(format!("{have}; making a group gives {errno}")),
    }
}

/// The row of a machine without a mounted resctrl.
fn unmounted(patient: Patient<'_>, subject: &RowSubject, wanted: &[&str]) -> Capability {
    let known = patient.text("proc/filesystems").unwrap_or_default();
    let is_known = known.lines().any(|line| line.split_whitespace().next_back() == Some("resctrl"));
    let info = patient.text("proc/cpuinfo").unwrap_or_default();
    let flags = info
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .map(|line| line.trim_start_matches([' ', '\t', ':']));
    let promised: Vec<_> =
        flags.unwrap_or_default().split_whitespace().filter(|flag| wanted.contains(flag)).collect();
    match (is_known, flags.is_some(), promised.is_empty()) {
        (true, true, true) => subject.missing("the CPU has no flag for it"),
        (true, ..) => subject.blocked(
            format!(
                "not mounted; the CPU promises {}",
                if promised.is_empty() { "something".to_owned() } else { promised.join(", ") }
            ),
            Some("sudo mount -t resctrl resctrl /sys/fs/resctrl".to_owned()),
        ),
        (false, _, false) => subject
            .missing(format!("the CPU promises {}, this kernel has no resctrl for it", promised.join(", "))),
        (false, ..) => subject.missing("neither the CPU nor the kernel offers resctrl"),
    }
}

fn known(names: &[(&str, &'static str)], exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    names.iter().filter(|(name, _)| exists(name)).map(|(_, meaning)| *meaning).collect()
}

/// An empty group; removed when dropped.
struct TrialGroup(PathBuf);

impl TrialGroup {
    fn make(folder: &Path) -> Result<Self, Errno> {
        let path = folder.join(format!("memwall-doctor-{}", process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TrialGroup {
    fn drop(&mut self) {
        // An empty group is always removable by who made it.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, as_nobody};
    use record::doctor::CapabilityState;

    fn mounted() -> Script {
        let script = Script::new();
        script.write(
            "proc/self/mounts",
            "proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n",
        );
        script.write("sys/fs/resctrl/info/L3/cbm_mask", "fff\n");
        script.write("sys/fs/resctrl/info/MB/min_bandwidth", "10\n");
        script.write("sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
        script.write("sys/fs/resctrl/mon_groups/.keep", "");
        script
    }

    #[test]
    fn groups_are_made_and_removed() {
        let script = mounted();
        let row = allocation(script.patient());
        assert_eq!((row.state, row.detail.as_str()), (CapabilityState::Found, "CAT of L3, MBA"));
        let row = monitoring(script.patient());
        assert_eq!((row.state, row.detail.as_str()), (CapabilityState::Found, "occupancy, bandwidth"));
        for folder in ["sys/fs/resctrl", "sys/fs/resctrl/mon_groups"] {
            let left: Vec<_> =
                fs::read_dir(script.path(folder)).unwrap().flatten().map(|e| e.file_name()).collect();
            assert!(left.iter().all(|name| !name.to_string_lossy().contains("memwall")), "{left:?}");
        }
    }

    #[test]
    fn partitions_left_by_a_crash_are_told() {
        let script = mounted();
        script.write("sys/fs/resctrl/memwall-squeeze-99999999-5/schemata", "L3:0=1\n");
        assert!(allocation(script.patient()).detail.contains("is left over, which the next squeeze undoes"));
        script.write("proc/99999998/stat", &format!("99999998 (x) S {}", "0 ".repeat(18) + "6"));
        script.write("sys/fs/resctrl/memwall-squeeze-99999998-6/schemata", "L3:0=1\n");
        let one = allocation(script.patient()).detail;
        assert!(one.contains("a partition of a squeeze"), "one in use is no leftover: {one}");
        script.write("sys/fs/resctrl/memwall-squeeze-99999998-7/schemata", "L3:0=1\n");
        assert!(allocation(script.patient()).detail.contains("2 partitions"));
    }

    #[test]
    fn a_mount_we_may_not_write_to() {
        let script = mounted();
        script.forbid_writing("sys/fs/resctrl");
        let row = as_nobody(|| allocation(script.patient()));
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.detail.ends_with("making a group gives EACCES"), "{}", row.detail);
    }

    #[test]
    fn mounted_with_nothing_in_it() {
        let script = Script::new();
        script.write("proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0\n");
        assert_eq!(allocation(script.patient()).state, CapabilityState::Missing);
        assert_eq!(monitoring(script.patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn not_mounted() {
        let script = Script::new();
        assert_eq!(allocation(script.patient()).state, CapabilityState::Missing);
        script.write("proc/cpuinfo", "flags\t\t: fpu cat_l3 mba\n");
        assert!(allocation(script.patient()).detail.contains("cat_l3, mba, this kernel has no resctrl"));
        script.write("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n");
        let row = allocation(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert_eq!(row.unlock_with.as_deref(), Some("sudo mount -t resctrl resctrl /sys/fs/resctrl"));
        assert_eq!(monitoring(script.patient()).detail, "the CPU has no flag for it");
        script.remove("proc/cpuinfo");
        assert_eq!(monitoring(script.patient()).state, CapabilityState::Blocked, "no flags to judge by");
    }
}
