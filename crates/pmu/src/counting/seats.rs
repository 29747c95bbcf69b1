//! Whom a scope means: one seat per thread or CPU on which each event is opened.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::fd::AsFd,
    rc::Rc,
};

use events::{CountRefusal, CountedPlace, Scope};
use machine::{CpuSet, Source};

use crate::{Errno, EventTarget, KernelEvent, LinuxKernel, OpenCounter};

/// One thread or CPU, on which every event of the target is opened.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    target: EventTarget,
    /// The open directory of the control group to which counting on a CPU is narrowed.
    cgroup: Option<Rc<File>>,
    /// What its values are called when they are kept apart.
    pub place: CountedPlace,
    /// Children count as well.
    pub inherits: bool,
    /// Counting begins with the target's `exec`.
    pub on_exec: bool,
}

impl Seat {
    /// Everything on a CPU, for a box that is read there.
    pub fn on_cpu(cpu: u32, place: CountedPlace) -> Self {
        Self { target: EventTarget::Cpu(cpu), cgroup: None, place, inherits: false, on_exec: false }
    }

    /// The calling thread.
    pub fn this_thread() -> Self {
        let tid = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        Self {
            target: EventTarget::ThisThread,
            cgroup: None,
            place: CountedPlace::Thread(tid),
            inherits: false,
            on_exec: false,
        }
    }

    fn thread(tid: u32, on_exec: bool) -> Self {
        let target = EventTarget::Thread(i32::try_from(tid).unwrap_or(i32::MAX));
        Self { target, cgroup: None, place: CountedPlace::Thread(tid), inherits: true, on_exec }
    }

    /// Opens an event here, alone or in a group.
    pub fn open<'k>(
        &self,
        kernel: &'k dyn LinuxKernel,
        event: &KernelEvent,
        leader: Option<&OpenCounter<'k>>,
    ) -> Result<OpenCounter<'k>, Errno> {
        match (self.cgroup.as_ref().zip(self.cpu()), leader) {
            (None, None) => OpenCounter::open(kernel, event, self.target),
            (None, Some(leader)) => leader.join(event, self.target),
            (Some((folder, cpu)), None) => OpenCounter::open_in_cgroup(kernel, event, folder.as_fd(), cpu),
            (Some((folder, cpu)), Some(leader)) => leader.join_in_cgroup(event, folder.as_fd(), cpu),
        }
    }

    /// The CPU it is bound to.
    pub fn cpu(&self) -> Option<u32> {
        match self.target {
            EventTarget::Cpu(cpu) | EventTarget::ThreadOnCpu { cpu, .. } => Some(cpu),
            EventTarget::ThisThread | EventTarget::Thread(_) => None,
        }
    }

    /// Only the calling thread may read its counters without the kernel.
    pub fn is_this_thread(&self) -> bool {
        self.target == EventTarget::ThisThread
    }

    /// Everything on a CPU is looked at, not just our own threads.
    pub fn is_wide(&self) -> bool {
        matches!(self.target, EventTarget::Cpu(_))
    }
}

/// The seats of a scope as they are now.
pub(super) fn seats(scope: &Scope, source: &Source) -> Result<Vec<Seat>, CountRefusal> {
    let failed = |what: String, reason: String| CountRefusal::Failed { what, reason };
    match scope {
        Scope::ThisThread => Ok(vec![Seat::this_thread()]),
        Scope::Thread(tid) => Ok(vec![Seat { inherits: false, ..Seat::thread(*tid, false) }]),
        Scope::Child(pid) => Ok(vec![Seat::thread(*pid, true)]),
        Scope::Process(pid) => {
            let threads = threads(*pid, source).map_err(|error| {
                let errno = Errno::from(error);
                let reason = if matches!(errno.0, libc::ENOENT | libc::ESRCH) {
                    "there is no such process; it may have ended".to_owned()
                } else {
                    format!("its threads cannot be listed: {errno}")
                };
                failed(format!("attaching to process {pid}"), reason)
            })?;
            Ok(threads.into_iter().map(|tid| Seat::thread(tid, false)).collect())
        }
        Scope::Cpus(cpus) => {
            check_cpus(cpus)?;
            Ok(cpus.iter().map(|cpu| Seat::on_cpu(cpu, CountedPlace::Cpu(cpu))).collect())
        }
        Scope::Cgroup(path, cpus) => {
            check_cpus(cpus)?;
            let folder = cgroup(path, source)
                .map_err(|reason| failed(format!("counting for control group {path}"), reason))?;
            let folder = Rc::new(folder);
            let seat =
                |cpu| Seat { cgroup: Some(Rc::clone(&folder)), ..Seat::on_cpu(cpu, CountedPlace::Cpu(cpu)) };
            Ok(cpus.iter().map(seat).collect())
        }
    }
}

