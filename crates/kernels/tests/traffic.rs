//! Lines that must move, against numbers worked out by hand.

use kernels::{Kernel, KernelCatalogue, geometry, traffic};
use machine::{Bytes, Width};

fn kernel(name: &str) -> Kernel {
    KernelCatalogue::builtin().expect("valid").get(name).expect("exists")
}

fn below(kernel: &Kernel, size: Bytes, capacity: Bytes) -> traffic::TrafficLines {
    let width = kernel.widths()[kernel.widths().len().min(3) - 1];
    let parts = geometry::divide(kernel, width, size, 1).expect("a geometry");
    traffic::lines_below(kernel, &parts[0], capacity).expect("a distribution that can be drawn")
}

/// Lines in, out and past the caches, per line of one stream.
fn per_line(name: &str) -> (f64, f64, f64) {
    let kernel = kernel(name);
    let streams = kernel.description().streams.len() as u64;
    let lines = below(&kernel, Bytes(streams * 3 * 64 * 1024), Bytes::kib(32));
    let each = (3 * 64 * 1024 / 64) as f64;
    assert!(lines.exact, "{name}");
    (lines.inward / each, lines.outward / each, lines.non_temporal / each)
}

#[test]
fn streams_beyond_a_cache() {
    assert_eq!(per_line("load"), (1.0, 0.0, 0.0));
    // A store brings its line in before it sends it out (read for ownership).
    assert_eq!(per_line("store"), (1.0, 1.0, 0.0));
    assert_eq!(per_line("store-nt"), (0.0, 0.0, 1.0));
    assert_eq!(per_line("copy"), (2.0, 1.0, 0.0));
    assert_eq!(per_line("copy-nt"), (1.0, 0.0, 1.0));
    assert_eq!(per_line("update"), (1.0, 1.0, 0.0));
    assert_eq!(per_line("daxpy"), (2.0, 1.0, 0.0));
    // helm2019 §4.3.2: the read amount of STREAM triad is three times the array size.
    assert_eq!(per_line("stream"), (3.0, 1.0, 0.0));
    assert_eq!(per_line("triad"), (4.0, 1.0, 0.0));
}

#[test]
fn what_fits_stays() {
    for name in ["load", "copy", "triad", "chase", "delayed-read", "cache-storage-thread", "random-exp4"] {
        let lines = below(&kernel(name), Bytes::kib(96), Bytes::kib(256));
        assert!(lines.inward < 1e-6 && lines.outward < 1e-6, "{name}: {lines:?}");
    }
}

#[test]
fn a_chase_touches_each_line_once_a_pass() {
    let lines = below(&kernel("chase"), Bytes::mib(1), Bytes::kib(32));
    assert_eq!((lines.inward, lines.outward), (16384.0, 0.0));
    // One line in each page.
    let lines = below(&kernel("chase-pages"), Bytes::mib(1), Bytes::kib(8));
    assert_eq!(lines.inward, 256.0);
}

#[test]
fn uniform_draws_miss_what_the_cache_cannot_hold() {
    let lines = below(&kernel("random-uni"), Bytes::mib(1), Bytes::kib(256));
    assert!(!lines.exact);
    let miss_share = lines.inward / 16384.0;
    assert!((miss_share - 0.75).abs() < 0.01, "{miss_share}");
    let written = below(&kernel("cache-storage-thread"), Bytes::mib(1), Bytes::kib(256));
    assert!((written.inward - written.outward).abs() < 1e-9 && written.outward > 0.0);
}

#[test]
fn a_gather_reads_its_numbers_in_order_and_misses_what_does_not_fit() {
    let kernel = kernel("gather");
    assert_eq!(below(&kernel, Bytes::kib(96), Bytes::kib(256)).inward, 0.0);
    // Two streams of half a MiB: all lines of the numbers, and of 131072 elements those that a quarter MiB lacks.
    let lines = below(&kernel, Bytes::mib(1), Bytes::kib(256));
    let missed = (lines.inward - 8192.0) / 131_072.0;
    assert!(!lines.exact && (missed - 0.5).abs() < 0.01, "{missed}");
}

#[test]
fn widths_do_not_change_the_lines() {
    let kernel = kernel("triad");
    let moved = |width| {
        let parts = geometry::divide(&kernel, width, Bytes::mib(1), 1).expect("a geometry");
        traffic::lines_below(&kernel, &parts[0], Bytes::kib(32)).expect("exact")
    };
    let first = moved(Width::Scalar);
    assert!([Width::Sse, Width::Avx2, Width::Avx512].into_iter().all(|width| moved(width) == first));
}
