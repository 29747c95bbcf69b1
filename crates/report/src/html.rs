//! Reports as one file for a browser: everything inside, nothing fetched, names from programs only ever text.
//!
//! The frame, prose and drawings are written here; tables, bars and the time line are drawn by the page's script from
//! data inside the page, because sorting, filtering and selecting need them there.

mod aggregate;
mod bench;
mod compare;
mod count;
mod curve;
mod frame;
mod hierarchy;
mod lines;
mod markup;
mod predict;
mod profile;
mod pyramid;
mod reproduce;
mod run;
mod squeeze;
mod tables;
mod utilisation;
mod validate;

pub use aggregate::{Aggregate, AggregateRow, MOST_CELLS, MOST_INTERVALS, MOST_ROWS, Track, Tracks};
pub use bench::{BenchMachine, bench};
pub use compare::compare;
pub use count::count;
pub use predict::predict;
pub use profile::profile;
pub use reproduce::reproduce;
pub use run::{CallNode, CallTree, RunPage, SourceFinder, SourceReading, SourceText, recording, run};
pub use squeeze::{calibration as squeeze_calibration, series as squeeze_series, squeeze};
pub use validate::validate;
