//! An open sampler: waiting, and handing out records in order of time.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::{
    RecordLayout, RingRecord, SamplerRequest, SamplingFailure,
    jitter::Periods,
    opening,
    ring::{Next, Ring},
};
use crate::{
    Errno, LinuxKernel,
    kernel::RingState,
    refusal::{Need, NextStep},
};

/// One event on many CPUs, and their rings. Closed when dropped.
pub struct Sampler<'k> {
    pub(super) kernel: &'k dyn LinuxKernel,
    pub(super) cpus: Vec<CpuRing>,
    pub(super) layout: RecordLayout,
    pub(super) ring_pages: usize,
    pub(super) periods: Periods,
    /// Those of the slower clock, if there is one.
    pub(super) slow_periods: Option<Periods>,
    /// When they were last drawn.
    pub(super) drawn_at: Instant,
    /// The events take a period, not a rate.
    pub(super) takes_periods: bool,
    pub(super) need: Need,
    pub(super) lost: u64,
    /// Reused by every drain.
    pub(super) order: BinaryHeap<Reverse<(u64, usize)>>,
}

/// The events that write into one CPU's ring.
pub(super) struct CpuRing {
    pub cpu: u32,
    pub ring: Ring,
    /// The first owns the ring.
    pub members: Vec<SamplerMember>,
    /// Which member tells whether there is something to read: the first whose threads still live.
    pub asked: usize,
}

/// One sampling event, behind the one that leads its group if it needs one.
pub(super) struct SamplerMember {
    pub event: OwnedFd,
    pub leader: Option<OwnedFd>,
    /// The clock beside it, where `event` is a slower one.
    pub faster: Option<OwnedFd>,
}

impl SamplerMember {
    /// Whom to switch on and off, and whether it leads a group.
    fn heads(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let head = (self.leader.as_ref().unwrap_or(&self.event).as_fd(), self.leader.is_some());
        std::iter::once(head).chain(self.faster.iter().map(|faster| (faster.as_fd(), false)))
    }
}

/// Starts and stops a sampler, whose rings belong to one thread.
pub struct SamplerSwitch<'s> {
    kernel: &'s dyn LinuxKernel,
    /// Whom to switch, and whether it leads a group.
    heads: Vec<(BorrowedFd<'s>, bool)>,
    need: Need,
}

impl SamplerSwitch<'_> {
    /// Starts sampling.
    pub fn start(&self) -> Result<(), SamplingFailure> {
        self.turn(true, "start sampling")
    }

    /// Stops sampling; what is in the rings stays there.
    pub fn stop(&self) -> Result<(), SamplingFailure> {
        self.turn(false, "stop sampling")
    }

    fn turn(&self, on: bool, asked: &str) -> Result<(), SamplingFailure> {
        for &(head, is_group) in &self.heads {
            let failure = |errno| SamplingFailure::new(asked, NextStep::Use, errno, self.need);
            self.kernel.switch(head, on, is_group).map_err(failure)?;
        }
        Ok(())
    }
}

/// What [`Sampler::wait`] waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingActivity {
    /// A ring has reached its watermark.
    Ready,
    /// The time was over first; there may be a few records.
    TimeOut,
    /// Everybody that was sampled is gone. What is in the rings is all there will be.
    Over,
}

impl RingActivity {
    /// Somebody is still being sampled.
    pub fn more_to_come(self) -> bool {
        self != Self::Over
    }
}

impl<'k> Sampler<'k> {
    /// Opens what the request asks for.
    pub fn open(kernel: &'k dyn LinuxKernel, request: &SamplerRequest) -> Result<Self, SamplingFailure> {
        opening::open(kernel, request)
    }

    /// Starts a sampler that starts by hand.
    pub fn start(&self) -> Result<(), SamplingFailure> {
        self.switch().start()
    }

    /// Stops sampling; what is in the rings stays there.
    pub fn stop(&self) -> Result<(), SamplingFailure> {
        self.switch().stop()
    }

