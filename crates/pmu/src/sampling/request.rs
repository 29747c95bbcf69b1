//! What to sample, of whom, how often.

use events::Scope;
use machine::CpuSet;
use perf_event_open_sys::bindings;

use super::{Fields, Jitter, LoadSampling};
use crate::{KernelEvent, event::Modes, refusal::Need};

/// Everything [`Sampler::open`](super::Sampler::open) needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerRequest {
    /// What makes a sample due. How it samples, starts and is inherited is set by what follows here.
    pub event: KernelEvent,
    /// An event that must lead the group of `event`, as load latency needs on newer Intel cores.
    pub leader: Option<KernelEvent>,
    /// 0 to 3: how close a sample must lie to the instruction that caused it.
    pub precise: u8,
    /// What each sample carries.
    pub fields: Fields,
    /// Whom to sample.
    pub scope: Scope,
    /// On which CPUs, at most. A thread is not sampled while it runs on another one.
    pub cpus: CpuSet,
    /// Pages of each CPU's ring: a power of two. Halved until the kernel allows them.
    pub ring_pages: usize,
    /// Which other records to write.
    pub sideband: Sideband,
    /// When to begin.
    pub start: SamplingStart,
    /// How often.
    pub pace: SamplingPace,
    /// The period of a second, slower clock beside a clock, if there is to be one. It carries the records of the sideband,
    /// so that it suffices alone once [`Sampler::slow_down`](super::Sampler::slow_down) has closed the faster one; context
    /// switches end with that. Both together sample at `pace`.
    pub slower: Option<u64>,
    /// How far the periods of different events are spread. Not for rates of events that are not clocks: there the
    /// kernel keeps adjusting the period anyway.
    pub jitter: Option<Jitter>,
}

/// When sampling begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingStart {
    /// When the child executes its program.
    AtExec,
    /// As soon as each event is open.
    AtOnce,
    /// With [`Sampler::start`](super::Sampler::start).
    ByHand,
}

/// How often a sample is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingPace {
    /// After so many events; of a clock: nanoseconds.
    Period(u64),
    /// So many times per second.
    PerSecond(u64),
}

/// Records beside the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sideband {
    /// Mappings of code, with the build ID where the kernel offers it.
    pub mmap: bool,
    /// Mappings of data as well.
    pub mmap_data: bool,
    /// Names of threads and executed programs.
    pub comm: bool,
    /// Forks and exits.
    pub task: bool,
    /// Context switches.
    pub switches: bool,
}

impl Sideband {
    /// Mappings of code, names, forks and exits: what symbols need.
    pub fn for_symbols() -> Self {
        Self { mmap: true, comm: true, task: true, ..Self::default() }
    }
}

impl SamplerRequest {
    /// What a ring may lock without asking: 516 KiB per CPU, of which one page is not data.
    pub const RING_PAGES: usize = 128;

    /// The software clock, 1000 times per second that a thread runs in user mode, ±10 %, with the general registers
    /// and all that symbols need. A child begins at its exec, everyone else at once.
    pub fn clock(scope: Scope, cpus: CpuSet) -> Self {
        Self {
            event: KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK),
            leader: None,
            precise: 0,
            fields: Fields::clock(),
            start: if matches!(scope, Scope::Child(_)) {
                SamplingStart::AtExec
            } else {
                SamplingStart::AtOnce
            },
            scope,
            cpus,
            ring_pages: Self::RING_PAGES,
            sideband: Sideband::for_symbols(),
            pace: SamplingPace::PerSecond(1000),
            slower: None,
            jitter: Some(Jitter { share: 0.1, seed: 0x5eed }),
        }
    }

    /// Precise loads as [`precise_loads`](super::precise_loads) found them, one in `period`, on those of `cpus` that
    /// have them.
    pub fn loads(loads: &LoadSampling, period: u64, scope: Scope, cpus: &CpuSet) -> Self {
        let cpus = loads.cpus.as_ref().map_or_else(|| cpus.clone(), |able| able.intersection(cpus));
        Self {
            event: loads.event.clone(),
            leader: loads.leader.clone(),
            precise: loads.precise,
            fields: Fields::loads(),
            pace: SamplingPace::Period(period),
            ..Self::clock(scope, cpus)
        }
    }

    /// Where samples are taken.
    pub(super) fn sampled_cpus(&self) -> CpuSet {
        match &self.scope {
            Scope::Cpus(cpus) | Scope::Cgroup(_, cpus) => self.cpus.intersection(cpus),
            _ => self.cpus.clone(),
        }
    }

    /// The event is a timer of the kernel.
    pub(super) fn is_clock(&self) -> bool {
        let clocks = [bindings::PERF_COUNT_SW_CPU_CLOCK, bindings::PERF_COUNT_SW_TASK_CLOCK];
        self.event.kind == bindings::PERF_TYPE_SOFTWARE
            && clocks.iter().any(|clock| u64::from(*clock) == self.event.config)
    }

    /// The period of the slower clock, if there is room for one beside the other.
    pub(super) fn slower(&self) -> Option<u64> {
        let both = self.pace().0;
        self.slower.filter(|slower| self.is_clock() && *slower > both.saturating_mul(2))
    }

    /// The period of the clock that is alone or the faster one, such that both together keep the pace.
    pub(super) fn period(&self) -> u64 {
        let both = self.pace().0;
        self.slower().map_or(both, |slower| {
            let rate = 1.0 / both as f64 - 1.0 / slower as f64;
            (1.0 / rate) as u64
        })
    }

    /// The period or the rate, and which of them it is. A clock's rate is a period to begin with.
    pub(super) fn pace(&self) -> (u64, bool) {
        match self.pace {
            SamplingPace::Period(period) => (period.max(1), false),
            SamplingPace::PerSecond(rate) if self.is_clock() => {
                (1_000_000_000 / rate.clamp(1, 1_000_000_000), false)
            }
            SamplingPace::PerSecond(rate) => (rate.max(1), true),
        }
    }

    pub(super) fn need(&self) -> Need {
        match (&self.scope, self.event.modes) {
            (Scope::Cpus(_) | Scope::Cgroup(..), _) => Need::WholeCpu,
            (_, Modes::User) => Need::User,
            _ => Need::Kernel,
        }
    }

    /// What is asked, as it follows "cannot".
    pub(super) fn words(&self) -> String {
        let whom = match &self.scope {
            Scope::ThisThread => "this thread".to_owned(),
            Scope::Thread(tid) => format!("thread {tid}"),
            Scope::Child(_) => "the program".to_owned(),
            Scope::Process(pid) => format!("process {pid}"),
            Scope::Cpus(_) => "everything".to_owned(),
            Scope::Cgroup(path, _) => format!("control group {path}"),
        };
        let event = if self.is_clock() {
            "the clock".to_owned()
        } else {
            format!("event {:#x} of PMU type {}", self.event.config, self.event.kind)
        };
        format!("sample {event} of {whom} on CPUs {}", self.sampled_cpus())
    }
}
