//! Modules of the simulator name only those below them: what a core or a memory does cannot depend on who counts it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// From the bottom up; a module names modules of layers below its own.
const LAYERS: [&[&str]; 8] = [
    &["divider", "supplier", "time"],
    &["signal"],
    &["access"],
    &["source"],
    &["core", "memory"],
    &["plan_source", "scripted_memory"],
    &["pmu"],
    &["engine"],
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, into),
            false => into.push(path),
        }
    }
}

/// Files of the crate with the module each belongs to.
fn files() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let module = |path: &Path| {
        let first = path.strip_prefix(&root).expect("below").components().next().expect("a name");
        first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
    };
    paths
        .into_iter()
        .map(|path| (module(&path), fs::read_to_string(&path).expect("text"), path))
        .map(|(module, text, path)| (module, path, text))
        .filter(|(module, ..)| module != "lib")
        .collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Modules behind `crate::` in code: `crate::time::Time`, `crate::{access, time::Time}`.
fn named(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = BTreeSet::new();
    for (at, name) in code.match_indices("crate::") {
        let rest = &code[at + name.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ if letter.is_whitespace() => {}
                _ => {
                    if std::mem::take(&mut begins) {
                        found.insert(word(&list[at..]));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn modules_name_only_what_lies_below_them() {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let mut wrong = Vec::new();
    for (module, path, text) in files() {
        let own = layer(&module).unwrap_or_else(|| panic!("{module}: no layer; add it where it belongs"));
        for name in named(&text).into_iter().filter(|name| *name != module) {
            if layer(&name).is_none_or(|other| other >= own) {
                wrong.push(format!("{} names {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cores_and_memory_do_not_know_who_counts() {
    let knows = |text: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "pmu");
    let all = files();
    let below: Vec<_> = all.iter().filter(|(module, ..)| ["core", "memory"].contains(&&**module)).collect();
    assert!(below.len() > 20, "{} files", below.len());
    let wrong: Vec<_> =
        below.iter().filter(|(.., text)| knows(text)).map(|(_, path, _)| path.display()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
