//! An event of the catalogue in the form the kernel wants, once per PMU that counts it.

use events::{
    Encoding, Refusal, Signal,
    event::{Counters, Event as Asked},
};
use machine::CpuSet;
use perf_event_open_sys::bindings;

use super::{PerfEvents, counters::Demand, tracepoint};
use crate::{Event, Pmu, event::Modes, refusal::Need};

/// One event on one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// As it is opened.
    pub event: Event,
    /// Where.
    pub domain: Domain,
    /// What it takes of the PMU.
    pub demand: Demand,
    /// What it asks of the kernel's permission.
    pub need: Need,
    /// Neither mode was asked for, and counting in user mode alone would still mean something.
    pub may_fall_back_to_user: bool,
}

/// Events that compete for the same counters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Domain {
    /// Events of the kernel itself.
    Kernel,
    /// Debug registers.
    Breakpoints,
    /// A PMU that follows the target. `cpus` only where it exists on some CPUs alone.
    Core {
        /// Its name.
        pmu: String,
        /// Where it exists.
        cpus: Option<CpuSet>,
    },
    /// One box of an uncore PMU, opened on these CPUs.
    Box {
        /// Its name.
        pmu: String,
        /// Where to open.
        cpus: CpuSet,
    },
}

/// Software events that only ever happen in the kernel: in user mode they would read 0 for ever.
const KERNEL_ONLY: [u32; 3] = [
    bindings::PERF_COUNT_SW_CONTEXT_SWITCHES,
    bindings::PERF_COUNT_SW_CPU_MIGRATIONS,
    bindings::PERF_COUNT_SW_CGROUP_SWITCHES,
];

/// Fields that live in a register of their own, where the event does not say so itself.
const REGISTERS: [&str; 4] = ["offcore_rsp", "ldlat", "frontend", "filter"];

impl PerfEvents<'_> {
    /// Every form of `asked` that this machine's PMUs have.
    pub(super) fn encode(&self, asked: &Asked) -> Result<Vec<Encoded>, Refusal> {
        let not_here = |reason: String| Refusal::NotHere { event: asked.name.clone(), reason };
        let modes = modes(asked);
        match &asked.signal {
            Signal::Encoded(encoding) => self.encoded(asked, encoding).map_err(not_here),
            Signal::Hardware(number) => Ok(self.generic(asked, bindings::PERF_TYPE_HARDWARE, *number)),
            Signal::HardwareCache(number) => Ok(self.generic(asked, bindings::PERF_TYPE_HW_CACHE, *number)),
            Signal::Software(number) => software(asked, *number).map_err(not_here),
            Signal::Breakpoint { address, length, read, write, execute } => {
                let access = access(*read, *write, *execute).map_err(not_here)?;
                // The kernel wants `long` for the length of an instruction breakpoint.
                let length = if *execute { 8 } else { *length };
                let event = Event {
                    config1: *address,
                    config2: length,
                    breakpoint: access,
                    ..Event::new(bindings::PERF_TYPE_BREAKPOINT, 0)
                };
                Ok(vec![in_modes(event, Domain::Breakpoints, asked, modes)])
            }
            Signal::Tracepoint { subsystem, name } => {
                if modes == Modes::User {
                    return Err(not_here("a tracepoint lies in the kernel; leave out the :u".into()));
                }
                let id = tracepoint::id(&self.source, subsystem, name).map_err(not_here)?;
                let event = Event::new(bindings::PERF_TYPE_TRACEPOINT, id);
                let encoded = in_modes(event, Domain::Kernel, asked, modes);
                Ok(vec![Encoded { may_fall_back_to_user: false, ..encoded }])
            }
            Signal::Resctrl(name) => {
                Err(not_here(format!("{name} is read from resctrl, not from perf_event")))
            }
        }
    }

    /// A generic event, on every core PMU of the machine.
    fn generic(&self, asked: &Asked, kind: u32, number: u64) -> Vec<Encoded> {
        let cores: Vec<_> = self.pmus().iter().filter(|pmu| pmu.is_core()).collect();
        let modes = modes(asked);
        let form = |pmu: Option<&Pmu>| {
            let several = cores.len() > 1;
            // On hybrid machines the upper half names the PMU.
            let selector = pmu.filter(|_| several).map_or(0, |pmu| u64::from(pmu.kind) << 32);
            let domain = Domain::Core {
                pmu: pmu.map_or_else(|| "cpu".to_owned(), |pmu| pmu.name.clone()),
                cpus: pmu.filter(|_| several).and_then(|pmu| pmu.cpus.clone()),
            };
            let mut encoded = in_modes(Event::new(kind, number | selector), domain, asked, modes);
            if kind == bindings::PERF_TYPE_HARDWARE && asked.counters == Counters::default() {
                encoded.demand.counters = generic_counters(number);
            }
            encoded
        };
        if cores.is_empty() {
            return vec![form(None)];
        }
        cores.iter().map(|pmu| form(Some(pmu))).collect()
    }

    /// An event with fields, on every PMU of its name.
    fn encoded(&self, asked: &Asked, encoding: &Encoding) -> Result<Vec<Encoded>, String> {
        let pmus: Vec<_> = self.pmus().iter().filter(|pmu| is_called(&pmu.name, &encoding.pmu)).collect();
        if pmus.is_empty() {
            return Err(self.no_such_pmu(&encoding.pmu));
        }
        pmus.into_iter().map(|pmu| on_pmu(asked, encoding, pmu)).collect()
    }

    /// Why an event of a PMU that is not listed cannot be had.
    pub(super) fn no_such_pmu(&self, name: &str) -> String {
        let cores: Vec<_> = self.pmus().iter().filter(|pmu| pmu.is_core()).map(|pmu| &*pmu.name).collect();
        if name == "cpu" && cores.len() > 1 {
            return format!(
                "this machine has several kinds of cores, and events differ between them; write one of {} \
                 instead of cpu",
                cores.join(", ")
            );
        }
        let names: Vec<_> = self.pmus().iter().map(|pmu| &*pmu.name).collect();
        let known = if names.is_empty() { "none at all".to_owned() } else { names.join(", ") };
        let guest = if self.is_guest() { "; the hypervisor may pass it through, ask for it" } else { "" };
        format!("the kernel lists no PMU '{name}' here (it lists {known}){guest}")
    }
}

