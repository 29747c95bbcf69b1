//! Reading counters without the kernel.

use pmu::{Event, Target, bindings};
use record::doctor::Capability;

use super::{
    Patient,
    core_pmu::Core,
    refusal::{Need, Trouble},
    row::Subject,
};

const SUBJECT: Subject = Subject {
    key: "rdpmc",
    name: "rdpmc",
    tried: "opened a cycles event to see whether its control page allows rdpmc while it runs",
    unlocks: "reading counters in a few dozen cycles, for short regions",
};

/// What the control page said.
enum Page {
    Allowed,
    Forbidden,
    NoCounter,
}

/// The row.
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
        Ok(Page::Allowed) => SUBJECT.found("the kernel allows it for events of our own threads"),
        Ok(Page::NoCounter) => {
            SUBJECT.blocked("the event got no counter to read: others hold them all", None)
        }
        Ok(Page::Forbidden) => {
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

fn look(patient: Patient<'_>, core: &Core) -> Result<Page, Trouble> {
    let cycles = Event::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, core.kind);
    let counter = patient.open(&cycles, Target::ThisThread)?;
    let page = counter.map(0).map_err(Trouble::map)?;
    counter.start().map_err(Trouble::using)?;
    // Both must be seen while the event runs: off its counter there is nothing to read.
    let (allowed, on_counter) = (page.allows_rdpmc(), page.is_on_a_counter());
    counter.stop().map_err(Trouble::using)?;
    Ok(match (allowed, on_counter) {
        (true, true) => Page::Allowed,
        (true, false) => Page::NoCounter,
        (false, _) => Page::Forbidden,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::script::Script;
    use pmu::{Errno, scripted::Behaviour};
    use record::doctor::State;

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
        assert_eq!(rdpmc(with(1 << 2, 1).patient()).state, State::Found);
        assert_eq!(rdpmc(with(1 << 2, 0).patient()).state, State::Blocked);
        assert_eq!(rdpmc(with(1 << 3, 1).patient()).state, State::Missing);
    }

    #[test]
    fn a_switch_that_is_off_is_named() {
        let script = with(0, 1);
        script.pmu("cpu", 4, &[("rdpmc", "0\n")]);
        let row = rdpmc(script.patient());
        assert_eq!(row.state, State::Blocked);
        let command = "echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc";
        assert_eq!(row.unlock_with.as_deref(), Some(command));
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        script.refuse_everything(libc::ENOENT);
        assert_eq!(rdpmc(script.patient()).state, State::Missing);
        script.kernel(|_| Ok(Behaviour { map: Err(Errno(libc::EPERM)), ..Behaviour::counts(1) }));
        assert_eq!(rdpmc(script.patient()).state, State::Blocked);
    }
}
