//! Checks on imagined machines, scheduling on scripted work, and a few passes of the real thing.

use super::*;
use crate::{imagined, imagined::ImaginedHost, native::Native, sizes};
use kernels::KernelCatalogue;
use machine::Source;
use record::bench::Stopped;

fn kernel(name: &str) -> Kernel {
    KernelCatalogue::builtin().expect("the catalogue").get(name).expect("a kernel")
}

fn request<'a>(kernel: &'a Kernel, sizes: &'a [Bytes], cpus: &'a CpuSet) -> BenchRequest<'a> {
    BenchRequest {
        kernel,
        width: None,
        sizes,
        cpus,
        node: None,
        pages: PagePolicy::Huge,
        seed: 1,
        plan: RepeatPlan { sample_ns: 1e4, ..RepeatPlan::asked(Some(3), None, None).expect("a plan") },
    }
}

fn refusal(change: impl Fn(&mut BenchRequest<'_>), kernel: &Kernel) -> String {
    let (sizes, cpus) = (sizes::parse("16K").expect("sizes"), "0".parse().expect("CPUs"));
    let mut request = request(kernel, &sizes, &cpus);
    change(&mut request);
    let error = check(&request, &imagined::machine(2)).expect_err("refused");
    assert!(error.is_bad_request(), "{error}");
    error.to_string()
}

#[test]
fn what_the_machine_cannot_do_is_refused_first() {
    let load = kernel("load");
    const HUGE: &[Bytes] = &[Bytes::gib(7)];
    let (outside, none): (CpuSet, CpuSet) = ("0,9".parse().expect("CPUs"), CpuSet::default());
    assert!(refusal(|r| r.sizes = &[Bytes(0)], &load).contains("size 0"));
    assert!(refusal(|r| r.sizes = &[], &load).contains("needs a size"));
    assert!(refusal(|r| r.sizes = HUGE, &load).contains("does not fit"));
    assert!(refusal(|r| r.sizes = &[Bytes(8)], &load).contains("at least"));
    assert!(refusal(|r| r.node = Some(5), &load).contains("no NUMA node 5"));
    assert!(refusal(|r| r.width = Some(Width::Avx512), &load).contains("cannot run avx512"));
    // Borrowed outside the closure, as the request outlives it.
    let sizes = [Bytes::kib(16)];
    for (cpus, part) in [(&outside, "no CPU 9"), (&none, "no CPU to measure on")] {
        let error = check(&request(&load, &sizes, cpus), &imagined::machine(2)).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
    }
    let turns = kernel("producer-consumer");
    let one = "1".parse().expect("CPUs");
    let error =
        check(&request(&turns, &sizes, &one), &imagined::machine(2)).expect_err("refused").to_string();
    assert!(error.contains("needs exactly 2 threads"), "{error}");
}

#[test]
fn register_kernels_need_no_size() {
    let (chain, cpus) = (kernel("add-chain"), "0".parse().expect("CPUs"));
    let (_, sizes) = check(&request(&chain, &[], &cpus), &imagined::machine(2)).expect("accepted");
    assert_eq!(sizes, [Bytes(0)]);
}

/// Runs three sizes, raising the flag in the one with this index; returns the result and what was reported.
fn three_sizes(interrupt_in: Option<usize>) -> (Bench, Vec<usize>) {
    let sizes = sizes::parse("16K..64K").expect("sizes");
    let (load, cpus) = (kernel("load"), "0".parse().expect("CPUs"));
    let request = request(&load, &sizes, &cpus);
    let flag = AtomicBool::new(false);
    let mut reported = Vec::new();
    let mut progress = |event: Progress<'_>| {
        if let Progress::Point { point, done, of } = event {
            assert_eq!((point.size, of), (point.asked, 3));
            reported.push(done);
        }
    };
    let mut host = ImaginedHost::new(
        imagined::machine(2),
        KernelCatalogue::builtin().expect("kernels"),
        |job, passes| {
            let now = sizes.iter().position(|&size| size == job.size);
            if now.is_some() && now == interrupt_in && job.kernel.name() == "load" {
                flag.store(true, Ordering::Relaxed);
            }
            (job.size.0 * passes) as f64
        },
    );
    let bench = bench(&request, &mut host, &mut progress, &flag).expect("measured");
    (bench, reported)
}

#[test]
fn each_point_is_handed_on_as_it_is_measured() {
    let (bench, reported) = three_sizes(None);
    assert_eq!((reported, bench.interrupted), (vec![1, 2, 3], false));
    for point in &bench.points {
        assert_eq!((point.stopped, point.samples_ns.len()), (Stopped::Repeats, 3));
        assert!((point.program_bytes_per_s() - 1e9).abs() < 1.0);
        assert_eq!(point.noise.steal_ns, None);
    }
}

#[test]
fn an_interrupt_keeps_the_points_before_it() {
    let (bench, reported) = three_sizes(Some(1));
    assert!(bench.interrupted);
    assert_eq!((reported, bench.points.len()), (vec![1], 1));
}

#[test]
fn the_real_thing_runs() {
    let source = Source::live();
    let machine = Topology::read(&source);
    let cpus: CpuSet = machine.usable_cpus().iter().take(2).collect();
    let sizes = sizes::parse("16K,64K").expect("sizes");
    for name in ["load", "copy", "chase"] {
        let kernel = kernel(name);
        let request = request(&kernel, &sizes, &cpus);
        let mut host = Native::new(&source, 1).expect("a host");
        let mut points = 0;
        let mut progress =
            |event: Progress<'_>| points += usize::from(matches!(event, Progress::Point { .. }));
        let bench = bench(&request, &mut host, &mut progress, &AtomicBool::new(false)).expect("a result");
        assert_eq!((points, bench.points.len()), (2, 2));
        for point in &bench.points {
            assert!(point.size <= point.asked && point.work.program_bytes > 0.0);
            assert!(point.ns_per_access(cpus.len()).is_some_and(|ns| ns > 0.0));
        }
    }
}