    /// Starts and stops it, also from another thread.
    pub fn switch(&self) -> SamplerSwitch<'_> {
        let members = self.cpus.iter().flat_map(|cpu| &cpu.members);
        let heads = members.flat_map(SamplerMember::heads).collect();
        SamplerSwitch { kernel: self.kernel, heads, need: self.need }
    }

    /// Mean period over the time the sampler was open; of a clock: nanoseconds. None of rates.
    pub fn mean_period(&self) -> Option<f64> {
        let since_ns = self.drawn_at.elapsed().as_nanos() as f64;
        let slower = self.slow_periods.map(|periods| periods.mean_over(since_ns));
        self.takes_periods.then(|| match (slower, self.has_faster()) {
            (Some(slower), true) => 1.0 / (1.0 / slower + 1.0 / self.periods.mean_over(since_ns)),
            (Some(slower), false) => slower,
            (None, _) => self.periods.mean_over(since_ns),
        })
    }

    fn has_faster(&self) -> bool {
        self.cpus.iter().flat_map(|cpu| &cpu.members).any(|member| member.faster.is_some())
    }

    /// Closes the faster of two clocks: what each switch of a thread costs most with it. Gives the share of the samples
    /// of before that the slower one would have taken alone; none if there are no two. From now on the mean period is its.
    pub fn slow_down(&mut self) -> Option<f64> {
        let both = self.mean_period().filter(|_| self.has_faster())?;
        for member in self.cpus.iter_mut().flat_map(|cpu| &mut cpu.members) {
            member.faster = None;
        }
        Some(both / self.mean_period()?)
    }

    fn failure(&self, asked: &str, errno: Errno) -> SamplingFailure {
        SamplingFailure::new(asked, NextStep::Use, errno, self.need)
    }

    /// Sleeps until a ring is a quarter full, a sampled thread is gone for good, or the time is over.
    pub fn wait(&mut self, timeout: Duration) -> Result<RingActivity, SamplingFailure> {
        let alive: Vec<_> =
            self.cpus.iter().filter_map(|cpu| Some(cpu.members.get(cpu.asked)?.event.as_fd())).collect();
        if alive.is_empty() {
            return Ok(RingActivity::Over);
        }
        let states = match self.kernel.wait(&alive, timeout) {
            Ok(states) => states,
            // A signal: the caller decides what it means.
            Err(Errno(libc::EINTR)) => return Ok(RingActivity::TimeOut),
            Err(errno) => return Err(self.failure("wait for samples", errno)),
        };
        // A ring's owner may be gone while others write into it: from now on, ask one of those.
        let asked = self.cpus.iter_mut().filter(|cpu| cpu.asked < cpu.members.len());
        for (cpu, state) in asked.zip(&states) {
            cpu.asked += usize::from(*state == RingState::Over);
        }
        Ok(match states.contains(&RingState::Ready) {
            true => RingActivity::Ready,
            false if self.cpus.iter().all(|cpu| cpu.asked >= cpu.members.len()) => RingActivity::Over,
            false => RingActivity::TimeOut,
        })
    }

    /// Hands out what was finished before the call, oldest first over all CPUs, and gives its place back. Gives the
    /// number of records.
    ///
    /// Records that the kernel adds during the call wait for the next one, so the order holds from one call to the
    /// next as well, with two exceptions: a record whose time was taken before the call and which was written after
    /// it, and rings that are more than half full, which are emptied regardless.
    pub fn drain(&mut self, each: impl FnMut(RingRecord<'_>)) -> usize {
        let now = clock_gettime(ClockId::Monotonic);
        self.hand_out(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned(), each)
    }

    /// Like [`Sampler::drain`], but leaves nothing behind: for the last call, when nothing is sampled any more.
    pub fn drain_all(&mut self, each: impl FnMut(RingRecord<'_>)) -> usize {
        self.hand_out(u64::MAX, each)
    }

    fn hand_out(&mut self, horizon_ns: u64, mut each: impl FnMut(RingRecord<'_>)) -> usize {
        let Self { cpus, layout, order, lost, .. } = self;
        order.clear();
        for (index, cpu) in cpus.iter_mut().enumerate() {
            cpu.ring.look();
            if let Some(next) = cpu.ring.next(layout) {
                order.push(Reverse((time_of(next), index)));
            }
        }
        let mut count = 0;
        while let Some(Reverse((_, index))) = order.pop() {
            let ring = &mut cpus[index].ring;
            let horizon_ns = if ring.is_filling_up() { u64::MAX } else { horizon_ns };
            let others_ns = order.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            let left = run(ring, layout, others_ns, horizon_ns, |record| {
                *lost = lost.saturating_add(lost_in(&record));
                count += 1;
                each(record);
            });
            if let Some(time) = left {
                order.push(Reverse((time, index)));
            }
        }
        cpus.iter_mut().for_each(|cpu| cpu.ring.give_back());
        count
    }

    /// How many records the kernel says it had to drop so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Pages of each ring, after what the kernel allowed.
    pub fn ring_pages(&self) -> usize {
        self.ring_pages
    }

    /// The CPUs that are sampled.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().map(|cpu| cpu.cpu)
    }

    /// How many events are open, the rings' owners included.
    pub fn events(&self) -> usize {
        self.cpus.iter().flat_map(|cpu| &cpu.members).map(|member| member.heads().count()).sum()
    }

    /// Draws a new period for each event, so that samples do not stay evenly spaced for long. Threads that were
    /// inherited before keep theirs; those inherited from now on have the new one. The samples of a clock do not tell:
    /// they go on to state the old period. Does nothing without jitter or with rates.
    pub fn redraw_periods(&mut self) -> Result<(), SamplingFailure> {
        if !self.takes_periods || self.periods.are_all_the_same() {
            return Ok(());
        }
        let (kernel, since_ns) = (self.kernel, self.drawn_at.elapsed().as_nanos() as f64);
        self.drawn_at = Instant::now();
        // A slower clock keeps its periods as long as there is a faster one: a new one would cost it part of each.
        let has_faster = self.has_faster();
        let periods = match &mut self.slow_periods {
            Some(slow) if !has_faster => slow,
            _ => &mut self.periods,
        };
        periods.mark(since_ns);
        let members = self.cpus.iter().flat_map(|cpu| &cpu.members);
        let events = members.filter_map(|member| match has_faster {
            true => member.faster.as_ref(),
            false => Some(&member.event),
        });
        let mut all = events.map(|event| kernel.set_period(event.as_fd(), periods.draw()));
        let done = all.try_for_each(|done| done);
        done.map_err(|errno| self.failure("change the sampling period", errno))
    }
}

/// Hands out one ring's records up to the time of another's next. Gives the time of the first one left, if it is to be
/// handed out in its turn.
#[inline]
fn run(
    ring: &mut Ring,
    layout: &RecordLayout,
    others_ns: u64,
    horizon_ns: u64,
    mut each: impl FnMut(RingRecord<'_>),
) -> Option<u64> {
    let mut is_first = true;
    loop {
        let next = ring.next(layout)?;
        let time = time_of(next);
        if time > horizon_ns {
            return None;
        }
        if !is_first && time > others_ns {
            return Some(time);
        }
        is_first = false;
        match next {
            Next::Record { kind, misc, size, .. } => {
                each(layout.decode(ring.record(kind, misc, size)));
                ring.step(size);
            }
            Next::Garbage => each(RingRecord::Malformed { kind: None, bytes: ring.skip_all() }),
        }
    }
}

/// What has no time goes first.
fn time_of(next: Next) -> u64 {
    match next {
        Next::Record { time_ns, .. } => time_ns.unwrap_or(0),
        Next::Garbage => 0,
    }
}

fn lost_in(record: &RingRecord<'_>) -> u64 {
    match record {
        RingRecord::Lost { records, .. } => *records,
        RingRecord::LostSamples { samples, .. } => *samples,
        _ => 0,
    }
}
