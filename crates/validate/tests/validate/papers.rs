//! What the papers found on Haswell-EP, as claims that a validation of its model must bear out.

use trust::{Best, Flaw, Judged, Trust, Validation};

/// One sentence of a paper, and what the validation says to it.
pub struct Claim {
    /// The sentence.
    pub says: &'static str,
    /// What was found.
    pub found: String,
    /// Whether that is the same.
    pub holds: bool,
}

/// A row of molka2017 Table 2 (one core) or 3 (all cores).
pub struct Row {
    /// As [`Best::name`] has it.
    pub level: &'static str,
    pub all_cores: bool,
    /// Million events per second of the paper's indicator; none where it has no indicator.
    pub million_events_per_s: Option<f64>,
    /// Million transfers per second.
    pub million_transfers_per_s: f64,
}

const fn row(level: &'static str, all_cores: bool, transfers: f64, events: Option<f64>) -> Row {
    Row { level, all_cores, million_events_per_s: events, million_transfers_per_s: transfers }
}

/// molka2017 Tables 2 and 3.
pub const TABLES: [Row; 16] = [
    row("L1 read", false, 4993.0, Some(4993.0)),
    row("L1 write", false, 2496.0, Some(2496.0)),
    row("L2 read", false, 1171.0, Some(1546.0)),
    row("L2 write", false, 398.0, Some(398.0)),
    row("L3 read", false, 467.0, Some(467.0)),
    row("L3 write", false, 277.0, Some(277.0)),
    row("memory read", false, 162.0, Some(61.0)),
    row("memory write", false, 120.0, None),
    row("remote memory read", false, 125.0, Some(63.0)),
    row("remote memory write", false, 85.0, None),
    row("L3 read", true, 5343.0, Some(5279.0)),
    row("L3 write", true, 3265.0, Some(3212.0)),
    row("memory read", true, 985.0, Some(985.0)),
    row("memory write", true, 403.0, Some(403.0)),
    row("remote memory read", true, 254.0, Some(2032.0)),
    row("remote memory write", true, 171.0, Some(1368.0)),
];

/// The row of a validation that stands beside one of the paper.
pub fn beside<'a>(row: &Row, validation: &'a Validation) -> Option<&'a Best> {
    validation.best.iter().find(|best| best.name() == row.level && (best.cores > 1) == row.all_cores)
}

/// In a line.
pub fn words(trust: &Trust) -> String {
    match trust {
        Trust::Trusted { error } => format!("trusted within {:.1} %", error * 100.0),
        Trust::Qualitative { tells, misses } => format!("qualitative: tells {tells}; not {misses}"),
        Trust::Broken { why, shown_by, .. } => format!("broken: {why} ({shown_by})"),
        Trust::Untested { missing } => format!("untested: {missing}"),
    }
}

struct Checker<'a>(&'a Validation);

impl<'a> Checker<'a> {
    fn judged(&self, name: &str) -> Option<&'a Judged> {
        self.0.of(name).next()
    }

    fn claim(&self, says: &'static str, name: &str, holds: impl Fn(&Judged) -> bool) -> Claim {
        let found = self.judged(name);
        let words = found.map_or("not judged".to_owned(), |one| {
            let remarks: String = one.remarks.iter().map(|remark| format!(" {remark}")).collect();
            format!("{}.{remarks}", words(&one.trust))
        });
        Claim { says, found: format!("{name}: {words}"), holds: found.is_some_and(holds) }
    }
}

fn is_broken(one: &Judged) -> bool {
    matches!(one.trust, Trust::Broken { .. })
}

fn is_trusted(one: &Judged) -> bool {
    matches!(one.trust, Trust::Trusted { .. })
}

fn is_usable(one: &Judged) -> bool {
    matches!(one.trust, Trust::Trusted { .. } | Trust::Qualitative { .. })
}

