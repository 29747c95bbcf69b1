//! A copy of the program: one thread, its own memory, and no way out. It never executes a system call of the
//! program's, never writes to memory that others see, and is gone when we let go of it.

use std::time::{Duration, Instant};

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    program::{MapRange, maps, refusal},
    ptrace::{Motion, Registers, Stop, TraceError, Tracee, kill_and_reap},
};

const PAGE: u64 = 4096;

/// A step, and a system call of ours, take no longer.
const LONGEST_STEP: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct ProgramCopy {
    tracee: Tracee,
    /// A `syscall` instruction.
    site: u64,
    maps: Vec<MapRange>,
}

impl Drop for ProgramCopy {
    fn drop(&mut self) {
        kill_and_reap(self.tracee.tid());
    }
}

/// How a free run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// At an `int3`.
    Trap,
    /// It wanted the kernel.
    Call,
    /// It faulted.
    Fault(i32),
    /// It was still running, and stands still now.
    Late,
}

impl ProgramCopy {
    /// A process just cloned, which stands still; `registers` are those of the thread it was cloned from.
    pub fn new(number: i32, site: u64, mut registers: Registers) -> Result<Self, ReliefRefusal> {
        let tracee = match Tracee::attached(number) {
            Ok(tracee) => tracee,
            Err(error) => {
                kill_and_reap(number);
                return Err(refusal(error));
            }
        };
        let mut copy = Self { tracee, site, maps: Vec::new() };
        copy.tracee.wait(LONGEST_STEP).map_err(refusal)?;
        copy.tracee.bind_to_us().map_err(refusal)?;
        registers.orig_rax = u64::MAX;
        copy.tracee.set_registers(&registers).map_err(refusal)?;
        copy.maps = maps(number);
        Ok(copy)
    }

    /// Closes all files, so that one the program closes is closed, and takes away the right to write where others would
    /// see it.
    pub fn seal(&self) -> Result<(), ReliefRefusal> {
        self.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
        for range in self.maps.iter().filter(|range| range.is_shared && range.is_writable) {
            let length = range.end - range.start;
            let done =
                self.call(libc::SYS_mprotect, [range.start, length, libc::PROT_READ as u64, 0, 0, 0])?;
            if done < 0 {
                let what = format!("{} cannot be made read-only", range.path);
                return Err(ReliefRefusal::new(ReliefBarrier::SharedWrite, what));
            }
        }
        Ok(())
    }

    pub fn tracee(&self) -> &Tracee {
        &self.tracee
    }

    /// What it had mapped when it was made.
    pub fn maps(&self) -> &[MapRange] {
        &self.maps
    }

    /// A system call of ours.
    pub fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> Result<i64, ReliefRefusal> {
        let called = self.tracee.call(self.site, number.cast_unsigned(), arguments, LONGEST_STEP);
        Ok(called.map_err(refusal)?.value)
    }

    /// Memory that may be written and executed, as near to `address` as there is room.
    pub fn map_near(&mut self, address: u64, bytes: u64) -> Result<u64, ReliefRefusal> {
        let at = gap_near(&self.maps, address, bytes)
            .ok_or_else(|| ReliefRefusal::new(ReliefBarrier::Trouble, "no room near the code"))?;
        let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let given = self.call(libc::SYS_mmap, [at, bytes, rights, how, u64::MAX, 0])?;
        if given.cast_unsigned() != at {
            return Err(ReliefRefusal::new(ReliefBarrier::Trouble, format!("no memory for code ({given})")));
        }
        let own = MapRange {
            start: at,
            end: at + bytes,
            is_writable: true,
            is_executable: true,
            is_shared: false,
            path: String::new(),
        };
        let place = self.maps.partition_point(|range| range.start < at);
        self.maps.insert(place, own);
        Ok(at)
    }

