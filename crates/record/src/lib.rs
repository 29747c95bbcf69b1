//! Plain types of what was measured. No I/O, no measuring: experiments fill them, reports read them.
#![deny(unsafe_code)]

pub mod bench;
pub mod doctor;
pub mod scenario;
