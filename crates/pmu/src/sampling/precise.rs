//! Which event of this machine samples loads with address, latency and source.

use machine::CpuSet;

use crate::{
    KernelEvent, Pmu,
    event::Modes,
    field::{FieldError, apply},
};

/// How to sample loads on the cores of one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSampling {
    /// The PMU's name.
    pub pmu: String,
    /// The event.
    pub event: KernelEvent,
    /// The event that must lead its group.
    pub leader: Option<KernelEvent>,
    /// How exact the sample is asked to be.
    pub precise: u8,
    /// The CPUs that have it; `None`: all.
    pub cpus: Option<CpuSet>,
    /// The processor leaves out accesses faster than this. `None`: it cannot, and samples come for other
    /// instructions too: look at the data source and the weight.
    pub threshold_cycles: Option<u16>,
}

/// Why no loads can be sampled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPreciseLoads {
    /// No core PMU at all, as in most guests.
    #[error(
        "this machine shows no PMU of its cores, so no load can be sampled with its latency; sample the clock instead"
    )]
    NoPmu,
    /// A PMU, without such an event.
    #[error("{pmus} {} no event for load latency (no 'mem-loads', no ibs_op); sample the clock instead", if *many { "have" } else { "has" })]
    NoEvent {
        /// The core PMUs.
        pmus: String,
        /// There is more than one.
        many: bool,
    },
    /// sysfs describes the event in a way that cannot be used.
    #[error("the PMU {pmu} describes its load-latency event in a way that cannot be used: {source}")]
    Description {
        /// The PMU.
        pmu: String,
        /// What is wrong.
        source: FieldError,
    },
}

/// What the machine with these PMUs has to sample loads: Intel's load latency (on hybrid machines once per kind of
/// core), with its auxiliary event where the kernel lists one (Sapphire Rapids and later), or AMD's IBS.
pub fn precise_loads(pmus: &[Pmu], threshold_cycles: u16) -> Result<Vec<LoadSampling>, NoPreciseLoads> {
    let intel = pmus.iter().filter(|pmu| pmu.is_core() && pmu.events.contains_key("mem-loads"));
    let mut found: Vec<_> = intel.map(|pmu| load_latency(pmu, threshold_cycles)).collect::<Result<_, _>>()?;
    if found.is_empty() {
        found.extend(pmus.iter().find(|pmu| pmu.name == "ibs_op").map(|pmu| ibs(pmu, threshold_cycles)));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let cores: Vec<_> = pmus.iter().filter(|pmu| pmu.is_core()).map(|pmu| pmu.name.as_str()).collect();
    match cores[..] {
        [] => Err(NoPreciseLoads::NoPmu),
        _ => Err(NoPreciseLoads::NoEvent { pmus: cores.join(" and "), many: cores.len() > 1 }),
    }
}

fn load_latency(pmu: &Pmu, threshold_cycles: u16) -> Result<LoadSampling, NoPreciseLoads> {
    let bad = |source| NoPreciseLoads::Description { pmu: pmu.name.clone(), source };
    let named = |name| pmu.event(name).transpose().map_err(bad);
    let missing = || bad(FieldError::Event(String::new()));
    let mut event = named("mem-loads")?.ok_or_else(missing)?;
    // The named event has a threshold of its own; the field is where the kernel says it is. Below 3 is refused.
    let threshold = threshold_cycles.max(3);
    let ldlat = format!("ldlat={threshold:#x}");
    let threshold_cycles = match apply(&ldlat, &pmu.fields, &mut event) {
        Ok(()) => Some(threshold),
        Err(FieldError::Unknown(_)) => None,
        Err(source) => return Err(bad(source)),
    };
    Ok(LoadSampling {
        pmu: pmu.name.clone(),
        event,
        leader: named("mem-loads-aux")?,
        precise: 2,
        cpus: pmu.cpus.clone(),
        threshold_cycles,
    })
}

/// Counts dispatched operations where it may choose, so that slow ones are not preferred. Without the kernel's own
/// filter (`swfilt`) IBS sees every mode; the samples say which.
fn ibs(pmu: &Pmu, threshold_cycles: u16) -> LoadSampling {
    let mut event = KernelEvent::new(pmu.kind, 0);
    let mut set =
        |name: &str, value| pmu.fields.get(name).and_then(|field| field.put(&mut event, value)).is_some();
    set("cnt_ctl", 1);
    let filters_modes = set("swfilt", 1);
    // From Zen 5 on: 128 to 2048 cycles in steps of 128.
    let steps = u64::from(threshold_cycles).div_ceil(128).clamp(1, 16);
    let threshold_cycles = set("ldlat", 128 * steps).then_some(128 * steps as u16);
    event.modes = if filters_modes { Modes::User } else { Modes::All };
    LoadSampling {
        pmu: pmu.name.clone(),
        event,
        leader: None,
        precise: 0,
        cpus: pmu.cpus.clone(),
        threshold_cycles,
    }
}
