//! Counters outside the cores, above all those of the memory controllers.

use std::time::Duration;

use pmu::{EventTarget, KernelEvent, OpenCounter, Pmu};
use record::doctor::Capability;

use super::{
    Patient,
    refusal::{Need, Trouble},
    row::{RowSubject, counted, named},
    trial::burn,
};

const SUBJECT: RowSubject = RowSubject {
    key: "uncore_memory_controllers",
    name: "Memory controllers",
    tried: "opened and read an event of every memory-controller PMU that sysfs lists, on each CPU of its cpumask, \
            and opened one of every other uncore PMU",
    unlocks: "what memory really delivered: bytes read and written per channel",
};

/// Events that count on an idle machine too, best first.
const LIVELY: [&str; 4] = ["clockticks", "dclk", "umc_mem_clk", "cas_count_read"];

/// What came of one listed PMU.
#[derive(Debug, PartialEq, Eq)]
enum UncoreOutcome {
    Usable,
    /// Listed, and nothing behind it.
    Phantom(String),
    Refused(Trouble),
}

pub(super) fn memory_controllers(patient: Patient<'_>) -> Capability {
    let uncore: Vec<_> = Pmu::list(patient.root).into_iter().filter(Pmu::is_uncore).collect();
    let (controllers, others): (Vec<_>, Vec<_>) = uncore.iter().partition(|pmu| pmu.is_memory_controller());
    let aside = beside(patient, &others);
    if controllers.is_empty() {
        return SUBJECT.missing(format!("sysfs lists no memory-controller PMU{aside}"));
    }
    let outcomes = count_all(patient, &controllers);
    let usable = outcomes.iter().filter(|outcome| **outcome == UncoreOutcome::Usable).count();
    let phantoms: Vec<_> = controllers
        .iter()
        .zip(&outcomes)
        .filter_map(|(pmu, outcome)| match outcome {
            UncoreOutcome::Phantom(why) => Some(format!("{} ({why})", pmu.name)),
            _ => None,
        })
        .collect();
    let refused = outcomes.iter().filter_map(|outcome| match outcome {
        UncoreOutcome::Refused(trouble) => Some(*trouble),
        _ => None,
    });
    match (usable, refused.max_by_key(|trouble| trouble.weight())) {
        (0, Some(trouble)) => {
            let mut refusal = patient.refusal(trouble, Need::WholeCpu);
            refusal.words = format!("{} listed; {}", controllers.len(), refusal.words);
            refusal.row(&SUBJECT)
        }
        (0, None) => SUBJECT.missing(format!("listed, but nothing behind: {}{aside}", named(&phantoms, 3))),
        (usable, _) => {
            let ghosts = match phantoms.len() {
                0 => String::new(),
                n => format!("; {}: {}", counted(n, "phantom"), named(&phantoms, 3)),
            };
            SUBJECT.found(format!("{usable} of {} listed PMUs count{ghosts}{aside}", controllers.len()))
        }
    }
}

/// Opens every controller on every CPU of its mask, lets time pass once for all, and reads.
fn count_all(patient: Patient<'_>, pmus: &[&Pmu]) -> Vec<UncoreOutcome> {
    let opened: Vec<_> = pmus.iter().map(|pmu| open(patient, pmu)).collect();
    if opened.iter().any(Result::is_ok) {
        burn(Duration::from_millis(2));
    }
    let read = |counters: Vec<OpenCounter<'_>>| {
        let ran =
            counters.iter().all(|counter| counter.read().is_ok_and(|reading| reading.counted().is_some()));
        if ran { UncoreOutcome::Usable } else { UncoreOutcome::Phantom("never runs".to_owned()) }
    };
    opened.into_iter().map(|counters| counters.map_or_else(|outcome| outcome, read)).collect()
}

/// One started counter per CPU of the mask.
fn open<'a>(patient: Patient<'a>, pmu: &Pmu) -> Result<Vec<OpenCounter<'a>>, UncoreOutcome> {
    let event = lively(pmu).in_all_modes().started();
    let mask = pmu.cpumask.clone().filter(|mask| !mask.is_empty());
    let cpus = mask.unwrap_or_else(|| patient.topology.usable_cpus().first().into_iter().collect());
    let open = |cpu| patient.open(&event, EventTarget::Cpu(cpu)).map_err(judge);
    cpus.iter().map(open).collect()
}

