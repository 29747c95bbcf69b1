//! Valid inputs: files of this repository, and some that are made here.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

/// Recordings that seeds are made of: small ones, and one with allocations.
const RECORDINGS: [&str; 4] = ["chase_l1", "false_sharing", "atomics", "allocator"];

/// A function with lines, calls and variables.
const PROGRAM: &str = "#include <stdlib.h>\nint table[8];\nstatic inline int twice(int x) { return x * 2; }\n\
                       int main(int n, char **a) { int *p = malloc(4); *p = twice(n) + table[n]; return *p; }\n";

/// A folder in memory where the system has a place for that: bodies write thousands of files.
pub fn folder() -> io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// All files of a folder with this ending, by name.
fn files(of: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(repository(of)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Whole recordings.
pub fn recordings() -> Vec<Vec<u8>> {
    static READ: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let path = |name| repository("crates/memwall/tests/run/recordings").join(format!("{name}.sqlite"));
    READ.get_or_init(|| RECORDINGS.iter().filter_map(|name| fs::read(path(name)).ok()).collect()).clone()
}

/// Which recording, and edits: one of each table, set to what is there anyway, or nearly; the first of each column set to -1, which
/// many columns take for the largest number; and each thing said of the whole recording likewise.
pub fn edits() -> Vec<Vec<u8>> {
    let edit = |[table, column, row, kind]: [u8; 4], value: i64| {
        [&[table, column, row, 0, kind][..], &value.to_le_bytes()].concat()
    };
    let of_each_table: Vec<u8> =
        (0..24).flat_map(|table| edit([table, table, table, 3], table.into())).collect();
    let mut all: Vec<Vec<u8>> =
        (0..RECORDINGS.len() as u8).map(|which| [&[which][..], &of_each_table].concat()).collect();
    // `about` is the first table, its values the second column.
    all.extend((0..32).map(|row| [&[0][..], &edit([0, 1, row, 1], i64::MAX)].concat()));
    let columns = (0..24).flat_map(|table| (0..12).map(move |column| (table, column)));
    all.extend(columns.map(|(table, column)| [&[0][..], &edit([table, column, 0, 1], -1)].concat()));
    all
}

/// The library that goes into programs and, where there is a compiler, a program with debug information.
pub fn elf() -> Vec<Vec<u8>> {
    static COMPILED: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let folder = folder().ok()?;
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        fs::write(&source, PROGRAM).ok()?;
        let done = Command::new("cc").args(["-g", "-O1", "-o"]).arg(&program).arg(&source).status().ok()?;
        done.success().then(|| fs::read(&program).ok()).flatten()
    });
    [heap::LIBRARY.to_vec()].into_iter().chain(compiled.clone()).collect()
}

/// Files with every field and many kinds of records; a pipe, and compressed ones.
pub fn perf_data() -> Vec<Vec<u8>> {
    use import::scripted::{ScriptedEvent, ScriptedFile, ScriptedSample};
    // All fields but the one that only needs more room.
    let event = |config, id| ScriptedEvent {
        name: format!("event {config}"),
        config,
        pace: 1000,
        sample_type: 0x1df_ffff & !(1 << 4),
        branch_sample_type: 1 << 17,
        registers: 0b101,
        id,
        ..ScriptedEvent::default()
    };
    let mut file = ScriptedFile::of(vec![event(0, 5), event(3, 6)]);
    [(3, "host"), (4, "6.1"), (6, "x86_64"), (9, "GenuineIntel,6,85,4")]
        .into_iter()
        .for_each(|(section, text)| file.say(section, text));
    file.execute((7, 8), 1, "app");
    file.map((7, 8), 2, (0x40_0000, 0x50_0000), "/bin/true", &[1; 20]);
    for turn in 0..20 {
        let sample = ScriptedSample {
            ip: 0x40_0000 + turn,
            task: (7, 8),
            time_ns: 10 + turn,
            address: 0x1000,
            period: 5,
            chain: vec![u64::MAX - 511, 0x40_0000 + turn, 0x40_0010],
            raw: vec![1; 12],
            branches: vec![[1, 2, 3]; 2],
            registers: vec![3, 4],
            stack: vec![0; 16],
            weight: 30,
            data_source: 0x0821_0142,
            ..ScriptedSample::default()
        };
        file.sample((turn % 2) as usize, if turn % 3 == 0 { 1 } else { 2 }, &sample);
    }
    file.finish_round();
    let traced = {
        let mut file = file.clone();
        file.record(71, 0, &[&16u64.to_ne_bytes()[..], &[0; 32]].concat());
        file.records.extend([0xff; 16]);
        file.record(18, 0, &[0; 64]);
        file
    };
    let packed = [file.compressed(300, false), file.compressed(5000, true)];
    let mut old = file.file();
    old[..8].copy_from_slice(b"PERFFILE");
    let mut of_kernel = file.clone();
    of_kernel.map_kernel((0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000), "_text");
    of_kernel.sections.insert(2, build_ids());
    let turned = ScriptedFile { events: vec![event(0, 5)], ..file.clone() };
    let mut all = vec![file.file(), file.pipe(), traced.file(), old, of_kernel.file()];
    all.push(turned.file_of_other_order());
    all.extend(packed.into_iter().flatten().map(|file| file.file()));
    all
}

