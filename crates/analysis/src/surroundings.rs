//! Me or my neighbour: what probes before and after a program found, against the profile's own.
//!
//! A probe differs where it lies outside all that the profile saw: outside its own probes, widened by as much as the
//! profile says that latency or bandwidth vary. What a probe cannot be compared with has its reason.

use machine::{
    Profile,
    probe::ProbeReading,
    profile::{Estimate, LevelName},
};
use record::probe::{ProbeOutcome, Probes};
use serde::Serialize;

/// Two probes of the same machine differ by so much, whatever the profile saw.
const LEAST_DIFFERENCE: f64 = 0.1;

/// A cache of which less than this share is missing is whole.
const WHOLE: f64 = 0.9;

/// What went on around a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramSurroundings {
    /// Before it began.
    pub before: ProbedMoment,
    /// After it ended.
    pub after: ProbedMoment,
}

/// One probe, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbedMoment {
    /// There is none, or nothing to compare it with.
    Missing(String),
    /// It was compared.
    Compared(ProbeComparison),
}

/// A probe against the profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeComparison {
    /// Latency of memory.
    pub memory_ns: ComparedFigure,
    /// Bandwidth of one core reading memory.
    pub load_bytes_per_s: ComparedFigure,
    /// What the last cache gave, if the machine has one that was seen.
    pub cache: Option<ComparedCache>,
    /// How long the probe took.
    pub took_ns: f64,
}

/// A figure now, and as the profile has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Now.
    pub now: f64,
    /// The median of the profile's probes.
    pub usual: f64,
    /// What it may be without anything being different.
    pub low: f64,
    /// The upper end of that.
    pub high: f64,
}

impl ComparedFigure {
    /// Now over usual.
    pub fn times(&self) -> f64 {
        self.now / self.usual
    }
}

/// How much of a cache was there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparedCache {
    /// 1, 2, 3, …
    pub level: u32,
    /// Bytes it held at least.
    pub held_bytes: f64,
    /// Of so many that it held when the profile was made.
    pub of_bytes: f64,
    /// Less than the profile's own probes explain.
    pub is_less: bool,
}

impl ProbeComparison {
    /// Memory answers later than the profile explains.
    pub fn memory_is_slower(&self) -> bool {
        self.memory_ns.now > self.memory_ns.high
    }

    /// Memory gives less than the profile explains.
    pub fn gives_less(&self) -> bool {
        self.load_bytes_per_s.now < self.load_bytes_per_s.low
    }

    /// The cache, where it held less than the profile explains.
    pub fn taken_cache(&self) -> Option<ComparedCache> {
        self.cache.filter(|cache| cache.is_less)
    }

    /// Anything of it.
    pub fn differs(&self) -> bool {
        self.memory_is_slower() || self.gives_less() || self.taken_cache().is_some()
    }
}

impl ProgramSurroundings {
    /// Of a recording; `profile` is that of its machine.
    pub fn of(probes: &Probes, profile: Option<&Profile>) -> Self {
        Self { before: moment(&probes.before, profile), after: moment(&probes.after, profile) }
    }
}

fn moment(probed: &ProbeOutcome, profile: Option<&Profile>) -> ProbedMoment {
    let reading = match probed {
        ProbeOutcome::NotAsked => return ProbedMoment::Missing("not asked for".to_owned()),
        ProbeOutcome::LeftOut(reason) => return ProbedMoment::Missing(reason.clone()),
        ProbeOutcome::Reading(reading) => reading,
    };
    let Some(profile) = profile else {
        return ProbedMoment::Missing("there is no profile of that machine to compare it with".to_owned());
    };
    match compare(reading, profile) {
        Some(comparison) => ProbedMoment::Compared(comparison),
        None => ProbedMoment::Missing(
            "the profile has no probes of the same sizes; 'memwall calibrate' takes some".to_owned(),
        ),
    }
}

