//! What others made, and memwall must not take at its word: recordings, files it is pointed to, names in programs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Output,
    thread::sleep,
    time::{Duration, Instant},
};

use prerequisites::Need;
use record::run::Run;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, memwall, said},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a recording names files of ours as its source",
        must_hold: "none is read but below a folder that the user names",
        held: named_sources,
    },
    Fault {
        name: "a pipe lies where a file should",
        must_hold: "nobody waits for its other end",
        held: pipes,
    },
    Fault { name: "a file has no end (/dev/zero)", must_hold: "it is refused at once", held: endless_files },
    Fault {
        name: "a recording is full of tricks (SQL)",
        must_hold: "it is refused at once, none is played",
        held: tricky_recordings,
    },
    Fault {
        name: "a journal beside a recording names a file of ours",
        must_hold: "that file stays",
        held: journal_that_deletes,
    },
    Fault {
        name: "debug information unfolds to gigabytes (zlib)",
        must_hold: "the program is recorded in little memory",
        held: bomb_in_debug_information,
    },
    Fault {
        name: "a profile holds numbers next to nothing (1e-320)",
        must_hold: "what it is asked for comes at once",
        held: tiny_numbers,
    },
    Fault {
        name: "another user lists our generated code (/tmp/perf-PID.map)",
        must_hold: "the list is not believed, our own is",
        held: list_of_another_user,
    },
    Fault {
        name: "names hold codes for the terminal, or turn its writing",
        must_hold: "none reaches it, in reports, errors or data",
        held: names_that_steer,
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

/// That recording as another user changed it.
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

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR | Mode::XUSR, 0).expect("a pipe");
}

fn pipes() -> Tried {
    let place = Place::new();
    make_pipe(&place.path("pipe"));
    make_pipe(&place.path("pipe.toml"));
    let not_regular = "not a regular file";
    refused(&place, &["report", "pipe"], not_regular);
    refused(&place, &["compare", "pipe", "pipe"], not_regular);
    refused(&place, &["kernels", "--kernel-file", "pipe"], not_regular);
    refused(&place, &["--model-file", "pipe", "topology"], not_regular);
    refused(&place, &["models", "show", "--model-file", "pipe"], not_regular);
    refused(&place, &["scenario", "./pipe.toml"], not_regular);
    refused(&place, &["run", "--", "./pipe"], "pipe");
    refused(&place, &["record", "-o", "pipe", "--", "true"], "pipe");
    // A recording whose program has become a pipe, and which has to be asked for its functions.
    changed(&place, "cut.sqlite", |run| {
        run.functions.clear();
        run.lines.clear();
        run.places.iter_mut().for_each(|module| module.function = None);
        for module in &mut run.modules {
            (module.path, module.build_id) =
                (place.path("pipe").to_str().expect("text").to_owned(), Some("abcd".into()));
        }
    });
    let (output, _) = ended(&place, &["report", "cut.sqlite", "--verbose"]);
    assert!(output.status.success(), "{output:?}");
    for (folder, command) in
        [("profiles", "profile"), ("trust", "events"), ("profiles", "calibrate"), ("trust", "validate")]
    {
        let folder = place.path("data/memwall").join(folder);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("made");
        for name in names_of_tiny() {
            make_pipe(&folder.join(name));
        }
        let quick = ["--quick"].as_slice().get(..usize::from(matches!(command, "calibrate" | "validate")));
        let (output, _) =
            ended(&place, &[&["--on", "sim:tiny", command], quick.unwrap_or_default()].concat());
        assert!(output.status.code().is_some(), "{output:?}");
    }
    Held
}

