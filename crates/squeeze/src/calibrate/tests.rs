//! All of the method where nothing is measured: on an imagined machine that goes by its partition alone.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
};

use events::{Count, CountRefusal, CountedPlace, Counting, Value};
use host::{imagined, repeat::RepeatPlan};
use kernels::{Job, draw::Distribution};
use machine::{
    Bytes,
    squeezing::{Interference, KnownPattern, SqueezeForm, SqueezeKind},
};
use record::squeeze::{ProgramClass, TimedBy};

use super::*;
use crate::{
    judge::CpusDo,
    misses::{EventMisses, MonitoredMisses},
    partition::tests::{divided, group_of},
    session::{self, SessionPlan, SqueezeSubject, SubjectFacts, SubjectRun},
};

const CACHE: Bytes = Bytes::mib(20);
const HIT_NS: f64 = 2.0;
const MISS_NS: f64 = 80.0;
const GB_PER_S: f64 = 40.0;

/// Room and bandwidth, as shares, that the last word to the partition leaves.
fn left(schemata: &str) -> (f64, f64) {
    let value = |resource: &str| schemata.trim().strip_prefix(resource);
    let ways = value("L3:0=").map(|mask| u64::from_str_radix(mask, 16).expect("a mask").count_ones());
    let percent = value("MB:0=").map(|percent| percent.parse::<f64>().expect("per cent"));
    (ways.map_or(1.0, |ways| f64::from(ways) / 20.0), percent.map_or(1.0, |percent| percent / 100.0))
}

/// Share of accesses to data of this size that miss.
fn misses(bytes: f64, room: f64) -> f64 {
    (1.0 - room * CACHE.0 as f64 / bytes).max(0.0)
}

/// Nanoseconds of an access to data of this size.
fn access_ns(bytes: f64, room: f64) -> f64 {
    HIT_NS + misses(bytes, room) * (MISS_NS - HIT_NS)
}

/// Nanoseconds of so many passes on a machine with this much left.
fn pass_ns(job: &Job, passes: u64, (room, bandwidth): (f64, f64)) -> f64 {
    let bytes = job.size.0.max(4096) as f64;
    let ns = match job.kernel.name() {
        "load" | "delayed-read" | "bandwidth-reader" if misses(bytes, room) > 0.0 => {
            bytes / (GB_PER_S * bandwidth)
        }
        "add-chain" => 1e6,
        _ => bytes / 4.0 * access_ns(bytes, room),
    };
    ns * passes as f64
}

/// Such a machine, calibrated, with what is left of its partition afterwards.
fn calibrated() -> (SqueezeProfile, String, Option<PathBuf>) {
    calibrated_with(Vec::new(), &|_, _| {})
}

/// The same with the partition's monitor, which `ran` has to keep.
fn calibrated_by_monitor(ran: &dyn Fn(&Path, f64)) -> (SqueezeProfile, String, Option<PathBuf>) {
    calibrated_by(
        |partition, folder| {
            ran(folder, 0.0);
            partition
                .monitor()
                .map(|monitor| Box::new(MonitoredMisses::new(monitor)) as _)
                .into_iter()
                .collect()
        },
        ran,
    )
}

/// The same with counters of misses; `ran` hears of all that runs: the folder of the partition, and lines that came from memory.
fn calibrated_with(
    counters: Vec<Box<dyn MissCounter + '_>>,
    ran: &dyn Fn(&Path, f64),
) -> (SqueezeProfile, String, Option<PathBuf>) {
    calibrated_by(|_, _| counters, ran)
}

