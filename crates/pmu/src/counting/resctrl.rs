//! What resctrl monitoring knows of a program: its memory traffic and the cache it occupies.

mod owner;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use events::{CountRefusal, CountedPlace, Missing, Scope};
use machine::Source;

use super::{gather::CountedPart, seats};
use crate::{CounterReading, Errno};
use owner::GroupOwner;

/// Where resctrl is mounted.
const MOUNT: &str = "sys/fs/resctrl";

/// Monitoring groups of memwalls that were killed: the next group that is made removes them.
pub fn abandoned_groups(source: &Source) -> Vec<PathBuf> {
    owner::abandoned(source)
}

/// A monitoring group of our own; removed when dropped, which gives its members back to the group they came from.
#[derive(Debug)]
pub(super) struct MonGroup {
    folder: PathBuf,
}

/// What could not be put into a group, and why.
#[derive(Debug, thiserror::Error)]
#[error("{errno}: {what} could not be put into the monitoring group")]
struct Unwritten {
    errno: Errno,
    what: String,
}

impl From<Unwritten> for String {
    fn from(unwritten: Unwritten) -> Self {
        unwritten.to_string()
    }
}

impl MonGroup {
    /// Makes an empty group, or says what is in the way.
    pub fn create(source: &Source) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mount = source.root().join(MOUNT);
        if !mount.join("schemata").exists() && !mount.join("mon_groups").exists() {
            return Err(
                "resctrl is not mounted; try `sudo mount -t resctrl resctrl /sys/fs/resctrl`, which works \
                        where the processor monitors caches or bandwidth"
                    .into(),
            );
        }
        if !mount.join("info/L3_MON").exists() {
            return Err(
                "resctrl is mounted, and this processor monitors nothing: there is no info/L3_MON".into()
            );
        }
        // Each takes one of few monitoring ids. One that cannot be removed stays, and the doctor shows it.
        owner::abandoned(source).iter().for_each(|folder| drop(fs::remove_dir(folder)));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = mount.join("mon_groups").join(GroupOwner::this(source).group_name(number));
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self { folder }),
            Err(error) => Err(match Errno::from(error) {
                errno if errno.is_permission() => format!("{errno}: making a monitoring group takes root"),
                errno if errno.0 == libc::ENOSPC => {
                    format!("{errno}: all monitoring ids are in use; remove groups below {MOUNT}/mon_groups")
                }
                errno => format!("{errno}: a monitoring group could not be made"),
            }),
        }
    }

    /// What the processor monitors.
    pub fn features(source: &Source) -> Vec<String> {
        let table = source.table(&format!("{MOUNT}/info/L3_MON/mon_features"));
        table.map(|table| table.text.lines().map(|line| line.trim().to_owned()).collect()).unwrap_or_default()
    }

    /// Puts those whom `scope` means into the group.
    pub fn admit(&self, scope: &Scope, source: &Source) -> Result<(), String> {
        match scope {
            Scope::ThisThread => Ok(self.write("tasks", rustix::thread::gettid().as_raw_pid())?),
            // What they start is in the group from its first instruction, whether asked for or not.
            Scope::Child(id) | Scope::Thread(id) => Ok(self.write("tasks", id)?),
            Scope::Process(pid) => self.admit_threads(*pid, source),
            Scope::Cpus(cpus) => Ok(self.write("cpus_list", cpus)?),
            Scope::Cgroup(..) => {
                Err("resctrl knows threads and CPUs, no control groups; name a process instead".into())
            }
        }
    }

    /// Looks again until no new thread appears: one that starts while we look may have been started by one that was
    /// not in the group yet.
    fn admit_threads(&self, pid: u32, source: &Source) -> Result<(), String> {
        let mut admitted = std::collections::BTreeSet::new();
        loop {
            let threads = seats::threads(pid, source).map_err(|error| {
                format!("{}: threads of process {pid} cannot be listed", Errno::from(error))
            })?;
            let new: Vec<_> = threads.difference(&admitted).copied().collect();
            if new.is_empty() {
                return Ok(());
            }
            for tid in new {
                match self.write("tasks", tid) {
                    // A thread may end before its turn comes.
                    Ok(()) | Err(Unwritten { errno: Errno(libc::ESRCH), .. }) => {}
                    Err(unwritten) => return Err(unwritten.to_string()),
                }
                admitted.insert(tid);
            }
        }
    }

    fn write(&self, file: &str, what: impl std::fmt::Display) -> Result<(), Unwritten> {
        let open = OpenOptions::new().append(true).create(true).open(self.folder.join(file));
        open.and_then(|mut open| writeln!(open, "{what}"))
            .map_err(|error| Unwritten { errno: Errno::from(error), what: what.to_string() })
    }

    /// A counter in every domain that has it: the domain, its number, and the value or what stands in its place.
    fn read(&self, counter: &str) -> Vec<(String, u32, Result<u64, String>)> {
        let data = self.folder.join("mon_data");
        let mut domains: Vec<_> = fs::read_dir(&data)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| data.join(name).join(counter).exists())
            .collect();
        domains.sort();
        let value = |path: &Path| {
            let text = fs::read_to_string(path).map_err(|error| Errno::from(error).to_string())?;
            text.trim().parse().map_err(|_| format!("it says '{}'", text.trim()))
        };
        let number = |name: &str| name.rsplit('_').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        domains
            .into_iter()
            .map(|name| {
                let value = value(&data.join(&name).join(counter));
                (name.clone(), number(&name), value.map_err(|words| format!("{name}/{counter}: {words}")))
            })
            .collect()
    }
}