/// None where the profile has no probe of the same sizes.
fn compare(now: &ProbeReading, profile: &Profile) -> Option<ProbeComparison> {
    let alike = |reading: &&ProbeReading| {
        let sizes = |one: &ProbeReading| one.chases.iter().map(|chase| chase.bytes).collect::<Vec<_>>();
        sizes(reading) == sizes(now) && reading.memory.bytes == now.memory.bytes
    };
    let usual: Vec<&ProbeReading> = profile.probes.iter().filter(alike).collect();
    let local = |name: &LevelName| matches!(name, LevelName::Memory { local: true, .. });
    let memory = profile.levels.iter().find(|level| local(&level.name));
    let figure = |of: fn(&ProbeReading) -> f64, estimate: Option<Estimate>| {
        compared(of(now), usual.iter().map(|reading| of(reading)).collect(), estimate)
    };
    let memory_ns = figure(|reading| reading.memory.latency_ns, memory.and_then(|level| level.latency_ns))?;
    let load = memory.and_then(|level| level.one_core.load);
    let load_bytes_per_s = figure(|reading| reading.load_bytes_per_s, load)?;
    let cache = now.level.and_then(|level| cache(level, now, &usual, profile));
    Some(ProbeComparison { memory_ns, load_bytes_per_s, cache, took_ns: now.took_ns })
}

/// A figure against those of the profile's probes, and against how much the profile says it varies.
fn compared(now: f64, mut usual: Vec<f64>, estimate: Option<Estimate>) -> Option<ComparedFigure> {
    usual.retain(|value| value.is_finite() && *value > 0.0);
    usual.sort_by(f64::total_cmp);
    let (least, most) = (*usual.first()?, *usual.last()?);
    let middle = usual[usual.len() / 2];
    let varies = |end: fn(&Estimate) -> f64| estimate.map_or(1.0, |estimate| end(&estimate) / estimate.value);
    let low = least.min(middle * varies(|estimate| estimate.low)).min(middle * (1.0 - LEAST_DIFFERENCE));
    let high = most.max(middle * varies(|estimate| estimate.high)).max(middle * (1.0 + LEAST_DIFFERENCE));
    Some(ComparedFigure { now, usual: middle, low, high })
}

