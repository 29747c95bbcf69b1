//! What others made, and memwall must not take at its word: recordings, files it is pointed to, names in programs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Output,
    thread::sleep,
    time::{Duration, Instant},
};

use record::run::Run;

use super::{
    Fault,
    Tried::{self, Held},
    place::{Place, said},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a recording names files of ours as its source",
        must_hold: "none is read but below a folder that the user names",
        held: named_sources,
    },
];

/// Long enough for all that is tried here, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What memwall says; panics if it does not end, and gives the most memory it took, in KiB.
fn ended(place: &Place, arguments: &[&str]) -> (Output, u64) {
    // Files: nobody reads a pipe meanwhile.
    let [out, err] = ["said-on-stdout", "said-on-stderr"].map(|name| place.path(name));
    let file = |path: &Path| fs::File::create(path).expect("a file");
    let mut command = place.memwall(arguments);
    let mut child = command.stdout(file(&out)).stderr(file(&err)).spawn().expect("memwall starts");
    let end = Instant::now() + PATIENCE;
    let account = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().expect("our child").is_none() {
        let peak = fs::read_to_string(&account).unwrap_or_default();
        let peak = peak
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        if Instant::now() > end {
            let _ = child.kill();
            panic!("memwall hangs: {arguments:?}");
        }
        sleep(Duration::from_millis(5));
    }
    let status = child.wait().expect("our child");
    let [stdout, stderr] = [out, err].map(|path| fs::read(path).expect("there"));
    (Output { status, stdout, stderr }, peak_kib)
}

/// memwall must refuse, with a line that holds `word`.
fn refused(place: &Place, arguments: &[&str], word: &str) {
    let (output, _) = ended(place, arguments);
    let shown = said(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?} {output:?}");
    assert!(shown.contains(word) && shown.lines().count() == 1, "{arguments:?} {shown}");
}

/// A recording of `sum`, which has lines of source.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings/sum.sqlite")
}

/// That recording as somebody changed it.
fn changed(place: &Place, name: &str, change: impl FnOnce(&mut Run)) -> PathBuf {
    let mut run = record::file::read(&kept()).expect("a recording");
    change(&mut run);
    let path = place.path(name);
    record::file::write(&path, &run).expect("written");
    path
}

fn named_sources() -> Tried {
    let place = Place::new();
    let secret = "the password is swordfish\n".repeat(100);
    fs::create_dir_all(place.path("code/deep")).expect("made");
    fs::create_dir(place.path("other")).expect("made");
    fs::write(place.path("secret"), &secret).expect("written");
    fs::write(place.path("code/deep/ours.c"), &secret).expect("written");
    symlink("../secret", place.path("code/link.c")).expect("made");
    let page = |source: &str, arguments: &[&str]| {
        let source = place.path(source).to_str().expect("text").to_owned();
        changed(&place, "a.sqlite", |run| run.files.fill(source));
        let (output, _) = ended(&place, &[&["report", "a.sqlite", "--html", "a.html"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        let page = fs::read_to_string(place.path("a.html")).expect("a page");
        (page.contains("swordfish"), page.contains("--sources"))
    };
    assert_eq!(page("secret", &[]), (false, true), "not asked for, and that is said");
    assert_eq!(page("code/deep/ours.c", &[]), (false, true));
    assert_eq!(page("code/deep/ours.c", &["--sources", "code"]), (true, false), "asked for");
    assert_eq!(page("code/deep/ours.c", &["--sources", "other", "--sources", "code"]), (true, false));
    for way_out in ["secret", "code/../secret", "code/link.c"] {
        assert_eq!(page(way_out, &["--sources", "code"]), (false, true), "{way_out}");
    }
    fs::create_dir(place.path("code/dee")).expect("made");
    assert_eq!(page("code/deep/ours.c", &["--sources", "code/dee"]), (false, true), "another folder");
    refused(&place, &["report", "a.sqlite", "--html", "a.html", "--sources", "none"], "--sources none");
    Held
}
