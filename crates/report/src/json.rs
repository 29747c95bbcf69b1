//! The documents that `--json` prints where they are more than a value's own form: the value with its schema, or with
//! what was found out beside it.

mod events;
mod kernels;
mod machines;
mod run;

pub use events::{EventEntry, EventsDocument};
pub use kernels::{KernelEntry, KernelsDocument};
pub use machines::{DoctorDocument, ModelDocument, ModelsDocument, ProfileDocument, TopologyDocument};
pub use run::{CountDocument, DemoDocument, RunDocument};
