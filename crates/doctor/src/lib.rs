//! What can be measured here: every capability is tried, not read off.
//!
//! Each row opens the event, makes the call or writes the cell it speaks of, and undoes what it did. Files are read
//! under a root path, events go through [`pmu::LinuxKernel`], other system calls through [`System`]: a test can script
//! all three.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod breakpoints;
mod clock;
mod core_pmu;
mod cpu_settings;
mod guest;
mod huge_pages;
mod live;
mod numa;
mod offcore;
mod permission;
mod pinning;
mod precise;
mod prefetchers;
mod rapl;
mod rdpmc;
mod refusal;
mod resctrl;
mod row;
#[cfg(test)]
mod script;
mod system;
mod trial;
mod uncore;
mod verdict;

use std::{fs, path::Path};

use machine::Topology;
use pmu::{Errno, LinuxKernel};
use record::doctor::{Capability, Checkup};

pub use live::LiveSystem;
pub use system::System;

/// The machine under examination.
#[derive(Clone, Copy)]
pub struct Patient<'a> {
    /// Where `sys`, `proc` and `dev` are; `/` for this machine.
    pub root: &'a Path,
    /// What it claims to be.
    pub topology: &'a Topology,
    /// Opens events.
    pub kernel: &'a dyn LinuxKernel,
    /// Makes the other system calls.
    pub system: &'a dyn System,
}

/// Examines the machine this process runs on.
pub fn examine_here(topology: &Topology) -> Checkup {
    examine(Patient { root: Path::new("/"), topology, kernel: &pmu::Live, system: &LiveSystem })
}

/// Tries every capability, then names the best instrument and what stays unknown.
pub fn examine(patient: Patient<'_>) -> Checkup {
    let rows: Vec<Capability> = ROWS.iter().map(|row| row(patient)).collect();
    let verdict = verdict::CheckupVerdict::of(&rows);
    Checkup {
        schema: "memwall.doctor/1".to_owned(),
        rows,
        instrument: verdict.instrument,
        because: verdict.because,
        cannot_tell: verdict.cannot_tell,
    }
}

/// Every row in the order shown.
const ROWS: &[fn(Patient<'_>) -> Capability] = &[
    core_pmu::core_pmu,
    precise::precise_sampling,
    uncore::memory_controllers,
    offcore::offcore_filters,
    breakpoints::breakpoint_events,
    clock::clock_sampling,
    clock::user_registers,
    rdpmc::rdpmc,
    resctrl::allocation,
    resctrl::monitoring,
    rapl::energy,
    prefetchers::prefetcher_control,
    huge_pages::huge_pages,
    numa::binding,
    pinning::pinning,
    guest::hypervisor,
    guest::steal_time,
    permission::perf_event_paranoid,
    permission::nmi_watchdog,
    cpu_settings::smt,
    cpu_settings::frequency_control,
];

impl Patient<'_> {
    /// The trimmed text of a file under the root.
    fn text(&self, path: &str) -> Result<String, Errno> {
        Ok(fs::read_to_string(self.root.join(path))?.trim().to_owned())
    }

    /// The number a file under the root holds.
    fn number(&self, path: &str) -> Option<i64> {
        self.text(path).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::doctor::{BestInstrument, CapabilityState};
    use script::Script;

    #[test]
    fn one_row_per_capability_each_with_its_words() {
        let script = Script::new();
        let checkup = examine(script.patient());
        assert_eq!(checkup.schema, "memwall.doctor/1");
        assert_eq!(checkup.rows.len(), ROWS.len());
        let mut keys: Vec<_> = checkup.rows.iter().map(|row| &row.key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), ROWS.len(), "keys are unique");
        for row in &checkup.rows {
            assert!(!row.name.is_empty() && !row.detail.is_empty(), "{row:?}");
            assert!(!row.tried.is_empty() && !row.unlocks.is_empty(), "{row:?}");
            assert!(row.state != CapabilityState::Found || row.unlock_with.is_none(), "{row:?}");
        }
        assert_eq!(script.kernel.open_events(), 0, "nothing stays open");
    }

    #[test]
    fn a_machine_that_refuses_everything_still_gets_an_answer() {
        for errno in [libc::EACCES, libc::EPERM, libc::ENOSYS, libc::EMFILE, libc::ENOENT, 4095] {
            let mut script = Script::new();
            script.refuse_everything(errno);
            let checkup = examine(script.patient());
            assert_eq!(checkup.instrument, BestInstrument::Squeeze, "{}", Errno(errno));
            assert!(!checkup.cannot_tell.is_empty());
        }
    }
}
