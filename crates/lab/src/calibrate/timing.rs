//! Steps: what measuring costs, and the core clock.

use super::session::Session;
use crate::clock;

/// Reads of clocks and system calls.
pub(super) fn overheads(session: &mut Session<'_>) {
    let overheads = session.rig.overheads();
    if overheads.tsc_read_ns.is_none() {
        session.remark(
            "The time stamp counter is not constant here or may not be read; times come from CLOCK_MONOTONIC alone."
                .to_owned(),
        );
    }
    session.profile.overheads = Some(overheads);
}

/// Two chains of register-only instructions.
pub(super) fn clock(session: &mut Session<'_>) {
    let cpu = session.cpu;
    let step_ns = |session: &mut Session<'_>, kernel, remaining| {
        let measured = session.measure(&clock::chain_job(kernel, cpu), remaining)?;
        measured.step_ns().map(|step| step.value)
    };
    let Some(add_ns) = step_ns(session, "add-chain", 2) else {
        return;
    };
    session.progress(0.5);
    let Some(mul_ns) = step_ns(session, "mul-chain", 1) else {
        return;
    };
    let tsc_hz = session.rig.tsc_hz();
    session.profile.clock = clock::from_chains(add_ns, mul_ns, tsc_hz);
    if let Some(doubt) = session.profile.clock.as_ref().and_then(clock::doubt) {
        session.remark(doubt);
    }
}
