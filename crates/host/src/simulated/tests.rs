//! Windows against whole passes, and what a host must keep.

use super::*;

fn tiny() -> Simulated {
    Simulated::new(&Model::builtin("tiny").expect("a model"), 1).expect("kernels")
}

/// Time of the third of three whole passes.
fn whole_pass_ns(host: &mut Simulated, job: &Job) -> f64 {
    let never = AtomicBool::new(false);
    let mut engine = host.engine(1).expect("a machine");
    let kernel = PlacedKernel::prepare(job, &host.model, 0).expect("a kernel");
    kernel.place(engine.memory_mut());
    let mut group = [kernel.endless()];
    let pass: Vec<u64> = kernel.pass_counts().iter().map(|counts| counts.instructions).collect();
    group[0].limits = pass.iter().map(|pass| 2 * pass).collect();
    run(&mut engine, &mut group, &never).expect("two passes");
    group[0].limits = pass;
    kernel.pass_ns(&run(&mut engine, &mut group, &never).expect("a pass"))
}

#[test]
fn a_window_takes_the_time_of_its_share_of_a_pass() {
    let never = AtomicBool::new(false);
    for (name, cpus) in
        [("load", &[0u32][..]), ("store", &[0]), ("copy", &[0, 1]), ("chase", &[0]), ("store-nt", &[0])]
    {
        let mut host = tiny();
        for size in [Bytes::kib(24), Bytes::kib(512)] {
            let job = host.job(name, size, cpus).expect("a kernel");
            let window = host.measure_job(&job, &never).expect("a time");
            let window = window.repeated.samples_ns[0];
            let whole = whole_pass_ns(&mut host, &job);
            assert!((window / whole - 1.0).abs() < 0.04, "{name} {size}: {window} against {whole}");
        }
    }
}

#[test]
fn the_clock_is_work_and_not_time() {
    let never = AtomicBool::new(false);
    let plan = RepeatPlan::within(1e9, 0.01);
    let spent = || {
        let mut host = tiny();
        assert_eq!(host.now_ns(), 0.0);
        let job = host.job("load", Bytes::kib(16), &[0, 1]).expect("a job");
        host.measure(&job, &plan, &never).expect("a time");
        host.now_ns()
    };
    assert!(spent() > 0.0);
    assert_eq!(spent(), spent());
}

#[test]
fn loaders_slow_a_chase_down() {
    let never = AtomicBool::new(false);
    let plan = RepeatPlan::within(1e9, 0.01);
    let mut host = Simulated::new(&Model::builtin("nehalem-ep-x5570").expect("a model"), 1).expect("kernels");
    let chase = host.job("chase", Bytes::mib(32), &[0]).expect("a job");
    let mut loaded = |nops| {
        let load = host.job("delayed-read", Bytes::mib(96), &[1, 2, 3]).expect("a job");
        let load = load.with("nops", nops).expect("a parameter");
        let found = host.measure_loaded(&chase, &load, &plan, &never).expect("a time");
        (found.drawn_bytes_per_s, found.chase.step_ns().expect("a latency").value)
    };
    let ((little, quiet_ns), (much, busy_ns)) = (loaded(1024), loaded(0));
    assert!(much > 3.0 * little, "{little} {much}");
    assert!(busy_ns > 1.2 * quiet_ns, "{quiet_ns} {busy_ns}");
}

#[test]
fn lines_take_longer_between_packages() {
    let never = AtomicBool::new(false);
    let plan = RepeatPlan::within(1e9, 0.01);
    let mut host = Simulated::new(&Model::builtin("nehalem-ep-x5570").expect("a model"), 1).expect("kernels");
    let mut hop = |to| host.ping_pong(0, to, &plan, &never).expect("a time").step_ns().expect("ns").value;
    let (near, far, again) = (hop(1), hop(4), hop(1));
    assert!(far > 1.2 * near, "{near} {far}");
    assert!((again / near - 1.0).abs() < 0.01, "{near} {again}");
}

#[test]
fn an_interrupt_leaves_no_sample() {
    let raised = AtomicBool::new(true);
    let mut host = tiny();
    let job = host.job("load", Bytes::kib(16), &[0]).expect("a job");
    let found = host.measure(&job, &RepeatPlan::within(1e9, 0.01), &raised).expect("no failure");
    assert_eq!((found.repeated.stopped, found.step_ns()), (Stopped::Interrupted, None));
    assert!(found.repeated.samples_ns.is_empty());
}

