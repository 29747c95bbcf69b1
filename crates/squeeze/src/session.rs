//! A program alone and under interference, in rounds: what is compared was run side by side.
//!
//! First full strength of each kind against nothing. What harms is halved until the last harmless and the first harmful
//! strength are neighbours; what does not is done. Then, as the budget allows, the rest of the curves.

mod search;

use kernels::draw::SplitMix;
use machine::{
    CpuSet,
    squeezing::{Interference, SqueezeKind, SqueezeProfile},
};
use record::{
    run::Ending,
    squeeze::{
        HarmVerdict, SCHEMA, SlowdownPoint, SqueezeCrash, SqueezeCurve, SqueezeEnd, SqueezeRun, SqueezedRun,
        TimedBy,
    },
};

use crate::{
    SqueezeError,
    judge::{self, CpusDo},
    mixture::{self, MixtureAnswer, MixturePoint},
    rungs::{Rung, rungs},
    slowdown,
};

/// Rounds after which a strength that is still open stays so: with runs that differ by a quarter some 1000 tell 5 % from nothing.
pub const MOST_ROUNDS: usize = 1500;
/// Runs that may end badly, if no more end well, before no more are made of that strength, or of the program at all.
pub const MOST_BAD: usize = 3;

/// Something that is run again and again.
pub trait SqueezeSubject {
    /// Runs once beside `interference`.
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError>;

    /// Whether every run repeats to the bit: one is then enough.
    fn is_exact(&self) -> bool {
        false
    }

    /// Seconds since some moment; only differences matter.
    fn now_s(&mut self) -> f64;
}

/// How a run went.
#[derive(Clone, Debug, PartialEq)]
pub enum SubjectRun {
    /// It took so many nanoseconds.
    Timed(f64),
    /// It did not end well.
    Crashed(Ending, Option<String>),
    /// Ctrl-C.
    Interrupted,
}

/// How a session is led.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPlan {
    /// A slowdown beyond this share is harm.
    pub harm: f64,
    /// Seconds that may be spent; none: as long as it takes.
    pub budget_s: Option<f64>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Kinds to try.
    pub kinds: Vec<SqueezeKind>,
    /// Whether to fill in the curves once bounds are found.
    pub whole_curves: bool,
}

/// What is known of the subject beside its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectFacts {
    /// As it was typed.
    pub program: String,
    /// The model that is simulated.
    pub simulated: Option<String>,
    /// What its time is.
    pub timed_by: TimedBy,
    /// CPUs it has.
    pub cpus: CpuSet,
    /// Processes that share the cache.
    pub processes: usize,
    /// CPUs that it keeps busy when it goes to memory, if that is known.
    pub threads: Option<usize>,
    /// Whether what it loses is the sum of what its parts lose.
    pub cpus_do: CpusDo,
}

/// One strength with what was measured under it.
#[derive(Clone, Debug)]
struct TriedRung {
    kind: SqueezeKind,
    rung: Rung,
    /// Time over the time alone of the same round.
    ratios: Vec<f64>,
    bad: usize,
}

impl TriedRung {
    /// Whether its runs end badly more often than not: more of them would only end the same way.
    fn is_given_up(&self) -> bool {
        self.bad >= MOST_BAD && self.bad >= self.ratios.len()
    }
}

/// Where a session stands, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionProgress {
    /// Runs so far.
    pub runs: usize,
    /// Runs that may still come, at most.
    pub runs_left: usize,
    /// Seconds they would take.
    pub seconds_left: f64,
}

/// A session under way.
pub struct SqueezeSession<'a> {
    subject: &'a mut dyn SqueezeSubject,
    profile: &'a SqueezeProfile,
    /// CPUs that the subject keeps busy when it goes to memory, if that is known.
    threads: Option<usize>,
    plan: &'a SessionPlan,
    tried: Vec<TriedRung>,
    runs: Vec<SqueezedRun>,
    crashes: Vec<SqueezeCrash>,
    round: usize,
    bad_alone: usize,
    random: SplitMix,
    started_s: f64,
    /// Of all runs together.
    running_s: f64,
    ended: Option<SqueezeEnd>,
    watch: &'a mut dyn FnMut(SessionProgress),
}

