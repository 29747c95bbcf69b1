//! Names the rules that are compiled: what answers were worth belongs to the rules that gave them, and no number somebody
//! has to remember to raise would follow these.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What answers depend on: the analysis itself, and what decodes for it.
const SOURCES: [&str; 2] = ["src", "../code/src"];

fn main() {
    let mut hash = Fnv::new();
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
        for file in files(Path::new(folder)) {
            hash.add(file.to_string_lossy().as_bytes());
            hash.add(&fs::read(&file).unwrap_or_default());
        }
    }
    println!("cargo::rustc-env=MEMWALL_RULES={:016x}", hash.0);
}

/// All source below a folder, in a fixed order; tests decide nothing.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let is_source = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending == "rs")
            && path.file_stem().is_some_and(|name| name != "tests")
    };
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).filter(is_source).collect()
}

/// Fowler, Noll and Vo's hash of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
