//! Checks of this source tree, for `scripts/` and continuous integration. No other crate uses it.
#![deny(unsafe_code)]

pub mod census;
pub mod source_tree;
