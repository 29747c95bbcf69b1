//! The host on whatever machine the tests run on: that it works, never how fast.

use super::*;
use machine::Topology;

static NO_INTERRUPT: AtomicBool = AtomicBool::new(false);

fn plan() -> RepeatPlan {
    RepeatPlan { repeats: Some(2), sample_ns: 1e4, ..RepeatPlan::within(1e8, 0.01) }
}

fn host() -> Native {
    Native::new(&Source::live(), 1).expect("the catalogue parses")
}

fn usable() -> Vec<u32> {
    Topology::read(&Source::live()).usable_cpus().iter().collect()
}

#[test]
fn every_kernel_a_calibration_uses_can_be_measured() {
    let job = |kernel, size| host().job(kernel, size, &usable()[..1]).expect("a kernel");
    let jobs = [
        job("add-chain", Bytes(64)),
        job("mul-chain", Bytes(64)),
        job("chase", Bytes::kib(4)),
        job("chase-pages", Bytes::kib(64)),
        job("chase-pages", Bytes::kib(64)).on_small_pages(),
        job("load", Bytes::kib(16)),
        job("store", Bytes::kib(16)),
        job("copy", Bytes::kib(16)),
        job("delayed-read", Bytes::kib(16)).with("nops", 8).expect("a parameter"),
    ];
    for job in jobs {
        let measured = host().measure(&job, &plan(), &NO_INTERRUPT).unwrap_or_else(|error| panic!("{error}"));
        assert!(!measured.repeated.samples_ns.is_empty(), "{job}");
        let chained = job.kernel.name().contains("cha");
        assert_eq!(measured.step_ns().is_some(), chained, "{job}");
        assert_eq!(measured.work.program_bytes > 0.0, !job.kernel.name().ends_with("-chain"), "{job}");
    }
}

#[test]
fn two_cpus_hand_a_line_over_and_load_each_other() {
    let &[from, to, ..] = usable().as_slice() else {
        return prerequisites::skip(prerequisites::Need::TwoCpus, "a line is handed from one to the other");
    };
    let handed = host().ping_pong(from, to, &plan(), &NO_INTERRUPT).expect("two CPUs");
    assert!(handed.step_ns().is_some_and(|step| step.value > 0.0));
    let chase = host().job("chase", Bytes::kib(64), &[from]).expect("a kernel");
    let load = host().job("delayed-read", Bytes::kib(64), &[to]).expect("a kernel");
    let loaded = host().measure_loaded(&chase, &load, &plan(), &NO_INTERRUPT).expect("two CPUs");
    assert!(loaded.drawn_bytes_per_s > 0.0 && loaded.chase.step_ns().is_some());
}

#[test]
fn failures_name_the_job() {
    let cpu = usable()[0];
    let error = host().job("no-such-kernel", Bytes::kib(4), &[cpu]).expect_err("unknown").to_string();
    assert!(error.starts_with("no-such-kernel over 4 KiB could not be measured"), "{error}");
    let nowhere = host().job("chase", Bytes::kib(4), &[cpu]).expect("a kernel").on_node(Some(9999));
    assert!(host().measure(&nowhere, &plan(), &NO_INTERRUPT).is_err());
    // A loader that cannot start must not leave the chase waiting for it.
    let chase = host().job("chase", Bytes::kib(4), &[cpu]).expect("a kernel");
    assert!(host().measure_loaded(&chase, &nowhere, &plan(), &NO_INTERRUPT).is_err());
}