    /// Executes one instruction.
    pub fn step(&self) -> Result<(), ReliefRefusal> {
        loop {
            self.tracee.resume(Motion::OneStep, 0).map_err(refusal)?;
            match self.tracee.wait_for_step().map_err(refusal)? {
                Stop::Signal(libc::SIGTRAP) => return Ok(()),
                Stop::Call => return Err(ReliefBarrier::SystemCall.into()),
                Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)) => {
                    return Err(fault(signal));
                }
                // Meant for the program, which gets its own.
                Stop::Signal(_) | Stop::Group | Stop::Asked | Stop::Event(_) => {}
            }
        }
    }

    /// Goes on until it traps, faults, calls the kernel, or time is over.
    pub fn run(&self, longest: Duration) -> Result<RunEnd, ReliefRefusal> {
        let began = Instant::now();
        loop {
            self.tracee.resume(Motion::WithoutCalls, 0).map_err(refusal)?;
            let stop = match self.tracee.wait(longest.saturating_sub(began.elapsed())) {
                Err(TraceError::Late) => {
                    self.tracee.interrupt().map_err(refusal)?;
                    let stop = self.tracee.wait(LONGEST_STEP).map_err(refusal)?;
                    if matches!(stop, Stop::Asked | Stop::Group) {
                        return Ok(RunEnd::Late);
                    }
                    stop
                }
                stop => stop.map_err(refusal)?,
            };
            match stop {
                Stop::Signal(libc::SIGTRAP) => return Ok(RunEnd::Trap),
                Stop::Call => return Ok(RunEnd::Call),
                Stop::Signal(signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)) => {
                    return Ok(RunEnd::Fault(signal));
                }
                Stop::Signal(_) | Stop::Group | Stop::Asked | Stop::Event(_) => {}
            }
        }
    }
}

/// What a fault in a copy means: only memory that others see was taken away.
pub(crate) fn fault(signal: i32) -> ReliefRefusal {
    ReliefRefusal::new(ReliefBarrier::OtherEnd, format!("signal {signal}"))
}

/// The beginning of `bytes` of free address space nearest to `address`, with some distance to what is there.
fn gap_near(maps: &[MapRange], address: u64, bytes: u64) -> Option<u64> {
    const LOWEST: u64 = 1 << 16;
    const HIGHEST: u64 = 0x7fff_ffff_0000;
    const MARGIN: u64 = 16 * PAGE;
    let mut before = LOWEST;
    let mut found: Option<u64> = None;
    let ends = maps.iter().map(|range| (range.start, range.end)).chain([(HIGHEST, HIGHEST)]);
    for (start, end) in ends.filter(|(start, _)| *start <= HIGHEST) {
        if start > before && start - before >= bytes + 2 * MARGIN {
            for at in [before + MARGIN, start - bytes - MARGIN] {
                if found.is_none_or(|found| at.abs_diff(address) < found.abs_diff(address)) {
                    found = Some(at & !(PAGE - 1));
                }
            }
        }
        before = before.max(end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> MapRange {
        let path = String::new();
        MapRange { start, end, is_writable: false, is_executable: true, is_shared: false, path }
    }

    #[test]
    fn room_is_found_beside_the_code() {
        let maps = [range(0x40_0000, 0x50_0000), range(0x7000_0000_0000, 0x7000_0010_0000)];
        let at = gap_near(&maps, 0x40_1000, 1 << 20).unwrap();
        assert!(at >= 0x50_0000 || at + (1 << 20) <= 0x40_0000, "{at:#x}");
        assert!(at.abs_diff(0x40_1000) < 1 << 22, "{at:#x}");
        let high = gap_near(&maps, 0x7000_0008_0000, 1 << 20).unwrap();
        assert!(high.abs_diff(0x7000_0000_0000) < 1 << 22, "{high:#x}");
    }

    #[test]
    fn a_full_space_has_no_room() {
        assert_eq!(gap_near(&[range(0, 0x7fff_ffff_0000)], 0x1000, 4096), None);
    }
}
