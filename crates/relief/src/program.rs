//! The running program: what is known of it before anything is done to it, and the one thing that is done, a copy.

use std::{
    collections::HashSet,
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    copy::ProgramCopy,
    ptrace::{Registers, Stop, TraceError, Tracee},
};

/// Numbers of copies that were ever made. Held while one is made, so that whoever reads of a new process learns first
/// whether it is one of ours.
pub type CopyNumbers = Arc<Mutex<HashSet<i32>>>;

/// A stop comes within this time, or something is wrong.
const LONGEST_STOP: Duration = Duration::from_millis(100);

/// System calls that end with EINTR when a thread is stopped and goes on, though no signal came (signal(7)).
const NOT_RESTARTED: [u64; 10] = [
    libc::SYS_epoll_wait as u64,
    libc::SYS_epoll_pwait as u64,
    libc::SYS_epoll_pwait2 as u64,
    libc::SYS_semop as u64,
    libc::SYS_semtimedop as u64,
    libc::SYS_rt_sigtimedwait as u64,
    libc::SYS_io_getevents as u64,
    libc::SYS_msgsnd as u64,
    libc::SYS_msgrcv as u64,
    libc::SYS_io_uring_enter as u64,
];

/// A stretch of address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapRange {
    pub start: u64,
    pub end: u64,
    pub is_writable: bool,
    pub is_executable: bool,
    pub is_shared: bool,
    pub path: String,
}

impl MapRange {
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Code of a file, or of the kernel's own page.
    pub fn is_lasting_code(&self) -> bool {
        let is_of_file = self.path.starts_with('/') && !self.path.starts_with("/memfd:");
        let is_sealed = self.path.is_empty() && !self.is_writable;
        self.is_executable && (is_of_file || is_sealed || self.path == "[vdso]")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            is_writable: rights.contains('w'),
            is_executable: rights.contains('x'),
            is_shared: rights.ends_with('s'),
            path: words.nth(3).unwrap_or_default().trim_start().to_owned(),
        })
    }
}

/// What a process has mapped.
pub(crate) fn maps(pid: i32) -> Vec<MapRange> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(MapRange::parse).collect()
}

/// A number of `/proc/PID/status`, in the base given.
fn status(text: &str, key: &str, base: u32) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    u64::from_str_radix(line.split_whitespace().next()?, base).ok()
}

/// One thread of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramThread {
    pub pid: i32,
    pub tid: i32,
}

/// A thread that stands still, for as short as we can.
pub(crate) struct HeldThread {
    tracee: Tracee,
    signal: i32,
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        if self.tracee.detach(self.signal).is_ok() {
            return;
        }
        // Not stopped: it must be, to be let go of.
        for _ in 0..50 {
            if self.tracee.interrupt().is_err() {
                break;
            }
            let stopped = self.tracee.wait(LONGEST_STOP);
            let signal = if let Ok(Stop::Signal(signal)) = stopped { signal } else { self.signal };
            if self.tracee.detach(signal).is_ok() {
                return;
            }
            if matches!(stopped, Err(TraceError::Ended)) {
                break;
            }
        }
        // The end of our own child is for whoever of us waits for it; of any other nobody hears before we have.
        let text = fs::read_to_string(format!("/proc/{}/status", self.tracee.tid())).unwrap_or_default();
        let is_ours = status(&text, "PPid", 10) == Some(u64::from(std::process::id()))
            && status(&text, "Tgid", 10) == u64::try_from(self.tracee.tid()).ok();
        if !is_ours {
            self.tracee.hear_end(LONGEST_STOP);
        }
    }
}

/// A copy, and how long the program stood still for it.
pub(crate) struct TakenCopy {
    pub copy: ProgramCopy,
    pub pause: Duration,
}

