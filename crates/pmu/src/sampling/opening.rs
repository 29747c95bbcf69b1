//! Opening a sampler: one event and one ring per CPU, and for a running process one event per thread and CPU.

use std::{
    collections::{BTreeSet, BinaryHeap},
    os::fd::AsFd,
    path::Path,
    time::Instant,
};

use events::Scope;
use perf_event_open_sys::bindings;

use super::{
    RecordLayout, RingRecord, Sampler, SamplerRequest, SamplingFailure, SamplingStart,
    jitter::Periods,
    ring::Ring,
    sampler::{CpuRing, SamplerMember},
    threads::threads_of,
};
use crate::{
    Errno, EventTarget, KernelEvent, LinuxKernel,
    event::{RecordStream, Sampling},
    refusal::NextStep,
};

/// A process that keeps starting threads is looked at again this often.
const SCANS: usize = 8;

pub(super) fn open<'k>(
    kernel: &'k dyn LinuxKernel,
    request: &SamplerRequest,
) -> Result<Sampler<'k>, SamplingFailure> {
    let refused = |step, errno| SamplingFailure::new(request.words(), step, errno, request.need());
    if request.sampled_cpus().is_empty() {
        let hint = "name at least one CPU that is online and has the event".to_owned();
        return Err(refused(NextStep::Open, Errno(libc::EINVAL)).with_hint(hint));
    }
    let threads = match &request.scope {
        Scope::ThisThread => vec![Some(rustix::thread::gettid().as_raw_pid())],
        Scope::Child(id) | Scope::Thread(id) => vec![Some(id.cast_signed())],
        Scope::Process(pid) => scan(*pid).map_err(|errno| refused(NextStep::Open, errno))?,
        Scope::Cpus(_) => vec![None],
        Scope::Cgroup(..) => {
            let hint = "control groups can be counted, not sampled: name a process or CPUs".to_owned();
            return Err(refused(NextStep::Open, Errno(libc::EINVAL)).with_hint(hint));
        }
    };
    settle(kernel, request, &threads).map_err(|(step, errno)| {
        let failure = refused(step, errno);
        match errno {
            Errno(libc::EMFILE) => failure.with_hint(descriptors(request, threads.len())),
            _ => failure,
        }
    })
}

/// Asks for less where the kernel does not know or allow all of it.
fn settle<'k>(
    kernel: &'k dyn LinuxKernel,
    request: &SamplerRequest,
    threads: &[Option<i32>],
) -> Result<Sampler<'k>, SamplerRefused> {
    // Build IDs in mappings and weights in three parts are as new as that.
    let mut since_5_12 = true;
    let mut request = request.clone();
    let mut ring_pages = request.ring_pages.clamp(1, 1 << 20).next_power_of_two();
    loop {
        match SamplerOpening::new(kernel, &request, since_5_12, ring_pages).all(threads) {
            Err((NextStep::Open, Errno(libc::EINVAL))) if since_5_12 => since_5_12 = false,
            // Too many descriptors: one clock is better than none.
            Err((NextStep::Open, Errno(libc::EMFILE))) if request.slower.is_some() => request.slower = None,
            // More than this user may lock: all rings get smaller, and with them their watermarks.
            Err((NextStep::Map, Errno(libc::EPERM | libc::ENOMEM))) if ring_pages > 1 => ring_pages /= 2,
            settled => return settled,
        }
    }
}

fn descriptors(request: &SamplerRequest, threads: usize) -> String {
    let each = 1 + usize::from(request.leader.is_some()) + usize::from(request.slower().is_some());
    let cpus = request.sampled_cpus().len();
    let needed = cpus * threads * each;
    format!(
        "{threads} threads on {cpus} CPUs take {needed} descriptors: raise the limit with `ulimit -n {}` or name \
         fewer CPUs",
        (needed + 256).next_power_of_two()
    )
}

fn scan(pid: u32) -> Result<Vec<Option<i32>>, Errno> {
    // No such folder is no such process.
    let threads = threads_of(Path::new("/"), pid.cast_signed()).map_err(|_| Errno(libc::ESRCH))?;
    Ok(threads.into_iter().map(Some).collect())
}

