//! Counting over a target whose events change from run to run, as scripted.
#![allow(clippy::unwrap_used)]

use std::{cell::Cell, sync::atomic::AtomicBool};

use events::{CountedPlace, Counting, Offer, Value};
use machine::model::Model;
use sim::pmu::{Flaws, SimulatedPmu};

use super::*;
use crate::{host::Host, simulated::Simulated};

/// The counters of a Nehalem, with values as written: one event changes by a tenth, cycles by 4 %, the rest not at all.
struct ChangingPmu {
    inner: SimulatedPmu,
    opened: Cell<u64>,
}

impl ChangingPmu {
    fn raw(&self, event: &str) -> u64 {
        // Passes take turns: each sees both values.
        let odd = self.opened.get() / 2 % 2;
        match event {
            "UOPS_ISSUED:ANY" => 500_000 + 50_000 * odd,
            "CPU_CLK_UNHALTED.THREAD" => 1_000_000 + 40_000 * odd,
            _ => 700_000,
        }
    }
}

impl Instrument for ChangingPmu {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn resolve(&self, name: &str) -> Result<Event, CountRefusal> {
        self.inner.resolve(name)
    }

    fn offers(&self) -> Vec<Offer> {
        Vec::new()
    }

    fn runs(&self, events: &[Event], scope: &Scope) -> Result<Vec<Vec<usize>>, CountRefusal> {
        self.inner.runs(events, scope)
    }

    fn open<'a>(&'a self, request: &events::CountRequest) -> Result<Box<dyn Counting + 'a>, CountRefusal> {
        self.opened.set(self.opened.get() + 1);
        let count = |(event, asked): (usize, &Event)| Count {
            event,
            place: CountedPlace::Target,
            value: Value::Counted { raw: self.raw(&asked.name), enabled_ns: 1, running_ns: 1 },
        };
        Ok(Box::new(Written(request.events.iter().enumerate().map(count).collect())))
    }
}

/// Values that are there from the start.
struct Written(Vec<Count>);

impl Counting for Written {
    fn start(&mut self) -> Result<(), CountRefusal> {
        Ok(())
    }

    fn stop(&mut self) -> Result<(), CountRefusal> {
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Count>, CountRefusal> {
        Ok(self.0.clone())
    }
}

/// Something that does the same each time, or says that it cannot do otherwise.
struct Repeated {
    can_differ: bool,
}

impl Target for Repeated {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn pass(&mut self, open: &mut Open<'_>, _interval: Option<Duration>) -> Result<Pass, CountError> {
        let counts = open(Scope::ThisThread)?.read()?;
        let (readings, notes) = (Vec::new(), Vec::new());
        Ok(Pass { elapsed_ns: 1000, ending: None, usage: None, counts, readings, notes, interrupted: false })
    }

