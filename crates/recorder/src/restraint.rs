//! When sampling has to hold back: the kernel sets the clock of a thread anew each time the thread comes to a CPU, and takes it
//! back when it leaves. On a virtual machine that may take ten microseconds, which a program that answers short requests
//! does not work for much longer at a time.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use machine::CpuSet;
use pmu::{
    LinuxKernel, Scope,
    sampling::{Sampler, SamplerRequest, SamplingStart},
};
use rustix::{
    thread::{self, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

use super::session::clock;

/// From here on a slower clock is set: most times a thread leaves before it is due, so that no timer of the machine is touched.
pub(super) const SLOW_PERIOD_NS: u64 = 40_000_000;

/// Clocks of CPUs cost a switch nothing: so often a tick is a quarter of what sampling costs a program that only computes.
pub(super) const CPU_PERIOD_NS: u64 = 4_000_000;

/// What switches may add to the time that a program runs.
const MOST_SHARE: f64 = 0.02;

/// What they must have taken so far: a program that begins with some waiting is not judged by that.
const MOST_SPENT_NS: f64 = 50e6;

/// No switch costs more than this: it need not be measured where even that would be too little to matter.
const DEAREST_NS: f64 = 100_000.0;

/// Switches of one measurement, and how many there are.
const TURNS: u32 = 50;
const MEASUREMENTS: usize = 7;

/// How often the program's threads left a CPU, and how long they ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Switching {
    pub switches: u64,
    pub running_ns: u64,
}

/// What sampling was found to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CostOfSwitching {
    pub switching: Switching,
    /// Of one switch, there and back.
    pub switch_ns: f64,
}

impl CostOfSwitching {
    /// Of the time that the program runs.
    pub fn share(&self) -> f64 {
        self.switch_ns * self.switching.switches as f64 / self.switching.running_ns.max(1) as f64
    }
}

/// Judges once.
#[derive(Debug, Default)]
pub(super) struct Restraint {
    /// Of one switch; none before it was measured, and 0 where it could not be.
    switch_ns: Option<f64>,
    is_judged: bool,
}

impl Restraint {
    /// What switches cost, if that is too much and was not said before.
    pub fn judge(
        &mut self,
        switching: Switching,
        measure: impl FnOnce() -> Option<f64>,
    ) -> Option<CostOfSwitching> {
        let is_too_much = |switch_ns: f64| {
            let cost = CostOfSwitching { switching, switch_ns };
            let is_large = cost.share() > MOST_SHARE;
            (is_large && switch_ns * switching.switches as f64 > MOST_SPENT_NS).then_some(cost)
        };
        if self.is_judged {
            return None;
        }
        is_too_much(DEAREST_NS)?;
        let switch_ns = *self.switch_ns.get_or_insert_with(|| measure().unwrap_or(0.0));
        let found = is_too_much(switch_ns);
        self.is_judged = found.is_some();
        found
    }
}

/// What sampling adds to one switch on this CPU, there and back, in nanoseconds of the switched thread. Takes some ten
/// milliseconds.
pub(super) fn cost_of_a_switch(kernel: &dyn LinuxKernel, cpu: u32) -> Option<f64> {
    let (mut ours, mut theirs) = UnixStream::pair().ok()?;
    std::thread::scope(|scope| {
        scope.spawn(move || -> io::Result<()> {
            stay_on(cpu)?;
            let mut byte = [0];
            loop {
                theirs.read_exact(&mut byte)?;
                theirs.write_all(&byte)?;
            }
        });
        let measuring = scope.spawn(move || -> Option<f64> {
            stay_on(cpu).ok()?;
            let request = SamplerRequest {
                start: SamplingStart::ByHand,
                ..clock(1000, None, Scope::ThisThread, CpuSet::from_iter([cpu]))
            };
            let sampler = Sampler::open(kernel, &request).ok()?;
            let mut found = Vec::with_capacity(MEASUREMENTS);
            for _ in 0..MEASUREMENTS {
                let alone = turns(&mut ours).ok()?;
                sampler.start().ok()?;
                let sampled = turns(&mut ours);
                sampler.stop().ok()?;
                let more = sampled.ok()?.as_nanos() as f64 - alone.as_nanos() as f64;
                found.push(more / f64::from(TURNS));
            }
            found.sort_by(f64::total_cmp);
            Some(found[MEASUREMENTS / 2].max(0.0))
        });
        measuring.join().ok()?
    })
}

fn stay_on(cpu: u32) -> io::Result<()> {
    let mut only = thread::CpuSet::new();
    only.set(cpu as usize);
    Ok(sched_setaffinity(None, &only)?)
}

/// Processor time of handing a byte to and fro.
fn turns(other: &mut UnixStream) -> io::Result<Duration> {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
    };
    let (begin, mut byte) = (now(), [0]);
    for _ in 0..TURNS {
        other.write_all(&byte)?;
        other.read_exact(&mut byte)?;
    }
    Ok(now().saturating_sub(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmu::{
        Errno,
        scripted::{Behaviour, Scripted},
    };

    const SECOND: u64 = 1_000_000_000;

    fn judged(switches: u64, running_ns: u64, switch_ns: f64) -> Option<f64> {
        let cost = Restraint::default().judge(Switching { switches, running_ns }, || Some(switch_ns));
        cost.map(|cost| cost.share())
    }

    #[test]
    fn only_what_costs_much_is_too_much() {
        let share = judged(58_000, SECOND, 10_000.0).unwrap();
        assert!((share - 0.58).abs() < 1e-9, "{share}");
        assert_eq!(judged(58_000, SECOND, 300.0), None, "1.7 % on a machine whose timers are cheap");
        assert_eq!(judged(500, SECOND, 10_000.0), None, "half a percent");
        assert_eq!(judged(4_000, SECOND / 10, 10_000.0), None, "40 ms so far: it may only be beginning");
        assert!(judged(6_000, SECOND / 10, 10_000.0).is_some());
        assert_eq!(judged(0, 0, 10_000.0), None);
    }

    #[test]
    fn a_switch_is_measured_once_and_only_where_it_could_matter() {
        let mut restraint = Restraint::default();
        let calm = Switching { switches: 150, running_ns: SECOND };
        assert_eq!(
            restraint.judge(calm, || unreachable!("even the dearest switches would not matter")),
            None
        );
        let busy = |switches| Switching { switches, running_ns: SECOND };
        assert_eq!(restraint.judge(busy(5_000), || Some(3_000.0)), None, "1.5 %");
        let found = restraint.judge(busy(20_000), || unreachable!("it is known")).unwrap();
        assert_eq!(found.switch_ns, 3_000.0);
        assert_eq!(restraint.judge(busy(90_000), || unreachable!()), None, "once is enough");
        let mut unknown = Restraint::default();
        assert_eq!(unknown.judge(busy(90_000), || None), None, "what cannot be measured is not assumed");
    }

    #[test]
    fn measuring_ends_whatever_the_kernel_says() {
        let refusing = Scripted::new(|_| Err(Errno(libc::EACCES)));
        assert_eq!(cost_of_a_switch(&refusing, 0), None);
        let mute = Scripted::new(|_| Ok(Behaviour::samples(&[])));
        assert!(cost_of_a_switch(&mute, 0).is_some_and(f64::is_finite));
        assert_eq!(mute.open_events(), 0);
    }
}
