//! Real programs with the library inside: what it writes down, and that nothing else changes.
#![allow(clippy::unwrap_used)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use heap::{Log, LogState, NoteKind};
use tempfile::TempDir;

/// A program built from C source, run with the library inside.
struct Trial {
    folder: TempDir,
    library: PathBuf,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = heap::install(folder.path()).unwrap();
        Self { folder, library }
    }

    fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let [code, program] = [self.folder.path().join(format!("{name}.c")), self.folder.path().join(name)];
        std::fs::write(&code, source).unwrap();
        let built =
            Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&code).args(flags).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> (Output, Vec<Log>) {
        let output = Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", &self.library)
            .env(heap::FOLDER_VARIABLE, self.folder.path())
            .output()
            .unwrap();
        let (logs, bad) = heap::read_folder(self.folder.path()).unwrap();
        assert!(bad.is_empty(), "{bad:?}");
        (output, logs)
    }
}

fn count(log: &Log, kind: NoteKind) -> usize {
    log.notes.iter().filter(|note| note.kind == kind).count()
}

#[test]
fn large_blocks_are_all_written_down() {
    let trial = Trial::new();
    let program = trial.build(
        "blocks",
        r"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <stdlib.h>
        #include <malloc.h>
        #include <sys/mman.h>
        int main(void) {
            void *a = malloc(100000), *b = calloc(50, 1000), *c = malloc(10), *d;
            c = realloc(c, 200000); c = realloc(c, 300000);
            if (posix_memalign(&d, 4096, 40000)) return 1;
            void *e = aligned_alloc(64, 64000), *f = memalign(128, 20000), *g = valloc(30000);
            void *h = mmap(0, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            h = mremap(h, 1 << 21, 1 << 22, MREMAP_MAYMOVE);
            printf(`%p %p %p %p %p %p %p %p\n`, a, b, c, d, e, f, g, h);
            free(a); free(b); free(c); free(d); free(e); free(f); free(g); munmap(h, 1 << 22);
        }"
        .replace('`', "\"")
        .as_str(),
        &[],
    );
    let (output, logs) = trial.run(&program, &[]);
    assert!(output.status.success());
    let [log] = &logs[..] else { panic!("{logs:?}") };
    assert_eq!((log.state, log.unfinished, log.forked), (LogState::Whole, 0, false));
    let printed: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .split_whitespace()
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
        .collect();
    let allocated: Vec<_> =
        log.notes.iter().filter(|note| matches!(note.kind, NoteKind::Allocated | NoteKind::Mapped)).collect();
    for (address, size) in
        printed.iter().zip([100_000, 50_000, 300_000, 40_000, 64_000, 20_000, 30_000, 1 << 22])
    {
        assert!(
            allocated.iter().any(|note| note.address == *address && note.size_bytes == size),
            "{address:#x} {size}: {allocated:?}"
        );
    }
    // Eight, one more for the first realloc, and one for the first size of the mapping.
    assert_eq!(allocated.len(), 10);
    assert_eq!(count(log, NoteKind::Unmapped), 2);
    assert!(log.notes.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
}

#[test]
fn small_blocks_are_sampled_by_bytes() {
    let trial = Trial::new();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100000; i++) { volatile char *p = \
                  malloc(64); *p = 1; } }";
    let program = trial.build("small", source, &["-fno-builtin"]);
    let (_, logs) = trial.run(&program, &[]);
    let sampled: Vec<u64> =
        logs[0].notes.iter().filter(|note| note.kind == NoteKind::Sampled).map(|note| note.address).collect();
    // 6.4 MB: every 4 KiB for the first 2 MiB, then a 512th of all before; 512 + 512·ln(6.4/2.1) notes.
    assert!((900..1300).contains(&sampled.len()), "{}", sampled.len());
    assert!(
        sampled.windows(2).all(|pair| pair[1].abs_diff(pair[0]) < 64 << 10),
        "no part of the heap is left out"
    );
}

