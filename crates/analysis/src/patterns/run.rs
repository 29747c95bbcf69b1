//! Indicators of a run: from samples of the clock, addresses, regions and times of threads.

use machine::profile::Profile;

use super::{IndicatorValue, Indicators};
use crate::{
    findings::{
        Confidence, Findings, InstructionFinding, KnownLimits, ObjectSharing, Objects, Pattern, Split,
        ThreadActivity, TimeShare, WaitLevel,
    },
    statistics,
    timer::{Tally, origin::RunOrigin},
    work::WorkFindings,
};

/// What a run says, by name.
pub(crate) fn from_run(
    findings: &Findings,
    tally: &Tally,
    objects: &Objects,
    work: &WorkFindings,
    profile: Option<&Profile>,
    origin: RunOrigin,
) -> Indicators {
    let mut found = Indicators::new(origin.events_instead());
    let Some(split) = findings.overall.filter(|_| findings.has_enough_samples()) else {
        for name in ALL {
            found.lack(name, format!("more samples: {}", origin.more_samples()));
        }
        return found;
    };
    let facts = RunFacts { findings, tally, split, confidence: findings.verdict.confidence, origin };
    facts.waits(&mut found);
    facts.bandwidth(&mut found);
    facts.translation(profile, &mut found);
    facts.sharing(objects, &mut found);
    facts.threads(work, &mut found);
    found.lack(
        "remote_waiting",
        "a machine with several nodes, and a recording that knows which node each CPU belongs to",
    );
    found
}

/// All names that [`from_run`] may put in.
const ALL: [&str; 13] = [
    "latency_waiting",
    "stream_waiting",
    "stride_waiting",
    "bandwidth_of_limit",
    "translation_waiting",
    "false_sharing",
    "true_sharing",
    "synchronising",
    "imbalance",
    "branch_waiting",
    "core_bound",
    "blocked",
    "remote_waiting",
];

struct RunFacts<'a> {
    findings: &'a Findings,
    tally: &'a Tally,
    split: Split,
    confidence: Confidence,
    origin: RunOrigin,
}

