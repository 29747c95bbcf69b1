//! Hardware breakpoints as counters.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use pmu::{CounterReading, EventTarget, KernelEvent};
use record::doctor::Capability;

use super::{
    Patient,
    refusal::{Need, Trouble},
    row::RowSubject,
};

const SUBJECT: RowSubject = RowSubject {
    key: "breakpoint_events",
    name: "Breakpoint events",
    tried: "opened a breakpoint on a variable of this thread, wrote to it 100 times, and read the count",
    unlocks: "exact counts of accesses to one address, without a PMU",
};

/// How often the variable is written.
const WRITES: u64 = 100;

pub(super) fn breakpoint_events(patient: Patient<'_>) -> Capability {
    match count_writes(patient) {
        Err(trouble) if trouble.errno.0 == libc::ENOSPC => SUBJECT
            .blocked("ENOSPC: all breakpoint registers are taken, by a debugger or another profiler", None),
        Err(trouble) => patient.refusal(trouble, Need::User).row(&SUBJECT),
        Ok(reading) => match reading.counted() {
            Some(WRITES) => SUBJECT.found(format!("{WRITES} writes to a variable, {WRITES} counted")),
            Some(other) => SUBJECT.missing(format!("{WRITES} writes to a variable, {other} counted")),
            None => SUBJECT.missing("opens, but never runs"),
        },
    }
}

fn count_writes(patient: Patient<'_>) -> Result<CounterReading, Trouble> {
    let cell = AtomicU64::new(0);
    let counter = patient.open(&KernelEvent::writes_to(&raw const cell as u64), EventTarget::ThisThread)?;
    counter.start().map_err(Trouble::using)?;
    for value in 0..WRITES {
        // The address escapes each time, so that no store is merged with the next.
        black_box(&cell).store(value, Ordering::Relaxed);
    }
    counter.stop().map_err(Trouble::using)?;
    counter.read().map_err(Trouble::using)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, live_or_refused};
    use pmu::scripted::Behaviour;
    use record::doctor::CapabilityState;

    #[test]
    fn only_the_right_count_is_found() {
        let mut script = Script::new();
        for (behaviour, state) in [
            (Behaviour::counts(100), CapabilityState::Found),
            (Behaviour::counts(99), CapabilityState::Missing),
            (Behaviour::counts(0), CapabilityState::Missing),
            (Behaviour::never_runs(), CapabilityState::Missing),
        ] {
            script.kernel(move |_| Ok(behaviour.clone()));
            assert_eq!(breakpoint_events(script.patient()).state, state);
        }
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        for (errno, state) in [
            (libc::ENOSPC, CapabilityState::Blocked),
            (libc::EACCES, CapabilityState::Blocked),
            (libc::EMFILE, CapabilityState::Blocked),
            (libc::ENOENT, CapabilityState::Missing),
        ] {
            script.refuse_everything(errno);
            assert_eq!(breakpoint_events(script.patient()).state, state);
        }
    }

    #[test]
    fn here_n_writes_count_n_or_the_kernel_refuses() {
        let cell = AtomicU64::new(0);
        let event = KernelEvent::writes_to(&raw const cell as u64);
        live_or_refused(&event, breakpoint_events, |row| {
            assert_eq!(row.detail, "100 writes to a variable, 100 counted")
        });
    }
}
