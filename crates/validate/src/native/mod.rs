//! Validation of this machine: hardware events where there are any, and in any case what needs none, namely software
//! events, breakpoints and the clock's samples.

mod hardware;
mod loads;
mod prefetchers;
mod software;
mod timer;
mod trial;

use std::sync::atomic::AtomicBool;

use events::Catalogue;
use kernels::generate::RandomKernel;
use machine::{Source, Topology, profile::Profile};
use trust::{OutOfSample, Validation, ValidationStep};

pub use hardware::NativeBench;
pub use timer::{Analyse, Analysed, Waiting};
pub use trial::{KernelBesideTwin, LiveTrial};

use super::{
    Observer, Request,
    roles::JudgingKernels,
    unseen::{self, CacheSizes, KernelTrial, TrialOutcome, UnseenRequest},
};

/// Why this machine could not be validated at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// Nobody knows the caches.
    #[error(
        "the sizes of the caches are not known here: 'memwall topology' shows what is; known work cannot be placed"
    )]
    NoCaches,
}

/// What is known of the machine and of the analysis before it is validated.
pub struct NativeBasis<'a> {
    /// What was measured of it.
    pub profile: Option<&'a Profile>,
    /// What the timer instrument makes of a recording.
    pub analyse: &'a Analyse<'a>,
    /// What that analysis is made of: answers of other rules are not joined with its own.
    pub rules: &'a str,
    /// Whoever can sample a kernel and relieve its loop: that takes another process.
    pub relieve: &'a Relieve<'a>,
}

/// Samples a kernel and relieves its loop, on the CPU named.
pub type Relieve<'a> = dyn Fn(&RandomKernel, u32) -> Result<TrialOutcome, String> + 'a;

/// Relieves kernels on one CPU.
pub struct RelievedTrial<'a> {
    /// Which.
    pub cpu: u32,
    /// How.
    pub relieve: &'a Relieve<'a>,
}

impl KernelTrial for RelievedTrial<'_> {
    fn try_kernel(&mut self, kernel: &RandomKernel) -> Result<TrialOutcome, String> {
        (self.relieve)(kernel, self.cpu)
    }
}

/// Validates with these kernels.
pub fn validate(
    request: &Request,
    kernels: kernels::KernelCatalogue,
    known: &JudgingKernels,
    basis: &NativeBasis<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<Validation, NativeError> {
    let NativeBasis { profile, analyse, rules, relieve } = *basis;
    let clock_hz = profile.and_then(|profile| profile.clock.as_ref()).filter(|clock| clock.agrees());
    let clock_hz = clock_hz.map(|clock| clock.add_hz);
    let source = Source::live();
    let topology = Topology::read(&source);
    let described = Catalogue::for_cpu(&topology.cpu);
    let nothing = Catalogue::without_events();
    let catalogue = described.unwrap_or(&nothing);
    let caches = |cpu| CacheSizes::of(profile, &topology, cpu);
    let mut bench = NativeBench::new(&pmu::Live, source, &topology, kernels, &caches, clock_hz)
        .ok_or(NativeError::NoCaches)?;
    let mut validation = super::validate(&mut bench, catalogue, known, request, observer, interrupt);
    if described.is_none() {
        let missing = "no event file describes this CPU";
        validation.steps.iter_mut().for_each(|step| step.missing = Some(missing.to_owned()));
    }
    observer.progress("software events", 0.0);
    let counted = software::judge();
    validation.steps.push(step("software", counted.len()));
    validation.indicators.extend(counted);
    let cpu = topology.usable_cpus().iter().last().unwrap_or(0);
    let judged = timer::judge(cpu, request.quick, analyse, observer, interrupt);
    validation.steps.push(ValidationStep {
        done: judged.done,
        missing: judged.missing,
        ..step("timer", judged.experiments)
    });
    validation.complete &= judged.done;
    validation.thresholds.extend(judged.threshold);
    validation.indicators.extend(judged.indicators);
    if let Some(caches) = CacheSizes::of(profile, &topology, cpu) {
        let mut all = observer.kept_cases();
        let mut sampled = LiveTrial { cpu, caches, analyse, keep: None };
        let mut relieved = RelievedTrial { cpu, relieve };
        let ways: [(&mut dyn KernelTrial, &str, u64, bool); 2] = [
            (&mut sampled, "random kernels", request.random_kernels, false),
            (&mut relieved, "relieved kernels", request.relieved_kernels, true),
        ];
        for (trial, name, number, with_relief) in ways.into_iter().filter(|(.., number, _)| *number > 0) {
            let first_seed = unseen::next_seed(&all);
            let rules = rules.to_owned();
            let (run, before) = (request.now, Some(all.clone()));
            let drawn = UnseenRequest { number, first_seed, before, run, rules, caches, with_relief };
            let tried = unseen::try_kernels(trial, &drawn, observer, interrupt);
            validation.steps.push(ValidationStep {
                done: tried.done,
                missing: tried.missing,
                ..step(name, tried.cases.len())
            });
            validation.complete &= tried.done;
            all.extend(tried.cases);
        }
        validation.unseen = OutOfSample::of(&all, rules);
        validation.unseen_with_relief = OutOfSample::with_relief(&all, rules);
    }
    Ok(validation)
}

fn step(name: &str, experiments: usize) -> ValidationStep {
    ValidationStep { name: name.to_owned(), done: true, experiments, missing: None }
}
