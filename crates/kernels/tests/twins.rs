//! Every kernel in every width this CPU has, run on small data, against a naive twin that interprets the
//! description element by element.

mod twin;

use kernels::{
    Job, Kernel, KernelCatalogue, Workload,
    description::{Description, KernelShape, KernelStream, StreamPattern},
    generate::RandomKernel,
};
use machine::{Bytes, Isa, Width};
use proptest::prelude::*;
use twin::Twin;

fn cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

fn prepare(kernel: &Kernel, width: Width, size: u64, seed: u64) -> Workload {
    let threads = kernel.description().fixed_threads().unwrap_or(1);
    let cpus = vec![cpu(); threads];
    let job = Job::new(kernel.clone(), Bytes(size), &cpus).in_width(width).on_small_pages().seeded(seed);
    Workload::prepare(&job).unwrap_or_else(|error| panic!("{job} {width}: {error}"))
}

/// Streams that hold numbers of elements, which must stay.
fn numbers(description: &Description) -> impl Iterator<Item = (usize, &KernelStream)> {
    let holds =
        |(_, stream): &(usize, &KernelStream)| matches!(stream.pattern, StreamPattern::Numbers { .. });
    description.streams.iter().enumerate().filter(holds)
}

/// Numbers around one, different in every place.
fn scatter(words: &mut [u64], element: u64, seed: u64) {
    let mut random = kernels::draw::SplitMix::new(seed);
    for word in words {
        let number = 0.5 + random.below(1 << 20) as f64 / (1 << 20) as f64;
        *word = match element {
            4 => u64::from((number as f32).to_bits()) << 32 | u64::from((1.5 - number as f32).to_bits()),
            _ => number.to_bits(),
        };
    }
}

fn compare(kernel: &Kernel, width: Width, size: u64, passes: u64, seed: u64) {
    let description = kernel.description();
    let mut workload = prepare(kernel, width, size, seed);
    let geometry = workload.geometry(0).clone();
    let arguments = workload.arguments(0).clone();
    let may_hold_anything = |stream: &KernelStream| {
        use StreamPattern::{Gathered, Numbers, Sequential};
        matches!(stream.pattern, Sequential { .. } | Numbers { .. } | Gathered { .. })
    };
    if description.streams.iter().all(may_hold_anything)
        && let Some(words) = workload.words_mut(0)
    {
        let kept = words.to_vec();
        scatter(words, description.element, seed);
        for (stream, _) in numbers(description) {
            let start = ((arguments.bases[stream] - arguments.bases[0]) / 8) as usize;
            let range = start..start + (geometry.stream_bytes / 8) as usize;
            words[range.clone()].copy_from_slice(&kept[range]);
        }
    }
    let before = workload.words_mut(0).map(|words| words.to_vec()).unwrap_or_default();
    let mut twin = Twin::new(kernel, width, &geometry, &arguments, before);
    twin.run(passes);
    let runs = workload.run(passes).expect("runs");
    assert_eq!(runs.threads.len(), description.fixed_threads().unwrap_or(1));
    let place = format!("{} {width} size {size} passes {passes} seed {seed}", kernel.name());
    for (slot, saved) in workload.program(0).results.iter().enumerate() {
        let result = workload.arguments(0).results[slot];
        if let Some(expected) = twin.result(slot, saved) {
            assert_eq!(&result[..expected.len()], expected, "{place}: {}", saved.name);
        }
    }
    let after = workload.words_mut(0).map(|words| words.to_vec()).unwrap_or_default();
    twin.compare_memory(&after, &place);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn machine_code_does_what_the_description_says(size in 24u64..80, passes in 1u64..4, seed: u64) {
        let catalogue = KernelCatalogue::builtin().expect("built-in kernels are valid");
        for kernel in catalogue.iter() {
            for &width in kernel.widths().iter().filter(|&&width| Isa::native().supports(width)) {
                compare(kernel, width, size * 1024, passes, seed);
            }
        }
    }
}