#[test]
fn forks_threads_and_libraries_are_followed() {
    let trial = Trial::new();
    trial.build(
        "plug.so",
        "#include <stdlib.h>\nvoid *plug(void) { void *p = malloc(777216); *(volatile char *)p = 1; return p; }",
        &["-shared", "-fPIC"],
    );
    let program = trial.build(
        "follow",
        r"
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void *work(void *x) { for (int i = 0; i < 50; i++) free(malloc(40000)); return x; }
        int main(int n, char **v) {
            pthread_t t[8];
            for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, work, 0);
            for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
            void *(*plug)(void) = (void *(*)(void))dlsym(dlopen(v[1], RTLD_NOW), `plug`);
            free(plug());
            for (int i = 0; i < 20; i++) if (fork() == 0) { free(malloc(60000)); _exit(0); }
            while (wait(0) > 0);
            if (n > 2) execl(v[2], v[2], (char *)0);
            return n;
        }"
        .replace('`', "\"")
        .as_str(),
        &["-pthread", "-ldl", "-fno-builtin"],
    );
    let plug = trial.folder.path().join("plug.so");
    let (output, logs) = trial.run(&program, &[plug.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let (children, parents): (Vec<&Log>, Vec<&Log>) = logs.iter().partition(|log| log.forked);
    assert_eq!((parents.len(), children.len()), (1, 20));
    let parent = parents[0];
    let of = |log: &Log, size| {
        log.notes.iter().filter(|note| note.kind == NoteKind::Allocated && note.size_bytes == size).count()
    };
    assert_eq!((of(parent, 40_000), of(parent, 777_216)), (400, 1));
    let threads: std::collections::BTreeSet<u32> =
        parent.notes.iter().filter(|note| note.size_bytes == 40_000).map(|note| note.tid).collect();
    assert_eq!(threads.len(), 8);
    assert!(children.iter().all(|child| child.parent == parent.pid && of(child, 60_000) == 1));

    // An exec begins a second log of the same process.
    let again = Trial::new();
    let (output, logs) = again.run(&program, &[plug.to_str().unwrap(), "/bin/true"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(logs.iter().filter(|log| !log.forked).count(), 2);
}

#[test]
fn huge_blocks_and_those_that_cannot_be_had_are_as_without_it() {
    let trial = Trial::new();
    let program = trial.build(
        "huge",
        r"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        static void say(const char *what, const void *block) {
            printf(`%s %d %d\n`, what, block != NULL && block != MAP_FAILED, errno);
            errno = 0;
        }
        int main(void) {
            volatile size_t most = SIZE_MAX;
            void *aligned = NULL, *kept = strdup(`kept`);
            errno = 0;
            say(`malloc`, malloc(most / 2));
            say(`calloc`, calloc(most, 2));
            say(`realloc`, realloc(kept, most / 2));
            say(kept, reallocarray(kept, most, 2));
            printf(`%d\n`, posix_memalign(&aligned, 3, 10));
            say(`aligned`, aligned_alloc(64, most / 2 / 64 * 64));
            say(`mapped`, mmap(0, most / 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            say(`none`, malloc(0));
            char *huge = malloc(3ul << 30);
            if (huge) huge[0] = huge[(3ul << 30) - 1] = 1;
            say(`huge`, huge);
            huge = realloc(huge, 4ul << 30);
            say(`grown`, huge);
            free(huge);
        }"
        .replace('`', "\"")
        .as_str(),
        &["-fno-builtin", "-Wno-alloc-size-larger-than"],
    );
    let plain = Command::new(&program).output().unwrap();
    let (with, logs) = trial.run(&program, &[]);
    assert_eq!((&with.stdout, with.status), (&plain.stdout, plain.status));
    let shown = String::from_utf8_lossy(&plain.stdout);
    let has = |size: u64| logs[0].notes.iter().any(|note| note.size_bytes == size);
    assert_eq!(
        [has(3 << 30), has(4 << 30)],
        ["huge 1", "grown 1"].map(|line| shown.contains(line)),
        "{shown}"
    );
    assert!(!has(u64::MAX / 2), "what was not given is not written down");
}

#[test]
fn exceptions_of_operator_new_pass_through() {
    let trial = Trial::new();
    let code = trial.folder.path().join("throws.cc");
    let source = "#include <cstdio>\n#include <new>\n#include <vector>\nint main() {\n\
                  volatile unsigned long most = ~0ul;\n\
                  try { std::vector<char> v(most / 4); } catch (const std::bad_alloc &) { std::puts(\"caught\"); }\n\
                  static char *volatile block = new char[300000]; block[0] = 1; std::printf(\"%d\\n\", block[0]); delete[] block; }";
    std::fs::write(&code, source).unwrap();
    let program = trial.folder.path().join("throws");
    if !prerequisites::needs("c++") {
        return;
    }
    let built = Command::new("c++").arg("-O1").arg("-o").arg(&program).arg(&code).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (output, logs) = trial.run(&program, &[]);
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()),
        ("caught\n1\n", Some(0))
    );
    assert!(logs[0].notes.iter().any(|note| note.kind == NoteKind::Allocated && note.size_bytes == 300_000));
}

#[test]
fn programs_do_not_notice() {
    let trial = Trial::new();
    let script = "import sys, json\nd = {str(i): list(range(i % 50)) for i in range(20000)}\n\
                  s = json.dumps(d)\nassert json.loads(s) == d\nprint(len(s), hash(s[:0]))\nsys.exit(7)";
    let sql = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
               insert into t select x, hex(x*x) from c; select count(*), sum(length(b)) from t; select b from t \
               order by b desc limit 3;";
    for (program, arguments) in
        [("python3", ["-c", script]), ("sqlite3", [":memory:", sql]), ("sort", ["--version", "-r"])]
    {
        if !prerequisites::needs(program) {
            continue;
        }
        let plain = Command::new(program).args(arguments).output().unwrap();
        let (with, logs) = trial.run(Path::new(program), &arguments);
        assert_eq!(
            (&with.stdout, &with.stderr, with.status),
            (&plain.stdout, &plain.stderr, plain.status),
            "{program}"
        );
        assert!(!logs.is_empty(), "{program}");
    }
}

#[test]
fn a_folder_that_is_gone_harms_nothing() {
    let trial = Trial::new();
    for folder in ["/nonexistent/folder", "relative", ""] {
        let output = Command::new("/bin/sh")
            .args(["-c", "echo fine; exit 3"])
            .env("LD_PRELOAD", &trial.library)
            .env(heap::FOLDER_VARIABLE, folder)
            .output()
            .unwrap();
        assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"fine\n"[..], Some(3)));
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}
