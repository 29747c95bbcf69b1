//! What other users of the machine must not get at.

use std::fs;

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, mode, said},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "umask 0",
        must_hold: "library, its folder, recordings, reports, profiles: ours alone",
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
                  case $(readlink $file) in */memwall-*) stat -L -c %a $file;; esac; done; true'";
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
    Held
}

fn shared_temporary_folder() -> Tried {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let shared = place.path("shared");
    fs::create_dir(&shared).expect("made");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("ours");
    if mode(std::path::Path::new("/tmp")) & 0o777 != 0o777 {
        return Missing("/tmp that all may write to");
    }
    let output = place.shell("TMPDIR=$PWD/shared $memwall run --to a.txt -- sh -c 'echo $LD_PRELOAD'");
    let shown = said(&output.stdout);
    assert!(shown.contains("memwall-heap") && !shown.contains("shared"), "{shown}");
    Held
}