    fn can_differ(&self) -> bool {
        self.can_differ
    }
}

const EVENTS: &str = "UOPS_ISSUED:ANY,CPU_CLK_UNHALTED.THREAD,BR_INST_RETIRED:ALL_BRANCHES,MEM_INST_RETIRED:LOADS,\
                      MEM_INST_RETIRED:STORES,UOPS_RETIRED:ANY,ITLB_MISS_RETIRED,ARITH:DIV,BR_INST_EXEC:ANY";

fn counted(runs: usize, can_differ: bool) -> Counts {
    let model = Model::builtin("nehalem-ep-x5570").unwrap();
    let inner = SimulatedPmu::new(&model, Flaws::Off).unwrap();
    let pmu = ChangingPmu { inner, opened: Cell::new(0) };
    let selection = Selection::new(&pmu, &[EVENTS.to_owned()], &[]).unwrap();
    let request = CountRequest { runs, fit: Fit::SeveralPasses, ..CountRequest::once(&selection) };
    count(&request, &pmu, &mut Repeated { can_differ }, &mut |_, _| {}).unwrap()
}

/// In how many runs an event was counted.
fn often(counts: &Counts, event: &str) -> usize {
    let index = counts.events.iter().position(|known| known.name == event).unwrap();
    counts.runs.iter().filter(|run| run.counts.iter().any(|count| count.event == index)).count()
}

#[test]
fn events_that_change_are_counted_more_often_than_those_that_do_not() {
    let counts = counted(2, true);
    assert!(often(&counts, "UOPS_ISSUED:ANY") >= 5, "{:?}", counts.remarks);
    let steady = counts.events.iter().filter(|event| often(&counts, &event.name) == 2).count();
    assert!(steady >= 3, "what does not change is counted as often as asked: {:?}", counts.remarks);
    assert!(counts.witnesses.len() > 5, "cycles are counted in every pass: {:?}", counts.witnesses);
    let said = counts.remarks.iter().find(|said| said.contains("more than asked for")).unwrap();
    assert!(said.contains("UOPS_ISSUED:ANY (5 runs)"), "{said}");
}

#[test]
fn cycles_are_counted_in_every_pass_and_their_mean_is_taken() {
    let counts = counted(1, true);
    assert!(counts.witnesses.len() >= 5, "{:?}", counts.witnesses);
    let index = counts.events.iter().position(|event| event.name == "CPU_CLK_UNHALTED.THREAD").unwrap();
    let cycles = record::count::total(&counts.runs[0].counts, index, |_| true).unwrap().estimate().unwrap();
    let passes = counts.witnesses.len() as f64;
    assert!(passes > 1.0 && cycles > 1.0e6 && cycles < 1.04e6, "neither pass alone: {cycles}");
}

#[test]
fn what_repeats_to_the_bit_is_not_repeated() {
    let counts = counted(1, false);
    assert_eq!(counts.runs.len(), 1, "{:?}", counts.remarks);
}

/// Loads in one region, stores in the other: what was counted in them adds up to the whole, and so does what was counted in intervals.
#[test]
fn regions_and_intervals_add_up_to_the_whole() {
    let model = Model::builtin("tiny").unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::of(&model)).unwrap();
    let mut host = crate::simulated::Simulated::new(&model, 1).unwrap().counted_by(&pmu);
    let shipped = kernels::scenario::shipped::find("load-store-phases").unwrap();
    let scenario = shipped.parse(&kernels::KernelCatalogue::builtin().unwrap(), &[]).unwrap();
    let events =
        ["MEM_UOPS_RETIRED.ALL_STORES", "cycles", "CYCLE_ACTIVITY.STALLS_L2_PENDING", "UNC_M_CAS_COUNT.RD"];
    let selection = Selection::new(&pmu, &[events.join(",")], &[]).unwrap();
    let job = crate::scenario::ScenarioJob { scenario: &scenario, cpus: &[0], scale: 256 };
    let never = std::sync::atomic::AtomicBool::new(false);
    let share = CountShare::Together;
    let packages = Vec::new();
    let request = PartsRequest {
        job: job.clone(),
        selection: &selection,
        share,
        measured: None,
        memory_share: 1.0,
        packages,
    };
    let regions = count_regions(&request, &mut host, &pmu, &never).unwrap();
    let paths: Vec<&str> = regions.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths.len(), 2, "{paths:?}");
    assert!(paths[0].ends_with("loads") && paths[1].ends_with("stores"), "{paths:?}");
    let whole = CountRequest { share, ..CountRequest::once(&selection) };
    let mut target = CountedScenario { host: &mut host, request: job, interrupt: &never };
    let whole = count(&whole, &pmu, &mut target, &mut |_, _| {}).unwrap();
    let sum = |counts: &Counts, event: usize| {
        record::count::total(&counts.runs[0].counts, event, |_| true).unwrap().estimate().unwrap()
    };
    for event in 0..4 {
        let parts: f64 = regions.iter().map(|(_, counts)| sum(counts, event)).sum();
        let all = sum(&whole, event);
        assert!((parts - all).abs() <= 1.0, "{}: {parts} of {all}", whole.events[event].name);
    }
    let elapsed: u64 = regions.iter().map(|(_, counts)| counts.runs[0].elapsed_ns).sum();
    assert!(elapsed.abs_diff(whole.runs[0].elapsed_ns) <= 2, "{elapsed} of {}", whole.runs[0].elapsed_ns);
    let every = Duration::from_nanos(elapsed / 7);
    let cut = count_intervals(&request, every, &mut host, &pmu, &never).unwrap();
    let intervals = &cut.runs[0].intervals;
    assert_eq!((intervals.len(), intervals[7].end_ns, cut.runs[0].elapsed_ns), (8, elapsed, elapsed));
    for event in 0..4 {
        let of_interval = |counts: &[events::Count]| {
            record::count::total(counts, event, |_| true).unwrap().estimate().unwrap()
        };
        let parts: f64 = intervals.iter().map(|interval| of_interval(&interval.counts)).sum();
        assert_eq!(parts, sum(&cut, event), "{}", whole.events[event].name);
        assert!((parts - sum(&whole, event)).abs() <= 1.0, "{parts} of {}", sum(&whole, event));
    }
    let too_many = count_intervals(&request, Duration::from_nanos(1), &mut host, &pmu, &never).unwrap_err();
    assert!(too_many.to_string().contains("make them longer"), "{too_many}");
    let [loading, storing] = [0, 1].map(|region: usize| sum(&regions[region].1, 0));
    assert!(storing > 50.0 * loading.max(1.0), "{storing} stores, and {loading} while loading");
    let stalled = |region: usize| sum(&regions[region].1, 2) / sum(&regions[region].1, 1);
    assert!(stalled(0) > 0.7 && stalled(1) < 0.3, "{} and {}", stalled(0), stalled(1));
}

