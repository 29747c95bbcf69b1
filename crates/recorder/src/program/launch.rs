//! Starting the program so that sampling can be set up before its first instruction.
//!
//! The child waits at a gate (a pipe) until events are open on it, then executes the program; if that fails, the
//! error comes back through a second pipe, which a successful exec closes.
//!
//! # Safety
//! Between `fork` and `execve` the child makes only system calls that are async-signal-safe, on memory prepared before
//! the fork: nothing is allocated, locked or dropped there, and it leaves by `execve` or `_exit`.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsStr, OsString},
    fs::OpenOptions,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::pipe::{PipeFlags, pipe_with};

use super::signals::SignalMask;

/// The signals that were ignored when this process began, a bit each: the program must get what we got.
static WERE_IGNORED: AtomicU64 = AtomicU64::new(0);

/// The standard descriptors that were closed when this process began, a bit each: Rust's start-up code opens them, and the program
/// must not get what we did not.
static WERE_CLOSED: AtomicU64 = AtomicU64::new(0);

const STANDARD: [RawFd; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

/// Signals of Linux, from 1 on.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// Runs before `main` and before Rust's start-up code, which ignores SIGPIPE and opens what is closed.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_INHERITED: extern "C" fn() = note_inherited;

extern "C" fn note_inherited() {
    // SAFETY: asks only.
    let is_closed = |number: &RawFd| unsafe { libc::fcntl(*number, libc::F_GETFD) } == -1;
    let closed = STANDARD.into_iter().filter(is_closed).fold(0, |all, number| all | 1 << number);
    WERE_CLOSED.store(closed, Ordering::Relaxed);
    let ignored = SIGNALS.filter(|signal| is_ignored(*signal)).fold(0, |all, signal| all | bit(signal));
    // ATOMICS: nothing else runs yet.
    WERE_IGNORED.store(ignored, Ordering::Relaxed);
    // While it is ignored, the kernel throws exit codes away.
    dispose(libc::SIGCHLD, libc::SIG_DFL);
    // A recording that grows beyond the largest file allowed is an error to be told, not our end.
    dispose(libc::SIGXFSZ, libc::SIG_IGN);
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What the kernel calls `struct sigaction`: the C library's refuses the signals it uses itself.
#[repr(C)]
#[derive(Default)]
struct Disposition {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Ignores a signal or lets it do what it does by default. Async-signal-safe.
fn dispose(signal: i32, handler: libc::sighandler_t) {
    let new = Disposition { handler, ..Disposition::default() };
    // SAFETY: `new` lives as long as the call, nothing is written, and the size of a mask is eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const new, 0, size_of::<u64>()) };
}

/// Gives every signal the disposition it had when this process began; handlers do not outlive an exec. Async-signal-safe.
fn restore_dispositions() {
    let ignored = WERE_IGNORED.load(Ordering::Relaxed);
    for signal in SIGNALS {
        dispose(signal, if ignored & bit(signal) != 0 { libc::SIG_IGN } else { libc::SIG_DFL });
    }
}

/// Whether this process ignores a signal.
pub fn is_ignored(signal: i32) -> bool {
    let mut old = Disposition::default();
    // SAFETY: asks only; `old` is what the kernel writes.
    let asked = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, 0, &raw mut old, size_of::<u64>()) };
    asked == 0 && old.handler == libc::SIG_IGN
}

/// Where what a program writes to its standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramOutput {
    /// To ours.
    #[default]
    Stdout,
    /// To our standard error: ours is for something else.
    Stderr,
    /// Nobody wants it.
    Nowhere,
}

/// A program found, with its arguments.
#[derive(Debug)]
pub struct LaunchedProgram {
    /// Files to try, in the order of `PATH`.
    files: Vec<CString>,
    output: ProgramOutput,
    arguments: Vec<CString>,
    /// For a text file without `#!`, as shells do it: `/bin/sh FILE ARGUMENTS`.
    shell_arguments: Vec<CString>,
}

