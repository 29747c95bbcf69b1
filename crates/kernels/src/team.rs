//! Threads pinned to CPUs, started together, timed one by one.
//!
//! # Safety
//! This file hands workers a closure that borrows from its caller, with the lifetime erased. What must hold:
//! [`Team::dispatch`] does not return, by value or by panic, before every worker has let go of the closure.
#![allow(unsafe_code)]

use std::{
    any::Any,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use machine::CpuSet;
use rustix::{
    io::Errno,
    thread::{CpuSet as Affinity, sched_getcpu, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

/// Rounds of spinning at the gate before giving the CPU away: members may share one.
const SPINS: u32 = 20_000;

/// Why a team could not start or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// No CPUs.
    #[error("a team needs at least one CPU; none was given")]
    Empty,
    /// The CPU does not exist or is switched off.
    #[error("CPU {cpu} is offline or absent; online CPUs: {online}")]
    Offline {
        /// What was asked for.
        cpu: u32,
        /// What there is.
        online: CpuSet,
    },
    /// The CPU exists, and we may not run there.
    #[error("CPU {cpu} is outside the cpuset of this process; see Cpus_allowed_list in /proc/self/status")]
    OutsideCpuset {
        /// What was asked for.
        cpu: u32,
    },
    /// Pinning failed for another reason.
    #[error("cannot pin a thread to CPU {cpu}: {source}; a sandbox may forbid sched_setaffinity")]
    PinRefused {
        /// What was asked for.
        cpu: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Pinning was accepted and did not happen.
    #[error("a thread pinned to CPU {cpu} runs on CPU {found}: this system ignores pinning")]
    Misplaced {
        /// What was asked for.
        cpu: u32,
        /// Where it runs.
        found: u32,
    },
    /// The thread could not be made.
    #[error(
        "cannot start a thread for CPU {cpu}: {source}; the limit on processes may be reached (ulimit -u)"
    )]
    Spawn {
        /// CPU the thread was for.
        cpu: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The work panicked on one member. The others finished, and the team can be used again.
    #[error("the work of member {member} on CPU {cpu} panicked: {message}")]
    Panicked {
        /// First member that panicked.
        member: usize,
        /// Its CPU.
        cpu: u32,
        /// What it said.
        message: String,
    },
}

/// One member's result of a timed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed<R> {
    /// What the work returned.
    pub value: R,
    /// `CLOCK_MONOTONIC` right before the work.
    pub start_ns: u64,
    /// `CLOCK_MONOTONIC` right after the work.
    pub end_ns: u64,
    /// Times another thread took the CPU during the work; `None` where the kernel does not say.
    pub involuntary_switches: Option<u64>,
}

impl<R> Timed<R> {
    /// Duration of the work.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The closure of one call, its lifetime erased.
#[derive(Clone, Copy, Debug)]
struct Job(*const (dyn Fn(usize) + Sync));

// SAFETY: it points to a `Sync` closure, which `Team::dispatch` keeps alive until every worker is done with it.
unsafe impl Send for Job {}

#[derive(Debug, Default)]
struct State {
    /// Counts the jobs handed out, so that no worker takes one twice.
    round: u64,
    job: Option<Job>,
    /// Workers that still have to finish the current job.
    busy: usize,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A job is there, or the end.
    wake: Condvar,
    /// The last worker finished.
    done: Condvar,
}

impl Shared {
    /// No code that can panic runs under the lock, so a poisoned state is still a consistent one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One pinned thread per entry of a CPU list. Idle members sleep; dropping the team joins them.
///
/// ```
/// # let cpu = rustix::thread::sched_getcpu() as u32;
/// let mut team = kernels::team::Team::start(&[cpu])?;
/// let data = team.setup(|member| vec![member as u64 + 1; 1000])?;
/// let sums = team.run(|member| data[member].iter().sum::<u64>())?;
/// assert_eq!(sums[0].value, 1000);
/// # Ok::<(), kernels::team::TeamError>(())
/// ```
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    cpus: Vec<u32>,
}

impl Team {
    /// Starts one thread per CPU, each pinned and seen to run there. A CPU may be named twice.
    pub fn start(cpus: &[u32]) -> Result<Self, TeamError> {
        if cpus.is_empty() {
            return Err(TeamError::Empty);
        }
        let mut team = Self { shared: Arc::default(), workers: Vec::new(), cpus: cpus.to_vec() };
        for (member, &cpu) in cpus.iter().enumerate() {
            let shared = Arc::clone(&team.shared);
            let worker = thread::Builder::new()
                .name(format!("memwall-{member}"))
                .spawn(move || serve(&shared, member))
                .map_err(|source| TeamError::Spawn { cpu, source })?;
            team.workers.push(worker);
        }
        let pinned = team.setup(|member| pin(cpus[member]))?;
        pinned.into_iter().collect::<Result<(), _>>()?;
        Ok(team)
    }

    /// The CPU of each member.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// How many members there are.
    pub fn members(&self) -> usize {
        self.cpus.len()
    }

    /// Runs `work` once on each member and returns the results by member: for allocating and first touch.
    pub fn setup<F, R>(&mut self, work: F) -> Result<Vec<R>, TeamError>
    where
        F: Fn(usize) -> R + Sync,
        R: Send,
    {
        let results: Vec<Mutex<Option<thread::Result<R>>>> =
            self.cpus.iter().map(|_| Mutex::new(None)).collect();
        self.dispatch(&|member| {
            let result = catch_unwind(AssertUnwindSafe(|| work(member)));
            *results[member].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        let values = results.into_iter().zip(&self.cpus).enumerate().map(|(member, (slot, &cpu))| {
            let panicked = |message| TeamError::Panicked { member, cpu, message };
            match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(Ok(value)) => Ok(value),
                Some(Err(payload)) => Err(panicked(panic_message(payload))),
                None => Err(panicked("it left no result".to_owned())),
            }
        });
        values.collect()
    }

    /// Runs `work` once on each member, all released at the same moment, each timed by itself.
    ///
    /// Work that waits for another member must bound its wait: a partner that panics never answers.
    pub fn run<F, R>(&mut self, work: F) -> Result<Vec<Timed<R>>, TeamError>
    where
        F: Fn(usize) -> R + Sync,
        R: Send,
    {
        let gate = Gate::new(self.members());
        self.setup(|member| {
            gate.pass();
            // Read after the gate: giving the CPU away there would count as a switch.
            let before = involuntary_switches();
            let start_ns = monotonic_ns();
            let value = work(member);
            let end_ns = monotonic_ns();
            let involuntary_switches =
                involuntary_switches().zip(before).map(|(after, before)| after.saturating_sub(before));
            Timed { value, start_ns, end_ns, involuntary_switches }
        })
    }

    /// Hands `job` to every worker and waits until all are done with it. `job` must not panic.
    fn dispatch(&mut self, job: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime changes. Workers use the job between taking it and counting themselves
        // off `busy`, and this function waits for the last one; nothing in between can unwind.
        let erased: *const (dyn Fn(usize) + Sync + 'static) =
            unsafe { std::mem::transmute(job as *const (dyn Fn(usize) + Sync)) };
        let mut state = self.shared.lock();
        state.job = Some(Job(erased));
        state.busy = self.workers.len();
        state.round += 1;
        self.shared.wake.notify_all();
        while state.busy > 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.job = None;
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // Workers catch what their work throws; there is nothing else to report.
            let _ = worker.join();
        }
    }
}

/// A worker's life: sleep until there is a new job or the end.
fn serve(shared: &Shared, member: usize) {
    let mut seen = 0;
    loop {
        let mut state = shared.lock();
        while state.round == seen && !state.stop {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stop {
            return;
        }
        seen = state.round;
        let job = state.job;
        drop(state);
        if let Some(Job(work)) = job {
            // SAFETY: the dispatcher waits for this worker before it lets the closure go.
            unsafe { (*work)(member) };
        }
        let mut state = shared.lock();
        state.busy -= 1;
        if state.busy == 0 {
            shared.done.notify_one();
        }
    }
}

/// Lets nobody through before everybody is there.
struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    fn new(members: usize) -> Self {
        Self { missing: AtomicUsize::new(members) }
    }

    fn pass(&self) {
        // ATOMICS: the last arrival releases everybody; acquire and release order what members did before the
        // gate before what they do behind it.
        self.missing.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0;
        while self.missing.load(Ordering::Acquire) > 0 {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// Moves the calling thread to `cpu` and makes sure of it.
fn pin(cpu: u32) -> Result<(), TeamError> {
    let refused = |errno: Errno| match errno {
        Errno::INVAL => unavailable(cpu, online_cpus()),
        errno => TeamError::PinRefused { cpu, source: errno.into() },
    };
    if cpu as usize >= Affinity::MAX_CPU {
        return Err(refused(Errno::INVAL));
    }
    let mut only = Affinity::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only).map_err(refused)?;
    match sched_getcpu() as u32 {
        found if found == cpu => Ok(()),
        found => Err(TeamError::Misplaced { cpu, found }),
    }
}

fn online_cpus() -> Option<CpuSet> {
    fs::read_to_string("/sys/devices/system/cpu/online").ok()?.parse().ok()
}

/// What it means that the kernel finds no CPU left in the mask.
fn unavailable(cpu: u32, online: Option<CpuSet>) -> TeamError {
    match online {
        Some(online) if !online.contains(cpu) => TeamError::Offline { cpu, online },
        Some(_) => TeamError::OutsideCpuset { cpu },
        None => TeamError::PinRefused { cpu, source: Errno::INVAL.into() },
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Involuntary context switches of the calling thread so far.
fn involuntary_switches() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for the structure the call fills.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: zeroed at first, and all-zero is a valid value of this structure of integers.
    let usage = unsafe { usage.assume_init() };
    (status == 0).then_some(usage.ru_nivcsw as u64)
}

/// What a panic said. A payload of another type is leaked: dropping it could panic again.
fn panic_message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(other) => {
                std::mem::forget(other);
                "a panic without a message".to_owned()
            }
        },
    }
}

#[cfg(test)]
mod tests;
