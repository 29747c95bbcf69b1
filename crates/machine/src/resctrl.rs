//! The kernel's partitions of caches and bandwidth (resctrl), under a root path.
//!
//! A partition is a folder; whoever makes one here names it after its process, so that a partition whose process is gone can be
//! told from one in use, and undone.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use crate::CpuSet;

/// What every partition of a squeeze begins with.
const PREFIX: &str = "memwall-squeeze-";

/// The folder of monitors that are no partitions, and the file in which one has the bytes that came from memory and went there.
const MONITORS: &str = "mon_groups";
const TRAFFIC: &str = "mbm_total_bytes";

/// A mounted resctrl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResctrlTree {
    root: PathBuf,
    mount: PathBuf,
}

/// How a cache can be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheWays {
    /// One bit for each way that may be given.
    pub mask: u64,
    /// The fewest that a partition has to have.
    pub least: u32,
}

impl CacheWays {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.mask.count_ones()
    }

    /// So many of them, side by side from the lowest, as the hardware wants them.
    fn lowest(&self, many: u32) -> u64 {
        let many = many.clamp(self.least.max(1), self.count().max(1));
        let run = if many >= 64 { u64::MAX } else { (1 << many) - 1 };
        (run << self.mask.trailing_zeros().min(63)) & self.mask
    }
}

/// How bandwidth can be divided, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthSteps {
    /// The least that a partition gets.
    pub least: u32,
    /// Between one value and the next.
    pub step: u32,
}

impl ResctrlTree {
    /// Where it is mounted on the machine under `root`; `None` if it is not.
    pub fn find(root: &Path) -> Option<Self> {
        let mounts = fs::read_to_string(root.join("proc/self/mounts")).ok()?;
        let point = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let point = fields.nth(1)?;
            (fields.next() == Some("resctrl")).then_some(point)
        })?;
        Some(Self { root: root.to_owned(), mount: root.join(point.trim_start_matches('/')) })
    }

    /// Its folder.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.mount.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// Ways of the cache of a level; `None` if it cannot be divided.
    pub fn cache_ways(&self, level: u32) -> Option<CacheWays> {
        let mask = u64::from_str_radix(&self.text(&format!("info/L{level}/cbm_mask"))?, 16).ok()?;
        let least = self.text(&format!("info/L{level}/min_cbm_bits")).and_then(|text| text.parse().ok());
        (mask != 0).then_some(CacheWays { mask, least: least.unwrap_or(1) })
    }

    /// Steps of bandwidth; `None` if it cannot be divided, or is not in per cent.
    pub fn bandwidth_steps(&self) -> Option<BandwidthSteps> {
        let number = |name: &str| self.text(name)?.parse::<u32>().ok();
        let least = number("info/MB/min_bandwidth")?;
        let step = number("info/MB/bandwidth_gran")?;
        // Where the kernel takes megabytes per second, all of it is a huge number.
        (least <= 100 && step >= 1 && self.domains("MB").iter().all(|(_, value)| *value <= 100))
            .then_some(BandwidthSteps { least, step })
    }

    /// Domains of a resource with what the group at the top has of them.
    fn domains(&self, resource: &str) -> Vec<(u32, u64)> {
        let schemata = self.text("schemata").unwrap_or_default();
        let line = schemata.lines().find_map(|line| line.trim().strip_prefix(resource)?.strip_prefix(':'));
        let radix = if resource == "MB" { 10 } else { 16 };
        line.unwrap_or_default()
            .split(';')
            .filter_map(|domain| {
                let (id, value) = domain.trim().split_once('=')?;
                Some((id.trim().parse().ok()?, u64::from_str_radix(value.trim(), radix).ok()?))
            })
            .collect()
    }

    /// Makes a partition for what runs on these CPUs; it has all there is until it is given less. Undone when dropped.
    pub fn partition(&self, cpus: &CpuSet) -> io::Result<CachePartition> {
        let pid = process::id();
        let start = start_of(&self.root, pid).unwrap_or(0);
        let folder = self.mount.join(format!("{PREFIX}{pid}-{start}"));
        fs::create_dir(&folder)?;
        let partition = CachePartition { tree: self.clone(), folder };
        fs::write(partition.folder.join("cpus_list"), format!("{cpus}\n"))?;
        Ok(partition)
    }

    /// Watches what these CPUs bring from memory; `None` where the kernel does not count that. Undone when dropped.
    pub fn monitor(&self, cpus: &CpuSet) -> io::Result<Option<CacheMonitor>> {
        let features = self.text("info/L3_MON/mon_features").unwrap_or_default();
        if !features.lines().any(|feature| feature.trim() == TRAFFIC) {
            return Ok(None);
        }
        let pid = process::id();
        let start = start_of(&self.root, pid).unwrap_or(0);
        let folder = self.mount.join(format!("{MONITORS}/{PREFIX}{pid}-{start}"));
        fs::create_dir(&folder)?;
        let monitor = CacheMonitor { folder: folder.clone(), ours: true };
        fs::write(folder.join("cpus_list"), format!("{cpus}\n"))?;
        Ok(Some(monitor))
    }

    /// Partitions and monitors whose process is gone.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let folders = [self.mount.clone(), self.mount.join(MONITORS)];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| {
                let name = entry.file_name();
                let parts = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
                parts.is_some_and(|(pid, start)| {
                    let alive = pid.parse().ok().and_then(|pid| start_of(&self.root, pid));
                    alive.is_none_or(|alive| alive.to_string() != start)
                })
            })
            .map(|entry| entry.path())
            .collect();
        found.sort();
        found
    }

    /// Undoes them; gives those it undid, or why one stayed.
    pub fn undo_leftovers(&self) -> Vec<(PathBuf, io::Result<()>)> {
        self.leftovers().into_iter().map(|folder| (folder.clone(), remove(&folder))).collect()
    }
}