type SamplerRefused = (NextStep, Errno);

struct SamplerOpening<'k, 'r> {
    kernel: &'k dyn LinuxKernel,
    request: &'r SamplerRequest,
    event: KernelEvent,
    leader: Option<KernelEvent>,
    /// The slower clock, which then owns the ring.
    slower: Option<KernelEvent>,
    slow_periods: Option<Periods>,
    layout: RecordLayout,
    periods: Periods,
    takes_periods: bool,
    ring_pages: usize,
    rings: Vec<CpuRing>,
}

impl<'k, 'r> SamplerOpening<'k, 'r> {
    fn new(
        kernel: &'k dyn LinuxKernel,
        request: &'r SamplerRequest,
        since_5_12: bool,
        ring_pages: usize,
    ) -> Self {
        let is_rate = request.pace().1;
        let pace = request.period();
        let weight =
            if since_5_12 { bindings::PERF_SAMPLE_WEIGHT_STRUCT } else { bindings::PERF_SAMPLE_WEIGHT };
        let (side, fields) = (request.sideband, request.fields);
        let stream = RecordStream {
            is_rate,
            watermark_bytes: watermark(ring_pages),
            mmap: side.mmap || side.mmap_data,
            mmap_data: side.mmap_data,
            comm: side.comm,
            task: side.task,
            switches: side.switches,
            identified: true,
            clock: Some(libc::CLOCK_MONOTONIC),
            max_stack: fields.call_chain.unwrap_or(0),
        };
        let sampling = Sampling {
            period: pace,
            precise: request.precise,
            fields: fields.bits(weight),
            user_registers: fields.user_registers,
        };
        let starts = |event: &KernelEvent| KernelEvent {
            disabled: request.start != SamplingStart::AtOnce,
            enable_on_exec: request.start == SamplingStart::AtExec,
            inherit: matches!(request.scope, Scope::Child(_) | Scope::Process(_)),
            ..event.clone()
        };
        let leader = request.leader.as_ref().map(starts);
        let event = KernelEvent { sampling: Some(sampling), stream, ..starts(&request.event) };
        // Behind a leader an event runs when the leader runs.
        let event = if leader.is_some() {
            KernelEvent { disabled: false, enable_on_exec: false, ..event }
        } else {
            event
        };
        let (event, slower) = match request.slower() {
            Some(_) => {
                let (event, slower) = apart(&event);
                (event, Some(slower))
            }
            None => (event, None),
        };
        Self {
            kernel,
            request,
            event,
            leader,
            slower,
            slow_periods: request.slower().map(|period| Periods::new(period, request.jitter)),
            layout: RecordLayout::new(fields, since_5_12),
            periods: Periods::new(pace, request.jitter),
            takes_periods: !is_rate,
            ring_pages,
            rings: Vec::new(),
        }
    }

