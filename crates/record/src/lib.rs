//! Plain types of what was measured, and the recording file. No measuring: experiments fill them, reports read
//! them. Only [`mod@file`] touches the disk.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bench;
pub mod count;
pub mod data;
pub mod doctor;
pub mod file;
pub mod ids;
pub mod import;
pub mod inlined;
pub mod loads;
pub mod methods;
pub mod predict;
pub mod probe;
pub mod regions;
pub mod relief;
pub mod reproduce;
pub mod run;
pub mod sampled;
pub mod scaling;
pub mod scenario;
pub mod squeeze;
pub mod validate;
