//! Whose a monitoring group is: its name says so, and one whose memwall was killed can be told from one in use.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use machine::Source;

use super::MOUNT;

/// The process that made a group. A number may be used again, and may mean another process in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupOwner {
    /// The namespace of processes, by its inode.
    namespace: u64,
    pid: u32,
    /// When it began, in ticks since boot.
    began: u64,
}

impl GroupOwner {
    /// Us; 0 stands for what procfs does not say, and then nobody will remove the group but we.
    pub fn this(source: &Source) -> Self {
        let proc = source.root().join("proc");
        let pid = process::id();
        Self { namespace: namespace(&proc).unwrap_or(0), pid, began: began(&proc, pid).unwrap_or(0) }
    }

    /// The name of its group of a number.
    pub fn group_name(&self, number: u32) -> String {
        format!("memwall-{}-{}-{}-{number}", self.namespace, self.pid, self.began)
    }

    fn of_group(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("memwall-")?.split('-');
        let namespace = words.next()?.parse().ok()?;
        let pid = words.next()?.parse().ok()?;
        let began = words.next()?.parse().ok()?;
        words.next()?.parse::<u32>().ok()?;
        words.next().is_none().then_some(Self { namespace, pid, began })
    }

    /// Whether it is surely gone, as seen from a namespace.
    fn is_gone(&self, proc: &Path, here: u64) -> bool {
        self.namespace == here && self.began != 0 && began(proc, self.pid) != Some(self.began)
    }
}

/// Groups of memwalls that live no more.
pub(super) fn abandoned(source: &Source) -> Vec<PathBuf> {
    let proc = source.root().join("proc");
    let Some(here) = namespace(&proc) else { return Vec::new() };
    let groups = fs::read_dir(source.root().join(MOUNT).join("mon_groups")).into_iter().flatten().flatten();
    let is_abandoned = |entry: &fs::DirEntry| {
        let owner = entry.file_name().to_str().and_then(GroupOwner::of_group);
        owner.is_some_and(|owner| owner.is_gone(&proc, here))
    };
    groups.filter(is_abandoned).map(|entry| entry.path()).collect()
}

/// The inode in a link such as `pid:[4026531836]`.
fn namespace(proc: &Path) -> Option<u64> {
    let link = fs::read_link(proc.join("self/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

fn began(proc: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?;
    // Behind the name, which may hold anything, the twentieth.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_whose_owner_is_surely_gone_are_abandoned() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::under(root.path());
        let groups = root.path().join(MOUNT).join("mon_groups");
        let process = |pid: u32, began: u64| {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let fields = "0 ".repeat(18);
            fs::write(folder.join("stat"), format!("{pid} (a) b) S {fields}{began} 0\n")).unwrap();
        };
        process(70, 500);
        process(71, 600);
        for name in [
            "memwall-9-70-500-0", // alive
            "memwall-9-71-599-1", // its number was used again
            "memwall-9-72-500-0", // gone
            "memwall-8-72-500-0", // of another namespace, where it may live
            "memwall-9-72-0-0",   // nobody knows when it began
            "memwall-9-72-500",
            "memwall-lab",
            "theirs",
        ] {
            fs::create_dir_all(groups.join(name)).unwrap();
        }
        assert!(abandoned(&source).is_empty(), "without procfs nobody can tell");
        fs::create_dir_all(root.path().join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[9]", root.path().join("proc/self/ns/pid")).unwrap();
        let mut found = abandoned(&source);
        found.sort();
        assert_eq!(found, ["memwall-9-71-599-1", "memwall-9-72-500-0"].map(|name| groups.join(name)));
        // The next group that is made removes them.
        fs::create_dir_all(root.path().join(MOUNT).join("info/L3_MON")).unwrap();
        let group = super::super::MonGroup::create(&source).unwrap();
        assert!(abandoned(&source).is_empty() && groups.join("memwall-8-72-500-0").exists());
        drop(group);
        assert!(groups.join("theirs").exists());
    }

    #[test]
    fn our_own_group_is_not_abandoned() {
        let owner = GroupOwner::this(&Source::live());
        let proc = Path::new("/proc");
        assert_eq!(GroupOwner::of_group(&owner.group_name(3)), Some(owner));
        assert!(!owner.is_gone(proc, owner.namespace));
        let other = GroupOwner { began: owner.began + 1, ..owner };
        assert!(other.is_gone(proc, owner.namespace) && !other.is_gone(proc, owner.namespace + 1));
    }
}
