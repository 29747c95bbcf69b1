//! Every body over its seeds and over damaged ones: seeds are understood, and nothing panics.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use fuzz_bodies::{
    TARGETS, Target,
    mutate::{Draw, damaged},
};

/// Keeps an input that made a body panic, and says where.
fn kept(target: &Target, input: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.input", target.name));
    fs::write(&path, input).expect("a file");
    format!("{}: {}", target.name, path.display())
}

#[test]
fn seeds_are_understood() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for (index, seed) in seeds.iter().enumerate() {
            // What edits make of a recording need not be one.
            assert!((target.body)(seed) || target.name == "recording_values", "{} {index}", target.name);
        }
    }
}

#[test]
fn damaged_seeds_make_no_body_panic() {
    let mut panicked = Vec::new();
    for target in TARGETS {
        let seeds = (target.seeds)();
        let mut draw = Draw::new(1);
        for _ in 0..target.tries {
            let input = damaged(&seeds, &mut draw);
            if catch_unwind(AssertUnwindSafe(|| (target.body)(&input))).is_err() {
                panicked.push(kept(target, &input));
            }
        }
    }
    assert!(panicked.is_empty(), "inputs that make bodies panic were kept:\n{}", panicked.join("\n"));
}

#[test]
fn every_body_is_handed_to_cargo_fuzz() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    for Target { name, .. } in TARGETS {
        let source = fs::read_to_string(root.join(format!("fuzz_targets/{name}.rs"))).expect("a file");
        assert!(source.contains(&format!("run(\"{name}\", bytes)")), "{source}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_damage() {
    let seeds = vec![b"a = 1\nb = 23\n".to_vec(), vec![0; 40]];
    let inputs = |seed| {
        let mut draw = Draw::new(seed);
        (0..50).map(|_| damaged(&seeds, &mut draw)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}
