//! How far values can be believed: what a validation says of the indicators behind them.

use events::{Signal, SignalId, names};

use crate::{
    Basis, Best, Indicator, Judged, KernelPlace, OutOfSample, Purpose, Standing, Threshold, Trust, Validation,
};

/// The trust that the indicators of a machine have earned, by what they count and what they were tried for.
#[derive(Clone, Debug)]
pub struct TrustCatalogue {
    basis: Basis,
    judged: Option<Box<Verdicts>>,
}

/// A validation, and what was programmed for each of its indicators.
#[derive(Clone, Debug)]
struct Verdicts {
    validation: Validation,
    /// Of the machine; none if no file describes it.
    events: Option<&'static events::Catalogue>,
    /// Of each indicator; empty of one that is no event, or whose events this version does not know.
    ids: Vec<Vec<SignalId>>,
}

/// An event under the name that says what it is used for.
#[derive(Clone, Debug)]
pub struct Claimed<'a> {
    /// Its name, as a group of metrics has it.
    pub name: &'a str,
    /// What is programmed for it.
    pub signal: &'a Signal,
    /// What it is taken for; if none, whatever it is best at.
    pub purpose: Option<Purpose>,
}

impl TrustCatalogue {
    /// Of a machine that was validated; `events` are those that its CPU has.
    pub fn of(validation: Validation, events: Option<&'static events::Catalogue>) -> Self {
        let untested = |one: &&Judged| !matches!(one.trust, Trust::Untested { .. });
        let basis = Basis::Validated {
            measured_at: validation.measured_at,
            simulated: validation.simulated.clone(),
            quick: validation.quick,
            complete: validation.complete,
            judged: validation.indicators.iter().filter(untested).count(),
        };
        let ids = validation.indicators.iter().map(|one| ids(one, events)).collect();
        Self { basis, judged: Some(Box::new(Verdicts { validation, events, ids })) }
    }

    /// Of a machine that was not, or whose validation cannot be used: why, and what to type.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { basis: Basis::Missing { reason: reason.into() }, judged: None }
    }

    /// Where it comes from.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// An indicator that is no event.
    pub fn indicator(&self, indicator: &Indicator) -> Option<Standing> {
        let all = self.judged.as_ref()?.validation.indicators.iter();
        best(all.filter(|one| one.name == *indicator)).map(standing)
    }

    /// An event by what it counts: whatever it is called, it is as good as for the best purpose it was tried for.
    pub fn event(&self, signal: &Signal) -> Option<Standing> {
        best(self.judged.as_ref()?.of(signal)).map(standing)
    }

    /// Names of the events that can be believed for a purpose, the most exact first.
    pub fn trusted_for(&self, purpose: &Purpose) -> Vec<&str> {
        let all = self.judged.iter().flat_map(|judged| &judged.validation.indicators);
        let mut found: Vec<(f64, &str)> = all
            .filter(|one| one.tried_for == *purpose)
            .filter_map(|one| match (&one.name, &one.trust) {
                (Indicator::Event(name), Trust::Trusted { error }) => Some((*error, name.as_str())),
                _ => None,
            })
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// A metric of these events, as a volume if its unit is of bytes.
    ///
    /// Some sums and quotients were judged as a whole. Otherwise a metric is as good as the weakest of its events. In a
    /// volume an event is used for what its name claims, and what it is good for otherwise does not help. Where it is taken for
    /// one purpose, only that counts: an event that is no measure of waiting for memory may well be one of waiting. Elsewhere it
    /// is a hint: one that is only wrong because it does not see prefetches still counts what the program asked for.
    pub fn metric(&self, events: &[Claimed<'_>], unit: &str) -> Option<Standing> {
        let judged = self.judged.as_ref()?;
        let is_volume = unit == "B" || unit.starts_with("B/");
        let part = |event: &Claimed<'_>| match &event.purpose {
            _ if is_volume => judged.as_volume(event).map(standing),
            Some(purpose) => {
                best(judged.of(event.signal).filter(|one| one.tried_for == *purpose)).map(as_hint)
            }
            None => best(judged.of(event.signal)).map(as_hint),
        };
        let parts: Option<Vec<Standing>> = events.iter().map(part).collect();
        let weakest = parts.and_then(|parts| {
            parts.into_iter().max_by(|one, other| rank(&one.trust).total_cmp(&rank(&other.trust)))
        });
        match weakest {
            Some(part) if !part.is_broken() => Some(part),
            // Parts that are broken alone may be right together.
            part => judged.whole(events).map(standing).or(part),
        }
    }

    /// A share of the cycles as a group has it, if that was tried as a whole.
    pub fn share(&self, group: &str, metric: &str) -> Option<Standing> {
        let found = self.indicator(&Indicator::share(group, metric))?;
        (!matches!(found.trust, Trust::Untested { .. })).then_some(found)
    }

    /// How right shares of waiting were on kernels drawn at random; none if none were tried.
    pub fn unseen(&self) -> Option<&OutOfSample> {
        self.judged.as_ref()?.validation.unseen.as_ref()
    }

    /// The same where hot loops were relieved as well.
    pub fn unseen_with_relief(&self) -> Option<&OutOfSample> {
        self.judged.as_ref()?.validation.unseen_with_relief.as_ref()
    }

    /// The threshold of an indicator, if one was found.
    pub fn threshold(&self, indicator: &Indicator) -> Option<&Threshold> {
        self.judged.as_ref()?.validation.thresholds.iter().find(|one| one.indicator == *indicator)
    }
}