#[test]
fn random_kernels_do_what_their_text_says() {
    for seed in 0..150 {
        let random =
            RandomKernel::draw(seed, &Isa::native()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        compare(&random.kernel, random.width, 24_000, 2, seed);
    }
}

#[test]
fn single_precision_and_awkward_operands() {
    let text = r#"
        [[kernel]]
        name = "single"
        about = "s += A[i] / B[i], C[i] = A[i] * B[i] + A[i]"
        element = 4
        streams = ["A", "B", "C"]
        lanes = { s = 0.0 }
        unroll = 2
        body = ["x = load A", "y = div x, [B]", "s = add s, y", "y = fma x, [B], x", "store C, y"]

        [[kernel]]
        name = "offsets"
        about = "unaligned operands in memory, every order of registers"
        streams = ["A", "B"]
        constants = { c = 0.75 }
        unroll = 3
        body = [
            "x = mul c, [A+8]", "y = load A+24", "z = fma x, [A+8], y", "x = fma x, y, z", "y = fma c, y, x",
            "z = fma x, y, c", "x = div c, x", "z = div x, z", "y = add x, y", "z = fma y, [A], c", "store B, z",
        ]

        [[kernel]]
        name = "single-nt"
        about = "non-temporal stores of single precision"
        element = 4
        streams = ["A", "B"]
        body = ["x = load B", "store-nt A, x"]
    "#;
    let mut catalogue = KernelCatalogue::builtin().expect("built-in kernels are valid");
    catalogue.add(text, "test").expect("a valid file");
    for name in ["single", "offsets", "single-nt"] {
        let kernel = catalogue.get(name).expect("just added");
        for &width in kernel.widths().iter().filter(|&&width| Isa::native().supports(width)) {
            compare(&kernel, width, 40_000, 2, 5);
        }
    }
}

#[test]
fn a_triangle_of_two_threads_divides_three_to_one() {
    let kernel = KernelCatalogue::builtin().expect("valid").get("triangle").expect("exists");
    let cpus = [cpu(), cpu()];
    for width in Isa::native().widths() {
        let job = Job::new(kernel.clone(), Bytes::mib(8), &cpus).in_width(width).on_small_pages();
        let mut workload = Workload::prepare(&job).expect("prepares");
        workload.run(2).expect("runs");
        let order = workload.geometry(0).order;
        // The matrix holds 1 in the first thread's rows and 2 in the second's; the vector holds 1.
        let (results, words) = {
            let arguments = workload.arguments(0).clone();
            let words = workload.words_mut(0).expect("the first thread owns the data");
            let start = (arguments.bases[2] - words.as_ptr() as u64) / 8;
            (words[start as usize..][..order as usize].to_vec(), words.len())
        };
        assert!(words > 0);
        for (row, bits) in results.iter().enumerate() {
            let value = if (row as u64) < order / 2 { 1.0 } else { 2.0 };
            let expected = value * (order - row as u64) as f64;
            assert_eq!(f64::from_bits(*bits), expected, "{width} row {row} of {order}");
        }
        let counts = workload.counts(1);
        let flops: Vec<f64> = counts.iter().map(|counts| counts.flops as f64).collect();
        let ratio = flops[0] / flops[1];
        assert!((2.7..3.3).contains(&ratio), "{width}: {ratio}");
    }
}

#[test]
fn roehl_counts_of_the_triangle() {
    // roehl2016 Table 2.2: an order of 8192 gives two threads 25,167,872 and 8,390,656 elements.
    let kernel = KernelCatalogue::builtin().expect("valid").get("triangle").expect("exists");
    let size = Bytes(8192 * 8192 * 8);
    let parts = kernels::geometry::divide(&kernel, Width::Avx2, size, 2).expect("a geometry");
    let elements = |part: &kernels::geometry::Geometry| {
        (part.rows.0..part.rows.1).map(|row| part.order - row).sum::<u64>()
    };
    assert_eq!(parts.iter().map(elements).collect::<Vec<_>>(), [25_167_872, 8_390_656]);
    let program = kernels::assemble(&kernel, Width::Avx2, &parts[0], 0).expect("assembles");
    let counts = kernels::truth::counts(&program, &parts[0], 1, 0);
    // Two per element, and what it takes to add up the lanes of each row: 12 + 4 additions, 2, then 1.
    let per_row = 3 * 4 + 2 + 1;
    assert_eq!(counts.flops, 2 * 25_167_872 + 4096 * per_row);
}

#[test]
fn turns_hand_over_every_line() {
    let kernel = KernelCatalogue::builtin().expect("valid").get("producer-consumer").expect("exists");
    let kernel = kernel.with("lines", 4).expect("a parameter");
    assert!(matches!(kernel.description().shape, KernelShape::Turns { .. }));
    let mut workload = prepare(&kernel, Width::Scalar, 64 * 40, 1);
    workload.run(3).expect("runs");
    assert_eq!(workload.pass().expect("a pass").modified_transfers, 40);
    let words = workload.words_mut(0).expect("the first thread owns the data");
    assert!(words[..64 * 40 / 8].iter().step_by(8).all(|&word| word == 1));
}