/// Permission and shortage say nothing about the hardware; every other refusal shows a phantom.
fn judge(trouble: Trouble) -> UncoreOutcome {
    if trouble.weight() > 0 {
        UncoreOutcome::Refused(trouble)
    } else {
        UncoreOutcome::Phantom(trouble.errno.to_string())
    }
}

/// An event of this PMU that is likely to count.
fn lively(pmu: &Pmu) -> KernelEvent {
    let names = LIVELY.into_iter().chain(pmu.events.keys().map(String::as_str));
    let mut described = names.filter_map(|name| pmu.event(name)?.ok());
    described.next().unwrap_or(KernelEvent::new(pmu.kind, 0))
}

/// How many of the other uncore PMUs can be opened, as an aside.
fn beside(patient: Patient<'_>, others: &[&Pmu]) -> String {
    let open = others.iter().filter(|pmu| open(patient, pmu).is_ok()).count();
    match others.len() {
        0 => String::new(),
        all => format!("; {open} of {all} other uncore PMUs open"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::{Errno, event::Modes, scripted::Behaviour};
    use record::doctor::CapabilityState;

    const IMC: [(&str, &str); 4] = [
        ("cpumask", "0"),
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("events/cas_count_read", "event=0x04,umask=0x03"),
    ];

    /// Five channels, of which two are phantoms.
    fn five_channels() -> Script {
        let mut script = Script::new();
        for channel in 0..5 {
            script.pmu(&format!("uncore_imc_{channel}"), 20 + channel, &IMC);
        }
        script.pmu("uncore_cha_0", 40, &[("cpumask", "0")]);
        script.kernel(|request| {
            assert_eq!((request.target, request.event.modes), (EventTarget::Cpu(0), Modes::All));
            match request.event.kind {
                20 | 21 | 24 => {
                    assert_eq!(request.event.config, 0x0304);
                    Ok(Behaviour::counts(77))
                }
                22 => Err(Errno(libc::ENODEV)),
                23 => Ok(Behaviour::never_runs()),
                _ => Ok(Behaviour::counts(1)),
            }
        });
        script
    }

    #[test]
    fn phantoms_are_counted_and_named() {
        let row = memory_controllers(five_channels().patient());
        assert_eq!(row.state, CapabilityState::Found);
        assert_eq!(
            row.detail,
            "3 of 5 listed PMUs count; 2 phantoms: uncore_imc_2 (ENODEV), uncore_imc_3 (never runs); \
             1 of 1 other uncore PMUs open"
        );
    }

    #[test]
    fn refused_absent_and_all_phantoms() {
        let mut script = five_channels();
        script.write("proc/sys/kernel/perf_event_paranoid", "2");
        script.refuse_everything(libc::EACCES);
        let row = memory_controllers(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert_eq!(row.unlock_with.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=0"));
        assert!(row.detail.starts_with("5 listed; EACCES"), "{}", row.detail);
        script.refuse_everything(libc::ENODEV);
        assert_eq!(memory_controllers(script.patient()).state, CapabilityState::Missing);
        script.refuse_everything(libc::EMFILE);
        assert_eq!(memory_controllers(script.patient()).unlock_with.as_deref(), Some("ulimit -n 4096"));
        assert_eq!(memory_controllers(Script::new().patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn every_socket_of_an_epyc_is_opened() {
        let mut script = Script::new();
        script.pmu("amd_umc_0", 30, &[("cpumask", "0,64")]);
        script.kernel(|request| match request.target {
            EventTarget::Cpu(0) => Ok(Behaviour::counts(1)),
            _ => Err(Errno(libc::ENODEV)),
        });
        let row = memory_controllers(script.patient());
        assert_eq!(row.state, CapabilityState::Missing, "half a controller is none: {}", row.detail);
    }
}
