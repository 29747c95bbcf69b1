//! What was measured, as people and other programs read it: pure functions from values to text. JSON is the values' own
//! form, or one of the documents in [`json`].
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
pub mod json;
pub mod kernels;
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
