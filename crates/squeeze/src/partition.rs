//! Squeezing by the hardware itself: fewer ways of the cache (CAT), less bandwidth (MBA), through the kernel's resctrl.

use std::path::{Path, PathBuf};

use machine::{
    Bytes, CpuSet,
    resctrl::{CacheMonitor, CachePartition, ResctrlTree},
    squeezing::{Interference, SqueezeForm, SqueezeKind},
};

use crate::SqueezeError;

/// A partition for the program's CPUs. What it takes is given back when it is dropped; what a crash leaves [`undo_leftovers`]
/// undoes.
#[derive(Debug)]
pub struct HardwarePartition {
    tree: ResctrlTree,
    group: CachePartition,
    level: u32,
}

fn refused(source: std::io::Error) -> SqueezeError {
    SqueezeError::System { what: "change the partition of cache and bandwidth", source }
}

/// Undoes what a squeeze that was killed left on the machine under `root`; in sentences. To be called before anything else is
/// done, as what is left takes room and bandwidth from whatever has those CPUs.
pub fn undo_leftovers(root: &Path) -> Vec<String> {
    let Some(tree) = ResctrlTree::find(root) else { return Vec::new() };
    let said = |(folder, undone): (PathBuf, std::io::Result<()>)| match undone {
        Ok(()) => format!("{}: the partition of a squeeze that was killed is undone.", folder.display()),
        Err(error) => {
            format!("{}: a partition of a squeeze that was killed stays: {error}.", folder.display())
        }
    };
    tree.undo_leftovers().into_iter().map(said).collect()
}

impl HardwarePartition {
    /// Makes one on the machine under `root`, for what runs on these CPUs around a cache of this level. `None` where the kernel
    /// offers none, or not to us. `remark` hears what there is to say.
    pub fn make(root: &Path, level: u32, cpus: &CpuSet, remark: &mut dyn FnMut(String)) -> Option<Self> {
        let tree = ResctrlTree::find(root)?;
        if tree.cache_ways(level).is_none() && tree.bandwidth_steps().is_none() {
            return None;
        }
        match tree.partition(cpus) {
            Ok(group) => Some(Self { tree, group, level }),
            Err(error) => {
                remark(format!("resctrl is mounted, but gives us no partition: {error}."));
                None
            }
        }
    }

    /// Strengths of a kind, weakest first; none if the hardware does not divide it.
    pub fn strengths(&self, kind: SqueezeKind, steps: usize) -> Vec<Interference> {
        let (least, most) = match kind {
            SqueezeKind::Storage => match self.tree.cache_ways(self.level) {
                Some(ways) => (ways.least.max(1), ways.count()),
                None => return Vec::new(),
            },
            SqueezeKind::Bandwidth => match self.tree.bandwidth_steps() {
                Some(bandwidth) => (bandwidth.least.max(1), 100),
                None => return Vec::new(),
            },
        };
        let range = most.saturating_sub(least) as usize;
        let steps = steps.max(1).min(range);
        let mut lefts: Vec<u32> = (1..=steps).map(|step| most - (range * step / steps) as u32).collect();
        if let (SqueezeKind::Bandwidth, Some(known)) = (kind, self.tree.bandwidth_steps()) {
            lefts.iter_mut().for_each(|left| *left = (*left / known.step).max(1) * known.step);
        }
        lefts.dedup();
        lefts.into_iter().filter(|left| *left < most).map(|left| partition(kind, left)).collect()
    }

    /// The kernel's monitor of what its CPUs bring from memory, if there is one.
    pub fn monitor(&self) -> Option<CacheMonitor> {
        self.group.monitor()
    }

    /// Leaves what these leave, and all of the rest. Those of threads are not its business.
    pub fn take(&self, interferences: &[Interference]) -> Result<(), SqueezeError> {
        self.group.leave_all(self.level).map_err(refused)?;
        for interference in interferences {
            let Some(left) = interference.left else { continue };
            match interference.kind {
                SqueezeKind::Storage => self.group.leave_ways(self.level, left),
                SqueezeKind::Bandwidth => self.group.leave_bandwidth(left),
            }
            .map_err(refused)?;
        }
        Ok(())
    }
}

