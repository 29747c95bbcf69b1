//! Which cycles of waiting an event counts (molka2017 §3.2 and §4.3).
//!
//! The time a chase waits for memory is its time beyond that of the same chase in the L1. An indicator of waiting must
//! follow it, also with independent multiplications between the loads, which use part of the time, and with dependent
//! ones, which take time of their own; and it must be silent where something else is waited for. An indicator of
//! bandwidth must be high where lines stream, and silent where one load waits for another.

use record::validate::Observation;
use trust::{Errors, Evidence, Flaw, Indicator, Judged, KernelPlace, Purpose, Trust};

use super::{
    execution::is_plain,
    points::{count, median},
};
use crate::{
    claims::Candidate,
    roles::{Between, JudgingKernels, Role},
};

/// Of all cycles: less is silence.
const SILENT: f64 = 0.05;
/// Of all cycles: more is a clear sign.
const CLEAR: f64 = 0.2;
/// Of the waiting time: less is not following it.
const FOLLOWS: f64 = 0.5;
/// Close enough to be believed as a number.
const CLOSE: f64 = 0.10;

/// All levels.
const PLACES: [KernelPlace; 4] = [KernelPlace::L1, KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory];
/// Where there is something to wait for.
const BEYOND: [KernelPlace; 3] = [KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory];

struct View<'a> {
    candidate: &'a Candidate,
    observations: &'a [Observation],
    known: &'a JudgingKernels,
}

impl<'a> View<'a> {
    /// Chases that wait for memory.
    fn chases(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.known.which(|role| matches!(role, Role::Chase(_)))
    }

    /// The chase with such work between its loads.
    fn chase(&self, between: Between) -> Option<&'a str> {
        self.known.which(move |role| *role == Role::Chase(between)).next()
    }

    /// Kernels that wait for something else.
    fn others(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.known.which(|role| matches!(role, Role::WaitsElsewhere { .. }))
    }

    /// Kernels whose lines stream.
    fn streams(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.known.which(Role::moves_one)
    }

    fn of(&self, kernel: &str, place: Option<KernelPlace>) -> Vec<&Observation> {
        let fits = |one: &&Observation| {
            let experiment = &one.experiment;
            let here = place.is_none_or(|place| experiment.place == place);
            experiment.kernel == kernel && here && is_plain(one)
        };
        self.observations.iter().filter(fits).collect()
    }

    fn middle(
        &self,
        kernel: &str,
        place: Option<KernelPlace>,
        value: impl Fn(&Observation) -> Option<f64>,
    ) -> Option<f64> {
        let values: Vec<f64> = self.of(kernel, place).into_iter().filter_map(value).collect();
        median(&values)
    }

    /// Of the cycles of a kernel, the share counted.
    fn share(&self, kernel: &str, place: Option<KernelPlace>) -> Option<f64> {
        self.middle(kernel, place, |one| {
            Some(count(self.candidate, one)? / one.truth.cycles.filter(|all| *all > 0.0)?)
        })
    }

    /// Counted cycles per step of a chase.
    fn per_step(&self, kernel: &str, place: KernelPlace) -> Option<f64> {
        self.middle(kernel, Some(place), |one| Some(count(self.candidate, one)? / one.truth.chain))
    }

    /// Cycles per step of a chase, known from time.
    fn step(&self, kernel: &str, place: KernelPlace) -> Option<f64> {
        self.middle(kernel, Some(place), |one| Some(one.truth.cycles? / one.truth.chain))
    }

    /// Cycles per step that it waits for memory.
    fn waits(&self, kernel: &str, place: KernelPlace) -> Option<f64> {
        Some(self.step(kernel, place)? - self.step(kernel, KernelPlace::L1)?)
    }
}

