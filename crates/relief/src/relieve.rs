//! One loop of a running thread, relieved: stretches at different times, and what they agree on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use record::relief::{ReliefBarrier, ReliefRefusal, ReliefStretch, TurnTiming};

use crate::{
    agreement::Measured,
    arena::Arenas,
    branches,
    copy::ProgramCopy,
    cost::{CopiedMemory, ReliefBudget},
    footprint::FirstCache,
    kept::LoopCode,
    passes::{LONG_PASS_NS, PassTimes, Passes},
    program::{CopyNumbers, ProgramThread, TakenCopy},
    ptrace::ticks,
    replay::Replay,
    stretch::{Stretch, StretchLimits, approach, record},
    strides::{StrideRequest, StrideTimes, measure, turn_register},
};

/// A loop of a running thread, in addresses of its process.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliefTarget {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// An instruction that every turn executes once.
    pub mark: u64,
    /// Code that is hot: the thread is copied only when it is there. First address, and behind the last.
    pub hot: (u64, u64),
    /// The loop stores.
    pub writes: bool,
    /// Nanoseconds of a turn as clock samples say, where they do.
    pub sampled_turn_ns: Option<f64>,
}

/// How relief is done.
#[derive(Clone, Debug)]
pub struct ReliefOptions {
    /// The first cache of the machine.
    pub cache: FirstCache,
    /// The copies that were ever made.
    pub numbers: CopyNumbers,
    /// Steps of a stretch.
    pub steps: usize,
    /// Set from outside to have an attempt end early.
    pub stop: Arc<AtomicBool>,
}

impl Default for ReliefOptions {
    fn default() -> Self {
        Self {
            cache: FirstCache::default(),
            numbers: CopyNumbers::default(),
            steps: 2400,
            stop: Arc::default(),
        }
    }
}

/// How often the clock that code can read ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickRate {
    per_ns: f64,
}

impl TickRate {
    /// Measures it, which takes 50 ms.
    pub fn measure() -> Self {
        let (began, first) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(50));
        let (spent, last) = (began.elapsed(), ticks());
        Self { per_ns: last.wrapping_sub(first) as f64 / spent.as_nanos().max(1) as f64 }
    }
}

/// Tries to find the thread where it is hot this often.
const TRIES: usize = 40;

/// Steps from where the thread was stopped to the beginning of a turn.
const APPROACH: usize = 4000;

/// One stretch, from the program that runs to times.
pub(crate) struct Attempt<'a> {
    pub target: &'a ReliefTarget,
    pub options: &'a ReliefOptions,
    pub budget: &'a mut ReliefBudget,
    pub rate: TickRate,
    /// Since the recording began.
    pub time_ns: u64,
}

impl Attempt<'_> {
    fn thread(&self) -> ProgramThread {
        ProgramThread { pid: self.target.pid, tid: self.target.tid }
    }

    /// Makes a copy when the thread is in the loop.
    fn take(&mut self) -> Result<TakenCopy, ReliefRefusal> {
        self.thread().barrier()?;
        let memory = CopiedMemory::of(self.target.pid);
        let memory =
            memory.ok_or_else(|| ReliefRefusal::new(ReliefBarrier::Trouble, "its memory is not told"))?;
        self.budget.allows(&memory, self.target.writes, Instant::now())?;
        let mut last = ReliefRefusal::from(ReliefBarrier::NotThere);
        for tried in 0..TRIES {
            let (start, end) = self.target.hot;
            match self.thread().take_copy(&self.options.numbers, |at| (start..end).contains(&at)) {
                Ok(taken) => return Ok(taken),
                Err(refused) if refused.barrier == ReliefBarrier::NotThere => last = refused,
                Err(refused) => return Err(refused),
            }
            // What a look in vain takes: some tens of microseconds.
            self.budget.paused(Duration::from_micros(50));
            std::thread::sleep(Duration::from_micros(300 + 370 * (tried as u64 % 7)));
        }
        Err(last)
    }

    /// Records, repeats and times.
    pub fn go(mut self) -> Measured {
        let mut measured = Measured::at(self.time_ns);
        if let Err(refused) = self.fill(&mut measured) {
            measured.stretch.refusal.get_or_insert(refused);
        }
        measured
    }

    fn fill(&mut self, measured: &mut Measured) -> Result<(), ReliefRefusal> {
        let faults_before = self.thread().page_faults().unwrap_or(0);
        let TakenCopy { mut copy, pause } = self.take()?;
        self.budget.paused(pause);
        measured.stretch.pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let began = ticks();
        let watch = FaultWatch {
            thread: self.thread(),
            before: faults_before,
            most: self.budget.faults_allowed(Instant::now()),
            stop: Arc::clone(&self.options.stop),
        };
        let done = self.within(&mut copy, &watch, measured);
        drop(copy);
        let copy_ns = (ticks().wrapping_sub(began) as f64 / self.rate.per_ns) as u64;
        self.budget.copied(watch.faults(), copy_ns);
        let (turn, passes) = done?;
        self.natural(measured, turn, passes)
    }

    /// What is done in the copy; gives the register that counts turns, and what passes showed.
    fn within(
        &mut self,
        copy: &mut ProgramCopy,
        watch: &FaultWatch,
        measured: &mut Measured,
    ) -> Result<(Option<crate::strides::TurnRegister>, Result<PassTimes, ReliefRefusal>), ReliefRefusal> {
        copy.seal()?;
        approach(copy, self.target.mark, APPROACH)?;
        let limits = StretchLimits { steps: self.options.steps, turns: 2000, cache: self.options.cache };
        let stretch = record(copy, self.target.mark, &limits, &|| self.thread().is_alone())?;
        note(&stretch, measured);
        if let Some(cut) = stretch.cut.clone().filter(|_| stretch.turn_count() < 2) {
            return Err(cut);
        }
        watch.check()?;
        let mut arenas = Arenas::new(copy, self.target.mark)?;
        let ticks_per_ns = self.rate.per_ns;
        let near = Replay { copy, arenas: &mut arenas, ticks_per_ns }.near(&stretch)?;
        let (near_ns, open) = near.best().ok_or(ReliefBarrier::FewTurns)?;
        measured.stretch.near_ns = Some(near_ns);
        measured.near_open = open;
        watch.check()?;
        let (program, allowed) = (self.thread(), self.budget.pauses_left(Instant::now()));
        let mut timing = Passes::new(copy, &mut arenas, ticks_per_ns, program, allowed);
        let passes = timing.time(&stretch);
        if !timing.paused.is_zero() {
            self.budget.paused(timing.paused);
        }
        Ok((turn_register(&stretch), passes))
    }

    /// How long a turn takes in the program.
    fn natural(
        &mut self,
        measured: &mut Measured,
        register: Option<crate::strides::TurnRegister>,
        passes: Result<PassTimes, ReliefRefusal>,
    ) -> Result<(), ReliefRefusal> {
        let pass_ns = passes.as_ref().ok().map(PassTimes::pass_ns);
        let edges = passes.as_ref().map_or(0.0, PassTimes::edges);
        let is_long = pass_ns.is_none_or(|pass_ns| pass_ns > LONG_PASS_NS);
        let strides = match register.filter(|_| is_long) {
            Some(register) => {
                let apart = pass_ns.map_or(1.5e6, |pass_ns| (pass_ns * 0.35).min(3e6));
                let request = StrideRequest {
                    thread: self.thread(),
                    register,
                    ranges: &measured.ranges,
                    pass_ns,
                    apart: Duration::from_nanos(apart as u64),
                    allowed: self.budget.pauses_left(Instant::now()) / 2,
                };
                measure(&request).ok()
            }
            None => None,
        };
        if let Some(strides) = &strides {
            self.budget.paused(strides.paused);
        }
        let (turn_ns, open, timing) = choose(strides, &passes, self.target.sampled_turn_ns)
            .ok_or_else(|| passes.err().unwrap_or_else(|| ReliefBarrier::NoTurnTime.into()))?;
        measured.stretch.turn_ns = Some(turn_ns);
        measured.stretch.timing = Some(timing);
        measured.turn_open = open;
        if timing == TurnTiming::Passes {
            measured.turn_less = edges;
        }
        Ok(())
    }
}

