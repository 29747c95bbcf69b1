//! Findings about single instructions.

use record::{ids::ModuleId, inlined::is_library_source, run::Run};
use serde::{Deserialize, Serialize};

use super::{Rate, ThreadActivity, TimeShare};

/// One instruction that samples were blamed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstructionFinding {
    /// Index of its function among [`super::Findings::symbols`].
    pub symbol: usize,
    /// Its address in the module's own terms.
    pub address: u64,
    /// In Intel syntax; none if its bytes are not known.
    pub text: Option<String>,
    /// Where it comes from, if debug information says so.
    pub source: Option<SourceLine>,
    /// What the core waits for when it waits for this one; [`ThreadActivity::Executing`] if it never waits for it,
    /// [`ThreadActivity::Undecided`] if the code is not known.
    pub activity: ThreadActivity,
    /// Samples beyond the baseline: the core waited for this instruction.
    pub waiting_samples: f64,
    /// Samples up to the baseline: the core was executing.
    pub executing_samples: f64,
    /// Samples that may belong to another instruction.
    pub undecided_samples: f64,
    /// All its samples as a share of those of all threads.
    pub user_share: TimeShare,
    /// How it walks through memory; none if it has no memory operand.
    pub access: Option<AccessPattern>,
}

impl InstructionFinding {
    /// All samples blamed on it.
    pub fn samples(&self) -> f64 {
        self.waiting_samples + self.executing_samples + self.undecided_samples
    }
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// As debug information names it.
    pub file: String,
    /// Line in it.
    pub line: u32,
    /// What was inlined into that line, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<InlinedLine>,
}

/// A line of a function that was inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlinedLine {
    /// The function.
    pub function: String,
    /// As debug information names it.
    pub file: String,
    /// Line in it.
    pub line: u32,
}

impl SourceLine {
    /// A line into which nothing was inlined.
    pub fn new(file: impl Into<String>, line: u32) -> Self {
        Self { file: file.into(), line, inlined: Vec::new() }
    }

    /// Of an address in a module: the innermost that is of no library, and what was inlined into it.
    pub(crate) fn at(run: &Run, module: ModuleId, address: u64) -> Option<Self> {
        let frames = run.frames_at(module, address);
        let own = frames.iter().position(|frame| !is_library_source(frame.file)).unwrap_or(0);
        let inner = frames.get(..own)?.iter().map(|frame| InlinedLine {
            function: frame.inlined.unwrap_or_default().to_owned(),
            file: frame.file.to_owned(),
            line: frame.line,
        });
        let frame = frames.get(own)?;
        Some(Self { file: frame.file.to_owned(), line: frame.line, inlined: inner.collect() })
    }
}

/// How an instruction walks through memory, by its operand's addresses over the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessPattern {
    /// Its name.
    pub pattern: Pattern,
    /// Samples whose registers gave the address.
    pub addresses: u64,
    /// The address in each sample is the one the *next* execution uses: the load overwrote its own address
    /// register (`mov r,[r]`). Most often still the same object.
    pub next_address: bool,
    /// Lowest and highest address seen; none without addresses.
    pub span: Option<(u64, u64)>,
    /// Distance from one execution to the next where the code says it (a register advanced by a constant).
    pub stride_bytes: Option<i64>,
    /// How fast the addresses advance, where they stream.
    pub advance: Option<Rate>,
}

/// The name of a walk through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Advances steadily, every line in turn.
    Streaming,
    /// Advances steadily, by more than a line at a time.
    Strided,
    /// All over a range.
    Random,
    /// The address comes from the load before.
    PointerChasing,
    /// Always the same line.
    OnePlace,
    /// Too few addresses, or none of the above.
    Unknown,
}

impl Pattern {
    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Strided => "strided",
            Self::Random => "random",
            Self::PointerChasing => "pointer chasing",
            Self::OnePlace => "one place",
            Self::Unknown => "unknown",
        }
    }
}