/// All claims.
pub fn claims(validation: &Validation) -> Vec<Claim> {
    let checker = Checker(validation);
    let mut all: Vec<Claim> = TABLES.iter().filter_map(|row| fit(row, validation)).collect();
    all.extend(TABLES.iter().filter(|row| !row.all_cores).map(|row| rate(row, validation)));
    all.extend(retired_loads(&checker));
    all.extend(offcore(&checker));
    all.extend(stalls(&checker));
    all.extend(sharing(&checker));
    all.push(errors(validation));
    all.push(arithmetic(&checker));
    all
}

/// The paper's indicator is fit for its level, or the evidence why another ranks above it is there.
fn fit(row: &Row, validation: &Validation) -> Option<Claim> {
    row.million_events_per_s?;
    let best = beside(row, validation);
    let shown = |best: &Best| match (&best.trust, &best.paper) {
        (Some(trust), None) => words(trust),
        (Some(trust), Some(paper)) => {
            format!("{}; the paper's {}: {}", words(trust), paper.indicator, words(&paper.trust))
        }
        (None, _) => "no indicator is fit".to_owned(),
    };
    let holds = best.is_some_and(|best| {
        let shows = |trust: &Trust| !matches!(trust, Trust::Untested { .. });
        best.trust.is_some() && best.paper.as_ref().is_none_or(|paper| shows(&paper.trust))
    });
    let found = best.map_or("no such row".to_owned(), |best| {
        let name = best.indicator.as_deref().unwrap_or("none");
        format!("{} on {} cores: {name}: {}", best.name(), best.cores, shown(best))
    });
    Some(Claim {
        says: "molka2017 Tables 2 and 3: the indicator is fit, or a better one is shown",
        found,
        holds,
    })
}

/// One core moves as many lines as the paper's; as molka2017 §3.1 says, the rate is 100 % of later utilisation.
fn rate(row: &Row, validation: &Validation) -> Claim {
    let paper = row.million_transfers_per_s;
    let found = beside(row, validation).map_or(0.0, |best| best.lines_per_s / 1e6);
    Claim {
        says: "molka2017 Table 2: the highest rate of one core, within 25 %",
        found: format!("{}: {found:.0} million transfers per second, the paper {paper:.0}", row.level),
        holds: (found / paper - 1.0).abs() <= 0.25,
    }
}

fn retired_loads(checker: &Checker<'_>) -> Vec<Claim> {
    let says = "molka2017 §4.1: MEM_LOAD_UOPS_RETIRED is no volume of sequential access";
    ["L2_HIT", "L2_MISS", "L3_HIT", "L3_MISS"]
        .map(|part| checker.claim(says, &format!("MEM_LOAD_UOPS_RETIRED.{part}"), is_broken))
        .into()
}

fn offcore(checker: &Checker<'_>) -> Vec<Claim> {
    const HIT: &str = "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_HIT:SNP_ANY";
    const LOCAL: &str = "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_MISS_LOCAL:SNP_ANY";
    const REMOTE: &str = "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_MISS_REMOTE_HOP0:L3_MISS_REMOTE_HOP1:\
                          L3_MISS_REMOTE_HOP2P:SNP_ANY";
    let blind = |one: &Judged| {
        let off = one.without_prefetch.as_deref();
        matches!(one.trust, Trust::Broken { flaw: Flaw::Prefetch { .. }, .. })
            && matches!(off, Some(Trust::Trusted { .. }))
    };
    vec![
        checker.claim(
            "helm2019 §5, molka2017 §4.1: off-core L3 misses are DRAM volume only without prefetchers",
            LOCAL,
            blind,
        ),
        checker.claim(
            "molka2017 §4.1: off-core L3 hits and misses together are the traffic of core and uncore",
            &format!("{HIT} + {LOCAL} + {REMOTE}"),
            is_trusted,
        ),
        checker.claim(
            "molka2017 §4.2: the home agent sees all reads of memory",
            "UNC_H_REQUESTS.READS",
            is_trusted,
        ),
    ]
}