/// The kernel's, and a module's.
fn build_ids() -> Vec<u8> {
    let entry = |path: &[u8]| {
        let mut body = [&(-1i32).to_ne_bytes()[..], &[7; 20], &[20, 0, 0, 0], path].concat();
        body.resize((body.len() + 1).next_multiple_of(8) + 4, 0);
        pmu::record::encode(67, 1 | 1 << 15, &body)
    };
    [entry(b"[kernel.kallsyms]"), entry(b"/lib/modules/6.1.0/a.ko.xz")].concat()
}

/// Records of two rings, with nothing around them.
pub fn perf_rings() -> Vec<Vec<u8>> {
    let file = perf_data().swap_remove(0);
    let word = |at: usize| file[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word) as usize);
    let (at, length) = (word(40), word(48));
    vec![file[at..at + length].to_vec()]
}

/// As the kernel lists its symbols.
pub fn kernel_names() -> Vec<Vec<u8>> {
    let list = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000040 t __do_work\n\
                ffffffff81000040 W do_work\nffffffff81000200 T _etext\nffffffff81000300 D table\n\
                ffffffffc0000000 t hello\t[greet]\nffffffffc0000010 t bye\t[greet]\n";
    vec![list.into()]
}

/// With and without intervals, in both forms.
pub fn perf_stat() -> Vec<Vec<u8>> {
    let fields = "# started on\n\n1.69,msec,task-clock,1685016,100.00,0.816,CPUs utilized\n\
                  48,,cpu/event=0x3c,umask=1/,0.69%,437919,50.00,111.8,K/sec\n<not supported>,,cycles,0,100.00,,\n";
    let interval = "     0.100204821;CPU1;1.25;msec;task-clock;1253007;100.00;0.013;CPUs utilized\n\
                    0.2;S0;2;<not counted>;;cycles;0;100.00;;\n";
    let object = "{\"interval\" : 0.1, \"cpu\" : \"1\", \"counter-value\" : \"49.0\", \"unit\" : \"\", \
                  \"event\" : \"page-faults\", \"event-runtime\" : 623694, \"pcnt-running\" : 100.00}\n";
    [fields, interval, object].map(|text| text.as_bytes().to_vec()).into()
}

/// As Node and Java write them.
pub fn perf_map() -> Vec<Vec<u8>> {
    let text = "7f00 20 LazyCompile:*walk list.js:3\n7f20 40 Function:~a\n7f10 18 again, over both\n\
                fffffffffffffff0 10 at the end\n";
    vec![text.into()]
}

