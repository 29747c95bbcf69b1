//! What the kernel's settings let us do with events.

use pmu::{Errno, EventTarget, KernelEvent, bindings};
use record::doctor::Capability;

use super::{Patient, refusal::Need, row::RowSubject};

const PARANOID: RowSubject = RowSubject {
    key: "perf_event_paranoid",
    name: "perf_event_paranoid",
    tried: "opened a software event for our own thread in user mode, in all modes, and for a whole CPU",
    unlocks: "events in the kernel and on whole CPUs, memory controllers and energy among them",
};

const WATCHDOG: RowSubject = RowSubject {
    key: "nmi_watchdog",
    name: "NMI watchdog",
    tried: "read kernel.nmi_watchdog",
    unlocks: "one more counter on every core when it is off",
};

/// The row of permissions.
pub(super) fn perf_event_paranoid(patient: Patient<'_>) -> Capability {
    let level = match patient.paranoid_level() {
        Some(level) => level.to_string(),
        None => return without_level(patient),
    };
    let cpu = EventTarget::Cpu(patient.topology.usable_cpus().first().unwrap_or(0));
    let event = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK);
    let steps = [
        (event.clone(), EventTarget::ThisThread, Need::User, "we may open no event"),
        (
            event.clone().in_all_modes(),
            EventTarget::ThisThread,
            Need::Kernel,
            "our own programs, in user mode only",
        ),
        (event.in_all_modes(), cpu, Need::WholeCpu, "our own programs only, no whole CPUs"),
    ];
    for (event, target, need, allowed) in steps {
        if let Err(trouble) = patient.open(&event, target) {
            let refusal = patient.refusal(trouble, need);
            // One command for all that the setting hides; other obstacles keep their own.
            let hidden_by_level = trouble.errno == Errno(libc::EACCES) && refusal.unlock_with.is_some();
            let command = hidden_by_level
                .then(|| format!("sudo sysctl kernel.perf_event_paranoid={}", Need::WholeCpu.level()));
            return PARANOID
                .blocked(format!("{level}: {allowed} ({})", trouble.errno), command.or(refusal.unlock_with));
        }
    }
    PARANOID.found(format!("{level}: we may open every event, those of whole CPUs included"))
}

/// The row of a kernel that hides or lacks the setting: whether events open decides.
fn without_level(patient: Patient<'_>) -> Capability {
    let event = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK);
    match patient.open(&event, EventTarget::ThisThread) {
        Ok(_) => PARANOID.found("the setting cannot be read, but events of our own open"),
        Err(trouble) => patient.refusal(trouble, Need::User).row(&PARANOID),
    }
}

/// The row of the watchdog, which counts cycles to see that no CPU hangs.
pub(super) fn nmi_watchdog(patient: Patient<'_>) -> Capability {
    match patient.text("proc/sys/kernel/nmi_watchdog").as_deref() {
        Ok("0") => WATCHDOG.found("off: every counter is free"),
        Ok(_) => WATCHDOG.blocked(
            "on: takes one counter of every core",
            Some("sudo sysctl kernel.nmi_watchdog=0".to_owned()),
        ),
        Err(errno) if errno.is_permission() => WATCHDOG.blocked(format!("cannot be read: {errno}"), None),
        Err(_) => WATCHDOG.missing("this kernel has none: no counter is taken"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, live, this_machine};
    use pmu::{
        event::Modes,
        scripted::{Behaviour, ScriptedRequest},
    };
    use record::doctor::CapabilityState;

    /// What an unpatched kernel answers an ordinary user at this level; Debian and Ubuntu add 3 and 4.
    fn at(level: i64) -> impl Fn(ScriptedRequest<'_>) -> Result<Behaviour, Errno> + Send + Sync {
        move |request| {
            let limit = match (request.target, request.event.modes) {
                (EventTarget::Cpu(_), _) => 0,
                (_, Modes::All | Modes::Kernel) => 1,
                (_, Modes::User) => 2,
            };
            if level > limit { Err(Errno(libc::EACCES)) } else { Ok(Behaviour::counts(1)) }
        }
    }

    #[test]
    fn each_level_says_what_it_allows() {
        let everything = "we may open every event, those of whole CPUs included";
        for (level, words) in [
            (-1, everything),
            (0, everything),
            (1, "our own programs only, no whole CPUs (EACCES)"),
            (2, "our own programs, in user mode only (EACCES)"),
            (3, "we may open no event (EACCES)"),
            (4, "we may open no event (EACCES)"),
        ] {
            let mut script = Script::new();
            script.write("proc/sys/kernel/perf_event_paranoid", &level.to_string());
            script.kernel(at(level));
            let row = perf_event_paranoid(script.patient());
            assert_eq!(row.detail, format!("{level}: {words}"));
            let command = (level > 0).then_some("sudo sysctl kernel.perf_event_paranoid=0");
            assert_eq!(row.unlock_with.as_deref(), command);
            assert_eq!(row.state, if level > 0 { CapabilityState::Blocked } else { CapabilityState::Found });
        }
    }

    #[test]
    fn a_privileged_user_is_not_held_back_by_the_level() {
        let mut script = Script::new();
        script.write("proc/sys/kernel/perf_event_paranoid", "4");
        script.kernel(at(-1));
        assert_eq!(perf_event_paranoid(script.patient()).state, CapabilityState::Found);
    }

    #[test]
    fn filters_and_kernels_without_events() {
        let mut script = Script::new();
        script.write("proc/self/status", "Seccomp:\t2\n");
        script.refuse_everything(libc::EPERM);
        let row = perf_event_paranoid(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.unlock_with.unwrap().contains("--cap-add PERFMON"));
        script.remove("proc/sys/kernel/perf_event_paranoid");
        script.refuse_everything(libc::ENOSYS);
        assert_eq!(perf_event_paranoid(script.patient()).state, CapabilityState::Missing);
        script.kernel(at(-1));
        assert_eq!(perf_event_paranoid(script.patient()).state, CapabilityState::Found);
    }

    #[test]
    fn here_the_row_says_what_opening_says() {
        let topology = this_machine();
        let whole_cpu = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK).in_all_modes();
        let cpu = EventTarget::Cpu(topology.usable_cpus().first().unwrap());
        let may = pmu::OpenCounter::open(&pmu::Live, &whole_cpu, cpu).is_ok();
        let row = perf_event_paranoid(live(&topology));
        assert_eq!(row.state == CapabilityState::Found, may, "{row:?}");
    }

    #[test]
    fn the_watchdog() {
        let script = Script::new();
        assert_eq!(nmi_watchdog(script.patient()).state, CapabilityState::Missing);
        script.write("proc/sys/kernel/nmi_watchdog", "0\n");
        assert_eq!(nmi_watchdog(script.patient()).state, CapabilityState::Found);
        script.write("proc/sys/kernel/nmi_watchdog", "1\n");
        let row = nmi_watchdog(script.patient());
        assert_eq!(
            (row.state, row.unlock_with.as_deref()),
            (CapabilityState::Blocked, Some("sudo sysctl kernel.nmi_watchdog=0"))
        );
    }
}