/// Judges an event that counts cycles of waiting.
pub fn judge(candidate: &Candidate, observations: &[Observation], known: &JudgingKernels) -> Judged {
    let view = View { candidate, observations, known };
    let (purpose, trust) = verdict(&view);
    let mut remarks = Vec::new();
    if matches!(trust, Trust::Trusted { .. } | Trust::Qualitative { .. })
        && purpose == WAITING
        && view
            .chase(Between::Nothing)
            .and_then(|chase| view.share(chase, Some(KernelPlace::L1)))
            .is_some_and(|share| share < SILENT)
    {
        remarks.push("Waits for the L1 are not in it.".to_owned());
        if meant(&view).0 == Lookup::Within {
            remarks.push("Of loads that miss the L1, the lookup there is in it.".to_owned());
        }
    }
    let (_, waits) = meant(&view);
    let errors = Errors::of(waits.iter().filter(|_| purpose == WAITING).map(|one| (one.kernel, one.error())));
    Judged {
        events: candidate.events.clone(),
        remarks,
        errors,
        evidence: proof(&view),
        ..Judged::new(Indicator::event(&candidate.name), Purpose::Stall, purpose, "stalls", trust)
    }
}

const WAITING: &str = "cycles waiting for memory";
const BANDWIDTH: &str = "bandwidth-bound cycles";

fn verdict(view: &View<'_>) -> (&'static str, Trust) {
    let untested = |missing: &str| (WAITING, Trust::Untested { missing: missing.to_owned() });
    let deepest = view.chase(Between::Nothing).and_then(|chase| {
        BEYOND.iter().rev().find_map(|&place| Some((chase, place, view.waits(chase, place)?)))
    });
    let Some((chase, place, waits)) = deepest else {
        return untested("no chase was timed, or no clock is known");
    };
    let Some(counted) = view.per_step(chase, place) else {
        return untested("it was not counted in the chase");
    };
    if counted >= FOLLOWS * waits {
        return (WAITING, waiting(view));
    }
    let streaming = view.streams().flat_map(|kernel| BEYOND.map(|place| (kernel, place)));
    let shares: Vec<((&str, KernelPlace), f64)> =
        streaming.filter_map(|at| Some((at, view.share(at.0, Some(at.1))?))).collect();
    let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let latency = counted / view.step(chase, place).unwrap_or(f64::INFINITY);
    if most >= CLEAR && latency < SILENT {
        return (BANDWIDTH, bandwidth(&shares));
    }
    if most < SILENT && latency < SILENT {
        let why = "counts nothing in kernels that do nothing but wait for memory".to_owned();
        let shown_by = format!("{chase} in {}", place.name());
        return (WAITING, Trust::Broken { flaw: Flaw::Silent, why, shown_by });
    }
    let tells =
        format!("that something waits: up to {:.0} % of the cycles of streaming kernels", most * 100.0);
    let misses = format!("for what: {:.0} % of the cycles of a chase", latency * 100.0);
    (WAITING, Trust::Qualitative { tells, misses })
}

/// What of a load's time an event may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// Only what comes after the L1 has looked in vain (molka2017 §4.3).
    Outside,
    /// All of a load that missed the L1.
    Within,
}

/// One kernel at one level: cycles per step.
struct Wait<'a> {
    kernel: &'a str,
    place: KernelPlace,
    /// All of them.
    step: f64,
    /// Waited for memory, as the event means it.
    truth: f64,
    counted: f64,
}

impl Wait<'_> {
    fn name(&self) -> String {
        format!("{} in {}", self.kernel, self.place.name())
    }

    /// Where little is waited for, an error is one of the step.
    fn is_small(&self) -> bool {
        self.truth < CLEAR * self.step
    }

    /// Nothing is counted where much is waited for.
    fn is_missed(&self) -> bool {
        !self.is_small() && self.counted < SILENT * self.step
    }

    fn error(&self) -> f64 {
        (self.counted - self.truth) / if self.is_small() { self.step } else { self.truth }
    }

    fn evidence(&self) -> Evidence {
        let of = if self.is_small() { ", off by so much of these" } else { "" };
        Evidence {
            experiment: self.name(),
            truth: Some(self.truth),
            counted: Some(self.counted),
            error: Some(self.error()),
            note: format!("of {:.1} cycles per step{of}", self.step),
        }
    }
}

