//! The switches of the hardware prefetchers. They are only looked at, never moved.

use std::{fs::File, os::unix::fs::FileExt};

use pmu::Errno;
use record::doctor::Capability;

use super::{Patient, row::RowSubject};

const SUBJECT: RowSubject = RowSubject {
    key: "prefetcher_control",
    name: "Prefetcher control",
    tried: "read the model-specific register that switches the prefetchers; nothing was written",
    unlocks: "runs without prefetch: which traffic the program asked for itself",
};

/// One register and what its bits switch off.
struct PrefetchRegister {
    address: u64,
    switches: &'static [&'static str],
}

const INTEL: PrefetchRegister = PrefetchRegister {
    address: 0x1a4,
    switches: &["L2 streamer", "L2 adjacent line", "L1 streamer", "L1 by instruction"],
};
/// Zen 4 and later.
const AMD: PrefetchRegister = PrefetchRegister {
    address: 0xc000_0108,
    switches: &["L1 stream", "L1 stride", "L1 region", "L2 stream", "reserved", "up/down"],
};

pub(super) fn prefetcher_control(patient: Patient<'_>) -> Capability {
    let register = match patient.topology.cpu.vendor.as_deref() {
        Some("GenuineIntel") => INTEL,
        Some("AuthenticAMD") => AMD,
        vendor => {
            return SUBJECT.missing(format!("no known register on {} CPUs", vendor.unwrap_or("unknown")));
        }
    };
    let cpu = patient.topology.usable_cpus().first().unwrap_or(0);
    let path = format!("dev/cpu/{cpu}/msr");
    match read(patient, &path, register.address) {
        Ok(value) => SUBJECT.found(format!(
            "register {:#x} reads {value:#x}: {}",
            register.address,
            off(&register, value)
        )),
        Err(errno) => refused(patient, &path, errno),
    }
}

fn refused(patient: Patient<'_>, path: &str, errno: Errno) -> Capability {
    match errno.0 {
        libc::ENOENT | libc::ENXIO if patient.topology.hypervisor.is_some() => SUBJECT.blocked(
            format!("/{path} is not there ({errno}), and a guest rarely gets this register"),
            Some("sudo modprobe msr".to_owned()),
        ),
        libc::ENOENT | libc::ENXIO => {
            SUBJECT.blocked(format!("/{path} is not there ({errno})"), Some("sudo modprobe msr".to_owned()))
        }
        libc::EIO => SUBJECT.missing(format!("{errno}: this CPU, or its hypervisor, has no such register")),
        _ if errno.is_permission() => {
            SUBJECT.blocked(format!("/{path}: {errno}"), Some("sudo memwall doctor".to_owned()))
        }
        _ => SUBJECT.missing(format!("/{path}: {errno}")),
    }
}

fn read(patient: Patient<'_>, path: &str, register: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    File::open(patient.root.join(path))?.read_exact_at(&mut bytes, register)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Which prefetchers the value switches off.
fn off(register: &PrefetchRegister, value: u64) -> String {
    let names: Vec<_> = register
        .switches
        .iter()
        .enumerate()
        .filter(|(bit, _)| value & (1 << bit) != 0)
        .map(|(_, name)| *name)
        .collect();
    if names.is_empty() { "all prefetchers on".to_owned() } else { format!("{} off", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, as_nobody};
    use record::doctor::CapabilityState;

    fn with_register(vendor: &str, value: u64) -> Script {
        let mut script = Script::new();
        script.topology.cpu.vendor = Some(vendor.to_owned());
        script.write("dev/cpu/0/msr", "");
        let file = File::options().write(true).open(script.path("dev/cpu/0/msr")).unwrap();
        for register in [INTEL, AMD] {
            file.write_all_at(&value.to_le_bytes(), register.address).unwrap();
        }
        script
    }

    #[test]
    fn the_switches_are_named() {
        let row = prefetcher_control(with_register("GenuineIntel", 0).patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "register 0x1a4 reads 0x0: all prefetchers on")
        );
        let row = prefetcher_control(with_register("GenuineIntel", 0b101).patient());
        assert!(row.detail.ends_with("L2 streamer, L1 streamer off"), "{}", row.detail);
        let row = prefetcher_control(with_register("AuthenticAMD", 1).patient());
        assert!(row.detail.ends_with("L1 stream off"), "{}", row.detail);
        assert_eq!(prefetcher_control(with_register("ARM", 0).patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn no_driver_no_permission_no_register() {
        let script = with_register("GenuineIntel", 0);
        script.forbid("dev/cpu/0/msr");
        let row = as_nobody(|| prefetcher_control(script.patient()));
        assert_eq!(
            (row.state, row.unlock_with.as_deref()),
            (CapabilityState::Blocked, Some("sudo memwall doctor"))
        );
        script.remove("dev/cpu/0/msr");
        let row = prefetcher_control(script.patient());
        assert_eq!(
            (row.state, row.unlock_with.as_deref()),
            (CapabilityState::Blocked, Some("sudo modprobe msr"))
        );
        // A file that ends before the register, like a hypervisor that faults the read.
        script.write("dev/cpu/0/msr", "short");
        assert_eq!(prefetcher_control(script.patient()).state, CapabilityState::Missing);
    }
}
