//! The census of a small tree whose names are known.

use std::{fs, path::Path};

use housekeeping::{
    census::Census,
    source_tree::{self, TreeError},
};

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    root
}

fn census(files: &[(&str, &str)]) -> Census {
    Census::of(&source_tree::read(tree(files).path()).expect("a tree"))
}

#[test]
fn structs_enums_traits_and_aliases_are_counted_once_each() {
    let census = census(&[
        ("crates/a/src/lib.rs", "pub struct Request;\nenum Place { Here }\nmod inner { trait Part {} }\n"),
        ("crates/b/src/lib.rs", "\ntype Request = u8;\nfn f() { struct Place; }\nunion U { a: u8 }\n"),
        ("crates/b/src/deep/file.rs", "struct Request;\nimpl Iterator for Request { type Item = u8; }\n"),
    ]);
    assert_eq!(census.types(), 6);
    let shared: Vec<_> = census.shared().iter().map(|(name, at)| (*name, at.len())).collect();
    assert_eq!(shared, [("Request", 3), ("Place", 2)]);
    let [_, second, _] = census.shared()[0].1 else { panic!("three") };
    assert_eq!((second.path.as_path(), second.line), (Path::new("crates/b/src/deep/file.rs"), 1));
    let percent = census.shared_percent().expect("types");
    assert!((percent - 100.0 * 5.0 / 6.0).abs() < 1e-9, "{percent}");
    let text = census.to_string();
    assert!(text.contains("Place ×2\n    crates/a/src/lib.rs:2\n    crates/b/src/lib.rs:3\n"), "{text}");
    assert!(text.ends_with("5 of 6 types share their name with another: 83.3 %"), "{text}");
}

#[test]
fn what_is_only_there_for_tests_does_not_count() {
    let again = "struct Request;";
    let census = census(&[
        (
            "crates/a/src/lib.rs",
            "struct Request;\n#[cfg(test)] mod tests { struct Request; }\n#[cfg(test)] mod scripted;\n\
             #[cfg(all(test, unix))] struct Request;\n#[cfg(not(test))] struct Other;\n\
             #[cfg(test)] fn f() { struct Request; }\nmod b;\n",
        ),
        ("crates/a/src/scripted.rs", again),
        ("crates/a/src/scripted/more.rs", again),
        ("crates/a/src/b.rs", "#[cfg(test)] mod proof;"),
        ("crates/a/src/b/proof/mod.rs", again),
        ("crates/a/src/proof.rs", "struct Kept;"),
        ("crates/a/src/only.rs", "#![cfg(test)]\nstruct Request;"),
        ("crates/a/tests/t.rs", again),
        ("crates/a/benches/b.rs", again),
        ("crates/a/examples/e.rs", again),
    ]);
    assert_eq!((census.types(), census.shared().len()), (3, 0), "{census}");
}

#[test]
fn a_share_above_the_limit_and_a_name_used_again_are_complaints() {
    let census = census(&[
        ("crates/a/src/lib.rs", "struct A; struct B; struct C;"),
        ("crates/b/src/lib.rs", "struct A;"),
    ]);
    let once = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert!(census.complaints(Some(50.0), &once(&["B", "Z"])).is_empty());
    let above = census.complaints(Some(49.9), &[]);
    assert!(above.len() == 1 && above[0].starts_with("50.0 % of all types"), "{above:?}");
    assert_eq!(census.complaints(None, &once(&["A"])), ["A is there 2 times; it may be there once"]);
}

#[test]
fn a_tree_without_crates_or_with_broken_files_says_so() {
    let empty = tree(&[("crates/a/Cargo.toml", "")]);
    assert!(matches!(source_tree::read(empty.path()), Err(TreeError::NoCrates { .. })));
    let broken = tree(&[("crates/a/src/lib.rs", "struct A;\nstruct {")]);
    let Err(error) = source_tree::read(broken.path()) else { panic!("read") };
    assert!(error.to_string().contains("lib.rs:2: "), "{error}");
}