impl ProgramThread {
    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/task/{}/{file}", self.pid, self.tid)).unwrap_or_default()
    }

    /// Why it must not be touched.
    pub fn barrier(&self) -> Result<(), ReliefRefusal> {
        let text = self.read("status");
        if text.is_empty() {
            return Err(ReliefBarrier::Ended.into());
        }
        if let Some(tracer) = status(&text, "TracerPid", 10).filter(|tracer| *tracer != 0) {
            return Err(ReliefRefusal::new(ReliefBarrier::TracedAlready, format!("process {tracer}")));
        }
        match status(&text, "Seccomp", 10) {
            Some(mode) if mode != 0 => Err(ReliefBarrier::Seccomp.into()),
            _ => Ok(()),
        }
    }

    /// Processor time it has had.
    pub fn processor_ns(&self) -> Option<u64> {
        self.read("schedstat").split_whitespace().next()?.parse().ok()
    }

    /// Page faults of the process that needed no disk.
    pub fn page_faults(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        text.rsplit_once(") ")?.1.split(' ').nth(7)?.parse().ok()
    }

    /// No other thread of its process runs now. Takes a few milliseconds where there are any.
    pub fn is_alone(&self) -> bool {
        const A_MOMENT: Duration = Duration::from_millis(5);
        let Some(before) = self.sleepers() else { return false };
        if before.is_empty() {
            return true;
        }
        std::thread::sleep(A_MOMENT);
        self.sleepers().is_some_and(|after| after == before)
    }

    /// The other threads with the time each was on a processor so far; none if one is there now.
    fn sleepers(&self) -> Option<Vec<(i32, u64)>> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let slept = |tid: i32| {
            let thread = Self { pid: self.pid, tid };
            let ran_ns = thread.read("schedstat").split(' ').next()?.parse().ok()?;
            (!thread.is_running()).then_some((tid, ran_ns))
        };
        let mut found = tids.filter(|tid| *tid != self.tid).map(slept).collect::<Option<Vec<_>>>()?;
        found.sort_unstable();
        Some(found)
    }

    /// On a processor or ready for one: not within a system call that a stop would disturb.
    fn is_running(&self) -> bool {
        let text = self.read("stat");
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
    }

    /// Nothing is left of it but its number.
    fn has_ended(&self) -> bool {
        let text = self.read("stat");
        text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }

    fn is_our_child(&self) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status(&text, "PPid", 10) == Some(u64::from(std::process::id()))
    }

    /// Stops the thread.
    pub fn hold(&self) -> Result<(HeldThread, Registers), ReliefRefusal> {
        self.barrier()?;
        if !self.is_running() {
            return Err(ReliefBarrier::NotThere.into());
        }
        // One that has just ended is refused in the same words as one that is not ours.
        let tracee = Tracee::seize(self.tid).map_err(|error| match self.has_ended() {
            true => ReliefBarrier::Ended.into(),
            false => denied(error),
        })?;
        let mut held = HeldThread { tracee, signal: 0 };
        held.tracee.interrupt().map_err(refusal)?;
        match held.tracee.wait(LONGEST_STOP).map_err(refusal)? {
            Stop::Signal(signal) => {
                held.signal = signal;
                return Err(ReliefBarrier::NotThere.into());
            }
            Stop::Group => return Err(ReliefBarrier::Stopped.into()),
            Stop::Asked | Stop::Event(_) | Stop::Call => {}
        }
        let registers = held.tracee.registers().map_err(refusal)?;
        if registers.orig_rax.cast_signed() >= 0 {
            self.mend_call(&held.tracee, registers).map_err(refusal)?;
            return Err(ReliefBarrier::NotThere.into());
        }
        Ok((held, registers))
    }

    /// Has a system call begin again that our stop, and nothing else, has ended.
    fn mend_call(&self, tracee: &Tracee, mut registers: Registers) -> Result<(), TraceError> {
        let was_cut = registers.rax.cast_signed() == -i64::from(libc::EINTR);
        let text = self.read("status");
        let bits = |key| status(&text, key, 16).unwrap_or(u64::MAX);
        let is_awaited = (bits("SigPnd") | bits("ShdPnd")) & !bits("SigBlk") != 0;
        if was_cut && NOT_RESTARTED.contains(&registers.orig_rax) && !is_awaited {
            registers.rax = registers.orig_rax;
            registers.rip -= 2;
            registers.orig_rax = u64::MAX;
            tracee.set_registers(&registers)?;
        }
        Ok(())
    }

    /// Where the thread is, and what processor time it has had; it stands still only to be asked.
    pub fn spot(&self) -> Result<(Registers, u64, Duration), ReliefRefusal> {
        let began = Instant::now();
        let (held, registers) = self.hold()?;
        let spent = self.processor_ns().ok_or(ReliefBarrier::Ended)?;
        drop(held);
        Ok((registers, spent, began.elapsed()))
    }

    /// Makes a copy of the process with this thread alone, if the thread is where `is_there` says.
    pub fn take_copy(
        &self,
        numbers: &CopyNumbers,
        is_there: impl FnOnce(u64) -> bool,
    ) -> Result<TakenCopy, ReliefRefusal> {
        let site = call_site(self.pid)?;
        // Our own child's sibling is ours: nobody else can wait for it. Any other's copy is a child without a signal at
        // its end, which only a wait for clones sees; and as long as it is traced, none does.
        let flags = if self.is_our_child() { libc::CLONE_PARENT as u64 } else { 0 };
        let began = Instant::now();
        let (mut held, registers) = self.hold()?;
        // Whoever has executed another program since has it elsewhere.
        if !is_there(registers.rip) || !is_call(self.pid, site) {
            return Err(ReliefBarrier::NotThere.into());
        }
        let mut numbers = numbers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A stack nobody has: were we killed now, the copy would fall at its first step.
        const NO_STACK: u64 = 8;
        let called =
            held.tracee.call(site, libc::SYS_clone as u64, [flags, NO_STACK, 0, 0, 0, 0], LONGEST_STOP);
        let called = match called {
            Err(TraceError::Signal(signal)) => {
                // A fault is of our own making, and none of the program's business.
                let is_fault = matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGTRAP);
                held.signal = if is_fault { 0 } else { signal };
                return Err(ReliefBarrier::NotThere.into());
            }
            other => other.map_err(refusal)?,
        };
        // A signal came first: the kernel would have the call begin again, we look again later.
        const BEGIN_AGAIN: std::ops::RangeInclusive<i64> = -516..=-512;
        if BEGIN_AGAIN.contains(&called.value) {
            return Err(ReliefBarrier::NotThere.into());
        }
        let Some(number) = called.begun.filter(|_| called.value > 0) else {
            let reason = std::io::Error::from_raw_os_error(i32::try_from(-called.value).unwrap_or(0));
            return Err(ReliefRefusal::new(ReliefBarrier::CopyDenied, reason.to_string()));
        };
        numbers.insert(number);
        drop(numbers);
        let copy = ProgramCopy::new(number, site, registers);
        drop(held);
        Ok(TakenCopy { copy: copy?, pause: began.elapsed() })
    }
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether a `syscall` instruction is there in the program that a process executes now.
fn is_call(pid: i32, site: u64) -> bool {
    let mut bytes = [0; 2];
    let memory = fs::File::open(format!("/proc/{pid}/mem"));
    let read = memory.and_then(|memory| std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, site));
    read.is_ok() && bytes == SYSCALL
}

