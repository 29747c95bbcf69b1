use std::{collections::BTreeSet, sync::Arc};

use machine::profile::{Estimate, LevelName, ProfileLevel};
use trust::{ErrorSummary, OutOfSample, TrustPart};

use super::*;

/// A machine on which loops with stores are misjudged, and the answers to all others are off by two points.
struct Scripted {
    tried: Vec<u64>,
    refuses: bool,
}

impl KernelTrial for Scripted {
    fn try_kernel(&mut self, kernel: &RandomKernel) -> Result<TrialOutcome, String> {
        self.tried.push(kernel.seed);
        if self.refuses {
            return Err("EACCES".to_owned());
        }
        let stores = classes(kernel.kernel.description()).contains(&AccessClass::Stores);
        let found = if stores { 0.1 } else { 0.62 };
        let answer = Answer {
            memory: Some([found, found - 0.05, found + 0.05]),
            decided: true,
            sure: true,
            level: None,
        };
        Ok(TrialOutcome { truths: [0.6, 0.6], turn_ns: None, samples: 500, answer, levels: None })
    }
}

#[derive(Default)]
struct Keeper {
    kept: Vec<UnseenCase>,
    stop_after: Option<usize>,
    interrupt: Arc<AtomicBool>,
}

impl Observer for Keeper {
    fn progress(&mut self, _: &str, _: f64) {}
    fn keep(&mut self, _: &record::validate::Observation) {}
    fn kept(&mut self, _: &str) -> Option<record::validate::Observation> {
        None
    }
    fn keep_case(&mut self, case: &UnseenCase) {
        self.kept.push(case.clone());
        if Some(self.kept.len()) == self.stop_after {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }
}

const CACHES: CacheSizes = CacheSizes { bytes: [Bytes::kib(32), Bytes::mib(1), Bytes::mib(16)] };

fn request(first_seed: u64, number: u64) -> UnseenRequest {
    let rules = "r".to_owned();
    UnseenRequest { number, first_seed, before: None, run: 7, rules, caches: CACHES, with_relief: false }
}

#[test]
fn a_class_that_is_misjudged_is_told_apart_from_the_others() {
    let mut trial = Scripted { tried: Vec::new(), refuses: false };
    let mut keeper = Keeper::default();
    let outcome = try_kernels(&mut trial, &request(0, 120), &mut keeper, &AtomicBool::new(false));
    assert!(outcome.done && outcome.missing.is_none());
    assert_eq!((outcome.cases.len(), &outcome.cases), (120, &keeper.kept));
    let found = OutOfSample::of(&keeper.kept, "r").unwrap();
    let stores = found.part(TrustPart::Class(AccessClass::Stores));
    assert!(stores.standing() == trust::PartStanding::Broken && stores.kernels > 5, "{stores:?}");
    let chases = found.part(TrustPart::Class(AccessClass::Chases));
    assert!(chases.standing() == trust::PartStanding::Good && chases.within < Some(ErrorSummary::CLOSE));
}

#[test]
fn what_is_rare_is_tried_as_often_as_trust_needs_it() {
    let fewest = |before: Option<Vec<UnseenCase>>, first_seed| {
        let request = UnseenRequest { before, ..request(first_seed, 44) };
        let mut trial = Scripted { tried: Vec::new(), refuses: false };
        let tried = try_kernels(&mut trial, &request, &mut Keeper::default(), &AtomicBool::new(false));
        assert!(trial.tried.is_sorted_by(|one, next| one < next));
        let of = |part| tried.cases.iter().filter(|case| case.is_in(part)).count();
        (TrustPart::drawn().map(of).min(), trial.tried)
    };
    let (plain, seeds) = fewest(None, 5000);
    assert_eq!((plain < Some(3), seeds), (true, (5000..5044).collect()));
    let (wanted, _) = fewest(Some(Vec::new()), 5000);
    assert!(wanted >= Some(WANTED_EACH), "{wanted:?}");
    // Once there are enough of each, seed follows seed again.
    let enough: Vec<UnseenCase> = (0..400).map(case_of).collect();
    assert_eq!(fewest(Some(enough), 5000).1, (5000..5044).collect::<Vec<u64>>());
}

#[test]
fn an_interrupt_keeps_what_was_tried() {
    let mut trial = Scripted { tried: Vec::new(), refuses: false };
    let mut keeper = Keeper { stop_after: Some(5), ..Keeper::default() };
    let interrupt = Arc::clone(&keeper.interrupt);
    let outcome = try_kernels(&mut trial, &request(REPORTED.start, 9), &mut keeper, &interrupt);
    assert!(!outcome.done && outcome.missing.unwrap().contains("interrupted"));
    assert_eq!(keeper.kept.len(), 5);
    // The next validation goes on behind them, however little it was.
    assert_eq!(next_seed(&keeper.kept), REPORTED.start + 5);
    assert_eq!(next_seed(&[]), REPORTED.start);
}

#[test]
fn where_nothing_can_be_sampled_it_is_given_up_soon_and_the_reason_stays() {
    let mut trial = Scripted { tried: Vec::new(), refuses: true };
    let mut keeper = Keeper::default();
    let outcome = try_kernels(&mut trial, &request(0, 120), &mut keeper, &AtomicBool::new(false));
    assert_eq!((trial.tried.len(), keeper.kept.len()), (MOST_FAILURES, 0));
    assert!(outcome.missing.unwrap().contains("EACCES"));
}

#[test]
fn seeds_that_rules_are_made_on_are_never_reported() {
    const { assert!(DEVELOPED.end <= REPORTED.start) };
    let developed = UnseenCase { seed: 999_999, ..case_of(999_999) };
    assert_eq!(next_seed(&[developed]), REPORTED.start);
}

fn case_of(seed: u64) -> UnseenCase {
    let kernel = RandomKernel::draw(seed, &Isa::native()).unwrap();
    let answer = Answer { memory: None, decided: false, sure: false, level: None };
    case(
        &request(seed, 1),
        &kernel,
        &TrialOutcome { truths: [0.0; 2], turn_ns: None, samples: 0, answer, levels: None },
    )
}

#[test]
fn a_few_dozen_kernels_have_every_class_and_every_level() {
    let cases: Vec<UnseenCase> = (0..72).map(case_of).collect();
    let classes: BTreeSet<AccessClass> = cases.iter().flat_map(|case| case.classes.clone()).collect();
    assert_eq!(
        classes.len(),
        AccessClass::ALL.iter().filter(|class| class.is_drawn()).count(),
        "{classes:?}"
    );
    let at = |level| cases.iter().filter(|case| case.level == level).count();
    assert!(trust::unseen::LEVELS.into_iter().all(|level| at(level) >= 5));
}

#[test]
fn classes_follow_from_what_a_kernel_does() {
    use AccessClass::{Atomics, Branches, Chains, Chases, Gathers, Loads, Stores, Updates};
    let kernels = kernels::KernelCatalogue::builtin().unwrap();
    let of = |name: &str| classes(kernels.get(name).unwrap().description());
    assert_eq!(of("sum-chain"), [Loads, Chains]);
    assert_eq!(of("gather"), [Loads, Chains, Gathers]);
    assert_eq!(of("copy"), [Loads, Stores]);
    assert_eq!(of("increment"), [Updates]);
    assert_eq!(of("atomic-counter"), [Atomics]);
    assert_eq!(of("chase"), [Chases]);
    assert_eq!(of("branch-on-data"), [Loads, Branches]);
    assert_eq!(of("random-uni"), [Chains, Gathers]);
}

/// A guest claims 32 MiB and gives 13.
#[test]
fn what_was_measured_of_a_cache_counts_and_not_what_it_claims() {
    let level = |level: u32, mib: u64| {
        let value = (mib << 20) as f64;
        ProfileLevel {
            claimed: Some(Bytes::mib(32)),
            usable: Some(Estimate { value, low: value, high: value, samples: 1 }),
            ..ProfileLevel::unmeasured(LevelName::Cache(level))
        }
    };
    let topology = Topology::read(&machine::Source::live());
    let cpu = topology.usable_cpus().iter().next().unwrap();
    let measured = Profile { levels: vec![level(1, 1), level(2, 2), level(3, 13)], ..Profile::unmeasured() };
    let sizes = CacheSizes::of(Some(&measured), &topology, cpu).unwrap();
    assert_eq!(sizes.bytes, [1, 2, 13].map(Bytes::mib));
    assert_eq!(sizes.level(Bytes::mib(20)), KernelPlace::Memory);
    // Where nothing was measured, the claim is all there is.
    let claimed = CacheSizes::of(None, &topology, cpu);
    assert_eq!(CacheSizes::of(Some(&Profile::unmeasured()), &topology, cpu), claimed);
}

/// Of every second line only half of a cache's sets are used: what half of its capacity costs is not what such a chase finds.
#[test]
fn chases_and_strides_over_some_lines_only_are_not_asked_for_their_level() {
    let isa = Isa::native();
    let drawn = |stride: &str| {
        let kernels = (0..2000).map(|seed| RandomKernel::draw(seed, &isa).unwrap());
        let leaves =
            kernels.filter(|kernel| kernel.text.contains(stride)).map(|kernel| kernel.leaves_lines_out());
        leaves.collect::<Vec<bool>>()
    };
    for (stride, leaves_out) in [
        ("\"cycle\", stride = 64 ", false),
        ("\"cycle\", stride = 128 ", true),
        ("\"cycle\", stride = 256 ", true),
        ("\"A\", stride = 512 ", true),
        ("\"A\", stride = 16 ", false),
        ("\"gathered\"", false),
    ] {
        let found = drawn(stride);
        assert!(!found.is_empty() && found.iter().all(|found| *found == leaves_out), "{stride}: {found:?}");
    }
}

#[test]
fn levels_are_tried_with_half_of_what_they_hold_up_to_where_data_lies() {
    let wanted = |footprint: u64| LevelTimes::wanted(&CACHES, Bytes(footprint));
    assert_eq!(wanted(300 << 10), [(KernelPlace::L2, None)]);
    let half_second = Some(Bytes(512 << 10));
    assert_eq!(wanted(4 << 20), [(KernelPlace::L2, half_second), (KernelPlace::L3, None)]);
    let half_third = Some(Bytes(8 << 20));
    let all = [(KernelPlace::L2, half_second), (KernelPlace::L3, half_third), (KernelPlace::Memory, None)];
    assert_eq!(wanted(64 << 20), all);
}

#[test]
fn the_level_that_adds_most_is_right_and_its_neighbour_near_a_capacity() {
    let times = |beyond: &[(KernelPlace, f64)]| LevelTimes { near_ns: 1.0, beyond: beyond.to_vec() };
    let far = [(KernelPlace::L2, 2.0), (KernelPlace::L3, 5.0), (KernelPlace::Memory, 50.0)];
    assert_eq!(times(&far).right(&CACHES, Bytes(256 << 20)), [KernelPlace::Memory]);
    // Nearly all that the third cache holds, and a bit more: nobody can tell.
    assert_eq!(times(&far).right(&CACHES, Bytes(20 << 20)), [KernelPlace::Memory, KernelPlace::L3]);
    // Memory hardly adds to what the third cache costs.
    let hidden = [(KernelPlace::L2, 2.0), (KernelPlace::L3, 9.0), (KernelPlace::Memory, 10.0)];
    assert_eq!(times(&hidden).right(&CACHES, Bytes(256 << 20)), [KernelPlace::L3]);
    assert_eq!(times(&hidden[..2]).right(&CACHES, Bytes(1 << 20)), [KernelPlace::L3, KernelPlace::L2]);
}

#[test]
fn a_level_that_was_looked_for_is_kept_beside_the_one_that_was_named() {
    let kernel = RandomKernel::draw(7, &Isa::native()).unwrap();
    let answer = Answer { memory: None, decided: true, sure: false, level: Some(KernelPlace::L3) };
    let right = vec![KernelPlace::Memory];
    let found =
        TrialOutcome { truths: [0.6; 2], turn_ns: None, samples: 0, answer, levels: Some(right.clone()) };
    let case = case(&request(7, 1), &kernel, &found);
    assert_eq!(case.waits_at, Some(WaitedLevel { named: Some(KernelPlace::L3), right }));
}
