//! `memwall calibrate`: measures the machine and fills its profile, step by step.
//!
//! Each step adds its part to the profile, which is handed to the [`Observer`] after every step, so that an
//! interrupted calibration leaves what it had. The time allowed is divided over the steps; what one does not
//! use goes to those after it. A measurement that fails becomes a remark, not the end.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answers;
mod bandwidth;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod crowd;
mod curve;
#[cfg(test)]
mod curve_models;
mod handover;
pub mod holding;
pub mod knees;
pub mod levels;
mod loaded;
mod operations;
mod remarks;
mod rounds;
#[cfg(test)]
mod scripted;
mod session;
#[cfg(test)]
mod tests;
mod timing;
mod translation;

use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
};

use machine::{
    CpuSet, Topology,
    profile::{Extent, Fingerprint, Noise, Profile},
};

use host::{
    Host,
    noise::StealWatch,
    request_check::{BadRequest, check_cpus},
    statistics,
};
use session::Session;

/// Wall time of a full calibration on two cores, a little below what is promised.
const FULL_NS: f64 = 54e9;

/// Wall time of a quick one.
const QUICK_NS: f64 = 9e9;

/// What to calibrate.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrateRequest {
    /// Ten seconds rather than a minute.
    pub quick: bool,
    /// CPUs to measure on; `None` takes one of each core we may use.
    pub cpus: Option<CpuSet>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Seconds since 1970, for the profile.
    pub now: u64,
    /// The model, if the machine is simulated: its claims are true, nothing disturbs it, and a second measurement
    /// would be the first once more.
    pub simulated: Option<String>,
}

/// Who looks on.
pub trait Observer {
    /// Called often: what is being measured, and how much of the whole is done (0 to 1).
    fn progress(&mut self, step: &str, fraction: f64);

    /// Called after every step with all that was measured so far, to be kept.
    fn keep(&mut self, profile: &Profile) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A CPU that cannot be had.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// No kernel runs on this architecture.
    #[error(
        "kernels are x86-64 machine code, and this machine is {arch}; `memwall topology` and `memwall doctor` work here"
    )]
    Architecture {
        /// What it is.
        arch: String,
    },
    /// The observer could not keep a profile.
    #[error("the profile could not be kept: {0}")]
    Keep(#[source] Box<dyn Error + Send + Sync>),
    /// Nothing at all could be measured.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
}

/// One step: its name, its share of the time, and what it does.
struct Step {
    name: &'static str,
    share: f64,
    /// Of the time on a simulated machine, which has no neighbours and nothing to try again.
    simulated_share: f64,
    run: fn(&mut Session<'_>),
}

impl Step {
    fn share(&self, request: &CalibrateRequest) -> f64 {
        if request.simulated.is_some() { self.simulated_share } else { self.share }
    }
}

/// Capacities and latencies are measured again between the other steps: each time on other pages, and with other
/// neighbours.
const AGAIN: Step = Step { name: "capacities again", share: 7.0, simulated_share: 0.0, run: rounds::again };

/// The steps in their order: what others build on first, what can be missed most easily last.
const STEPS: [Step; 13] = [
    Step { name: "overheads", share: 1.0, simulated_share: 1.0, run: timing::overheads },
    Step { name: "clock", share: 2.0, simulated_share: 2.0, run: timing::clock },
    Step { name: "operations of the core", share: 2.0, simulated_share: 0.0, run: operations::operations },
    Step { name: "where clock samples land", share: 2.0, simulated_share: 2.0, run: timing::skid },
    Step { name: "pages", share: 10.0, simulated_share: 12.0, run: translation::pages },
    Step { name: "latency curve", share: 23.0, simulated_share: 40.0, run: curve::latency_curve },
    AGAIN,
    Step {
        name: "latency and bandwidth of each level",
        share: 22.0,
        simulated_share: 27.0,
        run: bandwidth::levels,
    },
    AGAIN,
    Step { name: "core to core", share: 4.0, simulated_share: 6.0, run: handover::core_to_core },
    AGAIN,
    Step { name: "latency under load", share: 10.0, simulated_share: 12.0, run: loaded::loaded_latency },
    AGAIN,
];

/// Measures `machine` through `host`.
///
/// Returns the profile as far as it got; [`Extent::complete`] says whether that is all of it.
pub fn calibrate(
    host: &mut dyn Host,
    machine: &Topology,
    fingerprint: &Fingerprint,
    request: &CalibrateRequest,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Result<Profile, CalibrateError> {
    let cores = measured_cores(machine, request)?;
    if !machine.isa.x86_64 {
        let arch = machine.arch.clone().unwrap_or_else(|| "of unknown architecture".to_owned());
        return Err(CalibrateError::Architecture { arch });
    }
    let watch = host.watch_steal(&cores);
    let profile = empty_profile(fingerprint, request, &cores);
    let total_ns = if request.quick { QUICK_NS } else { FULL_NS };
    let mut session = Session::begin(host, machine, cores, profile, request, observer, interrupt, total_ns);
    let mut shares_left: f64 = STEPS.iter().map(|step| step.share(request)).sum();
    for step in &STEPS {
        let share = step.share(request);
        if share > 0.0 {
            session.enter(step.name, share, shares_left);
            (step.run)(&mut session);
        }
        shares_left -= share;
        session.profile.noise = watch.as_ref().map(|watch| noise_so_far(&mut session, watch));
        session.observer.keep(&session.profile).map_err(CalibrateError::Keep)?;
        if interrupt.load(Ordering::Relaxed) {
            return Ok(session.profile);
        }
    }
    finish(session)
}

/// Adds the closing remarks, once everything they are about is known.
fn finish(mut session: Session<'_>) -> Result<Profile, CalibrateError> {
    if session.profile.latency_curve.is_empty() && session.profile.clock.is_none() {
        return Err(CalibrateError::Nothing(session.profile.remarks.join(" ")));
    }
    for remark in rounds::disagreements(&session) {
        session.remark(remark);
    }
    for remark in remarks::closing(session.machine, &session.profile) {
        session.remark(remark);
    }
    session.profile.extent.complete = true;
    session.observer.progress("done", 1.0);
    session.observer.keep(&session.profile).map_err(CalibrateError::Keep)?;
    Ok(session.profile)
}

fn measured_cores(machine: &Topology, request: &CalibrateRequest) -> Result<CpuSet, CalibrateError> {
    let cores = match &request.cpus {
        Some(cpus) => cpus.clone(),
        None => machine.usable_cores(),
    };
    check_cpus(machine, &cores)?;
    Ok(cores)
}

fn noise_so_far(session: &mut Session<'_>, watch: &StealWatch) -> Noise {
    Noise {
        wall_ns: session.elapsed_ns(),
        steal_ns: watch.stolen_ns(),
        involuntary_switches: session.involuntary_switches,
        spread: statistics::median(&session.spreads),
    }
}

fn empty_profile(fingerprint: &Fingerprint, request: &CalibrateRequest, cpus: &CpuSet) -> Profile {
    Profile {
        fingerprint: fingerprint.clone(),
        simulated: request.simulated.clone(),
        measured_at: request.now,
        extent: Extent { quick: request.quick, complete: false },
        seed: request.seed,
        cpus: cpus.clone(),
        ..Profile::unmeasured()
    }
}
