//! The same program several times at once, each on cores of its own and with events of its own.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use events::{Counting, Scope};
use machine::CpuSet;
use record::run::Ending;
use recorder::program::{
    launch::{Child, ProgramOutput},
    signals::{self, CaughtSignals},
    usage,
};
use rustix::{
    process::Pid,
    thread::{CpuSet as KernelCpuSet, sched_setaffinity},
};

use super::{CountError, Open, Pass, STOPS, TICK, nanos, not_started, pidfd, start, system};

/// Nothing is due but signals and ends.
const FOREVER: Duration = Duration::from_secs(3600);

/// One of the programs, from the gate to its end.
struct CountedCopy<'a> {
    child: Child,
    counting: Option<Box<dyn Counting + 'a>>,
    ends: Option<OwnedFd>,
    pass: Option<Pass>,
    /// It was waited for.
    ended: bool,
}

/// A pass for each of `opens`, all at the same time; `cores` has at least as many.
pub(super) fn at_once(
    command: &[OsString],
    output: ProgramOutput,
    cores: &[CpuSet],
    opens: &mut [&mut Open<'_>],
) -> Result<Vec<Pass>, CountError> {
    let signals = CaughtSignals::catch().map_err(system("catch signals"))?;
    let mut copies = Vec::new();
    for (open, cpus) in opens.iter_mut().zip(cores) {
        let child = start(command, output, &signals)?;
        let (pid, ends) = (child.pid, pidfd(child.pid));
        let mut copy = CountedCopy { child, counting: None, ends, pass: None, ended: false };
        pin(pid, cpus).map_err(system("keep the program on cores of its own"))?;
        copy.counting = Some(open(Scope::Child(u32::try_from(pid).unwrap_or(0)))?);
        copies.push(copy);
    }
    let began = Instant::now();
    for copy in &mut copies {
        copy.counting.iter_mut().try_for_each(|counting| counting.start())?;
        copy.child.go().map_err(|error| not_started(command, &error))?;
    }
    let mut interrupted = false;
    while copies.iter().any(|copy| !copy.ended) {
        let running = || copies.iter().filter(|copy| !copy.ended);
        let watched: Vec<_> = running().filter_map(|copy| copy.ends.as_ref()).map(|fd| fd.as_fd()).collect();
        signals.wait_for_any(&watched, if watched.len() == running().count() { FOREVER } else { TICK });
        while let Some(arrival) = signals.next() {
            interrupted |= STOPS.contains(&arrival.signal);
            if !arrival.reached_program {
                running().for_each(|copy| signals::send(copy.child.pid, arrival.signal));
            }
        }
        copies.iter_mut().try_for_each(|copy| copy.look(began))?;
    }
    let passes = copies.iter_mut().filter_map(|copy| copy.pass.take());
    Ok(passes.map(|pass| Pass { interrupted, ..pass }).collect())
}

impl CountedCopy<'_> {
    /// Reads its counts if it has just ended.
    fn look(&mut self, began: Instant) -> Result<(), CountError> {
        if self.ended {
            return Ok(());
        }
        let (ending, usage) = match usage::wait(self.child.pid, false) {
            Ok(None) => return Ok(()),
            Ok(Some((ending, usage))) => (ending, Some(usage)),
            Err(_) => (Ending::Unknown, None),
        };
        self.ended = true;
        let elapsed_ns = nanos(began.elapsed());
        let (mut counts, mut notes) = (Vec::new(), Vec::new());
        if let Some(mut counting) = self.counting.take() {
            counting.stop()?;
            counts = counting.read()?;
            notes = counting.notes();
        }
        let (ending, readings, interrupted) = (Some(ending), Vec::new(), false);
        self.pass = Some(Pass { elapsed_ns, ending, usage, counts, readings, notes, interrupted });
        Ok(())
    }
}

impl Drop for CountedCopy<'_> {
    /// One that waits at the gate, or runs although counting failed, is not left behind.
    fn drop(&mut self) {
        if !self.ended {
            signals::send(self.child.pid, libc::SIGKILL);
            let _ = usage::wait(self.child.pid, true);
        }
    }
}

/// Keeps a process, and all it starts, on these CPUs.
fn pin(pid: i32, cpus: &CpuSet) -> io::Result<()> {
    let mut set = KernelCpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    Ok(sched_setaffinity(Pid::from_raw(pid), &set)?)
}
