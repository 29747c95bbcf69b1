//! Is a count what it claims to be (molka2017 §3.1, roehl2016 §2.4, helm2019 §5)?

use record::validate::Observation;
use trust::{Errors, Flaw, Indicator, Judged, Purpose, Quantity, Trust};

use super::{
    pairs,
    points::{Point, median, points},
};
use crate::{claims::Candidate, quantity::KnownQuantity as _, roles::JudgingKernels};

/// Farther than this no single experiment may be off.
const WORST: f64 = 0.10;
/// Nor the middle of all.
const TYPICAL: f64 = 0.05;
/// What was not tried may be so many times as far off as the worst that was. Found on lies drawn at random, seeds 0 to 399
/// (tests/validate/drawn.rs), and reported on others.
const UNTRIED: f64 = 2.0;
/// No error is known to be smaller: below this share of the lines touched, a truth is none.
const RESOLUTION: f64 = 0.02;
/// What others do while our work runs may differ by so many times what they did before.
const AS_MUCH_AGAIN: f64 = 3.0;
/// A factor is one if no experiment is farther from it.
const ALIKE: f64 = 0.07;
/// Counts that differ by less do not depend on the work.
const CONSTANT: f64 = 1.1;
/// Truths that differ by less say nothing about it.
const VARIED: f64 = 2.0;
/// A count that sees less than this of something does not see it.
const BLIND: f64 = 0.1;
/// Within these factors a number still shows which way things move.
const ROUGHLY: f64 = 2.0;
/// Experiments in which something must move before a fit to it means anything.
const FEWEST: usize = 4;
/// Lines of proof that are kept.
const PROOF: usize = 40;

/// Judges one candidate by all observations.
pub fn judge(candidate: &Candidate, observations: &[Observation], known: &JudgingKernels) -> Judged {
    let quantity = match candidate.purpose {
        Purpose::Volume(quantity) => Some(quantity),
        _ => None,
    };
    let Some(quantity) = quantity else { return screen(candidate, observations) };
    let points = points(candidate, quantity, observations);
    let mut judged = Judged {
        events: candidate.events.iter().chain(&candidate.less).cloned().collect(),
        errors: errors(&points),
        evidence: proof(&points),
        ..Judged::new(
            Indicator::event(&candidate.name),
            Purpose::Volume(quantity),
            quantity.words(),
            "volume",
            verdict(candidate, quantity, &points, observations),
        )
    };
    if matches!(judged.trust, Trust::Broken { flaw: Flaw::Prefetch { .. }, .. }) {
        let off: Vec<&Point<'_>> =
            points.iter().filter(|point| !point.observation.experiment.prefetch).collect();
        judged.without_prefetch = Some(Box::new(believed(&off)));
    }
    if quantity.is_lines() {
        judged.sees = pairs::sees(candidate, observations, known);
        remarks(&mut judged, quantity, &points);
    }
    judged
}