/// A partition that leaves so many ways, or so many per cent of the bandwidth.
fn partition(kind: SqueezeKind, left: u32) -> Interference {
    Interference {
        kind,
        form: SqueezeForm::Partition,
        threads: 0,
        bytes_each: Bytes(0),
        pause: 0,
        left: Some(left),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A machine with twenty ways of an L3 and bandwidth in tenths.
    pub(crate) fn divided() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0\n");
        write("sys/fs/resctrl/info/L3/cbm_mask", "fffff\n");
        write("sys/fs/resctrl/info/MB/min_bandwidth", "10\n");
        write("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n");
        write("sys/fs/resctrl/schemata", "L3:0=fffff\nMB:0=100\n");
        root
    }

    /// The folder of our partition, if there is one.
    pub(crate) fn group_of(root: &Path) -> Option<std::path::PathBuf> {
        let entries = fs::read_dir(root.join("sys/fs/resctrl")).unwrap().flatten();
        entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("memwall-squeeze"))
    }

    #[test]
    fn strengths_of_ways_and_of_bandwidth() {
        let root = divided();
        let cpus: CpuSet = (0..2).collect();
        let partition = HardwarePartition::make(root.path(), 3, &cpus, &mut |_| {}).unwrap();
        let lefts = |kind, steps| -> Vec<u32> {
            partition.strengths(kind, steps).iter().filter_map(|one| one.left).collect()
        };
        assert_eq!(lefts(SqueezeKind::Storage, 4), [16, 11, 6, 1]);
        assert_eq!(lefts(SqueezeKind::Bandwidth, 4), [70, 50, 30, 10]);
        assert_eq!(lefts(SqueezeKind::Storage, 100).len(), 19);
    }

    #[test]
    fn a_partition_takes_without_threads_and_is_given_back() {
        let root = divided();
        let partition = HardwarePartition::make(root.path(), 3, &(0..2).collect(), &mut |_| {}).unwrap();
        let folder = group_of(root.path()).unwrap();
        let schemata = || fs::read_to_string(folder.join("schemata")).unwrap();
        partition.take(&[super::partition(SqueezeKind::Storage, 4)]).unwrap();
        assert_eq!(schemata(), "L3:0=f\n");
        partition.take(&[super::partition(SqueezeKind::Bandwidth, 30)]).unwrap();
        assert_eq!(schemata(), "MB:0=30\n");
        // Nothing taken: the last word is all of it.
        partition.take(&[]).unwrap();
        assert_eq!(schemata(), "MB:0=100\n");
        drop(partition);
        assert_eq!(group_of(root.path()), None);
    }

    #[test]
    fn what_a_crash_left_is_undone_and_said() {
        let root = divided();
        let left = root.path().join("sys/fs/resctrl/memwall-squeeze-99999999-3");
        fs::create_dir(&left).unwrap();
        // One that is in use stays.
        let stat = format!("1 (memwall) S {}", (4..30).map(|field| format!("{field} ")).collect::<String>());
        let proc = root.path().join("proc/77");
        fs::create_dir_all(&proc).unwrap();
        fs::write(proc.join("stat"), stat).unwrap();
        let living = root.path().join("sys/fs/resctrl/memwall-squeeze-77-22");
        fs::create_dir(&living).unwrap();
        let said = undo_leftovers(root.path());
        assert!(!left.exists() && living.exists(), "{said:?}");
        assert!(said.iter().any(|text| text.contains("99999999-3: the") && text.contains("is undone")));
        assert_eq!(undo_leftovers(root.path()), [""; 0]);
        // A machine without any.
        let none = tempfile::tempdir().unwrap();
        assert_eq!(undo_leftovers(none.path()), [""; 0]);
        assert!(HardwarePartition::make(none.path(), 3, &(0..2).collect(), &mut |_| {}).is_none());
    }
}
