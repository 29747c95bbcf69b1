//! A stretch, repeated until its data sits in the first cache: what a turn takes there.

use std::time::Duration;

use iced_x86::Instruction;
use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    arena::Arenas,
    bound::{BoundChange, LoopBound, bound},
    copy::{ProgramCopy, RunEnd, fault},
    kept::LoopCode,
    program::refusal,
    straight::{JumpForm, lay_out},
    stretch::Stretch,
    strides::slope,
    stub::{MOST_REPETITIONS, Stub, start_of},
};

/// Rounds, in each of which every length is run.
const ROUNDS: usize = 11;

/// Rounds lie apart, so that not all of them meet the same disturbance.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(2);

/// Repetitions of a length in a round, the first of which warm up; of short ones there are more, as a clock tells little of each.
const REPETITIONS: usize = 160;
const SHORT_REPETITIONS: usize = MOST_REPETITIONS;
const WARMING: usize = 32;

/// A round takes no longer.
const LONGEST_ROUND: Duration = Duration::from_millis(500);

/// Fewer turns have no slope.
const FEWEST_TURNS: usize = 6;

/// A loop's end that was guessed wrongly: twenty cycles and a few more. It may be known by heart at one length and not at the
/// other.
const WRONG_END_NS: f64 = 6.0;

/// What may stay open of a loop that needs no second look.
const LITTLE: f64 = 0.1;

/// What a turn takes in the first cache, by each layout there is; in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NearTimes {
    /// As the loop itself, ended by its own comparison; and how far that may be off, as a part of it.
    pub kept: Option<(f64, f64)>,
    /// As a straight line with jumps taken.
    pub taken: Option<f64>,
    /// As a straight line with jumps passed by.
    pub passed_by: Option<f64>,
}

impl NearTimes {
    /// The time to believe, and how far the layouts leave it open.
    pub fn best(&self) -> Option<(f64, f64)> {
        let lines = [self.taken, self.passed_by];
        let fastest = lines.into_iter().flatten().min_by(f64::total_cmp);
        let slowest = lines.into_iter().flatten().max_by(f64::total_cmp);
        // A line may be faster than the loop, which takes a jump each turn.
        let line = fastest
            .zip(slowest)
            .map(|(line, slowest)| (line, (0.05 + (slowest - line) / line / 2.0).min(0.3)));
        match (self.kept, line) {
            (Some(kept), Some(line)) if kept.1 > line.1 => Some(between(line, kept)),
            (Some(kept), _) => Some(kept),
            (None, line) => line,
        }
    }

    /// The loop alone tells.
    fn is_told_by_loop(&self) -> bool {
        self.kept.is_some_and(|(_, open)| open <= LITTLE)
    }
}

/// A place to repeat from, and the state it must end in.
struct Repetition {
    entry: u64,
    turns: usize,
    start: [u64; 16],
    end: [u64; 16],
    memory: Option<(u64, Vec<u8>, Vec<u8>)>,
}

/// Repeats stretches in one copy.
pub(crate) struct Replay<'a> {
    pub copy: &'a mut ProgramCopy,
    pub arenas: &'a mut Arenas,
    /// Ticks of the clock per nanosecond.
    pub ticks_per_ns: f64,
}

