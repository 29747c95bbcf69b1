//! Signals that reach memwall while the program runs, and the mask the program gets.
//!
//! Signals are blocked and read from a descriptor, so no handler is installed and the program inherits every
//! disposition as we got it; only the mask is set back for it.
//!
//! # Safety
//! Signal sets are initialised before they are used; the descriptor is owned.
#![allow(unsafe_code)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    time::Duration,
};

use super::launch::is_ignored;

/// Signals that would end us.
const CAUGHT: [i32; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// A signal mask.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Makes it the mask of this thread. Async-signal-safe.
    pub fn set(&self) {
        // SAFETY: the set is initialised; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// A signal that reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub signal: i32,
    /// The terminal sent it to the whole foreground group: the program has it too.
    pub reached_program: bool,
}

/// Catches signals until dropped.
pub struct CaughtSignals {
    before: SignalMask,
    descriptor: OwnedFd,
}

impl CaughtSignals {
    /// Begins to catch the signals that this process does not ignore.
    pub fn catch() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are written before they are read; the new descriptor is nobody else's.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in CAUGHT.into_iter().filter(|signal| !is_ignored(*signal)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            let before = SignalMask(before.assume_init());
            let descriptor = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                let error = io::Error::last_os_error();
                before.set();
                return Err(error);
            }
            Ok(Self { before, descriptor: OwnedFd::from_raw_fd(descriptor) })
        }
    }

    /// The mask as it was, for the program.
    pub fn mask_before(&self) -> &SignalMask {
        &self.before
    }

    /// The next signal that arrived, if one did.
    pub fn next(&self) -> Option<Arrival> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes, and any bytes are a valid value.
        let info = unsafe {
            let read = libc::read(self.descriptor.as_raw_fd(), info.as_mut_ptr().cast(), size);
            if read != size as isize {
                return None;
            }
            info.assume_init()
        };
        let signal = i32::try_from(info.ssi_signo).ok()?;
        let from_terminal = info.ssi_code == libc::SI_KERNEL;
        // Of a terminal that hangs up, the kernel tells the leader of the session alone.
        let is_ours_alone = signal == libc::SIGHUP && leads_session();
        Some(Arrival { signal, reached_program: from_terminal && !is_ours_alone })
    }

    /// Sleeps until a signal arrives, `process` ends, or the time is over.
    pub fn wait(&self, process: Option<BorrowedFd<'_>>, timeout: Duration) {
        self.wait_for_any(process.as_slice(), timeout);
    }

    /// Sleeps until a signal arrives, one of `processes` ends, or the time is over.
    pub fn wait_for_any(&self, processes: &[BorrowedFd<'_>], timeout: Duration) {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = vec![entry(self.descriptor.as_raw_fd())];
        entries.extend(processes.iter().map(|process| entry(process.as_raw_fd())));
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the array outlives the call, and its length is given.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout_ms) };
    }
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        // What arrived has been dealt with or comes too late to matter; left pending it would end us now.
        while self.next().is_some() {}
        self.before.set();
    }
}

/// Whether this process leads its session.
fn leads_session() -> bool {
    rustix::process::getsid(None).is_ok_and(|session| session == rustix::process::getpid())
}

/// Sends a signal to a process; one that is gone does not mind.
pub fn send(pid: i32, signal: i32) {
    // SAFETY: takes two numbers. `pid` is positive: never a group.
    unsafe { libc::kill(pid.max(1), signal) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_signal_is_read_and_the_mask_is_put_back() {
        let is_blocked = || {
            let mut now = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: asks for the mask only, which is then initialised.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
                libc::sigismember(now.as_ptr(), libc::SIGUSR1) == 1
            }
        };
        let signals = CaughtSignals::catch().unwrap();
        assert!(is_blocked());
        assert_eq!(signals.next(), None);
        // SAFETY: to this very thread, which blocks it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        signals.wait(None, Duration::from_secs(10));
        assert_eq!(signals.next(), Some(Arrival { signal: libc::SIGUSR1, reached_program: false }));
        drop(signals);
        assert!(!is_blocked());
    }
}
