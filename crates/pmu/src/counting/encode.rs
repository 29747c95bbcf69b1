//! An event of the catalogue in the form the kernel wants, once per PMU that counts it.

use events::{Catalogue, CountRefusal, Demand, Encoding, Event as Asked, Signal, names::is_box_of};
use machine::CpuSet;
use perf_event_open_sys::bindings;

use super::{PerfEvents, tracepoint};
use crate::{KernelEvent, Pmu, event::Modes, refusal::Need};

/// One event on one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// As it is opened.
    pub event: KernelEvent,
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

impl Domain {
    /// The kernel's name of the PMU.
    pub fn pmu(&self) -> &str {
        match self {
            Self::Kernel => "software",
            Self::Breakpoints => "breakpoint",
            Self::Core { pmu, .. } | Self::Box { pmu, .. } => pmu,
        }
    }
}

/// Software events that only ever happen in the kernel: in user mode they would read 0 for ever.
const KERNEL_ONLY: [u32; 3] = [
    bindings::PERF_COUNT_SW_CONTEXT_SWITCHES,
    bindings::PERF_COUNT_SW_CPU_MIGRATIONS,
    bindings::PERF_COUNT_SW_CGROUP_SWITCHES,
];

impl PerfEvents<'_> {
    /// Every form of `asked` that this machine's PMUs have.
    pub(super) fn encode(&self, asked: &Asked) -> Result<Vec<Encoded>, CountRefusal> {
        let not_here = |reason: String| CountRefusal::NotHere { event: asked.name.clone(), reason };
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
                let event = KernelEvent {
                    config1: *address,
                    config2: length,
                    breakpoint: access,
                    ..KernelEvent::new(bindings::PERF_TYPE_BREAKPOINT, 0)
                };
                Ok(vec![in_modes(event, Domain::Breakpoints, asked, None)])
            }
            Signal::Tracepoint { subsystem, name } => {
                if modes == Modes::User {
                    return Err(not_here("a tracepoint lies in the kernel; leave out the :u".into()));
                }
                let id = tracepoint::id(&self.source, subsystem, name).map_err(not_here)?;
                let event = KernelEvent::new(bindings::PERF_TYPE_TRACEPOINT, id);
                let encoded = in_modes(event, Domain::Kernel, asked, None);
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
        let form = |pmu: Option<&Pmu>| {
            let several = cores.len() > 1;
            // On hybrid machines the upper half names the PMU.
            let selector = pmu.filter(|_| several).map_or(0, |pmu| u64::from(pmu.kind) << 32);
            let domain = Domain::Core {
                pmu: pmu.map_or_else(|| "cpu".to_owned(), |pmu| pmu.name.clone()),
                cpus: pmu.filter(|_| several).and_then(|pmu| pmu.cpus.clone()),
            };
            in_modes(KernelEvent::new(kind, number | selector), domain, asked, self.catalogue())
        };
        if cores.is_empty() {
            return vec![form(None)];
        }
        cores.iter().map(|pmu| form(Some(pmu))).collect()
    }

    /// An event with fields, on every PMU of its name.
    fn encoded(&self, asked: &Asked, encoding: &Encoding) -> Result<Vec<Encoded>, String> {
        let pmus: Vec<_> = self.pmus().iter().filter(|pmu| is_box_of(&pmu.name, &encoding.pmu)).collect();
        if pmus.is_empty() {
            return Err(self.no_such_pmu(&encoding.pmu));
        }
        pmus.into_iter().map(|pmu| on_pmu(asked, encoding, pmu, self.catalogue())).collect()
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

fn on_pmu(
    asked: &Asked,
    encoding: &Encoding,
    pmu: &Pmu,
    catalogue: Option<&Catalogue>,
) -> Result<Encoded, String> {
    let mut event = KernelEvent::new(pmu.kind, 0);
    for (name, value) in encoding.fields.iter().filter(|(_, value)| *value != 0) {
        put(&mut event, pmu, name, *value)?;
    }
    let domain = match &pmu.cpumask {
        None => {
            let cpus = if pmu.is_core() { pmu.cpus.clone() } else { None };
            Domain::Core { pmu: pmu.name.clone(), cpus }
        }
        Some(_) if modes(asked) != Modes::All => {
            return Err(format!(
                "{} counts for the whole package and knows no modes; leave out :u and :k",
                pmu.name
            ));
        }
        Some(cpus) => Domain::Box { pmu: pmu.name.clone(), cpus: cpus.clone() },
    };
    Ok(in_modes(event, domain, asked, catalogue))
}

/// Puts a field's value where the PMU wants it.
fn put(event: &mut KernelEvent, pmu: &Pmu, name: &str, value: u64) -> Result<(), String> {
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
    let event = KernelEvent::new(bindings::PERF_TYPE_SOFTWARE, number);
    let encoded = in_modes(event, Domain::Kernel, asked, None);
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

fn in_modes(event: KernelEvent, domain: Domain, asked: &Asked, catalogue: Option<&Catalogue>) -> Encoded {
    let modes = modes(asked);
    let need = match (&domain, modes) {
        (Domain::Box { .. }, _) => Need::WholeCpu,
        (_, Modes::User) => Need::User,
        _ => Need::Kernel,
    };
    Encoded {
        event: KernelEvent { modes, ..event },
        demand: Demand::of(asked, domain.pmu(), catalogue),
        domain,
        need,
        may_fall_back_to_user: !asked.modifiers.user && !asked.modifiers.kernel && need == Need::Kernel,
    }
}