fn check_cpus(cpus: &CpuSet) -> Result<(), CountRefusal> {
    if cpus.is_empty() {
        return Err(CountRefusal::Failed {
            what: "counting on CPUs".into(),
            reason: "the list of CPUs is empty; name at least one".into(),
        });
    }
    Ok(())
}

/// The threads of a process right now.
pub(super) fn threads(pid: u32, source: &Source) -> io::Result<BTreeSet<u32>> {
    let mut threads = BTreeSet::new();
    for entry in fs::read_dir(source.root().join(format!("proc/{pid}/task")))? {
        threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// Where a control group may be found: the unified hierarchy, then version 1's `perf_event` controller.
const CGROUP_MOUNTS: [&str; 3] = ["sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/perf_event"];

fn cgroup(path: &str, source: &Source) -> Result<File, String> {
    let path = path.trim_matches('/');
    if path.split('/').any(|part| part == "..") {
        return Err("the path must stay below the cgroup mount; write it without '..'".into());
    }
    // Where `perf_event` is a controller of version 1, only its hierarchy is understood.
    let first = usize::from(source.exists(CGROUP_MOUNTS[2])) * 2;
    let mounts = CGROUP_MOUNTS[first..].iter().chain(&CGROUP_MOUNTS[..first]);
    let mut last = None;
    for mount in mounts {
        let folder = source.root().join(mount).join(path);
        match File::open(&folder) {
            Ok(folder) if folder.metadata().is_ok_and(|data| data.is_dir()) => return Ok(folder),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => last = Some(Errno::from(error)),
        }
    }
    Err(match last {
        Some(errno) => format!("its directory cannot be opened: {errno}"),
        None => format!("there is no '{path}' below /sys/fs/cgroup; `systemd-cgls` lists what there is"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(scope: &Scope, source: &Source) -> String {
        seats(scope, source).unwrap_err().to_string()
    }

    #[test]
    fn scopes_of_a_fake_tree() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::under(root.path());
        for folder in ["proc/70/task/70", "proc/70/task/71", "sys/fs/cgroup/system.slice"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let places = |scope: &Scope| -> Vec<CountedPlace> {
            seats(scope, &source).unwrap().into_iter().map(|seat| seat.place).collect()
        };
        assert_eq!(places(&Scope::Process(70)), [CountedPlace::Thread(70), CountedPlace::Thread(71)]);
        let cpus: CpuSet = "1-2".parse().unwrap();
        assert_eq!(places(&Scope::Cpus(cpus.clone())), [CountedPlace::Cpu(1), CountedPlace::Cpu(2)]);
        assert_eq!(places(&Scope::Cgroup("/system.slice".into(), cpus.clone())).len(), 2);
        assert!(words(&Scope::Process(72), &source).contains("no such process"));
        assert!(words(&Scope::Cpus(CpuSet::default()), &source).contains("list of CPUs is empty"));
        assert!(words(&Scope::Cgroup("none".into(), cpus.clone()), &source).contains("systemd-cgls"));
        assert!(words(&Scope::Cgroup("../x".into(), cpus), &source).contains("without '..'"));
    }
}
