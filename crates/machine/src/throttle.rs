//! Whether the processor's own protection, or a quota of the system, held programs back meanwhile.

use crate::Source;

/// Counts throttling from its making on.
#[derive(Clone, Debug)]
pub struct ThrottleWatch {
    source: Source,
    before: ThrottleCounts,
}

/// As the kernel counts since boot; none where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThrottleCounts {
    /// Times a core or package was slowed down because it was hot.
    thermal: Option<u64>,
    /// Microseconds that the quota of our control group kept us waiting.
    quota_us: Option<u64>,
}

impl ThrottleWatch {
    /// Begins to watch the machine at `source`.
    pub fn begin(source: &Source) -> Self {
        Self { source: source.clone(), before: ThrottleCounts::read(source) }
    }

    /// What held programs back since the beginning, for people; none if nothing did that the kernel tells of.
    pub fn throttled(&self) -> Option<String> {
        let now = ThrottleCounts::read(&self.source);
        let grown =
            |before: Option<u64>, now: Option<u64>| now.zip(before).is_some_and(|(now, before)| now > before);
        if grown(self.before.thermal, now.thermal) {
            return Some("the processor slowed down because it was hot".to_owned());
        }
        grown(self.before.quota_us, now.quota_us)
            .then(|| "the CPU quota of its control group kept it waiting".to_owned())
    }
}

impl ThrottleCounts {
    fn read(source: &Source) -> Self {
        Self { thermal: thermal(source), quota_us: quota(source) }
    }
}

fn thermal(source: &Source) -> Option<u64> {
    const CPUS: &str = "sys/devices/system/cpu";
    let cpus = source.numbered(CPUS, "cpu").ok()?;
    let counts = cpus.iter().flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"].map(|name| {
            let text = source.attribute(&format!("{CPUS}/cpu{cpu}/thermal_throttle/{name}")).ok()?;
            text.parse::<u64>().ok()
        })
    });
    counts.flatten().reduce(u64::saturating_add)
}

fn quota(source: &Source) -> Option<u64> {
    let groups = source.table("proc/self/cgroup").ok()?.text;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let stat = source.table(&format!("sys/fs/cgroup{own}/cpu.stat")).ok()?.text;
    stat.lines().find_map(|line| line.strip_prefix("throttled_usec "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn heat_and_quotas_are_noticed_and_nothing_else() {
        let root = tempfile::tempdir().expect("a folder");
        let hot = "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count";
        let stat = "sys/fs/cgroup/own/cpu.stat";
        put(root.path(), "proc/self/cgroup", "0::/own\n");
        put(root.path(), "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n");
        put(root.path(), hot, "3\n");
        put(root.path(), stat, "usage_usec 1\nthrottled_usec 500\n");
        let source = Source::under(root.path());
        let watch = ThrottleWatch::begin(&source);
        assert_eq!(watch.throttled(), None);
        put(root.path(), stat, "usage_usec 9\nthrottled_usec 501\n");
        assert!(watch.throttled().is_some_and(|why| why.contains("quota")));
        put(root.path(), hot, "4\n");
        assert!(watch.throttled().is_some_and(|why| why.contains("hot")));
    }

    #[test]
    fn a_machine_that_counts_nothing_tells_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(ThrottleWatch::begin(&Source::under(root.path())).throttled(), None);
    }
}
