//! Shipped scenarios hold what they promise; no file brings the parser down; counted truth against walked truth.

mod oracle;

use std::sync::LazyLock;

use machine::{Bytes, Isa};
use proptest::prelude::*;

use super::{Plan, PlanError, Scenario, ScenarioError, parse, shipped, truth};
use crate::catalogue::KernelCatalogue;

pub(super) const AVX2: Isa = Isa { x86_64: true, avx: true, avx2: true, fma: true, avx512f: false };

fn catalogue() -> &'static KernelCatalogue {
    static BUILTIN: LazyLock<KernelCatalogue> =
        LazyLock::new(|| KernelCatalogue::builtin().expect("built-in kernels are valid"));
    &BUILTIN
}

fn scenario(name: &str, settings: &[(&str, &str)]) -> Scenario {
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let found = shipped::find(name).expect("shipped");
    found.parse(catalogue(), &settings).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn plan(name: &str, settings: &[(&str, &str)]) -> Plan {
    let scenario = scenario(name, settings);
    Plan::new(&scenario, scenario.threads.unwrap_or(2), &AVX2, 1).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn plan_of(text: &str) -> Result<Plan, PlanError> {
    let scenario = parse(text, "test.toml", catalogue(), &[]).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&scenario, scenario.threads.unwrap_or(2), &AVX2, 1)
}

/// The truth of one region, thread by thread.
fn region(plan: &Plan, path: &str) -> Vec<truth::ThreadTruth> {
    let index = plan.regions().iter().position(|region| region.path == path).expect("a region");
    truth::of(plan).swap_remove(index)
}

#[test]
fn shipped_scenarios_are_valid_on_every_cpu_and_scale() {
    let sse = Isa { avx: false, avx2: false, fma: false, ..AVX2 };
    let avx512 = Isa { avx512f: true, ..AVX2 };
    for shipped in shipped::ALL {
        let scenario = scenario(shipped.name, &[]);
        assert_eq!(scenario.name, shipped.name);
        for isa in [sse, AVX2, avx512] {
            for scale in [1, 16, 64] {
                let plan = Plan::new(&scenario, scenario.threads.unwrap_or(3), &isa, scale)
                    .unwrap_or_else(|error| panic!("{} at 1/{scale}: {error}", shipped.name));
                let truth = truth::of(&plan);
                assert!(
                    truth.iter().flatten().any(|thread| thread.counts.instructions > 0),
                    "{}",
                    shipped.name
                );
            }
        }
    }
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let page = include_str!("../../../../docs/scenarios.md");
    let example = page.split("```").nth(1).and_then(|block| block.strip_prefix("toml")).expect("an example");
    let plan = plan_of(example).expect("a plan");
    assert_eq!(plan.regions().len(), 3);
    for shipped in shipped::ALL {
        assert!(page.contains(&format!("| `{}` |", shipped.name)), "{} is not documented", shipped.name);
    }
}

#[test]
fn one_thread_has_three_times_the_work() {
    let plan = plan("imbalance", &[("rounds", "7")]);
    let exact = region(&plan, "passes");
    assert_eq!(exact[0].counts.flops, 3 * exact[1].counts.flops);
    // 8 MiB of doubles, 4 passes, 7 rounds, an addition each.
    assert_eq!(exact[1].counts.flops, (8 << 20) / 8 * 4 * 7);
    assert_eq!(exact[0].data, Bytes::mib(8));
    let triangle = region(&plan, "triangle");
    // 32 MiB are 2048 rows; row i has 2048 - i elements, multiplied and added, 4 passes in each of 7 rounds. What
    // the end of a row costs is the same for both.
    let elements = |rows: std::ops::Range<u64>| rows.map(|row| 2048 - row).sum::<u64>();
    let difference = 2 * (elements(0..1024) - elements(1024..2048)) * 4 * 7;
    assert_eq!(triangle[0].counts.flops - triangle[1].counts.flops, difference);
    let ratio = triangle[0].counts.flops as f64 / triangle[1].counts.flops as f64;
    assert!((2.95..3.0).contains(&ratio), "{ratio}");
}

#[test]
fn every_line_produced_is_taken_over() {
    let plan = plan("producer-consumer", &[("lines", "8"), ("size", "64K"), ("rounds", "3")]);
    let lines = (64 << 10) / 64 * 3;
    for path in ["line-by-line", "at-once/consume", "at-once"] {
        let threads = region(&plan, path);
        assert_eq!(threads[0].transfers.exact(), Some(0), "{path}");
        assert_eq!(threads[1].transfers.exact(), Some(lines), "{path}");
    }
    let threads = region(&plan, "line-by-line");
    // A turn is a call: 8 stores or loads of 8 bytes each, and the code around them.
    assert!(threads[0].counts.stores >= lines && threads[1].counts.loads >= lines);
    assert_eq!(threads[1].data, Bytes::kib(64));
}

#[test]
fn shared_lines_have_bounds_and_own_lines_do_not_move() {
    let plan = plan("false-sharing", &[("passes", "10"), ("rounds", "2")]);
    for thread in region(&plan, "same-line") {
        assert_eq!(thread.transfers.least, 0);
        // Each addition is a load and a store.
        assert!(thread.transfers.most >= 2 * 10 * 1024 * 2, "{:?}", thread.transfers);
    }
    for thread in region(&plan, "own-lines") {
        assert!(thread.transfers.most <= 1, "left over from the region before: {:?}", thread.transfers);
    }
}

#[test]
fn outer_regions_sum_up_inner_ones() {
    let plan = plan("bandwidth-compute", &[("size", "1M")]);
    let [program, bandwidth, compute] =
        ["program", "program/bandwidth", "program/compute"].map(|path| region(&plan, path));
    for thread in 0..2 {
        let sum = bandwidth[thread].counts + compute[thread].counts;
        assert_eq!(program[thread].counts, sum);
        assert_eq!((program[thread].data, compute[thread].data), (Bytes::mib(1), Bytes(0)));
    }
    // Two flops per element of three operands and a result: 1 MiB in four streams.
    assert_eq!(bandwidth[0].counts.flops, 2 * (1 << 20) / 4 / 8 * 2 * 5);
}

#[test]
fn a_rate_is_turned_into_nops() {
    let mut plan = plan("stream-rate", &[("b", "1.5GB/s"), ("size", "1M")]);
    assert_eq!(plan.steps()[0].rate_bytes_per_s, Some(1.5e9));
    assert_eq!(plan.steps()[0].line_bytes_per_iteration(), 4 * 64);
    let before = region(&plan, "work")[0].counts;
    plan.set_nops(0, 100).expect("a number of nops");
    let after = region(&plan, "work")[0].counts;
    assert_eq!(before.loads, after.loads);
    // A nop, a decrement and a jump each, and one move before them.
    assert_eq!(after.instructions - before.instructions, 10 * (1 << 20) / 256 * 301);
}

#[test]
fn random_branches_are_counted_entry_by_entry() {
    let text = "name = \"coins\"\nabout = \"\"\nthreads = 1\nREGION
[[region.step]]\nkernel = \"branch-miss\"\npasses = 3\n";
    let of = |regions: &str| plan_of(&text.replace("REGION", regions)).expect("a plan");
    let one = of("[[region]]\nname = \"a\"\nrepeat = 4");
    let step = &one.steps()[0];
    let part = &step.parts[0];
    // Heads are longer by a jump: four entries of 3 passes are 12 passes but for the code around them.
    let whole = crate::truth::counts(&part.program, &part.geometry, 12, part.random);
    let empty = crate::truth::counts(&part.program, &part.geometry, 0, part.random);
    let truth = region(&one, "a")[0].counts;
    assert_eq!(truth.branches - 4 * empty.branches, whole.branches - empty.branches);
    assert_eq!(truth.instructions - 4 * empty.instructions, whole.instructions - empty.instructions);
}

/// A valid scenario to be spoilt.
const GOOD: &str = r#"name = "good"
about = "a chase, and two threads that share"
threads = 2

[set]
size = "64K"

[[buffer]]
name = "mine"
size = "$size"

[[buffer]]
name = "ours"
size = "$size"
sharing = "shared"

[[region]]
name = "outer"
repeat = 3

[[region.region]]
name = "inner"

[[region.region.step]]
kernel = "chase"
buffer = "mine"
passes = 2

[[region.region.step]]
kernel = "triad"
buffer = "ours"
width = "avx2"
"#;

#[test]
fn mistakes_are_found_where_they_are() {
    let cases = [
        ("\"good\"", "\"Good one\"", "1:9: 'Good one' is no scenario name"),
        ("threads = 2", "threads = 0", "3:11: threads is a whole number from 1 to 1024"),
        ("threads = 2", "threads = \"some\"", "3:12: threads is a number, or any"),
        ("threads = 2", "thread = 2", "unknown field `thread`"),
        ("size = \"$size\"", "size = \"$sice\"", "10:9: there is no variable 'sice'"),
        ("size = \"64K\"", "size = \"64Q\"", "10:9: '64Q' is not a size"),
        ("size = \"64K\"", "size = \"9999T\"", "10:9: a size is from 1 byte to 1 TiB ($size is '9999T')"),
        ("\"ours\"\nsize", "\"mine\"\nsize", "13:9: a buffer named 'mine' stands here already"),
        ("\"shared\"", "\"open\"", "15:12: sharing is one of private, shared"),
        ("repeat = 3", "repeat = 600000", "18:9: regions and steps happen more than 1000000 times"),
        ("repeat = 3", "repeat = -3", "19:10: repeat is a whole number"),
        ("\"chase\"", "\"chasm\"", "25:11: unknown kernel 'chasm'"),
        (
            "\"chase\"",
            "\"producer-consumer\"",
            "26:11: kernel 'producer-consumer' works on one buffer together",
        ),
        ("\"chase\"", "\"mul-chain\"", "26:11: kernel 'mul-chain' touches no memory"),
        ("buffer = \"mine\"\n", "", "25:11: kernel 'chase' needs a buffer"),
        ("buffer = \"mine\"", "buffer = \"none\"", "26:11: there is no buffer 'none'"),
        ("passes = 2", "passes = 0", "27:10: passes is a whole number"),
        ("passes = 2", "threads = [2]", "27:11: thread 2 does not take part here"),
        ("passes = 2", "threads = [0, 0]", "27:11: threads is a list of different"),
        ("passes = 2", "parameters = { muls = 3 }", "27:23: kernel 'chase' has no parameter 'muls'"),
        ("passes = 2", "rate = \"2GB/s\"", "27:8: a rate needs a kernel with a parameter nops"),
        ("passes = 2", "shift = 8", "27:9: shift is for kernels at a fixed place"),
        ("passes = 2", "span = \"whole\"", "27:8: span = \"whole\" is for shared buffers"),
        ("width = \"avx2\"", "width = \"mmx\"", "32:10: unknown width 'mmx'"),
        (
            "[[region.region]]\nname = \"inner\"\n",
            "[[region.step]]\nkernel = \"fma-lanes\"\n[[region.region]]\nname = \"inner\"\n",
            "18:9: a region holds steps or regions, not both",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replacen(from, to, 1);
        let error = parse(&text, "f.toml", catalogue(), &[]).expect_err(to).to_string();
        assert!(error.starts_with("f.toml:") && error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn settings_are_those_of_the_file() {
    let set =
        |name: &str, value: &str| parse(GOOD, "f.toml", catalogue(), &[(name.to_owned(), value.to_owned())]);
    assert_eq!(set("size", "1M").expect("a size").buffers[0].size, Bytes::mib(1));
    assert!(matches!(set("sice", "1M"), Err(ScenarioError::UnknownVariable { .. })));
    let error = set("size", "much").expect_err("no size").to_string();
    assert!(error.contains("f.toml:10:9") && error.contains("($size is 'much')"), "{error}");
}

#[test]
fn nobody_writes_over_pointers() {
    let spoilt = GOOD.replace("buffer = \"ours\"", "buffer = \"mine\"");
    assert!(matches!(plan_of(&spoilt), Err(PlanError::Chain { .. })));
    let read = spoilt.replace("\"triad\"", "\"load\"");
    assert!(plan_of(&read).is_ok());
    // A chain of pages and one of lines cannot lie in the same place.
    let crossed = read.replace("\"load\"", "\"chase-pages\"").replace("width = \"avx2\"\n", "");
    assert!(matches!(plan_of(&crossed), Err(PlanError::Chain { .. })));
}

#[test]
fn plans_that_cannot_be() {
    let scenario = scenario("imbalance", &[]);
    assert!(matches!(Plan::new(&scenario, 3, &AVX2, 1), Err(PlanError::Threads { needed: 2, given: 3, .. })));
    assert!(matches!(Plan::new(&scenario, 2, &AVX2, 0), Err(PlanError::Scale)));
    let error = plan_of(&GOOD.replace("64K", "64")).expect_err("too little data").to_string();
    assert!(error.contains("step 1 of 'outer/inner'") && error.contains("needs at least"), "{error}");
    let endless = GOOD.replace("passes = 2", "passes = 1000000000").replace("64K", "1T");
    assert!(matches!(plan_of(&endless), Err(PlanError::Assemble { .. } | PlanError::TooMuch { .. })));
    let any = GOOD.replace("threads = 2", "threads = \"any\"").replace("passes = 2", "threads = [7]");
    assert!(matches!(plan_of(&any), Err(PlanError::NoSuchThread { thread: 7, threads: 2, .. })));
}

#[test]
fn deep_and_wide_files_are_refused_quickly() {
    let header = "name = \"a\"\nabout = \"\"\nthreads = 1\n";
    let deep = |levels: usize| {
        let regions: String = (1..=levels)
            .map(|level| format!("[[{}]]\nname = \"r\"\n", vec!["region"; level].join(".")))
            .collect();
        format!("{header}{regions}")
    };
    for text in [
        deep(12),
        deep(100),
        format!("{header}[[{}region]]\nname = \"r\"\n", "region.".repeat(20_000)),
        format!("{header}set = {{ x = {}1{} }}", "[".repeat(50_000), "]".repeat(50_000)),
        format!("{header}{}", "[[region]]\nname = \"r\"\n".repeat(10_000)),
        format!("{header}{}", "#".repeat(2 << 20)),
    ] {
        assert!(parse(&text, "f.toml", catalogue(), &[]).is_err());
    }
}

/// Everything a runner asks of a scenario.
fn use_it(text: &str) {
    let Ok(scenario) = parse(text, "f.toml", catalogue(), &[]) else { return };
    let Ok(plan) = Plan::new(&scenario, scenario.threads.unwrap_or(2), &AVX2, 1) else { return };
    let truth = truth::of(&plan);
    assert_eq!(truth.len(), plan.regions().len());
    let lines = truth::lines_below(&plan, Bytes::kib(32)).expect("lines");
    assert!(lines.iter().flatten().all(|lines| lines.inward.is_finite()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn spoilt_files_never_panic(
        which in 0..shipped::ALL.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[ -~\n]{0,8}"), 1..5),
    ) {
        let mut text = shipped::ALL[which].text.to_owned();
        for (at, length, put) in edits {
            let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            if bounds.is_empty() { break }
            let from = at.index(bounds.len());
            let to = (from + length).min(bounds.len() - 1).max(from);
            text.replace_range(bounds[from]..bounds[to], &put);
        }
        use_it(&text);
    }

    #[test]
    fn other_numbers_and_words_never_panic(
        which in 0..shipped::ALL.len(),
        at in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            "0", "1", "-1", "64", "100000", "9223372036854775807", "\"\"", "\"$size\"", "\"1T\"", "\"100B\"",
            "\"any\"", "[0]", "[]", "[1, 0]", "\"store\"", "\"chase\"", "\"triangle\"", "\"branch-miss\"",
            "\"shared\"", "\"whole\"", "\"remote\"", "\"9GB/s\"", "\"counter\"", "true", "{ a = 1 }",
        ]),
    ) {
        let text = shipped::ALL[which].text;
        let lines: Vec<usize> =
            text.lines().enumerate().filter(|(_, line)| line.contains(" = ")).map(|(at, _)| at).collect();
        let spoilt = lines[at.index(lines.len())];
        let changed: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(number, line)| match line.split_once(" = ") {
                Some((key, _)) if number == spoilt => format!("{key} = {value}"),
                _ => line.to_owned(),
            })
            .collect();
        use_it(&changed.join("\n"));
    }
}