/// Why there is no such program.
#[derive(Debug)]
pub enum NotFound {
    /// No file of that name.
    Missing,
    /// A file, but it may not be executed.
    Forbidden(io::Error),
}

impl LaunchedProgram {
    /// Looks for the program as shells do.
    pub fn find(command: &[OsString]) -> Result<Self, NotFound> {
        let name = command.first().filter(|name| !name.is_empty()).ok_or(NotFound::Missing)?;
        let paths: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
            vec![PathBuf::from(name)]
        } else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
            std::env::split_paths(&path).map(|folder| folder.join(name)).collect()
        };
        let mut forbidden = None;
        let mut files = Vec::new();
        for path in paths {
            match executable(&path) {
                Ok(()) => files.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => forbidden = forbidden.or(Some(error)),
            }
        }
        if files.is_empty() {
            return Err(forbidden.map_or(NotFound::Missing, NotFound::Forbidden));
        }
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| NotFound::Missing);
        let arguments = command.iter().map(|argument| text(argument)).collect::<Result<Vec<_>, _>>()?;
        let shell_arguments = [c"/bin/sh".to_owned(), text(files[0].as_os_str())?];
        let shell_arguments = shell_arguments.into_iter().chain(arguments.iter().skip(1).cloned()).collect();
        let files = files.iter().map(|file| text(file.as_os_str())).collect::<Result<_, _>>()?;
        Ok(Self { files, output: ProgramOutput::default(), arguments, shell_arguments })
    }

    /// The same with its standard output there.
    #[must_use]
    pub fn printing_to(self, output: ProgramOutput) -> Self {
        Self { output, ..self }
    }

    /// The file that will most likely be executed.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.files.first().map_or(&[], |file| file.to_bytes())))
    }

    /// Forks a child that waits at the gate. `mask` is the signal mask the program gets.
    pub fn fork(&self, mask: &SignalMask) -> io::Result<Child> {
        self.fork_with(mask, &[])
    }

    /// The same, with variables that are set beside our own environment, or instead of ours.
    pub fn fork_with(&self, mask: &SignalMask, variables: &[(OsString, OsString)]) -> io::Result<Child> {
        self.fork_redirected(mask, variables, &[])
    }

    /// The same, with descriptors of ours in the place of others: each is a pair of ours and the number the program knows it
    /// by, such as 1 for its output.
    pub fn fork_redirected(
        &self,
        mask: &SignalMask,
        variables: &[(OsString, OsString)],
        redirected: &[(BorrowedFd<'_>, RawFd)],
    ) -> io::Result<Child> {
        let nowhere = match self.output {
            ProgramOutput::Nowhere => Some(OpenOptions::new().write(true).open("/dev/null")?),
            ProgramOutput::Stdout | ProgramOutput::Stderr => None,
        };
        let output = match self.output {
            ProgramOutput::Stdout => None,
            ProgramOutput::Stderr => Some(libc::STDERR_FILENO),
            ProgramOutput::Nowhere => nowhere.as_ref().map(|file| file.as_raw_fd()),
        };
        let redirected = redirected.iter().map(|(ours, theirs)| (ours.as_raw_fd(), *theirs));
        let redirected: Vec<(RawFd, RawFd)> =
            output.map(|ours| (ours, libc::STDOUT_FILENO)).into_iter().chain(redirected).collect();
        let (gate_out, gate_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error_out, error_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let environment: Vec<CString> = std::env::vars_os()
            .filter(|(key, _)| !variables.iter().any(|(other, _)| key == other))
            .chain(variables.iter().cloned())
            .filter_map(|(key, value)| {
                CString::new([key.into_vec(), b"=".to_vec(), value.into_vec()].concat()).ok()
            })
            .collect();
        let prepared = Prepared {
            files: self.files.iter().map(|file| file.as_ptr()).collect(),
            arguments: pointers(&self.arguments),
            shell_arguments: pointers(&self.shell_arguments),
            environment: pointers(&environment),
            gate: gate_out.as_raw_fd(),
            gate_of_parent: gate_in.as_raw_fd(),
            errors: error_in.as_raw_fd(),
            redirected: &redirected,
            mask,
        };
        // Keeps the function above in the program.
        std::hint::black_box(&NOTE_INHERITED);
        // SAFETY: the child runs only `Prepared::run`, which keeps to what the module's documentation promises.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: in the child, once, with pointers into memory that the fork copied.
            0 => unsafe { prepared.run() },
            pid => Ok(Child { pid, gate: Some(gate_in), errors: error_out }),
        }
    }
}

fn executable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// All that the child needs, laid out before the fork.
struct Prepared<'a> {
    files: Vec<*const libc::c_char>,
    arguments: Vec<*const libc::c_char>,
    shell_arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    gate: RawFd,
    gate_of_parent: RawFd,
    errors: RawFd,
    /// What of ours becomes which descriptor of the program.
    redirected: &'a [(RawFd, RawFd)],
    mask: &'a SignalMask,
}

