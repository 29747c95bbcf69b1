//! Energy.

use std::{fs, time::Duration};

use pmu::{Errno, EventTarget, Pmu};
use record::doctor::Capability;

use super::{
    Patient,
    refusal::{Need, Trouble},
    row::{RowSubject, named},
    trial::burn,
};

const SUBJECT: RowSubject = RowSubject {
    key: "rapl_energy",
    name: "RAPL energy",
    tried: "opened each energy event that sysfs lists for a power PMU, and read the energy files of powercap",
    unlocks: "energy per region, and what waiting for memory costs in it",
};

pub(super) fn energy(patient: Patient<'_>) -> Capability {
    let events = by_events(patient);
    let files = by_files(patient);
    let words = match (&events, &files) {
        (Some(Ok(domains)), _) => return SUBJECT.found(format!("power PMU: {}", named(domains, 5))),
        (_, Some(Ok(zone))) => return SUBJECT.found(format!("powercap: {zone}")),
        (None, None) => return SUBJECT.missing("neither a power PMU nor a powercap zone"),
        (_, Some(Err(errno))) => format!("powercap: {errno}"),
        (_, None) => "no powercap zone".to_owned(),
    };
    match events {
        Some(Err(trouble)) => {
            let mut refusal = patient.refusal(trouble, Need::WholeCpu);
            refusal.words = format!("{}; {words}", refusal.words);
            refusal.row(&SUBJECT)
        }
        _ if files.is_some_and(|files| files.is_err_and(Errno::is_permission)) => {
            SUBJECT.blocked(words, Some("sudo chmod a+r /sys/class/powercap/*/energy_uj".to_owned()))
        }
        _ => SUBJECT.missing(words),
    }
}

/// The domains whose events count; `None` if there is no power PMU.
fn by_events(patient: Patient<'_>) -> Option<Result<Vec<String>, Trouble>> {
    let pmu = Pmu::list(patient.root).into_iter().find(|pmu| pmu.name == "power")?;
    let mask = pmu.cpumask.as_ref().and_then(|mask| mask.first());
    let cpu = EventTarget::Cpu(mask.or(patient.topology.usable_cpus().first())?);
    let mut worst = Trouble::open(Errno(libc::ENODEV));
    let mut domains = Vec::new();
    for name in pmu.events.keys().filter(|name| name.starts_with("energy-")) {
        let Some(Ok(event)) = pmu.event(name) else {
            continue;
        };
        match patient.open(&event.in_all_modes().started(), cpu) {
            Err(trouble) if trouble.weight() >= worst.weight() => worst = trouble,
            Err(_) => {}
            Ok(counter) => {
                // The energy registers move about once a millisecond.
                burn(Duration::from_millis(3));
                match counter.read() {
                    Ok(reading) if reading.counted().is_some() => {
                        domains.push(name["energy-".len()..].to_owned())
                    }
                    Ok(_) => worst = Trouble::using(Errno(libc::EBUSY)),
                    Err(errno) => worst = Trouble::using(errno),
                }
            }
        }
    }
    Some(if domains.is_empty() { Err(worst) } else { Ok(domains) })
}

/// The first powercap zone that can be read; `None` if there is no zone.
fn by_files(patient: Patient<'_>) -> Option<Result<String, Errno>> {
    let mut refused = None;
    let mut zones: Vec<_> = fs::read_dir(patient.root.join("sys/class/powercap")).ok()?.flatten().collect();
    zones.sort_by_key(|zone| zone.file_name());
    for zone in zones {
        let folder = zone.path();
        match fs::read_to_string(folder.join("energy_uj")).map(|text| text.trim().parse::<u64>().is_ok()) {
            Ok(true) => {
                let name = fs::read_to_string(folder.join("name")).unwrap_or_default();
                return Some(Ok(format!("{} {}", zone.file_name().display(), name.trim())
                    .trim_end()
                    .to_owned()));
            }
            // The control folder beside the zones has no energy file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => refused = Some(Err(error.into())),
            Ok(false) => refused = Some(Err(Errno(libc::ENODATA))),
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, as_nobody};
    use pmu::scripted::Behaviour;
    use record::doctor::CapabilityState;

    fn with_power() -> Script {
        let script = Script::new();
        script.pmu(
            "power",
            9,
            &[
                ("cpumask", "0"),
                ("format/event", "config:0-7"),
                ("events/energy-pkg", "event=0x02"),
                ("events/energy-ram", "event=0x03"),
                ("events/energy-ram.unit", "Joules"),
            ],
        );
        script
    }

    #[test]
    fn domains_that_count() {
        let mut script = with_power();
        script.kernel(|request| match (request.event.config, request.target) {
            (2, EventTarget::Cpu(0)) => Ok(Behaviour::counts(5)),
            (3, EventTarget::Cpu(0)) => Err(Errno(libc::EINVAL)),
            other => unreachable!("{other:?}"),
        });
        let row = energy(script.patient());
        assert_eq!((row.state, row.detail.as_str()), (CapabilityState::Found, "power PMU: pkg"));
    }

    #[test]
    fn a_locked_pmu_beside_an_open_file() {
        let mut script = with_power();
        script.refuse_everything(libc::EACCES);
        let row = energy(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.unlock_with.unwrap().contains("perf_event_paranoid=0"));
        script.write("sys/class/powercap/intel-rapl:0/energy_uj", "1234\n");
        script.write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
        let row = energy(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "powercap: intel-rapl:0 package-0")
        );
    }

    #[test]
    fn an_energy_file_only_root_may_read() {
        let script = Script::new();
        script.write("sys/class/powercap/intel-rapl/enabled", "1\n");
        assert_eq!(energy(script.patient()).state, CapabilityState::Missing);
        script.write("sys/class/powercap/intel-rapl:0/energy_uj", "1234\n");
        script.forbid("sys/class/powercap/intel-rapl:0/energy_uj");
        let row = as_nobody(|| energy(script.patient()));
        assert_eq!((row.state, row.detail.as_str()), (CapabilityState::Blocked, "powercap: EACCES"));
        assert!(row.unlock_with.unwrap().starts_with("sudo chmod"));
    }
}
