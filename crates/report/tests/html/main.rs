//! Pages of hand-made results: their structure, and how they behave in a real browser.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod browser;
mod chromium;
mod counts;
mod large;
mod pages;
mod structure;
mod validations;

#[allow(dead_code)]
#[path = "../golden/benches.rs"]
mod benches;
#[allow(dead_code)]
#[path = "../golden/profiles.rs"]
mod profiles;
