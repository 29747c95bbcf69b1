//! Events that are sampled beside the clock.

use machine::CpuSet;
use pmu::{
    LinuxKernel, NamedSampling, Scope,
    sampling::{Fields, Mode, Sampler, SamplerRequest, SamplingFailure, SamplingPace, Sideband},
};
use record::sampled::{EventPace, EventUse, RecordedEvent};

/// Pages of each ring: several events share what a user may lock.
const RING_PAGES: usize = 32;

/// A sampler of one event.
pub(super) struct EventSampler<'k> {
    /// Which of those asked for.
    pub event: u32,
    pub sampler: Sampler<'k>,
}

/// A sample that was taken out of its ring. Who runs what stands in the clock's ring, which is read after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedEvent {
    pub event: u32,
    pub pid: i32,
    pub tid: i32,
    pub cpu: u32,
    pub time_ns: u64,
    pub mode: Mode,
    pub ip: u64,
    pub period: Option<u64>,
}

/// How events are to be sampled.
pub(super) struct EventsAsked<'a, 'k> {
    pub kernel: &'k dyn LinuxKernel,
    pub rate_hz: u32,
    /// Instead of the rate.
    pub period: Option<u64>,
    pub scope: &'a Scope,
    pub cpus: &'a CpuSet,
}

impl<'k> EventsAsked<'_, 'k> {
    /// One sampler for each kind of core.
    pub fn open(&self, named: &NamedSampling) -> Result<Vec<Sampler<'k>>, SamplingFailure> {
        let pace = match self.period {
            Some(period) => SamplingPace::Period(period),
            None => SamplingPace::PerSecond(self.rate_hz.into()),
        };
        let mut samplers = Vec::new();
        for form in &named.forms {
            let cpus =
                form.cpus.as_ref().map_or_else(|| self.cpus.clone(), |able| able.intersection(self.cpus));
            if cpus.is_empty() {
                continue;
            }
            let request = SamplerRequest {
                event: form.event.clone(),
                precise: named.precise,
                fields: Fields { ip: true, period: true, ..Fields::default() },
                sideband: Sideband::default(),
                ring_pages: RING_PAGES,
                pace,
                jitter: None,
                ..SamplerRequest::clock(self.scope.clone(), cpus)
            };
            samplers.push(Sampler::open(self.kernel, &request)?);
        }
        Ok(samplers)
    }

    /// What the recording says of it before there are samples.
    pub fn about(&self, named: &NamedSampling) -> RecordedEvent {
        let per_second = || EventPace::PerSecond(self.rate_hz.into());
        let pace = self.period.map_or_else(per_second, EventPace::Every);
        RecordedEvent::new(named.name.clone(), EventUse::Counted, Some(pace))
    }
}