/// Names of the files that are kept for the simulated machine `tiny`.
fn names_of_tiny() -> Vec<String> {
    let place = Place::new();
    let (output, _) = ended(&place, &["--on", "sim:tiny", "calibrate", "--quick"]);
    assert!(output.status.success(), "{output:?}");
    let entries = fs::read_dir(place.path("data/memwall/profiles")).expect("there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    names.flat_map(|name| [name.replace(".json", ".observations"), name, "other.json".to_owned()]).collect()
}

fn endless_files() -> Tried {
    let place = Place::new();
    let sparse = fs::File::create(place.path("large.toml")).expect("made");
    sparse.set_len(1 << 40).expect("made long");
    symlink("/dev/zero", place.path("zero.toml")).expect("made");
    for (file, word) in [("./zero.toml", "not a regular file"), ("./large.toml", "longer than")] {
        refused(&place, &["kernels", "--kernel-file", file], word);
        refused(&place, &["--model-file", file, "topology"], word);
        refused(&place, &["scenario", file], word);
    }
    refused(&place, &["report", "zero.toml"], "not a regular file");
    Held
}

fn tricky_recordings() -> Tried {
    let place = Place::new();
    let endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)";
    let tricks = [
        format!("DROP TABLE remark; CREATE VIEW remark AS {endless} SELECT id, 'a' AS text FROM n"),
        format!(
            "DROP TABLE remark; CREATE VIEW remark AS {endless} SELECT id, 'a' AS text FROM n WHERE id < 0"
        ),
        "ALTER TABLE remark RENAME TO old; CREATE VIEW remark AS SELECT id, text FROM old".to_owned(),
        "DROP TABLE argument; CREATE TABLE argument(id INTEGER PRIMARY KEY, \
         text AS (hex(zeroblob(400000000)))); INSERT INTO argument(id) VALUES(0),(1),(2),(3),(4),(5),(6),(7)"
            .to_owned(),
        "UPDATE function SET code = zeroblob(100000000)".to_owned(),
        "DROP TABLE remark; CREATE VIRTUAL TABLE remark USING fts5(id, text)".to_owned(),
    ];
    for trick in tricks {
        if altered(&place, &trick).is_err() {
            // Kinds of tables that this SQLite was built without.
            continue;
        }
        let (output, peak_kib) = ended(&place, &["report", "altered.sqlite"]);
        let shown = said(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{trick} {output:?}");
        assert!(shown.contains("damaged recording"), "{trick} {shown}");
        assert!(peak_kib < 400 << 10, "{trick} {peak_kib} KiB");
    }
    let harmless = [
        // It claims to have taken six hundred years.
        "UPDATE about SET value = -1 WHERE key = 'elapsed_ns'",
        // What people add for themselves.
        "CREATE INDEX mine ON sample(place); CREATE VIEW my_view AS SELECT count(*) FROM sample; \
         CREATE TABLE my_notes(a AS (1), b)",
    ];
    for change in harmless {
        altered(&place, change).expect("changed");
        let (output, _) = ended(&place, &["report", "altered.sqlite", "--html", "a.html"]);
        assert!(output.status.success(), "{change} {output:?}");
    }
    Held
}

/// Makes `altered.sqlite` of the recording that is kept.
fn altered(place: &Place, change: &str) -> rusqlite::Result<()> {
    let path = place.path("altered.sqlite");
    fs::copy(kept(), &path).expect("copied");
    rusqlite::Connection::open(&path)?.execute_batch(change)
}

/// With this begins every rollback journal of SQLite, and ends one that names another file.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

fn journal_that_deletes() -> Tried {
    let place = Place::new();
    let (recording, precious) = (place.path("a.sqlite"), place.path("precious"));
    fs::copy(kept(), &recording).expect("copied");
    fs::write(&precious, "a life's work").expect("written");
    let pages = u32::try_from(fs::metadata(&recording).expect("there").len() / 4096).expect("few");
    let mut journal = JOURNAL_MAGIC.to_vec();
    // No page to put back, a salt, so many pages before, sectors of 512 bytes, pages of 4096.
    for number in [0, 1, pages, 512, 4096] {
        journal.extend(u32::to_be_bytes(number));
    }
    journal.resize(512, 0);
    let name = precious.to_str().expect("text").as_bytes();
    journal.extend(u32::MAX.to_be_bytes());
    journal.extend(name);
    journal.extend(u32::try_from(name.len()).expect("short").to_be_bytes());
    journal.extend(name.iter().map(|byte| u32::from(*byte)).sum::<u32>().to_be_bytes());
    journal.extend(JOURNAL_MAGIC);
    fs::write(place.path("a.sqlite-journal"), journal).expect("written");
    for arguments in [&["report", "a.sqlite"][..], &["record", "-o", "a.sqlite", "--", "true"]] {
        ended(&place, arguments);
        assert!(precious.exists(), "{arguments:?} removed it");
    }
    Held
}

fn bomb_in_debug_information() -> Tried {
    /// Of each section; there are several.
    const UNFOLDED_BYTES: usize = 1 << 30;
    let place = Place::new();
    let source =
        "int main(void) { volatile long n = 0; for (long i = 0; i < 400000000; i++) n += i; return 0; }";
    let Some(program) = place.build("cc", "bomb", source, &["-g"]) else {
        return Missing(Need::Program("cc"));
    };
    let mut section = [1_u32.to_le_bytes(), [0; 4]].concat();
    section.extend((UNFOLDED_BYTES as u64).to_le_bytes());
    section.extend(1_u64.to_le_bytes());
    section.extend(zeros_as_zlib(UNFOLDED_BYTES));
    fs::write(place.path("section"), section).expect("written");
    const SECTIONS: [&str; 2] = [".debug_info", ".debug_str"];
    let changes = SECTIONS.map(|name| format!("--update-section {name}=section"));
    let changed = place.shell(&format!("objcopy {} bomb", changes.join(" ")));
    if !changed.status.success() {
        return Missing(Need::Program("objcopy"));
    }
    let mut elf = fs::read(&program).expect("there");
    SECTIONS.iter().for_each(|name| mark_compressed(&mut elf, name));
    fs::write(&program, elf).expect("written");
    let (output, peak_kib) = ended(&place, &["run", "--", "./bomb"]);
    assert!(output.status.success(), "{output:?}");
    assert!(peak_kib < 512 << 10, "{peak_kib} KiB");
    Held
}

/// Zeros as a zlib stream of blocks with a fixed code: each repeats the letter before 258 times.
fn zeros_as_zlib(count: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with the fixed code.
    bits.push(0b011, 3);
    // The letter 0 is 00110000, length 258 is 11000101, distance 1 is 00000: codes have their high bit first.
    bits.push(0b0000_1100, 8);
    let repeats = (count - 1) / 258;
    for _ in 0..repeats {
        bits.push(0b0_0000_1010_0011, 13);
    }
    for _ in 0..(count - 1) % 258 {
        bits.push(0b0000_1100, 8);
    }
    bits.push(0, 7);
    let mut stream = vec![0x78, 0x9c];
    stream.extend(bits.finish());
    let adler = (u32::try_from(count % 65521).expect("small") << 16) | 1;
    stream.extend(adler.to_be_bytes());
    stream
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    rest: u64,
    waiting: u32,
}

impl Bits {
    fn push(&mut self, bits: u64, count: u32) {
        self.rest |= bits << self.waiting;
        self.waiting += count;
        while self.waiting >= 8 {
            self.bytes.push((self.rest & 0xff) as u8);
            self.rest >>= 8;
            self.waiting -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.waiting > 0 {
            self.bytes.push(self.rest as u8);
        }
        self.bytes
    }
}

/// Sets the flag of a section of an ELF file of 64 bits.
fn mark_compressed(elf: &mut [u8], name: &str) {
    const COMPRESSED: u8 = 8;
    let number = |elf: &[u8], at: usize, size: usize| {
        elf[at..at + size].iter().rev().fold(0_usize, |all, byte| (all << 8) | usize::from(*byte))
    };
    let (table, count, of_names) = (number(elf, 40, 8), number(elf, 60, 2), number(elf, 62, 2));
    let names = number(elf, table + 64 * of_names + 24, 8);
    for header in (0..count).map(|index| table + 64 * index) {
        let at = names + number(elf, header, 4);
        if elf[at..].starts_with(name.as_bytes()) && elf[at + name.len()] == 0 {
            // Which flags there are: eight bytes, of which this is the twelfth bit.
            elf[header + 9] |= COMPRESSED;
        }
    }
}

fn tiny_numbers() -> Tried {
    let place = Place::new();
    let (output, _) = ended(&place, &["--on", "sim:tiny", "calibrate", "--quick"]);
    assert!(output.status.success(), "{output:?}");
    let folder = place.path("data/memwall/profiles");
    let entry = fs::read_dir(folder).expect("there").next().expect("a profile").expect("an entry");
    let whole: Value = serde_json::from_slice(&fs::read(entry.path()).expect("there")).expect("JSON");
    for number in [1e-320, 1e-300, 1e300, -1.0] {
        let mut profile = whole.clone();
        replace_numbers(&mut profile, number);
        fs::write(entry.path(), profile.to_string()).expect("written");
        for arguments in [&["profile", "--html", "a.html"][..], &["profile"]] {
            let (output, peak_kib) = ended(&place, &[&["--on", "sim:tiny"], arguments].concat());
            assert!(matches!(output.status.code(), Some(0 | 1)), "{number} {output:?}");
            assert!(peak_kib < 400 << 10, "{number} {peak_kib} KiB");
        }
    }
    Held
}

/// Puts `number` in the place of every number with a fraction.
fn replace_numbers(value: &mut Value, number: f64) {
    match value {
        Value::Number(old) if old.is_f64() => *value = number.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_numbers(value, number)),
        Value::Object(values) => values.values_mut().for_each(|value| replace_numbers(value, number)),
        _ => {}
    }
}

const GENERATES: &str = r#"
    #define _GNU_SOURCE
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    /* mov ecx, 400000000; dec ecx; jnz; ret */
    static const unsigned char CODE[] = {0xb9, 0x00, 0x84, 0xd7, 0x17, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    int main(int n, char **v) {
        char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(code, CODE, sizeof CODE);
        char name[60];
        snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
        FILE *list = fopen(name, "wx");
        if (!list) return 1;
        fprintf(list, "%lx %zx listed_code\n", (unsigned long)code, sizeof CODE);
        fclose(list);
        if (n > 1 && chown(name, atoi(v[1]), -1)) return 2;
        puts(name);
        for (int i = 0; i < 3; i++) ((void (*)(void))code)();
    }"#;

fn list_of_another_user() -> Tried {
    if !rustix::process::geteuid().is_root() {
        return Missing(Need::Root);
    }
    let place = Place::new();
    let Some(program) = place.build("cc", "generates", GENERATES, &[]) else {
        return Missing(Need::Program("cc"));
    };
    let named = |arguments: &[&str]| {
        let command =
            [&["record", "-o", "a.sqlite", "--", program.to_str().expect("text")], arguments].concat();
        let (output, _) = ended(&place, &command);
        assert!(output.status.success(), "{output:?}");
        fs::remove_file(said(&output.stdout).trim()).expect("the list");
        let run = record::file::read(&place.path("a.sqlite")).expect("a recording");
        let is_refused =
            run.remarks.iter().any(|remark| remark.contains("perf-") && remark.contains("another user"));
        (run.functions.iter().any(|function| function.name == "listed_code"), is_refused)
    };
    match named(&[]) {
        (true, false) => {}
        (false, false) => return Missing(Need::PerfEvent),
        other => panic!("{other:?}"),
    }
    assert_eq!(named(&["65534"]), (false, true));
    Held
}

/// What must not reach a terminal: escapes, other controls, and what turns the direction of writing.
const STEERING: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[8m\u{9b}31m\u{8}\u{7f}\u{202e}\u{2066}\u{2069}\u{200f}\u{200e}\u{61c}\u{202a}";

/// Nothing but line ends steers the terminal, and colours where memwall may use them.
fn check_harmless(what: &str, bytes: &[u8]) {
    let text = said(bytes);
    let mut plain = text.clone();
    for colour in
        ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[4m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"]
    {
        plain = plain.replace(colour, "");
    }
    let steering = |letter: &char| {
        letter.is_control() && *letter != '\n'
            || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert_eq!(plain.chars().find(steering), None, "{what}: {plain:?}");
}

fn names_that_steer() -> Tried {
    let place = Place::new();
    changed(&place, "a.sqlite", |run| {
        let foul = |text: &mut String| *text = format!("{text}{STEERING}");
        run.about.command.iter_mut().for_each(foul);
        run.functions.iter_mut().for_each(|function| foul(&mut function.name));
        run.files.iter_mut().for_each(foul);
        run.modules.iter_mut().for_each(|module| {
            foul(&mut module.path);
            module.problem = Some(format!("lost{STEERING}"));
        });
        run.threads.iter_mut().for_each(|thread| foul(&mut thread.name));
        run.processes.iter_mut().for_each(|process| foul(&mut process.name));
        run.remarks.push(format!("A remark{STEERING}\nmemwall: all is well."));
        run.about.fingerprint.cpu += STEERING;
    });
    let missing = format!("missing{STEERING}.toml");
    let other = format!("other{STEERING}.sqlite");
    fs::write(place.path(&other), "no recording").expect("written");
    fs::write(place.path(&missing.replace("missing", "odd")), format!("[kernel.\"{STEERING}"))
        .expect("written");
    let odd = missing.replace("missing", "odd");
    for colour in ["always", "never"] {
        for arguments in [
            &["report", "a.sqlite"][..],
            &["report", "a.sqlite", "--verbose"],
            &["report", "a.sqlite", "--json"],
            &["report", "a.sqlite", "--html", "a.html"],
            &["report", "a.sqlite", "--text", "a.txt", "--verbose"],
            &["compare", "a.sqlite", "a.sqlite"],
            &["report", &missing],
            &["report", &other],
            &["kernels", "--kernel-file", &missing],
            &["kernels", "--kernel-file", &odd],
            &["scenario", &missing],
            &["scenario", STEERING],
            &["bench", STEERING],
            &["count", "-e", STEERING, "--", "true"],
            &["--on", STEERING, "topology"],
            &["--model-file", &missing, "topology"],
            &["run", "--", &missing],
            &["record", "-o", &other, "--", "true"],
            &[STEERING],
            &["report", "--top", STEERING],
        ] {
            let (output, _) = ended(&place, &[&["--color", colour], arguments].concat());
            check_harmless(&format!("stdout of {arguments:?}"), &output.stdout);
            check_harmless(&format!("stderr of {arguments:?}"), &output.stderr);
        }
    }
    for name in ["a.txt", "a.html"] {
        check_harmless(name, &fs::read(place.path(name)).expect("written"));
    }
    let shown = place.shell("$memwall report a.sqlite --verbose");
    assert!(!said(&shown.stdout).contains("\nmemwall: all is well"), "a remark starts no line of its own");
    // JSON and rows in files keep the data.
    let output = place.memwall(&["report", "a.sqlite", "--json"]).output().expect("starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report.to_string().contains('\u{202e}'), "{}", memwall());
    Held
}
