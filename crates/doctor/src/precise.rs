//! Samples that name the very instruction.

use pmu::{Errno, EventTarget, KernelEvent, Pmu, bindings, event::Sampling, record::Records};
use record::doctor::Capability;

use super::{
    Patient,
    core_pmu::CoreKind,
    refusal::{Need, Trouble},
    row::RowSubject,
};

const SUBJECT: RowSubject = RowSubject {
    key: "precise_sampling",
    name: "Precise sampling",
    tried: "sampled cycles with precise_ip 3, 2 and 1, then ibs_op where sysfs lists it, until exact samples arrived",
    unlocks: "which load waited, for how long, for which data, served from where",
};

/// Cycles between samples; a multiple of 16, as IBS demands.
const PERIOD: u64 = 160_000;

pub(super) fn precise_sampling(patient: Patient<'_>) -> Capability {
    let mut worst: Option<(Trouble, Need)> = None;
    for core in patient.cores() {
        match by_core(patient, &core) {
            Ok(level) => {
                return SUBJECT.found(format!("{} samples exactly at precise_ip {level}", core.name));
            }
            Err(trouble) => worst = heavier(worst, (trouble, Need::User)),
        }
    }
    for pmu in Pmu::list(patient.root).iter().filter(|pmu| pmu.name == "ibs_op") {
        match by_ibs(patient, pmu) {
            Ok(how) => return SUBJECT.found(format!("IBS samples {how}")),
            Err(refused) => worst = heavier(worst, refused),
        }
    }
    match worst {
        Some((trouble, need)) => patient.refusal(trouble, need).row(&SUBJECT),
        None => SUBJECT.missing("no core to try it on"),
    }
}

fn heavier(a: Option<(Trouble, Need)>, b: (Trouble, Need)) -> Option<(Trouble, Need)> {
    match a {
        Some(a) if a.0.weight() >= b.0.weight() => Some(a),
        _ => Some(b),
    }
}

/// The highest precise level at which the core PMU delivers exact samples.
fn by_core(patient: Patient<'_>, core: &CoreKind) -> Result<u8, Trouble> {
    let tried = patient.on_one_of(core.cpus.as_ref(), || {
        let mut refused = Trouble::open(Errno(libc::EOPNOTSUPP));
        for level in [3, 2, 1] {
            let event =
                KernelEvent::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES, core.kind).sampled(sampling(level));
            match patient.sample(&event, EventTarget::ThisThread) {
                Ok(records) if is_exact(&records) => return Ok(level),
                Ok(_) => refused = Trouble::using(Errno(libc::ENODATA)),
                Err(trouble) => refused = trouble,
            }
        }
        Err(refused)
    });
    tried.unwrap_or_else(|errno| Err(Trouble::using(errno)))
}

/// How IBS can be had here. Older kernels know it only for whole CPUs, and with no mode excluded.
fn by_ibs(patient: Patient<'_>, pmu: &Pmu) -> Result<&'static str, (Trouble, Need)> {
    let event = KernelEvent::new(pmu.kind, 0).sampled(sampling(0));
    let mut filtered = event.clone();
    if let Some(field) = pmu.fields.get("swfilt") {
        field.put(&mut filtered, 1);
    }
    let all = event.in_all_modes();
    let cpu = EventTarget::Cpu(patient.topology.usable_cpus().first().unwrap_or(0));
    let attempts = [
        (filtered, EventTarget::ThisThread, Need::User, "one program in user mode"),
        (all.clone(), EventTarget::ThisThread, Need::Kernel, "one program in all modes"),
        (all, cpu, Need::WholeCpu, "whole CPUs only"),
    ];
    let mut worst = None;
    for (event, target, need, how) in attempts {
        match patient.sample(&event, target) {
            Ok(records) if records.samples().next().is_some() => return Ok(how),
            Ok(_) => worst = heavier(worst, (Trouble::using(Errno(libc::ENODATA)), need)),
            Err(trouble) => worst = heavier(worst, (trouble, need)),
        }
    }
    Err(worst.unwrap_or((Trouble::open(Errno(libc::ENODEV)), Need::User)))
}

fn sampling(precise: u8) -> Sampling {
    Sampling { period: PERIOD, precise, fields: bindings::PERF_SAMPLE_IP.into(), user_registers: 0 }
}

fn is_exact(records: &Records) -> bool {
    records.samples().any(|sample| sample.is_exact())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use pmu::{
        event::Modes,
        record::encode,
        scripted::{Behaviour, ScriptedRequest},
    };
    use record::doctor::CapabilityState;

    fn one_sample(misc: u32) -> Behaviour {
        Behaviour::samples(&encode(bindings::PERF_RECORD_SAMPLE, misc as u16, &0x40_1000u64.to_ne_bytes()))
    }

    fn precise(request: &ScriptedRequest<'_>) -> u8 {
        request.event.sampling.unwrap().precise
    }

    #[test]
    fn the_highest_level_that_delivers() {
        let mut script = Script::new();
        script.kernel(|request| match precise(&request) {
            3 => Err(Errno(libc::EOPNOTSUPP)),
            _ => Ok(one_sample(bindings::PERF_RECORD_MISC_EXACT_IP)),
        });
        let row = precise_sampling(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "cpu samples exactly at precise_ip 2")
        );
    }

    #[test]
    fn opened_without_exact_samples_is_missing() {
        let mut script = Script::new();
        script.kernel(|_| Ok(one_sample(0)));
        let row = precise_sampling(script.patient());
        assert_eq!(row.state, CapabilityState::Missing);
        assert!(row.detail.starts_with("ENODATA"), "{}", row.detail);
        script.refuse_everything(libc::EOPNOTSUPP);
        assert_eq!(precise_sampling(script.patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn ibs_in_user_mode_with_the_software_filter() {
        let mut script = Script::new();
        script.pmu("ibs_op", 11, &[("format/swfilt", "config2:0")]);
        script.kernel(|request| match (request.event.kind, request.event.config2, request.event.modes) {
            (11, 1, Modes::User) => Ok(one_sample(0)),
            _ => Err(Errno(libc::EINVAL)),
        });
        let row = precise_sampling(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "IBS samples one program in user mode")
        );
    }

    #[test]
    fn ibs_of_an_old_kernel_is_blocked_for_users() {
        let mut script = Script::new();
        script.pmu("ibs_op", 11, &[]);
        script.write("proc/sys/kernel/perf_event_paranoid", "2");
        script.kernel(|request| match (request.event.kind, request.event.modes) {
            (11, Modes::User) => Err(Errno(libc::EINVAL)),
            (11, Modes::All) => Err(Errno(libc::EACCES)),
            _ => Err(Errno(libc::EOPNOTSUPP)),
        });
        let row = precise_sampling(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert_eq!(row.unlock_with.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
        script.kernel(|request| match (request.event.kind, request.target) {
            (11, EventTarget::Cpu(0)) => Ok(one_sample(0)),
            _ => Err(Errno(libc::EINVAL)),
        });
        assert_eq!(precise_sampling(script.patient()).detail, "IBS samples whole CPUs only");
    }
}
