use super::*;

/// A kernel that waits for half of its time and was found to wait for `found`.
fn case(seed: u64, class: AccessClass, found: f64) -> UnseenCase {
    UnseenCase {
        rules: "a".to_owned(),
        run: seed / 10,
        seed,
        classes: vec![class],
        level: KernelPlace::L2,
        footprint: Bytes::kib(64),
        truths: [0.49, 0.51],
        turn_ns: None,
        found: Some([found, found - 0.1, found + 0.1]),
        decided: true,
        sure: true,
        waits_at: None,
        samples: 500,
        with_relief: false,
    }
}

fn stores_are_broken() -> Vec<UnseenCase> {
    let loads = (0..10).map(|seed| case(seed, AccessClass::Loads, 0.5 + seed as f64 / 100.0));
    let stores = (10..14).map(|seed| case(seed, AccessClass::Stores, 0.05));
    loads.chain(stores).collect()
}

#[test]
fn nine_of_ten_and_the_worst_are_told_class_by_class() {
    let found = OutOfSample::of(&stores_are_broken(), "a").unwrap();
    let (loads, stores) =
        (found.part(TrustPart::Class(AccessClass::Loads)), found.part(TrustPart::Class(AccessClass::Stores)));
    assert_eq!((loads.kernels, loads.standing()), (10, PartStanding::Good));
    assert!((loads.within.unwrap() - 0.08).abs() < 1e-9 && (loads.worst.unwrap() - 0.09).abs() < 1e-9);
    assert_eq!((stores.kernels, stores.standing()), (4, PartStanding::Broken));
    assert_eq!(found.part(TrustPart::Class(AccessClass::Gathers)).standing(), PartStanding::Untried);
    assert_eq!((found.runs, found.seeds, found.all.kernels), (2, (0, 13), 14));
    assert_eq!((found.held, found.intervals), (10, 14));
    assert!(found.parts.iter().all(|one| one.errors.kernels > 0));
}

#[test]
fn other_rules_and_truths_that_differ_count_nowhere() {
    let mut cases = stores_are_broken();
    cases[0].rules = "b".to_owned();
    cases[1].truths = [0.2, 0.6];
    let found = OutOfSample::of(&cases, "a").unwrap();
    assert_eq!((found.all.kernels, found.unsteady), (12, 1));
    assert_eq!(OutOfSample::of(&cases, "c"), None);
}

#[test]
fn what_relief_helped_with_vouches_for_nothing_that_samples_alone_say() {
    let mut cases = stores_are_broken();
    cases[10..].iter_mut().for_each(|case| case.with_relief = true);
    let (alone, both) =
        (OutOfSample::of(&cases, "a").unwrap(), OutOfSample::with_relief(&cases, "a").unwrap());
    assert_eq!((alone.all.kernels, alone.with_relief), (10, false));
    assert_eq!((both.all.kernels, both.with_relief, both.seeds), (4, true, (10, 13)));
    assert_eq!(OutOfSample::with_relief(&cases[..10], "a"), None);
}

#[test]
fn what_was_not_decided_is_no_error() {
    let mut cases = stores_are_broken();
    cases.iter_mut().skip(10).for_each(|case| case.decided = false);
    let found = OutOfSample::of(&cases, "a").unwrap();
    assert_eq!((found.all.kernels, found.all.decided), (14, 10));
    assert_eq!(found.part(TrustPart::Class(AccessClass::Stores)).standing(), PartStanding::Untried);
}

/// An answer is high by what *others* of its kind show: one that is off cannot vouch for itself, nor speak against itself.
#[test]
fn sure_answers_are_counted_by_what_other_kernels_say() {
    let far = |seed| UnseenCase { level: KernelPlace::Memory, ..case(seed, AccessClass::Chases, 0.5) };
    let mut cases: Vec<UnseenCase> = (0..30).map(far).collect();
    let found = OutOfSample::of(&cases, "a").unwrap();
    assert_eq!((found.high, found.high_and_off), (30, 0));
    cases[0].found = Some([0.9, 0.8, 1.0]);
    let found = OutOfSample::of(&cases, "a").unwrap();
    assert_eq!((found.high, found.high_and_off), (30, 1));
    // Three are too few once one of them is the one in question.
    let found = OutOfSample::of(&cases[1..4], "a").unwrap();
    assert_eq!(found.high, 0);
}

#[test]
fn kept_and_read_again_it_is_the_same() {
    let exactly =
        |case: &UnseenCase| UnseenCase { truths: [0.5; 2], found: Some([0.625, 0.5, 0.75]), ..case.clone() };
    let cases: Vec<UnseenCase> = stores_are_broken().iter().map(exactly).collect();
    let found = OutOfSample::of(&cases, "a").unwrap();
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<OutOfSample>(&text).unwrap(), found);
    let case = &cases[0];
    let text = serde_json::to_string(case).unwrap();
    assert_eq!(&serde_json::from_str::<UnseenCase>(&text).unwrap(), case);
}

/// One relieved kernel of a class says too little; what samples alone found of that class speaks beside it, against it too.
#[test]
fn too_few_relieved_kernels_are_helped_by_those_that_samples_answered() {
    let mut cases = stores_are_broken();
    for (seed, class) in [(20, AccessClass::Loads), (21, AccessClass::Stores)] {
        cases.push(UnseenCase { with_relief: true, ..case(seed, class, 0.5) });
    }
    let both = OutOfSample::with_relief(&cases, "a").unwrap();
    assert_eq!(both.narrow_part(TrustPart::Class(AccessClass::Loads)).kernels, 11);
    assert_eq!(both.narrow_part(TrustPart::Class(AccessClass::Stores)).standing(), PartStanding::Broken);
    // Their level is that of the stores, too.
    assert_eq!((both.all.kernels, both.high), (2, 0));
    cases.retain(|case| case.classes != [AccessClass::Stores]);
    assert_eq!(OutOfSample::with_relief(&cases, "a").unwrap().high, 1);
    // Enough relieved ones need no help.
    for seed in 30..34 {
        cases.push(UnseenCase { with_relief: true, ..case(seed, AccessClass::Loads, 0.5) });
    }
    let both = OutOfSample::with_relief(&cases, "a").unwrap();
    assert_eq!(both.narrow_part(TrustPart::Class(AccessClass::Loads)).kernels, 5);
}

#[test]
fn levels_count_where_a_kernel_waits_and_one_that_is_not_named_is_not_right() {
    let mut cases = stores_are_broken();
    let waits = |named| Some(WaitedLevel { named, right: vec![KernelPlace::L3, KernelPlace::Memory] });
    cases[0].waits_at = waits(Some(KernelPlace::Memory));
    cases[1].waits_at = waits(Some(KernelPlace::L2));
    cases[2].waits_at = waits(None);
    cases[3].waits_at = waits(Some(KernelPlace::L3));
    cases[3].truths = [0.2, 0.6];
    let found = OutOfSample::of(&cases, "a").unwrap();
    assert_eq!(found.levels, LevelScore { kernels: 3, named: 2, right: 1 });
}