/// What the cache held: of each part that was chased through, the share of loads that took no longer than usual.
fn cache(
    level: u32,
    now: &ProbeReading,
    usual: &[&ProbeReading],
    profile: &Profile,
) -> Option<ComparedCache> {
    let latency =
        profile.levels.iter().find(|one| one.name == LevelName::Cache(level)).and_then(|one| one.latency_ns);
    let held = now.chases.iter().enumerate().filter_map(|(index, chase)| {
        let before = usual.iter().filter_map(|reading| reading.chases.get(index));
        let figure = compared(chase.latency_ns, before.map(|chase| chase.latency_ns).collect(), latency)?;
        let from_memory = (figure.now - figure.high).max(0.0);
        let lost = from_memory / (now.memory.latency_ns - figure.high).max(f64::MIN_POSITIVE);
        Some(chase.bytes as f64 * (1.0 - lost.clamp(0.0, 1.0)))
    });
    let held_bytes = held.fold(0.0, f64::max);
    let of_bytes = now.chases.iter().map(|chase| chase.bytes).max()? as f64;
    Some(ComparedCache { level, held_bytes, of_bytes, is_less: held_bytes < WHOLE * of_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{
        probe::ProbedChase,
        profile::{Bandwidths, ProfileLevel},
    };

    const MIB: u64 = 1 << 20;

    fn estimate(value: f64, part: f64) -> Estimate {
        Estimate { value, low: value * (1.0 - part), high: value * (1.0 + part), samples: 9 }
    }

    fn level(name: LevelName, latency_ns: Estimate) -> ProfileLevel {
        ProfileLevel {
            latency_ns: Some(latency_ns),
            one_core: Bandwidths { load: Some(estimate(12e9, 0.05)), ..Bandwidths::default() },
            ..ProfileLevel::unmeasured(name)
        }
    }

    /// A machine with 32 MiB of L3 at 20 ns before memory at 110, scripted: how much of the cache is there, how much slower
    /// memory is.
    fn scripted(held_mib: f64, slower: f64) -> ProbeReading {
        let memory_ns = 110.0 * slower;
        let chase = |mib: u64| {
            let share = (held_mib / mib as f64).min(1.0);
            ProbedChase { bytes: mib * MIB, latency_ns: share * 20.0 + (1.0 - share) * memory_ns }
        };
        ProbeReading {
            level: Some(3),
            chases: [8, 16, 32].map(chase).to_vec(),
            memory: ProbedChase { bytes: 64 * MIB, latency_ns: memory_ns },
            load_bytes_per_s: 12e9 / slower,
            took_ns: 4e7,
        }
    }

    fn profile() -> Profile {
        Profile {
            levels: vec![
                level(LevelName::Cache(3), estimate(20.0, 0.05)),
                level(LevelName::Memory { node: 0, local: true }, estimate(112.0, 0.15)),
            ],
            probes: [1.0, 1.04, 0.98].map(|slower| scripted(32.0, slower)).to_vec(),
            ..Profile::unmeasured()
        }
    }

    fn compared_to(reading: ProbeReading) -> ProbeComparison {
        let probes = Probes { before: ProbeOutcome::Reading(reading), after: ProbeOutcome::NotAsked };
        match ProgramSurroundings::of(&probes, Some(&profile())).before {
            ProbedMoment::Compared(comparison) => comparison,
            ProbedMoment::Missing(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_quiet_machine_differs_in_nothing() {
        for slower in [0.95, 1.0, 1.1] {
            let comparison = compared_to(scripted(32.0, slower));
            assert!(!comparison.differs(), "{slower}: {comparison:?}");
            assert_eq!(comparison.cache.map(|cache| cache.held_bytes), Some(32.0 * MIB as f64));
        }
    }

    #[test]
    fn memory_that_answers_late_is_seen_and_the_cache_is_not_blamed() {
        let comparison = compared_to(scripted(32.0, 1.8));
        assert!(comparison.memory_is_slower() && comparison.gives_less());
        assert!((comparison.memory_ns.times() - 1.8).abs() < 0.01);
        assert_eq!(comparison.taken_cache(), None);
    }

    #[test]
    fn a_cache_that_others_hold_is_seen_and_memory_is_not_blamed() {
        for held in [4.0, 8.0, 12.0, 20.0] {
            let comparison = compared_to(scripted(held, 1.0));
            let taken = comparison.taken_cache().unwrap_or_else(|| panic!("{held}"));
            let found = taken.held_bytes / MIB as f64;
            assert!(
                (found / held - 1.0).abs() < 0.15 && taken.of_bytes == 32.0 * MIB as f64,
                "{held}: {found}"
            );
            assert!(!comparison.memory_is_slower());
        }
    }

    #[test]
    fn what_cannot_be_compared_has_its_reason() {
        let reason = |probed: ProbeOutcome, profile: Option<&Profile>| match ProgramSurroundings::of(
            &Probes { before: probed, after: ProbeOutcome::NotAsked },
            profile,
        )
        .before
        {
            ProbedMoment::Missing(reason) => reason,
            ProbedMoment::Compared(comparison) => panic!("{comparison:?}"),
        };
        let quiet = || ProbeOutcome::Reading(scripted(32.0, 1.0));
        assert!(reason(quiet(), None).contains("no profile"));
        assert!(reason(quiet(), Some(&Profile { probes: Vec::new(), ..profile() })).contains("calibrate"));
        let mut other = scripted(32.0, 1.0);
        other.chases.pop();
        assert!(reason(ProbeOutcome::Reading(other), Some(&profile())).contains("same sizes"));
        assert_eq!(
            reason(ProbeOutcome::LeftOut("memory is short".to_owned()), Some(&profile())),
            "memory is short"
        );
    }

    #[test]
    fn numbers_that_make_no_sense_do_no_harm() {
        for odd in [0.0, f64::NAN, f64::INFINITY, 1e300] {
            let mut reading = scripted(32.0, 1.0);
            reading.memory.latency_ns = odd;
            reading.chases[2].latency_ns = odd;
            let comparison = compared_to(reading);
            assert!(comparison.cache.is_some_and(|cache| cache.held_bytes >= 0.0), "{odd}");
        }
    }
}
