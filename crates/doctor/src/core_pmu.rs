//! The counters of the cores.

use std::time::Duration;

use machine::CpuSet;
use pmu::{Errno, EventTarget, KernelEvent, OpenCounter, Pmu, bindings};
use record::doctor::{Capability, CapabilityState};

use super::{
    Patient,
    refusal::{Need, Trouble},
    row::{RowSubject, counted},
    trial::burn,
};

const SUBJECT: RowSubject = RowSubject {
    key: "core_pmu",
    name: "Core PMU",
    tried: "counted cycles of a short loop on each kind of core; where they count, added branch misses to a group \
            until it got no counters any more",
    unlocks: "hardware events: cycles, stalls, cache lines moved per level",
};

/// More counters than any known core has; ends the search on a kernel that accepts everything.
const MOST_COUNTERS: usize = 64;

/// One kind of core and how its events are addressed.
#[derive(Clone, Debug)]
pub(super) struct CoreKind {
    /// The PMU's name in sysfs.
    pub name: String,
    /// The PMU's type where generic events must name it: on machines with several core PMUs.
    pub kind: Option<u32>,
    /// CPUs of this kind; `None` if all are.
    pub cpus: Option<CpuSet>,
    /// What sysfs says of it; `None` if it lists no core PMU.
    pub listed: Option<Pmu>,
}

impl Patient<'_> {
    /// The kinds of cores to try. One nameless kind where sysfs lists none: only trying tells.
    pub(super) fn cores(&self) -> Vec<CoreKind> {
        let listed: Vec<_> = Pmu::list(self.root).into_iter().filter(Pmu::is_core).collect();
        if listed.is_empty() {
            return vec![CoreKind { name: "cpu".to_owned(), kind: None, cpus: None, listed: None }];
        }
        let several = listed.len() > 1;
        let core = |pmu: Pmu| CoreKind {
            name: pmu.name.clone(),
            kind: several.then_some(pmu.kind),
            cpus: pmu.cpus.clone().filter(|_| several),
            listed: Some(pmu),
        };
        listed.into_iter().map(core).collect()
    }
}

/// What one core PMU can do.
#[derive(Debug)]
enum CorePmuOutcome {
    Counts(CoreCounters),
    /// Opened, started, never on a counter.
    NeverRan,
    /// On a counter, and cycles did not pass.
    Stuck,
    Refused(Trouble),
    /// None of its CPUs is ours.
    Unreachable(Errno),
}

#[derive(Debug)]
struct CoreCounters {
    general: usize,
    fixed: usize,
    /// What ended the search.
    end: String,
}

pub(super) fn core_pmu(patient: Patient<'_>) -> Capability {
    let cores = patient.cores();
    let outcomes: Vec<_> = cores.iter().map(|core| (core, examine(patient, core))).collect();
    let working: Vec<_> =
        outcomes.iter().filter(|(_, outcome)| matches!(outcome, CorePmuOutcome::Counts(_))).collect();
    if working.is_empty() {
        return without(patient, &outcomes);
    }
    let words: Vec<_> =
        outcomes.iter().map(|(core, outcome)| describe(core, outcome, cores.len() > 1)).collect();
    SUBJECT.found(words.join("; "))
}

/// The row of a machine on which no core counts: the most telling reason decides.
fn without(patient: Patient<'_>, outcomes: &[(&CoreKind, CorePmuOutcome)]) -> Capability {
    let troubles = outcomes.iter().filter_map(|(core, outcome)| match outcome {
        CorePmuOutcome::Refused(trouble) => Some((core, *trouble)),
        _ => None,
    });
    if let Some((core, trouble)) = troubles.max_by_key(|(_, trouble)| trouble.weight()) {
        let mut refusal = patient.refusal(trouble, Need::User);
        match (&core.listed, refusal.state) {
            (None, CapabilityState::Blocked) => refusal.words += "; sysfs lists no core PMU either",
            (Some(pmu), CapabilityState::Missing) => {
                refusal.words = format!("sysfs lists {}, but it fails: {}", pmu.name, refusal.words);
            }
            (None, _) if patient.topology.hypervisor.is_some() => {
                refusal.words = format!("{}: the hypervisor passes no counters through", trouble.errno);
            }
            _ => {}
        }
        return refusal.row(&SUBJECT);
    }
    let words: Vec<_> =
        outcomes.iter().map(|(core, outcome)| describe(core, outcome, outcomes.len() > 1)).collect();
    let stuck = outcomes.iter().all(|(_, outcome)| matches!(outcome, CorePmuOutcome::Stuck));
    if stuck { SUBJECT.missing(words.join("; ")) } else { SUBJECT.blocked(words.join("; "), None) }
}

