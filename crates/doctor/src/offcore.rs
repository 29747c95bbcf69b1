//! Filters on what leaves the core.

use pmu::{KernelEvent, Pmu};
use record::doctor::Capability;

use super::{
    Patient,
    core_pmu::CoreKind,
    refusal::{Need, Trouble},
    row::RowSubject,
};

const SUBJECT: RowSubject = RowSubject {
    key: "offcore_filters",
    name: "Offcore filters",
    tried: "counted demand data reads through an offcore-response filter on each core PMU whose format has one",
    unlocks: "DRAM and remote traffic of one program, split by who supplied the line",
};

/// OFFCORE_RESPONSE as older and as newer cores encode it.
const ENCODINGS: [u64; 2] = [0x01b7, 0x012a];

/// Demand data reads, any response.
const FILTER: u64 = 0x1_0001;

pub(super) fn offcore_filters(patient: Patient<'_>) -> Capability {
    let cores = patient.cores();
    let with_field: Vec<_> = cores
        .iter()
        .filter_map(|core| {
            Some((core, core.listed.as_ref().filter(|pmu| pmu.fields.contains_key("offcore_rsp"))?))
        })
        .collect();
    if with_field.is_empty() {
        return SUBJECT.missing("no core PMU here has an offcore_rsp field");
    }
    let mut accepted = Vec::new();
    let mut worst: Option<Trouble> = None;
    for (core, pmu) in with_field {
        match accepts(patient, core, pmu) {
            Ok(encoding) => accepted.push(format!("{} accepts event {encoding:#06x}", pmu.name)),
            Err(trouble) => worst = worst.into_iter().chain([trouble]).max_by_key(|trouble| trouble.weight()),
        }
    }
    match (accepted.is_empty(), worst) {
        (true, Some(trouble)) => patient.refusal(trouble, Need::User).row(&SUBJECT),
        _ => SUBJECT.found(accepted.join(", ")),
    }
}

/// The first encoding that gets a counter.
fn accepts(patient: Patient<'_>, core: &CoreKind, pmu: &Pmu) -> Result<u64, Trouble> {
    let attempt = |encoding| {
        let mut event = KernelEvent::new(pmu.kind, encoding);
        pmu.fields["offcore_rsp"].put(&mut event, FILTER);
        let reading = patient.count(&event)?;
        reading.counted().map(|_| encoding).ok_or(Trouble::using(pmu::Errno(libc::EBUSY)))
    };
    let tried = patient.on_one_of(core.cpus.as_ref(), || {
        let [old, new] = ENCODINGS;
        attempt(old).or_else(|first| {
            attempt(new).map_err(|second| if first.weight() > second.weight() { first } else { second })
        })
    });
    tried.unwrap_or_else(|errno| Err(Trouble::using(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::{Errno, scripted::Behaviour};
    use record::doctor::CapabilityState;

    fn intel() -> Script {
        let script = Script::new();
        script.pmu("cpu", 4, &[("format/offcore_rsp", "config1:0-63"), ("format/event", "config:0-7")]);
        script
    }

    #[test]
    fn the_encoding_the_core_knows_is_found() {
        let mut script = intel();
        script.kernel(|request| match (request.event.kind, request.event.config, request.event.config1) {
            (4, 0x012a, 0x1_0001) => Ok(Behaviour::counts(3)),
            _ => Err(Errno(libc::EINVAL)),
        });
        let row = offcore_filters(script.patient());
        assert_eq!((row.state, row.detail.as_str()), (CapabilityState::Found, "cpu accepts event 0x012a"));
    }

    #[test]
    fn refused_never_run_and_absent() {
        let mut script = intel();
        script.refuse_everything(libc::EINVAL);
        assert_eq!(offcore_filters(script.patient()).state, CapabilityState::Missing);
        script.refuse_everything(libc::EACCES);
        assert_eq!(offcore_filters(script.patient()).state, CapabilityState::Blocked);
        script.kernel(|_| Ok(Behaviour::never_runs()));
        assert_eq!(offcore_filters(script.patient()).state, CapabilityState::Blocked);

        let amd = Script::new();
        amd.pmu("cpu", 4, &[("format/event", "config:0-7,32-35")]);
        let row = offcore_filters(amd.patient());
        assert_eq!(row.state, CapabilityState::Missing);
        assert!(row.detail.contains("offcore_rsp"));
    }
}
