//! Programs that must not be touched, and the words for it: tried on programs that filter their calls, are traced, are
//! stopped, or belong to whoever may not trace.
//!
//! # Safety
//!
//! Filters are installed by calls that read a program of four instructions, which outlives them.
#![allow(unsafe_code)]

use std::{
    fs, io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    program::{CopyNumbers, ProgramThread, TakenCopy},
    ptrace::Tracee,
};

/// A program that computes until it is killed.
struct Busy(Child);

impl Busy {
    fn start(command: &mut Command) -> Self {
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        let busy = Self(command.spawn().unwrap());
        let own = fs::read_link("/proc/self/exe").unwrap();
        // Before it is the shell it is us.
        let exe = format!("/proc/{}/exe", busy.pid());
        let maps = format!("/proc/{}/maps", busy.pid());
        let is_whole = || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("[vdso]"));
        assert!(eventually(|| fs::read_link(&exe).is_ok_and(|exe| exe != own) && is_whole()));
        busy
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn thread(&self) -> ProgramThread {
        ProgramThread { pid: self.pid(), tid: self.pid() }
    }

    fn signal(&self, number: i32) {
        // SAFETY: numbers only, and nobody has waited for the child yet.
        assert_eq!(unsafe { libc::kill(self.pid(), number) }, 0);
    }

    /// As the kernel says: R runs, S sleeps, T is stopped by a signal, t by a tracer.
    fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn is_copied(&self) -> bool {
        eventually(|| self.copy().is_ok())
    }

    fn copy(&self) -> Result<TakenCopy, ReliefRefusal> {
        self.thread().take_copy(&CopyNumbers::default(), |_| true)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The kernel refuses tracing to the calling thread, and to whatever it starts, from now on: as Yama or a container would.
fn refuse_tracing() -> io::Result<()> {
    let [load, equal, give] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET,
    ]
    .map(|code| u16::try_from(code).unwrap_or(0));
    let step = |code: u16, jf: u8, k: u32| libc::sock_filter { code, jt: 0, jf, k };
    let filter = [
        step(load, 0, 0),
        step(equal, 1, libc::SYS_ptrace as u32),
        step(give, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(give, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program outlives the calls, and the kernel only reads it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn a_program_that_filters_its_calls_is_left_alone() {
    let mut command = Command::new("sh");
    // SAFETY: the child calls the kernel and nothing else.
    unsafe { command.pre_exec(refuse_tracing) };
    let busy = Busy::start(&mut command);
    assert_eq!(busy.copy().err().map(|refused| refused.barrier), Some(ReliefBarrier::Seccomp));
}

#[test]
fn who_may_not_trace_is_told_so() {
    let busy = Busy::start(&mut Command::new("sh"));
    let refused = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            // Of this thread alone: others may go on tracing.
            refuse_tracing().unwrap();
            let mut last = None;
            eventually(|| {
                last = busy.copy().err();
                last.as_ref().is_some_and(|refused| refused.barrier != ReliefBarrier::NotThere)
            });
            last
        });
        asked.join().unwrap()
    });
    assert_eq!(refused.map(|refused| refused.barrier), Some(ReliefBarrier::TracingDenied));
    assert!(busy.is_copied(), "others may");
}

#[test]
fn a_program_that_another_traces_is_left_alone() {
    let busy = Busy::start(&mut Command::new("sh"));
    let tracee = Tracee::seize(busy.pid()).unwrap();
    assert_eq!(busy.copy().err().map(|refused| refused.barrier), Some(ReliefBarrier::TracedAlready));
    drop(busy);
    drop(tracee);
}

/// Stopped from its terminal (Ctrl-Z) it stays stopped, whenever the stop came, and goes on when told to.
#[test]
fn a_stop_by_a_signal_is_kept() {
    let busy = Busy::start(&mut Command::new("sh"));
    for _ in 0..20 {
        busy.signal(libc::SIGSTOP);
        // Beside the signal, so that some find the stop before it happens and some while it does.
        let found = busy.copy();
        let mut barrier = found.err().map(|refused| refused.barrier);
        assert!(eventually(|| busy.state() == 'T'), "{} after {barrier:?}", busy.state());
        barrier = busy.copy().err().map(|refused| refused.barrier);
        assert!(matches!(barrier, Some(ReliefBarrier::NotThere | ReliefBarrier::Stopped)), "{barrier:?}");
        assert_eq!(busy.state(), 'T');
        busy.signal(libc::SIGCONT);
        assert!(eventually(|| busy.state() == 'R'));
    }
    assert!(busy.is_copied(), "it goes on, and can be copied again");
}
