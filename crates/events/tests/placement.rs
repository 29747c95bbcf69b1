//! The placement against a naive twin that tries every assignment, and against the machines of the event files.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use events::{
    Catalogue, Conflict, Demand, Event, PmuResources,
    event::Counters,
    names::{Context, parse},
    placement::{ExtraRegister, Holding, groups, rounds_by_file},
};
use proptest::prelude::*;

fn on(programmable: u32, fixed: Option<u8>) -> Demand {
    Demand { counters: Counters { programmable, fixed }, ..Demand::default() }
}

fn any() -> Demand {
    Demand::default()
}

fn pair() -> Demand {
    Demand { pair: true, ..Demand::default() }
}

fn wanting(name: &str, value: u64) -> Demand {
    Demand { registers: vec![(name.to_owned(), vec![value])], ..Demand::default() }
}

fn register(name: &str, count: usize) -> ExtraRegister {
    ExtraRegister { fields: vec![name.to_owned()], count }
}

fn machine(general: u32, fixed: u32) -> PmuResources {
    let registers = vec![register("one", 1), register("two", 2)];
    PmuResources::Limited { general, fixed, taken: Vec::new(), registers }
}

fn watched(general: u32, fixed: u32, by: Counters) -> PmuResources {
    PmuResources::Limited { general, fixed, taken: vec![by], registers: Vec::new() }
}

fn place(resources: &PmuResources, demands: &[Demand]) -> Result<Vec<Holding>, Conflict> {
    resources.place(&demands.iter().collect::<Vec<_>>())
}

fn fits(resources: &PmuResources, demands: &[Demand]) -> bool {
    place(resources, demands).is_ok()
}

#[test]
fn an_event_makes_room_for_one_that_fits_fewer_counters() {
    let two = machine(2, 0);
    // The first may take either counter, the second fits one alone.
    for bound in [1, 2] {
        assert!(fits(&two, &[any(), on(bound, None)]));
        assert_eq!(place(&two, &[on(bound, None), on(bound, None)]), Err(Conflict::Counters));
    }
    assert_eq!(groups(&[on(1, None), on(1, None), on(2, None)], &two), [vec![0, 2], vec![1]]);
}

#[test]
fn fixed_counters_and_the_watchdog() {
    let cycles = on(0b1111, Some(1));
    let group = [any(), any(), any(), any(), cycles.clone()];
    assert_eq!(place(&machine(4, 3), &group).unwrap()[4], Holding::Fixed(1));
    let watched_core = watched(4, 3, cycles.counters);
    assert!(!fits(&watched_core, &group), "the watchdog has the fixed counter, all others are taken");
    assert!(fits(&watched_core, &group[..4]));
    let amd = watched(6, 0, Counters::default());
    assert_eq!(groups(&vec![any(); 12], &amd).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 2]);
    let only_fixed = place(&machine(4, 0), &[any(), on(0, Some(2))]);
    assert_eq!(only_fixed, Err(Conflict::NoCounter), "its only counter does not exist");
}

#[test]
fn a_register_is_shared_by_equal_values() {
    let four = machine(4, 0);
    assert!(fits(&four, &[wanting("one", 1), wanting("one", 1), wanting("two", 5), wanting("two", 6)]));
    let clash = Conflict::Register { name: "one".into(), values: 2, count: 1 };
    assert_eq!(place(&four, &[wanting("one", 1), wanting("one", 2)]), Err(clash));
    assert!(!fits(&four, &[wanting("two", 1), wanting("two", 2), wanting("two", 3)]));
    assert!(!fits(&four, &[wanting("none such", 1)]));
}