mod metered {
    use super::*;
    use crate::{
        meter::MeteredPart,
        scenario::{self, ScenarioJob, sample_scenario},
    };
    use events::{CountShare, Instrument, TooMany};
    use sim::{
        access::Supplier,
        pmu::{Flaws, SampleRequest},
    };

    fn counted() -> (Simulated, SimulatedPmu) {
        let model = Model::builtin("tiny").expect("a model");
        let pmu = SimulatedPmu::new(&model, Flaws::of(&model)).expect("events");
        (tiny().counted_by(&pmu), pmu)
    }

    #[test]
    fn kernels_are_counted_without_their_warm_up() {
        let (mut host, pmu) = counted();
        let names = ["INST_RETIRED.ANY", "MEM_UOPS_RETIRED.ALL_STORES", "cycles"];
        let events: Vec<_> = names.iter().map(|name| pmu.resolve(name).expect("an event")).collect();
        let (too_many, share) = (TooMany::Refuse, CountShare::Each);
        let scope = host.scope(&[0, 1]);
        let mut counting =
            pmu.open(&events::CountRequest { events, scope, too_many, share }).expect("three counters");
        let never = AtomicBool::new(false);
        let job = host.job("copy", Bytes::kib(64), &[0, 1]).expect("a job");
        let part = MeteredPart::Passes { warm_up: 1, passes: Some(2) };
        let run = host.run_metered(&job, part, &mut counting, &never).expect("a run");
        let counts = counting.read().expect("counts");
        let of = |event: usize, cpu: u32| {
            let place = events::CountedPlace::Cpu(cpu);
            let found = counts.iter().find(|count| count.event == event && count.place == place);
            found.and_then(|count| count.value.exact()).expect("a count")
        };
        let plan = job.plan(&host.model.isa).expect("a plan");
        let step = &plan.steps()[0];
        for (part, cpu) in step.parts.iter().zip(0..) {
            let truth = step.counts(part, 2);
            assert_eq!((of(0, cpu), of(1, cpu)), (truth.instructions, truth.stores));
            assert!(of(2, cpu) as f64 <= run.elapsed_ns[0] * host.model.clock.core_hz as f64 / 1e9 + 1.0);
        }
        assert_eq!(run.truth.instructions, (of(0, 0) + of(0, 1)) as f64);
    }

    #[test]
    fn scenarios_are_counted_and_sampled() {
        let (mut host, pmu) = counted();
        let scenario = kernels::scenario::shipped::find("producer-consumer").expect("one");
        let scenario = scenario.parse(&host.catalogue, &[]).expect("a scenario");
        let cpus = [0, 1];
        let request = ScenarioJob { scenario: &scenario, cpus: &cpus, scale: 64 };
        let never = AtomicBool::new(false);
        let events = vec![pmu.resolve("MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM").expect("an event")];
        let (too_many, share, scope) = (TooMany::AllAtOnce, CountShare::Together, host.scope(&cpus));
        let mut counting =
            pmu.open(&events::CountRequest { events, scope, too_many, share }).expect("a counter");
        scenario::run_metered(&request, &mut host, Some(&mut counting), &never).expect("a run");
        let moved = counting.read().expect("counts")[0].value.exact().expect("a count");
        // One set of events is open at a time.
        drop(counting);
        let event = pmu.resolve("mem-loads").expect("an event");
        let samples = SampleRequest { event, period: 1, cpus: cpus.iter().copied().collect() };
        let (_, samples) = sample_scenario(&request, &mut host, &pmu, &samples, &never).expect("samples");
        let modified = samples
            .iter()
            .filter_map(|(_, sample)| sample.load)
            .filter(|load| load.supplier == Supplier::OtherCoreModified);
        assert!(moved > 0);
        assert_eq!(modified.count() as u64, moved);
    }
}

#[test]
fn progress_ends_where_the_plan_does() {
    let never = AtomicBool::new(false);
    let mut host = tiny();
    let progress = host.progress();
    assert_eq!(progress.share(), None);
    let job = host.job("load", Bytes::kib(64), &[0, 1]).expect("a job");
    let plan = job.plan(&host.model.isa).expect("a plan");
    host.prepare(plan, &[0, 1], &[]).expect("prepared").run(&never).expect("a run");
    let share = progress.untrimmed().expect("a plan");
    assert!((share - 1.0).abs() < 0.02, "{share}");
}
