//! What follows from slowdowns: bounds on use, and the class of a program.

use machine::squeezing::{KnownPattern, SqueezeKind};
use record::squeeze::{HarmVerdict, ProgramClass, ProgramPart, SlowdownPoint, SqueezeCurve, UseBounds};

/// Bounds on what each of `processes` uses (casas2017 §5.2): no more than the last harmless strength leaves, more than the
/// first harmful one does. What calibration leaves open widens them. `None` if no strength is decided.
pub fn bounds(points: &[SlowdownPoint], processes: usize) -> Option<UseBounds> {
    let each = processes.max(1) as f64;
    let by_strength = sorted(points);
    let first_harm = by_strength.iter().position(|point| point.verdict == HarmVerdict::Harmful);
    let before = &by_strength[..first_harm.unwrap_or(by_strength.len())];
    let harmless = before.iter().rev().find(|point| point.verdict == HarmVerdict::Harmless);
    let at_least = first_harm.map(|index| by_strength[index].left.low / each);
    let at_most = harmless.map(|point| point.left.high / each);
    (at_least.is_some() || at_most.is_some()).then_some(UseBounds { at_least, at_most })
}

/// Bounds of all processes together as bounds of each.
pub fn for_each(bounds: UseBounds, processes: usize) -> UseBounds {
    let each = processes.max(1) as f64;
    UseBounds {
        at_least: bounds.at_least.map(|low| low / each),
        at_most: bounds.at_most.map(|high| high / each),
    }
}

/// The verdict on a strength from its slowdown alone, and from the part of it that comes from what the strength takes.
pub fn of_both(plain: HarmVerdict, explained: HarmVerdict) -> HarmVerdict {
    match (plain, explained) {
        (HarmVerdict::Harmless, _) | (_, HarmVerdict::Harmless) => HarmVerdict::Harmless,
        (HarmVerdict::Harmful, HarmVerdict::Harmful) => HarmVerdict::Harmful,
        _ => HarmVerdict::Open,
    }
}

/// What bounds rest on, in sentences. `explained`: a mixture of known programs explains the runs.
pub fn evidence(curves: [&SqueezeCurve; 2], processes: usize, explained: bool) -> Vec<String> {
    if !explained {
        return Vec::new();
    }
    let unit = |kind: SqueezeKind, value: f64| match kind {
        SqueezeKind::Storage => format!("{:.2} MiB", value / 1048576.0),
        SqueezeKind::Bandwidth => format!("{:.1} GB/s", value / 1e9),
    };
    let by_rule = curves.into_iter().filter_map(|curve| {
        let bounds = bounds(&curve.points, processes)?;
        let end = |value: Option<f64>| value.map_or("…".to_owned(), |value| unit(curve.kind, value));
        Some(format!("{} {} to {}", curve.kind, end(bounds.at_least), end(bounds.at_most)))
    });
    let by_rule: Vec<String> = by_rule.collect();
    match by_rule.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "By the last harmless and the first harmful strength alone (casas2017 §5.2): {}.",
            by_rule.join(", ")
        )],
    }
}

/// Whether the CPUs of a program are at the same part of it at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpusDo {
    /// One part after the other: one CPU is busy at a time, or all begin each part together.
    InTurn,
    /// The same parts, each when it comes to them.
    Alike,
    /// Perhaps different ones.
    Apart,
}

/// Why nothing is said of what a program uses: mixtures are of parts that come in turn, and of parts that run at once the
/// slower one hides what the other needs.
pub fn no_bounds(cpus_do: CpusDo, parts: &[ProgramPart]) -> Option<&'static str> {
    let stream = |part: &ProgramPart| part.pattern == KnownPattern::Stream;
    let other = |part: &ProgramPart| !stream(part) && part.pattern != KnownPattern::Private;
    let both = parts.iter().any(stream) && parts.iter().any(other);
    match cpus_do {
        CpusDo::InTurn => None,
        CpusDo::Alike => both.then_some(
            "Several CPUs are busy at once, and a stream and other data were found. If some stream while others work on their \
             data, time does not tell what either needs: how much it uses is left open.",
        ),
        CpusDo::Apart => Some(
            "Several CPUs are busy at once, and may be at different things. What one needs may be hidden behind another that \
             takes longer: how much it uses is left open.",
        ),
    }
}

