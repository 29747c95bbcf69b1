//! Every formula of kruse2011 ch. 4 and 6 on fixed counts, against results worked out by hand.
#![allow(clippy::unwrap_used)]

use events::{
    Catalogue, MetricGroup, ValueBound,
    groups::{Chosen, FormulaInputs, MetricValue},
    names::{self, Context},
};

/// By the event that the paper names, so that it matters which one an input is.
const CORE: [(&str, f64); 21] = [
    ("UNHALTED_CORE_CYCLES", 10_000.0),
    ("INSTRUCTIONS_RETIRED", 8_000.0),
    ("RS_UOPS_DISPATCHED", 12_000.0),
    ("RS_UOPS_DISPATCHED:CMASK=1", 6_000.0),
    ("RS_UOPS_DISPATCHED:CMASK=1:INV", 4_000.0),
    ("UOPS_RETIRED.ANY", 8_400.0),
    ("UOPS_RETIRED.FUSED", 1_600.0),
    ("MEM_LOAD_RETIRED.L2_LINE_MISS", 10.0),
    ("MEM_LOAD_RETIRED.L1D_LINE_MISS", 50.0),
    ("MEM_LOAD_RETIRED.DTLB_MISS", 20.0),
    ("ILD_STALL", 15.0),
    ("LOAD_BLOCK.STA", 8.0),
    ("LOAD_BLOCK.OVERLAP_STORE", 5.0),
    ("LOAD_BLOCK.UNTIL_RETIRE", 3.0),
    ("ITLB_MISS_RETIRED", 4.0),
    ("BRANCH_INSTRUCTIONS_RETIRED", 1_000.0),
    ("MISPREDICTED_BRANCH_RETIRED", 60.0),
    ("INST_RETIRED.LOADS", 2_000.0),
    ("INST_RETIRED.STORES", 800.0),
    ("INST_RETIRED.OTHER", 5_400.0),
    ("SIMD_COMP_INST_RETIRED.PACKED_SINGLE.PACKED_DOUBLE", 400.0),
];

/// By hand from the counts above; the program has 40 000 cycles.
const CORE_RESULTS: [(&str, f64); 49] = [
    ("total cycles", 10_000.0),
    ("issuing µops", 6_000.0),
    ("not issuing µops", 4_000.0),
    ("issuing and not issuing", 100.0),
    ("µops per issuing cycle", 2.0),
    ("retired µops", 10_000.0),
    ("non-retired µops", 2_000.0),
    ("retiring", 5_000.0),
    ("non-retiring", 1_000.0),
    ("retiring share", 50.0),
    ("non-retiring share", 10.0),
    ("stalled share", 40.0),
    ("all three", 100.0),
    // 10 · 200, (50 − 10) · 14.5, 20 · 10, 15 · 6, 8 · 5, 5 · 6, 3 · 20
    ("L2 miss impact", 2_000.0),
    ("L2 hit impact", 580.0),
    ("L1 DTLB miss impact", 200.0),
    ("LCP impact", 90.0),
    ("loads blocked by unknown store addresses", 40.0),
    ("loads overlapping stores", 30.0),
    ("loads across lines", 60.0),
    ("store forwarding impact", 130.0),
    ("counted stalls", 3_000.0),
    ("counted of stalled", 75.0),
    ("L2 misses of counted stalls", 66.666_667),
    ("L2 hits of counted stalls", 19.333_333),
    ("DTLB misses of counted stalls", 6.666_667),
    ("LCP of counted stalls", 3.0),
    ("store forwarding of counted stalls", 4.333_333),
    ("unknown addresses of store forwarding", 30.769_231),
    ("overlaps of store forwarding", 23.076_923),
    ("splits of store forwarding", 46.153_846),
    ("instructions retired", 8_000.0),
    ("ITLB miss rate", 0.05),
    ("branch instructions", 1_000.0),
    ("load instructions", 2_000.0),
    ("store instructions", 800.0),
    ("packed SIMD instructions", 400.0),
    // 5400 − 400 − 1000
    ("other instructions", 4_000.0),
    // 1000 + 2000 + 800 + 4000 + 400
    ("counted instructions", 8_200.0),
    ("mispredicted branches", 6.0),
    ("loads of all instructions", 24.390_244),
    ("stores of all instructions", 9.756_098),
    ("branches of all instructions", 12.195_122),
    ("packed SIMD of all instructions", 4.878_049),
    ("others of all instructions", 48.780_488),
    ("CPI", 1.25),
    ("iFactor", 5.0),
    ("cycles after improvement", 2_000.0),
    // 40000 − 10000 + 2000, and 100 − 32000 / 40000 · 100
    ("total cycles after improvement", 32_000.0),
];

