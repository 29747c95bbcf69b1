//! What probes beside a program found, in words.

use analysis::surroundings::{ProbeComparison, ProbedMoment, ProgramSurroundings};
use machine::{
    Bytes,
    units::{nanos, significant},
};

/// One sentence where a probe differs from the profile; none where nothing does.
pub fn difference(surroundings: &ProgramSurroundings) -> Option<String> {
    let of = |moment: &ProbedMoment| match moment {
        ProbedMoment::Compared(comparison) => differences(comparison),
        ProbedMoment::Missing(_) => None,
    };
    let said = match (of(&surroundings.before), of(&surroundings.after)) {
        (None, None) => return None,
        (Some(before), None) => format!("before the program {before}"),
        (None, Some(after)) => format!("after the program {after}"),
        (Some(before), Some(after)) => format!("before the program {before}; after it {after}"),
    };
    Some(format!("Others used this machine: {said}."))
}

fn differences(comparison: &ProbeComparison) -> Option<String> {
    let mut said = Vec::new();
    if let Some(cache) = comparison.taken_cache() {
        said.push(format!("L{} gave {} of {}", cache.level, bytes(cache.held_bytes), bytes(cache.of_bytes)));
    }
    if comparison.memory_is_slower() {
        said.push(format!("memory took {} × idle", significant(comparison.memory_ns.times(), 2)));
    }
    if comparison.gives_less() {
        said.push(format!(
            "reading it went at {} × idle",
            significant(comparison.load_bytes_per_s.times(), 2)
        ));
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// A line for each probe: what it found, or why there is none.
pub fn details(surroundings: &ProgramSurroundings) -> [(&'static str, String); 2] {
    [
        ("Probe before the program", moment(&surroundings.before)),
        ("Probe after the program", moment(&surroundings.after)),
    ]
}

fn moment(moment: &ProbedMoment) -> String {
    let comparison = match moment {
        ProbedMoment::Missing(reason) => return format!("none: {reason}"),
        ProbedMoment::Compared(comparison) => comparison,
    };
    let (latency, speed) = (comparison.memory_ns, comparison.load_bytes_per_s);
    let gb = |bytes_per_s: f64| significant(bytes_per_s / 1e9, 3);
    let mut parts = vec![format!(
        "memory {} (idle {}, up to {})",
        nanos(latency.now),
        nanos(latency.usual),
        nanos(latency.high)
    )];
    parts.extend(comparison.cache.map(|cache| {
        format!("L{} gave {} of {}", cache.level, bytes(cache.held_bytes), bytes(cache.of_bytes))
    }));
    parts.push(format!(
        "one core read {} GB/s (idle {}, from {})",
        gb(speed.now),
        gb(speed.usual),
        gb(speed.low)
    ));
    format!("{}; in {}", parts.join(", "), nanos(comparison.took_ns))
}

fn bytes(bytes: f64) -> String {
    Bytes(bytes.max(0.0).round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::surroundings::{ComparedCache, ComparedFigure};

    fn compared(slower: f64, held_mib: f64) -> ProbedMoment {
        let figure =
            |now: f64, usual: f64| ComparedFigure { now, usual, low: usual * 0.9, high: usual * 1.1 };
        let mib = |mib: f64| mib * 1024.0 * 1024.0;
        ProbedMoment::Compared(ProbeComparison {
            memory_ns: figure(110.0 * slower, 110.0),
            load_bytes_per_s: figure(12e9, 12e9),
            cache: Some(ComparedCache {
                level: 3,
                held_bytes: mib(held_mib),
                of_bytes: mib(32.0),
                is_less: held_mib < 28.0,
            }),
            took_ns: 4.2e7,
        })
    }

    #[test]
    fn said_only_where_something_differs() {
        let quiet = ProgramSurroundings { before: compared(1.0, 32.0), after: compared(1.05, 32.0) };
        assert_eq!(difference(&quiet), None);
        let both = ProgramSurroundings { before: compared(1.8, 8.0), after: compared(1.7, 32.0) };
        assert_eq!(
            difference(&both).as_deref(),
            Some(
                "Others used this machine: before the program L3 gave 8 MiB of 32 MiB, memory took 1.8 × idle; after it \
                 memory took 1.7 × idle."
            )
        );
        let none =
            ProgramSurroundings { before: ProbedMoment::Missing("why".into()), after: compared(1.0, 32.0) };
        assert_eq!(difference(&none), None);
        assert_eq!(details(&none)[0], ("Probe before the program", "none: why".to_owned()));
        assert_eq!(
            details(&none)[1].1,
            "memory 110 ns (idle 110 ns, up to 121 ns), L3 gave 32 MiB of 32 MiB, one core read 12.0 GB/s (idle 12.0, \
             from 10.8); in 42.0 ms"
        );
    }
}
