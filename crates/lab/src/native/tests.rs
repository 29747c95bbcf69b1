//! The rig on whatever machine the tests run on: that it works, never how fast.

use super::*;
use machine::Topology;

static NO_INTERRUPT: AtomicBool = AtomicBool::new(false);

fn plan() -> Plan {
    Plan { repeats: Some(2), sample_ns: 1e4, ..Plan::within(1e8, 0.01) }
}

fn rig() -> Native {
    Native::new(&Source::live(), 1).expect("the catalogue parses")
}

fn usable() -> Vec<u32> {
    Topology::read(&Source::live()).usable_cpus().iter().collect()
}

#[test]
fn every_kernel_a_calibration_uses_can_be_measured() {
    let cpu = [usable()[0]];
    let jobs = [
        Job::new("add-chain", Bytes(64), &cpu),
        Job::new("mul-chain", Bytes(64), &cpu),
        Job::new("chase", Bytes::kib(4), &cpu),
        Job::new("chase-pages", Bytes::kib(64), &cpu),
        Job::new("chase-pages", Bytes::kib(64), &cpu).on_small_pages(),
        Job::new("load", Bytes::kib(16), &cpu),
        Job::new("store", Bytes::kib(16), &cpu),
        Job::new("copy", Bytes::kib(16), &cpu),
        Job::new("delayed-read", Bytes::kib(16), &cpu).with("nops", 8),
    ];
    for job in jobs {
        let measured = rig().measure(&job, &plan(), &NO_INTERRUPT).unwrap_or_else(|error| panic!("{error}"));
        assert!(!measured.repeated.samples_ns.is_empty(), "{}", job.kernel);
        let chained = job.kernel.contains("cha");
        assert_eq!(measured.step_ns().is_some(), chained, "{}", job.kernel);
        assert_eq!(measured.work.program_bytes > 0.0, !job.kernel.ends_with("-chain"), "{}", job.kernel);
    }
}

#[test]
fn two_cpus_hand_a_line_over_and_load_each_other() {
    let &[from, to, ..] = usable().as_slice() else {
        prerequisites::skip(prerequisites::TWO_CPUS, "a line is handed from one to the other");
        return;
    };
    let handed = rig().ping_pong(from, to, &plan(), &NO_INTERRUPT).expect("two CPUs");
    assert!(handed.step_ns().is_some_and(|step| step.value > 0.0));
    let chase = Job::new("chase", Bytes::kib(64), &[from]);
    let load = Job::new("delayed-read", Bytes::kib(64), &[to]);
    let loaded = rig().measure_loaded(&chase, &load, &plan(), &NO_INTERRUPT).expect("two CPUs");
    assert!(loaded.drawn_bytes_per_s > 0.0 && loaded.chase.step_ns().is_some());
}

#[test]
fn failures_name_the_job() {
    let cpu = usable()[0];
    let unknown = Job::new("no-such-kernel", Bytes::kib(4), &[cpu]);
    let error = rig().measure(&unknown, &plan(), &NO_INTERRUPT).expect_err("unknown").to_string();
    assert!(error.starts_with("no-such-kernel over 4 KiB could not be measured"), "{error}");
    let nowhere = Job::new("chase", Bytes::kib(4), &[cpu]).on_node(Some(9999));
    assert!(rig().measure(&nowhere, &plan(), &NO_INTERRUPT).is_err());
    // A loader that cannot start must not leave the chase waiting for it.
    let chase = Job::new("chase", Bytes::kib(4), &[cpu]);
    assert!(rig().measure_loaded(&chase, &unknown, &plan(), &NO_INTERRUPT).is_err());
}