/// Every chase beyond the L1, and in it.
fn waits<'a>(view: &View<'a>, lookup: Lookup) -> Vec<Wait<'a>> {
    let chase = view.chase(Between::Nothing);
    let near = chase.and_then(|chase| view.step(chase, KernelPlace::L1)).unwrap_or(0.0);
    let looked_up = if lookup == Lookup::Within { near } else { 0.0 };
    let all = view.chases().flat_map(|kernel| PLACES.map(|place| (kernel, place)));
    let wait = |(kernel, place)| {
        let waits = view.waits(kernel, place)?.max(0.0);
        let (counted, step) = (view.per_step(kernel, place)?, view.step(kernel, place)?);
        // Loads that never leave the L1 are not looked up in vain, and other work goes on while it looks.
        let beside = view.known.is(kernel, |role| *role == Role::Chase(Between::Independent));
        let truth = if place == KernelPlace::L1 || beside { waits } else { waits + looked_up };
        Some(Wait { kernel, place, step, truth, counted })
    };
    all.filter_map(wait).collect()
}

/// By the meaning that fits the event better, and which that is.
fn meant<'a>(view: &View<'a>) -> (Lookup, Vec<Wait<'a>>) {
    let worst = |waits: &[Wait<'_>]| {
        waits.iter().filter(|one| !one.is_missed()).map(|one| one.error().abs()).fold(0.0, f64::max)
    };
    let [outside, within] = [Lookup::Outside, Lookup::Within].map(|lookup| waits(view, lookup));
    match worst(&within) < worst(&outside) {
        true => (Lookup::Within, within),
        false => (Lookup::Outside, outside),
    }
}

fn waiting(view: &View<'_>) -> Trust {
    if let Some((kernel, share)) = other_stalls(view) {
        let why = format!(
            "also counts waiting that memory does not cause: {:.0} % of the cycles of {kernel}",
            share * 100.0
        );
        return Trust::Broken {
            flaw: Flaw::OtherStalls { kernel: kernel.clone(), share },
            why,
            shown_by: kernel,
        };
    }
    let (_, waits) = meant(view);
    let missed: Vec<String> = waits.iter().filter(|one| one.is_missed()).map(Wait::name).collect();
    let by_error = |one: &&Wait<'_>, other: &&Wait<'_>| one.error().abs().total_cmp(&other.error().abs());
    let Some(worst) = waits.iter().filter(|one| !one.is_missed()).max_by(by_error) else {
        return Trust::Untested { missing: "it was counted in no chase".to_owned() };
    };
    let (error, at) = (worst.error(), worst.name());
    if missed.is_empty() && error.abs() <= CLOSE {
        return Trust::Trusted { error: error.abs() };
    }
    let mut misses = Vec::new();
    let beside = |role: &Role| *role == Role::Chase(Between::Independent);
    if error > CLOSE && view.known.is(worst.kernel, beside) {
        misses
            .push(format!("cycles lost: work that goes on beside is in it, {:+.0} % in {at}", error * 100.0));
    } else if error.abs() > CLOSE {
        misses.push(format!("how long to the cycle: off by {:+.0} % in {at}", error * 100.0));
    }
    if !missed.is_empty() {
        misses.push(format!("the waits of {}", missed.join(", ")));
    }
    let misses = misses.join("; nor ");
    Trust::Qualitative { tells: "that loads wait for memory, and roughly how long".to_owned(), misses }
}

/// The kernel in which it counts most that is no waiting for memory.
fn other_stalls(view: &View<'_>) -> Option<(String, f64)> {
    let alone = view.others().filter_map(|kernel| Some((kernel.to_owned(), view.share(kernel, None)?)));
    // Dependent multiplications take their time whatever the load does.
    let chases = view.known.which(|role| *role == Role::Chase(Between::Dependent));
    let places = |kernel| [KernelPlace::L1, KernelPlace::L2, KernelPlace::L3].map(|place| (kernel, place));
    let dependent = chases.flat_map(places).filter_map(|(kernel, place)| {
        let excess = view.per_step(kernel, place)? - view.waits(kernel, place)?;
        let share = excess / view.step(kernel, place)?;
        Some((format!("{kernel} in {}", place.name()), share))
    });
    // The kernel of the paper first: it is the one that tells the subtle cases apart.
    dependent.chain(alone).find(|(_, share)| *share > CLEAR)
}

