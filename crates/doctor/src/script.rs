//! A machine made of files, a scripted kernel and a scripted system, for the tests of the rows.
//!
//! # Safety
//! One thread gives up its file-system user id, which touches no memory.
#![allow(unsafe_code)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use machine::{
    Bytes, Topology,
    topology::{CoreKind, Cpu, MemoryNode},
};
use pmu::{
    Errno, EventTarget, KernelEvent, Live, OpenCounter,
    scripted::{Behaviour, Scripted, ScriptedRequest},
};
use record::doctor::{Capability, CapabilityState};

use super::{LiveSystem, Patient, System};

/// A machine under the test's control. As made: one CPU, no PMU listed, every event refused with `ENOENT`.
pub(super) struct Script {
    root: tempfile::TempDir,
    pub topology: Topology,
    pub kernel: Scripted,
    pub system: ScriptedSystem,
}

impl Script {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut script = Self {
            root,
            topology: Topology::default(),
            kernel: Scripted::new(|_| Err(Errno(libc::ENOENT))),
            system: ScriptedSystem::default(),
        };
        script.cpus(1);
        script.write("proc/sys/kernel/perf_event_paranoid", "2\n");
        script
    }

    pub fn patient(&self) -> Patient<'_> {
        Patient {
            root: self.root.path(),
            topology: &self.topology,
            kernel: &self.kernel,
            system: &self.system,
        }
    }

    /// Answers every open with `answer`.
    pub fn kernel(
        &mut self,
        answer: impl Fn(ScriptedRequest<'_>) -> Result<Behaviour, Errno> + Send + Sync + 'static,
    ) {
        self.kernel = Scripted::new(answer);
    }

    pub fn refuse_everything(&mut self, errno: i32) {
        self.kernel(move |_| Err(Errno(errno)));
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    /// Nobody but root may read it.
    pub fn forbid(&self, path: &str) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o000)).unwrap();
    }

    /// Nobody but root may write to it.
    pub fn forbid_writing(&self, path: &str) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o555)).unwrap();
    }

    /// Lists a PMU in sysfs.
    pub fn pmu(&self, name: &str, kind: u32, files: &[(&str, &str)]) {
        let folder = format!("sys/bus/event_source/devices/{name}");
        self.write(&format!("{folder}/type"), &format!("{kind}\n"));
        for (file, text) in files {
            self.write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
    }

    /// Gives the machine this many CPUs, one per core.
    pub fn cpus(&mut self, count: u32) {
        self.topology.cpus = (0..count).map(cpu).collect();
    }

    /// Gives the machine this many nodes.
    pub fn nodes(&mut self, count: u32) {
        let node = |id| MemoryNode {
            id,
            cpus: machine::CpuSet::default(),
            memory: Some(Bytes::gib(1)),
            distances: Vec::new(),
        };
        self.topology.nodes = (0..count).map(node).collect();
    }
}

fn cpu(id: u32) -> Cpu {
    Cpu {
        id,
        socket: None,
        die: None,
        core: None,
        node: None,
        siblings: [id].into_iter().collect(),
        kind: CoreKind::Uniform,
    }
}

/// A system that answers as told. As made: everything works, the hugetlb pool is empty.
pub(super) struct ScriptedSystem {
    pub run: fn(u32) -> Result<u32, Errno>,
    pub bind: fn(u32) -> Result<u32, Errno>,
    pub transparent: Result<Bytes, Errno>,
    pub pooled: Result<(), Errno>,
    pinned: Mutex<Vec<u32>>,
}

impl Default for ScriptedSystem {
    fn default() -> Self {
        Self {
            run: Ok,
            bind: Ok,
            transparent: Ok(Bytes::mib(2)),
            pooled: Err(Errno(libc::ENOMEM)),
            pinned: Mutex::default(),
        }
    }
}

impl ScriptedSystem {
    /// CPUs pinned to since the last question.
    pub fn pinned(&self) -> Vec<u32> {
        std::mem::take(&mut self.pinned.lock().unwrap())
    }
}

impl System for ScriptedSystem {
    fn run_on(&self, cpu: u32, work: &mut (dyn FnMut() + Send)) -> Result<u32, Errno> {
        self.pinned.lock().unwrap().push(cpu);
        let landed = (self.run)(cpu)?;
        work();
        Ok(landed)
    }

    fn transparent_huge_pages(&self, _page: Bytes) -> Result<Bytes, Errno> {
        self.transparent
    }

    fn pooled_huge_page(&self) -> Result<(), Errno> {
        self.pooled
    }

    fn bind_page(&self, node: u32) -> Result<u32, Errno> {
        (self.bind)(node)
    }
}

/// Runs `work` on a thread that root's right to open every file does not reach.
pub(super) fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            // SAFETY: changes one id of this thread only; without the right to do so it changes nothing, and then
            // the files' modes already apply to us.
            unsafe { libc::setfsuid(65534) };
            work()
        });
        nobody.join().unwrap()
    })
}

/// The CPUs we may run on, as a machine of which nothing else is known.
pub(super) fn this_machine() -> Topology {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let ids = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&id| allowed.is_set(id));
    Topology { cpus: ids.map(|id| cpu(id as u32)).collect(), ..Default::default() }
}

/// The machine this test runs on.
pub(super) fn live(topology: &Topology) -> Patient<'_> {
    Patient { root: Path::new("/"), topology, kernel: &Live, system: &LiveSystem }
}

/// Tries a row on this machine. Where `event` opens the row must be found and pass `check`; where the kernel refuses
/// it, the row must say so with the same errno.
pub(super) fn live_or_refused(
    event: &KernelEvent,
    row: fn(Patient<'_>) -> Capability,
    check: impl FnOnce(&Capability),
) {
    let topology = this_machine();
    let opened = OpenCounter::open(&Live, event, EventTarget::ThisThread).map(drop);
    let row = row(live(&topology));
    match opened {
        Ok(()) => {
            assert_eq!(row.state, CapabilityState::Found, "{row:?}");
            check(&row);
        }
        Err(errno) => {
            assert_ne!(row.state, CapabilityState::Found, "{row:?}");
            assert_eq!(row.state == CapabilityState::Blocked, errno.is_permission(), "{errno}: {row:?}");
            assert!(row.detail.contains(&errno.to_string()), "{errno}: {row:?}");
        }
    }
}
