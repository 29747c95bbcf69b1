//! Reading counters without the kernel.

use pmu::{EventTarget, KernelEvent, bindings};
use record::doctor::Capability;

use super::{
    Patient,
    core_pmu::CoreKind,
    refusal::{Need, Trouble},
    row::RowSubject,
};

const SUBJECT: RowSubject = RowSubject {
    key: "rdpmc",
    name: "rdpmc",
    tried: "opened a cycles event to see whether its control page allows rdpmc while it runs",
    unlocks: "reading counters in a few dozen cycles, for short regions",
};

/// What the control page said.
enum CounterPage {
    Allowed,
    Forbidden,
    NoCounter,
}

pub(super) fn rdpmc(patient: Patient<'_>) -> Capability {
    let cores = patient.cores();
    let Some(core) = cores.first() else {
        return SUBJECT.missing("no core to try it on");
    };
    let page = patient
        .on_one_of(core.cpus.as_ref(), || look(patient, core))
        .unwrap_or_else(|errno| Err(Trouble::using(errno)));
    match page {
        Err(trouble) => patient.refusal(trouble, Need::User).row(&SUBJECT),
        Ok(CounterPage::Allowed) => SUBJECT.found("the kernel allows it for events of our own threads"),
        Ok(CounterPage::NoCounter) => {
            SUBJECT.blocked("the event got no counter to read: others hold them all", None)
        }
        Ok(CounterPage::Forbidden) => {
            let path = format!("sys/bus/event_source/devices/{}/rdpmc", core.name);
            match patient.text(&path).as_deref() {
                Ok("0") => {
                    SUBJECT.blocked(format!("/{path} is 0"), Some(format!("echo 1 | sudo tee /{path}")))
                }
                _ => SUBJECT.missing("the control page does not offer it"),
            }
        }
    }
}

fn look(patient: Patient<'_>, core: &CoreKind) -> Result<CounterPage, Trouble> {
    let cycles = KernelEvent::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, core.kind);
    let counter = patient.open(&cycles, EventTarget::ThisThread)?;
    let page = counter.map(0).map_err(Trouble::map)?;
    counter.start().map_err(Trouble::using)?;
    // Both must be seen while the event runs: off its counter there is nothing to read.
    let (allowed, on_counter) = (page.allows_rdpmc(), page.is_on_a_counter());
    counter.stop().map_err(Trouble::using)?;
    Ok(match (allowed, on_counter) {
        (true, true) => CounterPage::Allowed,
        (true, false) => CounterPage::NoCounter,
        (false, _) => CounterPage::Forbidden,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::{Errno, scripted::Behaviour};
    use record::doctor::CapabilityState;

    fn with(capabilities: u64, index: u32) -> Script {
        let mut script = Script::new();
        script.kernel(move |_| {
            let mut page = bindings::perf_event_mmap_page { index, ..Default::default() };
            page.__bindgen_anon_1.capabilities = capabilities;
            Ok(Behaviour { map: Ok((page, Vec::new())), ..Behaviour::counts(1) })
        });
        script
    }

    #[test]
    fn the_control_page_decides() {
        assert_eq!(rdpmc(with(1 << 2, 1).patient()).state, CapabilityState::Found);
        assert_eq!(rdpmc(with(1 << 2, 0).patient()).state, CapabilityState::Blocked);
        assert_eq!(rdpmc(with(1 << 3, 1).patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn a_switch_that_is_off_is_named() {
        let script = with(0, 1);
        script.pmu("cpu", 4, &[("rdpmc", "0\n")]);
        let row = rdpmc(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        let command = "echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc";
        assert_eq!(row.unlock_with.as_deref(), Some(command));
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        script.refuse_everything(libc::ENOENT);
        assert_eq!(rdpmc(script.patient()).state, CapabilityState::Missing);
        script.kernel(|_| Ok(Behaviour { map: Err(Errno(libc::EPERM)), ..Behaviour::counts(1) }));
        assert_eq!(rdpmc(script.patient()).state, CapabilityState::Blocked);
    }
}