/// Bytes of a line.
const LINE: f64 = 64.0;

/// The most that known work moved, by the names that formulas have for figures of a machine: level, of another package or not.
const PEAKS: [(&str, KernelPlace, bool); 5] = [
    ("l2_traffic_peak", KernelPlace::L2, false),
    ("l3_traffic_peak", KernelPlace::L3, false),
    ("memory_traffic_peak", KernelPlace::Memory, false),
    ("whole_memory_traffic_peak", KernelPlace::Memory, false),
    ("link_peak", KernelPlace::Memory, true),
];

impl TrustCatalogue {
    /// Maximal rates that the validation found on all cores of one package (molka2017 §3.2), in bytes per second, by the names that
    /// formulas have for them; both directions together, of links one.
    pub fn peaks(&self) -> Vec<(&'static str, f64)> {
        let best = self.judged.as_ref().map_or(&[][..], |judged| &judged.validation.best);
        let most_cores = best.iter().map(|row| row.cores).max();
        let rate = |(name, level, remote): (&'static str, KernelPlace, bool)| {
            let here = |row: &&Best| (row.level, row.remote, Some(row.cores)) == (level, remote, most_cores);
            let lines = |row: &Best| match remote {
                true => (row.direction == "read").then_some(row.lines_per_s),
                false => row.both_lines_per_s,
            };
            let most = best.iter().filter(here).filter_map(lines).reduce(f64::max)?;
            Some((name, LINE * most))
        };
        PEAKS.into_iter().filter_map(rate).collect()
    }
}

impl Verdicts {
    fn id(&self, signal: &Signal) -> SignalId {
        SignalId::new(signal, self.events)
    }

    fn all(&self) -> impl Iterator<Item = (&Judged, &[SignalId])> {
        self.validation.indicators.iter().zip(self.ids.iter().map(Vec::as_slice))
    }

    /// The verdicts on an event, one for each purpose it was tried for.
    fn of(&self, signal: &Signal) -> impl Iterator<Item = &Judged> {
        let wanted = [self.id(signal)];
        let fits =
            move |(one, ids): &(&Judged, &[SignalId])| *ids == wanted && one.events == [one.name.name()];
        self.all().filter(fits).map(|(one, _)| one)
    }

