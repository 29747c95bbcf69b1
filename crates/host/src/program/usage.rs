//! Waiting for the program, and what the kernel says it used.
//!
//! # Safety
//! `wait4` writes into two local values that are as large as it wants them.
#![allow(unsafe_code)]

use std::{io, mem::MaybeUninit};

use record::run::{Ending, Usage};

/// How the program ended, if it did: an answer at once, or with `block` when it ends. `Err`: it is no child of ours.
pub(crate) fn wait(pid: i32, block: bool) -> io::Result<Option<(Ending, Usage)>> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    let options = if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: both values outlive the call; zeros are a valid usage.
        let (found, usage) =
            unsafe { (libc::wait4(pid, &mut status, options, usage.as_mut_ptr()), usage.assume_init()) };
        return match found {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            _ if libc::WIFEXITED(status) => Ok(Some((Ending::Exited(libc::WEXITSTATUS(status)), of(&usage)))),
            _ if libc::WIFSIGNALED(status) => {
                Ok(Some((Ending::Signalled(libc::WTERMSIG(status)), of(&usage))))
            }
            // Stopped or continued, which was not asked for.
            _ => Ok(None),
        };
    }
}

fn of(usage: &libc::rusage) -> Usage {
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    let time = |time: libc::timeval| positive(time.tv_sec) * 1_000_000_000 + positive(time.tv_usec) * 1000;
    Usage {
        user_ns: time(usage.ru_utime),
        system_ns: time(usage.ru_stime),
        peak_resident_bytes: positive(usage.ru_maxrss) * 1024,
        minor_faults: positive(usage.ru_minflt),
        major_faults: positive(usage.ru_majflt),
        voluntary_switches: positive(usage.ru_nvcsw),
        involuntary_switches: positive(usage.ru_nivcsw),
    }
}