fn describe(core: &CoreKind, outcome: &CorePmuOutcome, several: bool) -> String {
    let words = match outcome {
        CorePmuOutcome::Counts(CoreCounters { general, fixed, end }) => {
            let fixed = if *fixed > 0 { format!(" + {fixed} fixed") } else { String::new() };
            format!("{}{fixed} ({end})", counted(*general, "counter"))
        }
        CorePmuOutcome::NeverRan => "opens, but never gets a counter: others hold them all".to_owned(),
        CorePmuOutcome::Stuck => "opens, but counts no cycles: an empty virtual PMU".to_owned(),
        CorePmuOutcome::Refused(trouble) => trouble.errno.to_string(),
        CorePmuOutcome::Unreachable(errno) => format!("not tried, none of its CPUs is ours ({errno})"),
    };
    if several { format!("{}: {words}", core.name) } else { words }
}

fn examine(patient: Patient<'_>, core: &CoreKind) -> CorePmuOutcome {
    let tried = patient.on_one_of(core.cpus.as_ref(), || {
        let cycles = KernelEvent::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, core.kind);
        match patient.count(&cycles).map(|reading| reading.counted()) {
            Err(trouble) => CorePmuOutcome::Refused(trouble),
            Ok(None) => CorePmuOutcome::NeverRan,
            Ok(Some(0)) => CorePmuOutcome::Stuck,
            Ok(Some(_)) => CorePmuOutcome::Counts(counters(patient, core)),
        }
    });
    tried.unwrap_or_else(CorePmuOutcome::Unreachable)
}

/// Grows a group until it no longer counts. Branch misses fit every general counter and no fixed one.
fn counters(patient: Patient<'_>, core: &CoreKind) -> CoreCounters {
    let event = |id| KernelEvent::hardware(id, core.kind);
    let misses = event(bindings::PERF_COUNT_HW_BRANCH_MISSES);
    let mut group: Vec<OpenCounter<'_>> = Vec::new();
    let end = loop {
        if group.len() == MOST_COUNTERS {
            break format!("a group of {MOST_COUNTERS} still counts");
        }
        match grow(patient, &group, &misses) {
            Ok(Some(member)) => group.push(member),
            Ok(None) => break format!("a group of {} opens and gets none", group.len() + 1),
            Err(errno) => break format!("a group of {} gives {errno}", group.len() + 1),
        }
    };
    let general = group.len();
    for id in [
        bindings::PERF_COUNT_HW_CPU_CYCLES,
        bindings::PERF_COUNT_HW_INSTRUCTIONS,
        bindings::PERF_COUNT_HW_REF_CPU_CYCLES,
    ] {
        // Whatever still counts beside a full group has a counter of its own.
        if general > 0
            && let Ok(Some(member)) = grow(patient, &group, &event(id))
        {
            group.push(member);
        }
    }
    CoreCounters { general, fixed: group.len() - general, end }
}