/// Runs a subject under the strengths of a profile.
pub fn squeeze(
    subject: &mut dyn SqueezeSubject,
    facts: &SubjectFacts,
    profile: &SqueezeProfile,
    plan: &SessionPlan,
    watch: &mut dyn FnMut(SessionProgress),
) -> Result<SqueezeRun, SqueezeError> {
    let mut session = SqueezeSession::begin(subject, facts.threads, profile, plan, watch);
    session.search()?;
    Ok(session.finish(facts))
}

impl<'a> SqueezeSession<'a> {
    fn begin(
        subject: &'a mut dyn SqueezeSubject,
        threads: Option<usize>,
        profile: &'a SqueezeProfile,
        plan: &'a SessionPlan,
        watch: &'a mut dyn FnMut(SessionProgress),
    ) -> Self {
        let started_s = subject.now_s();
        let squeezable = plan.kinds.iter().copied().filter(|kind| profile.refusal(*kind).is_none());
        let tried = squeezable.flat_map(|kind| {
            let rungs = rungs(profile, kind).into_iter();
            rungs.map(move |rung| TriedRung { kind, rung, ratios: Vec::new(), bad: 0 })
        });
        Self {
            tried: tried.collect(),
            subject,
            profile,
            threads,
            plan,
            runs: Vec::new(),
            crashes: Vec::new(),
            round: 0,
            bad_alone: 0,
            random: SplitMix::new(plan.seed),
            started_s,
            running_s: 0.0,
            ended: None,
            watch,
        }
    }

    /// Runs the program alone and under each of these strengths, in any order.
    fn run_round(&mut self, strengths: &[usize]) -> Result<(), SqueezeError> {
        let mut order: Vec<Option<usize>> = strengths.iter().copied().map(Some).chain([None]).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        let (mut alone, mut squeezed) = (None, Vec::new());
        let mut left = order.len();
        for entry in order {
            let interference = entry.map(|index| self.tried[index].rung.interference);
            let before = self.subject.now_s();
            let run = self.subject.run(interference.as_ref())?;
            self.running_s += self.subject.now_s() - before;
            let ns = match run {
                SubjectRun::Timed(ns) => Some(ns),
                SubjectRun::Interrupted => {
                    self.ended = Some(SqueezeEnd::Interrupted);
                    return Ok(());
                }
                SubjectRun::Crashed(ending, reason) => {
                    self.crashes.push(SqueezeCrash { interference, ending, reason });
                    None
                }
            };
            self.runs.push(SqueezedRun { interference, round: self.round, ns });
            left -= 1;
            if self.subject.is_exact() {
                self.tell_of(left);
            }
            match (entry, ns) {
                (None, Some(ns)) => alone = Some(ns),
                (None, None) => self.bad_alone += 1,
                (Some(index), Some(ns)) => squeezed.push((index, ns)),
                (Some(index), None) => self.tried[index].bad += 1,
            }
        }
        if let Some(alone) = alone.filter(|alone| *alone > 0.0) {
            squeezed.into_iter().for_each(|(index, ns)| self.tried[index].ratios.push(ns / alone));
        }
        self.round += 1;
        Ok(())
    }

    /// Whether another round of so many strengths may begin.
    fn may_go_on(&mut self, strengths: usize) -> bool {
        if self.ended.is_some() {
            return false;
        }
        if self.bad_alone >= MOST_BAD && 2 * self.bad_alone >= self.round {
            self.ended = Some(SqueezeEnd::Rounds);
            return false;
        }
        let Some(budget_s) = self.plan.budget_s else { return true };
        let each = if self.runs.is_empty() { 0.0 } else { self.running_s / self.runs.len() as f64 };
        let spent_s = self.subject.now_s() - self.started_s;
        if spent_s + each * (strengths + 1) as f64 > budget_s && !self.runs.is_empty() {
            self.ended = Some(SqueezeEnd::Budget);
            return false;
        }
        true
    }

    /// Known programs that explain all that was measured together.
    fn explanation(&self) -> Option<MixtureAnswer> {
        let points: Vec<MixturePoint<'_>> = self.measured().map(|(_, point)| point).collect();
        mixture::explain(&self.profile.known, &points, self.threads)
    }

