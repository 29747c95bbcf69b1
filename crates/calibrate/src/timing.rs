//! Steps: what measuring costs, and the core clock.

use super::session::Session;
use host::clock;

/// Reads of clocks and system calls.
pub(super) fn overheads(session: &mut Session<'_>) {
    let overheads = session.host.overheads();
    if overheads.is_some_and(|overheads| overheads.tsc_read_ns.is_none()) {
        session.remark(
            "The time stamp counter is not constant here or may not be read; times come from CLOCK_MONOTONIC alone."
                .to_owned(),
        );
    }
    session.profile.overheads = overheads;
}

/// Two chains of register-only instructions.
pub(super) fn clock(session: &mut Session<'_>) {
    session.profile.clock = clock::estimate(session.host, session.cpu, session.interrupt);
    if let Some(doubt) = session.profile.clock.as_ref().and_then(clock::doubt) {
        session.remark(doubt);
    }
}

/// Where clock samples land.
pub(super) fn skid(session: &mut Session<'_>) {
    match session.host.skid(session.cpu) {
        Some(Ok(timer)) => session.profile.timer = Some(timer),
        Some(Err(error)) => session.remark(format!("{error}.")),
        None => {}
    }
}