fn stalls(checker: &Checker<'_>) -> Vec<Claim> {
    let fooled = |one: &Judged| match &one.trust {
        Trust::Broken { flaw: Flaw::OtherStalls { kernel, .. }, .. } => kernel.starts_with("chase-dependent"),
        _ => false,
    };
    let kept = |one: &Judged| is_usable(one) && one.remarks.iter().any(|remark| remark.contains("L1"));
    let bandwidth = |missed: &'static [&'static str]| {
        move |one: &Judged| match &one.trust {
            Trust::Qualitative { misses, .. } => {
                one.purpose.contains("bandwidth") && missed.iter().all(|kernel| misses.contains(kernel))
            }
            _ => false,
        }
    };
    vec![
        checker.claim(
            "molka2017 §4.3: STALLS_LDM_PENDING counts the dependent chain",
            "CYCLE_ACTIVITY.STALLS_LDM_PENDING",
            fooled,
        ),
        checker.claim(
            "molka2017 §4.3: STALLS_L1D_PENDING follows the waiting, and does not cover the L1",
            "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
            kept,
        ),
        checker.claim(
            "molka2017 §4.3: FB_FULL + SQ_FULL tell bandwidth of loads, not in the L2",
            "L1D_PEND_MISS.FB_FULL + OFFCORE_REQUESTS_BUFFER.SQ_FULL",
            bandwidth(&["load in L2"]),
        ),
        checker.claim(
            "molka2017 §4.3: RESOURCE_STALLS:SB tells bandwidth of stores, not of loads",
            "RESOURCE_STALLS.SB",
            bandwidth(&["load in L2", "load in L3", "load in memory"]),
        ),
    ]
}

fn sharing(checker: &Checker<'_>) -> Vec<Claim> {
    let qualitative = |one: &Judged| matches!(one.trust, Trust::Qualitative { .. });
    vec![checker.claim(
        "roehl2016 §2.4: counts of modified lines are qualitative (erratum HSW150)",
        "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM",
        qualitative,
    )]
}

/// Volumes that are the best of their level: roehl2016 §2.5 has -1 to +2 % on average and -6 % at worst.
fn errors(validation: &Validation) -> Claim {
    let (mut mean, mut worst, mut of) = (0.0_f64, 0.0_f64, 0);
    for best in validation.best.iter().filter(|best| !best.remote) {
        let name = best.indicator.as_deref().unwrap_or_default();
        let trusted = validation.of(name).find(|one| is_trusted(one));
        if let Some(errors) = trusted.and_then(|one| one.errors) {
            mean = if errors.mean.abs() > mean.abs() { errors.mean } else { mean };
            worst = if errors.worst.abs() > worst.abs() { errors.worst } else { worst };
            of += 1;
        }
    }
    Claim {
        says: "roehl2016 §2.4: errors of the bandwidth events are a few percent, below 10 % at worst",
        found: format!("{of} indicators: mean {:+.1} %, worst {:+.1} %", mean * 100.0, worst * 100.0),
        holds: of >= 8 && mean.abs() < 0.03 && worst.abs() < 0.10,
    }
}

fn arithmetic(checker: &Checker<'_>) -> Claim {
    let three_to_one = |remark: &String| {
        let shown = remark.split_once("it shows ").and_then(|(_, rest)| rest.split_once(" : 1"));
        shown.and_then(|(ratio, _)| ratio.parse::<f64>().ok()).is_some_and(|ratio| (ratio - 3.0).abs() < 0.3)
    };
    let but_for_halves = |one: &Judged| match &one.trust {
        Trust::Qualitative { tells, misses } => tells.contains("but ddot-halves") && misses.contains("200 %"),
        _ => false,
    };
    let seen = |one: &Judged| but_for_halves(one) && one.remarks.iter().any(three_to_one);
    checker.claim(
        "roehl2016 §2.4: AVX_INSTS.CALC counts AVX arithmetic and nothing of narrower code, shows 3 : 1, and overcounts \
         where loads are in halves",
        "AVX_INSTS.CALC",
        seen,
    )
}