impl Replay<'_> {
    /// What a turn of the stretch takes with its data in the first cache.
    pub fn near(&mut self, stretch: &Stretch) -> Result<NearTimes, ReliefRefusal> {
        let turns = stretch.turn_count();
        if turns < FEWEST_TURNS {
            let detail = format!("{turns} of {} lines", stretch.lines);
            return Err(ReliefRefusal::new(ReliefBarrier::FewTurns, detail));
        }
        let addresses: Vec<u64> = stretch.steps.iter().map(|step| step.instruction.ip()).collect();
        self.arenas.reach(self.copy, addresses.into_iter())?;
        let stub = Stub::write(self.copy, self.arenas, &stretch.vectors, stretch.written.iter())?;
        let lengths = [turns / 3, turns];
        let mut times = NearTimes::default();
        if let Some(code) = LoopCode::of(stretch) {
            let kept = self.of_kept(stretch, &stub, &code, &lengths)?;
            times.kept = kept.map(|(ns, _)| (ns, wrong_end_open(ns, lengths[1] - lengths[0])));
            // Guessed wrongly at some lengths and not at others, its end would put these off the line of the rest.
            if times.kept.is_some() && !times.is_told_by_loop() {
                let more = [2, 3, 4, 5, 6].map(|sixths| turns * sixths / 6);
                let kept = self.of_kept(stretch, &stub, &code, &more)?;
                times.kept = kept.map(|(ns, spread)| (ns, (0.03 + spread).min(0.3)));
            }
        }
        if !times.is_told_by_loop() {
            times.taken = self.of_line(stretch, &stub, JumpForm::Taken, lengths)?;
            times.passed_by = self.of_line(stretch, &stub, JumpForm::PassedBy, lengths)?;
        }
        Ok(times)
    }

    fn of_line(
        &mut self,
        stretch: &Stretch,
        stub: &Stub,
        form: JumpForm,
        lengths: [usize; 2],
    ) -> Result<Option<f64>, ReliefRefusal> {
        let level = self.arenas.level();
        let (start, flags) = start_of(&stretch.start);
        let mut repetitions = Vec::new();
        for turns in lengths {
            let steps = &stretch.steps[..stretch.turns[turns]];
            let mark = stretch.steps[0].instruction.ip();
            let arenas = &*self.arenas;
            let segments = lay_out(steps, mark, stub.end, form, |address| arenas.cluster(address))?;
            let entry = self.arenas.write(self.copy, &segments)?;
            repetitions.push(Repetition { entry, turns, start, end: stretch.at_turn[turns], memory: None });
        }
        let slope = self.slope(stretch, stub, flags, &repetitions);
        self.arenas.lower(&level);
        slope.map(|(ns, _)| Some(ns))
    }

    /// Nanoseconds of a turn, and how far lengths differ in it. None: nothing simple ends the loop, or it did not end as it should.
    fn of_kept(
        &mut self,
        stretch: &Stretch,
        stub: &Stub,
        code: &LoopCode,
        lengths: &[usize],
    ) -> Result<Option<(f64, f64)>, ReliefRefusal> {
        let level = self.arenas.level();
        let flags = start_of(&stretch.start).1;
        let mut repetitions = Vec::new();
        for turns in lengths.iter().copied() {
            let tracee = self.copy.tracee();
            let Some(found) = bound(code, stretch, turns, |at, bytes| tracee.read(at, bytes)) else {
                return Ok(None);
            };
            let Some(repetition) = self.repetition(stretch, stub, code, turns, &found)? else {
                return Ok(None);
            };
            repetitions.push(repetition);
        }
        let slope = self.slope(stretch, stub, flags, &repetitions);
        self.arenas.lower(&level);
        match slope {
            Ok(slope) => Ok(Some(slope)),
            Err(refused) if matches!(refused.barrier, ReliefBarrier::OtherEnd | ReliefBarrier::FewTurns) => {
                Ok(None)
            }
            Err(refused) => Err(refused),
        }
    }

    fn repetition(
        &mut self,
        stretch: &Stretch,
        stub: &Stub,
        code: &LoopCode,
        turns: usize,
        found: &LoopBound,
    ) -> Result<Option<Repetition>, ReliefRefusal> {
        let mut start = start_of(&stretch.start).0;
        let ends = stretch.steps.get(found.end_step).map(|step| step.before);
        let Some(mut end) = ends.or_else(|| stretch.at_turn.get(turns).copied()) else { return Ok(None) };
        let (mut swapped, mut memory): (Option<Instruction>, _) = (None, None);
        match found.change {
            BoundChange::Register { index, by } => {
                start[index] = start[index].wrapping_add(by);
                end[index] = end[index].wrapping_add(by);
            }
            BoundChange::Immediate { address, value } => {
                let Some(other) = with_immediate(code, address, value) else { return Ok(None) };
                swapped = Some(other);
            }
            BoundChange::Memory { address, bytes, value } => {
                let length = usize::try_from(bytes).unwrap_or(8).min(8);
                let before = self.copy.tracee().read(address, length);
                memory = Some((address, before, value.to_le_bytes()[..length].to_vec()));
            }
        }
        let entry = self.arenas.write(self.copy, &code.lay_out(stub, swapped.as_ref(), false)?)?;
        Ok(Some(Repetition { entry, turns, start, end, memory }))
    }

    /// Nanoseconds of a turn: the difference between lengths, so that what surrounds them falls out. Of more than two lengths
    /// also how far pairs of them differ in it, as a part of it.
    fn slope(
        &self,
        stretch: &Stretch,
        stub: &Stub,
        flags: u64,
        all: &[Repetition],
    ) -> Result<(f64, f64), ReliefRefusal> {
        let mut ticks = vec![Vec::new(); all.len()];
        for _ in 0..ROUNDS {
            for (repetition, ticks) in all.iter().zip(&mut ticks) {
                ticks.push(self.round(stretch, stub, flags, repetition)?);
            }
            std::thread::sleep(BETWEEN_ROUNDS);
        }
        let points: Vec<(f64, f64)> = all
            .iter()
            .zip(&mut ticks)
            .map(|(repetition, ticks)| (repetition.turns as f64, quiet(ticks) / self.ticks_per_ns))
            .collect();
        slope(&points).ok_or_else(|| ReliefRefusal::new(ReliefBarrier::FewTurns, "no time between them"))
    }

    fn round(
        &self,
        stretch: &Stretch,
        stub: &Stub,
        flags: u64,
        repetition: &Repetition,
    ) -> Result<f64, ReliefRefusal> {
        stub.set_start(self.copy, &repetition.start, flags)?;
        if let Some((address, _, changed)) = &repetition.memory {
            self.copy.tracee().write(*address, changed).map_err(refusal)?;
        }
        const SHORT_TURNS: usize = 200;
        let repetitions = if stretch.turn_count() < SHORT_TURNS { SHORT_REPETITIONS } else { REPETITIONS };
        stub.arm(self.copy, &stretch.start, repetition.entry, repetitions)?;
        let done = self.copy.run(LONGEST_ROUND)?;
        if let Some((address, before, _)) = &repetition.memory {
            self.copy.tracee().write(*address, before).map_err(refusal)?;
        }
        match done {
            RunEnd::Trap => {}
            RunEnd::Call => return Err(ReliefRefusal::new(ReliefBarrier::OtherEnd, "a system call")),
            RunEnd::Fault(signal) => return Err(fault(signal)),
            RunEnd::Late => return Err(ReliefRefusal::new(ReliefBarrier::OtherEnd, "no end")),
        }
        let times = stub.times(self.copy);
        if times.len() != repetitions || stub.ends(self.copy) != Some(repetition.end) {
            return Err(ReliefRefusal::new(ReliefBarrier::OtherEnd, "other registers"));
        }
        if repetition.turns == stretch.turn_count() && !self.ends_alike(stretch)? {
            return Err(ReliefRefusal::new(ReliefBarrier::OtherEnd, "other vector registers"));
        }
        Ok(middle(&times[WARMING..]))
    }

    /// Vector registers are those of the recording's end.
    fn ends_alike(&self, stretch: &Stretch) -> Result<bool, ReliefRefusal> {
        const XMM: std::ops::Range<usize> = 160..416;
        let Some(expected) = &stretch.end_vectors else { return Ok(true) };
        let found = self.copy.tracee().vectors().map_err(refusal)?;
        let mut parts = vec![XMM];
        for component in [2, 6, 7] {
            parts.extend(crate::ptrace::vector_part(component).map(|(at, bytes)| at..at + bytes));
        }
        Ok(parts.into_iter().all(|part| found.get(part.clone()) == expected.get(part)))
    }
}

