//! Every formula of kruse2011 ch. 4 and 6 on fixed counts, against results worked out by hand.
#![allow(clippy::unwrap_used)]

use events::{
    Catalogue, MetricGroup, ValueBound,
    groups::{Chosen, FormulaInputs, MetricValue},
    names::{self, Context},
};

const CORE: [(&str, f64); 21] = [
    ("cycles", 10_000.0),
    ("instructions", 8_000.0),
    ("dispatched", 12_000.0),
    ("issuing", 6_000.0),
    ("stalled", 4_000.0),
    ("retired", 8_400.0),
    ("fused", 1_600.0),
    ("l2_line_misses", 10.0),
    ("l1_line_misses", 50.0),
    ("dtlb_misses", 20.0),
    ("length_stalls", 15.0),
    ("blocked_address", 8.0),
    ("blocked_overlap", 5.0),
    ("blocked_retire", 3.0),
    ("itlb_misses", 4.0),
    ("branches", 1_000.0),
    ("mispredicted", 50.0),
    ("loads", 2_000.0),
    ("stores", 800.0),
    ("others", 5_400.0),
    ("packed", 400.0),
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
    ("mispredicted branches", 5.0),
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
    ("cycles", 10_000.0),
    ("instructions", 5_000.0),
    ("stalled", 6_000.0),
    ("executed", 7_000.0),
    ("divider", 300.0),
    ("l2_hits", 100.0),
    ("l3_unshared", 20.0),
    ("other_core", 9.0),
    ("other_core_modified", 4.0),
    ("l3_misses", 12.0),
    ("local_dram", 5.0),
    ("remote_dram", 3.0),
    ("remote_cache", 2.0),
    ("dtlb_walks", 6.0),
    ("itlb_walks", 2.0),
    ("itlb_misses", 1.0),
    ("fetch_hits", 30.0),
    ("fetch_misses", 20.0),
    ("fetch_local_dram", 2.0),
    ("fetch_modified", 1.0),
    ("fetch_snooped", 4.0),
    ("fetch_remote_cache", 1.0),
    ("fetch_remote_dram", 2.0),
    ("fetch_unshared", 10.0),
    ("branches_executed", 1_000.0),
    ("mispredicted", 30.0),
    ("direct_calls", 50.0),
    ("indirect_calls", 10.0),
    ("indirect_jumps", 20.0),
    ("calls", 60.0),
    ("non_calls", 880.0),
    ("returns", 60.0),
    ("branches", 900.0),
    ("conditionals", 700.0),
    ("calls_retired", 55.0),
    ("not_issuing", 5_500.0),
    ("resource_stalls", 5_000.0),
    ("microcode", 40.0),
    ("loads", 1_500.0),
    ("stores", 500.0),
    ("packed_double", 200.0),
    ("packed_single", 100.0),
    ("uops", 6_000.0),
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
    // 2 · 200, 1 · 75, 4 · 60, 1 · 180, 2 · 350, 10 · 35
    ("fetches from local DRAM: impact", 400.0),
    ("fetches from L3, modified elsewhere: impact", 75.0),
    ("fetches from L3, clean snoop: impact", 240.0),
    ("fetches from remote cache: impact", 180.0),
    ("fetches from remote DRAM: impact", 700.0),
    ("fetches from L3, no snoop: impact", 350.0),
    ("L2 fetch miss impact", 1_945.0),
    ("fetches from local DRAM: share of impact", 20.565_553),
    ("fetches from L3, modified elsewhere: share of impact", 3.856_041),
    ("fetches from L3, clean snoop: share of impact", 12.339_332),
    ("fetches from remote cache: share of impact", 9.254_499),
    ("fetches from remote DRAM: share of impact", 35.989_717),
    ("fetches from L3, no snoop: share of impact", 17.994_859),
    ("L2 fetch misses", 20.0),
    ("fetches from local DRAM", 10.0),
    ("fetches from L3, modified elsewhere", 5.0),
    ("fetches from L3, clean snoop", 20.0),
    ("fetches from remote cache", 5.0),
    ("fetches from remote DRAM", 10.0),
    ("fetches from L3, no snoop", 50.0),
    ("L2 fetch miss rate", 40.0),
    ("L1 ITLB miss impact", 70.0),
    ("ITLB miss rate", 0.02),
    ("instruction starvation", 5.0),
    ("microcode", 0.4),
    ("branches executed", 1_000.0),
    ("mispredicted branches", 3.0),
    ("direct calls of branches", 5.0),
    ("indirect calls of branches", 1.0),
    ("indirect jumps of branches", 2.0),
    ("calls of branches", 6.0),
    ("other than calls of branches", 88.0),
    ("returns of branches", 6.0),
    ("branches retired", 900.0),
    ("conditionals of branches", 77.777_778),
    ("calls of branches retired", 6.111_111),
    ("instructions per call", 83.333_333),
    ("instructions retired", 5_000.0),
    ("load instructions", 1_500.0),
    ("store instructions", 500.0),
    ("other instructions", 2_100.0),
    ("packed µops", 300.0),
    ("loads of all instructions", 30.0),
    ("stores of all instructions", 10.0),
    ("branches of all instructions", 18.0),
    ("others of all instructions", 42.0),
    ("packed of all µops", 5.0),
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
    let count = |input: &str| counts.iter().find(|(name, _)| *name == input).map(|(_, value)| *value);
    chosen.evaluate(&FormulaInputs { count: &count, seconds: None, program_cycles, profile: None })
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
    let counts: Vec<_> = CORE.into_iter().filter(|(name, _)| *name != "blocked_address").collect();
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
    let count = |input: &str| CORE.iter().find(|(name, _)| *name == input).map(|(_, value)| *value);
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
