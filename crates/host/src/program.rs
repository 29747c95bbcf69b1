//! Starting a program, passing signals on to it, and waiting for it.

pub(crate) mod launch;
pub(crate) mod signals;
pub(crate) mod usage;
