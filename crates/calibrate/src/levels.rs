//! Which rise of the latency curve is which claimed cache, and what to say where they disagree.

use machine::{
    Bytes, Topology,
    profile::{Estimate, LevelName, ProfileLevel},
};

use super::knees::Rise;

/// A claim is said to be wrong when the measured capacity differs by more than this factor. The definition of
/// capacity alone is good for 1.11, the measurement for about 1.15.
const DISAGREEMENT: f64 = 1.25;

/// What the machine says about one level of its data caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// 1, 2, 3, …
    pub level: u32,
    /// Claimed capacity.
    pub size: Option<Bytes>,
    /// How many CPUs share it.
    pub shared_by: usize,
    /// Its ways.
    pub ways: Option<u32>,
    /// It belongs to one core.
    pub private: bool,
}

/// The data caches `cpu` claims to have, innermost first.
pub fn claims(machine: &Topology, cpu: u32) -> Vec<Claim> {
    let siblings = machine.cpus.iter().find(|known| known.id == cpu).map_or(1, |cpu| cpu.siblings.len());
    machine
        .data_caches_of(cpu)
        .iter()
        .map(|cache| Claim {
            level: cache.level,
            size: cache.size,
            shared_by: cache.shared_by.len(),
            ways: cache.ways,
            // A guest with one CPU sees nobody it shares the last level with.
            private: cache.level <= 2 && cache.shared_by.len() <= siblings.max(1),
        })
        .collect()
}

/// For each claim the rise that ends it, if any.
///
/// Both are ordered from the core outwards and keep their order. As many as possible are paired, such that
/// capacities lie nearest to the claims in octaves. A capacity above its claim counts double: a cache may be
/// shared with others or cut down for a guest, but hardly ever holds more than it says.
pub fn match_claims(rises: &[Rise], claims: &[Claim]) -> Vec<Option<usize>> {
    let spare_claims = claims.len().saturating_sub(rises.len());
    let spare_rises = rises.len().saturating_sub(claims.len());
    let (_, pairs) = pair(rises, claims, 0, spare_claims, spare_rises);
    pairs
}

/// Cheapest pairing of `claims` with the rises from `first` on, leaving out exactly so many of each.
fn pair(
    rises: &[Rise],
    claims: &[Claim],
    first: usize,
    spare_claims: usize,
    spare_rises: usize,
) -> (f64, Vec<Option<usize>>) {
    let Some((claim, others)) = claims.split_first() else {
        return (0.0, Vec::new());
    };
    let mut best: Option<(f64, Vec<Option<usize>>)> = None;
    let mut consider = |here: Option<usize>, cost: f64, rest: (f64, Vec<Option<usize>>)| {
        let total = cost + rest.0;
        if best.as_ref().is_none_or(|(least, _)| total < *least) {
            best = Some((total, std::iter::once(here).chain(rest.1).collect()));
        }
    };
    for skip in 0..=spare_rises {
        if let Some(rise) = rises.get(first + skip) {
            let rest = pair(rises, others, first + skip + 1, spare_claims, spare_rises - skip);
            consider(Some(first + skip), distance(rise, claim), rest);
        }
    }
    if spare_claims > 0 {
        consider(None, 0.0, pair(rises, others, first, spare_claims - 1, spare_rises));
    }
    best.unwrap_or((f64::INFINITY, vec![None; claims.len()]))
}

/// How far a capacity is from a claim, in octaves.
fn distance(rise: &Rise, claim: &Claim) -> f64 {
    match claim.size {
        Some(Bytes(size)) if size > 0 => {
            let octaves = (rise.capacity.value / size as f64).log2();
            if octaves > 0.0 { 2.0 * octaves } else { -octaves }
        }
        // A cache of unknown size may be any; two octaves is a typical distance between levels.
        _ => 2.0,
    }
}

