//! One traced thread: registers, memory, stops and system calls on its behalf.
//!
//! # Safety
//! Every call hands the kernel a number, or a pointer to a local value that is as large as the kernel wants it and
//! outlives the call. Memory of the other process is reached through `/proc`, never by pointer.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    mem::{MaybeUninit, size_of},
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

/// General registers, as the kernel gives them.
pub(crate) type Registers = libc::user_regs_struct;

const PTRACE_EVENT_STOP: i32 = 128;
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
const PTRACE_SYSEMU: libc::c_uint = 31;
const PTRACE_SYSEMU_SINGLESTEP: libc::c_uint = 32;
const NT_X86_XSTATE: usize = 0x202;

/// How a stopped thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// Until something happens; system calls are stopped at and never executed.
    WithoutCalls,
    /// For one instruction; system calls are never executed.
    OneStep,
    /// To the next beginning or end of a system call, which is executed.
    ToCall,
}

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// We asked for it, or it is new.
    Asked,
    /// A signal has stopped the whole process.
    Group,
    /// Another event of ptrace.
    Event(i32),
    /// This signal is about to be delivered.
    Signal(i32),
    /// At the beginning or the end of a system call.
    Call,
}

/// Why there is no stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// It is gone.
    #[error("the thread has ended")]
    Ended,
    /// It did not stop in time.
    #[error("the thread did not stop in time")]
    Late,
    /// A signal came, and waits to be delivered.
    #[error("signal {0} came meanwhile")]
    Signal(i32),
    /// The whole process was stopped.
    #[error("the process was stopped by a signal")]
    Group,
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// After "cannot".
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl TraceError {
    fn system(what: &'static str) -> Self {
        let source = io::Error::last_os_error();
        if source.raw_os_error() == Some(libc::ESRCH) {
            return Self::Ended;
        }
        Self::System { what, source }
    }
}

/// A thread that we trace, or are about to.
#[derive(Debug)]
pub(crate) struct Tracee {
    tid: i32,
    memory: File,
}

fn request(
    what: &'static str,
    request: libc::c_uint,
    tid: i32,
    at: usize,
    data: usize,
) -> Result<i64, TraceError> {
    // SAFETY: callers hand in numbers, or the address of a value that is large enough and outlives the call.
    let done = unsafe { libc::ptrace(request, tid, at, data) };
    if done == -1 { Err(TraceError::system(what)) } else { Ok(done) }
}

impl Tracee {
    /// Attaches to a thread without stopping it. A copy that it is made to clone will be attached, too.
    pub fn seize(tid: i32) -> Result<Self, TraceError> {
        let memory = Self::open(tid)?;
        let options =
            (libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACESYSGOOD) as usize;
        request("attach", libc::PTRACE_SEIZE, tid, 0, options)?;
        Ok(Self { tid, memory })
    }

    /// A thread that the kernel has attached to us already.
    pub fn attached(tid: i32) -> Result<Self, TraceError> {
        Ok(Self { tid, memory: Self::open(tid)? })
    }

    fn open(tid: i32) -> Result<File, TraceError> {
        let opened = File::options().read(true).write(true).open(format!("/proc/{tid}/mem"));
        opened.map_err(|source| TraceError::System { what: "open its memory", source })
    }

    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// From now on it is killed when we are. For copies only.
    pub fn bind_to_us(&self) -> Result<(), TraceError> {
        let options = (libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD) as usize;
        request("bind the copy to us", libc::PTRACE_SETOPTIONS, self.tid, 0, options).map(drop)
    }

    /// Asks for a stop; [`wait`](Self::wait) has it.
    pub fn interrupt(&self) -> Result<(), TraceError> {
        request("stop the thread", libc::PTRACE_INTERRUPT, self.tid, 0, 0).map(drop)
    }

    /// Goes on from a stop, with this signal delivered (0: none).
    pub fn resume(&self, motion: Motion, signal: i32) -> Result<(), TraceError> {
        let how = match motion {
            Motion::WithoutCalls => PTRACE_SYSEMU,
            Motion::OneStep => PTRACE_SYSEMU_SINGLESTEP,
            Motion::ToCall => libc::PTRACE_SYSCALL,
        };
        request("let the thread go on", how, self.tid, 0, signal as usize).map(drop)
    }

    /// Lets go of a stopped thread, with this signal delivered (0: none).
    pub fn detach(&self, signal: i32) -> Result<(), TraceError> {
        request("let go of the thread", libc::PTRACE_DETACH, self.tid, 0, signal as usize).map(drop)
    }

    /// The number that came with an event.
    pub fn message(&self) -> Result<u64, TraceError> {
        let mut message = 0u64;
        let at = (&raw mut message) as usize;
        request("read what happened", libc::PTRACE_GETEVENTMSG, self.tid, 0, at).map(|_| message)
    }

    pub fn registers(&self) -> Result<Registers, TraceError> {
        let mut found = MaybeUninit::<Registers>::zeroed();
        request("read registers", libc::PTRACE_GETREGS, self.tid, 0, found.as_mut_ptr() as usize)?;
        // SAFETY: zeros are valid registers, and the kernel has filled them.
        Ok(unsafe { found.assume_init() })
    }

    pub fn set_registers(&self, registers: &Registers) -> Result<(), TraceError> {
        let at = std::ptr::from_ref(registers) as usize;
        request("write registers", libc::PTRACE_SETREGS, self.tid, 0, at).map(drop)
    }

    /// Floating-point and vector state, in the layout of `xsave`.
    pub fn vectors(&self) -> Result<Vec<u8>, TraceError> {
        let mut bytes = vec![0u8; 16 << 10];
        let mut slot = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let at = (&raw mut slot) as usize;
        request("read vector registers", libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, at)?;
        bytes.truncate(slot.iov_len);
        Ok(bytes)
    }