#[test]
fn pairs_take_an_even_counter_and_the_next() {
    let six = machine(6, 0);
    let placed = place(&six, &[pair(), pair(), pair()]).unwrap();
    assert_eq!(placed.len(), 3);
    assert!(!fits(&six, &[pair(), pair(), pair(), pair()]));
    assert!(fits(&six, &[pair(), pair(), any(), any()]));
    assert_eq!(place(&six, &[pair(), pair(), any(), any(), any()]), Err(Conflict::Counters));
    // Counters 0 and 3 are bound: pairs are not just put on the first ones.
    assert!(fits(&six, &[pair(), pair(), on(1 << 3, None)]));
    assert!(fits(&six, &[pair(), on(1, None), on(1 << 3, None)]));
    assert!(!fits(&six, &[pair(), pair(), on(1, None), on(1 << 3, None)]));
    assert_eq!(place(&machine(1, 3), &[pair()]), Err(Conflict::NoCounter));
    assert!(!fits(&machine(3, 0), &[pair(), pair()]), "the last counter has none behind it");
    // Many alike are found or refused without trying all orders.
    assert!(fits(&machine(32, 0), &vec![pair(); 16]));
    let mut crowded = vec![pair(); 15];
    crowded.extend([on(1, None), on(1 << 31, None), on(1 << 16, None)]);
    assert!(!fits(&machine(32, 0), &crowded));
}

#[test]
fn one_that_must_be_alone_and_those_that_are_led() {
    let alone = Demand { alone: true, ..any() };
    let core = machine(4, 4);
    assert_eq!(place(&core, &[any(), alone.clone()]), Err(Conflict::Alone));
    assert_eq!(groups(&[any(), alone, any()], &core), [vec![0, 2], vec![1]]);
    let led = |leader| Demand { free: true, follows: Some(leader), ..any() };
    let demands = [any(), led(2), on(0, Some(3)), led(2), any()];
    assert_eq!(groups(&demands, &core), [vec![2, 0, 1, 3, 4]], "the leader first, though asked for later");
    assert_eq!(place(&core, &[any(), any(), led(0), led(1)]), Err(Conflict::Leaders));
    assert_eq!(place(&machine(0, 0), &[led(0)]), Ok(vec![Holding::Nothing]), "needs no counter");
}

/// The events of a microarchitecture by name, and how they are divided on it.
fn divided(machine: &str, names: &[&str]) -> Vec<Vec<usize>> {
    let catalogue = Catalogue::named(machine).unwrap();
    let context = Context { catalogue: Some(catalogue), ..Context::default() };
    let asked: Vec<Event> = names.iter().map(|name| parse(name, &context).unwrap().event).collect();
    let rounds = rounds_by_file(&asked, catalogue).unwrap();
    rounds.into_iter().map(|round| round.members).collect()
}

#[test]
fn nehalem_has_one_off_core_register_and_westmere_two() {
    let responses =
        ["cpu/event=0xb7,umask=1,offcore_rsp=0x7101/", "cpu/event=0xb7,umask=1,offcore_rsp=0x7102/"];
    assert_eq!(divided("nehalem-ep", &responses), [[0], [1]]);
    assert_eq!(divided("nehalem-ep", &[responses[0], responses[0]]), [[0, 1]]);
    for later in ["westmere-ep", "sandy-bridge-ep", "haswell-ep", "emerald-rapids"] {
        assert_eq!(divided(later, &responses), [[0, 1]], "{later}");
        let third = [responses[0], responses[1], "cpu/event=0xb7,umask=1,offcore_rsp=0x7104/"];
        assert_eq!(divided(later, &third), [vec![0, 1], vec![2]], "{later}");
    }
    // What the kernel calls LLC-loads is an off-core response too.
    let generic = [responses[0], responses[1], "LLC-loads"];
    assert_eq!(divided("haswell-ep", &generic), [vec![0, 1], vec![2]]);
}