/// Adds an event to a group led by its first member; `None` if the whole then gets no counters.
fn grow<'a>(
    patient: Patient<'a>,
    group: &[OpenCounter<'a>],
    event: &KernelEvent,
) -> Result<Option<OpenCounter<'a>>, Errno> {
    let member = match group.first() {
        None => OpenCounter::open(patient.kernel, event, EventTarget::ThisThread)?,
        Some(leader) => leader.join(event, EventTarget::ThisThread)?,
    };
    let leader = group.first().unwrap_or(&member);
    leader.start()?;
    burn(Duration::from_micros(300));
    leader.stop()?;
    let counted = member.read()?.counted().is_some();
    Ok(counted.then_some(member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::scripted::{Behaviour, ScriptedRequest};

    /// A core with this many general counters and fixed counters for cycles, instructions and reference cycles.
    fn core(
        general: usize,
        fixed: bool,
    ) -> impl Fn(ScriptedRequest<'_>) -> Result<Behaviour, Errno> + Send + Sync {
        move |request| {
            let misses =
                request.event.config & 0xffff_ffff == u64::from(bindings::PERF_COUNT_HW_BRANCH_MISSES);
            let fits = if misses || !fixed { request.group < general } else { request.group < general + 3 };
            if fits { Ok(Behaviour::counts(1_000_000)) } else { Err(Errno(libc::EINVAL)) }
        }
    }

    #[test]
    fn counters_are_found_by_growing_a_group() {
        let mut script = Script::new();
        script.kernel(core(4, true));
        let row = core_pmu(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "4 counters + 3 fixed (a group of 5 gives EINVAL)")
        );
        script.kernel(core(6, false));
        assert_eq!(core_pmu(script.patient()).detail, "6 counters (a group of 7 gives EINVAL)");
        assert_eq!(script.kernel.open_events(), 0);
    }

    #[test]
    fn a_group_that_opens_and_never_runs_is_too_large() {
        let mut script = Script::new();
        script.kernel(|request| {
            Ok(if request.group < 3 { Behaviour::counts(9) } else { Behaviour::never_runs() })
        });
        assert_eq!(core_pmu(script.patient()).detail, "3 counters (a group of 4 opens and gets none)");
        script.kernel(|_| Ok(Behaviour::counts(9)));
        assert!(core_pmu(script.patient()).detail.contains("a group of 64 still counts"));
    }

    #[test]
    fn an_event_without_a_counter_is_not_a_count_of_zero() {
        let mut script = Script::new();
        script.kernel(|_| Ok(Behaviour::never_runs()));
        let row = core_pmu(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.detail.contains("never gets a counter"), "{}", row.detail);
        script.kernel(|_| Ok(Behaviour::counts(0)));
        let row = core_pmu(script.patient());
        assert_eq!(row.state, CapabilityState::Missing);
        assert!(row.detail.contains("counts no cycles"), "{}", row.detail);
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        script.refuse_everything(libc::ENOENT);
        let row = core_pmu(script.patient());
        assert_eq!((row.state, row.unlock_with), (CapabilityState::Missing, None));
        script.topology.hypervisor = Some("KVM".to_owned());
        assert_eq!(core_pmu(script.patient()).detail, "ENOENT: the hypervisor passes no counters through");

        script.write("proc/sys/kernel/perf_event_paranoid", "3");
        script.refuse_everything(libc::EACCES);
        let row = core_pmu(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.detail.contains("sysfs lists no core PMU either"), "{}", row.detail);
        assert_eq!(row.unlock_with.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=2"));

        script.pmu("cpu", 4, &[]);
        script.refuse_everything(libc::ENODEV);
        let row = core_pmu(script.patient());
        assert_eq!(row.state, CapabilityState::Missing);
        assert!(row.detail.starts_with("sysfs lists cpu, but it fails: ENODEV"), "{}", row.detail);
    }

    #[test]
    fn each_kind_of_core_of_a_hybrid_is_tried_by_its_own_type() {
        let mut script = Script::new();
        script.cpus(4);
        script.pmu("cpu_core", 4, &[("cpus", "0-1")]);
        script.pmu("cpu_atom", 10, &[("cpus", "2-3")]);
        script.kernel(|request| match request.event.config >> 32 {
            4 => core(8, true)(request),
            10 => core(6, false)(request),
            _ => Err(Errno(libc::ENOENT)),
        });
        let row = core_pmu(script.patient());
        assert_eq!(row.state, CapabilityState::Found);
        assert!(row.detail.contains("cpu_core: 8 counters + 3 fixed"), "{}", row.detail);
        assert!(row.detail.contains("cpu_atom: 6 counters ("), "{}", row.detail);
        assert_eq!(script.system.pinned(), [2, 0]);

        script.pmu("cpu_atom", 10, &[("cpus", "16-23")]);
        let row = core_pmu(script.patient());
        assert!(
            row.detail.contains("cpu_atom: not tried, none of its CPUs is ours (EINVAL)"),
            "{}",
            row.detail
        );
    }
}