/// When a process began, in ticks since boot; `None` if it is gone.
fn start_of(root: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(root.join(format!("proc/{pid}/stat"))).ok()?;
    // The name, in parentheses, may hold spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// A group goes by removing its folder, whose files are the kernel's; files of an ordinary folder have to go first.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => fs::remove_dir_all(folder),
        done => done,
    }
}

/// A partition of ours; undone when dropped.
#[derive(Debug)]
pub struct CachePartition {
    tree: ResctrlTree,
    folder: PathBuf,
}

impl CachePartition {
    /// Leaves so many ways of the cache of a level, in every domain.
    pub fn leave_ways(&self, level: u32, many: u32) -> io::Result<()> {
        let ways = self.tree.cache_ways(level).ok_or(io::ErrorKind::Unsupported)?;
        self.write(&format!("L{level}"), &format!("{:x}", ways.lowest(many)))
    }

    /// Leaves so many per cent of the bandwidth, in every domain.
    pub fn leave_bandwidth(&self, percent: u32) -> io::Result<()> {
        self.write("MB", &percent.clamp(1, 100).to_string())
    }

    /// Leaves all of both.
    pub fn leave_all(&self, level: u32) -> io::Result<()> {
        if let Some(ways) = self.tree.cache_ways(level) {
            self.leave_ways(level, ways.count())?;
        }
        if self.tree.bandwidth_steps().is_some() {
            self.leave_bandwidth(100)?;
        }
        Ok(())
    }

    /// The monitor of what its CPUs bring from memory; `None` where the kernel does not count that.
    pub fn monitor(&self) -> Option<CacheMonitor> {
        let monitor = CacheMonitor { folder: self.folder.clone(), ours: false };
        monitor.bytes().is_some().then_some(monitor)
    }

    fn write(&self, resource: &str, value: &str) -> io::Result<()> {
        let domains: Vec<String> =
            self.tree.domains(resource).iter().map(|(id, _)| format!("{id}={value}")).collect();
        if domains.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        fs::write(self.folder.join("schemata"), format!("{resource}:{}\n", domains.join(";")))
    }
}

impl Drop for CachePartition {
    fn drop(&mut self) {
        // What stays behind is found at the next start.
        let _ = remove(&self.folder);
    }
}

/// The kernel's count of what some CPUs bring from memory.
#[derive(Debug)]
pub struct CacheMonitor {
    folder: PathBuf,
    /// Whether it is a folder of its own, to be removed.
    ours: bool,
}

impl CacheMonitor {
    /// Bytes so far, in all domains; `None` if none of them says.
    pub fn bytes(&self) -> Option<u64> {
        let domains = fs::read_dir(self.folder.join("mon_data")).ok()?.flatten();
        let read = domains.map(|domain| fs::read_to_string(domain.path().join(TRAFFIC)));
        // The kernel writes words where it has no number, as for a domain whose CPUs are not watched.
        let known: Vec<u64> = read.filter_map(|text| text.ok()?.trim().parse().ok()).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }
}

impl Drop for CacheMonitor {
    fn drop(&mut self) {
        if self.ours {
            let _ = remove(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, ResctrlTree) {
        let root = tempfile::tempdir().expect("on a made-up tree");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("on a made-up tree")).expect("on a made-up tree");
            fs::write(path, text).expect("on a made-up tree");
        };
        write("proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0\n");
        write("sys/fs/resctrl/info/L3/cbm_mask", "7ff0\n");
        write("sys/fs/resctrl/info/L3/min_cbm_bits", "2\n");
        write("sys/fs/resctrl/info/MB/min_bandwidth", "10\n");
        write("sys/fs/resctrl/info/MB/bandwidth_gran", "10\n");
        write("sys/fs/resctrl/schemata", "    L3:0=7ff0;1=7ff0\n    MB:0=100;1=100\n");
        let stat = format!("{} (a name) S {}", process::id(), "0 ".repeat(18) + "4711 0");
        write(&format!("proc/{}/stat", process::id()), &stat);
        let tree = ResctrlTree::find(root.path()).expect("on a made-up tree");
        (root, tree)
    }