fn calibrated_by<'a>(
    counters: impl FnOnce(&HardwarePartition, &Path) -> Vec<Box<dyn MissCounter + 'a>>,
    ran: &dyn Fn(&Path, f64),
) -> (SqueezeProfile, String, Option<PathBuf>) {
    let root = divided();
    let machine = imagined::machine(2);
    let own = (0..2).collect();
    let domain = SqueezeDomain::of(&machine, Some(&own), Some(CACHE)).expect("a cache");
    assert!(domain.spare.is_empty());
    let partition = HardwarePartition::make(root.path(), 3, &own, &mut |_| {}).expect("a partition");
    let folder = group_of(root.path()).expect("its folder");
    let schemata: PathBuf = folder.join("schemata");
    let counters = counters(&partition, &folder);
    let schemata_of_group = schemata.clone();
    let catalogue = kernels::KernelCatalogue::builtin().expect("kernels");
    let mut host = imagined::ImaginedHost::new(machine, catalogue, |job: &Job, passes| {
        let left = left(&fs::read_to_string(&schemata).unwrap_or_default());
        let accesses = (job.size.0 / 4 * passes) as f64;
        ran(&folder, accesses * misses(job.size.0 as f64, left.0));
        pass_ns(job, passes, left)
    });
    let victims = [Distribution::Uni, Distribution::Tri2];
    let plan = RepeatPlan { repeats: Some(3), ..RepeatPlan::within(1e6, 0.1) };
    let request = CalibrateSqueeze {
        victims: victims.map(|distribution| KnownVictim { distribution, additions: 1, times: 2.6 }).to_vec(),
        storage_form: None,
        bandwidth_form: None,
        steps: 3,
        known_sets: 12,
        repeat: plan,
        known_repeat: plan,
        seed: 1,
        now: 0,
    };
    let never = AtomicBool::new(false);
    let found = calibrate(&mut host, &domain, Some(&partition), counters, &request, &mut |_, _| {}, &never)
        .expect("a calibration");
    let last = fs::read_to_string(&schemata_of_group).expect("a schemata");
    drop(partition);
    (found, last, group_of(root.path()))
}

#[test]
fn a_machine_that_can_be_divided_is_squeezed_without_a_spare_core() {
    let (found, last, group) = calibrated();
    assert_eq!(found.refusals, [], "no spare core is needed");
    for kind in SqueezeKind::ALL {
        let points = found.points(kind);
        assert_eq!(points.len(), 4, "{kind}");
        assert!(points[1..].iter().all(|point| {
            point.interference.is_some_and(|one| (one.form, one.threads) == (SqueezeForm::Partition, 0))
        }));
        // Each known program was tried beside each.
        assert!(points[1..].iter().all(|point| point.known.len() == found.known.len()));
        let lefts: Vec<f64> =
            points.iter().filter_map(|point| point.left(kind)).map(|left| left.value).collect();
        assert!(lefts.len() == 4 && lefts.is_sorted_by(|a, b| a > b), "{kind}: {lefts:?}");
    }
    // 20, 14, 8 and 1 of 20 ways, as the uniform victim finds them.
    for (point, ways) in found.storage.iter().zip([20.0, 14.0, 8.0, 1.0]) {
        let uniform = point.victims.iter().find(|victim| victim.distribution == "uni").expect("uniform");
        let room = uniform.capacity.expect("a capacity") / CACHE.0 as f64 * 20.0;
        assert!((room - ways).abs() < 0.5, "{room} of {ways} ways");
    }
    let chase = found.known.iter().position(|known| known.pattern == KnownPattern::Chase).expect("a chase");
    assert!(found.storage[3].known[chase] > 2.0 && found.bandwidths[3].known[chase] < 1.01);
    // All is given back.
    assert_eq!((left(&last), group), ((1.0, 1.0), None));
}

/// Counts a share of what comes from memory, over and over from the first start on.
struct Counted<'a>(&'a Cell<f64>, f64, Cell<f64>, Cell<f64>);

impl<'a> Counted<'a> {
    fn of(lines: &'a Cell<f64>, share: f64) -> Box<dyn MissCounter + 'a> {
        let counting = Self(lines, share, Cell::new(0.0), Cell::new(0.0));
        Box::new(EventMisses::new("misses".to_owned(), Box::new(counting)))
    }
}

impl Counting for Counted<'_> {
    fn start(&mut self) -> Result<(), CountRefusal> {
        self.2.set(self.0.get());
        Ok(())
    }

