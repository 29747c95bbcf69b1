//! The recording as one SQLite file, described in `docs/recording.md`.
//!
//! A [`Writer`] appends while the program runs and commits about twice a second; [`read()`] gives back a
//! [`Run`](crate::run::Run), also of a recording that was cut off. Between two commits there is exactly one file,
//! whole and without a journal beside it, so that killing memwall leaves what the last commit left. Killed within a
//! commit, a few milliseconds long, SQLite leaves a journal beside the file and any client that opens the two
//! restores the commit before.

mod about;
mod amend;
mod beside;
mod data;
mod error;
mod guard;
mod import;
mod loads;
mod probes;
mod rank;
mod read;
mod regions;
mod relief;
mod rows;
mod sampled;
mod scaling;
mod schema;
#[cfg(test)]
mod tests;
mod write;

pub use beside::OlderRecording;
pub use error::FileError;
pub use probes::add_probes;
pub use rank::{LaunchedRank, add_rank, rank_of};
pub use read::{imported_samples, read};
pub use sampled::EventSample;
pub use scaling::add_scaling;
pub use schema::{APPLICATION_ID, VERSION};
pub use write::{Code, RecordedSample, Writer, write};
