//! Settings of the cores that change what a measurement means.

use std::fs::File;

use pmu::Errno;
use record::doctor::Capability;

use super::{Patient, row::RowSubject};

const SMT: RowSubject = RowSubject {
    key: "smt",
    name: "SMT",
    tried: "compared the siblings of every CPU with the kernel's smt control",
    unlocks: "what two programs on one core take from each other",
};

const FREQUENCY: RowSubject = RowSubject {
    key: "frequency_control",
    name: "Frequency control",
    tried: "read the frequency governor; where there is one, opened it for writing without writing",
    unlocks: "a fixed clock while measuring, and what a lower clock would cost",
};

/// The row of hardware threads.
pub(super) fn smt(patient: Patient<'_>) -> Capability {
    let most = patient.topology.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(1);
    let control = patient.text("sys/devices/system/cpu/smt/control");
    let guest = match patient.topology.hypervisor {
        Some(_) => "; the host may still share our cores with others",
        None => "",
    };
    match (most, control.as_deref()) {
        (2.., _) => SMT.found(format!("on, {most} threads per core: pinning takes one per core")),
        (_, Ok("off")) => SMT.blocked(
            "switched off",
            Some("echo on | sudo tee /sys/devices/system/cpu/smt/control".to_owned()),
        ),
        (_, Ok("forceoff")) => SMT.missing("switched off until the next boot"),
        (_, Ok("on")) => SMT.missing(format!("on, but every core shows one thread only{guest}")),
        (_, Ok(_)) => SMT.missing(format!("one thread per core{guest}")),
        (_, Err(_)) => SMT.missing(format!("one thread per core, and no smt control{guest}")),
    }
}

/// The row of the clock.
pub(super) fn frequency_control(patient: Patient<'_>) -> Capability {
    let cpu = patient.topology.usable_cpus().first().unwrap_or(0);
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let governor = match patient.text(&format!("{folder}/scaling_governor")) {
        Ok(governor) => governor,
        Err(errno) if errno.is_permission() => return FREQUENCY.blocked(errno.to_string(), None),
        Err(errno) => {
            let who = if patient.topology.hypervisor.is_some() {
                "the host sets the clock"
            } else {
                "no cpufreq driver"
            };
            return FREQUENCY.missing(format!("{errno}: {who}"));
        }
    };
    let driver =
        patient.text(&format!("{folder}/scaling_driver")).map_or(String::new(), |name| format!(" of {name}"));
    // Opening shows whether writing is allowed; the setting itself is left alone.
    let writable = File::options().write(true).open(patient.root.join(&folder).join("scaling_governor"));
    match writable.map_err(Errno::from) {
        Ok(_) => FREQUENCY.found(format!("governor {governor}{driver}, can be set")),
        Err(errno) => FREQUENCY.blocked(
            format!("governor {governor}{driver}, read only: {errno}"),
            Some(
                "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
                    .to_owned(),
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, as_nobody};
    use record::doctor::CapabilityState;

    #[test]
    fn smt_on_off_and_absent() {
        let mut script = Script::new();
        script.cpus(2);
        assert_eq!(smt(script.patient()).state, CapabilityState::Missing);
        for (control, state) in [
            ("on", CapabilityState::Missing),
            ("off", CapabilityState::Blocked),
            ("forceoff", CapabilityState::Missing),
            ("notsupported", CapabilityState::Missing),
        ] {
            script.write("sys/devices/system/cpu/smt/control", control);
            assert_eq!(smt(script.patient()).state, state, "{control}");
        }
        script.topology.hypervisor = Some("KVM".to_owned());
        assert!(smt(script.patient()).detail.contains("host may still share"));
        for cpu in &mut script.topology.cpus {
            cpu.siblings = "0-1".parse().unwrap();
        }
        assert_eq!(smt(script.patient()).detail, "on, 2 threads per core: pinning takes one per core");
    }

    #[test]
    fn a_governor_to_set_to_see_or_none() {
        let mut script = Script::new();
        assert_eq!(frequency_control(script.patient()).detail, "ENOENT: no cpufreq driver");
        script.topology.hypervisor = Some("KVM".to_owned());
        assert_eq!(frequency_control(script.patient()).detail, "ENOENT: the host sets the clock");
        let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        script.write(governor, "powersave\n");
        script.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
        let row = frequency_control(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "governor powersave of intel_pstate, can be set")
        );
        script.forbid_writing(governor);
        let row = as_nobody(|| frequency_control(script.patient()));
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.detail.ends_with("read only: EACCES"), "{}", row.detail);
        assert_eq!(std::fs::read_to_string(script.path(governor)).unwrap(), "powersave\n", "left alone");
    }
}
