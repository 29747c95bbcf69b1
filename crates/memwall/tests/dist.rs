//! What `scripts/dist` makes, with the program of the test build instead of one that takes minutes: packing is what is
//! tried here. The script installs both packages in clean folders and runs them there; it does the same with the
//! static program whenever it makes one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn done(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn packages_install_in_clean_folders_and_run() {
    if !["bash", "dpkg", "dpkg-deb", "strip", "tar", "gzip", "ldd"].into_iter().all(prerequisites::needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut dist = Command::new(repository().join("scripts/dist"));
    let said = done(dist.args(["--binary", env!("CARGO_BIN_EXE_memwall")]).arg(folder.path()));
    let made: Vec<&Path> = said.lines().filter(|line| line.starts_with('/')).map(Path::new).collect();
    let [tarball, package] = made[..] else { panic!("a tarball and a package: {said}") };
    assert!(said.contains("is not static"), "{said}");
    // Nothing is left of the trials.
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "{said}");

    let listed = done(Command::new("tar").arg("--list").arg("--file").arg(tarball));
    let package_field =
        |field: &str| done(Command::new("dpkg-deb").arg("--field").arg(package).arg(field)).trim().to_owned();
    let name = listed.split('/').next().expect("a folder").to_owned();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (package_field("Package"), package_field("Version")),
        ("memwall".to_owned(), version.to_owned())
    );
    assert_eq!(package_field("Depends"), "", "a static program depends on nothing");
    assert!(name.starts_with(&format!("memwall-{version}-")), "{name}");
    for file in [
        "bin/memwall",
        "share/man/man1/memwall.1.gz",
        "share/zsh/site-functions/_memwall",
        "include/memwall/memwall.h",
    ] {
        assert!(listed.contains(&format!("{name}/{file}\n")), "{file}: {listed}");
    }
    assert!(listed.lines().all(|file| file.starts_with(&format!("{name}/"))), "one folder: {listed}");

    let unpacked = folder.path().join("unpacked");
    done(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&unpacked));
    let libraries = fs::read_to_string(unpacked.join("usr/share/doc/memwall/LIBRARIES")).expect("a list");
    assert!(libraries.contains("clap v") && !libraries.contains("memwall"), "{libraries}");
    completes(&unpacked.join("usr/share/bash-completion/completions/memwall.bash"));
}

/// What bash offers for `memwall de<Tab>`.
fn completes(script: &Path) {
    let typed = "source \"$1\"; COMP_WORDS=(memwall de); COMP_CWORD=1; _memwall memwall de memwall; echo \"${COMPREPLY[@]}\"";
    let offered = done(Command::new("bash").args(["-c", typed, "bash"]).arg(script));
    assert_eq!(offered.trim(), "demo");
}

#[test]
fn a_package_that_does_not_work_is_not_made() {
    if !["bash", "dpkg", "dpkg-deb", "strip", "tar", "gzip", "ldd", "true"]
        .into_iter()
        .all(prerequisites::needs)
    {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut dist = Command::new(repository().join("scripts/dist"));
    let output = dist.args(["--binary", "/bin/true"]).arg(folder.path()).output().expect("it starts");
    assert!(!output.status.success());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
}