    fn all(mut self, threads: &[Option<i32>]) -> Result<Sampler<'k>, SamplerRefused> {
        let mut known: BTreeSet<Option<i32>> = BTreeSet::new();
        let mut threads = threads.to_vec();
        for _ in 0..SCANS {
            for thread in threads {
                known.insert(thread);
                self.thread(thread)?;
            }
            threads = self.missed(&known);
            if threads.is_empty() {
                break;
            }
        }
        if self.rings.is_empty() {
            return Err((NextStep::Open, Errno(libc::ESRCH)));
        }
        Ok(Sampler {
            kernel: self.kernel,
            order: BinaryHeap::with_capacity(self.rings.len()),
            cpus: self.rings,
            layout: self.layout,
            ring_pages: self.ring_pages,
            periods: self.periods,
            slow_periods: self.slow_periods,
            drawn_at: Instant::now(),
            takes_periods: self.takes_periods,
            need: self.request.need(),
            lost: 0,
        })
    }

    /// Threads of a running process that were started meanwhile by one that was not yet followed. Those started by one
    /// that was are inherited and must not be opened twice: the rings have a record of their start.
    fn missed(&mut self, known: &BTreeSet<Option<i32>>) -> Vec<Option<i32>> {
        let Scope::Process(pid) = self.request.scope else {
            return Vec::new();
        };
        // Without those records nobody can tell.
        if !self.request.sideband.task || self.request.start != SamplingStart::AtOnce {
            return Vec::new();
        }
        let now = scan(pid).unwrap_or_default();
        let mut inherited = BTreeSet::new();
        for ring in &mut self.rings {
            let layout = self.layout;
            ring.ring.scan(&layout, |raw| {
                if let RingRecord::Fork { tid, .. } = layout.decode(raw) {
                    inherited.insert(Some(tid));
                }
            });
        }
        now.into_iter().filter(|thread| !known.contains(thread) && !inherited.contains(thread)).collect()
    }

    /// One thread (or none: everything) on every CPU. A thread that is gone is no failure: others may live.
    fn thread(&mut self, thread: Option<i32>) -> Result<(), SamplerRefused> {
        for cpu in self.request.sampled_cpus().iter() {
            let target = thread.map_or(EventTarget::Cpu(cpu), |tid| EventTarget::ThreadOnCpu { tid, cpu });
            match self.member(target) {
                Ok(member) => self.add_to_ring(cpu, member)?,
                Err((_, Errno(libc::ESRCH))) if matches!(self.request.scope, Scope::Process(_)) => break,
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }

    fn member(&mut self, target: EventTarget) -> Result<SamplerMember, SamplerRefused> {
        let open = |error| (NextStep::Open, error);
        let leader = self.leader.as_ref().map(|leader| self.kernel.open(leader, target, None));
        let leader = leader.transpose().map_err(open)?;
        if let (Some(event), Some(periods)) = (&mut self.slower, &mut self.slow_periods)
            && let Some(sampling) = &mut event.sampling
        {
            sampling.period = periods.draw();
        }
        let slower = self.slower.as_ref().map(|slower| self.kernel.open(slower, target, None));
        let slower = slower.transpose().map_err(open)?;
        if self.takes_periods
            && let Some(sampling) = &mut self.event.sampling
        {
            sampling.period = self.periods.draw();
        }
        let event =
            self.kernel.open(&self.event, target, leader.as_ref().map(|fd| fd.as_fd())).map_err(open)?;
        Ok(match slower {
            Some(slower) => SamplerMember { event: slower, leader, faster: Some(event) },
            None => SamplerMember { event, leader, faster: None },
        })
    }

    fn add_to_ring(&mut self, cpu: u32, member: SamplerMember) -> Result<(), SamplerRefused> {
        let refused = |errno| (NextStep::Map, errno);
        if let Some(ring) = self.rings.iter_mut().find(|ring| ring.cpu == cpu) {
            let owner = ring.members[0].event.as_fd();
            for event in std::iter::once(&member.event).chain(&member.faster) {
                self.kernel.redirect(event.as_fd(), owner).map_err(refused)?;
            }
            ring.members.push(member);
            return Ok(());
        }
        let mapping = self.kernel.map(member.event.as_fd(), self.ring_pages);
        let ring = mapping.and_then(Ring::new).map_err(refused)?;
        if let Some(faster) = &member.faster {
            self.kernel.redirect(faster.as_fd(), member.event.as_fd()).map_err(refused)?;
        }
        self.rings.push(CpuRing { cpu, ring, members: vec![member], asked: 0 });
        Ok(())
    }
}

/// One clock as two: the faster one samples and tells of context switches, the slower one samples and tells all else.
fn apart(clock: &KernelEvent) -> (KernelEvent, KernelEvent) {
    let stream = |is_slower| RecordStream {
        mmap: is_slower && clock.stream.mmap,
        mmap_data: is_slower && clock.stream.mmap_data,
        comm: is_slower && clock.stream.comm,
        task: is_slower && clock.stream.task,
        switches: !is_slower && clock.stream.switches,
        ..clock.stream
    };
    (
        KernelEvent { stream: stream(false), ..clock.clone() },
        KernelEvent { stream: stream(true), ..clock.clone() },
    )
}

/// A quarter of the ring: time enough to read before it is full, and few wake-ups.
fn watermark(ring_pages: usize) -> u32 {
    u32::try_from(ring_pages.saturating_mul(rustix::param::page_size()) / 4).unwrap_or(u32::MAX)
}