/// Weakest first.
fn sorted(points: &[SlowdownPoint]) -> Vec<&SlowdownPoint> {
    let mut sorted: Vec<&SlowdownPoint> = points.iter().collect();
    sorted.sort_by(|a, b| b.left.value.total_cmp(&a.left.value));
    sorted
}

/// Whether less of a resource harms; `None` if that is open.
fn sensitive(curve: &SqueezeCurve) -> Option<bool> {
    if curve.points.iter().any(|point| point.verdict == HarmVerdict::Harmful) {
        return Some(true);
    }
    let strongest = sorted(&curve.points).last().map(|point| point.verdict);
    (strongest == Some(HarmVerdict::Harmless)).then_some(false)
}

/// The class of a program (casas2017 §1). `misses`: whether it waits for memory, if that is known by other means; it tells
/// the two insensitive cases apart.
pub fn class(storage: &SqueezeCurve, bandwidth: &SqueezeCurve, misses: Option<bool>) -> ProgramClass {
    match (sensitive(storage), sensitive(bandwidth)) {
        (Some(true), Some(true)) => ProgramClass::Both,
        (Some(true), Some(false)) => ProgramClass::CacheSensitive,
        (Some(false), Some(true)) => ProgramClass::BandwidthSensitive,
        (Some(false), Some(false)) => match misses {
            Some(true) => ProgramClass::Overflows,
            Some(false) => ProgramClass::LivesAbove,
            None => ProgramClass::Insensitive,
        },
        // One kind alone tells of its own resource.
        (Some(true), None) => ProgramClass::LosesToCache,
        (None, Some(true)) => ProgramClass::LosesToBandwidth,
        (Some(false), None) => ProgramClass::CacheHarmless,
        (None, Some(false)) => ProgramClass::BandwidthHarmless,
        (None, None) => ProgramClass::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{
        Bytes,
        profile::Estimate,
        squeezing::{Interference, SqueezeForm},
    };

    fn point(left: f64, verdict: HarmVerdict) -> SlowdownPoint {
        let interference = Interference {
            kind: SqueezeKind::Storage,
            form: SqueezeForm::Paper,
            threads: 1,
            bytes_each: Bytes(0),
            pause: 0,
            left: None,
        };
        let left = Estimate { value: left, low: left - 0.5, high: left + 0.5, samples: 3 };
        let slowdown = Estimate { value: 1.0, low: 1.0, high: 1.0, samples: 6 };
        SlowdownPoint { interference, left, slowdown, elsewhere: 0.0, verdict }
    }

    fn curve(points: Vec<SlowdownPoint>) -> SqueezeCurve {
        SqueezeCurve { kind: SqueezeKind::Storage, whole: Some(20.0), points, bounds: None, refused: None }
    }

    use HarmVerdict::{Harmful, Harmless, Open};

    #[test]
    fn the_rule_of_the_paper() {
        // MCB: harmless with 15, 12 and 7 MB, harmful with 4 and 3: between 4 and 7 for one process, half for two.
        let points: Vec<_> =
            [(15.0, Harmless), (12.0, Harmless), (7.0, Harmless), (4.0, Harmful), (3.0, Harmful)]
                .into_iter()
                .map(|(left, verdict)| point(left, verdict))
                .collect();
        assert_eq!(bounds(&points, 1), Some(UseBounds { at_least: Some(3.5), at_most: Some(7.5) }));
        assert_eq!(bounds(&points, 2), Some(UseBounds { at_least: Some(1.75), at_most: Some(3.75) }));
    }

    #[test]
    fn open_strengths_widen_and_bind_nothing() {
        let open = [point(15.0, Harmless), point(12.0, Open), point(7.0, Harmful)];
        assert_eq!(bounds(&open, 1), Some(UseBounds { at_least: Some(6.5), at_most: Some(15.5) }));
        assert_eq!(bounds(&[point(15.0, Open)], 1), None);
        assert_eq!(
            bounds(&[point(3.0, Harmless)], 1),
            Some(UseBounds { at_least: None, at_most: Some(3.5) })
        );
        // A harmless strength beyond a harmful one contradicts it and is not believed.
        let contradiction = [point(15.0, Harmful), point(7.0, Harmless)];
        assert_eq!(bounds(&contradiction, 1), Some(UseBounds { at_least: Some(14.5), at_most: None }));
    }

    #[test]
    fn classes() {
        let harmed = || curve(vec![point(5.0, Harmful)]);
        let unharmed = || curve(vec![point(15.0, Open), point(5.0, Harmless)]);
        let unknown = || curve(vec![point(15.0, Harmless), point(5.0, Open)]);
        assert_eq!(class(&harmed(), &harmed(), None), ProgramClass::Both);
        assert_eq!(class(&harmed(), &unharmed(), None), ProgramClass::CacheSensitive);
        assert_eq!(class(&unharmed(), &harmed(), None), ProgramClass::BandwidthSensitive);
        assert_eq!(class(&unharmed(), &unharmed(), None), ProgramClass::Insensitive);
        assert_eq!(class(&unharmed(), &unharmed(), Some(true)), ProgramClass::Overflows);
        assert_eq!(class(&unharmed(), &unharmed(), Some(false)), ProgramClass::LivesAbove);
        assert_eq!(class(&unknown(), &unknown(), Some(false)), ProgramClass::Undecided);
    }

    #[test]
    fn of_parts_that_may_run_at_once_nothing_is_said() {
        let part = |pattern| ProgramPart {
            pattern,
            size: Bytes::mib(4),
            bytes_per_s: 1e9,
            share: 0.4,
            overflows: pattern == KnownPattern::Stream,
        };
        let (set, stream) = (part(KnownPattern::Random), part(KnownPattern::Stream));
        assert!(no_bounds(CpusDo::Alike, &[set, stream]).is_some_and(|said| said.contains("a stream and")));
        // What lives above the cache disturbs nobody.
        assert_eq!(no_bounds(CpusDo::Alike, &[part(KnownPattern::Private), stream]), None);
        assert_eq!(no_bounds(CpusDo::Alike, &[set]), None);
        assert_eq!(no_bounds(CpusDo::InTurn, &[set, stream]), None);
        // What is found alone may hide another.
        assert!(no_bounds(CpusDo::Apart, &[stream]).is_some_and(|said| said.contains("hidden")));
    }

    #[test]
    fn one_kind_alone_tells_of_its_own_resource() {
        let refused = || SqueezeCurve { refused: Some("nothing taken".to_owned()), ..curve(Vec::new()) };
        let harmed = || curve(vec![point(5.0, Harmful)]);
        let unharmed = || curve(vec![point(5.0, Harmless)]);
        assert_eq!(class(&refused(), &harmed(), None), ProgramClass::LosesToBandwidth);
        assert_eq!(class(&refused(), &unharmed(), Some(true)), ProgramClass::BandwidthHarmless);
        assert_eq!(class(&harmed(), &refused(), None), ProgramClass::LosesToCache);
        assert_eq!(class(&unharmed(), &refused(), None), ProgramClass::CacheHarmless);
        // What noise leaves open says as little as what is refused.
        assert_eq!(class(&curve(vec![point(5.0, Open)]), &harmed(), None), ProgramClass::LosesToBandwidth);
        assert_eq!(class(&refused(), &refused(), None), ProgramClass::Undecided);
    }
}
