//! The known work that can be run, as people read it.

use crate::{
    json::KernelEntry,
    layout::prose::wrap,
    layout::style::{HEADING, paint},
};

/// Each kernel with what it does, what can be set, and where it comes from.
pub fn text(kernels: &[KernelEntry<'_>], columns: usize) -> String {
    let mut out = String::new();
    for kernel in kernels {
        let mut facts = vec![kernel.widths.join(" ")];
        facts.extend(kernel.parameters.iter().map(|(name, value)| format!("{name}={value}")));
        facts.extend(kernel.threads.map(|threads| format!("{threads} threads")));
        if !kernel.runs_here {
            facts.push("not on this CPU".to_owned());
        }
        out += &format!("{}\n", paint(HEADING, kernel.name));
        for line in [kernel.about.to_owned(), format!("{}; {}", facts.join(", "), kernel.source)] {
            out += &wrap("    ", &line, columns);
        }
    }
    out
}