/// Files that say of a process who it is, each behind its name.
pub fn procfs() -> Vec<Vec<u8>> {
    let stat = format!("stat\n77 (a) b) S {}12345 0 0\n", "1 ".repeat(18));
    let texts = [
        "maps\n00400000-00401000 r-xp 00000000 08:01 42                         /bin/a b (deleted)\n\
         7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n",
        &stat,
        "statm\n1024 512 128 1 0 99 0\n",
        "status\nName:\ta b\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t77\t3\n",
        "schedstat\n123456789 98765 43\n",
        "cmdline\n/bin/a\0--size\x001 000\0",
        "children\n78 79 80 ",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Address spaces with their pages, on several nodes and on one.
pub fn smaps() -> Vec<Vec<u8>> {
    let smaps = "00400000-00401000 r--p 00000000 08:01 42                         /bin/a b\n\
                 Size:                  4 kB\nRss:                   4 kB\nVmFlags: rd mr mw me\n\
                 00401000-00402000 rw-p 00001000 08:01 42                         /bin/a b\nRss: 0 kB\n\
                 01000000-01021000 rw-p 00000000 00:00 0                          [heap]\nRss: 8 kB\n\
                 7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nRss: 4096 kB\nAnonHugePages: 2048 kB\n\
                 7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]\nRss: 16 kB\n";
    let numa_maps = "00400000 default file=/bin/a\\040b mapped=1 N0=1 kernelpagesize_kB=4\n\
                     7f0000000000 default anon=1024 N0=512 N1=512 kernelpagesize_kB=4\n";
    vec![smaps.into(), format!("{smaps}\n{numa_maps}").into_bytes()]
}

/// Of C++ and both manglings of Rust.
pub fn mangled() -> Vec<Vec<u8>> {
    let names = [
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
        "_RNvMs_NtCs1234_7mycrate3fooNtB4_3Bar3baz",
        "_ZZN1aIXadL_Z1bEEE1cEvENKUlvE_clEv",
        "main.cold.3",
    ];
    vec![names.join("\n").into_bytes()]
}

/// The beginning of the library's own code, and a loop.
pub fn machine_code() -> Vec<Vec<u8>> {
    let looped = vec![0x48, 0x8b, 0x04, 0xc7, 0x48, 0xff, 0xc9, 0x75, 0xf7, 0xf3, 0x48, 0xab, 0xc3];
    vec![heap::LIBRARY[0x1000..0x1200].to_vec(), looped]
}

/// A ring with a note of each kind.
pub fn notes() -> Vec<Vec<u8>> {
    let mut words = vec![0_u64; 16];
    words[..5].copy_from_slice(&[4, 0, 0, 1_000, 42]);
    for kind in 1..5_u64 {
        words.extend([
            kind << 56 | 20 << 48 | 4096,
            2_000 + kind,
            0x7f00_0000,
            43 << 32 | 42,
            0x40_1000,
            0,
            0,
            0,
        ]);
    }
    vec![words.into_iter().flat_map(u64::to_ne_bytes).collect()]
}

/// A guest with two CPUs.
pub fn sysfs() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/sysfs.txt").to_vec()]
}

/// Two leaves.
pub fn cpuid() -> Vec<Vec<u8>> {
    let text = "CPU 0:\n   0x00000000 0x00: eax=0x0d ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
                0x00000004 0x01: eax=0x1c004122 ebx=0x01c0003f ecx=0x0000003f edx=0x00000000\n";
    vec![text.into()]
}

/// Those that come with memwall.
pub fn kernel_files() -> Vec<Vec<u8>> {
    // One is a template.
    files("crates/kernels/catalogue", "toml")
        .into_iter()
        .filter(|text| !contains(text, b"DISTRIBUTION"))
        .collect()
}

/// Those that come with memwall.
pub fn scenario_files() -> Vec<Vec<u8>> {
    files("crates/kernels/scenarios", "toml")
}

/// Those that come with memwall.
pub fn model_files() -> Vec<Vec<u8>> {
    files("crates/machine/models", "toml")
}

/// Of microarchitectures that come with memwall.
pub fn event_files() -> Vec<Vec<u8>> {
    files("crates/events/catalogue", "toml")
        .into_iter()
        .filter(|text| contains(text, b"general_counters"))
        .collect()
}

/// Those that come with memwall.
pub fn group_files() -> Vec<Vec<u8>> {
    files("crates/events/groups", "toml")
}

/// In every form that is understood.
pub fn event_names() -> Vec<Vec<u8>> {
    let names = ["cycles:u", "r01d3", "mem:0x1000/8:w", "page-faults", "MEM_LOAD_UOPS_RETIRED.L1_HIT:k"];
    names.map(|name| name.as_bytes().to_vec()).into()
}

/// Of a simulated machine, with what repeats cut down to two.
pub fn profiles() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/profile.json").to_vec()]
}

/// Likewise.
pub fn validations() -> Vec<Vec<u8>> {
    let case: &[u8] = br#"{"rules":"0","run":1,"seed":1000000,"classes":["loads","chains"],"level":"L2","footprint":65536,"truths":[0.5,0.51],"found":[0.5,0.4,0.6],"decided":true,"sure":false,"samples":500}"#;
    vec![include_bytes!("../seeds/validation.json").to_vec(), case.to_vec()]
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
