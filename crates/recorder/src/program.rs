//! Starting a program, passing signals on to it, and waiting for it.

pub mod launch;
pub mod signals;
pub mod usage;
