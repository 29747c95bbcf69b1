//! A description with its parameters set.

use std::sync::Arc;

use machine::{Isa, Width};

use crate::description::{Amount, Description, Op, Widths};

/// Operations written out one after the other; more would leave the instruction cache.
pub const MOST_INLINE: u64 = 4096;

/// A kernel ready to be given a width and a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    description: Arc<Description>,
    values: Vec<u64>,
}

/// Why a kernel cannot be had as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No such parameter.
    #[error("kernel '{kernel}' has no parameter '{name}'{}", known(.parameters))]
    UnknownParameter {
        /// The kernel.
        kernel: String,
        /// What was asked for.
        name: String,
        /// What it has.
        parameters: Vec<String>,
    },
    /// A value that would make the code unreasonable.
    #[error("parameter '{name}' of kernel '{kernel}' is at most {most}")]
    ParameterTooLarge {
        /// The kernel.
        kernel: String,
        /// The parameter.
        name: String,
        /// Its limit.
        most: u64,
    },
    /// The kernel has no version of this width.
    #[error("kernel '{kernel}' has no {width} version; it has {}", list(.has))]
    NoSuchWidth {
        /// The kernel.
        kernel: String,
        /// What was asked for.
        width: Width,
        /// What it has.
        has: Vec<Width>,
    },
    /// The CPU cannot run it.
    #[error("this CPU cannot run {width} code; kernel '{kernel}' can be run here as {}", list(.runs))]
    UnsupportedWidth {
        /// The kernel.
        kernel: String,
        /// What was asked for.
        width: Width,
        /// What would run.
        runs: Vec<Width>,
    },
    /// No version of the kernel runs on this CPU.
    #[error("no version of kernel '{kernel}' runs on this CPU")]
    NoWidth {
        /// The kernel.
        kernel: String,
    },
}

fn known(parameters: &[String]) -> String {
    if parameters.is_empty() {
        ": it has none".to_owned()
    } else {
        format!("; it has {}", parameters.join(", "))
    }
}

fn list(widths: &[Width]) -> String {
    let names: Vec<_> = widths.iter().map(|width| width.name()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Kernel {
    /// The kernel with every parameter at its default.
    pub fn new(description: Description) -> Self {
        let values = description.parameters.iter().map(|parameter| parameter.default).collect();
        Self { description: Arc::new(description), values }
    }

    /// What it is made from.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What users type.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// The same kernel with one parameter set.
    pub fn with(mut self, name: &str, value: u64) -> Result<Self, KernelError> {
        let parameters = &self.description.parameters;
        let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
            return Err(KernelError::UnknownParameter {
                kernel: self.name().to_owned(),
                name: name.to_owned(),
                parameters: parameters.iter().map(|parameter| parameter.name.clone()).collect(),
            });
        };
        let written_out = self.description.ops().any(|op| match op {
            Op::Chain { times, .. } | Op::Spread { times, .. } => *times == Amount::Parameter(index),
            _ => false,
        });
        let most = if written_out { MOST_INLINE } else { 1_000_000 };
        if value > most {
            let kernel = self.name().to_owned();
            return Err(KernelError::ParameterTooLarge { kernel, name: name.to_owned(), most });
        }
        self.values[index] = value;
        Ok(self)
    }

    /// Parameters and their values.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, u64)> {
        self.description
            .parameters
            .iter()
            .map(|parameter| parameter.name.as_str())
            .zip(self.values.iter().copied())
    }

    /// The value of an amount.
    pub(crate) fn amount(&self, amount: Amount) -> u64 {
        match amount {
            Amount::Is(value) => value,
            Amount::Parameter(index) => self.values[index],
        }
    }

    /// The widths it exists in, narrowest first, whatever the CPU.
    pub fn widths(&self) -> &'static [Width] {
        match self.description.widths {
            Widths::All => &Width::ALL,
            Widths::Halved => &[Width::Avx2, Width::Avx512],
            Widths::ScalarOnly => &[Width::Scalar],
        }
    }

    /// The asked width, or the widest that kernel and CPU share. A kernel exists only where it can run.
    pub fn width_on(&self, isa: &Isa, asked: Option<Width>) -> Result<Width, KernelError> {
        let kernel = self.name().to_owned();
        let runs = || self.widths().iter().copied().filter(|&width| isa.supports(width));
        match asked {
            None => runs().next_back().ok_or(KernelError::NoWidth { kernel }),
            Some(width) if !self.widths().contains(&width) => {
                Err(KernelError::NoSuchWidth { kernel, width, has: self.widths().to_vec() })
            }
            Some(width) if !isa.supports(width) => {
                Err(KernelError::UnsupportedWidth { kernel, width, runs: runs().collect() })
            }
            Some(width) => Ok(width),
        }
    }
}