/// What the program could gain from a region: the cycles it could save, over those of the program.
#[test]
fn the_margin_of_a_region_is_of_the_whole_program() {
    let model = Model::builtin("nehalem-ep-x5570").unwrap().scaled(16).unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::of(&model)).unwrap();
    let mut host = crate::simulated::Simulated::new(&model, 1).unwrap().counted_by(&pmu);
    let shipped = kernels::scenario::shipped::find("load-store-phases").unwrap();
    let scenario = shipped.parse(&kernels::KernelCatalogue::builtin().unwrap(), &[]).unwrap();
    let selection = Selection::new(&pmu, &[], &["ACCOUNTING".to_owned()]).unwrap();
    let request = PartsRequest {
        job: crate::scenario::ScenarioJob { scenario: &scenario, cpus: &[0], scale: 512 },
        selection: &selection,
        share: CountShare::Together,
        measured: None,
        memory_share: 1.0,
        packages: Vec::new(),
    };
    let regions = count_regions(&request, &mut host, &pmu, &AtomicBool::new(false)).unwrap();
    let metric = |counts: &Counts, name: &str| {
        counts.metrics[0].metrics.iter().find(|metric| metric.name == name).unwrap().clone()
    };
    let value = |counts: &Counts, name: &str| metric(counts, name).values[0];
    let program: f64 = regions.iter().map(|(_, counts)| value(counts, "total cycles")).sum();
    let mut margins = 0.0;
    for (path, counts) in &regions {
        let saved = value(counts, "total cycles") - value(counts, "cycles after improvement");
        let margin = metric(counts, "iMargin");
        let by_hand = 100.0 * saved / program;
        assert!((margin.values[0] - by_hand).abs() < 0.01, "{path}: {margin:?}, by hand {by_hand}");
        assert!(margin.printed.unwrap().values[0] > by_hand + 10.0, "{path}: as printed it is of the region");
        margins += margin.values[0];
    }
    assert!(margins < 100.0, "{margins} % of the program could be saved");
}

