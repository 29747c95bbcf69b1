//! What may go wrong around a measurement, and what must hold all the same: the program behaves as it does alone, nobody
//! loses what they have, nobody else gets in. Prints a table; `cargo test -p memwall --test faults -- WORD` tries those
//! whose name has the word in it.

mod asking;
mod entering;
mod executing;
mod forbidding;
mod keeping;
mod letting_in;
mod noting;
mod place;
mod recordings;
mod signals;
mod trusting;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

/// Something that goes wrong.
#[derive(Clone, Copy)]
pub struct Fault {
    /// In a few words.
    pub name: &'static str,
    /// In spite of it.
    pub must_hold: &'static str,
    /// Brings it about; panics if that did not hold. Why it could not be tried, if so.
    pub held: fn() -> Tried,
}

/// Whether a fault could be brought about.
pub enum Tried {
    /// Yes, and what must hold held.
    Held,
    /// No: what is missing here.
    Missing(prerequisites::Need<'static>),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let faults = [
        asking::FAULTS,
        entering::FAULTS,
        noting::FAULTS,
        forbidding::FAULTS,
        executing::FAULTS,
        signals::FAULTS,
        keeping::FAULTS,
        recordings::FAULTS,
        letting_in::FAULTS,
        trusting::FAULTS,
    ]
    .concat();
    let chosen = faults.iter().filter(|fault| words.iter().all(|word| fault.name.contains(word.as_str())));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\n{:<58} {:<66} held", "fault", "what must hold");
    for Fault { name, must_hold, held } in chosen {
        let tried = || {
            let tried = held();
            if let Tried::Missing(what) = tried {
                prerequisites::skip(what, "this fault cannot be brought about");
            }
            tried
        };
        let held = match catch_unwind(AssertUnwindSafe(tried)) {
            Ok(Tried::Held) => {
                passed += 1;
                "yes".to_owned()
            }
            Ok(Tried::Missing(what)) => {
                skipped += 1;
                format!("for want of {} nobody knows", what.word())
            }
            Err(_) => {
                failed += 1;
                "NO".to_owned()
            }
        };
        println!("{name:<58} {must_hold:<66} {held}");
    }
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
