//! More demands than fit at once: in which sets they take turns.

use std::collections::{BTreeMap, BTreeSet};

use super::{Conflict, Demand, PmuResources, leader_among, with_leaders};
use crate::{Catalogue, Event, Signal, names::is_box_of};

/// An event with all it needs, on every PMU that counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<P> {
    /// PMU and demand; none for an event that no PMU here can count.
    pub parts: Vec<(P, Demand)>,
    /// Which of the candidates must be counted with it and lead its groups.
    pub leader: Option<usize>,
}

/// Divides the demands on one PMU into groups that each fit, in order, each into the first group that has room. One that
/// fits nowhere gets a group of its own. Those that must lead begin a group, followed by what they lead.
pub fn groups(demands: &[Demand], resources: &PmuResources) -> Vec<Vec<usize>> {
    let fits = |group: &[usize], more: &Demand| {
        let together: Vec<&Demand> = group.iter().map(|&member| &demands[member]).chain([more]).collect();
        resources.place(&together).is_ok()
    };
    let leaders: BTreeSet<usize> = demands.iter().filter_map(|demand| demand.follows).collect();
    let mut groups: Vec<Vec<usize>> = leaders.iter().map(|&leader| vec![leader]).collect();
    for (index, demand) in demands.iter().enumerate().filter(|(index, _)| !leaders.contains(index)) {
        let room = groups
            .iter_mut()
            .find(|group| demand.follows.is_none_or(|leader| group[0] == leader) && fits(group, demand));
        match room {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Events that are counted together, without sharing counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Places in the list asked for.
    pub members: Vec<usize>,
    /// Why its first event is not in the first round; none for that one.
    pub because: Option<Conflict>,
}

/// Divides the first `asked` candidates into rounds, in order, each into the first round with room for it and its
/// leader. Candidates behind those are only there to lead.
///
/// One that does not even fit alone gets a round without others of its PMUs: opening it tells the reason.
pub fn rounds<'r, P: Ord>(
    candidates: &[Candidate<P>],
    asked: usize,
    resources: &dyn Fn(&P) -> &'r PmuResources,
) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    for event in 0..asked.min(candidates.len()) {
        let mut because = None;
        let room = rounds.iter_mut().find(|round| match fits(candidates, &round.members, event, resources) {
            Ok(()) => true,
            Err(conflict) => {
                because.get_or_insert(conflict);
                false
            }
        });
        match room {
            Some(round) => round.members.push(event),
            None => rounds.push(Round { members: vec![event], because }),
        }
    }
    rounds
}

/// Whether an event fits a round on every PMU that counts it or its leader.
fn fits<'r, P: Ord>(
    candidates: &[Candidate<P>],
    round: &[usize],
    event: usize,
    resources: &dyn Fn(&P) -> &'r PmuResources,
) -> Result<(), Conflict> {
    let with_leader = |&event: &usize| [Some(event), candidates[event].leader].into_iter().flatten();
    let together: BTreeSet<usize> = round.iter().chain([&event]).flat_map(with_leader).collect();
    let pmus: BTreeSet<&P> =
        with_leader(&event).flat_map(|event| &candidates[event].parts).map(|(pmu, _)| pmu).collect();
    for pmu in pmus {
        let of = |event: usize| candidates[event].parts.iter().filter(|(other, _)| other == pmu);
        let demands: Vec<Demand> = together
            .iter()
            .flat_map(|&event| of(event).map(move |(_, demand)| (event, demand)))
            .map(|(event, demand)| Demand { follows: candidates[event].leader, ..demand.clone() })
            .collect();
        resources(pmu).place(&demands.iter().collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Divides events on a machine of which all that is known stands in its event file. An event that no counter can hold is
/// the error, by its name.
pub fn rounds_by_file(asked: &[Event], catalogue: &Catalogue) -> Result<Vec<Round>, (String, Conflict)> {
    let events = with_leaders(asked, Some(catalogue));
    let mut resources: BTreeMap<&str, PmuResources> = BTreeMap::new();
    let mut candidates = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let leader = leader_among(&events, index, Some(catalogue));
        let mut parts = Vec::new();
        if let Some(pmu) = pmu_of(event, catalogue)
            && let Some(has) = PmuResources::of_pmu(pmu, Some(catalogue))
        {
            let demand = Demand::of(event, pmu, Some(catalogue));
            has.place(&[&demand]).map_err(|conflict| (event.name.clone(), conflict))?;
            resources.insert(pmu, has);
            parts.push((pmu, demand));
        }
        candidates.push(Candidate { parts, leader });
    }
    Ok(rounds(&candidates, asked.len(), &|pmu| &resources[pmu]))
}

/// The PMU of an event; all boxes of a name are one.
fn pmu_of<'a>(event: &'a Event, catalogue: &'a Catalogue) -> Option<&'a str> {
    let encoding = match &event.signal {
        Signal::Encoded(encoding) => encoding,
        other => &catalogue.generic(other)?.encoding,
    };
    let known = catalogue.pmus.iter().find(|(_, pmu)| is_box_of(&encoding.pmu, pmu));
    Some(known.map_or(&encoding.pmu, |(_, pmu)| pmu))
}
