//! Windows against whole passes, and what a rig must keep.

use super::*;

fn tiny() -> Simulated {
    Simulated::new(&Model::builtin("tiny").expect("a model"), 1).expect("kernels")
}

/// Time of the third of three whole passes.
fn whole_pass_ns(rig: &mut Simulated, job: &KernelJob<'_>) -> f64 {
    let never = AtomicBool::new(false);
    let mut engine = rig.engine().expect("a machine");
    let crew = Crew::prepare(job, &rig.model, 1, 0).expect("a crew");
    crew.place(engine.memory_mut());
    let mut part = [crew.endless()];
    let pass: Vec<u64> = crew.pass_instructions().collect();
    part[0].limits = pass.iter().map(|pass| 2 * pass).collect();
    crew::run(&mut engine, &mut part, &never).expect("two passes");
    part[0].limits = pass;
    crew.pass_ns(&crew::run(&mut engine, &mut part, &never).expect("a pass"))
}

#[test]
fn a_window_takes_the_time_of_its_share_of_a_pass() {
    let never = AtomicBool::new(false);
    for (name, cpus) in
        [("load", &[0u32][..]), ("store", &[0]), ("copy", &[0, 1]), ("chase", &[0]), ("store-nt", &[0])]
    {
        let mut rig = tiny();
        let kernel = rig.catalogue.get(name).expect("a kernel");
        let width = kernel.width_on(&rig.model.isa, None).expect("a width");
        for size in [Bytes::kib(24), Bytes::kib(512)] {
            let job = KernelJob { kernel: &kernel, width, size, cpus, node: None, small_pages: false };
            let window = rig.measure_kernel(&job, &never).expect("a time");
            let window = window.repeated.samples_ns[0];
            let whole = whole_pass_ns(&mut rig, &job);
            assert!((window / whole - 1.0).abs() < 0.04, "{name} {size}: {window} against {whole}");
        }
    }
}

#[test]
fn the_clock_is_work_and_not_time() {
    let never = AtomicBool::new(false);
    let plan = Plan::within(1e9, 0.01);
    let spent = || {
        let mut rig = tiny();
        assert_eq!(rig.now_ns(), 0.0);
        let job = Job::new("load", Bytes::kib(16), &[0, 1]);
        rig.measure(&job, &plan, &never).expect("a time");
        rig.now_ns()
    };
    assert!(spent() > 0.0);
    assert_eq!(spent(), spent());
}

#[test]
fn loaders_slow_a_chase_down() {
    let never = AtomicBool::new(false);
    let plan = Plan::within(1e9, 0.01);
    let mut rig = Simulated::new(&Model::builtin("nehalem-ep-x5570").expect("a model"), 1).expect("kernels");
    let chase = Job::new("chase", Bytes::mib(32), &[0]);
    let mut loaded = |nops| {
        let load = Job::new("delayed-read", Bytes::mib(96), &[1, 2, 3]).with("nops", nops);
        let found = rig.measure_loaded(&chase, &load, &plan, &never).expect("a time");
        (found.drawn_bytes_per_s, found.chase.step_ns().expect("a latency").value)
    };
    let ((little, quiet_ns), (much, busy_ns)) = (loaded(1024), loaded(0));
    assert!(much > 3.0 * little, "{little} {much}");
    assert!(busy_ns > 1.2 * quiet_ns, "{quiet_ns} {busy_ns}");
}

#[test]
fn lines_take_longer_between_packages() {
    let never = AtomicBool::new(false);
    let plan = Plan::within(1e9, 0.01);
    let mut rig = Simulated::new(&Model::builtin("nehalem-ep-x5570").expect("a model"), 1).expect("kernels");
    let mut hop = |to| rig.ping_pong(0, to, &plan, &never).expect("a time").step_ns().expect("ns").value;
    let (near, far, again) = (hop(1), hop(4), hop(1));
    assert!(far > 1.2 * near, "{near} {far}");
    assert!((again / near - 1.0).abs() < 0.01, "{near} {again}");
}

#[test]
fn an_interrupt_leaves_no_sample() {
    let raised = AtomicBool::new(true);
    let job = Job::new("load", Bytes::kib(16), &[0]);
    let found = tiny().measure(&job, &Plan::within(1e9, 0.01), &raised).expect("no failure");
    assert_eq!((found.repeated.stopped, found.step_ns()), (Stopped::Interrupted, None));
    assert!(found.repeated.samples_ns.is_empty());
}
