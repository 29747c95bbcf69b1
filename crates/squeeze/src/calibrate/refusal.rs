//! Machines that cannot be squeezed, and why, in numbers.

use machine::squeezing::{SqueezeKind, SqueezeProfile};

use crate::recipe::SqueezeDomain;

/// Spare cores below which nothing is concluded: fewer than a program's neighbours can outdo.
pub const LEAST_SPARE: usize = 3;
/// Full strength has to take this share of a resource.
pub const LEAST_TAKEN: f64 = 0.10;
/// Two measurements of the same differ by so much.
const NOISE: f64 = 0.05;
/// Victims that find such different room beside nothing share it with somebody else.
const MOST_SPREAD: f64 = 0.5;

/// What kind of machine would do.
const WOULD_DO: &str = "a machine whose last-level cache is not shared with strangers, with at least four cores around it: \
                        bare metal, or a guest that has a whole socket; --on sim:NAME shows the method anywhere";

/// Why no conclusion is to be drawn, by kind.
pub(super) fn refusals(profile: &SqueezeProfile, domain: &SqueezeDomain) -> Vec<(SqueezeKind, String)> {
    SqueezeKind::ALL.into_iter().filter_map(|kind| Some((kind, refusal(profile, domain, kind)?))).collect()
}

fn refusal(profile: &SqueezeProfile, domain: &SqueezeDomain, kind: SqueezeKind) -> Option<String> {
    let taken = taken(profile, kind);
    let numbers = numbers(profile, kind);
    let (spare, would_do) = (domain.spare.len(), would_do());
    let divided = profile
        .points(kind)
        .last()
        .and_then(|point| point.interference)
        .is_some_and(|one| one.left.is_some());
    if spare < LEAST_SPARE && !divided {
        let cores = if spare == 1 { "core is" } else { "cores are" };
        return Some(format!(
            "too few spare cores: {spare} {cores} left beside the program's, {LEAST_SPARE} are needed ({numbers}){would_do}"
        ));
    }
    let none = profile.points(kind).first()?;
    if let (SqueezeKind::Storage, Some(left)) = (kind, none.cache_left)
        && left.high - left.low > MOST_SPREAD * left.value
    {
        return Some(format!(
            "beside nothing, victims found between {:.1} and {:.1} MiB of cache, so others take of it as they like \
             ({numbers}){would_do}",
            left.low / 1048576.0,
            left.high / 1048576.0
        ));
    }
    match taken {
        Some(taken) if taken >= LEAST_TAKEN => None,
        _ => Some(format!("{numbers}, {:.0} % are needed{would_do}", LEAST_TAKEN * 100.0)),
    }
}

/// All of them in a sentence, what would do for all of them once.
pub fn all_refusals(profile: &SqueezeProfile) -> String {
    let would_do = would_do();
    let short = |why: &String| why.strip_suffix(&would_do).map_or_else(|| why.clone(), str::to_owned);
    let all: Vec<String> = profile.refusals.iter().map(|(_, why)| short(why)).collect();
    let ended = profile.refusals.iter().any(|(_, why)| why.ends_with(&would_do));
    all.join("; ") + if ended { &would_do } else { "" }
}

fn would_do() -> String {
    format!("; what would do: {WOULD_DO}")
}

/// What full strength took, in words.
fn numbers(profile: &SqueezeProfile, kind: SqueezeKind) -> String {
    let Some(ends) = ends(profile, kind) else {
        return format!("what full strength takes of the {kind} could not be told");
    };
    let [whole, left] = ends.map(|value| match kind {
        SqueezeKind::Storage => format!("{:.1} MiB", value / 1048576.0),
        SqueezeKind::Bandwidth => format!("{:.1} GB/s", value / 1e9),
    });
    // Less than nothing cannot be taken: the machine itself changed.
    match taken(profile, kind) {
        Some(taken) if taken < -NOISE => format!(
            "nothing can be told: beside full strength there was more {kind}, {left}, than beside nothing, {whole}; \
             something else ran meanwhile"
        ),
        Some(taken) => format!("full strength took {:.0} % of the {kind}", taken.max(0.0) * 100.0),
        None => format!("what full strength takes of the {kind} could not be told"),
    }
}

/// What is left beside nothing, and beside the strongest interference.
fn ends(profile: &SqueezeProfile, kind: SqueezeKind) -> Option<[f64; 2]> {
    let points = profile.points(kind);
    let left = |index: usize| points.get(index)?.left(kind).map(|left| left.value);
    Some([left(0)?, left(points.len().checked_sub(1)?)?])
}

/// Share of a resource that the strongest interference takes.
fn taken(profile: &SqueezeProfile, kind: SqueezeKind) -> Option<f64> {
    let [whole, left] = ends(profile, kind)?;
    (whole > 0.0).then(|| 1.0 - left / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rungs::tests::profile;
    use host::imagined;

    #[test]
    fn what_would_do_is_said_once() {
        let domain = SqueezeDomain::of(&imagined::machine(2), None, None).expect("a cache");
        let mut profile = profile();
        profile.refusals = refusals(&profile, &domain);
        assert_eq!(profile.refusals.len(), 2);
        let all = all_refusals(&profile);
        assert!(all.contains("of the cache") && all.contains("of the bandwidth"), "{all}");
        assert_eq!(all.matches("what would do").count(), 1, "{all}");
    }

    #[test]
    fn a_machine_that_gave_more_beside_full_strength_is_called_changed() {
        let domain = SqueezeDomain::of(&imagined::machine(2), None, None).expect("a cache");
        let mut profile = profile();
        let said = |profile: &SqueezeProfile| {
            refusal(profile, &domain, SqueezeKind::Bandwidth).expect("one spare core")
        };
        assert!(said(&profile).contains("full strength took 75 %"), "{}", said(&profile));
        let left = |profile: &mut SqueezeProfile, value: f64| {
            let last = profile.bandwidths.last_mut().expect("strengths");
            last.bandwidth_left =
                last.bandwidth_left.map(|left| machine::profile::Estimate { value, ..left });
        };
        // A hair more is nothing, three times as much is another machine.
        left(&mut profile, 40.4e9);
        assert!(said(&profile).contains("full strength took 0 %"), "{}", said(&profile));
        left(&mut profile, 120e9);
        let changed = said(&profile);
        assert!(
            changed.contains("120.0 GB/s, than beside nothing, 40.0 GB/s") && !changed.contains("took"),
            "{changed}"
        );
    }
}
