//! Ctrl-C: the first asks the measurement to stop and keeps what was measured, the second ends at once.

use std::sync::{Arc, atomic::AtomicBool};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::failure::Failure;

/// The exit code shells expect of a program ended by Ctrl-C.
const ENDED_BY_INTERRUPT: i32 = 130;

/// A flag that is raised on the first Ctrl-C or SIGTERM.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: the second signal finds the flag raised and ends the program.
        flag::register_conditional_shutdown(signal, ENDED_BY_INTERRUPT, Arc::clone(&raised))
            .and_then(|_| flag::register(signal, Arc::clone(&raised)))
            .map_err(|error| Failure::Measurement(format!("cannot listen for Ctrl-C: {error}")))?;
    }
    Ok(raised)
}