fn verdict(
    candidate: &Candidate,
    quantity: Quantity,
    all: &[Point<'_>],
    observations: &[Observation],
) -> Trust {
    let refs: Vec<&Point<'_>> = all.iter().collect();
    let with_truth: Vec<&Point<'_>> = refs.iter().copied().filter(|point| point.ratio().is_some()).collect();
    if all.is_empty() {
        return Trust::Untested { missing: never(candidate, observations) };
    }
    if with_truth.is_empty() {
        return Trust::Untested { missing: format!("no experiment here moves {}", quantity.words()) };
    }
    if let Some(trust) = handed_over(quantity, &with_truth, &refs) {
        return trust;
    }
    if honest(&refs) {
        return believed(&refs);
    }
    if let Some(trust) = constant(&refs) {
        return trust;
    }
    if with_truth.iter().all(|point| point.count < BLIND / 5.0 * point.truth) {
        let why = format!("counts nothing while {} move", quantity.words());
        return broken(Flaw::Silent, why, with_truth[0]);
    }
    disturbed(quantity, &refs)
        .or_else(|| factor(&refs))
        .or_else(|| swapped(candidate, quantity, observations))
        .or_else(|| several_cores(&refs))
        .or_else(|| prefetch(&refs))
        .or_else(|| but_for_one_kernel(quantity, &refs))
        .unwrap_or_else(|| follows(quantity, &refs))
}

/// Why there is no count at all.
fn never(candidate: &Candidate, observations: &[Observation]) -> String {
    let refusal = |one: &Observation| {
        let missing =
            one.counts.iter().find(|(name, value)| candidate.events.contains(name) && value.is_err())?;
        missing.1.as_ref().err().cloned()
    };
    observations.iter().find_map(refusal).unwrap_or_else(|| "it was counted in no experiment".to_owned())
}

/// Close everywhere, and quiet where nothing moves.
fn honest(points: &[&Point<'_>]) -> bool {
    let ratios: Vec<f64> = points.iter().filter_map(|point| point.ratio()).collect();
    let Some(middle) = median(&ratios) else { return false };
    (middle - 1.0).abs() <= TYPICAL && points.iter().all(|point| point.error().abs() <= WORST)
}

/// What is right in the middle of repetitions, by the one that is furthest off.
fn believed(points: &[&Point<'_>]) -> Trust {
    let seen = points.iter().map(|point| point.worst().abs()).fold(0.0, f64::max);
    let error = (UNTRIED * seen).max(RESOLUTION);
    if error <= WORST {
        return Trust::Trusted { error };
    }
    let by_worst = |one: &&&Point<'_>, other: &&&Point<'_>| one.worst().abs().total_cmp(&other.worst().abs());
    let shown_by =
        points.iter().max_by(by_worst).map_or_else(String::new, |point| point.observation.experiment.label());
    Trust::Qualitative {
        tells: "how much, in the middle of several runs".to_owned(),
        misses: format!("it everywhere: one run was off by {:.0} %, in {shown_by}", seen * 100.0),
    }
}

fn worst(points: &[&Point<'_>]) -> f64 {
    points.iter().map(|point| point.error().abs()).fold(0.0, f64::max)
}

fn furthest<'a, 'b>(points: &[&'a Point<'b>]) -> &'a Point<'b> {
    let by_error = |one: &&&Point<'_>, other: &&&Point<'_>| one.error().abs().total_cmp(&other.error().abs());
    points.iter().max_by(by_error).copied().unwrap_or(points[0])
}

fn broken(flaw: Flaw, why: String, shown_by: &Point<'_>) -> Trust {
    Trust::Broken { flaw, why, shown_by: shown_by.observation.experiment.label() }
}

fn constant(points: &[&Point<'_>]) -> Option<Trust> {
    let range = |value: &dyn Fn(&Point<'_>) -> f64| {
        let values = points.iter().map(|point| value(point));
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let alike = |(low, high): (f64, f64)| low > 0.0 && high / low < CONSTANT;
    let stuck = |per: &dyn Fn(&Point<'_>) -> f64| {
        let (least, most) = range(&|point| point.truth / per(point));
        alike(range(&|point| point.raw / per(point))) && (least <= 0.0 || most / least > VARIED)
    };
    // It may be each core's counter that is stuck.
    let fixed = stuck(&|_| 1.0) || stuck(&|point| point.observation.experiment.cores as f64);
    let ticking = alike(range(&|point| point.raw / point.observation.elapsed_ns.max(1.0)));
    let what = match (fixed, ticking) {
        (true, _) => "counts the same whatever runs",
        (_, true) => "counts time and not work",
        _ => return None,
    };
    Some(broken(Flaw::Constant, what.to_owned(), furthest(points)))
}

/// Others were at work, and what it is off may be theirs: they do not do the same while our work runs as while it does not.
fn disturbed(quantity: Quantity, points: &[&Point<'_>]) -> Option<Trust> {
    let theirs = |point: &Point<'_>| (point.raw - point.count).abs();
    let lines = |point: &Point<'_>| point.truth.max(point.scale);
    let may_be = |point: &&Point<'_>| {
        (point.count - point.truth).abs() <= (WORST * lines(point)).max(AS_MUCH_AGAIN * theirs(point))
    };
    let most = points.iter().map(|point| theirs(point) / lines(point).max(1.0)).fold(0.0, f64::max);
    (most > RESOLUTION && points.iter().all(may_be)).then(|| Trust::Qualitative {
        tells: format!("moves with {}", quantity.words()),
        misses: format!("how much: others did up to {:.0} % as much meanwhile", most * 100.0),
    })
}

fn factor(points: &[&Point<'_>]) -> Option<Trust> {
    let ratios: Vec<f64> = points.iter().filter_map(|point| point.ratio()).collect();
    let ratio = median(&ratios).filter(|ratio| *ratio > 0.0)?;
    let alike = ratios.iter().all(|one| (one / ratio - 1.0).abs() <= ALIKE);
    let quiet = points.iter().filter_map(|point| point.stray()).all(|stray| stray.abs() <= WORST);
    let off = (ratio - 1.0).abs();
    (alike && quiet && off > TYPICAL).then(|| {
        let which = if ratio > 1.0 { "overcounts" } else { "undercounts" };
        let why = format!("{which} by {:.0} % everywhere", off * 100.0);
        broken(Flaw::Factor { ratio }, why, furthest(points))
    })
}

/// It fits something else better than what it claims.
fn swapped(candidate: &Candidate, claimed: Quantity, observations: &[Observation]) -> Option<Trust> {
    let fits = |quantity: &Quantity| {
        let found = points(candidate, *quantity, observations);
        let refs: Vec<&Point<'_>> = found.iter().collect();
        let seen = found.iter().filter(|point| point.ratio().is_some()).count();
        *quantity != claimed && seen >= FEWEST && honest(&refs)
    };
    let claimed_points = points(candidate, claimed, observations);
    let refs: Vec<&Point<'_>> = claimed_points.iter().collect();
    let counts = claimed.with_deeper().filter(fits).or_else(|| Quantity::ALL.iter().copied().find(fits))?;
    let shown_by = furthest(&refs);
    let words = counts.words().to_owned();
    Some(if claimed.with_deeper() == Some(counts) {
        let why = format!("also counts what deeper levels serve: it is {words}");
        broken(Flaw::Deeper { counts: words }, why, shown_by)
    } else {
        broken(Flaw::Swapped { counts: words.clone() }, format!("counts {words} instead"), shown_by)
    })
}

fn several_cores(points: &[&Point<'_>]) -> Option<Trust> {
    let (one, several): (Vec<&Point<'_>>, Vec<&Point<'_>>) =
        points.iter().partition(|point| point.observation.experiment.cores == 1);
    if several.is_empty() || !honest(&one) {
        return None;
    }
    let ratios: Vec<f64> = several.iter().filter_map(|point| point.ratio()).collect();
    let ratio = median(&ratios)?;
    let shown_by = furthest(&several);
    let cores = shown_by.observation.experiment.cores;
    let why = format!("right on one core; with {cores} it counts {:.0} % of what is true", ratio * 100.0);
    Some(broken(Flaw::SeveralCores { ratio, cores }, why, shown_by))
}

fn prefetch(points: &[&Point<'_>]) -> Option<Trust> {
    let (on, off): (Vec<&Point<'_>>, Vec<&Point<'_>>) =
        points.iter().partition(|point| point.observation.experiment.prefetch);
    if on.is_empty() || off.is_empty() || !honest(&off) {
        return None;
    }
    let shown_by = furthest(&on);
    let off_ratios: Vec<f64> = off.iter().filter_map(|point| point.ratio()).collect();
    let off_ratio = median(&off_ratios)?;
    let with_truth: Vec<&Point<'_>> = on.iter().copied().filter(|point| point.ratio().is_some()).collect();
    let on_ratio = furthest(&with_truth).ratio()?;
    let compared = || {
        let (on, off) = (on_ratio * 100.0, off_ratio * 100.0);
        format!("{on:.0} % of the truth with prefetchers on, {off:.0} % with them off")
    };
    let why = match (shown_by.ratio(), shown_by.stray()) {
        (Some(ratio), _) if ratio < 1.0 => format!("does not see what prefetchers bring: {}", compared()),
        (None, Some(stray)) => format!(
            "also counts lines that prefetchers had brought nearer: {stray:.2} per line touched with prefetchers on, \
             where it should count none"
        ),
        _ => format!("also counts requests of prefetchers that bring nothing to this level: {}", compared()),
    };
    Some(broken(Flaw::Prefetch { on: on_ratio, off: off_ratio }, why, shown_by))
}

/// Right in all kernels but one, which does something that the others do not.
fn but_for_one_kernel(quantity: Quantity, points: &[&Point<'_>]) -> Option<Trust> {
    let kernel = |point: &Point<'_>| point.observation.experiment.kernel.clone();
    let furthest = furthest(points);
    let odd = kernel(furthest);
    let others: Vec<&Point<'_>> = points.iter().copied().filter(|point| kernel(point) != odd).collect();
    let Trust::Trusted { error } =
        Some(&others).filter(|others| honest(others)).map(|others| believed(others))?
    else {
        return None;
    };
    let off = match (furthest.ratio(), furthest.stray()) {
        (Some(ratio), _) => format!("{:.0} % of them", ratio * 100.0),
        (None, stray) => format!("{:.2} per line touched where there are none", stray.unwrap_or(0.0)),
    };
    Some(Trust::Qualitative {
        tells: format!("{}, within {:.1} % in all kernels but {odd}", quantity.words(), error * 100.0),
        misses: format!(
            "them in such kernels: it counts {off}, in {}",
            furthest.observation.experiment.label()
        ),
    })
}

/// Lines another core modified: errata make such counts miss some, so that they say that and not how many.
fn handed_over(quantity: Quantity, with_truth: &[&Point<'_>], all: &[&Point<'_>]) -> Option<Trust> {
    if quantity != Quantity::HandedOver || honest(all) {
        return None;
    }
    let seen = |prefetch: bool| {
        let same = with_truth.iter().filter(|point| point.observation.experiment.prefetch == prefetch);
        median(&same.filter_map(|point| point.ratio()).collect::<Vec<f64>>())
    };
    let ratio = seen(true).or(seen(false))?;
    let without =
        seen(false).map_or(String::new(), |off| format!(", {:.0} % with prefetchers off", off * 100.0));
    let quiet = all.iter().filter_map(|point| point.stray()).all(|stray| stray.abs() <= TYPICAL);
    (quiet && ratio > BLIND && ratio < 1.0 + WORST).then(|| Trust::Qualitative {
        tells: "that cores take modified lines from each other".to_owned(),
        misses: format!("how many: it counts {:.0} % of them{without}", ratio * 100.0),
    })
}

fn follows(quantity: Quantity, points: &[&Point<'_>]) -> Trust {
    let near = |point: &&&Point<'_>| match point.ratio() {
        Some(ratio) => (1.0 / ROUGHLY..=ROUGHLY).contains(&ratio),
        None => point.stray().is_none_or(|stray| stray.abs() <= 1.0 - 1.0 / ROUGHLY),
    };
    let shown_by = furthest(points);
    let worst = worst(points);
    if points.iter().filter(near).count() == points.len() {
        return Trust::Qualitative {
            tells: format!("moves with {}", quantity.words()),
            misses: format!(
                "how much: off by up to {:.0} %, in {}",
                worst * 100.0,
                shown_by.observation.experiment.label()
            ),
        };
    }
    let why = format!("does not follow {}", quantity.words());
    broken(Flaw::DoesNotFollow { worst }, why, shown_by)
}

fn errors(points: &[Point<'_>]) -> Option<Errors> {
    let kernel = |point: &Point<'_>| point.observation.experiment.kernel.clone();
    let all: Vec<(String, f64)> = points
        .iter()
        .flat_map(|point| point.errors.iter().map(move |error| (kernel(point), *error)))
        .collect();
    Errors::of(all.iter().map(|(kernel, error)| (kernel.as_str(), *error)))
}

fn remarks(judged: &mut Judged, quantity: Quantity, points: &[Point<'_>]) {
    if matches!(quantity, Quantity::L1In | Quantity::L2In) && !points.is_empty() {
        judged.remarks.push("Lines from deeper levels are in it, for they pass here.".to_owned());
    }
    let together = points.iter().any(|point| point.observation.experiment.siblings);
    if quantity == Quantity::HandedOver && matches!(judged.trust, Trust::Trusted { .. }) && !together {
        let caution = "Two threads of one core at once were not tried; an erratum may show only then.";
        judged.remarks.push(caution.to_owned());
    }
}

/// The experiments that say most.
fn proof(points: &[Point<'_>]) -> Vec<trust::Evidence> {
    let mut order: Vec<&Point<'_>> = points.iter().collect();
    // The worst first: it is the one that the verdict quotes.
    order.sort_by(|one, other| other.worst().abs().total_cmp(&one.worst().abs()));
    order.into_iter().take(PROOF).map(Point::evidence).collect()
}

/// What an event follows of which nothing is claimed.
fn screen(candidate: &Candidate, observations: &[Observation]) -> Judged {
    let found = Quantity::ALL.iter().copied().find_map(|quantity| {
        let found = points(candidate, quantity, observations);
        let refs: Vec<&Point<'_>> = found.iter().collect();
        let seen = found.iter().filter(|point| point.ratio().is_some()).count();
        (seen >= FEWEST && honest(&refs)).then(|| (quantity, believed(&refs), proof(&found), errors(&found)))
    });
    let (tried_for, words, trust, evidence, errors) = match found {
        Some((quantity, trust, proof, errors)) => {
            (Purpose::Volume(quantity), quantity.words(), trust, proof, errors)
        }
        None => (
            Purpose::Unclaimed,
            "unknown",
            Trust::Untested {
                missing: "nothing is claimed of it, and it follows none of the known quantities".to_owned(),
            },
            Vec::new(),
            None,
        ),
    };
    Judged {
        events: candidate.events.clone(),
        evidence,
        errors,
        ..Judged::new(Indicator::event(&candidate.name), tried_for, words, "screening", trust)
    }
}