    /// Whether all plain losses are decided, and known programs tell what each comes from, as far as they explain anything. A few
    /// noisy runs beside one strength mislead about all of them.
    fn is_explained(&self) -> bool {
        let plain =
            |tried: &TriedRung| slowdown::verdict(&tried.ratios, self.plan.harm, self.subject.is_exact());
        let verdicts: Vec<HarmVerdict> = self.measured().map(|(tried, _)| plain(tried)).collect();
        if verdicts.contains(&HarmVerdict::Open) {
            return false;
        }
        let Some(explained) = self.explanation() else { return true };
        verdicts.iter().enumerate().all(|(point, verdict)| {
            *verdict != HarmVerdict::Harmful || explained.verdict(point, self.plan.harm) != HarmVerdict::Open
        })
    }

    /// Strengths that were measured, in order.
    fn measured(&self) -> impl Iterator<Item = (&TriedRung, MixturePoint<'_>)> {
        self.tried.iter().filter_map(|tried| {
            let slowdown = slowdown::slowdown(&tried.ratios)?;
            Some((tried, MixturePoint { kind: tried.kind, known: &tried.rung.known, slowdown }))
        })
    }

    fn finish(self, facts: &SubjectFacts) -> SqueezeRun {
        let spent_s = self.subject.now_s() - self.started_s;
        let profile = self.profile;
        let explained = self.explanation();
        let parts = explained.as_ref().map(|explained| explained.parts.clone()).unwrap_or_default();
        let withheld = judge::no_bounds(facts.cpus_do, &parts);
        let curve = |kind| {
            let mut curve = self.curve(kind, facts.processes, explained.as_ref());
            curve.bounds = curve.bounds.filter(|_| withheld.is_none());
            curve
        };
        let (storage, bandwidth) = (curve(SqueezeKind::Storage), curve(SqueezeKind::Bandwidth));
        let evidence = match withheld {
            Some(why) => vec![why.to_owned()],
            None => judge::evidence([&storage, &bandwidth], facts.processes, explained.is_some()),
        };
        SqueezeRun {
            schema: SCHEMA.to_owned(),
            program: facts.program.clone(),
            simulated: facts.simulated.clone(),
            seed: self.plan.seed,
            timed_by: facts.timed_by.clone(),
            harm: self.plan.harm,
            cpus: facts.cpus.clone(),
            spare: profile.spare.clone(),
            processes: facts.processes,
            budget_s: self.plan.budget_s,
            spent_s,
            ended: self.ended.unwrap_or(SqueezeEnd::Told),
            class: judge::class(&storage, &bandwidth, None),
            evidence,
            parts: if withheld.is_none() { parts } else { Vec::new() },
            storage,
            bandwidth,
            crashes: self.crashes,
            runs: self.runs,
            remarks: Vec::new(),
        }
    }

    fn curve(&self, kind: SqueezeKind, processes: usize, explained: Option<&MixtureAnswer>) -> SqueezeCurve {
        let (profile, exact) = (self.profile, self.subject.is_exact());
        let of_kind = self.measured().enumerate().filter(|(_, (tried, _))| tried.kind == kind);
        let points: Vec<SlowdownPoint> = of_kind
            .map(|(index, (tried, MixturePoint { slowdown, .. }))| {
                let plain = slowdown::verdict(&tried.ratios, self.plan.harm, exact);
                let loss = explained.and_then(|explained| explained.losses.get(index));
                let told = explained.map_or(plain, |explained| explained.verdict(index, self.plan.harm));
                SlowdownPoint {
                    interference: tried.rung.interference,
                    left: tried.rung.left,
                    slowdown,
                    elsewhere: loss.map_or(0.0, |loss| (slowdown.value - 1.0 - loss.value).max(0.0)),
                    verdict: judge::of_both(plain, told),
                }
            })
            .collect();
        let told = explained.and_then(|explained| match kind {
            SqueezeKind::Storage => explained.cache,
            SqueezeKind::Bandwidth => explained.bandwidth,
        });
        let squeezed = !points.is_empty();
        let told = told.filter(|_| squeezed).map(|bounds| judge::for_each(bounds, processes));
        // Interference of one kind takes of the other resource too: what no known program explains could be either's.
        let by_rule = || profile.known.is_empty().then(|| judge::bounds(&points, processes)).flatten();
        let bounds = told.or_else(by_rule);
        let not_asked = || (!self.plan.kinds.contains(&kind)).then(|| "not asked for".to_owned());
        let refused = profile.refusal(kind).map(str::to_owned).or_else(not_asked);
        SqueezeCurve { kind, whole: profile.whole(kind), points, bounds, refused }
    }
}

#[cfg(test)]
mod tests;