/// The cache levels, claim and measurement side by side. Without any claim every rise is a level of its own.
/// `usable` says what a level holds, given its rise and its claim.
pub fn cache_levels(
    rises: &[Rise],
    claims: &[Claim],
    usable: impl Fn(&Rise, Option<&Claim>) -> Estimate,
) -> Vec<ProfileLevel> {
    let level = |number: u32, claim: Option<&Claim>, rise: Option<&Rise>| ProfileLevel {
        claimed: claim.and_then(|claim| claim.size),
        shared_by: claim.map(|claim| claim.shared_by),
        usable: rise.map(|rise| usable(rise, claim)),
        ..ProfileLevel::unmeasured(LevelName::Cache(number))
    };
    if claims.is_empty() {
        return rises.iter().zip(1..).map(|(rise, number)| level(number, None, Some(rise))).collect();
    }
    let matched = match_claims(rises, claims);
    claims
        .iter()
        .zip(matched)
        .map(|(claim, rise)| level(claim.level, Some(claim), rise.map(|index| &rises[index])))
        .collect()
}

/// A sentence for each cache whose claim and measurement disagree. The claims of a simulated machine are true, and
/// nobody else uses it.
pub fn disagreements(levels: &[ProfileLevel], simulated: bool) -> Vec<String> {
    levels.iter().filter_map(|level| disagreement(level, simulated)).collect()
}

