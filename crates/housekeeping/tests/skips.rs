//! Tests are skipped in one way: through `prerequisites`, which fails where a test has to run.

use std::{fs, path::Path};

/// Words by which a test used to say that it did nothing.
const WORDS: [&str; 4] = ["\"skipped", "\"not tried here", "not tried\"", "is not installed\""];
/// The way itself, and an error that is not a test's.
const ALLOWED: [&str; 2] = ["crates/prerequisites/src/lib.rs", "crates/events/src/libpfm.rs"];

fn search(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with(file!()) {
            let text = fs::read_to_string(&path).expect("text");
            let lines = text.lines().enumerate();
            let words = lines.filter(|(_, line)| WORDS.iter().any(|words| line.contains(words)));
            found.extend(words.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim())));
        }
    }
}

#[test]
fn no_test_skips_in_a_way_of_its_own() {
    let mut found = Vec::new();
    search(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates"), &mut found);
    found.retain(|line| !ALLOWED.iter().any(|file| line.contains(file)));
    assert!(found.is_empty(), "use prerequisites::skip:\n{}", found.join("\n"));
}