const NEHALEM: [(&str, f64); 43] = [
    ("CPU_CLK_UNHALTED.THREAD_P", 10_000.0),
    ("INST_RETIRED.ANY_P", 5_000.0),
    ("UOPS_EXECUTED:0x3f:CMASK=1:INV", 6_000.0),
    ("UOPS_EXECUTED:0x3f", 7_000.0),
    ("ARITH.CYCLES_DIV_BUSY", 300.0),
    ("MEM_LOAD_RETIRED.L2_HIT", 100.0),
    ("MEM_LOAD_RETIRED.L3_UNSHARED_HIT", 20.0),
    ("MEM_LOAD_RETIRED.OTHER_CORE_L2_HIT_HITM", 9.0),
    ("MEM_UNCORE_RETIRED.OTHER_CORE_L2_HITM", 4.0),
    ("MEM_LOAD_RETIRED.L3_MISS", 12.0),
    ("MEM_UNCORE_RETIRED.LOCAL_DRAM", 5.0),
    ("MEM_UNCORE_RETIRED.REMOTE_DRAM", 3.0),
    ("MEM_UNCORE_RETIRED.REMOTE_CACHE_LOCAL_HOME_HIT", 2.0),
    ("DTLB_LOAD_MISSES.WALK_COMPLETED", 6.0),
    ("ITLB_MISSES.WALK_COMPLETED", 8.0),
    ("ITLB_MISS_RETIRED", 1.0),
    ("L2_RQSTS.IFETCH_HIT", 75.0),
    ("L2_RQSTS.IFETCH_MISS", 125.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.LOCAL_DRAM", 14.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.OTHER_CORE_HITM", 15.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.OTHER_CORE_HIT_SNP", 16.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.REMOTE_CACHE_FWD", 17.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.REMOTE_DRAM", 18.0),
    ("OFFCORE_RESPONSE_0.DMND_IFETCH.UNCORE_HIT", 19.0),
    ("BR_INST_EXEC.ANY", 1_000.0),
    ("BR_MISP_EXEC.ANY", 35.0),
    ("BR_INST_EXEC.DIRECT_NEAR_CALL", 50.0),
    ("BR_INST_EXEC.INDIRECT_NEAR_CALL", 10.0),
    ("BR_INST_EXEC.INDIRECT_NON_CALL", 22.0),
    ("BR_INST_EXEC.NEAR_CALLS", 60.0),
    ("BR_INST_EXEC.NON_CALLS", 880.0),
    ("BR_INST_EXEC.RETURN_NEAR", 65.0),
    ("BR_INST_RETIRED.ALL_BRANCHES", 900.0),
    ("BR_INST_RETIRED.CONDITIONAL", 700.0),
    ("BR_INST_RETIRED.NEAR_CALL", 55.0),
    ("UOPS_ISSUED:ANY:CMASK=1:INV", 5_500.0),
    ("RESOURCE_STALLS.ANY", 5_100.0),
    ("UOPS_DECODED:MS:CMASK=1", 40.0),
    ("MEM_INST_RETIRED.LOADS", 1_500.0),
    ("MEM_INST_RETIRED.STORES", 500.0),
    ("SSEX_UOPS_RETIRED.PACKED_DOUBLE", 200.0),
    ("SSEX_UOPS_RETIRED.PACKED_SINGLE", 110.0),
    ("UOPS_RETIRED.ANY", 7_500.0),
];

/// By hand from the counts above; the program has 20 000 cycles.
const NEHALEM_RESULTS: [(&str, f64); 74] = [
    ("total cycles", 10_000.0),
    ("stalled", 6_000.0),
    ("executing", 4_000.0),
    ("stalled share", 60.0),
    // 100 · 6, 20 · 35, (9 − 4) · 60, 4 · 75, 5 · 225, 3 · 360, 2 · 180, (12 − 5 − 3 − 2) · 200
    ("L2 hit impact", 600.0),
    ("L3 unshared hit impact", 700.0),
    ("other core hit impact", 300.0),
    ("other core modified impact", 300.0),
    ("local DRAM impact", 1_125.0),
    ("remote DRAM impact", 1_080.0),
    ("remote cache impact", 360.0),
    ("other L3 miss impact", 400.0),
    ("L3 miss impact", 2_965.0),
    ("L1 DTLB miss impact", 210.0),
    // 2965 + 600 + 210 + 700 + 300 + 300
    ("stalls of loads", 5_075.0),
    ("divides and square roots", 300.0),
    ("counted stalls", 5_375.0),
    ("counted of stalled", 89.583_333),
    ("L3 misses of counted stalls", 55.162_791),
    ("L2 hits of counted stalls", 11.162_791),
    ("DTLB misses of counted stalls", 3.906_977),
    ("L3 unshared hits of counted stalls", 13.023_256),
    ("other core hits of counted stalls", 5.581_395),
    ("other core modified hits of counted stalls", 5.581_395),
    ("divides and square roots of counted stalls", 5.581_395),
    // 14 · 200, 15 · 75, 16 · 60, 17 · 180, 18 · 350, 19 · 35; 100 · 125 / (75 + 125)
    ("fetches from local DRAM: impact", 2_800.0),
    ("fetches from L3, modified elsewhere: impact", 1_125.0),
    ("fetches from L3, clean snoop: impact", 960.0),
    ("fetches from remote cache: impact", 3_060.0),
    ("fetches from remote DRAM: impact", 6_300.0),
    ("fetches from L3, no snoop: impact", 665.0),
    ("L2 fetch miss impact", 14_910.0),
    ("fetches from local DRAM: share of impact", 18.779_343),
    ("fetches from L3, modified elsewhere: share of impact", 7.545_272),
    ("fetches from L3, clean snoop: share of impact", 6.438_632),
    ("fetches from remote cache: share of impact", 20.523_139),
    ("fetches from remote DRAM: share of impact", 42.253_521),
    ("fetches from L3, no snoop: share of impact", 4.460_094),
    ("L2 fetch misses", 125.0),
    ("fetches from local DRAM", 11.2),
    ("fetches from L3, modified elsewhere", 12.0),
    ("fetches from L3, clean snoop", 12.8),
    ("fetches from remote cache", 13.6),
    ("fetches from remote DRAM", 14.4),
    ("fetches from L3, no snoop", 15.2),
    ("L2 fetch miss rate", 62.5),
    ("L1 ITLB miss impact", 280.0),
    ("ITLB miss rate", 0.02),
    ("instruction starvation", 4.0),
    ("microcode", 0.4),
    ("branches executed", 1_000.0),
    ("mispredicted branches", 3.5),
    ("direct calls of branches", 5.0),
    ("indirect calls of branches", 1.0),
    ("indirect jumps of branches", 2.2),
    ("calls of branches", 6.0),
    ("other than calls of branches", 88.0),
    ("returns of branches", 6.5),
    ("branches retired", 900.0),
    ("conditionals of branches", 77.777_778),
    ("calls of branches retired", 6.111_111),
    ("instructions per call", 83.333_333),
    ("instructions retired", 5_000.0),
    ("load instructions", 1_500.0),
    ("store instructions", 500.0),
    ("other instructions", 2_100.0),
    ("packed µops", 310.0),
    ("loads of all instructions", 30.0),
    ("stores of all instructions", 10.0),
    ("branches of all instructions", 18.0),
    ("others of all instructions", 42.0),
    ("packed of all µops", 4.133_333),
    ("CPI", 2.0),
    ("iFactor", 8.0),
];

fn chosen(group: &str, catalogue: &str) -> Chosen<'static> {
    let catalogue = Catalogue::named(catalogue).unwrap();
    let context = Context { catalogue: Some(catalogue), ..Context::default() };
    let chosen = MetricGroup::named(group).unwrap().choose(&|event| names::is_known(event, &context));
    assert_eq!(chosen.missing, [""; 0], "{group}");
    chosen
}

