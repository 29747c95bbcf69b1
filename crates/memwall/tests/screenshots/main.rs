//! Pictures of three reports, on a phone and on a desk, light and dark, and what must be on their first screen.
//!
//! The reports are of recordings kept for tests, on the machine they were made on; `scripts/screenshots` names a folder
//! with pages of its own instead, and one for the pictures.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../report/tests/html/chromium.rs"]
mod chromium;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use chromium::{Browser, Tab};
use machine::{
    Bytes, CpuSet, Profile,
    profile::{Bandwidths, Estimate, Extent, Fingerprint, LevelName, ProfileLevel},
    store::Store,
};

/// Recordings of programs that wait at memory, each in its own way.
const RECORDINGS: [&str; 3] = ["hash_join", "store_stream", "phases"];
/// Width and height of a window.
const WINDOWS: [(&str, u32, u32); 2] = [("phone", 390, 844), ("desk", 1280, 900)];

fn about(value: f64) -> Estimate {
    Estimate { value, low: value * 0.95, high: value * 1.05, samples: 20 }
}

fn level(
    name: LevelName,
    claimed: Option<Bytes>,
    usable: Option<f64>,
    latency_ns: f64,
    gb_per_s: [f64; 6],
) -> ProfileLevel {
    let [load, store, copy, all_load, all_store, all_copy] = gb_per_s.map(|rate| Some(about(rate * 1e9)));
    ProfileLevel {
        name,
        claimed,
        shared_by: Some(1),
        usable: usable.map(about),
        unseen: None,
        measured_with: None,
        latency_ns: Some(about(latency_ns)),
        one_core: Bandwidths { load, store, copy },
        all_cores: Bandwidths { load: all_load, store: all_store, copy: all_copy },
    }
}

/// What was measured on the guest that the recordings were made on (README.md, "What does this machine give?").
fn profile(fingerprint: Fingerprint) -> Profile {
    let cache = LevelName::Cache;
    Profile {
        fingerprint,
        measured_at: 1_794_795_000,
        extent: Extent { quick: false, complete: true },
        cpus: [0, 1].into_iter().collect::<CpuSet>(),
        levels: vec![
            level(
                cache(1),
                Some(Bytes::kib(32)),
                Some(33_178.0),
                1.13,
                [210.0, 114.0, 229.0, 96.1, 102.0, 370.0],
            ),
            level(
                cache(2),
                Some(Bytes::mib(1)),
                Some(809_984.0),
                4.33,
                [115.0, 105.0, 114.0, 211.0, 208.0, 225.0],
            ),
            level(
                cache(3),
                Some(Bytes::mib(32)),
                Some(8_178_892.0),
                17.9,
                [96.5, 97.9, 92.9, 192.0, 190.0, 180.0],
            ),
            level(
                LevelName::Memory { node: 0, local: true },
                None,
                None,
                231.0,
                [31.5, 28.0, 31.9, 52.0, 29.7, 36.2],
            ),
        ],
        ..Profile::unmeasured()
    }
}

/// Pages of the kept recordings.
fn kept_pages(folder: &Path) -> Vec<PathBuf> {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings");
    let store = Store::at(folder.join("memwall/profiles"));
    let page = |name: &str| {
        let recording = recordings.join(format!("{name}.sqlite"));
        let fingerprint = record::file::read(&recording).unwrap().about.fingerprint;
        store.save(&profile(fingerprint)).unwrap();
        let page = folder.join(format!("{name}.html"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.env("XDG_DATA_HOME", folder).arg("report").arg(recording).arg("--html").arg(&page);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        page
    };
    RECORDINGS.into_iter().map(page).collect()
}

/// Pages of another program.
fn given_pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "html"));
    pages.sort();
    pages
}

/// Whether the first element that matches ends within the window, without scrolling.
fn is_in_first_screen(tab: &mut Tab<'_>, selector: &str) -> bool {
    tab.holds(&format!(
        "(() => {{ const e = document.querySelector({selector:?}); if (!e) return false; \
         const b = e.getBoundingClientRect(); return b.height > 0 && b.top >= 0 && b.bottom <= innerHeight; }})()"
    ))
}

#[test]
fn twelve_pictures_with_the_answers_on_the_first_screen() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let given = env::var_os("MEMWALL_PAGES").map(PathBuf::from);
    let pages = given.as_deref().map_or_else(|| kept_pages(folder.path()), given_pages);
    assert_eq!(pages.len(), 3, "{pages:?}");
    let pictures = env::var_os("MEMWALL_PICTURES")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots"), PathBuf::from);
    fs::create_dir_all(&pictures).unwrap();
    let mut made = 0;
    for page in &pages {
        let name = page.file_stem().unwrap().to_string_lossy().into_owned();
        for (window, width, height) in WINDOWS {
            for dark in [false, true] {
                let form = format!("{name}-{window}-{}", if dark { "dark" } else { "light" });
                let mut tab = browser.open(page, width, height, dark);
                tab.picture(&pictures.join(format!("{form}.png")), false);
                made += 1;
                let over =
                    tab.number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
                assert!(over <= 0.0, "{form}: {over} px too wide");
                for (what, selector) in [
                    ("verdict", ".answer"),
                    ("level", ".answers > :nth-child(1) dd"),
                    ("data", ".answers > :nth-child(2) dd"),
                ] {
                    assert!(
                        is_in_first_screen(&mut tab, selector),
                        "{form}: the {what} is not on the first screen"
                    );
                }
                let said = tab.text("document.querySelector('.answers').textContent");
                assert!(said.contains("Waits at") && said.contains("For data"), "{form}: {said}");
                assert!(said.contains("memory "), "{form}: the level is not known: {said}");
                if window == "desk" {
                    assert!(
                        is_in_first_screen(&mut tab, ".pyramid svg"),
                        "{form}: the pyramid is not on the first screen"
                    );
                }
                let complaints = tab.close();
                assert!(complaints.is_empty(), "{form}: {complaints:?}");
            }
        }
    }
    assert_eq!(made, 12);
    println!("{made} pictures in {}", pictures.display());
}