/// Whether a PMU of sysfs is a box of that name: `uncore_imc_3` is one of `uncore_imc`.
pub(super) fn is_called(pmu: &str, name: &str) -> bool {
    let number = pmu
        .strip_prefix(name)
        .and_then(|rest| if rest.is_empty() { Some("0") } else { rest.strip_prefix('_') });
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn on_pmu(asked: &Asked, encoding: &Encoding, pmu: &Pmu) -> Result<Encoded, String> {
    let mut event = Event::new(pmu.kind, 0);
    for (name, value) in encoding.fields.iter().filter(|(_, value)| *value != 0) {
        put(&mut event, pmu, name, *value)?;
    }
    let modes = modes(asked);
    let domain = match &pmu.cpumask {
        None => {
            let cpus = if pmu.is_core() { pmu.cpus.clone() } else { None };
            Domain::Core { pmu: pmu.name.clone(), cpus }
        }
        Some(_) if modes != Modes::All => {
            return Err(format!(
                "{} counts for the whole package and knows no modes; leave out :u and :k",
                pmu.name
            ));
        }
        Some(cpus) => Domain::Box { pmu: pmu.name.clone(), cpus: cpus.clone() },
    };
    Ok(in_modes(event, domain, asked, modes))
}

/// Puts a field's value where the PMU wants it.
fn put(event: &mut Event, pmu: &Pmu, name: &str, value: u64) -> Result<(), String> {
    match (pmu.fields.get(name), name) {
        (Some(field), _) => field.put(event, value).ok_or_else(|| {
            format!("{value:#x} does not fit the field '{name}' of {} ({} bits)", pmu.name, field.bits())
        })?,
        (None, "config") => event.config = value,
        (None, "config1") => event.config1 = value,
        (None, "config2") => event.config2 = value,
        (None, "config3") => event.config3 = value,
        (None, _) => {
            let fields: Vec<_> = pmu.fields.keys().map(String::as_str).collect();
            return Err(format!("{} has no field '{name}'; it has {}", pmu.name, fields.join(", ")));
        }
    }
    Ok(())
}

fn software(asked: &Asked, number: u64) -> Result<Vec<Encoded>, String> {
    let modes = modes(asked);
    let kernel_only = KERNEL_ONLY.iter().any(|id| u64::from(*id) == number);
    if kernel_only && modes == Modes::User {
        return Err(
            "it happens in the kernel, so that it would never count in user mode; leave out the :u".into()
        );
    }
    let event = Event::new(bindings::PERF_TYPE_SOFTWARE, number);
    let encoded = in_modes(event, Domain::Kernel, asked, modes);
    Ok(vec![Encoded { may_fall_back_to_user: encoded.may_fall_back_to_user && !kernel_only, ..encoded }])
}

fn access(read: bool, write: bool, execute: bool) -> Result<u32, String> {
    match (read, write, execute) {
        (false, false, true) => Ok(bindings::HW_BREAKPOINT_X),
        (_, _, true) => Err("executions are watched alone, not with reads or writes".into()),
        (false, true, false) => Ok(bindings::HW_BREAKPOINT_W),
        // x86 has no breakpoint for reads alone.
        (true, _, false) => Ok(bindings::HW_BREAKPOINT_RW),
        (false, false, false) => Err("it must watch reads, writes or executions".into()),
    }
}

fn modes(asked: &Asked) -> Modes {
    match (asked.modifiers.user, asked.modifiers.kernel) {
        (true, false) => Modes::User,
        (false, true) => Modes::Kernel,
        _ => Modes::All,
    }
}

fn in_modes(event: Event, domain: Domain, asked: &Asked, modes: Modes) -> Encoded {
    let need = match (&domain, modes) {
        (Domain::Box { .. }, _) => Need::WholeCpu,
        (_, Modes::User) => Need::User,
        _ => Need::Kernel,
    };
    Encoded {
        event: Event { modes, ..event },
        domain,
        demand: Demand {
            counters: counters(asked),
            register: register(asked),
            alone: asked.needs.alone,
            pair: asked.needs.pair,
            free: asked.needs.free,
            follows: None,
        },
        need,
        may_fall_back_to_user: !asked.modifiers.user && !asked.modifiers.kernel && need == Need::Kernel,
    }
}

/// The architectural events that have a fixed counter, for those that do not say so.
fn counters(asked: &Asked) -> Counters {
    let Signal::Encoded(encoding) = &asked.signal else {
        return asked.counters;
    };
    let plain =
        |code| encoding.fields.iter().all(|(name, value)| name == "event" && *value == code || *value == 0);
    match asked.counters {
        Counters { programmable: 0, fixed: None } if encoding.pmu.starts_with("cpu") => {
            let fixed = [(0xc0, 0), (0x3c, 1)].into_iter().find(|(code, _)| plain(*code));
            fixed.map_or(asked.counters, |(_, fixed)| Counters { programmable: u32::MAX, fixed: Some(fixed) })
        }
        stated => stated,
    }
}

/// Fixed counters of the kernel's generic events. A machine without them counts on general ones.
fn generic_counters(number: u64) -> Counters {
    let fixed = match u32::try_from(number) {
        Ok(bindings::PERF_COUNT_HW_INSTRUCTIONS) => Some(0),
        Ok(bindings::PERF_COUNT_HW_CPU_CYCLES) => Some(1),
        Ok(bindings::PERF_COUNT_HW_REF_CPU_CYCLES) => Some(2),
        _ => None,
    };
    // Reference cycles have no general counter on the machines that have fixed ones.
    let programmable = if matches!(fixed, Some(0 | 1)) { u32::MAX } else { 0 };
    Counters { programmable, fixed }
}

/// The extra register and what goes into it.
fn register(asked: &Asked) -> Option<(String, Vec<u64>)> {
    let Signal::Encoded(encoding) = &asked.signal else {
        return None;
    };
    let set = |register: &str| {
        let fields = encoding.fields.iter().filter(|(name, value)| *value != 0 && name.starts_with(register));
        fields.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    match &asked.register {
        Some(name) => Some((name.clone(), set(name))),
        None => {
            let name = REGISTERS.into_iter().find(|name| !set(name).is_empty())?;
            Some((name.to_owned(), set(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_of_a_name() {
        assert!(is_called("uncore_imc_3", "uncore_imc") && is_called("cpu", "cpu"));
        assert!(!is_called("uncore_imc_free_running_0", "uncore_imc"));
        assert!(!is_called("cpu_core", "cpu") && !is_called("uncore_imc_", "uncore_imc"));
        assert!(is_called("uncore_imc_3", "uncore_imc_3") && !is_called("uncore_imc_31", "uncore_imc_3"));
    }

    #[test]
    fn registers_are_found_by_their_fields() {
        let event = |fields: &[(&str, u64)]| {
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let encoding = Encoding { unit: events::Unit::Core, pmu: "cpu".into(), fields };
            Asked::new("x", Signal::Encoded(encoding))
        };
        let response = event(&[("event", 0xb7), ("umask", 1), ("offcore_rsp", 0x10001)]);
        assert_eq!(register(&response), Some(("offcore_rsp".into(), vec![0x10001])));
        assert_eq!(register(&event(&[("event", 0xb7), ("offcore_rsp", 0)])), None);
        assert_eq!(
            register(&event(&[("filter_state", 3), ("filter_nid", 1)])),
            Some(("filter".into(), vec![3, 1]))
        );
        assert_eq!(counters(&event(&[("event", 0xc0), ("umask", 0)])).fixed, Some(0));
        assert_eq!(counters(&event(&[("event", 0xc0), ("cmask", 1)])).fixed, None);
    }
}
