//! What the machine claims to be (sysfs, procfs, CPUID) and what was measured on it (the profile).
//!
//! Everything is read under a [`source::Source`], so that a test can hand in a tree of files and a CPUID dump
//! and get the machine they describe. Nothing here measures anything.
#![deny(unsafe_code)]

pub mod cpuid;
pub mod cpus;
mod data_file;
mod figures;
pub mod fingerprint;
mod gaps;
pub mod hold;
pub mod isa;
pub mod letters;
pub mod model;
pub mod private;
pub mod probe;
pub mod profile;
mod read;
pub mod regular;
pub mod resctrl;
pub mod source;
pub mod squeezing;
pub mod steal;
pub mod store;
pub mod throttle;
pub mod topology;
pub mod units;
pub mod value_lines;

pub use cpus::CpuSet;
pub use data_file::DataFileError;
pub use isa::{Isa, Width};
pub use profile::Profile;
pub use source::Source;
pub use topology::Topology;
pub use units::Bytes;
