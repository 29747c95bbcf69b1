//! Names the simulator that is compiled: readings that are kept belong to the machine that gave them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What a reading depends on beside the experiment itself, which its key names.
const SOURCES: [&str; 22] = [
    "src/measure.rs",
    "src/metrics.rs",
    "src/mutants.rs",
    "src/setup.rs",
    "src/squeezed.rs",
    "../squeeze/src/casas.rs",
    "../squeeze/src/recipe.rs",
    "../squeeze/src/victims.rs",
    "../sim/src",
    "../sim/pmu",
    "../host/src",
    "../kernels/src",
    "../kernels/catalogue",
    "../code/src",
    "../machine/models",
    "../machine/src/model",
    "../machine/src/model.rs",
    "../events/catalogue",
    "../events/groups",
    "../events/src/formula.rs",
    "../events/src/groups",
    "../events/src/groups.rs",
];

fn main() {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        for file in files(Path::new(source)) {
            hash.add(file.to_string_lossy().as_bytes());
            hash.add(&fs::read(&file).unwrap_or_default());
        }
    }
    println!("cargo::rustc-env=MEMWALL_SIMULATOR={:016x}", hash.0);
}

/// A file, or all below a folder in a fixed order.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

/// Fowler, Noll and Vo's hash of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