fn disagreement(level: &ProfileLevel, simulated: bool) -> Option<String> {
    let LevelName::Cache(number) = level.name else {
        return None;
    };
    let Some(claimed) = level.claimed else {
        let usable = Bytes(level.usable?.value as u64);
        return Some(format!("L{number} states no size; {usable} of it could be used."));
    };
    let Some(usable) = level.usable else {
        let why = level.unseen.as_deref().unwrap_or("it cannot be told apart from its neighbours here");
        return Some(format!(
            "L{number} claims {claimed}, but the latency curve shows no such level: {why}."
        ));
    };
    let ratio = |bytes: f64| bytes / claimed.0 as f64;
    let [low, measured, high] = [usable.low, usable.value, usable.high].map(|bytes| Bytes(bytes as u64));
    let said = if ratio(usable.value) > DISAGREEMENT && ratio(usable.low) > 1.0 {
        format!("L{number} claims {claimed}, but held {measured}: the claim is too small.")
    } else if simulated && ratio(usable.value) < 1.0 / DISAGREEMENT && usable.high / usable.low > DISAGREEMENT
    {
        format!(
            "L{number} claims {claimed}, and {measured} were found, with no size measured between {low} and {high}: a \
             rough number, as time was short."
        )
    } else if ratio(usable.value) < 1.0 / DISAGREEMENT && ratio(usable.high) >= 1.0 / DISAGREEMENT {
        format!(
            "L{number} claims {claimed}, and one core could use {measured} of it, or anything from {low} to {high}: how \
             pages fall and what others take of it leave that open."
        )
    } else if ratio(usable.value) < 1.0 / DISAGREEMENT {
        let why = match level.shared_by {
            _ if simulated => "its replacement, or the way lines are spread over its sets, leaves the rest",
            Some(cpus) if cpus > 1 => "the rest is used by others, or is not there for us",
            _ => "pages do not spread evenly over it, or part of it is not there for us",
        };
        format!(
            "L{number} claims {claimed}, but one core could use only {measured} of it ({low} to {high}): {why}."
        )
    } else {
        return None;
    };
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        curve_models::{Model, Replacement},
        knees::{Thoroughness, rises},
    };

    const THOROUGH: Thoroughness = Thoroughness { finest: 1.06, neighbours: 12 };

    fn claims_kib(sizes: &[Option<u64>]) -> Vec<Claim> {
        sizes
            .iter()
            .zip(1..)
            .map(|(size, level)| Claim {
                level,
                size: size.map(Bytes::kib),
                shared_by: 1,
                ways: None,
                private: false,
            })
            .collect()
    }

    /// With what the curve alone says of capacities.
    fn cache_levels(rises: &[Rise], claims: &[Claim]) -> Vec<ProfileLevel> {
        super::cache_levels(rises, claims, |rise, _| rise.capacity)
    }

    fn usable_kib(levels: &[ProfileLevel]) -> Vec<Option<f64>> {
        levels.iter().map(|level| level.usable.map(|usable| usable.value / 1024.0)).collect()
    }

    #[test]
    fn capacities_survive_noise_whatever_the_replacement() {
        for model in [Model::three_levels(), Model::small_share_of_l3()] {
            for replacement in [Replacement::Lru, Replacement::Random] {
                let model = model.clone().with(replacement).noisy();
                let truth: Vec<f64> = model.capacities.iter().map(|bytes| bytes / 1024.0).collect();
                let mut claimed: Vec<Option<u64>> = truth.iter().map(|&kib| Some(kib as u64)).collect();
                claimed[2] = Some(260 * 1024);
                for seed in 1..=100 {
                    let levels = cache_levels(&rises(&model.explore(&THOROUGH, seed)), &claims_kib(&claimed));
                    for (found, truth) in usable_kib(&levels).iter().zip(&truth) {
                        let found = found.unwrap_or(0.0);
                        assert!(
                            (found / truth - 1.0).abs() < 0.15,
                            "seed {seed}: {found} instead of {truth} KiB"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_last_level_that_claims_too_much_is_named() {
        let found = rises(&Model::small_share_of_l3().explore(&THOROUGH, 0));
        let levels = cache_levels(&found, &claims_kib(&[Some(32), Some(1024), Some(260 * 1024)]));
        let said = disagreements(&levels, false);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("L3 claims 260 MiB, but one core could use only 6"), "{said:?}");
    }

    #[test]
    fn a_claimed_level_that_is_not_seen_is_absent() {
        let found = rises(&Model::two_levels().explore(&THOROUGH, 0));
        let levels = cache_levels(&found, &claims_kib(&[Some(32), Some(1024), Some(16 * 1024)]));
        assert!(levels[0].usable.is_some() && levels[1].usable.is_some());
        assert_eq!(levels[2].usable, None);
        assert!(disagreements(&levels, false)[0].contains("shows no such level"));
    }

    #[test]
    fn the_private_level_is_the_one_missing_when_the_outer_one_is_seen() {
        // Rises at 32K and 4M; claims 32K, 1M, 32M: four megabytes cannot be the one-megabyte cache.
        let model = Model::two_levels();
        let mut found = rises(&model.explore(&THOROUGH, 0));
        found[1].capacity.value = 4096.0 * 1024.0;
        let levels = cache_levels(&found, &claims_kib(&[Some(32), Some(1024), Some(32 * 1024)]));
        assert_eq!((levels[1].usable, levels[2].usable.is_some()), (None, true));
    }

    #[test]
    fn without_claims_every_rise_is_a_level() {
        let levels = cache_levels(&rises(&Model::four_levels().explore(&THOROUGH, 0)), &[]);
        let names: Vec<&LevelName> = levels.iter().map(|level| &level.name).collect();
        assert_eq!(names, [1, 2, 3, 4].map(LevelName::Cache).iter().collect::<Vec<_>>());
        assert!(disagreements(&levels, false)[0].contains("states no size"));
    }

    #[test]
    fn a_rise_that_no_claim_explains_is_left_out() {
        let found = rises(&Model::four_levels().explore(&THOROUGH, 0));
        let levels = cache_levels(&found, &claims_kib(&[Some(32), Some(512), Some(64 * 1024)]));
        let usable = usable_kib(&levels);
        assert!((usable[2].expect("L3") / 65536.0 - 1.0).abs() < 0.15, "{usable:?}");
        assert_eq!(disagreements(&levels, false), Vec::<String>::new());
    }

    #[test]
    fn caches_of_unknown_size_are_matched_in_order() {
        let found = rises(&Model::three_levels().explore(&THOROUGH, 0));
        let levels = cache_levels(&found, &claims_kib(&[None, None, None]));
        assert!(levels.iter().all(|level| level.usable.is_some()));
    }

    #[test]
    fn on_a_simulated_machine_nobody_else_is_blamed() {
        let found = rises(&Model::small_share_of_l3().explore(&THOROUGH, 0));
        let mut levels = cache_levels(&found, &claims_kib(&[Some(32), Some(1024), Some(260 * 1024)]));
        let said = disagreements(&levels, true);
        assert!(
            said.len() == 1 && said[0].contains("replacement") && !said[0].contains("others"),
            "{said:?}"
        );
        if let Some(usable) = &mut levels[2].usable {
            usable.high = 2.0 * usable.low;
        }
        let said = disagreements(&levels, true);
        assert!(said.len() == 1 && said[0].contains("rough"), "{said:?}");
    }
}