#[test]
fn a_box_holds_one_opcode_and_beside_it_a_state() {
    let (reads, rfos) = ("UNC_C_TOR_INSERTS.OPCODE.OPC_DRD", "UNC_C_TOR_INSERTS.OPCODE.OPC_RFO");
    assert_eq!(divided("haswell-ep", &[reads, rfos]), [[0], [1]], "molka2017 Table 3, footnote");
    let same = [reads, "UNC_C_TOR_INSERTS.MISS_OPCODE.OPC_DRD"];
    assert_eq!(divided("haswell-ep", &same), [[0, 1]]);
    // The state lies in another register of the box.
    assert_eq!(divided("haswell-ep", &[reads, "UNC_C_LLC_LOOKUP.ANY", rfos]), [vec![0, 1], vec![2]]);
    // Skylake's filter is written as a whole.
    let catalogue = Catalogue::named("skylake-x").unwrap();
    let filtered: Vec<&str> = catalogue
        .entries
        .iter()
        .filter(|entry| entry.encoding.field("config1") != 0 && entry.counters.programmable == 0xf)
        .map(|entry| entry.name.as_str())
        .collect();
    let values: BTreeSet<u64> =
        filtered.iter().map(|name| catalogue.entry(name).unwrap().encoding.field("config1")).collect();
    assert!(values.len() > 1, "{filtered:?}");
    assert_eq!(divided("skylake-x", &filtered).len(), values.len());
}

#[test]
fn boxes_have_the_counters_of_their_file() {
    let many = |machine: &str, name: &str| divided(machine, &vec![name; 20])[0].len();
    assert_eq!(many("haswell-ep", "UNC_H_REQUESTS.READS"), 4);
    assert_eq!(many("zen3", "l3_lookup_state.all_l3_req_typs"), 6);
    assert_eq!(many("alder-lake-p", "UNC_M_CAS_COUNT_RD"), 5);
    // One PMU for all of Nehalem's uncore: its parts share eight counters.
    let nehalem = Catalogue::named("nehalem-ep").unwrap();
    let uncore =
        |entry: &&events::Entry| entry.encoding.pmu == "uncore" && entry.counters.programmable == 0xff;
    let names: Vec<&str> = nehalem.entries.iter().filter(uncore).map(|entry| entry.name.as_str()).collect();
    let units: BTreeSet<_> = nehalem.entries.iter().filter(uncore).map(|entry| entry.encoding.unit).collect();
    assert!(names.len() > 16 && units.len() > 2, "{names:?}");
    assert!(divided("nehalem-ep", &names).iter().all(|round| round.len() <= 8));
}

/// Tries every assignment of counters, pairs and single ones alike.
fn naive(resources: &PmuResources, demands: &[Demand]) -> bool {
    let PmuResources::Limited { general, fixed, taken, registers } = resources else { return true };
    let leaders: BTreeSet<usize> = demands.iter().filter_map(|demand| demand.follows).collect();
    if leaders.len() > 1 || demands.len() > 1 && demands.iter().any(|demand| demand.alone) {
        return false;
    }
    let registers_hold = registers.iter().all(|register| {
        let values: BTreeSet<&Vec<u64>> = demands
            .iter()
            .flat_map(|demand| &demand.registers)
            .filter(|(name, _)| name == register.name())
            .map(|(_, value)| value)
            .collect();
        values.len() <= register.count
    });
    let taken = taken.iter().map(|counters| Demand { counters: *counters, ..any() });
    let all: Vec<Demand> = demands.iter().filter(|demand| !demand.free).cloned().chain(taken).collect();
    registers_hold && every_way(&all, *general, *fixed, &mut BTreeSet::new())
}

fn every_way(demands: &[Demand], general: u32, fixed: u32, used: &mut BTreeSet<(bool, u32)>) -> bool {
    let Some((demand, rest)) = demands.split_first() else { return true };
    let Counters { programmable, fixed: own } = demand.counters;
    let suits = |number: u32| programmable == 0 && own.is_none() || programmable >> number & 1 == 1;
    let mut ways: Vec<Vec<(bool, u32)>> = Vec::new();
    for number in (0..general).filter(|&number| suits(number)) {
        match demand.pair {
            true if number % 2 == 0 && number + 1 < general => {
                ways.push(vec![(false, number), (false, number + 1)])
            }
            true => {}
            false => ways.push(vec![(false, number)]),
        }
    }
    let own = own.map(u32::from).filter(|&number| number < fixed && !demand.pair);
    ways.extend(own.map(|number| vec![(true, number)]));
    ways.into_iter().any(|way| {
        if way.iter().any(|counter| used.contains(counter)) {
            return false;
        }
        used.extend(way.iter().copied());
        let found = every_way(rest, general, fixed, used);
        way.iter().for_each(|counter| {
            used.remove(counter);
        });
        found
    })
}