fn evaluate<'a>(
    chosen: &'a Chosen<'_>,
    counts: &[(&str, f64)],
    program_cycles: Option<f64>,
) -> Vec<MetricValue<'a>> {
    let count = |input: &str| counted(chosen, counts, input);
    chosen.evaluate(&FormulaInputs { count: &count, seconds: None, program_cycles, profile: None })
}

/// The count of the event that a group takes for an input.
fn counted(chosen: &Chosen<'_>, counts: &[(&str, f64)], input: &str) -> Option<f64> {
    let event = chosen.event(input)?;
    counts.iter().find(|(name, _)| *name == event).map(|(_, value)| *value)
}

fn found<'a, 'b>(values: &'b [MetricValue<'a>], name: &str) -> &'b MetricValue<'a> {
    values.iter().find(|value| value.metric.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn check(values: &[MetricValue<'_>], results: &[(&str, f64)], beyond: &[&str]) {
    for (name, expected) in results {
        let value = found(values, name).value.as_ref().unwrap();
        assert!(
            (value.value - expected).abs() < 1e-6 * expected.abs().max(1.0),
            "{name}: {value:?}, {expected}"
        );
        assert_eq!(value.bound, ValueBound::Exact, "{name}");
    }
    let worked_out = |name: &str| beyond.contains(&name) || results.iter().any(|(known, _)| *known == name);
    for value in values {
        assert!(worked_out(&value.metric.name), "{} is not worked out by hand", value.metric.name);
    }
}

#[test]
fn core_by_hand() {
    let chosen = chosen("ACCOUNTING_CORE", "core2");
    let values = evaluate(&chosen, &CORE, Some(40_000.0));
    check(&values, &CORE_RESULTS, &["iMargin"]);
    let margin = found(&values, "iMargin");
    assert_eq!(margin.value.as_ref().unwrap().value, 20.0, "of a program four times as long");
    assert_eq!(margin.printed.as_ref().unwrap().as_ref().unwrap().value, 80.0, "100 · (1 − 0.25 / 1.25)");
    // Of the whole program both are the same.
    let values = evaluate(&chosen, &CORE, None);
    assert_eq!(found(&values, "iMargin").value.as_ref().unwrap().value, 80.0);
}

#[test]
fn nehalem_by_hand() {
    let chosen = chosen("ACCOUNTING_NEHALEM", "nehalem-ep");
    let values = evaluate(&chosen, &NEHALEM, Some(20_000.0));
    let beyond = ["iMargin", "cycles after improvement", "total cycles after improvement"];
    check(&values, &NEHALEM_RESULTS, &beyond);
    let value = |name: &str| found(&values, name).value.as_ref().unwrap().value;
    let printed = |name: &str| found(&values, name).printed.as_ref().unwrap().as_ref().unwrap().value;
    // 10000 / 8, 20000 − 10000 + 1250, 100 − 11250 / 20000 · 100
    assert_eq!(beyond.map(value), [43.75, 1_250.0, 11_250.0]);
    assert_eq!(printed("iMargin"), 87.5);
    assert_eq!(printed("stalled"), 7_000.0, "µops, not cycles");
    assert_eq!(printed("stalled share"), 70.0);
    // (12 − (1125 + 1080 + 360)) · 200
    assert_eq!(printed("other L3 miss impact"), -510_600.0, "cycles taken off counts");
}

#[test]
fn a_part_that_is_missing_is_named() {
    let chosen = chosen("ACCOUNTING_CORE", "core2");
    let counts: Vec<_> = CORE.into_iter().filter(|(name, _)| *name != "LOAD_BLOCK.STA").collect();
    let values = evaluate(&chosen, &counts, None);
    let value = |name: &str| found(&values, name).value.clone();
    assert!(value("loads blocked by unknown store addresses").is_err());
    let forwarding = value("store forwarding impact").unwrap();
    assert_eq!((forwarding.value, forwarding.bound), (90.0, ValueBound::AtLeast));
    assert_eq!(forwarding.without, ["LOAD_BLOCK.STA"]);
    let stalls = value("counted stalls").unwrap();
    assert_eq!(
        (stalls.value, stalls.bound, stalls.without),
        (2_960.0, ValueBound::AtLeast, vec!["LOAD_BLOCK.STA".to_owned()])
    );
    assert_eq!(value("L2 misses of counted stalls").unwrap().bound, ValueBound::AtMost);
    assert_eq!(value("CPI").unwrap().bound, ValueBound::Exact);
}

#[test]
fn measured_penalties_stand_beside_the_papers() {
    let chosen = chosen("ACCOUNTING_CORE", "core2");
    let count = |input: &str| counted(&chosen, &CORE, input);
    let profile = |name: &str| (name == "memory_cycles").then_some(250.0);
    let inputs =
        FormulaInputs { count: &count, seconds: None, program_cycles: None, profile: Some(&profile) };
    let values = chosen.evaluate(&inputs);
    let measured = |name: &str| found(&values, name).measured.as_ref().map(|value| value.value);
    assert_eq!(measured("L2 miss impact"), Some(2_500.0));
    assert_eq!(measured("counted stalls"), Some(3_500.0), "what uses it changes as well");
    assert_eq!(measured("L2 hit impact"), None, "nothing was measured for it");
    assert_eq!(measured("CPI"), None);
}

#[test]
fn a_family_gives_the_group_that_fits() {
    for (catalogue, group) in [("core2", "ACCOUNTING_CORE"), ("nehalem-ep", "ACCOUNTING_NEHALEM")] {
        let catalogue = Catalogue::named(catalogue).unwrap();
        let context = Context { catalogue: Some(catalogue), ..Context::default() };
        let has = |event: &str| names::is_known(event, &context);
        assert_eq!(MetricGroup::fitting("accounting", &has).unwrap().name, group);
        assert_eq!(MetricGroup::fitting("MEM", &has).unwrap().name, "MEM");
        assert!(MetricGroup::fitting("nothing", &has).is_none());
    }
}

/// The same formula with one thing broken: an operator turned around, or a number larger by one.
fn broken(formula: &str) -> Vec<String> {
    let turned = [(" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * ")];
    let operators = turned.iter().flat_map(|(from, to)| {
        formula
            .match_indices(from)
            .map(move |(at, _)| format!("{}{to}{}", &formula[..at], &formula[at + from.len()..]))
    });
    let mut all: Vec<String> = operators.collect();
    let starts = formula.char_indices().filter(|(at, c)| {
        c.is_ascii_digit()
            && !formula[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || "._".contains(c))
    });
    for (at, _) in starts {
        let rest = &formula[at..];
        // A floor that these counts do not reach.
        if rest.starts_with("0)") {
            continue;
        }
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().unwrap();
        all.push(format!("{}{}{}", &formula[..at], number + 1.0, &rest[end..]));
    }
    all
}

/// Breaks every formula of a group file in every way, and returns those that the results worked out by hand do not notice.
fn unnoticed(
    text: &str,
    counts: &[(&str, f64)],
    program_cycles: f64,
    results: &[(&str, f64)],
) -> (usize, Vec<String>) {
    let (mut tried, mut survivors) = (0, Vec::new());
    let mut at = 0;
    while let Some(found) = text[at..].find("\nformula = \"") {
        let start = at + found + "\nformula = \"".len();
        let end = start + text[start..].find('"').unwrap();
        for formula in broken(&text[start..end]) {
            let mutant = format!("{}{formula}{}", &text[..start], &text[end..]);
            let groups = MetricGroup::parse(&mutant, "broken.toml").unwrap();
            let chosen = groups[0].choose(&|_| true);
            let values = evaluate(&chosen, counts, Some(program_cycles));
            let differs = |(name, expected): &(&str, f64)| {
                let value = values
                    .iter()
                    .find(|value| value.metric.name == *name)
                    .and_then(|found| found.value.as_ref().ok());
                !value.is_some_and(|value| (value.value - expected).abs() <= 1e-6 * expected.abs().max(1.0))
            };
            tried += 1;
            if !results.iter().any(differs) {
                survivors.push(format!("{} became {formula}", &text[start..end]));
            }
        }
        at = end;
    }
    (tried, survivors)
}

#[test]
fn a_broken_formula_is_noticed() {
    let core = [&CORE_RESULTS[..], &[("iMargin", 20.0)]].concat();
    let (tried, survivors) =
        unnoticed(include_str!("../groups/accounting_core.toml"), &CORE, 40_000.0, &core);
    assert!(tried > 60 && survivors.is_empty(), "{tried} tried: {survivors:#?}");
    let beyond = [
        ("iMargin", 43.75),
        ("cycles after improvement", 1_250.0),
        ("total cycles after improvement", 11_250.0),
    ];
    let nehalem = [&NEHALEM_RESULTS[..], &beyond].concat();
    let (tried, survivors) =
        unnoticed(include_str!("../groups/accounting_nehalem.toml"), &NEHALEM, 20_000.0, &nehalem);
    assert!(tried > 100 && survivors.is_empty(), "{tried} tried: {survivors:#?}");
}

/// The lines of the inputs of a group file, from and to where each event stands.
fn events_of_inputs(text: &str) -> Vec<std::ops::Range<usize>> {
    let begin = text.find("[group.inputs]\n").unwrap();
    let end = begin + text[begin..].find("\n\n").unwrap();
    let mut found = Vec::new();
    for (at, _) in text[begin..end].match_indices(" = [\"") {
        let from = begin + at + " = [\"".len();
        found.push(from..from + text[from..].find('"').unwrap());
    }
    found
}

/// Every two inputs take each other's events.
#[test]
fn swapped_events_are_noticed() {
    let nehalem = [
        &NEHALEM_RESULTS[..],
        &[("iMargin", 43.75), ("stalled", 6_000.0), ("total cycles after improvement", 11_250.0)],
    ]
    .concat();
    for (text, counts, program_cycles, results) in [
        (include_str!("../groups/accounting_core.toml"), &CORE[..], 40_000.0, &CORE_RESULTS[..]),
        (include_str!("../groups/accounting_nehalem.toml"), &NEHALEM[..], 20_000.0, &nehalem[..]),
    ] {
        let places = events_of_inputs(text);
        assert_eq!(places.len(), counts.len());
        let mut unnoticed = Vec::new();
        for (at, one) in places.iter().enumerate() {
            for other in &places[at + 1..] {
                let (first, second) = (&text[one.clone()], &text[other.clone()]);
                let swapped =
                    [&text[..one.start], second, &text[one.end..other.start], first, &text[other.end..]]
                        .concat();
                let groups = MetricGroup::parse(&swapped, "swapped.toml").unwrap();
                let chosen = groups[0].choose(&|_| true);
                let values = evaluate(&chosen, counts, Some(program_cycles));
                let agrees = |(name, expected): &(&str, f64)| {
                    let value = values.iter().find(|value| value.metric.name == *name);
                    let value = value.and_then(|found| found.value.as_ref().ok());
                    value
                        .is_some_and(|value| (value.value - expected).abs() <= 1e-6 * expected.abs().max(1.0))
                };
                if results.iter().all(agrees) {
                    unnoticed.push(format!("{first} and {second}"));
                }
            }
        }
        // Of these pairs only the sums are used: retired µops, and packed ones.
        let summed = [
            "UOPS_RETIRED.ANY and UOPS_RETIRED.FUSED",
            "SSEX_UOPS_RETIRED.PACKED_DOUBLE and SSEX_UOPS_RETIRED.PACKED_SINGLE",
        ];
        unnoticed.retain(|pair| !summed.contains(&pair.as_str()));
        assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    }
}

/// By hand, molka2017 Fig. 10. 10000 cycles, 6000 without execution: 4000 of them while a load misses, 1500 while no store has
/// room. Buffers are full in 300 and 200; of 5000 cycles with a miss 2500 have several.
const STALLS: [(&str, f64); 8] = [
    ("CPU_CLK_UNHALTED.THREAD", 10_000.0),
    ("CYCLE_ACTIVITY.CYCLES_NO_EXECUTE", 6_000.0),
    ("CYCLE_ACTIVITY.STALLS_L1D_PENDING", 4_000.0),
    ("RESOURCE_STALLS.SB", 1_500.0),
    ("L1D_PEND_MISS.FB_FULL", 300.0),
    ("OFFCORE_REQUESTS_BUFFER.SQ_FULL", 200.0),
    ("L1D_PEND_MISS.PENDING_CYCLES", 5_000.0),
    ("L1D_PEND_MISS.PENDING:c=2", 2_500.0),
];

#[test]
fn stalls_by_hand() {
    let chosen = chosen("STALLS", "haswell-ep");
    let with = |changed: &[(&str, f64)]| {
        let mut counts = STALLS;
        for (event, value) in changed {
            counts.iter_mut().find(|(name, _)| name == event).unwrap().1 = *value;
        }
        let values = evaluate(&chosen, &counts, None);
        let names = ["productive", "memory bound", "bandwidth bound", "latency bound", "other stalls"];
        let worked_out = names.map(|name| found(&values, name).value.as_ref().unwrap().value);
        let printed = ["bandwidth bound", "latency bound"]
            .map(|name| found(&values, name).printed.as_ref().unwrap().as_ref().unwrap().value);
        (worked_out, printed)
    };
    // max(1500, 300 + 200, 4000 · 2500 / 5000) = 2000; as the paper has it max(300 + 200, 1500) = 1500.
    assert_eq!(with(&[]), ([40.0, 40.0, 20.0, 20.0, 20.0], [15.0, 25.0]));
    // Stores are waited for longer than loads: max(4000, 5000) = 5000, all of it for want of bandwidth.
    assert_eq!(with(&[("RESOURCE_STALLS.SB", 5_000.0)]), ([40.0, 50.0, 50.0, 0.0, 10.0], [50.0, 0.0]));
    // One miss at a time: 4000 · 100 / 5000 = 80, less than full buffers.
    assert_eq!(
        with(&[("L1D_PEND_MISS.PENDING:c=2", 100.0), ("RESOURCE_STALLS.SB", 0.0)]),
        ([40.0, 40.0, 5.0, 35.0, 20.0], [5.0, 35.0])
    );
    // Full buffers in more cycles than memory is waited for: cut to those, also as printed.
    assert_eq!(with(&[("L1D_PEND_MISS.FB_FULL", 6_000.0)]), ([40.0, 40.0, 40.0, 0.0, 20.0], [40.0, 0.0]));
    let values = evaluate(&chosen, &STALLS, None);
    // 4000 + 1500, one after the other.
    assert_eq!(found(&values, "memory bound, one after the other").value.as_ref().unwrap().value, 55.0);
}