fn bandwidth(shares: &[((&str, KernelPlace), f64)]) -> Trust {
    let named = |low: f64, high: f64| {
        let some = shares.iter().filter(|(_, share)| (low..high).contains(share));
        some.map(|((kernel, place), _)| format!("{kernel} in {}", place.name()))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (seen, missed) = (named(CLEAR, f64::INFINITY), named(0.0, SILENT));
    let misses = match missed.as_str() {
        "" => "how many cycles exactly".to_owned(),
        missed => format!("the waits of {missed}"),
    };
    Trust::Qualitative {
        tells: format!("that requests wait for bandwidth; silent in a chase, clear in {seen}"),
        misses,
    }
}

fn proof(view: &View<'_>) -> Vec<Evidence> {
    let mut lines: Vec<Evidence> = meant(view).1.iter().map(Wait::evidence).collect();
    let others = view.others().map(|kernel| (kernel, None));
    let streams = view.streams().flat_map(|kernel| BEYOND.map(|place| (kernel, Some(place))));
    for (kernel, place) in others.chain(streams) {
        let Some(share) = view.share(kernel, place) else { continue };
        let at = place.map_or(String::new(), |place| format!(" in {}", place.name()));
        let note = format!("{:.0} % of all cycles", share * 100.0);
        lines.push(Evidence {
            experiment: format!("{kernel}{at}"),
            truth: None,
            counted: Some(share),
            error: None,
            note,
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Bytes;
    use record::validate::{Experiment, Truth};

    fn known() -> JudgingKernels {
        JudgingKernels::of(&kernels::KernelCatalogue::builtin().unwrap()).unwrap()
    }

    /// A scripted machine: cycles per step of each kernel and level, and what an event counts of them.
    fn observe(counts: &dyn Fn(&str, KernelPlace, f64) -> f64) -> Vec<Observation> {
        let latency = |place: KernelPlace| match place {
            KernelPlace::L1 => 4.0,
            KernelPlace::L2 => 12.0,
            KernelPlace::L3 => 50.0,
            _ => 200.0,
        };
        let mut all = Vec::new();
        let mut push = |kernel: &str, place: KernelPlace, step: f64| {
            let cycles = step * 1000.0;
            let experiment = Experiment {
                kernel: kernel.to_owned(),
                parameters: Vec::new(),
                place,
                size: Bytes(1),
                width: None,
                cores: 1,
                remote: false,
                siblings: false,
                prefetch: true,
                run: 0,
            };
            let truth = Truth { cycles: Some(cycles), chain: 1000.0, ..Truth::default() };
            let count = counts(kernel, place, step) * 1000.0;
            let counts = vec![("E".to_owned(), Ok(count))];
            all.push(Observation { experiment, elapsed_ns: cycles, truth, counts, imbalance: Vec::new() });
        };
        for place in [KernelPlace::L1, KernelPlace::L2, KernelPlace::L3, KernelPlace::Memory] {
            push("chase", place, latency(place));
            push("chase-independent", place, latency(place).max(24.0));
            push("chase-dependent", place, latency(place) + 72.0);
            push("load", place, 10.0);
            push("store", place, 10.0);
        }
        known().waiting_elsewhere().iter().for_each(|(_, kernel)| push(kernel, KernelPlace::Registers, 20.0));
        all
    }

    fn judged(counts: &dyn Fn(&str, KernelPlace, f64) -> f64) -> Judged {
        let candidate = Candidate::event("E", Purpose::Stall);
        judge(&candidate, &observe(counts), &known())
    }

    /// Cycles that a load beyond the L1 is waited for.
    fn honest(kernel: &str, place: KernelPlace, step: f64) -> f64 {
        match kernel {
            "chase" | "chase-dependent" => (step - if kernel == "chase" { 4.0 } else { 76.0 }).max(0.0),
            "chase-independent" => (step - 24.0).max(0.0),
            "load" | "store" if place != KernelPlace::L1 => 0.5 * step,
            _ => 0.0,
        }
    }

    #[test]
    fn an_event_that_follows_the_waiting_is_trusted_and_said_not_to_cover_the_first_cache() {
        let judged = judged(&honest);
        assert!(matches!(judged.trust, Trust::Trusted { .. }), "{:?}", judged.trust);
        assert!(judged.remarks.iter().any(|remark| remark.contains("L1")));
    }

    /// The error that is printed is that of what is printed: nothing is left out of it.
    #[test]
    fn the_error_of_a_trusted_event_is_the_largest_that_its_evidence_shows() {
        let lookup = |kernel: &str, place: KernelPlace, step: f64| match (kernel, place) {
            ("chase" | "chase-dependent", KernelPlace::L2 | KernelPlace::L3 | KernelPlace::Memory) => {
                honest(kernel, place, step) + 3.8
            }
            _ => honest(kernel, place, step),
        };
        for event in [&honest as &dyn Fn(&str, KernelPlace, f64) -> f64, &lookup] {
            let judged = judged(event);
            let Trust::Trusted { error } = judged.trust else { panic!("{:?}", judged.trust) };
            let shown = judged.evidence.iter().filter_map(|one| one.error).map(f64::abs);
            assert_eq!(shown.fold(0.0, f64::max), error);
            for line in judged.evidence.iter().filter(|one| !one.note.ends_with("of these")) {
                let (Some(truth), Some(counted)) = (line.truth, line.counted) else { continue };
                assert!((counted - truth).abs() <= error * truth + 1e-9, "{line:?} beside {error}");
            }
        }
        let said = judged(&lookup).remarks;
        assert!(said.iter().any(|remark| remark.contains("lookup")), "{said:?}");
        // A wait that is counted three times is not overlooked because it is short.
        let short = |kernel: &str, place: KernelPlace, step: f64| match (kernel, place) {
            ("chase-independent", KernelPlace::L2) => 12.0,
            _ => honest(kernel, place, step),
        };
        assert!(!matches!(judged(&short).trust, Trust::Trusted { .. }));
    }

    #[test]
    fn an_event_that_counts_the_dependent_chain_is_rejected_and_the_chain_is_named() {
        let fooled = |kernel: &str, place: KernelPlace, step: f64| match kernel {
            "chase-dependent" => honest(kernel, place, step) + 60.0,
            _ => honest(kernel, place, step),
        };
        match judged(&fooled).trust {
            Trust::Broken { flaw: Flaw::OtherStalls { kernel, .. }, .. } => {
                assert!(kernel.contains("dependent"))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn divides_and_work_beside_the_load_are_told_from_waiting() {
        let any_stall = |kernel: &str, place: KernelPlace, step: f64| match kernel {
            "div-chain" => 0.9 * step,
            _ => honest(kernel, place, step),
        };
        assert!(matches!(judged(&any_stall).trust, Trust::Broken { flaw: Flaw::OtherStalls { .. }, .. }));
        let pending = |kernel: &str, place: KernelPlace, step: f64| match kernel {
            "chase-independent" if place != KernelPlace::L1 => step,
            _ => honest(kernel, place, step),
        };
        match judged(&pending).trust {
            Trust::Qualitative { misses, .. } => assert!(misses.contains("beside"), "{misses}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn full_buffers_are_an_indicator_of_bandwidth_with_what_it_misses() {
        let full = |kernel: &str, place: KernelPlace, step: f64| match (kernel, place) {
            ("load", KernelPlace::L3 | KernelPlace::Memory) => 0.6 * step,
            _ => 0.0,
        };
        let judged = judged(&full);
        assert_eq!(judged.purpose, BANDWIDTH);
        match judged.trust {
            Trust::Qualitative { misses, .. } => {
                assert!(misses.contains("load in L2") && misses.contains("store"), "{misses}")
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            super::tests::judged(&|_, _, _| 0.0).trust,
            Trust::Broken { flaw: Flaw::Silent, .. }
        ));
    }
}