/// No counter twice, pairs side by side, each on a counter that it fits.
fn check(holdings: &[Holding], demands: &[Demand], general: u32, fixed: u32) -> Result<(), TestCaseError> {
    let mut used = BTreeSet::new();
    for (holding, demand) in holdings.iter().zip(demands) {
        let Counters { programmable, fixed: own } = demand.counters;
        let suits = |number: u32| programmable == 0 && own.is_none() || programmable >> number & 1 == 1;
        match *holding {
            Holding::Nothing => prop_assert!(demand.free),
            Holding::General(number) => {
                prop_assert!(!demand.pair && number < general && suits(number));
                prop_assert!(used.insert((false, number)));
            }
            Holding::Pair(number) => {
                prop_assert!(demand.pair && number % 2 == 0 && number + 1 < general && suits(number));
                prop_assert!(used.insert((false, number)) && used.insert((false, number + 1)));
            }
            Holding::Fixed(number) => {
                prop_assert!(!demand.pair && number < fixed && own.map(u32::from) == Some(number));
                prop_assert!(used.insert((true, number)));
            }
        }
    }
    Ok(())
}

fn demand() -> impl Strategy<Value = Demand> {
    let counters = (0u32..64, proptest::option::of(0u8..4));
    let kind = prop_oneof![8 => Just(0), 3 => Just(1), 1 => Just(2), 1 => Just(3)];
    let register = proptest::option::of((0usize..2, 0u64..3));
    (counters, kind, register, proptest::option::weighted(0.1, 0usize..2)).prop_map(
        |((programmable, fixed), kind, register, follows)| Demand {
            counters: Counters { programmable, fixed },
            registers: register
                .map(|(which, value)| (["one", "two"][which].to_owned(), vec![value, 7]))
                .into_iter()
                .collect(),
            pair: kind == 1,
            alone: kind == 2,
            free: kind == 3,
            follows,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_way_is_found_exactly_where_trying_all_finds_one(
        demands in proptest::collection::vec(demand(), 0..6),
        general in 0u32..7,
        fixed in 0u32..4,
        watchdog in proptest::option::of((0u32..8, proptest::option::of(0u8..3))),
    ) {
        let taken = watchdog.map(|(programmable, fixed)| Counters { programmable, fixed });
        let registers = vec![register("one", 1), register("two", 2)];
        let resources =
            PmuResources::Limited { general, fixed, taken: taken.into_iter().collect(), registers };
        match place(&resources, &demands) {
            Ok(holdings) => {
                prop_assert!(naive(&resources, &demands));
                check(&holdings, &demands, general, fixed)?;
            }
            Err(conflict) => prop_assert!(!naive(&resources, &demands), "{conflict}"),
        }
    }

    #[test]
    fn groups_hold_every_event_once_and_fit_and_no_two_of_them_are_one(
        demands in proptest::collection::vec(demand(), 0..10),
        general in 0u32..9,
    ) {
        let resources = machine(general, 3);
        let follower = |demand: &Demand| Demand { follows: None, ..demand.clone() };
        let demands: Vec<Demand> = demands.iter().map(follower).collect();
        let groups = groups(&demands, &resources);
        let mut all: Vec<_> = groups.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..demands.len()).collect::<Vec<_>>());
        let of = |members: &[usize]| members.iter().map(|&member| demands[member].clone()).collect::<Vec<_>>();
        for (at, group) in groups.iter().enumerate() {
            prop_assert!(group.len() == 1 || naive(&resources, &of(group)));
            for earlier in &groups[..at] {
                prop_assert!(!naive(&resources, &of(&[&earlier[..], &group[..]].concat())));
            }
        }
    }
}
