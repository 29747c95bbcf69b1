//! Validation of this machine: hardware events where there are any, and in any case what needs none, namely software
//! events, breakpoints and the clock's samples.

mod hardware;
mod software;
mod timer;

use std::sync::atomic::AtomicBool;

use events::Catalogue;
use machine::{Source, Topology};
use trust::{Validation, ValidationStep};

pub use hardware::NativeBench;
pub use timer::{Analyse, Waiting};

use super::{Observer, Request, roles::JudgingKernels};

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

/// Validates with these kernels. `clock_hz`: the core clock, from the profile; `analyse`: what the timer instrument makes of a recording.
pub fn validate(
    request: &Request,
    kernels: kernels::KernelCatalogue,
    known: &JudgingKernels,
    clock_hz: Option<f64>,
    analyse: &Analyse<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<Validation, NativeError> {
    let source = Source::live();
    let topology = Topology::read(&source);
    let described = Catalogue::for_cpu(&topology.cpu);
    let nothing = Catalogue::without_events();
    let catalogue = described.unwrap_or(&nothing);
    let mut bench = NativeBench::new(source, &topology, kernels, clock_hz).ok_or(NativeError::NoCaches)?;
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
    Ok(validation)
}

fn step(name: &str, experiments: usize) -> ValidationStep {
    ValidationStep { name: name.to_owned(), done: true, experiments, missing: None }
}
