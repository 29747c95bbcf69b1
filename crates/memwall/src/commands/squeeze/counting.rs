//! What counts misses of the victims of a calibration, where something does that can be believed.

use std::path::Path;

use ::trust::{Purpose, Quantity, TrustCatalogue};
use events::{CountRequest, CountShare, Instrument, Scope, TooMany};
use machine::{CpuSet, resctrl::ResctrlTree};
use squeeze::{
    misses::{EventMisses, MissCounter, MonitoredMisses},
    partition::HardwarePartition,
    recipe::SqueezeDomain,
};

/// What may count misses of the victims: events that the validation of this machine trusts with lines from memory, and the
/// kernel's monitors under `root`.
pub(super) fn counters<'a>(
    instrument: &'a dyn Instrument,
    trusted: &TrustCatalogue,
    root: &Path,
    domain: &SqueezeDomain,
    partition: Option<&HardwarePartition>,
) -> Vec<Box<dyn MissCounter + 'a>> {
    let victims: CpuSet = domain.own.iter().take(1).copied().collect();
    let mut counters: Vec<Box<dyn MissCounter + 'a>> = Vec::new();
    for quantity in [Quantity::L3InRead, Quantity::L3In] {
        for name in trusted.trusted_for(&Purpose::Volume(quantity)) {
            // Interference runs in threads of this process, so that only the CPU tells who brings a line.
            let scope = Scope::Cpus(victims.clone());
            let opened = instrument.resolve(name).and_then(|event| {
                let (too_many, share) = (TooMany::Refuse, CountShare::Together);
                instrument.open(&CountRequest { events: vec![event], scope, too_many, share })
            });
            if let Ok(counting) = opened {
                counters.push(Box::new(EventMisses::new(name.to_owned(), counting)));
                break;
            }
        }
    }
    let monitor = match partition {
        Some(partition) => partition.monitor(),
        None => ResctrlTree::find(root).and_then(|tree| tree.monitor(&victims).ok().flatten()),
    };
    counters.extend(monitor.map(|monitor| Box::new(MonitoredMisses::new(monitor)) as Box<dyn MissCounter>));
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trust::{Indicator, Judged, Trust, Validation};
    use host::imagined;
    use machine::{Source, profile::Fingerprint};
    use pmu::{
        Errno, PerfEvents,
        scripted::{Behaviour, Scripted},
    };
    use std::fs;

    fn domain() -> SqueezeDomain {
        SqueezeDomain::of(&imagined::machine(8), None, None).expect("made up")
    }

    fn validated(trust: Trust) -> TrustCatalogue {
        let name = Indicator::Event("minor-faults".to_owned());
        let tried_for = Purpose::Volume(Quantity::L3InRead);
        TrustCatalogue::of(
            Validation {
                schema: String::new(),
                fingerprint: Fingerprint::read(&Source::live()),
                simulated: None,
                instrument: "perf_event".to_owned(),
                measured_at: 1,
                memwall: "0".to_owned(),
                quick: false,
                runs: 1,
                complete: true,
                steps: Vec::new(),
                best: Vec::new(),
                indicators: vec![Judged::new(name, tried_for, "lines from memory", "volumes", trust)],
                thresholds: Vec::new(),
                unseen: None,
                unseen_with_relief: None,
                sweeps: Vec::new(),
            },
            None,
        )
    }

    #[test]
    fn only_events_that_are_trusted_with_lines_count_them() {
        let kernel = Scripted::new(|request| match request.target {
            // Interference runs elsewhere in the same process.
            pmu::EventTarget::Cpu(0) => {
                let mut behaviour = Behaviour::counts(640);
                // Read at the end, at the next beginning, and at the next end.
                let next = pmu::CounterReading { value: 1000, ..behaviour.reading };
                behaviour.later = vec![behaviour.reading, next];
                Ok(behaviour)
            }
            _ => Err(Errno(22)),
        });
        let instrument = PerfEvents::new(&kernel, Source::live());
        let nowhere = Path::new("/nowhere");
        let of = |trusted: &TrustCatalogue| counters(&instrument, trusted, nowhere, &domain(), None);
        let mut trusted = of(&validated(Trust::Trusted { error: 0.02 }));
        assert_eq!(trusted.len(), 1);
        assert_eq!(trusted[0].name(), "the PMU (minor-faults)");
        for lines in [640.0, 360.0] {
            trusted[0].begin().expect("made up");
            assert!(!trusted[0].end().expect("made up"));
            assert_eq!(trusted[0].lines(), Some(lines), "what came since it began");
        }
        let hint = Trust::Qualitative { tells: "more".to_owned(), misses: "prefetches".to_owned() };
        assert!(of(&validated(hint)).is_empty());
        assert!(of(&TrustCatalogue::missing("not validated")).is_empty());
        let refusing = Scripted::new(|_| Err(Errno(13)));
        let refused = PerfEvents::new(&refusing, Source::live());
        assert!(
            counters(&refused, &validated(Trust::Trusted { error: 0.02 }), nowhere, &domain(), None)
                .is_empty()
        );
    }

    #[test]
    fn the_kernel_s_monitor_is_asked_where_it_counts() {
        let root = tempfile::tempdir().expect("made up");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("made up")).expect("made up");
            fs::write(path, text).expect("made up");
        };
        write("proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0\n");
        write("sys/fs/resctrl/mon_groups/any", "");
        let refusing = Scripted::new(|_| Err(Errno(13)));
        let instrument = PerfEvents::new(&refusing, Source::live());
        let names = || -> Vec<String> {
            let missing = TrustCatalogue::missing("not validated");
            let found = counters(&instrument, &missing, root.path(), &domain(), None);
            found.iter().map(|counter| counter.name()).collect()
        };
        assert_eq!(names(), [""; 0], "it has no monitor of bandwidth");
        write("sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
        assert_eq!(names(), ["resctrl's monitor of memory bandwidth"]);
        // Given back.
        assert_eq!(fs::read_dir(root.path().join("sys/fs/resctrl/mon_groups")).expect("made up").count(), 1);
    }
}
