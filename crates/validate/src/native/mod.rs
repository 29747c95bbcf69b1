//! Validation of this machine: hardware events where there are any, and in any case what needs none, namely software
//! events, breakpoints and the clock's samples.

mod hardware;
mod prefetchers;
mod software;
mod timer;
mod trial;

use std::sync::atomic::AtomicBool;

use events::Catalogue;
use machine::{Source, Topology, profile::Profile};
use trust::{OutOfSample, Validation, ValidationStep};

pub use hardware::NativeBench;
pub use timer::{Analyse, Analysed, Waiting};
pub use trial::LiveTrial;

use super::{
    Observer, Request,
    roles::JudgingKernels,
    unseen::{self, CacheSizes, UnseenRequest},
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
    let NativeBasis { profile, analyse, rules } = *basis;
    let clock_hz = profile.and_then(|profile| profile.clock.as_ref()).filter(|clock| clock.agrees());
    let clock_hz = clock_hz.map(|clock| clock.add_hz);
    let source = Source::live();
    let topology = Topology::read(&source);
    let described = Catalogue::for_cpu(&topology.cpu);
    let nothing = Catalogue::without_events();
    let catalogue = described.unwrap_or(&nothing);
    let caches = |cpu| CacheSizes::of(profile, &topology, cpu);
    let mut bench =
        NativeBench::new(source, &topology, kernels, &caches, clock_hz).ok_or(NativeError::NoCaches)?;
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
        let request = UnseenRequest {
            number: request.random_kernels,
            first_seed: unseen::next_seed(&all),
            run: request.now,
            rules: rules.to_owned(),
            caches,
        };
        let tried =
            unseen::try_kernels(&mut LiveTrial { cpu, analyse, keep: None }, &request, observer, interrupt);
        validation.steps.push(ValidationStep {
            done: tried.done,
            missing: tried.missing,
            ..step("random kernels", tried.cases.len())
        });
        validation.complete &= tried.done;
        all.extend(tried.cases);
        validation.unseen = OutOfSample::of(&all, rules);
    }
    Ok(validation)
}

fn step(name: &str, experiments: usize) -> ValidationStep {
    ValidationStep { name: name.to_owned(), done: true, experiments, missing: None }
}
