//! What other users of the machine must not get at.

use std::{fs, path::Path};

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, mode, said},
};
use prerequisites::Need;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "umask 0",
        must_hold: "recordings and such: ours alone; what setup installs: ours to write",
        held: || whatever_the_umask("0000"),
    },
    Fault {
        name: "umask 0777",
        must_hold: "the same, and ours to read",
        held: || whatever_the_umask("0777"),
    },
    Fault {
        name: "TMPDIR is a folder in which others may swap files",
        must_hold: "the library is put elsewhere",
        held: shared_temporary_folder,
    },
];

fn whatever_the_umask(umask: &str) -> Tried {
    let place = Place::new();
    // By descriptor, at last: the recording takes its name while the program begins.
    let script = "$memwall run -o a.sqlite --to a.txt --html a.html -- bash -c '\
                  stat -c \"%a\" $LD_PRELOAD $(dirname $LD_PRELOAD); umask' && \
                  $memwall --on sim:tiny calibrate --quick > /dev/null && \
                  $memwall --on sim:tiny validate --quick > /dev/null && \
                  $memwall run -- sh -c 'for file in /proc/$PPID/fd/*; do \
                  case $(readlink $file) in */memwall-*) stat -L -c %a $file;; esac; done; true' && \
                  { $memwall compare --runs 2 --keep series/kept -- true -- true > compared 2>&1 || true; } && \
                  $memwall setup --prefix installed/below > set-up";
    let output = place.shell(&format!("umask {umask}; {script}"));
    assert!(output.status.success(), "{output:?}");
    let shown = said(&output.stdout);
    let mut modes = shown.lines();
    assert_eq!((modes.next(), modes.next()), (Some("500"), Some("700")), "{shown}");
    assert!(shown.contains(&format!("\n{umask}\n")), "the program keeps its own umask: {shown}");
    let last = shown.lines().last().expect("the passing recording");
    assert_eq!(last, "600", "{shown}");
    for name in ["a.sqlite", "a.txt", "a.html"] {
        assert_eq!(mode(&place.path(name)), 0o600, "{name}");
    }
    for folder in ["data/memwall/profiles", "data/memwall/trust"] {
        assert_eq!(mode(&place.path(folder)), 0o700, "{folder}");
        for file in fs::read_dir(place.path(folder)).expect("there") {
            let file = file.expect("an entry").path();
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
    check_modes(&place.path("series"), 0o700, 0o600);
    // All may read it, and programs of theirs load it.
    check_modes(&place.path("installed"), 0o755, 0o644);
    Held
}

/// Of a folder and all in it.
fn check_modes(folder: &Path, of_folders: u32, of_files: u32) {
    assert_eq!(mode(folder), of_folders, "{}", folder.display());
    let entries: Vec<_> = fs::read_dir(folder).expect("there").collect();
    assert!(!entries.is_empty(), "{}", folder.display());
    for entry in entries {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => check_modes(&path, of_folders, of_files),
            false => assert_eq!(mode(&path), of_files, "{}", path.display()),
        }
    }
}

fn shared_temporary_folder() -> Tried {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let shared = place.path("shared");
    fs::create_dir(&shared).expect("made");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("ours");
    if mode(Path::new("/tmp")) & 0o777 != 0o777 {
        return Missing(Need::SharedTmp);
    }
    let output = place.shell("TMPDIR=$PWD/shared $memwall run --to a.txt -- sh -c 'echo $LD_PRELOAD'");
    let shown = said(&output.stdout);
    assert!(shown.contains("memwall-heap") && !shown.contains("shared"), "{shown}");
    Held
}
