//! Active measurement after casas2017: take room in the shared cache, or bandwidth to memory, away from a program and see
//! what it loses. Needs a stopwatch and spare cores, no PMU.
//!
//! - [`recipe`]: interference of two kinds, each with forms and strengths, as jobs for a [`host::Host`].
//! - [`partition`]: the same by the hardware, where the kernel offers that.
//! - [`calibrate()`]: what each strength leaves, from victims whose hit rates are known; refusals with their numbers.
//! - [`misses`]: misses of victims, where something that can be believed counts them.
//! - [`session`]: a program alone and under each strength, interleaved, adaptively around the knee.
//! - [`slowdown`], [`mixture`], [`judge`]: intervals, known programs that explain them, bounds on use and the class.
//! - [`predict`]: time with less of a resource, or beside another program, from measured curves.
//! - [`casas`]: the paper's own validation, published and found side by side.
//! - [`native`], [`scenario`]: programs of this machine, and scenarios on any host, as subjects of a session.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod calibrate;
pub mod casas;
pub mod judge;
pub mod misses;
pub mod mixture;
pub mod native;
pub mod partition;
pub mod predict;
pub mod recipe;
pub mod rungs;
pub mod scenario;
pub mod session;
pub mod slowdown;
pub mod victims;

pub use calibrate::{CalibrateSqueeze, KNOWN_SETS, SqueezeError, calibrate};
