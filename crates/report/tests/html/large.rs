//! A run as large as they come, made up by rule.

use analysis::findings::{ThreadActivity, ThreadFinding};
use analysis::reading::SamplePart;
use record::ids::ThreadId;
use report::html::{Aggregate, RunPage};

use crate::{
    pages::{self, INTERVALS, SYMBOLS, instruction, share, symbol},
    profiles,
};

/// As large as runs come: 5 million samples, 64 threads, 12 000 functions, 40 000 instructions.
pub fn large() -> String {
    const MANY: u64 = 5_000_000;
    let mut findings = pages::findings();
    findings.about.samples = MANY;
    findings.symbols = (0..12_000)
        .map(|index| {
            let mut symbol = symbol(index % SYMBOLS.len());
            symbol.name = format!("service::shard_{index}::{}", symbol.name);
            symbol.user_share = share(1.0 / (index + 12) as f64);
            symbol.split.samples = MANY / (index as u64 + 12);
            symbol
        })
        .collect();
    findings.instructions = (0..40_000)
        .map(|index| {
            let mut found = instruction(index % SYMBOLS.len());
            (found.symbol, found.address) = (index * 7 % 12_000, 0x10_0000 + 4 * index as u64);
            found.waiting_samples = MANY as f64 / (index + 20) as f64;
            found
        })
        .collect();
    let worker = findings.threads[0].clone();
    findings.threads = (0..64)
        .map(|tid| ThreadFinding { id: ThreadId(tid), tid, user_share: 1.0 / 64.0, ..worker.clone() })
        .collect();
    let span = INTERVALS * findings.timeline.interval_ns;
    // A fixed sequence that spreads over everything, the first rows more often.
    let seen = (0..MANY).map(|index| {
        let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let instruction = ((mixed % 40_000) * (mixed / 7 % 1000) / 1000) as usize;
        let mut parts = [0.0; ThreadActivity::ALL.len()];
        parts[mixed as usize % ThreadActivity::ALL.len()] = 0.7;
        parts[ThreadActivity::Executing as usize] += 0.3;
        SamplePart {
            time_ns: index * span / MANY,
            thread: (mixed % 64) as usize,
            instruction,
            object: Some((mixed % 4) as usize),
            parts,
        }
    });
    let aggregate = Aggregate::collect(&findings, 4, seen);
    report::html::run(&RunPage {
        findings: &findings,
        objects: Some(&pages::objects()),
        profile: Some(&profiles::guest()),
        functions: &pages::functions(),
        sources: &pages::sources(),
        source_remark: None,
        surroundings: None,
        views: None,
        hybrid: None,
        import: None,
        aggregate: Some(&aggregate),
        calls: None,
        regions: &[],
        scaling: None,
        patterns: &[],
    })
}
