//! Limits of our cgroup, versions 1 and 2, from our own group up to the root we can see.

use super::{
    mounts::{self, Mount},
    some_list,
};
use crate::{Bytes, CpuSet, Source, gaps::Gaps};

/// From here on a version 1 limit means none: the kernel writes the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;
/// Deeper trees are damaged files.
const DEEPEST: usize = 64;

/// The directories of our groups, innermost first.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    unified: Vec<String>,
    memory: Vec<String>,
    cpu: Vec<String>,
    cpuset: Vec<String>,
}

impl Cgroups {
    /// Follows `/proc/self/cgroup` into the mounts.
    pub(super) fn find(source: &Source, gaps: &mut Gaps) -> Self {
        let Some(table) = gaps.take(source.table("proc/self/cgroup")) else {
            return Self::default();
        };
        let mounts = match gaps.take(source.table("proc/self/mountinfo")) {
            Some(mountinfo) => mounts::parse(&mountinfo.text),
            None => usual_mounts(source),
        };
        let mut groups = Self::default();
        for line in table.text.lines().take(DEEPEST) {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                gaps.note("/proc/self/cgroup", "has a line that names no group");
                continue;
            };
            for controller in controllers.split(',') {
                let places = match controller {
                    "" => &mut groups.unified,
                    "memory" => &mut groups.memory,
                    "cpu" => &mut groups.cpu,
                    "cpuset" => &mut groups.cpuset,
                    _ => continue,
                };
                let serves = |mount: &&Mount| match controller {
                    "" => mount.unified,
                    name => !mount.unified && mount.options.iter().any(|option| option == name),
                };
                if let Some(mount) = mounts.iter().find(serves) {
                    *places = directories(source, mount, path);
                }
            }
        }
        groups
    }

    /// The smallest memory limit.
    pub(super) fn memory(&self, source: &Source, gaps: &mut Gaps) -> Option<Bytes> {
        let wanted = "a number of bytes";
        let unified = self.unified.iter().filter_map(|directory| {
            let path = format!("{directory}/memory.max");
            gaps.take_if_there(source.value(&path, wanted, limit)).flatten()
        });
        let unified = unified.min();
        let legacy = self.memory.iter().filter_map(|directory| {
            let path = format!("{directory}/memory.limit_in_bytes");
            gaps.take_if_there(source.value(&path, wanted, limit)).flatten()
        });
        [unified, legacy.min()].into_iter().flatten().min()
    }

    /// The smallest share of CPU time, in CPUs.
    pub(super) fn cpu_quota(&self, source: &Source, gaps: &mut Gaps) -> Option<f64> {
        let unified = self.unified.iter().filter_map(|directory| {
            let path = format!("{directory}/cpu.max");
            gaps.take_if_there(source.value(&path, "a quota and a period", unified_quota)).flatten()
        });
        let unified: Vec<f64> = unified.collect();
        let legacy = self.cpu.iter().filter_map(|directory| legacy_quota(source, directory, gaps));
        legacy.chain(unified).min_by(f64::total_cmp)
    }

    /// CPUs of our cpuset, for where the affinity mask is unknown.
    pub(super) fn cpus(&self, source: &Source, gaps: &mut Gaps) -> Option<CpuSet> {
        self.cpuset_list(source, ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"], gaps)
    }

    /// Nodes of our cpuset, for where the status file does not tell.
    pub(super) fn nodes(&self, source: &Source, gaps: &mut Gaps) -> Option<CpuSet> {
        self.cpuset_list(source, ["cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"], gaps)
    }

    /// The innermost group that has one of these files decides.
    fn cpuset_list(&self, source: &Source, files: [&str; 3], gaps: &mut Gaps) -> Option<CpuSet> {
        self.unified.iter().chain(&self.cpuset).find_map(|directory| {
            files.iter().find_map(|file| {
                let path = format!("{directory}/{file}");
                gaps.take_if_there(source.value(&path, "a list of CPUs or nodes", some_list))
            })
        })
    }
}

/// Where distributions mount the hierarchies, for when the mount table is unreadable.
fn usual_mounts(source: &Source) -> Vec<Mount> {
    let mount = |point: &str, unified, option: &str| Mount {
        root: "/".into(),
        point: point.into(),
        unified,
        options: vec![option.to_owned()],
    };
    let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .filter(|point| source.exists(&format!("{}/cgroup.controllers", point.trim_start_matches('/'))))
        .map(|point| mount(point, true, ""));
    let legacy =
        ["memory", "cpu", "cpuset"].map(|name| mount(&format!("/sys/fs/cgroup/{name}"), false, name));
    unified.chain(legacy).collect()
}

/// Our group's directory and its parents up to the mount point. Inside a container the path may be one of the
/// host that is not visible here; then the mount point itself is our group.
fn directories(source: &Source, mount: &Mount, path: &str) -> Vec<String> {
    let point = mount.point.trim_matches('/');
    let below = match mount.root.trim_end_matches('/') {
        "" => Some(path),
        root => path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let parts: Vec<&str> =
        below.unwrap_or_default().split('/').filter(|part| !part.is_empty()).take(DEEPEST).collect();
    let full = format!("{point}/{}", parts.join("/"));
    if parts.contains(&"..") || !source.exists(full.trim_end_matches('/')) {
        return vec![point.to_owned()];
    }
    (0..=parts.len()).rev().map(|depth| [&[point], &parts[..depth]].concat().join("/")).collect()
}

/// A limit in bytes; `Some(None)` means there is none.
fn limit(text: &str) -> Option<Option<Bytes>> {
    if text == "max" {
        return Some(None);
    }
    text.parse::<u64>().ok().map(|bytes| (bytes < UNLIMITED).then_some(Bytes(bytes)))
}

/// `max 100000` or `150000 100000`.
fn unified_quota(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.split_once(' ')?;
    let period: u32 = period.parse().ok().filter(|&period| period > 0)?;
    match quota {
        "max" => Some(None),
        quota => Some(Some(f64::from(quota.parse::<u32>().ok()?) / f64::from(period))),
    }
}

fn legacy_quota(source: &Source, directory: &str, gaps: &mut Gaps) -> Option<f64> {
    let file = |name: &str| format!("{directory}/cpu.cfs_{name}_us");
    let micros = |text: &str| text.parse::<i64>().ok().filter(|&micros| micros != 0);
    let quota = gaps.take_if_there(source.value(&file("quota"), "microseconds", micros))?;
    if quota < 0 {
        return None;
    }
    let positive = |text: &str| micros(text).filter(|&micros| micros > 0);
    let period = gaps.take(source.value(&file("period"), "microseconds", positive))?;
    Some(quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_not_a_number() {
        assert_eq!(limit("max"), Some(None));
        assert_eq!(limit("9223372036854771712"), Some(None));
        assert_eq!(limit("1073741824"), Some(Some(Bytes::gib(1))));
        assert_eq!(limit("-1"), None);
        assert_eq!(unified_quota("max 100000"), Some(None));
        assert_eq!(unified_quota("150000 100000"), Some(Some(1.5)));
        assert_eq!(unified_quota("150000 0"), None);
        assert_eq!(unified_quota("max"), None);
    }
}
