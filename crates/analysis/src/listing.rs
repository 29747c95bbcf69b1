//! Functions instruction by instruction, with the samples blamed on each.

use std::collections::HashMap;

use code::{decode_range, disassemble};
use record::{
    ids::ModuleId,
    run::{Function, LineRange, Run},
};

use crate::findings::{Activity, Findings, InstructionFinding, SourceLine};

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
    pub activity: Activity,
}

/// The `most` functions with most samples, as far as their code is known.
pub fn functions(run: &Run, findings: &Findings, most: usize) -> Vec<AnnotatedFunction> {
    let mut sampled: HashMap<(usize, u64), &InstructionFinding> = HashMap::new();
    for found in &findings.instructions {
        sampled.insert((found.symbol, found.address), found);
    }
    let annotated = findings.symbols.iter().enumerate().filter_map(|(symbol, finding)| {
        let function = run.functions.iter().find(|function| {
            let module = run.module(function.module);
            function.name == finding.name && module.is_some_and(|module| module.path == finding.module)
        })?;
        let lines = lines(run, function, |address| sampled.get(&(symbol, address)).copied())?;
        Some(AnnotatedFunction { symbol, lines })
    });
    annotated.take(most).collect()
}

fn lines<'a>(
    run: &Run,
    function: &Function,
    sampled: impl Fn(u64) -> Option<&'a InstructionFinding>,
) -> Option<Vec<AnnotatedLine>> {
    let code = function.code.as_deref().filter(|code| !code.is_empty())?;
    let decoded = decode_range(code, function.start, &[]);
    let instructions = decoded.blocks.iter().flat_map(|block| block.instructions());
    let line = |address: u64, next: u64| {
        let found = sampled(address);
        let bytes = usize::try_from(address.wrapping_sub(function.start))
            .ok()
            .zip(usize::try_from(next - address).ok());
        let text = bytes
            .and_then(|(from, length)| code.get(from..from + length))
            .and_then(|bytes| disassemble(bytes, address).ok());
        AnnotatedLine {
            address,
            text: found.and_then(|found| found.text.clone()).or(text).unwrap_or_default(),
            source: found
                .and_then(|found| found.source.clone())
                .or_else(|| source(run, function.module, address)),
            samples: found.map_or(0.0, InstructionFinding::samples),
            waiting: found.map_or(0.0, |found| found.waiting_samples),
            activity: found.map_or(Activity::Executing, |found| found.activity),
        }
    };
    Some(instructions.map(|instruction| line(instruction.address(), instruction.next_address())).collect())
}

fn source(run: &Run, module: ModuleId, address: u64) -> Option<SourceLine> {
    let after = run.lines.partition_point(|line: &LineRange| (line.module, line.start) <= (module, address));
    let line = run.lines.get(after.checked_sub(1)?)?;
    if line.module != module || address >= line.end {
        return None;
    }
    Some(SourceLine { file: run.files.get(line.file as usize)?.clone(), line: line.line })
}