impl RunFacts<'_> {
    /// A share of user time with what chance leaves open.
    fn share(&self, about: &str, share: f64) -> IndicatorValue {
        let samples = self.split.samples as f64;
        let value = IndicatorValue::new(about, share, self.confidence);
        match statistics::share(share * samples, samples) {
            Some(TimeShare { low, high, .. }) => value.between(low, high),
            None => value,
        }
    }

    /// Waiting of some instructions as a share of user time, and the function with most of it.
    fn waiting(&self, fits: impl Fn(&InstructionFinding) -> bool) -> (f64, Option<String>) {
        let fitting = || self.findings.instructions.iter().filter(|found| fits(found));
        // A sum of nothing is -0.
        let all = fitting().map(|found| found.waiting_samples).fold(0.0, |sum, one| sum + one);
        let hottest = fitting().max_by(|a, b| a.waiting_samples.total_cmp(&b.waiting_samples));
        let place = hottest.filter(|found| found.waiting_samples > 0.0);
        (all / self.split.samples.max(1) as f64, place.and_then(|found| self.place(found)))
    }

    /// Waiting for loads and stores that gave no addresses, or too few.
    fn unknown_walks(&self) -> f64 {
        self.waiting(walks(&[Pattern::Unknown])).0
    }

    fn place(&self, found: &InstructionFinding) -> Option<String> {
        let name = &self.findings.symbols.get(found.symbol)?.name;
        Some(match &found.source {
            Some(source) => {
                let file = source.file.rsplit('/').next().unwrap_or(&source.file);
                format!("{name} ({file}:{})", source.line)
            }
            None => name.clone(),
        })
    }

    fn waits(&self, into: &mut Indicators) {
        const LATENCY: &str = "latency_waiting";
        let samples = self.split.samples.max(1) as f64;
        let guesses = self.tally.behind_loads_or_guesses() / samples;
        let unknown = self.unknown_walks();
        let mut put = |name: &str, about: &str, wanted: &'static [Pattern]| {
            let (share, place) = self.waiting(walks(wanted));
            if unknown >= MUCH && share < MUCH {
                return into.lack(name, addresses_of(unknown));
            }
            let (least, most) = self.tally.waiting_between(wanted);
            let least =
                if name == LATENCY { (least / samples).min(share - guesses) } else { least / samples };
            let value = self.share(about, share).reaching(least.max(0.0), most / samples + unknown);
            into.put(name, value.at(place));
        };
        let about = match guesses >= WORTH {
            true => {
                "waiting for loads and stores at chased or random places (or for wrong guesses of the branches beside them), of \
                 user time"
            }
            false => "waiting for loads and stores at chased or random places, of user time",
        };
        put(LATENCY, about, &[Pattern::PointerChasing, Pattern::Random]);
        put("stream_waiting", "waiting for loads and stores of streams, of user time", &[Pattern::Streaming]);
        put(
            "stride_waiting",
            "waiting for loads and stores that use a part of each line, of user time",
            &[Pattern::Strided],
        );
        self.branches(into);
        let core = self.split.executing + self.split.divides + self.split.chains + self.split.first_cache;
        let hottest = self.findings.symbols.first().map(|symbol| symbol.name.clone());
        let about = "executing, or waiting for results of the core itself, of user time";
        let mut value = self.share(about, core);
        if let Some(memory) = self.findings.verdict.memory {
            // What may wait for memory and was not found to is in here, and the other way round.
            let (more, less) = (memory.high - memory.value, memory.value - memory.low);
            value = value.reaching((core - more).max(0.0), (core + less).min(1.0));
        }
        let chains = self.tally.behind_branches_or_chains() / samples;
        let value = value.reaching(core, (core + chains).min(1.0));
        into.put("core_bound", value.at(hottest));
    }

    /// Where a core has to guess, what lies behind branches is what wrong guesses cost. Jumps that are taken one after another,
    /// and branches that wait for a result, look the same.
    fn branches(&self, into: &mut Indicators) {
        let (all, place) = self.waiting(|found| found.activity == ThreadActivity::Branches);
        let guessed = self.tally.behind_guesses() / self.split.samples.max(1) as f64;
        let part = |samples: f64| samples / self.split.samples.max(1) as f64;
        let (chains, loads) =
            (part(self.tally.behind_branches_or_chains()), part(self.tally.behind_loads_or_guesses()));
        // What lies behind jumps and calls to places that were loaded is of wrong guesses, or of nothing but many of them.
        let foreseen = (all - guessed).max(0.0);
        let or = match (chains >= WORTH, loads >= WORTH, foreseen >= WORTH) {
            (true, _, _) => " (or for the chains of results before them)",
            (_, true, _) => " (or for the data that decides them)",
            (_, _, true) => " (it may be that all are foreseen, and only many)",
            _ => "",
        };
        let value =
            self.share(&format!("waiting behind branches and calls{or}, of user time"), self.split.branches);
        let high = value.interval.map_or(self.split.branches, |(_, high)| high);
        let value = value.reaching(guessed.min(self.split.branches), (high + chains + loads).min(1.0));
        let confidence = if guessed >= foreseen { value.confidence } else { Confidence::Low };
        into.put("branch_waiting", IndicatorValue { confidence, ..value }.at(place));
    }

    fn bandwidth(&self, into: &mut Indicators) {
        const NAME: &str = "bandwidth_of_limit";
        match &self.findings.limits.streams {
            KnownLimits::Value(streams) => match (streams.of_limit, &streams.limit_bytes_per_s) {
                (Some(part), _)
                    if part < NEAR && streams.of_limit_at_most.is_some_and(|most| most >= NEAR) =>
                {
                    let most = streams.of_limit_at_most.unwrap_or(part);
                    let need = format!(
                        "whether its strings read the lines that they overwrite: it moves {part:.2} of what {} gave, or {most:.2}",
                        self.origin.machine()
                    );
                    into.lack(NAME, need);
                }
                (Some(part), _) => {
                    let spread = streams.per_thread;
                    let scale = part / spread.bytes_per_s.max(f64::MIN_POSITIVE);
                    // Guests share the memory of their machine with others whom they cannot see.
                    let others = part < NEAR && self.tally.core.may_be_shared;
                    let value = IndicatorValue::new(
                        format!(
                            "what its streams move, of what {} gave{}",
                            self.origin.machine(),
                            if others { " (other guests may draw the rest)" } else { "" }
                        ),
                        part,
                        if others { Confidence::Low } else { self.confidence },
                    );
                    let most = (spread.high * scale).max(streams.of_limit_at_most.unwrap_or(0.0));
                    into.put(NAME, value.between(spread.low * scale, most));
                }
                (None, KnownLimits::Missing(why)) => into.lack(NAME, why.clone()),
                (None, KnownLimits::Value(_)) => into.lack(NAME, self.origin.no_profile()),
            },
            KnownLimits::Missing(why) => into.lack(NAME, format!("streams whose speed is known: {why}")),
        }
    }

    fn translation(&self, profile: Option<&Profile>, into: &mut Indicators) {
        const NAME: &str = "translation_waiting";
        let Some(levels) = self.findings.levels.value() else {
            return into.lack(NAME, self.origin.no_profile());
        };
        if profile.is_none_or(|profile| profile.tlb.is_none()) {
            return into.lack(NAME, self.origin.no_page_walks());
        }
        let part = levels.parts.iter().find(|part| part.level == WaitLevel::Translation);
        let share = part.map_or(0.0, |part| part.share);
        let unseen = self.unknown_walks();
        if unseen >= MUCH && share < MUCH {
            return into.lack(NAME, addresses_of(unseen));
        }
        // What has no known level may be translation as well, and what has no known place.
        let value = self.share("waiting for page walks, of user time", share);
        let high = value.interval.map_or(share, |(_, high)| high);
        let low = value.interval.map_or(share, |(low, _)| low);
        into.put(NAME, value.between(low, high + levels.unknown.max(unseen)));
    }

    fn sharing(&self, objects: &Objects, into: &mut Indicators) {
        let threads = self.findings.threads.iter().filter(|thread| thread.split.is_some()).count();
        let addressed = objects.addressed.map_or(0.0, |share| share.value);
        // Whatever they would have told: no more of its time is on lines of any kind.
        let all = self.split.samples.max(1) as f64;
        let touching = self.findings.instructions.iter().filter(|found| found.access.is_some());
        let touching = touching.map(InstructionFinding::samples).sum::<f64>() / all;
        let is_unseen = threads > 1 && addressed < FEW_ADDRESSES;
        for (name, sharing, about) in [
            (
                "false_sharing",
                ObjectSharing::False,
                "samples on lines of which threads use different bytes, of all",
            ),
            (
                "true_sharing",
                ObjectSharing::True,
                "samples on lines of which threads use the same bytes, of all",
            ),
        ] {
            let lines = || objects.shared_lines.iter().filter(|line| line.sharing == sharing);
            let samples: u64 = lines().map(|line| line.samples).sum();
            if samples == 0 && is_unseen && touching >= FEW_TOUCHING {
                into.lack(name, "addresses: too few samples of memory instructions gave theirs");
                continue;
            }
            let largest = lines().max_by_key(|line| line.samples);
            let place = largest.map(|line| {
                let object = line.object.and_then(|index| objects.objects.get(index));
                object
                    .map_or_else(|| format!("the line at {:#x}", line.address), |object| object.name.clone())
            });
            let share = samples as f64 / all;
            let most = if is_unseen { share.max(touching) } else { share };
            into.put(name, self.share(about, share).reaching(share, most).at(place));
        }
    }

    fn threads(&self, work: &WorkFindings, into: &mut Indicators) {
        match &work.imbalance {
            KnownLimits::Value(share) => into.put(
                "imbalance",
                IndicatorValue::new(
                    "of the longest thread's useful work, what the others lack on average",
                    share.value,
                    Confidence::Medium,
                )
                .between(share.low, share.high)
                .at(work.uneven.clone()),
            ),
            KnownLimits::Missing(why) => into.lack("imbalance", format!("threads that share work: {why}")),
        }
        match &work.synchronising {
            KnownLimits::Value(share) => self.synchronising(work, share, into),
            KnownLimits::Missing(why) => into.lack("synchronising", format!("several threads: {why}")),
        }
        self.blocked(work, into);
    }

    /// Waiting for others beyond what uneven work explains.
    fn synchronising(&self, work: &WorkFindings, share: &TimeShare, into: &mut Indicators) {
        const NAME: &str = "synchronising";
        let beyond = |share: f64| (share - work.waits_for_uneven).max(0.0);
        let open = beyond(share.high) - beyond(share.value);
        if beyond(share.value) < MUCH && open >= MUCH {
            let need = format!(
                "all its threads on CPUs at once: up to {:.0} % of user time waits while none of the others was seen to run",
                100.0 * open
            );
            return into.lack(NAME, need);
        }
        let about = "in locks, barriers, atomics and loops that wait for other threads, beyond what uneven work explains, \
                     of user time";
        let value = IndicatorValue::new(about, beyond(share.value), self.confidence);
        let value = value.between(beyond(share.low), beyond(share.high));
        into.put(NAME, value.at(work.waits_in.clone()));
    }

    /// Threads that work give up their CPU, and for how long at a time.
    fn blocked(&self, work: &WorkFindings, into: &mut Indicators) {
        let most = work.threads.first().map_or(0.0, |first| first.useful_ns);
        let is_worker =
            |id| work.threads.iter().any(|thread| thread.id == id && thread.useful_ns >= 0.1 * most);
        let workers: Vec<_> = self.findings.threads.iter().filter(|thread| is_worker(thread.id)).collect();
        let blocked = |thread: &&crate::findings::ThreadFinding| thread.account.blocked_ns.value().copied();
        let total = |thread: &&crate::findings::ThreadFinding| thread.account.total_ns();
        let sums = workers.iter().map(blocked).sum::<Option<f64>>();
        let totals = workers.iter().map(total).sum::<Option<f64>>().filter(|sum| *sum > 0.0);
        let switches = self.findings.about.usage.value().map(|usage| usage.voluntary_switches as f64);
        let Some(((blocked, total), switches)) = sums.zip(totals).zip(switches).filter(|_| workers.len() > 1)
        else {
            into.lack("blocked", "several threads whose times off the CPU are known");
            into.lack("mean_wait_us", "a program that memwall itself started");
            return;
        };
        // What a blocked thread waits for is in no record: another thread, or a device.
        into.put(
            "blocked",
            IndicatorValue::new(
                "off the CPU of their own accord, of the time of threads that work",
                blocked / total,
                Confidence::Low,
            ),
        );
        into.put(
            "mean_wait_us",
            IndicatorValue::new(
                "microseconds that such a wait takes",
                blocked / 1e3 / switches.max(1.0),
                Confidence::Low,
            ),
        );
    }
}

/// Whether an instruction waits for memory that it walks through so.
fn walks(wanted: &'static [Pattern]) -> impl Fn(&InstructionFinding) -> bool {
    move |found| {
        matches!(found.activity, ThreadActivity::Loads | ThreadActivity::Stores)
            && found.access.is_some_and(|access| wanted.contains(&access.pattern))
    }
}

/// What it takes to say how so much waiting walks through memory.
fn addresses_of(unknown: f64) -> String {
    format!("addresses of what waits {:.0} % of user time", 100.0 * unknown)
}

/// What waits from this share of user time on is a sign of what it waits for, if that is known.
const MUCH: f64 = 0.15;

/// Streams that move this much of what memory gives are near it.
const NEAR: f64 = 0.7;

/// What may be of one cause or another is named from this share of user time on.
const WORTH: f64 = 0.05;

/// Code that touches memory for less of its samples than this needs no addresses: sharing is a sign from here on.
const FEW_TOUCHING: f64 = 0.1;

/// Below this share of known addresses nothing is said about lines that nobody was seen to share.
const FEW_ADDRESSES: f64 = 0.2;

#[cfg(test)]
mod tests;