/// What a round takes when nobody disturbs it: neighbours only add, and let go now and then.
fn quiet(rounds: &mut [f64]) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 5).copied().unwrap_or(0.0)
}

/// The mean of those that nothing interrupted. Clocks may tick coarsely (26 ticks at once on a guest of Zen 5): then one value is
/// a step too low or too high, any that is chosen by its rank is off by a part of a step, and only the mean is not.
pub(crate) fn middle(times: &[u64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or(0);
    // Nothing that counts in ticks is coarser than that.
    const COARSEST: u64 = 100;
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0);
    let limit = at(3) + 3 * (at(3) - at(1)).max(steps.min().unwrap_or(0).min(COARSEST));
    let kept = &sorted[..sorted.partition_point(|time| *time <= limit)];
    kept.iter().sum::<u64>() as f64 / kept.len().max(1) as f64
}

/// How far the end of a loop leaves open what its turns take, as a part of it.
fn wrong_end_open(turn_ns: f64, turns: usize) -> f64 {
    (0.03 + WRONG_END_NS / (turn_ns * turns as f64).max(1e-9)).min(0.3)
}

/// Two times of one thing: the middle, and all between them.
fn between(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    let low = (one.0 * (1.0 - one.1)).min(other.0 * (1.0 - other.1));
    let high = (one.0 * (1.0 + one.1)).max(other.0 * (1.0 + other.1));
    let middle = (low + high) / 2.0;
    (middle, (high - low) / 2.0 / middle.max(1e-9))
}

