//! What was measured, as people read it: pure functions from values to text. JSON is the values' own form.
#![deny(unsafe_code)]

pub mod age;
pub mod bench;
pub mod compare;
pub mod conditions;
pub mod count;
pub mod doctor;
pub mod events;
pub mod export;
pub mod figures;
pub mod html;
pub mod model;
pub mod plot;
pub mod profile;
pub mod prose;
pub mod run;
pub mod scenario;
pub mod style;
pub mod table;
pub mod topology;
pub mod trust;
pub mod validate;