/// Raised before it begins, it leaves next to nothing, which is said.
#[test]
fn what_was_stopped_says_so() {
    let model = Model::builtin("tiny").unwrap();
    let pmu = SimulatedPmu::new(&model, Flaws::Off).unwrap();
    let selection = Selection::new(&pmu, &["INST_RETIRED.ANY".to_owned()], &[]).unwrap();
    let instructions = |interrupt: &AtomicBool| {
        let mut host = Simulated::new(&model, 1).unwrap().counted_by(&pmu);
        let job = host.job("load", machine::Bytes::mib(4), &[0]).unwrap();
        let mut target = CountedKernel { host: &mut host, job, warm_up: 0, passes: Some(2), interrupt };
        let request = CountRequest::once(&selection);
        let counts = count(&request, &pmu, &mut target, &mut |_, _| {}).unwrap();
        let total = record::count::total(&counts.runs[0].counts, 0, |_| true);
        (total.and_then(|total| total.estimate()).unwrap(), counts.interrupted, counts.remarks.len())
    };
    let (all, interrupted, remarks) = instructions(&AtomicBool::new(false));
    assert_eq!((interrupted, remarks), (false, 1), "over how many passes");
    let (some, interrupted, remarks) = instructions(&AtomicBool::new(true));
    assert_eq!((interrupted, remarks), (true, 0));
    assert!(some < 0.5 * all, "{some} of {all}");
}

/// Each copy waits for the other, on cores of its own: one after the other they would not end well.
#[test]
fn passes_at_once_run_beside_each_other_on_cores_of_their_own() {
    let topology = machine::Topology::read(&machine::Source::live());
    let cores: Vec<u32> = topology.usable_cores().iter().collect();
    let [one, other, ..] = cores[..] else {
        prerequisites::skip(prerequisites::Need::TwoCpus, "two are needed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$0\"; grep Cpus_allowed_list /proc/self/status > $$.cpus; n=0; \
                  while [ $(ls | wc -l) -lt 2 ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; \
                  sleep 0.2; [ $(ls | wc -l) -ge 2 ]";
    let command = ["sh", "-c", script].map(OsString::from).into_iter();
    let command: Vec<OsString> = command.chain([folder.path().as_os_str().to_owned()]).collect();
    let model = Model::builtin("nehalem-ep-x5570").unwrap();
    let pmu = ChangingPmu { inner: SimulatedPmu::new(&model, Flaws::Off).unwrap(), opened: Cell::new(0) };
    let events = "UOPS_ISSUED:ANY,BR_INST_RETIRED:ALL_BRANCHES,MEM_INST_RETIRED:LOADS,MEM_INST_RETIRED:STORES,UOPS_RETIRED:ANY";
    let selection = Selection::new(&pmu, &[events.to_owned()], &[]).unwrap();
    let request = CountRequest { at_once: 2, fit: Fit::SeveralPasses, ..CountRequest::once(&selection) };
    let sets = [one, other].map(|core| [core].into_iter().collect()).to_vec();
    let mut target = Once(NativeTarget::new(Whom::Program(command), None).at_once_on(sets));
    let counts = count(&request, &pmu, &mut target, &mut |_, _| {}).unwrap();
    assert_eq!(counts.runs[0].ending, Some(Ending::Exited(0)));
    assert_eq!(counts.runs[0].counts.len(), 5, "every event once: {:?}", counts.runs[0].counts);
    let mut seen: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|line| line.trim_start_matches("Cpus_allowed_list:").trim().to_owned())
        .collect();
    seen.sort();
    let mut wanted = [one.to_string(), other.to_string()];
    wanted.sort();
    assert_eq!(seen, wanted);
    assert!(counts.remarks.iter().any(|remark| remark.contains("at the same time")), "{:?}", counts.remarks);
}

/// Passes that are not repeated, although they may differ.
struct Once<'a>(NativeTarget<'a>);

impl Target for Once<'_> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn pass(&mut self, open: &mut Open<'_>, interval: Option<Duration>) -> Result<Pass, CountError> {
        self.0.pass(open, interval)
    }

    fn passes(
        &mut self,
        opens: &mut [&mut Open<'_>],
        interval: Option<Duration>,
    ) -> Result<Vec<Pass>, CountError> {
        self.0.passes(opens, interval)
    }

    fn can_differ(&self) -> bool {
        false
    }
}
