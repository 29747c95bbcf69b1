//! The machine that a file comes from: which events it has, and what to call it in a recording.

use events::Catalogue;
use machine::{profile::Fingerprint, topology::CpuIdentity};
use record::import::ImportMachine;
use trust::Validation;

use crate::perf_data::PerfMachine;

/// What a file or a user says of a machine.
pub(crate) fn described(machine: &PerfMachine, cpu_id: Option<&str>) -> ImportMachine {
    let cpu_id = machine.cpu_id.clone().or_else(|| cpu_id.map(str::to_owned));
    let catalogue = cpu_id.as_deref().and_then(catalogue);
    ImportMachine {
        host: machine.host.clone(),
        architecture: machine.architecture.clone(),
        kernel: machine.kernel.clone(),
        cpu: machine.cpu.clone(),
        cpu_id,
        cpus: machine.cpus_online,
        events: catalogue.map(|catalogue| catalogue.name.clone()),
    }
}

/// The events of the CPU with an id as perf writes it: `GenuineIntel,6,143,8` or `GenuineIntel-6-8F-8`.
pub(crate) fn catalogue(cpu_id: &str) -> Option<&'static Catalogue> {
    Catalogue::for_cpu(&identity(cpu_id)?)
}

fn identity(cpu_id: &str) -> Option<CpuIdentity> {
    // The short form, which perf uses for files of events, has hexadecimal models.
    let (parts, model_base): (Vec<&str>, _) = match cpu_id.contains(',') {
        true => (cpu_id.split(',').collect(), 10),
        false => (cpu_id.split('-').collect(), 16),
    };
    let [vendor, family, model, ref rest @ ..] = parts[..] else { return None };
    Some(CpuIdentity {
        vendor: Some(vendor.trim().to_owned()),
        model_name: None,
        family: Some(family.trim().parse().ok()?),
        model: Some(u32::from_str_radix(model.trim(), model_base).ok()?),
        stepping: rest.first().and_then(|stepping| stepping.trim().parse().ok()),
        microcode: None,
    })
}

/// Whether files of this architecture hold code that the decoder knows. Not known: most likely.
pub(crate) fn is_x86_64(machine: &ImportMachine) -> bool {
    machine.architecture.as_deref().is_none_or(|name| name == "x86_64")
}

/// Who it is in a recording: never this machine, whatever the file says.
pub(crate) fn fingerprint(machine: &ImportMachine) -> Fingerprint {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let cpu = match machine.cpu_id.as_deref().and_then(identity) {
        Some(identity) => numbered(machine, &identity),
        None => or_unknown(&machine.cpu),
    };
    let cpus = machine.cpus.map(|cpus| format!("{cpus} CPUs online"));
    let host = or_unknown(&machine.host);
    Fingerprint::of_file(&host, cpu, or_unknown(&cpus), or_unknown(&machine.kernel))
}

/// As fingerprints of this machine are written.
fn numbered(machine: &ImportMachine, identity: &CpuIdentity) -> String {
    let number = |value: Option<u32>| value.map_or_else(|| "unknown".into(), |value| value.to_string());
    format!(
        "{} {}, family {} model {} stepping {}",
        identity.vendor.as_deref().unwrap_or("unknown"),
        machine.cpu.as_deref().unwrap_or("unknown"),
        number(identity.family),
        number(identity.model),
        number(identity.stepping),
    )
}

/// Why a validation does not speak for a machine: what is known of both must agree, the CPU and the kernel.
pub(crate) fn differs(validation: &Validation, machine: &ImportMachine) -> Option<String> {
    let theirs = &validation.fingerprint;
    let ours = fingerprint(machine);
    let numbers = |cpu: &str| {
        let vendor = cpu.split(' ').next().unwrap_or_default().to_owned();
        cpu.rsplit_once(", family ").map(|(_, numbers)| (vendor, numbers.to_owned()))
    };
    let (Some(their_cpu), Some(our_cpu)) = (numbers(&theirs.cpu), numbers(&ours.cpu)) else {
        return Some(
            "nothing tells whether it is of the machine that was recorded: no CPU is named".to_owned(),
        );
    };
    if their_cpu != our_cpu {
        return Some(format!("it was made on '{}', the file on '{}'", theirs.cpu, ours.cpu));
    }
    let kernel = machine.kernel.as_ref()?;
    (theirs.kernel != *kernel)
        .then(|| format!("it was made under kernel {}, the file under {kernel}", theirs.kernel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::fingerprint::IMPORTED_ID;

    #[test]
    fn both_forms_of_a_cpu_id_lead_to_the_same_events() {
        for id in ["GenuineIntel,6,85,4", "GenuineIntel-6-55-4"] {
            assert_eq!(catalogue(id).map(|found| found.name.as_str()), Some("skylake-x"), "{id}");
        }
        assert_eq!(
            catalogue("AuthenticAMD,25,17,1").map(|found| found.name.clone()).as_deref(),
            Some("zen4")
        );
        assert!(catalogue("0x00000000410fd0c0").is_none(), "an Arm core");
        assert!(catalogue("GenuineIntel,6").is_none() && catalogue("").is_none());
    }

    #[test]
    fn a_machine_of_a_file_is_never_this_one() {
        let machine = ImportMachine { kernel: Some("6.1.0".to_owned()), ..Default::default() };
        assert!(fingerprint(&machine).id.starts_with(IMPORTED_ID));
        let other = ImportMachine { host: Some("b".to_owned()), ..machine.clone() };
        assert_ne!(fingerprint(&machine).id, fingerprint(&other).id);
    }
}
