//! The known work that can be run.

use serde::Serialize;

/// Of `memwall kernels`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KernelsDocument<'a> {
    schema: &'static str,
    kernels: &'a [KernelEntry<'a>],
}

impl<'a> KernelsDocument<'a> {
    /// Of these kernels.
    pub fn new(kernels: &'a [KernelEntry<'a>]) -> Self {
        Self { schema: "memwall.kernels/1", kernels }
    }
}

/// One kernel as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct KernelEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it does.
    pub about: &'a str,
    /// The paper or program it is taken from.
    pub source: &'a str,
    /// Widths of registers it can be built with.
    pub widths: Vec<&'static str>,
    /// What can be set, with the value it has otherwise.
    pub parameters: Vec<(&'a str, u64)>,
    /// How many threads it needs, if it takes no other number.
    pub threads: Option<usize>,
    /// Whether this CPU has what it needs.
    pub runs_here: bool,
}