/// The address of a `syscall` instruction of a process.
fn call_site(pid: i32) -> Result<u64, ReliefRefusal> {
    let ranges = maps(pid);
    if ranges.is_empty() {
        return Err(ReliefBarrier::Ended.into());
    }
    let vdso = ranges.iter().find(|range| range.path == "[vdso]");
    let range = vdso.ok_or_else(|| ReliefRefusal::new(ReliefBarrier::Trouble, "the process has no vDSO"))?;
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
    let memory = fs::File::open(format!("/proc/{pid}/mem")).map_err(|error| match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => ReliefBarrier::Ended.into(),
        _ => ReliefRefusal::new(ReliefBarrier::TracingDenied, error.to_string()),
    })?;
    let count = std::os::unix::fs::FileExt::read_at(&memory, &mut bytes, range.start).unwrap_or(0);
    let found = bytes[..count].windows(2).position(|window| window == SYSCALL);
    let found = found.ok_or_else(|| ReliefRefusal::new(ReliefBarrier::Trouble, "the vDSO calls nobody"))?;
    Ok(range.start + found as u64)
}

fn denied(error: TraceError) -> ReliefRefusal {
    match &error {
        TraceError::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            ReliefRefusal::new(ReliefBarrier::TracingDenied, source.to_string())
        }
        _ => refusal(error),
    }
}

