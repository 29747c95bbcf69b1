//! Loads that the processor samples while known work runs: their latencies, of those that memory served.

use events::{CountRefusal, Scope};
use host::meter::Meter;
use machine::CpuSet;
use pmu::{
    LinuxKernel, Pmu,
    sampling::{
        DataSource, KernelSample, Mode, RingRecord, SampledAccess, Sampler, SamplerRequest, SamplingStart,
        ServedBy, Sideband, TlbServedBy, precise_loads,
    },
};

use crate::bench::SampledLoads;

/// Loads from one sample to the next: no divisor of anything that a loop repeats.
const PERIOD: u64 = 1009;
/// Faster loads are sampled too: which of them count is said by where their data came from.
const FEWEST_CYCLES: u16 = 3;

/// Samples loads of this process's threads on some CPUs.
pub(super) struct LoadMeter<'k> {
    kernel: &'k dyn LinuxKernel,
    pmus: &'k [Pmu],
    cpus: CpuSet,
    samplers: Vec<Sampler<'k>>,
    taken: SampledLoads,
}

impl<'k> LoadMeter<'k> {
    pub fn new(kernel: &'k dyn LinuxKernel, pmus: &'k [Pmu], cpus: CpuSet) -> Self {
        Self { kernel, pmus, cpus, samplers: Vec::new(), taken: Ok(Vec::new()) }
    }

    /// What was sampled, or why nothing can be.
    pub fn taken(self) -> SampledLoads {
        self.taken
    }

    /// One sampler for each kind of core. The threads that work are there by now.
    fn open(&self) -> Result<Vec<Sampler<'k>>, String> {
        let found = precise_loads(self.pmus, FEWEST_CYCLES).map_err(|error| error.to_string())?;
        let whom = || Scope::Process(std::process::id());
        let request = |loads| SamplerRequest {
            sideband: Sideband::default(),
            start: SamplingStart::ByHand,
            ..SamplerRequest::loads(loads, PERIOD, whom(), &self.cpus)
        };
        let here = found.iter().map(request).filter(|request| !request.cpus.is_empty());
        let open = |request| Sampler::open(self.kernel, &request).map_err(|failure| failure.to_string());
        here.map(open).collect()
    }

    fn start(&mut self) -> Result<(), String> {
        self.samplers = self.open()?;
        self.samplers.iter().try_for_each(|sampler| sampler.start().map_err(|failure| failure.to_string()))
    }
}

impl Meter for LoadMeter<'_> {
    /// A refusal is what is found out, and no reason to stop the work.
    fn begin(&mut self) -> Result<(), CountRefusal> {
        if let Err(why) = self.start() {
            (self.samplers, self.taken) = (Vec::new(), Err(why));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<bool, CountRefusal> {
        for mut sampler in self.samplers.drain(..) {
            // What is in the rings stays there, whatever stopping answers.
            let _ = sampler.stop();
            sampler.drain_all(|record| {
                if let (RingRecord::Sample(sample), Ok(taken)) = (record, &mut self.taken) {
                    taken.extend(latency(&sample));
                }
            });
        }
        Ok(false)
    }
}

/// Cycles of a load of ours that memory served and whose translation was at hand; what the processor does not say is not
/// taken for either.
fn latency(sample: &KernelSample<'_>) -> Option<f64> {
    let source = sample.data_source.filter(|source| sample.mode == Mode::User && counts(source))?;
    let cycles = sample.weight?.latency_cycles();
    (cycles > 0 && source.access == Some(SampledAccess::Load)).then_some(cycles as f64)
}

fn counts(source: &DataSource) -> bool {
    let from_memory = matches!(source.level, Some(ServedBy::Ram | ServedBy::Cxl | ServedBy::Persistent));
    // Intel does not tell its two TLBs apart.
    let near = |level| matches!(level, Some(TlbServedBy::L1 | TlbServedBy::L1OrL2));
    let at_hand = source.tlb.is_some_and(|tlb| tlb.hit == Some(true) && near(tlb.level));
    from_memory && source.hit != Some(false) && at_hand
}

#[cfg(test)]
mod tests;
