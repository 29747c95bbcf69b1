//! What was measured, as people and other programs read it: pure functions from values to text, one floor per form.
//! JSON is the values' own form, or one of the documents in [`json`].
#![deny(unsafe_code)]

pub mod export;
pub mod html;
pub mod json;
pub mod layout;
pub mod markdown;
pub mod terminal;