    #[test]
    fn a_partition_is_made_changed_and_undone() {
        let (_root, tree) = tree();
        let ways = tree.cache_ways(3).expect("on a made-up tree");
        assert_eq!((ways.count(), ways.least), (11, 2));
        assert_eq!(tree.bandwidth_steps(), Some(BandwidthSteps { least: 10, step: 10 }));
        let partition = tree.partition(&(0..3).collect()).expect("on a made-up tree");
        let folder = partition.folder.clone();
        assert!(folder.ends_with(format!("{PREFIX}{}-4711", process::id())));
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("on a made-up tree");
        assert_eq!(read("cpus_list"), "0-2\n");
        partition.leave_ways(3, 3).expect("on a made-up tree");
        assert_eq!(read("schemata"), "L3:0=70;1=70\n");
        // Fewer than the hardware allows are as few as it does.
        partition.leave_ways(3, 1).expect("on a made-up tree");
        assert_eq!(read("schemata"), "L3:0=30;1=30\n");
        partition.leave_bandwidth(40).expect("on a made-up tree");
        assert_eq!(read("schemata"), "MB:0=40;1=40\n");
        assert!(partition.leave_ways(2, 1).is_err());
        // In use, it is nobody's leftover.
        assert_eq!(tree.leftovers(), Vec::<PathBuf>::new());
        drop(partition);
        assert!(!folder.exists());
    }

    #[test]
    fn what_a_crash_left_is_found_and_undone() {
        let (root, tree) = tree();
        let gone = tree.mount().join("memwall-squeeze-99999999-12");
        let reused = tree.mount().join(format!("memwall-squeeze-{}-12", process::id()));
        let foreign = tree.mount().join("somebody-else");
        for folder in [&gone, &reused, &foreign] {
            fs::create_dir(folder).expect("on a made-up tree");
            fs::write(folder.join("schemata"), "L3:0=3\n").expect("on a made-up tree");
        }
        let kept = tree.partition(&(0..1).collect()).expect("on a made-up tree");
        let mut found = vec![gone.clone(), reused.clone()];
        found.sort();
        assert_eq!(tree.leftovers(), found);
        assert!(tree.undo_leftovers().iter().all(|(_, undone)| undone.is_ok()));
        assert!(!gone.exists() && !reused.exists() && foreign.exists() && kept.folder.exists());
        assert_eq!(tree.leftovers(), Vec::<PathBuf>::new());
        drop(root);
    }

    #[test]
    fn what_cpus_bring_is_watched() {
        let (_root, tree) = tree();
        let cpus: CpuSet = (0..1).collect();
        assert!(tree.monitor(&cpus).expect("on a made-up tree").is_none(), "the kernel does not count");
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().expect("on a made-up tree")).expect("on a made-up tree");
            fs::write(path, text).expect("on a made-up tree");
        };
        write(&tree.mount().join("info/L3_MON/mon_features"), "llc_occupancy\nmbm_total_bytes\n");
        let gone = tree.mount().join("mon_groups/memwall-squeeze-99999999-1");
        fs::create_dir_all(&gone).expect("on a made-up tree");
        let monitor = tree.monitor(&cpus).expect("on a made-up tree").expect("it counts");
        let folder = monitor.folder.clone();
        assert_eq!(fs::read_to_string(folder.join("cpus_list")).expect("on a made-up tree"), "0\n");
        assert_eq!(monitor.bytes(), None, "missing is not zero");
        write(&folder.join("mon_data/mon_L3_00/mbm_total_bytes"), "6400\n");
        write(&folder.join("mon_data/mon_L3_01/mbm_total_bytes"), "Unavailable\n");
        assert_eq!(monitor.bytes(), Some(6400));
        assert_eq!(tree.leftovers(), [gone]);
        drop(monitor);
        assert!(!folder.exists());
        let partition = tree.partition(&cpus).expect("on a made-up tree");
        assert!(partition.monitor().is_none());
        write(&partition.folder.join("mon_data/mon_L3_00/mbm_total_bytes"), "64\n");
        assert_eq!(partition.monitor().and_then(|monitor| monitor.bytes()), Some(64));
        assert!(partition.folder.exists(), "a monitor of a partition leaves it");
    }

    #[test]
    fn what_is_not_there_is_not_offered() {
        let root = tempfile::tempdir().expect("on a made-up tree");
        assert_eq!(ResctrlTree::find(root.path()), None);
        let (_root, tree) = tree();
        assert_eq!(tree.cache_ways(2), None);
        // A kernel that takes megabytes per second.
        fs::write(tree.mount().join("schemata"), "MB:0=4294967295\n").expect("on a made-up tree");
        assert_eq!(tree.bandwidth_steps(), None);
    }
}
