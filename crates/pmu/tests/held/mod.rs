//! A program that waits before its first instruction, so that its events can be opened first.
//!
//! # Safety
//! Between `fork` and `exec` the child only closes, writes and reads descriptors it was given, which is allowed there.
#![allow(unsafe_code)]

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, id},
    thread::{self, JoinHandle},
};

/// A child that was forked and has not called `exec` yet. Dropped without [`Held::release`], it ends.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    go: io::PipeWriter,
    spawning: JoinHandle<io::Result<Child>>,
}

impl Held {
    /// Forks. An error to run the program itself comes from [`Held::release`].
    pub fn new(mut command: Command) -> io::Result<Self> {
        let (mut ready, tell_ready) = io::pipe()?;
        let (wait, go) = io::pipe()?;
        let (tell, wait_fd, far_end) = (tell_ready.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
        // SAFETY: the closure calls only what may be called in a forked child; its descriptors live in the thread
        // below until `exec` is done.
        unsafe { command.pre_exec(move || hold(tell, wait_fd, far_end)) };
        // `spawn` returns when the child has called `exec`, so it must wait beside us.
        let spawning = thread::Builder::new().name("spawn".into()).spawn(move || {
            let child = command.spawn();
            drop((tell_ready, wait));
            child
        })?;
        let mut pid = [0; 4];
        match ready.read_exact(&mut pid) {
            Ok(()) => Ok(Self { pid: u32::from_ne_bytes(pid), go, spawning }),
            // It could not even be forked, or died at once; `spawn` knows why.
            Err(error) => Err(join(spawning).err().unwrap_or(error)),
        }
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it run its program.
    pub fn release(self) -> io::Result<Child> {
        let Self { mut go, spawning, .. } = self;
        go.write_all(&[1])?;
        join(spawning)
    }
}

fn join(spawning: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    spawning.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the program panicked")))
}

/// In the child: says who it is and waits.
fn hold(tell: RawFd, wait: RawFd, far_end: RawFd) -> io::Result<()> {
    let pid = id().to_ne_bytes();
    let mut byte = [0u8; 1];
    // SAFETY: the descriptors were copied by `fork`; our copy of the pipe's far end must go, or the pipe would never
    // end with the parent. Buffers outlive the calls.
    let answered = unsafe {
        libc::close(far_end);
        if libc::write(tell, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
            return Err(io::Error::last_os_error());
        }
        loop {
            let length = libc::read(wait, byte.as_mut_ptr().cast(), 1);
            if length >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break length;
            }
        }
    };
    if answered == 1 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_then_runs() {
        let held = Held::new(Command::new("true")).unwrap();
        assert_ne!(held.pid(), id());
        let exe = std::fs::read_link(format!("/proc/{}/exe", held.pid())).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap(), "still a copy of this program");
        let pid = held.pid();
        let mut child = held.release().unwrap();
        assert_eq!(child.id(), pid);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_program_that_is_not_there_and_one_that_is_let_go() {
        let held = Held::new(Command::new("/no/such/program")).unwrap();
        assert_eq!(held.release().unwrap_err().kind(), io::ErrorKind::NotFound);
        let Held { go, spawning, .. } = Held::new(Command::new("true")).unwrap();
        drop(go);
        assert_eq!(join(spawning).unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    }
}
