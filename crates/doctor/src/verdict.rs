//! The best instrument for a machine, and what stays unknown there.

use record::doctor::{BestInstrument, Capability, CapabilityState};

/// What the rows add up to.
pub(super) struct CheckupVerdict {
    pub instrument: BestInstrument,
    pub because: String,
    pub cannot_tell: Vec<String>,
}

/// A question, and the capabilities of which any one would answer it.
const QUESTIONS: &[(&str, &[&str])] = &[
    ("how many cache lines moved at each level, and which cycles were stalls", &["core_pmu"]),
    ("how long a single load waited, and which level served it", &["precise_sampling"]),
    ("what all programs together draw from memory", &["uncore_memory_controllers"]),
    ("how much memory traffic is one program's own", &["offcore_filters", "resctrl_monitoring"]),
    ("how much of the cache one program holds", &["resctrl_monitoring"]),
    (
        "what less cache or bandwidth costs, by partition (interference threads estimate it)",
        &["resctrl_allocation"],
    ),
    ("where a program spends its time", &["core_pmu", "clock_sampling"]),
    ("which data a waiting load wanted", &["precise_sampling", "user_registers"]),
    ("what the prefetchers add to the traffic", &["prefetcher_control"]),
    ("what the energy goes into", &["rapl_energy"]),
    ("latency free of TLB misses", &["huge_pages"]),
    ("local against remote memory", &["numa_binding"]),
    ("anything about one chosen core", &["pinning"]),
    ("what a lower core clock would cost", &["frequency_control"]),
];

impl CheckupVerdict {
    /// Judges the rows of a finished examination.
    pub fn of(rows: &[Capability]) -> Self {
        let row = |key: &str| rows.iter().find(|row| row.key == key);
        let state = |key: &str| row(key).map_or(CapabilityState::Missing, |row| row.state);
        let core = state("core_pmu");
        let (instrument, because) = match (core, state("clock_sampling"), state("user_registers")) {
            (CapabilityState::Found, ..) => (BestInstrument::Pmu, with_pmu(state("precise_sampling"))),
            (_, CapabilityState::Found, registers) => (BestInstrument::Timer, with_timer(core, registers)),
            _ => (BestInstrument::Squeeze, with_stopwatch(core)),
        };
        let mut cannot_tell: Vec<_> = QUESTIONS
            .iter()
            .filter(|(_, keys)| keys.iter().all(|key| state(key) != CapabilityState::Found))
            .map(|(question, keys)| {
                let needs: Vec<_> = keys.iter().filter_map(|key| row(key)).map(need).collect();
                format!("{question}: needs {}", needs.join(" or "))
            })
            .collect();
        if state("hypervisor") == CapabilityState::Found && state("steal_time") != CapabilityState::Found {
            cannot_tell.push("whether the host took a CPU away during a run: needs steal time".to_owned());
        }
        Self { instrument, because, cannot_tell }
    }
}

fn need(row: &Capability) -> String {
    let name = if row.name.starts_with(|c: char| c.is_lowercase()) || is_acronym(&row.name) {
        row.name.clone()
    } else {
        row.name.to_lowercase()
    };
    let name = name.replace("pmu", "PMU");
    if row.state == CapabilityState::Blocked { format!("{name} (blocked)") } else { name }
}

/// `RAPL energy`, `NUMA binding`.
fn is_acronym(name: &str) -> bool {
    name.chars().take(2).all(char::is_uppercase)
}

fn with_pmu(precise: CapabilityState) -> String {
    match precise {
        CapabilityState::Found => "the core PMU counts, and samples name the exact instruction".to_owned(),
        _ => "the core PMU counts; samples are not exact, so blame may land an instruction or more late"
            .to_owned(),
    }
}

fn with_timer(core: CapabilityState, registers: CapabilityState) -> String {
    let pmu = match core {
        CapabilityState::Blocked => "the core PMU is blocked (unlocked, it would be the better instrument)",
        _ => "there is no core PMU",
    };
    match registers {
        CapabilityState::Found => {
            format!("{pmu}, and clock samples arrive with the registers of the program")
        }
        _ => format!("{pmu}, and clock samples arrive, though without registers: code is told, data is not"),
    }
}

fn with_stopwatch(core: CapabilityState) -> String {
    let unlock =
        if core == CapabilityState::Blocked { "; unlocking events would give a better one" } else { "" };
    format!("neither hardware events nor clock samples can be had, and a stopwatch always can{unlock}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, name: &str, state: CapabilityState) -> Capability {
        Capability {
            key: key.to_owned(),
            name: name.to_owned(),
            state,
            detail: String::new(),
            tried: String::new(),
            unlocks: String::new(),
            unlock_with: None,
        }
    }

    fn verdict(core: CapabilityState, clock: CapabilityState, registers: CapabilityState) -> CheckupVerdict {
        CheckupVerdict::of(&[
            row("core_pmu", "Core PMU", core),
            row("clock_sampling", "Clock sampling", clock),
            row("user_registers", "User registers", registers),
        ])
    }

    #[test]
    fn the_best_instrument() {
        use CapabilityState::{Blocked, Found, Missing};
        for (core, clock, registers, instrument, word) in [
            (Found, Found, Found, BestInstrument::Pmu, "core PMU counts"),
            (Found, Missing, Missing, BestInstrument::Pmu, "core PMU counts"),
            (Missing, Found, Found, BestInstrument::Timer, "there is no core PMU"),
            (Blocked, Found, Found, BestInstrument::Timer, "blocked"),
            (Missing, Found, Missing, BestInstrument::Timer, "data is not"),
            (Missing, Missing, Found, BestInstrument::Squeeze, "stopwatch"),
            (Blocked, Blocked, Blocked, BestInstrument::Squeeze, "unlocking"),
        ] {
            let verdict = verdict(core, clock, registers);
            assert_eq!(verdict.instrument, instrument);
            assert!(verdict.because.contains(word), "{}", verdict.because);
        }
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_found_is_not() {
        let lines =
            verdict(CapabilityState::Blocked, CapabilityState::Found, CapabilityState::Missing).cannot_tell;
        assert!(
            lines.iter().any(|line| line.ends_with("were stalls: needs core PMU (blocked)")),
            "{lines:?}"
        );
        assert!(lines.iter().any(|line| line.ends_with("needs user registers")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("spends its time")), "{lines:?}");
    }

    #[test]
    fn steal_time_matters_to_guests_only() {
        let steal = |hypervisor| {
            let rows = [
                row("hypervisor", "Hypervisor", hypervisor),
                row("steal_time", "Steal time", CapabilityState::Missing),
            ];
            CheckupVerdict::of(&rows).cannot_tell.iter().any(|line| line.contains("steal time"))
        };
        assert!(steal(CapabilityState::Found));
        assert!(!steal(CapabilityState::Missing));
    }

    #[test]
    fn names_keep_their_case_where_it_means_something() {
        assert_eq!(need(&row("", "RAPL energy", CapabilityState::Missing)), "RAPL energy");
        assert_eq!(
            need(&row("", "resctrl monitoring", CapabilityState::Blocked)),
            "resctrl monitoring (blocked)"
        );
        assert_eq!(need(&row("", "Core PMU", CapabilityState::Missing)), "core PMU");
    }
}
