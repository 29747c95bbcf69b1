//! Whether someone else owns the hardware, and whether it says when it takes it away.

use record::doctor::Capability;

use super::{Patient, row::RowSubject};

const HYPERVISOR: RowSubject = RowSubject {
    key: "hypervisor",
    name: "Hypervisor",
    tried: "asked CPUID and the kernel whether this is a guest, as shown by `memwall topology`",
    unlocks: "knowing which claims (cache sizes, SMT, clock) may be the host's fiction",
};

const STEAL: RowSubject = RowSubject {
    key: "steal_time",
    name: "Steal time",
    tried: "read the time stolen from all CPUs since boot in /proc/stat",
    unlocks: "telling the host's noise from the program's",
};

/// The row of the hypervisor.
pub(super) fn hypervisor(patient: Patient<'_>) -> Capability {
    let container = if is_container(patient) { ", in a container" } else { "" };
    match &patient.topology.hypervisor {
        Some(name) => HYPERVISOR.found(format!("guest of {name}{container}: its claims need measuring")),
        None => HYPERVISOR.missing(format!("none seen: bare metal{container}")),
    }
}

/// Docker and Podman leave a file each.
fn is_container(patient: Patient<'_>) -> bool {
    [".dockerenv", "run/.containerenv"].iter().any(|file| patient.root.join(file).exists())
}

/// The row of stolen time.
pub(super) fn steal_time(patient: Patient<'_>) -> Capability {
    let Ok(stat) = patient.text("proc/stat") else {
        return STEAL.missing("/proc/stat cannot be read");
    };
    let ticks = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .map(|line| line.split_whitespace().map_while(|field| field.parse::<u64>().ok()).collect::<Vec<_>>());
    // user nice system idle iowait irq softirq steal; guest time is already part of user.
    let Some((all, stolen)) =
        ticks.and_then(|ticks| Some((ticks.get(..8)?.iter().sum::<u64>(), *ticks.get(7)?)))
    else {
        return STEAL.missing("/proc/stat has no steal field");
    };
    let is_guest = patient.topology.hypervisor.is_some();
    match (is_guest, stolen) {
        (_, 1..) => {
            let share = stolen as f64 / all as f64 * 100.0;
            let seconds = stolen as f64 / rustix::param::clock_ticks_per_second() as f64;
            STEAL.found(format!("{seconds:.2} s since boot, {share:.3} % of all CPU time"))
        }
        (true, 0) => {
            STEAL.missing("0 since boot: the host took nothing, or does not tell; nothing here decides which")
        }
        (false, 0) => STEAL.missing("no hypervisor, nobody to steal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use record::doctor::CapabilityState;

    #[test]
    fn guests_and_containers() {
        let mut script = Script::new();
        assert_eq!(hypervisor(script.patient()).state, CapabilityState::Missing);
        script.topology.hypervisor = Some("KVM".to_owned());
        script.write(".dockerenv", "");
        let row = hypervisor(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "guest of KVM, in a container: its claims need measuring")
        );
    }

    #[test]
    fn stolen_zero_and_unreadable() {
        let mut script = Script::new();
        let steal = |script: &Script| {
            let row = steal_time(script.patient());
            (row.state, row.detail)
        };
        assert_eq!(steal(&script).0, CapabilityState::Missing);
        script.write("proc/stat", "cpu  800 0 0 0 0 0 0 0 0 0\ncpu0 800 0 0\n");
        assert!(steal(&script).1.contains("nobody to steal"));
        script.topology.hypervisor = Some("KVM".to_owned());
        assert!(steal(&script).1.contains("nothing here decides"));
        script.write("proc/stat", "cpu  700 0 100 100 0 0 50 50 10 0\n");
        assert_eq!(
            steal(&script),
            (CapabilityState::Found, "0.50 s since boot, 5.000 % of all CPU time".to_owned())
        );
        for text in ["", "cpu\n", "cpu  1 2 3\n", "cpu  a b\n"] {
            script.write("proc/stat", text);
            assert!(steal(&script).1.contains("no steal field"), "{text}");
        }
    }
}
