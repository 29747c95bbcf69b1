//! Samples close together, now and then: they tell how far a loop gets in microseconds.
//!
//! At the usual distance a loop over a second-level cache begins again many times between two samples, and nobody knows how
//! often. Two clocks at periods that never fall into step sample at every distance from nothing to the shorter period, so
//! that one speed alone fits all of them, and what a sample itself takes shows as well.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use machine::CpuSet;
use pmu::{
    LinuxKernel, Scope,
    sampling::{RingRecord, Sampler, SamplerRequest, SamplerSwitch, SamplingPace, SamplingStart, Sideband},
};

use super::session::clock;

/// The distance of two samples of each clock.
const PERIODS_NS: [u64; 2] = [89_000, 127_000];

/// How long a burst lasts.
const BURST: Duration = Duration::from_millis(2);

/// From one burst to the next.
pub(super) const BURST_EVERY: Duration = Duration::from_millis(100);

/// Room for several bursts, if nobody reads them in time.
const RING_PAGES: usize = 8;

/// Switching more events on and off would take too long.
const MOST_EVENTS: usize = 512;

/// The clocks of bursts; none where the kernel refuses them.
pub(super) struct Bursts<'k> {
    samplers: Vec<Sampler<'k>>,
}

impl<'k> Bursts<'k> {
    /// Of a program that is not sampled.
    pub fn none() -> Self {
        Self { samplers: Vec::new() }
    }

    /// Opens the clocks; nothing is sampled before a burst.
    pub fn open(kernel: &'k dyn LinuxKernel, scope: &Scope, cpus: &CpuSet) -> Self {
        let request = |period_ns| SamplerRequest {
            pace: SamplingPace::Period(period_ns),
            jitter: None,
            start: SamplingStart::ByHand,
            // The other sampler tells who runs what.
            sideband: Sideband::default(),
            ring_pages: RING_PAGES,
            ..clock(1, None, scope.clone(), cpus.clone())
        };
        let opened = PERIODS_NS.iter().map(|&period_ns| Sampler::open(kernel, &request(period_ns)));
        let samplers: Vec<_> = opened.map_while(Result::ok).collect();
        let events: usize = samplers.iter().map(Sampler::events).sum();
        // One clock alone tells less than it costs.
        if samplers.len() < PERIODS_NS.len() || events > MOST_EVENTS {
            Self::none()
        } else {
            Self { samplers }
        }
    }

    /// Brings bursts about, also from another thread.
    pub fn switch(&self) -> BurstSwitch<'_> {
        BurstSwitch { clocks: self.samplers.iter().map(Sampler::switch).collect() }
    }

    /// Hands out what there is by now.
    pub fn drain(&mut self, mut each: impl FnMut(RingRecord<'_>)) {
        for sampler in &mut self.samplers {
            sampler.drain(&mut each);
        }
    }

    /// The same after the last burst.
    pub fn drain_all(&mut self, mut each: impl FnMut(RingRecord<'_>)) {
        for sampler in &mut self.samplers {
            sampler.drain_all(&mut each);
        }
    }
}

/// Switches the clocks of bursts on and off.
pub(super) struct BurstSwitch<'b> {
    clocks: Vec<SamplerSwitch<'b>>,
}

impl BurstSwitch<'_> {
    /// Samples for a moment, in which the caller sleeps.
    pub fn fire(&self) {
        if self.clocks.is_empty() {
            return;
        }
        // Where a clock cannot be switched on there is no burst; where one cannot be switched off, closing it does.
        if self.clocks.iter().all(|clock| clock.start().is_ok()) {
            std::thread::sleep(BURST);
        }
        self.clocks.iter().for_each(|clock| drop(clock.stop()));
    }

    /// Burst after burst until nobody is left who could send to `end`. Known work comes in stretches shorter than the time
    /// between two bursts of a program: the first is early.
    pub fn fire_until(&self, end: &Receiver<()>) {
        let mut pause = BURST_EVERY / 4;
        while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            self.fire();
            pause = BURST_EVERY;
        }
    }
}
