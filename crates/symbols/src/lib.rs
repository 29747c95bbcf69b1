//! Addresses of a program turned into functions, source lines and data symbols.
//!
//! An [`Image`] is one ELF file: an executable, a shared library, the vDSO. Samples are known as a mapping and an
//! offset in the mapped file; [`Image::address_of_offset`] turns the offset into an address of the image, and every
//! other question is asked with such an address. Tables are built once, at the first question that needs them.
//!
//! Files are opened by [`Image::open`], [`PerfMap::open`] and the search for separate debug information, nowhere
//! else. What is parsed may be damaged or hostile: the answer is then a reason or nothing, never a panic.
//!
//! ```
//! let image = symbols::Image::open(&std::env::current_exe()?, None)?;
//! let segment = image.executable_ranges().next().expect("a program has code");
//! assert!(image.bytes(segment).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod contents;
mod debug;
mod debug_file;
mod demangle;
mod error;
mod frames;
mod identity;
mod image;
mod kernel_names;
mod layout;
mod lines;
mod named;
mod perf_map;
mod plt;
mod symtab;
mod table;

pub use demangle::demangle;
pub use error::ImageError;
pub use identity::{FileStamp, Identity, build_id, hex};
pub use image::{CodeWindow, Image, ImageSection};
pub use kernel_names::KernelNames;
pub use layout::ImageSegment;
pub use lines::SourceLocation;
pub use named::{DataSymbol, NameSource, NamedFunction};
pub use perf_map::PerfMap;
