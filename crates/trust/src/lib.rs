//! What indicators are worth on a machine. Values only: `validate` earns and keeps them, analysis and reports use them.
//!
//! A [`Validation`] holds a verdict on each [`Indicator`], for the [`Purpose`] it was tried for. A [`TrustCatalogue`] answers
//! which trust an event, a metric or an estimator of ours has, by what it counts and not by how it is spelled.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod catalogue;
pub mod indicator;
pub mod quantity;
pub mod standing;
pub mod unseen;
pub mod verdict;

pub use catalogue::{Claimed, TrustCatalogue};
pub use indicator::Indicator;
pub use quantity::{MachinePart, Purpose, Quantity};
pub use standing::{Basis, Standing, Threshold};
pub use unseen::{
    AccessClass, ErrorSummary, LevelScore, OutOfSample, PartErrors, PartStanding, TrustPart, UnseenCase,
    WaitedLevel,
};
pub use verdict::{
    Best, Errors, Evidence, Flaw, Judged, KernelPlace, LevelOverlap, Ranked, SCHEMA, SeenStores, Sweep,
    Trust, Validation, ValidationStep,
};