/// What a failure means to whoever wanted a share.
pub(crate) fn refusal(error: TraceError) -> ReliefRefusal {
    match error {
        TraceError::Ended => ReliefBarrier::Ended.into(),
        TraceError::Group => ReliefBarrier::Stopped.into(),
        TraceError::Signal(_) => ReliefBarrier::NotThere.into(),
        TraceError::Late | TraceError::System { .. } => {
            ReliefRefusal::new(ReliefBarrier::Trouble, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let range = MapRange::parse("7f00-7f10 rw-s 00000000 00:05 12   /dev/shm/a b").unwrap();
        assert!(range.is_writable && range.is_shared && !range.is_executable);
        assert_eq!((range.start, range.end, range.path.as_str()), (0x7f00, 0x7f10, "/dev/shm/a b"));
        let code = MapRange::parse("400000-401000 r-xp 00000000 08:01 7 /bin/x").unwrap();
        assert!(code.is_lasting_code());
        let jit = MapRange::parse("400000-401000 rwxp 00000000 00:00 0 ").unwrap();
        assert!(!jit.is_lasting_code() && jit.path.is_empty());
        let sealed = MapRange::parse("400000-401000 r-xp 00000000 00:00 0 ").unwrap();
        let elsewhere = MapRange::parse("400000-401000 r-xs 00000000 00:01 7 /memfd:jit (deleted)").unwrap();
        assert!(sealed.is_lasting_code() && !elsewhere.is_lasting_code());
        assert_eq!(MapRange::parse("nonsense"), None);
    }

    #[test]
    fn threads_that_sleep_contend_for_nothing_and_one_that_runs_may() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let child = std::process::Command::new("sleep").arg("5").spawn();
        let mut child = child.unwrap();
        let pid = child.id().cast_signed();
        assert!(ProgramThread { pid, tid: pid }.is_alone(), "it has one thread");
        child.kill().unwrap();
        child.wait().unwrap();
        let own = ProgramThread { pid: std::process::id().cast_signed(), tid: 0 };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            let is_alone = own.is_alone();
            stop.store(true, Ordering::Relaxed);
            assert!(!is_alone, "a thread of ours runs, and this one does");
        });
    }

    #[test]
    fn one_that_has_just_ended_is_no_refusal() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let thread = ProgramThread { pid, tid: pid };
        let began = Instant::now();
        while !thread.has_ended() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nobody has waited for it yet: it is there, and cannot be traced.
        assert!(Tracee::seize(pid).is_err() && thread.has_ended());
        child.wait().unwrap();
        assert!(thread.has_ended());
        let own = std::process::id().cast_signed();
        assert!(!ProgramThread { pid: own, tid: own }.has_ended());
    }

    /// Waits for an end that comes by itself; a program that hangs is killed and said to.
    fn ends_by_itself(mut program: std::process::Child) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if let Some(status) = program.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        program.kill().unwrap();
        program.wait().unwrap();
        None
    }

    fn shell(script: &str) -> std::process::Child {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap()
    }

    /// The first number that a program prints.
    fn printed(program: &mut std::process::Child) -> i32 {
        let mut line = String::new();
        let out = program.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        line.trim().parse().unwrap()
    }

    /// Nobody but the one who traces it is told of a thread's end, until that one has heard of it.
    #[test]
    fn a_parent_hears_of_a_child_that_ended_while_it_was_held() {
        let mut program = shell("sleep 0.3 & echo $!; wait $!; exit 7");
        let child = printed(&mut program);
        let held = HeldThread { tracee: Tracee::seize(child).unwrap(), signal: 0 };
        let thread = ProgramThread { pid: child, tid: child };
        while !thread.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held);
        assert_eq!(ends_by_itself(program), Some(7));
    }

    /// And the end of our own child stays for whoever waits for it here.
    #[test]
    fn we_hear_of_our_own_child_that_ended_while_it_was_held() {
        // A shell without children: the end of one would stop it.
        let program = shell("n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; exit 9");
        let pid = program.id().cast_signed();
        let held = HeldThread { tracee: Tracee::seize(pid).unwrap(), signal: 0 };
        let thread = ProgramThread { pid, tid: pid };
        while !thread.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held);
        assert_eq!(ends_by_itself(program), Some(9));
    }

    /// What it begins before it stands still is its own.
    #[test]
    fn children_of_one_that_is_about_to_be_held_run_on() {
        let program = shell("sleep 0.2; (exit 3); exit $?");
        let pid = program.id().cast_signed();
        let held = HeldThread { tracee: Tracee::seize(pid).unwrap(), signal: 0 };
        std::thread::sleep(Duration::from_millis(500));
        drop(held);
        assert_eq!(ends_by_itself(program), Some(3));
    }

    #[test]
    fn lines_of_status() {
        let text = "Name:\tx\nTracerPid:\t12\nSigBlk:\t00000000000000ff\n";
        assert_eq!(status(text, "TracerPid", 10), Some(12));
        assert_eq!(status(text, "SigBlk", 16), Some(255));
        assert_eq!(status(text, "Seccomp", 10), None);
    }
}