/// The program itself before samples of it, and these before passes in a copy, which is another process on other pages.
fn choose(
    strides: Option<StrideTimes>,
    passes: &Result<PassTimes, ReliefRefusal>,
    sampled: Option<f64>,
) -> Option<(f64, f64, TurnTiming)> {
    const STEADY: f64 = 0.4;
    if let Some(found) = strides.filter(|found| found.spread < STEADY) {
        return Some((found.turn_ns, 0.03 + found.spread / 4.0, TurnTiming::Strides));
    }
    let short = passes.as_ref().ok().filter(|found| found.pass_ns() <= LONG_PASS_NS && found.spread < STEADY);
    if let Some(found) = short {
        return Some((found.turn_ns, 0.04 + found.spread / 4.0, TurnTiming::Passes));
    }
    if let Some(turn_ns) = sampled {
        return Some((turn_ns, 0.1, TurnTiming::Samples));
    }
    let found = passes.as_ref().ok()?;
    Some((found.turn_ns, 0.12 + (found.spread / 3.0).min(0.3), TurnTiming::Passes))
}

fn note(stretch: &Stretch, measured: &mut Measured) {
    let to_u32 = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let ReliefStretch { turns, lines, .. } = &mut measured.stretch;
    (*turns, *lines) = (to_u32(stretch.turn_count()), to_u32(stretch.lines));
    measured.ranges = LoopCode::ranges(&stretch.steps);
    measured.has_wild_branches = branches::has_wild(stretch);
    measured.has_atomics = stretch.has_atomics;
}

/// Ends an attempt that costs the program too much.
struct FaultWatch {
    stop: Arc<AtomicBool>,
    thread: ProgramThread,
    before: u64,
    most: u64,
}

impl FaultWatch {
    fn faults(&self) -> u64 {
        self.thread.page_faults().unwrap_or(self.before).saturating_sub(self.before)
    }

    fn check(&self) -> Result<(), ReliefRefusal> {
        match self.faults() {
            _ if self.stop.load(Ordering::Relaxed) => Err(ReliefBarrier::Ended.into()),
            faults if faults > self.most => {
                Err(ReliefRefusal::new(ReliefBarrier::CopyOnWrite, format!("{faults} pages already")))
            }
            _ => Ok(()),
        }
    }
}

/// Relieves one loop of a running thread: `stretches` of them, `apart` from each other. For whoever has the thread
/// run for that long; `memwall run` does the same piece by piece.
pub fn relieve(
    target: &ReliefTarget,
    options: &ReliefOptions,
    stretches: usize,
    apart: Duration,
    budget: &mut ReliefBudget,
) -> crate::agreement::LoopRelief {
    let (rate, began) = (TickRate::measure(), Instant::now());
    let mut all = Vec::new();
    for index in 0..stretches {
        if index > 0 {
            std::thread::sleep(apart);
        }
        let time_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        all.push(Attempt { target, options, budget, rate, time_ns }.go());
    }
    crate::agreement::agree(all)
}
