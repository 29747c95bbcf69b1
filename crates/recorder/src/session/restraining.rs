//! Holding back where sampling costs a program too much.

use record::run::SlowedSampling;

use super::*;
use crate::restraint::{CPU_PERIOD_NS, CostOfSwitching, SLOW_PERIOD_NS, cost_of_a_switch};

/// How a program is sampled that is switched often.
pub(super) struct HoldingBack {
    cost: CostOfSwitching,
    /// What a sample stood for before.
    before_ns: f64,
    /// Asked for the times of threads.
    watch: ScheduleWatch,
    /// By clocks of the CPUs, not of the threads.
    by_cpu: bool,
    /// When periods are drawn anew.
    next_draw: Instant,
}

/// What has passed of a period is lost when another is drawn: with long ones that must be rare.
const DRAW_EVERY: Duration = Duration::from_nanos(50 * SLOW_PERIOD_NS);

impl HoldingBack {
    /// What the reader should know.
    pub fn words(&self, slowed: &SlowedSampling, period_ns: f64) -> String {
        let CostOfSwitching { switching, switch_ns } = self.cost;
        let per_s = switching.switches as f64 * 1e9 / switching.running_ns.max(1) as f64;
        let rest = match self.by_cpu {
            true => "by clocks of the CPUs, which add nothing to a switch",
            false => {
                "which still adds some percent (clocks of the CPUs would not; they take root, or kernel.perf_event_paranoid at 0)"
            }
        };
        format!(
            "Threads left the CPU {per_s:.0} times in a second of running, and a switch takes up to {:.1} µs longer under \
             sampling here, up to {:.0} % of the program's time. So from {:.2} s on it was sampled {:.0} times a second, \
             {rest}, and times of threads were asked for. Of the samples of before {:.1} % count: shares hold for the whole \
             run.",
            switch_ns / 1e3,
            100.0 * self.cost.share(),
            slowed.from_ns as f64 / 1e9,
            1e9 / period_ns,
            100.0 * slowed.counted_before,
        )
    }
}

impl RecordSession<'_> {
    /// Whether the next samples should come at another distance.
    pub(super) fn may_draw(&mut self) -> bool {
        let Some(held_back) = &mut self.held_back else { return true };
        let is_due = Instant::now() >= held_back.next_draw;
        if is_due {
            held_back.next_draw = Instant::now() + DRAW_EVERY;
        }
        is_due
    }

    /// Looks whether switches cost too much, or, where they did, asks threads for their times.
    pub(super) fn restrain(&mut self) {
        if let Some(held_back) = &mut self.held_back {
            self.recorder.ask_all(&mut held_back.watch, now_ns());
            return;
        }
        let SessionInstrument::Sampler(sampler) = &self.instrument else { return };
        let (kernel, cpu) = (self.kernel, sampler.cpus().next().unwrap_or(0));
        let cost = self.restraint.judge(self.recorder.switching(), || cost_of_a_switch(kernel, cpu));
        if let Some(cost) = cost {
            self.hold_back(cost);
        }
    }

    fn hold_back(&mut self, cost: CostOfSwitching) {
        let SessionInstrument::Sampler(sampler) = &mut self.instrument else { return };
        let Some(before_ns) = sampler.mean_period() else { return };
        if sampler.slow_down().is_none() {
            return;
        }
        let at_ns = now_ns();
        self.drain();
        self.bursts = Bursts::none();
        let mut watch = ScheduleWatch::default();
        self.recorder.begin_asking(&mut watch, at_ns);
        let by_cpu = self.sample_cpus();
        let from_ns = self.recorder.window().time(at_ns);
        self.about.slowed = Some(SlowedSampling { from_ns, counted_before: 1.0 });
        self.held_back =
            Some(HoldingBack { cost, before_ns, watch, by_cpu, next_draw: Instant::now() + DRAW_EVERY });
        self.tell_period();
        // Whoever reads what a memwall left that was killed must know.
        self.recorder.writer.about(&self.about);
    }

    /// Says what samples stand for, as far as is known by now.
    pub(super) fn tell_period(&mut self) {
        let SessionInstrument::Sampler(sampler) = &self.instrument else { return };
        self.about.period_ns = sampler.mean_period().unwrap_or(self.about.period_ns);
        if let (Some(slowed), Some(held_back)) = (&mut self.about.slowed, &self.held_back) {
            slowed.counted_before = (held_back.before_ns / self.about.period_ns).min(1.0);
        }
    }

    /// Samples CPUs instead of threads, if the kernel allows that.
    fn sample_cpus(&mut self) -> bool {
        let SessionInstrument::Sampler(sampler) = &self.instrument else { return false };
        let cpus: CpuSet = sampler.cpus().collect();
        // Never more often than was asked for.
        let asked_ns = (1e9 / self.about.rate_hz) as u64;
        let request = SamplerRequest {
            pace: SamplingPace::Period(CPU_PERIOD_NS.max(asked_ns)),
            slower: None,
            sideband: Sideband::for_symbols(),
            ..clock(1, self.call_chain, Scope::Cpus(cpus.clone()), cpus)
        };
        let Ok(wide) = Sampler::open(self.kernel, &request) else { return false };
        // Both run for a moment: what comes before it is taken from one, what comes after from the other.
        let at_ns = now_ns();
        let left = std::mem::replace(&mut self.instrument, SessionInstrument::Sampler(Box::new(wide)));
        if let SessionInstrument::Sampler(left) = left {
            // Closing it stops it.
            let _ = left.stop();
            self.recorder.hand_over(*left, at_ns);
        }
        true
    }
}
