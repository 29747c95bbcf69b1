//! Others on the machine, below what a run says.

use analysis::surroundings::ProgramSurroundings;

use crate::layout::{
    prose::{titled, wrap_in},
    style::WARNING,
    surroundings::{details, difference},
};

/// One sentence if a probe differs from the profile; both probes if everything is asked for.
pub fn text(surroundings: &ProgramSurroundings, verbose: bool, columns: usize) -> String {
    let mut out =
        difference(surroundings).map_or_else(String::new, |said| wrap_in(WARNING, "", &said, columns));
    if verbose {
        out.extend(details(surroundings).map(|(name, text)| titled(name, &text, columns)));
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}
