//! Keeping a thread on a CPU.

use pmu::Errno;
use record::doctor::Capability;

use super::{
    Patient,
    row::{RowSubject, counted, named},
};

const SUBJECT: RowSubject = RowSubject {
    key: "pinning",
    name: "Pinning",
    tried: "pinned a throwaway thread to each CPU our cpuset allows, and asked where it ran",
    unlocks: "measurements that stay on the core they are about",
};

pub(super) fn pinning(patient: Patient<'_>) -> Capability {
    let usable = patient.topology.usable_cpus();
    let online = patient.topology.cpus.len();
    let mut astray = Vec::new();
    let mut refused: Option<Errno> = None;
    for cpu in usable.iter() {
        match patient.system.run_on(cpu, &mut || ()) {
            Ok(landed) if landed == cpu => {}
            Ok(landed) => astray.push(format!("{cpu} (ran on {landed})")),
            Err(errno) => {
                refused = Some(errno);
                astray.push(format!("{cpu} ({errno})"));
            }
        }
    }
    let share = match online.saturating_sub(usable.len()) {
        0 => counted(usable.len(), "CPU"),
        _ => format!("{} of {online} online CPUs (the cpuset leaves us {usable})", usable.len()),
    };
    match (usable.len(), usable.len() - astray.len(), refused) {
        (0, ..) => SUBJECT.missing("no CPU is known to be ours"),
        (_, 0, Some(errno)) if errno.is_permission() => SUBJECT.blocked(format!("{errno} on {share}"), None),
        (_, 0, _) => SUBJECT.missing(format!("on none of {share}: {}", named(&astray, 4))),
        _ if astray.is_empty() => SUBJECT.found(format!("works on {share}")),
        _ => SUBJECT.found(format!("works on {share}, except {}", named(&astray, 4))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, live, this_machine};
    use record::doctor::CapabilityState;

    #[test]
    fn every_allowed_cpu_is_tried() {
        let mut script = Script::new();
        script.cpus(4);
        assert_eq!(pinning(script.patient()).detail, "works on 4 CPUs");
        assert_eq!(script.system.pinned(), [0, 1, 2, 3]);
        script.topology.limits.cpus = Some("1-2".parse().unwrap());
        assert_eq!(
            pinning(script.patient()).detail,
            "works on 2 of 4 online CPUs (the cpuset leaves us 1-2)"
        );
        script.system.run = |cpu| {
            if cpu == 2 { Err(Errno(libc::EINVAL)) } else { Ok(cpu) }
        };
        assert!(pinning(script.patient()).detail.ends_with("except 2 (EINVAL)"));
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        script.system.run = |_| Err(Errno(libc::EPERM));
        assert_eq!(pinning(script.patient()).state, CapabilityState::Blocked);
        script.system.run = |cpu| Ok(cpu + 1);
        assert_eq!(pinning(script.patient()).state, CapabilityState::Missing);
        script.cpus(0);
        assert_eq!(pinning(script.patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn here_our_own_cpus_take_a_pinned_thread() {
        let topology = this_machine();
        let row = pinning(live(&topology));
        assert_eq!(row.state, CapabilityState::Found, "{}", row.detail);
        assert!(!row.detail.contains("except"), "{}", row.detail);
    }
}
