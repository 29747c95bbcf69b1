//! Every command of README.md, typed into a copy of what is in the repository. Commands stand in blocks of `sh` and in
//! the text; those that are long, or stand for something of the reader's, have another form in `short_forms.toml`, with
//! the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

/// What a command of the README begins with.
const BEGINNINGS: [&str; 6] = ["memwall ", "cargo ", "mpirun ", "sudo ", "scripts/", "examples/build"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortForms {
    words: BTreeMap<String, String>,
    form: Vec<ShortForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortForm {
    command: String,
    typed: String,
    why: String,
    needs: Option<String>,
    /// What it may say instead where the machine is disturbed: an answer as well.
    or_says: Option<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a folder")
}

/// Lines of `sh` blocks without their remarks, and code in the text that begins as commands do; each once, in order.
fn commands(readme: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, part) in readme.split("```").enumerate() {
        if at % 2 == 1 {
            let lines = part.strip_prefix("sh\n").unwrap_or_default().lines();
            found.extend(lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()));
        } else {
            let code = part.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " "));
            found.extend(code.filter(|code| BEGINNINGS.iter().any(|word| code.starts_with(word))));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|command| !command.is_empty() && seen.insert(command.clone()));
    found
}

#[test]
fn commands_are_found_in_blocks_and_in_the_text() {
    let text = "Say `memwall demo` or `--json`.\n```sh\ncargo test   # all\n\nmemwall  ./app\n```\n```text\nmemwall no\n```\n`memwall\nrun x`, `memwall demo`";
    assert_eq!(commands(text), ["memwall demo", "cargo test", "memwall  ./app", "memwall run x"]);
}

/// The working tree as a clone would have it: nothing that is ignored.
fn copy(to: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(repository())
        .output()
        .expect("git starts");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("names");
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // Removed, and not committed yet.
        let Ok(from) = repository().join(name).canonicalize() else { continue };
        let file = to.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::copy(from, &file).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_command_of_the_readme_works() {
    if !["git", "bash", "dpkg-deb", "tar", "cc"].into_iter().all(prerequisites::needs) {
        return;
    }
    let forms: ShortForms = toml::from_str(include_str!("short_forms.toml")).expect("short forms");
    let readme = fs::read_to_string(repository().join("README.md")).expect("the README");
    let commands = commands(&readme);
    assert!(commands.len() > 30, "{commands:#?}");
    for form in &forms.form {
        assert!(commands.contains(&form.command), "the README says no longer: {}", form.command);
        assert!(!form.why.is_empty(), "{}", form.command);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let clone = folder.path().join("clone");
    copy(&clone);
    let path = surroundings(folder.path(), &clone);
    let mut done = BTreeSet::new();
    for command in &commands {
        let form = forms.form.iter().find(|form| form.command == *command);
        if let Some(needed) = form.and_then(|form| form.needs.as_deref())
            && !prerequisites::needs(needed)
        {
            continue;
        }
        let typed = form.map_or_else(|| with_words(command, &forms.words), |form| form.typed.clone());
        // Several commands may have one short form.
        if !done.insert(typed.clone()) {
            continue;
        }
        let began = std::time::Instant::now();
        let output = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", &typed])
            .current_dir(&clone)
            .env("PATH", &path)
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .output()
            .expect("bash starts");
        println!("{:6.2} s  {command}", began.elapsed().as_secs_f64());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let or_says = form.and_then(|form| form.or_says.as_deref());
        let is_answer = output.status.success() || or_says.is_some_and(|words| said.contains(words));
        assert!(is_answer, "{command}\n({typed})\n{said}");
    }
}

fn with_words(command: &str, words: &BTreeMap<String, String>) -> String {
    let word = |word: &str| words.get(word).cloned().unwrap_or_else(|| word.to_owned());
    command.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// What the reader has: memwall on the path, programs of theirs, and a desktop that opens pages. Gives the path.
fn surroundings(folder: &Path, clone: &Path) -> std::ffi::OsString {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_memwall"), bin.join("memwall")).expect("a link");
    prerequisites::write_script("#!/bin/sh\nexit 0\n", &bin.join("xdg-open"));
    let source = folder.join("app.c");
    let chase = "#include <stdlib.h>\nint main(void) { size_t n = 1 << 20, *next = malloc(n * 64), at = 0; for (size_t i = 0; i < n; i++) \
                 next[i * 8] = (i * 40503 + 1) % n; for (int i = 0; i < 600000; i++) at = next[at * 8]; return at > n; }\n";
    fs::write(&source, chase).expect("a file");
    for name in ["app", "old", "new"] {
        let built = Command::new("cc").args(["-O1", "-g", "-o"]).arg(clone.join(name)).arg(&source).status();
        assert!(built.expect("cc starts").success());
    }
    let mut folders = vec![bin];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    env::join_paths(folders).expect("a path")
}