    fn stop(&mut self) -> Result<(), CountRefusal> {
        self.3.set(self.3.get() + self.0.get() - self.2.get());
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Count>, CountRefusal> {
        let raw = (self.1 * self.3.get()) as u64;
        let value = Value::Counted { raw, enabled_ns: 1, running_ns: 1 };
        Ok(vec![Count { event: 0, place: CountedPlace::Target, value }])
    }
}

/// Hit rate of the uniform victim beside nothing, of 2.6 times the cache.
fn hit_rate(profile: &SqueezeProfile) -> f64 {
    let victims = &profile.storage[0].victims;
    victims.iter().find(|victim| victim.distribution == "uni").expect("uniform").hit_rate
}

#[test]
fn misses_are_counted_where_the_counter_is_right() {
    let lines = Cell::new(0.0);
    let ran = |_: &Path, more: f64| lines.set(lines.get() + more);
    // A little less than there is, so that it shows.
    let (found, ..) = calibrated_with(vec![Counted::of(&lines, 0.95)], &ran);
    let missed = 0.95 * (1.0 - 1.0 / 2.6);
    assert!((hit_rate(&found) - (1.0 - missed)).abs() < 1e-3, "{}", hit_rate(&found));
    assert!(found.remarks.iter().any(|remark| remark.contains("are counted by the PMU (misses)")));
    // One that misses half of them is not asked again, and the next is.
    let halves = vec![Counted::of(&lines, 0.5), Counted::of(&lines, 0.97)];
    let (found, ..) = calibrated_with(halves, &ran);
    assert!((hit_rate(&found) - (1.0 - 0.97 * (1.0 - 1.0 / 2.6))).abs() < 1e-3, "{}", hit_rate(&found));
    assert!(found.remarks.iter().any(|remark| remark.contains("are not counted by")), "{:?}", found.remarks);
    // With none that is right, times tell.
    let (found, ..) = calibrated_with(vec![Counted::of(&lines, 0.0)], &ran);
    assert!((hit_rate(&found) - 1.0 / 2.6).abs() < 1e-2, "{}", hit_rate(&found));
}

#[test]
fn the_kernel_s_monitor_counts_as_well() {
    let counts = |folder: &Path, more: f64| {
        let file = folder.join("mon_data/mon_L3_00/mbm_total_bytes");
        let before = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("{}\n", before.unwrap_or(0) + (64.0 * 0.95 * more) as u64)).unwrap();
    };
    let (found, ..) = calibrated_by_monitor(&counts);
    assert!((hit_rate(&found) - (1.0 - 0.95 * (1.0 - 1.0 / 2.6))).abs() < 1e-3, "{}", hit_rate(&found));
    assert!(found.remarks.iter().any(|remark| remark.contains("are counted by resctrl")));
}

/// Goes over so many bytes again and again; over none it computes.
struct Imagined(f64);

impl SqueezeSubject for Imagined {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        let taken = interference.filter(|one| one.kind == SqueezeKind::Storage);
        let room = taken.and_then(|one| one.left).map_or(1.0, |ways| f64::from(ways) / 20.0);
        Ok(SubjectRun::Timed(if self.0 > 0.0 { access_ns(self.0, room) } else { 1.0 }))
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn now_s(&mut self) -> f64 {
        0.0
    }
}

#[test]
fn what_was_calibrated_tells_what_programs_need() {
    let (profile, ..) = calibrated();
    let squeezed = |bytes: f64| {
        let facts = SubjectFacts {
            program: "imagined".to_owned(),
            simulated: None,
            timed_by: TimedBy::Wall,
            cpus: (0..2).collect(),
            processes: 1,
            threads: Some(2),
            cpus_do: CpusDo::InTurn,
        };
        let kinds = SqueezeKind::ALL.to_vec();
        let plan = SessionPlan { harm: 0.05, budget_s: None, seed: 1, kinds, whole_curves: false };
        session::squeeze(&mut Imagined(bytes), &facts, &profile, &plan, &mut |_| {}).expect("squeezed")
    };
    for mib in [4.5, 9.0, 13.0] {
        let (bytes, found) = (mib * 1048576.0, squeezed(mib * 1048576.0));
        assert_eq!(found.class, ProgramClass::CacheSensitive, "{mib} MiB");
        let bounds = found.storage.bounds.expect("bounds");
        let (low, high) = (bounds.at_least.expect("a lower end"), bounds.at_most.expect("an upper end"));
        assert!((low..=high).contains(&bytes) && high - low < 0.5 * CACHE.0 as f64, "{mib}: {bounds:?}");
        assert_eq!(found.bandwidth.bounds.and_then(|bounds| bounds.at_least), None, "{mib} MiB");
    }
    let neither = squeezed(0.0);
    assert_eq!(neither.class, ProgramClass::Insensitive);
    assert_eq!(neither.storage.bounds.and_then(|bounds| bounds.at_least), None);
}
