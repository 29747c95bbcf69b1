//! Every parser of bytes that others wrote, as plain functions over bytes.
//!
//! A body takes any bytes and must come back: no panic, no hang, no memory without end. It says whether it understood them,
//! so that a test can hold that seeds are valid. [`TARGETS`] lists all; `fuzz/` hands them to cargo-fuzz, a test runs them
//! over [mutated seeds](mutate), and `memwall-fuzz` does so for as long as one likes.
#![deny(unsafe_code)]

pub mod mutate;
pub mod seeds;

mod files;
mod imports;
mod memory;
mod procfs;
mod recordings;

/// A parser, and what it understands.
#[derive(Clone, Copy)]
pub struct Target {
    /// In a word.
    pub name: &'static str,
    /// Whether the bytes were understood.
    pub body: fn(&[u8]) -> bool,
    /// Bytes that are.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Damaged inputs that the test tries: those that cost more are tried less often.
    pub tries: u32,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("recording", recordings::file, seeds::recordings, 150),
    target("recording_values", recordings::values, seeds::edits, 150),
    target("perf_data", imports::perf_data, seeds::perf_data, 400),
    target("perf_data_import", imports::whole, seeds::perf_data, 60),
    target("perf_rings", imports::perf_rings, seeds::perf_rings, 400),
    target("kernel_names", imports::kernel_names, seeds::kernel_names, 2000),
    target("perf_stat", imports::perf_stat, seeds::perf_stat, 2000),
    target("elf", memory::elf, seeds::elf, 200),
    target("perf_map", memory::perf_map, seeds::perf_map, 3000),
    target("demangle", memory::demangle, seeds::mangled, 3000),
    target("machine_code", memory::machine_code, seeds::machine_code, 1000),
    target("notes", memory::notes, seeds::notes, 500),
    target("procfs", procfs::process, seeds::procfs, 3000),
    target("smaps", procfs::areas, seeds::smaps, 1000),
    target("sysfs", files::sysfs, seeds::sysfs, 100),
    target("cpuid", files::cpuid, seeds::cpuid, 2000),
    target("kernel_file", files::kernels, seeds::kernel_files, 300),
    target("scenario_file", files::scenario, seeds::scenario_files, 300),
    target("model_file", files::model, seeds::model_files, 500),
    target("event_file", files::events, seeds::event_files, 100),
    target("group_file", files::groups, seeds::group_files, 500),
    target("event_name", files::event_name, seeds::event_names, 2000),
    target("profile", files::profile, seeds::profiles, 500),
    target("validation", files::validation, seeds::validations, 500),
];

const fn target(
    name: &'static str,
    body: fn(&[u8]) -> bool,
    seeds: fn() -> Vec<Vec<u8>>,
    tries: u32,
) -> Target {
    Target { name, body, seeds, tries }
}

/// Runs the body of a name: what `fuzz/` calls.
///
/// # Panics
/// If there is no such target, or it has a fault.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target '{name}'")).body)(bytes);
}
