//! What was measured, as people read it: pure functions from values to text. JSON is the values' own form.
#![deny(unsafe_code)]

pub mod age;
pub mod bench;
pub mod conditions;
pub mod doctor;
pub mod figures;
pub mod model;
pub mod plot;
pub mod profile;
pub mod prose;
pub mod scenario;
pub mod style;
pub mod table;
pub mod topology;