    pub fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let count = self.memory.read_at(&mut bytes, at).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }

    pub fn read_words(&self, at: u64, count: usize) -> Vec<u64> {
        let bytes = self.read(at, 8 * count);
        bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), TraceError> {
        let done = self.memory.write_all_at(bytes, at);
        done.map_err(|source| TraceError::System { what: "write to its memory", source })
    }

    pub fn write_word(&self, at: u64, word: u64) -> Result<(), TraceError> {
        self.write(at, &word.to_le_bytes())
    }

    /// Waits for a stop. The end of a thread is never taken away from whoever else waits for it.
    pub fn wait(&self, longest: Duration) -> Result<Stop, TraceError> {
        let began = Instant::now();
        loop {
            if let Some(stop) = self.poll(libc::WNOHANG)? {
                return Ok(stop);
            }
            let spent = began.elapsed();
            if spent > longest {
                return Err(TraceError::Late);
            }
            // Most stops come within microseconds. Where others want the processor, sleeping gets it back sooner than
            // waiting in turn.
            if spent > Duration::from_micros(30) {
                if spent > Duration::from_millis(5) && self.is_gone() {
                    return Err(TraceError::Ended);
                }
                std::thread::sleep(Duration::from_micros(20));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Waits for a stop that comes at once, of a copy: nothing but us can hold it up.
    pub fn wait_for_step(&self) -> Result<Stop, TraceError> {
        loop {
            if let Some(stop) = self.poll(libc::WEXITED | libc::WNOWAIT)? {
                // Its end stays to be reaped, its stop must not.
                return match stop {
                    Stop::Event(_) if self.is_gone() => Err(TraceError::Ended),
                    _ => self.poll(libc::WNOHANG)?.ok_or(TraceError::Ended),
                };
            }
        }
    }

    /// Takes note of its end, which its parent, or the rest of its process, waits for until we have.
    pub fn hear_end(&self, longest: Duration) {
        let began = Instant::now();
        while began.elapsed() < longest && matches!(self.poll(libc::WEXITED | libc::WNOHANG), Ok(None)) {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn poll(&self, more: i32) -> Result<Option<Stop>, TraceError> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WSTOPPED | libc::__WALL | more;
        // SAFETY: the value outlives the call; zeros are a valid one.
        let (done, info) = unsafe {
            (
                libc::waitid(libc::P_PID, self.tid.cast_unsigned(), info.as_mut_ptr(), options),
                info.assume_init(),
            )
        };
        if done == -1 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(None),
                Some(libc::ECHILD) => Err(TraceError::Ended),
                _ => Err(TraceError::System { what: "wait for the thread", source: error }),
            };
        }
        // SAFETY: what waitid fills has these fields.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(None);
        }
        Ok(Some(match (status >> 8, status & 0xff) {
            (PTRACE_EVENT_STOP, libc::SIGTRAP) => Stop::Asked,
            (PTRACE_EVENT_STOP, _) => Stop::Group,
            (0, SYSCALL_STOP) => Stop::Call,
            (0, signal) => Stop::Signal(signal),
            (event, _) => Stop::Event(event),
        }))
    }

    /// Dead, or a zombie.
    fn is_gone(&self) -> bool {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.tid)) else { return true };
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }

    /// Has the stopped thread execute one system call at the `syscall` instruction at `site`, and puts its registers
    /// back. Gives what the call gave, and the thread that it began, if it did.
    pub fn call(
        &self,
        site: u64,
        number: u64,
        arguments: [u64; 6],
        longest: Duration,
    ) -> Result<Called, TraceError> {
        let before = self.registers()?;
        let mut registers = before;
        (registers.rip, registers.rax, registers.orig_rax) = (site, number, u64::MAX);
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        self.set_registers(&registers)?;
        let done = self.through_call(longest);
        match self.set_registers(&before) {
            Err(TraceError::Ended) => Err(TraceError::Ended),
            _ => done,
        }
    }

    fn through_call(&self, longest: Duration) -> Result<Called, TraceError> {
        let (mut begun, mut calls) = (None, 0);
        loop {
            self.resume(Motion::ToCall, 0)?;
            match self.wait(longest)? {
                Stop::Call => calls += 1,
                Stop::Event(_) => begun = i32::try_from(self.message()?).ok(),
                Stop::Signal(signal) if calls == 0 => return Err(TraceError::Signal(signal)),
                Stop::Group if calls == 0 => return Err(TraceError::Group),
                // Within the call nothing is delivered; what we asked for ourselves means nothing.
                Stop::Asked | Stop::Signal(_) | Stop::Group => {}
            }
            if calls == 2 {
                return Ok(Called { value: self.registers()?.rax.cast_signed(), begun });
            }
        }
    }
}

/// What a system call gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    /// Its result, negative if it failed.
    pub value: i64,
    /// The process it began.
    pub begun: Option<i32>,
}

/// Kills a process and waits until it is gone.
pub(crate) fn kill_and_reap(pid: i32) {
    // SAFETY: numbers only; the copy is ours, so its number cannot have gone to another.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        let mut status = 0;
        while libc::waitpid(pid, &raw mut status, libc::__WALL) == pid && libc::WIFSTOPPED(status) {}
    }
}

/// Ticks of the time stamp counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The offset of a part of the vector state, and its length, by the processor's own description.
pub(crate) fn vector_part(component: u32) -> Option<(usize, usize)> {
    let found = core::arch::x86_64::__cpuid_count(0xd, component);
    (found.eax > 0).then_some((found.ebx as usize, found.eax as usize))
}

const _: () = assert!(size_of::<usize>() == 8, "registers are handed over as numbers");