impl Prepared<'_> {
    /// # Safety
    /// Only in a child just forked. Every pointer leads to a text that ends with 0, every list but `files` ends with a
    /// null pointer.
    unsafe fn run(&self) -> ! {
        // SAFETY: all of these are async-signal-safe; descriptors are the child's own copies, and the buffers live on
        // its stack.
        unsafe {
            // Else the gate would stay open when the parent dies.
            libc::close(self.gate_of_parent);
            restore_dispositions();
            self.mask.set();
            let mut byte = 0_u8;
            loop {
                match libc::read(self.gate, (&raw mut byte).cast(), 1) {
                    1 => break,
                    -1 if *libc::__errno_location() == libc::EINTR => {}
                    // The parent is gone or gave up: nobody waits for the program.
                    _ => libc::_exit(126),
                }
            }
            let is_there = self.redirected.iter().all(|&(ours, theirs)| libc::dup2(ours, theirs) >= 0);
            self.close_what_was_closed();
            let error = if is_there { self.execute() } else { *libc::__errno_location() };
            libc::write(self.errors, (&raw const error).cast(), size_of::<i32>());
            libc::_exit(127)
        }
    }

    /// Async-signal-safe.
    fn close_what_was_closed(&self) {
        let closed = WERE_CLOSED.load(Ordering::Relaxed);
        for number in STANDARD {
            if closed & (1 << number) != 0 && self.redirected.iter().all(|(_, theirs)| *theirs != number) {
                // SAFETY: in the child, where nobody uses them.
                unsafe { libc::close(number) };
            }
        }
    }

    /// Gives the error number if nothing could be executed.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn execute(&self) -> i32 {
        let mut worst = libc::ENOENT;
        for &file in &self.files {
            // SAFETY: as the caller promises; on success these do not come back.
            let error = unsafe {
                libc::execve(file, self.arguments.as_ptr(), self.environment.as_ptr());
                *libc::__errno_location()
            };
            match error {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = error,
                libc::ENOEXEC => {
                    // SAFETY: as above.
                    return unsafe {
                        libc::execve(
                            c"/bin/sh".as_ptr(),
                            self.shell_arguments.as_ptr(),
                            self.environment.as_ptr(),
                        );
                        error
                    };
                }
                _ => return error,
            }
        }
        worst
    }
}

/// A child that waits at the gate.
#[derive(Debug)]
pub struct Child {
    /// Its number, which is also the program's.
    pub pid: i32,
    gate: Option<OwnedFd>,
    errors: OwnedFd,
}

impl Child {
    /// Lets it execute its program; gives the error if that failed. Either way the caller has to wait for it.
    pub fn go(&mut self) -> io::Result<()> {
        if let Some(gate) = self.gate.take() {
            match std::fs::File::from(gate).write_all(&[1]) {
                // Killed at the gate; waiting for it will tell.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                done => done?,
            }
        }
        let mut number = [0; 4];
        let mut errors = std::fs::File::from(self.errors.try_clone()?);
        match errors.read_exact(&mut number) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
            // Closed by exec.
            Err(_) => Ok(()),
        }
    }
}