impl Drop for MonGroup {
    fn drop(&mut self) {
        // Nothing is lost if it fails: the group stays and can be removed by hand.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// One event read from a group.
#[derive(Debug)]
pub(super) struct Monitor {
    event: usize,
    counter: String,
    /// Counts up for ever; else it is a level, such as occupancy.
    accumulates: bool,
    /// When it was started, and what the counters said then.
    since: Option<(Instant, Vec<Option<u64>>)>,
    /// How long earlier stretches were and what they gave, per domain; `None` for a domain that said nothing.
    before: (Duration, Vec<Option<u64>>),
}

impl Monitor {
    /// The event of index `event`, if the processor has it.
    pub fn new(event: usize, name: &str, counter: &str, source: &Source) -> Result<Self, CountRefusal> {
        let features = MonGroup::features(source);
        if !features.iter().any(|feature| feature == counter) {
            let reason = if features.is_empty() {
                "resctrl lists nothing to monitor here; try `sudo mount -t resctrl resctrl /sys/fs/resctrl`, which \
                 works where the processor monitors caches or bandwidth"
                    .to_owned()
            } else {
                format!("resctrl has no '{counter}' here; it has {}", features.join(", "))
            };
            return Err(CountRefusal::NotHere { event: name.to_owned(), reason });
        }
        let accumulates = counter.ends_with("_bytes");
        Ok(Self { event, counter: counter.to_owned(), accumulates, since: None, before: Default::default() })
    }

    /// Remembers where the counters stand.
    pub fn start(&mut self, group: &MonGroup) {
        if self.since.is_none() {
            self.since = Some((Instant::now(), self.standing(group)));
        }
    }

    /// Keeps what was counted since the start.
    pub fn stop(&mut self, group: &MonGroup) {
        if let Some((start, _)) = &self.since {
            self.before = (self.before.0 + start.elapsed(), self.so_far(&self.standing(group)));
            self.since = None;
        }
    }

    fn standing(&self, group: &MonGroup) -> Vec<Option<u64>> {
        group.read(&self.counter).into_iter().map(|(.., value)| value.ok()).collect()
    }

    /// Of each domain: what earlier stretches and the present one gave. `None` where any end of one is unknown.
    fn so_far(&self, now: &[Option<u64>]) -> Vec<Option<u64>> {
        let add = |(index, now): (usize, &Option<u64>)| {
            // Nothing earlier is 0, an earlier gap is none.
            let before = self.before.1.get(index).copied().unwrap_or(Some(0))?;
            match &self.since {
                None => Some(before),
                Some((_, start)) => {
                    Some(before.saturating_add((*now)?.saturating_sub(start.get(index).copied()??)))
                }
            }
        };
        now.iter().enumerate().map(add).collect()
    }

    /// Its value in every domain.
    pub fn read(&self, group: &MonGroup) -> Vec<CountedPart> {
        let elapsed =
            self.before.0 + self.since.as_ref().map_or(Duration::ZERO, |(start, _)| start.elapsed());
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let domains = group.read(&self.counter);
        let now: Vec<_> = domains.iter().map(|(.., value)| value.as_ref().ok().copied()).collect();
        let counts = if self.accumulates { self.so_far(&now) } else { now };
        let mut parts = Vec::new();
        for (seat, ((name, package, value), count)) in domains.into_iter().zip(counts).enumerate() {
            let value = match (value, count) {
                (Ok(_), Some(value)) => {
                    Ok(CounterReading { value, enabled_ns: elapsed_ns, running_ns: elapsed_ns })
                }
                (Ok(_), None) => Err(Missing::Failed(format!("{name} said nothing when counting began"))),
                (Err(words), _) => Err(Missing::Failed(words)),
            };
            parts.push(CountedPart {
                event: self.event,
                seat,
                place: CountedPlace::Box { package, name },
                pmu: None,
                value,
            });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn not_mounted_and_not_monitoring_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::under(root.path());
        assert!(MonGroup::create(&source).unwrap_err().contains("not mounted"));
        let refused = Monitor::new(0, "occupancy", "llc_occupancy", &source).unwrap_err().to_string();
        assert!(refused.contains("mount -t resctrl"), "{refused}");
        write(root.path(), "sys/fs/resctrl/schemata", "L3:0=fff\n");
        assert!(MonGroup::create(&source).unwrap_err().contains("monitors nothing"));
        write(root.path(), "sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\n");
        let refused = Monitor::new(0, "traffic", "mbm_total_bytes", &source).unwrap_err().to_string();
        assert!(refused.contains("it has llc_occupancy"), "{refused}");
    }

    #[test]
    fn traffic_counts_from_the_start_and_occupancy_is_a_level() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::under(root.path());
        let features = "llc_occupancy\nmbm_total_bytes\n";
        write(root.path(), "sys/fs/resctrl/info/L3_MON/mon_features", features);
        write(root.path(), "sys/fs/resctrl/mon_groups/keep", "");
        let group = MonGroup::create(&source).unwrap();
        group.admit(&Scope::Child(77), &source).unwrap();
        assert_eq!(fs::read_to_string(group.folder.join("tasks")).unwrap(), "77\n");
        let set = |domain: &str, counter: &str, value: &str| {
            write(&group.folder, &format!("mon_data/{domain}/{counter}"), value);
        };
        set("mon_L3_00", "mbm_total_bytes", "1000\n");
        set("mon_L3_01", "mbm_total_bytes", "50\n");
        set("mon_L3_00", "llc_occupancy", "4096\n");
        let mut traffic = Monitor::new(0, "traffic", "mbm_total_bytes", &source).unwrap();
        let mut level = Monitor::new(1, "occupancy", "llc_occupancy", &source).unwrap();
        traffic.start(&group);
        level.start(&group);
        set("mon_L3_00", "mbm_total_bytes", "1640\n");
        traffic.stop(&group);
        set("mon_L3_00", "mbm_total_bytes", "9999\n");
        traffic.start(&group);
        set("mon_L3_00", "mbm_total_bytes", "10000\n");
        let values = |monitor: &Monitor| -> Vec<_> {
            monitor.read(&group).into_iter().map(|part| part.value.map(|reading| reading.value)).collect()
        };
        assert_eq!(values(&traffic), [Ok(641), Ok(0)]);
        assert_eq!(values(&level), [Ok(4096)]);
        set("mon_L3_01", "mbm_total_bytes", "Unavailable\n");
        let unavailable = Missing::Failed("mon_L3_01/mbm_total_bytes: it says 'Unavailable'".into());
        assert_eq!(values(&traffic), [Ok(641), Err(unavailable)]);
        // resctrl removes a group with its files; here only an empty folder goes.
        let folder = group.folder.clone();
        fs::remove_dir_all(folder.join("mon_data")).unwrap();
        fs::remove_file(folder.join("tasks")).unwrap();
        drop(group);
        assert!(!folder.exists());
    }
}