    /// The verdict on an event as the volume that its name claims, or as any volume if that was not tried.
    fn as_volume(&self, event: &Claimed<'_>) -> Option<&Judged> {
        let volumes = || self.of(event.signal).filter(|one| matches!(one.tried_for, Purpose::Volume(_)));
        best(volumes().filter(|one| one.is_called(event.name))).or_else(|| best(volumes()))
    }

    /// The verdict on exactly these events together.
    fn whole(&self, events: &[Claimed<'_>]) -> Option<&Judged> {
        let wanted: Vec<SignalId> = events.iter().map(|event| self.id(event.signal)).collect();
        let holds = |ids: &[SignalId], id: &SignalId| ids.contains(id);
        let same = |ids: &[SignalId]| {
            ids.len() == wanted.len()
                && ids.iter().all(|id| holds(&wanted, id))
                && wanted.iter().all(|id| holds(ids, id))
        };
        best(self.all().filter(|(_, ids)| ids.len() > 1 && same(ids)).map(|(one, _)| one))
    }
}

/// What was programmed for an indicator: as it was written down, or as its names are understood now.
fn ids(one: &Judged, events: Option<&events::Catalogue>) -> Vec<SignalId> {
    let named = || one.events.iter().map(|name| named(name, events)).collect::<Option<Vec<Signal>>>();
    let signals = if one.signals.is_empty() { named().unwrap_or_default() } else { one.signals.clone() };
    signals.iter().map(|signal| SignalId::new(signal, events)).collect()
}

fn named(name: &str, events: Option<&events::Catalogue>) -> Option<Signal> {
    let breakpoint =
        |read, write, execute| Some(Signal::Breakpoint { address: 0, length: 0, read, write, execute });
    match Indicator::from(name.to_owned()) {
        Indicator::WatchedWrites => breakpoint(false, true, false),
        Indicator::WatchedAccesses => breakpoint(true, true, false),
        Indicator::WatchedCalls => breakpoint(false, false, true),
        Indicator::Event(name) => {
            let context = names::Context { catalogue: events, pmus: &[], libpfm: false };
            names::parse(&name, &context).ok().map(|parsed| parsed.event.signal)
        }
        Indicator::L1MissLatency
        | Indicator::LoadMissRealLatency
        | Indicator::SampledLatency
        | Indicator::ShareOfWaiting
        | Indicator::WaitingOnLoads
        | Indicator::WaitingOnStores
        | Indicator::WaitingOnDivides
        | Indicator::WaitingOnChains
        | Indicator::Addresses
        | Indicator::Skid => None,
    }
}

fn standing(judged: &Judged) -> Standing {
    Standing { indicator: judged.name.clone(), purpose: judged.purpose.clone(), trust: judged.trust.clone() }
}

/// The same as a count of what the program asked for, prefetches left out.
fn as_hint(judged: &Judged) -> Standing {
    let trust = match (&judged.trust, judged.without_prefetch.as_deref()) {
        (Trust::Broken { .. }, Some(Trust::Trusted { .. })) => Trust::Qualitative {
            tells: "what the program itself asked for".to_owned(),
            misses: "what prefetchers fetch".to_owned(),
        },
        (trust, _) => trust.clone(),
    };
    Standing { trust, ..standing(judged) }
}

/// The best of several verdicts; one that was not tried says nothing beside one that was.
fn best<'a>(verdicts: impl Iterator<Item = &'a Judged>) -> Option<&'a Judged> {
    let key = |one: &Judged| (matches!(one.trust, Trust::Untested { .. }), rank(&one.trust));
    verdicts.min_by(|one, other| {
        let ((untested, one), (other_untested, other)) = (key(one), key(other));
        untested.cmp(&other_untested).then(one.total_cmp(&other))
    })
}

/// From the best to the worst.
fn rank(trust: &Trust) -> f64 {
    match trust {
        Trust::Trusted { error } => error.min(1.0),
        Trust::Qualitative { .. } => 2.0,
        Trust::Untested { .. } => 3.0,
        Trust::Broken { .. } => 4.0,
    }
}

#[cfg(test)]
mod tests;
