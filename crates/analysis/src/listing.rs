//! Functions instruction by instruction, with the samples blamed on each.

use std::collections::HashMap;

use code::{Block, disassemble};
use record::run::{Function, Run};

use crate::{
    findings::{Findings, InstructionFinding, SourceLine, ThreadActivity},
    timer::Tally,
};

/// A function's instructions from its first to its last.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedFunction {
    /// Index among [`Findings::symbols`].
    pub symbol: usize,
    /// In the order of addresses.
    pub lines: Vec<AnnotatedLine>,
}

/// One instruction, sampled or not.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedLine {
    /// In the module's own terms.
    pub address: u64,
    /// In Intel syntax.
    pub text: String,
    /// Where it comes from, if known.
    pub source: Option<SourceLine>,
    /// Samples blamed on it.
    pub samples: f64,
    /// Those of them that waited.
    pub waiting: f64,
    /// What for.
    pub activity: ThreadActivity,
}

/// The `most` functions with most samples, as far as their code is known.
pub(crate) fn functions(
    run: &Run,
    findings: &Findings,
    tally: &Tally,
    most: usize,
) -> Vec<AnnotatedFunction> {
    let sampled: HashMap<(usize, u64), &InstructionFinding> =
        findings.instructions.iter().map(|found| ((found.symbol, found.address), found)).collect();
    let annotated = findings.symbols.iter().enumerate().filter_map(|(symbol, finding)| {
        let id = finding.function?;
        let (function, blocks) = (run.function(id)?, tally.program.blocks_of(id)?);
        let lines =
            lines(run, function, blocks, |address| sampled.get(&(symbol, address)).copied()).collect();
        Some(AnnotatedFunction { symbol, lines })
    });
    annotated.take(most).collect()
}

fn lines<'a>(
    run: &Run,
    function: &Function,
    blocks: &[Block],
    sampled: impl Fn(u64) -> Option<&'a InstructionFinding>,
) -> impl Iterator<Item = AnnotatedLine> {
    let text = |address: u64| {
        let from = usize::try_from(address.wrapping_sub(function.start)).ok()?;
        disassemble(function.code.as_deref()?.get(from..)?, address).ok()
    };
    let instructions = blocks.iter().flat_map(|block| block.instructions());
    instructions.map(move |instruction| {
        let address = instruction.address();
        let found = sampled(address);
        AnnotatedLine {
            address,
            text: found.and_then(|found| found.text.clone()).or_else(|| text(address)).unwrap_or_default(),
            source: SourceLine::at(run, function.module, address),
            samples: found.map_or(0.0, InstructionFinding::samples),
            waiting: found.map_or(0.0, |found| found.waiting_samples),
            activity: found.map_or(ThreadActivity::Executing, |found| found.activity),
        }
    })
}
