//! The natural time of a turn from whole passes: the copy runs a loop from its beginning to its end, on all of its data,
//! again and again, as a program does that passes over its data repeatedly.

use std::time::{Duration, Instant};

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    arena::Arenas,
    copy::{ProgramCopy, RunEnd, fault},
    kept::LoopCode,
    operands::general,
    program::{ProgramThread, refusal},
    ptrace::Registers,
    replay::middle,
    stretch::{Stretch, approach},
    stub::{Stub, start_of},
};

/// A longer pass is not waited for.
const LONGEST_PASS: Duration = Duration::from_millis(250);

/// All passes together take about as long as this.
const ALL_PASSES_NS: f64 = 30e6;

/// From the end of one pass to the beginning of the next there are no more steps.
const LONGEST_WAY: usize = 6000;

/// Shorter passes are not timed by themselves.
const FEWEST_TURNS: u64 = 4;

/// Passes that break pages apart and fill the caches.
const WARMING: usize = 3;

/// The program stands still for about as long while passes are timed, if it may.
const HELD_NS: f64 = 4e6;

/// A copy that has not ended by then is not waited for while the program stands still.
const LONGEST_HELD: Duration = Duration::from_millis(40);

/// Passes that take longer are timed in the program itself.
pub(crate) const LONG_PASS_NS: f64 = 400e3;

/// A pass takes up to this much longer in a copy: its end is guessed wrongly, it begins with nothing under way, and what is done
/// between two passes there takes lines from the first cache. Seen at -20 to 40 ns on one make of core, and at 70 to 230 on
/// another.
const EDGES_NS: f64 = 250.0;

/// What passes showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PassTimes {
    /// Turns of a pass.
    pub turns: u64,
    /// Nanoseconds of a turn.
    pub turn_ns: f64,
    /// How far passes differ, as a part of it.
    pub spread: f64,
}

impl PassTimes {
    /// The part of a pass that beginning and ending it in the copy may take, beyond what an empty one does.
    pub fn edges(&self) -> f64 {
        EDGES_NS / self.pass_ns().max(EDGES_NS)
    }

    /// Nanoseconds of a pass.
    pub fn pass_ns(&self) -> f64 {
        self.turn_ns * self.turns as f64
    }
}

/// Runs passes in a copy that stands at the end of a stretch.
pub(crate) struct Passes<'a> {
    copy: &'a mut ProgramCopy,
    arenas: &'a mut Arenas,
    ticks_per_ns: f64,
    /// Whose copy it is, and for how long it may stand still.
    program: ProgramThread,
    allowed: Duration,
    /// For how long it did.
    pub paused: Duration,
    limit: Duration,
}

impl<'a> Passes<'a> {
    /// In a copy of a program that may stand still for so long.
    pub fn new(
        copy: &'a mut ProgramCopy,
        arenas: &'a mut Arenas,
        ticks_per_ns: f64,
        program: ProgramThread,
        allowed: Duration,
    ) -> Self {
        Self { copy, arenas, ticks_per_ns, program, allowed, paused: Duration::ZERO, limit: LONGEST_PASS }
    }

    /// Times passes of the loop that the stretch is from.
    pub fn time(&mut self, stretch: &Stretch) -> Result<PassTimes, ReliefRefusal> {
        let code = LoopCode::of(stretch)
            .ok_or_else(|| ReliefRefusal::new(ReliefBarrier::NoTurnTime, "its jumps cannot be moved"))?;
        let mark = stretch.start.rip;
        match self.leave_loop(stretch, &code) {
            Err(refused) if refused.barrier == ReliefBarrier::NoTurnTime => {
                return self.part_of_pass(stretch, &code);
            }
            left => left?,
        }
        match approach(self.copy, mark, LONGEST_WAY) {
            // The program does something else between passes: what the rest of one took will do.
            Err(refused) if refused.barrier == ReliefBarrier::SystemCall => {
                return self.part_of_pass(stretch, &code);
            }
            reached => reached?,
        }
        let start = self.copy.tracee().registers().map_err(refusal)?;
        let vectors = self.copy.tracee().vectors().map_err(refusal)?;
        let stub = Stub::write(self.copy, self.arenas, &vectors, std::iter::empty())?;
        let counting = self.arenas.write(self.copy, &code.lay_out(&stub, None, true)?)?;
        let plain = self.arenas.write(self.copy, &code.lay_out(&stub, None, false)?)?;
        let turns = self.count(&stub, &start, counting)?;
        if turns < FEWEST_TURNS {
            return Err(ReliefRefusal::new(ReliefBarrier::NoTurnTime, format!("passes of {turns} turns")));
        }
        let empty = self.repeat(&stub, &start, stub.end, 64)?;
        let first = self.repeat(&stub, &start, plain, 1)?;
        let pass_ns = first.first().map_or(1.0, |ticks| *ticks as f64 / self.ticks_per_ns).max(1.0);
        let times = self.timed(&stub, &start, plain, pass_ns)?;
        if self.count(&stub, &start, counting)? != turns {
            return Err(ReliefRefusal::new(ReliefBarrier::NoTurnTime, "passes differ in length"));
        }
        let times = &times[WARMING..];
        let (pass, around) = (middle(times), middle(&empty));
        let turn_ns = (pass - around).max(0.0) / turns as f64 / self.ticks_per_ns;
        Ok(PassTimes { turns, turn_ns, spread: spread(times) })
    }