/// The comparison at an address, with another number.
fn with_immediate(code: &LoopCode, address: u64, value: i64) -> Option<Instruction> {
    use iced_x86::Code;
    let mut found = *code.instructions().find(|instruction| instruction.ip() == address)?;
    match found.code() {
        Code::Cmp_rm64_imm8 => found.set_code(Code::Cmp_rm64_imm32),
        Code::Cmp_rm32_imm8 => found.set_code(Code::Cmp_rm32_imm32),
        _ => {}
    }
    let kind = match found.code() {
        Code::Cmp_rm64_imm32 | Code::Cmp_RAX_imm32 => iced_x86::OpKind::Immediate32to64,
        Code::Cmp_rm32_imm32 | Code::Cmp_EAX_imm32 => iced_x86::OpKind::Immediate32,
        _ => return None,
    };
    found.set_op1_kind(kind);
    found.set_immediate32(u32::from_ne_bytes(i32::try_from(value).ok()?.to_ne_bytes()));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_itself_is_believed_before_a_line() {
        let all = NearTimes { kept: Some((1.0, 0.06)), taken: Some(2.0), passed_by: Some(0.5) };
        assert_eq!(all.best(), Some((1.0, 0.06)));
        assert!(all.is_told_by_loop());
        let lines = NearTimes { kept: None, taken: Some(1.1), passed_by: Some(1.0) };
        let (value, open) = lines.best().unwrap();
        assert_eq!(value, 1.0);
        assert!((open - 0.1).abs() < 1e-9, "{open}");
        assert_eq!(NearTimes::default().best(), None);
    }

    /// The end of a short loop may be guessed wrongly at one length: then a line counts beside it, and all between is open.
    #[test]
    fn a_short_loop_and_its_line_leave_all_between_them_open() {
        let open = wrong_end_open(1.0, 25);
        assert!(open > 0.2 && wrong_end_open(1.0, 400) < 0.05, "{open}");
        let short = NearTimes { kept: Some((1.0, open)), taken: Some(0.7), passed_by: Some(0.7) };
        assert!(!short.is_told_by_loop());
        let (value, open) = short.best().unwrap();
        assert!(value * (1.0 - open) <= 0.7 && value * (1.0 + open) >= 1.2, "{value} {open}");
    }

    /// A clock that ticks in steps: what two lengths take differs by what their turns do, not by whole steps.
    #[test]
    fn steps_of_the_clock_fall_out() {
        const STEP: u64 = 26;
        let read = |ticks: f64| -> Vec<u64> {
            // The reading begins anywhere within a step.
            let begins = (0..128).map(|index| f64::from(index) * 0.618_034 * 26.0 % 26.0);
            begins.map(|begin| ((begin + ticks) / 26.0) as u64 * STEP).collect()
        };
        for short in [30.0, 37.0, 43.0, 51.0, 64.0] {
            let found = middle(&read(short + 110.0)) - middle(&read(short));
            assert!((found - 110.0).abs() < 1.5, "{short}: {found}");
        }
    }

    #[test]
    fn disturbed_rounds_do_not_count() {
        assert_eq!(quiet(&mut [9.0, 1.0, 1.1, 8.0, 7.0, 1.05, 9.5, 9.1, 8.8, 9.9, 9.3]), 1.1);
    }

    #[test]
    fn a_few_interrupted_repetitions_do_not_count() {
        let mut times: Vec<u64> = (0..90).map(|index| 100 + index % 2).collect();
        times.extend([5000; 10]);
        assert_eq!(middle(&times), 100.5);
        let mut times = vec![100; 90];
        times.extend([5000; 10]);
        assert_eq!(middle(&times), 100.0);
    }
}