    /// Repeats a pass while the program stands still: its data are the copy's, and two that go through the same lines take them
    /// from each other's caches, which is slower than either alone.
    fn timed(
        &mut self,
        stub: &Stub,
        start: &Registers,
        entry: u64,
        pass_ns: f64,
    ) -> Result<Vec<u64>, ReliefRefusal> {
        let often = |all_ns: f64| ((all_ns / pass_ns) as usize).clamp(WARMING + 3, 400);
        let (few, many) = (often(HELD_NS), often(ALL_PASSES_NS));
        let is_allowed = few as f64 * pass_ns < self.allowed.as_nanos() as f64 / 2.0;
        if pass_ns > LONG_PASS_NS || !is_allowed {
            return self.repeat(stub, start, entry, many);
        }
        let held = self.program.hold();
        let began = Instant::now();
        self.limit = LONGEST_HELD;
        let times = self.repeat(stub, start, entry, few);
        self.limit = LONGEST_PASS;
        // One that does not run takes nothing away either.
        if held.is_ok() {
            drop(held);
            self.paused += began.elapsed();
        }
        times
    }

    /// Goes on from the end of the stretch to where the loop is left, and on from there in the program's own code.
    fn leave_loop(&mut self, stretch: &Stretch, code: &LoopCode) -> Result<(), ReliefRefusal> {
        let (_, flags) = start_of(&stretch.start);
        let end = stretch.at_turn.last().copied().unwrap_or_else(|| general(&stretch.start));
        let vectors = self.copy.tracee().vectors().map_err(refusal)?;
        let stub = Stub::write(self.copy, self.arenas, &vectors, std::iter::empty())?;
        let entry = self.arenas.write(self.copy, &code.lay_out(&stub, None, false)?)?;
        stub.set_start(self.copy, &end, flags)?;
        self.run(&stub, &stretch.start, entry, 1)?;
        let found = stub.ends(self.copy).zip(stub.way_out(self.copy));
        let (ends, (flags, way)) = found.ok_or(ReliefBarrier::NoTurnTime)?;
        let out = *code.ways_out().get(way).ok_or(ReliefBarrier::NoTurnTime)?;
        let mut registers = with_general(stretch.start, &ends);
        (registers.rip, registers.orig_rax) = (out, u64::MAX);
        registers.eflags = registers.eflags & !0xcd5 | flags;
        self.copy.tracee().set_registers(&registers).map_err(refusal)
    }

    /// Of a pass that is not waited for, or that no other follows: turns in a while of processor time.
    fn part_of_pass(&mut self, stretch: &Stretch, code: &LoopCode) -> Result<PassTimes, ReliefRefusal> {
        const WHILE: Duration = Duration::from_millis(60);
        let (_, flags) = start_of(&stretch.start);
        let end = stretch.at_turn.last().copied().unwrap_or_else(|| general(&stretch.start));
        let vectors = self.copy.tracee().vectors().map_err(refusal)?;
        let stub = Stub::write(self.copy, self.arenas, &vectors, std::iter::empty())?;
        let entry = self.arenas.write(self.copy, &code.lay_out(&stub, None, true)?)?;
        stub.set_start(self.copy, &end, flags)?;
        stub.arm(self.copy, &stretch.start, entry, 1)?;
        let number = self.copy.tracee().tid();
        let clock = ProgramThread { pid: number, tid: number };
        let began_ns = clock.processor_ns().unwrap_or(0);
        let ended = self.copy.run(WHILE)?;
        let (turns, spent) =
            (stub.count(self.copy), clock.processor_ns().unwrap_or(0).saturating_sub(began_ns));
        const LEAST_NS: u64 = 1_000_000;
        let is_timed = matches!(ended, RunEnd::Late | RunEnd::Trap) && spent >= LEAST_NS;
        if !is_timed || turns == 0 {
            return Err(ReliefRefusal::new(ReliefBarrier::NoTurnTime, "no pass could be timed"));
        }
        // The pass is at least this long, and what it takes to count is in it.
        Ok(PassTimes { turns: turns.max(1 << 20), turn_ns: spent as f64 / turns as f64, spread: 0.2 })
    }

    fn count(&self, stub: &Stub, start: &Registers, entry: u64) -> Result<u64, ReliefRefusal> {
        self.repeat(stub, start, entry, 1)?;
        Ok(stub.count(self.copy))
    }

    fn repeat(
        &self,
        stub: &Stub,
        start: &Registers,
        entry: u64,
        repetitions: usize,
    ) -> Result<Vec<u64>, ReliefRefusal> {
        let (registers, flags) = start_of(start);
        stub.set_start(self.copy, &registers, flags)?;
        self.run(stub, start, entry, repetitions)?;
        Ok(stub.times(self.copy))
    }

    fn run(
        &self,
        stub: &Stub,
        like: &Registers,
        entry: u64,
        repetitions: usize,
    ) -> Result<(), ReliefRefusal> {
        stub.arm(self.copy, like, entry, repetitions)?;
        match self.copy.run(self.limit)? {
            RunEnd::Trap => Ok(()),
            RunEnd::Late => Err(ReliefRefusal::new(ReliefBarrier::NoTurnTime, "a pass takes long")),
            RunEnd::Call => Err(ReliefBarrier::SystemCall.into()),
            RunEnd::Fault(libc::SIGSEGV) => {
                Err(ReliefRefusal::new(ReliefBarrier::SharedWrite, "within a pass"))
            }
            RunEnd::Fault(signal) => Err(fault(signal)),
        }
    }
}

/// Registers with the general ones replaced.
fn with_general(mut registers: Registers, general: &[u64; 16]) -> Registers {
    let r = &mut registers;
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15,
    ] = *general;
    registers
}

/// Distance between quartiles as a part of the median.
fn spread(times: &[u64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or(0) as f64;
    (at(3) - at(1)) / at(2).max(1.0)
}
