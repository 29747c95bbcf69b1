//! Real programs with the library inside: what it writes down, and that nothing else changes.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use heap::{Absences, Note, NoteFile, NoteKind, VARIABLE};
use tempfile::TempDir;

/// A program built from C source, run with the library inside.
struct Trial {
    folder: TempDir,
    library: PathBuf,
    file: NoteFile,
}

/// What one executed program and all that forked from it wrote down.
struct Log {
    pid: u32,
    notes: Vec<Note>,
    dropped: u64,
    unfinished: u64,
    is_closed: bool,
    is_silenced: bool,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = heap::install(folder.path()).unwrap();
        let file = NoteFile::create().unwrap();
        file.let_inherit(true).unwrap();
        Self { folder, library, file }
    }

    fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let [code, program] = [self.folder.path().join(format!("{name}.c")), self.folder.path().join(name)];
        std::fs::write(&code, source).unwrap();
        let built =
            Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&code).args(flags).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", &self.library).env(VARIABLE, self.file.variable());
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> (Output, Vec<Log>) {
        let before = self.file.claimed();
        let output = self.command(program, arguments).output().unwrap();
        let logs = (before..self.file.claimed()).map(|region| self.log(region)).collect();
        (output, logs)
    }

    fn log(&self, region: u64) -> Log {
        let mut ring = self.file.ring(region).unwrap();
        let mut notes = Vec::new();
        ring.take(true, |note| notes.push(note)).unwrap();
        Log {
            pid: ring.pid(),
            notes,
            dropped: ring.dropped(),
            unfinished: ring.unfinished,
            is_closed: ring.is_closed(),
            is_silenced: ring.is_silenced(),
        }
    }
}

fn count(log: &Log, is_wanted: impl Fn(&Note) -> bool) -> usize {
    log.notes.iter().filter(|note| is_wanted(note)).count()
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
    let [log] = &logs[..] else { panic!("{} logs", logs.len()) };
    assert_eq!((log.dropped, log.unfinished, log.is_closed), (0, 0, false));
    assert!(log.notes.iter().all(|note| note.pid == log.pid && note.tid == log.pid));
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
    assert_eq!(count(log, |note| note.kind == NoteKind::Unmapped), 2);
    assert!(log.notes.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
}

/// What small blocks stand for is what was allocated, within what chance allows: sites of different sizes, early and late in
/// a thread's life.
#[test]
fn small_blocks_stand_for_all_without_bias() {
    let trial = Trial::new();
    let source = r"
        #include <pthread.h>
        #include <stdlib.h>
        static void some(size_t size, long bytes) {
            for (long done = 0; done < bytes; done += size) free(malloc(size));
        }
        static void *work(void *unused) { some(1000, 20000000); return unused; }
        int main(void) {
            some(16, 1600000);
            for (int i = 0; i < 100000; i++) free(malloc(48)), free(malloc(240)), free(malloc(12000));
            some(24, 24000000);
            pthread_t thread[4];
            for (int i = 0; i < 4; i++) pthread_create(&thread[i], 0, work, 0);
            for (int i = 0; i < 4; i++) pthread_join(thread[i], 0);
        }";
    let program = trial.build("small", source, &["-fno-builtin", "-pthread"]);
    let truth = [(16, 1.6e6), (48, 4.8e6), (240, 24e6), (12_000, 1200e6), (24, 24e6), (1000, 80e6)];
    // Many runs, so that a bias of a few per cent would stand out of the noise.
    const RUNS: usize = 60;
    let mut sums = [(0.0, 0.0); 6];
    for _ in 0..RUNS {
        let (_, logs) = trial.run(&program, &[]);
        assert_eq!((logs.len(), logs[0].dropped), (1, 0));
        for ((size, _), sum) in truth.iter().zip(&mut sums) {
            for note in logs[0].notes.iter().filter(|note| note.size_bytes == *size) {
                let stands = note.stands_for();
                assert!(matches!(note.kind, NoteKind::Sampled { .. }));
                *sum = (sum.0 + stands.bytes, sum.1 + stands.variance);
            }
        }
    }
    for ((size, bytes), (sum, variance)) in truth.iter().zip(sums) {
        let (off, sigma) = (sum / RUNS as f64 - bytes, variance.sqrt() / RUNS as f64);
        println!("{size:>6} bytes: {:+.2} % off, sigma {:.2} %", 100.0 * off / bytes, 100.0 * sigma / bytes);
        assert!(off.abs() < 4.0 * sigma, "{size}: {off} off of {bytes}, sigma {sigma}");
        assert!(sigma < 0.1 * bytes, "{size}: too few notes to tell");
    }
}

/// Large blocks that nobody works on, as fast as they can be had: the C library keeps what is freed.
#[test]
fn large_blocks_that_come_fast_are_thinned_without_bias() {
    let trial = Trial::new();
    let source = r"
        #include <stdlib.h>
        enum { LOOPS = 30000 };
        int main(void) {
            free(malloc(30000000));
            for (int i = 0; i < LOOPS; i++) free(malloc(140000));
            for (int i = 0; i < LOOPS; i++) free(malloc(1000000)), free(malloc(5000000));
            for (int i = 0; i < LOOPS; i++) free(malloc(200000));
        }";
    let program = trial.build("large", source, &["-fno-builtin"]);
    const RUNS: usize = 20;
    const LOOPS: f64 = 30_000.0;
    let sizes = [140_000, 1_000_000, 5_000_000, 200_000];
    let mut sums = [(0.0, 0.0); 4];
    for _ in 0..RUNS {
        let (_, logs) = trial.run(&program, &[]);
        assert_eq!((logs.len(), logs[0].dropped), (1, 0));
        for (size, sum) in sizes.iter().zip(&mut sums) {
            for note in logs[0].notes.iter().filter(|note| note.size_bytes == *size) {
                let stands = note.stands_for();
                *sum = (sum.0 + stands.bytes, sum.1 + stands.variance);
            }
        }
    }
    for (size, (sum, variance)) in sizes.iter().zip(sums) {
        let bytes = *size as f64 * LOOPS;
        let (off, sigma) = (sum / RUNS as f64 - bytes, variance.sqrt() / RUNS as f64);
        println!("{size:>8} bytes: {:+.2} % off, sigma {:.2} %", 100.0 * off / bytes, 100.0 * sigma / bytes);
        assert!(off.abs() < 4.0 * sigma, "{size}: {off} off of {bytes}, sigma {sigma}");
        assert!(sigma < 0.1 * bytes, "{size}: too few notes to tell");
    }
}

/// Those that the program works on take far longer than a note of each.
#[test]
fn large_blocks_that_are_worked_on_are_all_written_down() {
    let trial = Trial::new();
    let source = r"
        #include <stdlib.h>
        #include <string.h>
        int main(void) {
            for (int i = 0; i < 2000; i++) { void *volatile block = malloc(4000000); memset(block, i, 4000000); free(block); }
        }";
    let program = trial.build("worked", source, &["-fno-builtin"]);
    let (_, logs) = trial.run(&program, &[]);
    assert_eq!(
        count(&logs[0], |note| note.size_bytes == 4_000_000 && note.kind == NoteKind::Allocated),
        2000
    );
}

/// Memory that is used again and again.
#[test]
fn small_blocks_are_noted_more_and_more_rarely() {
    let trial = Trial::new();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100000; i++) free(malloc(64)); }";
    let program = trial.build("small", source, &["-fno-builtin"]);
    let (_, logs) = trial.run(&program, &[]);
    let sampled = count(&logs[0], |note| note.size_bytes == 64);
    // Every 4 KiB for the first MiB, every 8 for the next two, then every 16: 256 + 256 + 199, give or take 26.
    assert!((600..830).contains(&sampled), "{sampled}");
}

/// Memory that is new is noted so densely that most blocks have a noted one near them, which speaks for them
/// (`analysis::objects`).
#[test]
fn new_memory_is_known_by_its_neighbours() {
    const NEAR: u64 = 64 << 10;
    let trial = Trial::new();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 1 << 18; i++) malloc(1000); }";
    let program = trial.build("new", source, &["-fno-builtin"]);
    let (_, logs) = trial.run(&program, &[]);
    assert_eq!(logs[0].dropped, 0);
    let noted: BTreeSet<u64> =
        logs[0].notes.iter().filter(|note| note.size_bytes == 1000).map(|note| note.address).collect();
    let (first, last) = (*noted.first().unwrap(), *noted.last().unwrap());
    let near =
        noted.iter().zip(noted.iter().skip(1)).map(|(low, high)| (high - low).min(2 * NEAR)).sum::<u64>();
    let share = near as f64 / (last - first) as f64;
    println!("{} notes of 256 MiB; {:.0} % of it lies near one", noted.len(), 100.0 * share);
    assert!(share > 0.75, "{share}");
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
    let [log] = &logs[..] else { panic!("{} logs", logs.len()) };
    let of = |size: u64| log.notes.iter().filter(move |note| note.size_bytes == size);
    let own = |size| of(size).filter(|note| note.pid == log.pid).count();
    assert_eq!((own(40_000), own(777_216), own(60_000)), (400, 1, 0));
    let numbers = |of: &mut dyn Iterator<Item = u32>| of.collect::<BTreeSet<u32>>().len();
    assert_eq!(numbers(&mut of(40_000).map(|note| note.tid)), 8);
    assert_eq!((of(60_000).count(), numbers(&mut of(60_000).map(|note| note.pid))), (20, 20));
    assert!(of(60_000).all(|note| note.tid == note.pid));

    // An exec begins a second log of the same process.
    let source = "#include <stdlib.h>\nint main(void) { return malloc(90000) == 0; }";
    let another = trial.build("another", source, &["-fno-builtin"]);
    let (output, logs) = trial.run(&program, &[plug.to_str().unwrap(), another.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[0].pid, logs[1].pid);
}

/// A function that allocates for others is told apart by who called it, though all else of the stack is the same.
#[test]
fn callers_behind_the_caller_are_those_of_this_call() {
    let trial = Trial::new();
    let source = r"
        #include <pthread.h>
        #include <stdlib.h>
        #define APART __attribute__((noinline, noclone))
        static APART void *allocate(size_t size) { void *block = malloc(size); *(volatile char *)block = 1; return block; }
        static APART void here(void) { free(allocate(50000)); __asm__ volatile(``); }
        static APART void there(void) { free(allocate(60000)); __asm__ volatile(``); }
        static void *work(void *unused) {
            for (int i = 0; i < 50; i++) here(), there(), there();
            return unused;
        }
        int main(void) {
            work(0);
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            pthread_join(thread, 0);
        }"
    .replace('`', "\"");
    let program = trial.build("sites", &source, &["-fno-builtin", "-pthread"]);
    let (output, logs) = trial.run(&program, &[]);
    assert!(output.status.success(), "{output:?}");
    let of =
        |size: u64| -> Vec<&Note> { logs[0].notes.iter().filter(|note| note.size_bytes == size).collect() };
    let (here, there) = (of(50_000), of(60_000));
    assert_eq!((here.len(), there.len()), (100, 200));
    let first = |notes: &[&Note]| notes.iter().map(|note| note.callers[0]).collect::<BTreeSet<u64>>();
    assert_eq!((first(&here).len(), first(&here)), (1, first(&there)), "the function that allocates");
    let second = |notes: &[&Note]| notes.iter().map(|note| note.callers[1]).collect::<BTreeSet<u64>>();
    assert_eq!((second(&here).len(), second(&there).len()), (1, 1));
    assert_ne!(second(&here), second(&there));
    assert!(!second(&here).contains(&0) && !second(&there).contains(&0));
}

/// With strict filtering the kernel forbids to read the time stamp counter as well: asking for the time would end the program.
#[test]
fn programs_that_forbid_themselves_the_clock_go_on() {
    let trial = Trial::new();
    let source = r"
        #include <linux/seccomp.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static void *work(void *unused) {
            for (int i = 0; i < 5000; i++) free(malloc(100)), free(malloc(20000));
            return unused;
        }
        int main(int count, char **words) {
            memset(malloc(200000), 1, 200000);
            if (strcmp(words[1], `strict`) == 0) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            else prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
            pthread_t thread; /* threads inherit what is forbidden */
            if (strcmp(words[1], `thread`) == 0) pthread_create(&thread, NULL, work, NULL), pthread_join(thread, NULL);
            work(NULL);
            if (write(1, `fine`, 4) != 4) syscall(SYS_exit, 1);
            syscall(SYS_exit, 6);
        }"
    .replace('`', "\"");
    let program = trial.build("forbids", &source, &["-fno-builtin", "-pthread"]);
    for how in ["strict", "clock", "thread"] {
        let (output, logs) = trial.run(&program, &[how]);
        assert_eq!(
            (output.stdout.as_slice(), output.status.code()),
            (&b"fine"[..], Some(6)),
            "{how} {output:?}"
        );
        assert_eq!(count(&logs[0], |note| note.size_bytes == 200_000), 1, "{how}");
        assert_eq!(
            (logs[0].is_silenced, count(&logs[0], |note| note.size_bytes == 20_000)),
            (true, 0),
            "{how}"
        );
    }
}

/// What lies behind a stack that the program made itself may be anything: here a page that nobody may read, that of a thread's
/// stack, which guards it.
#[test]
fn stacks_that_the_program_made_are_not_read_beyond_their_end() {
    let trial = Trial::new();
    let source = r"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdint.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <ucontext.h>
        enum { ROOM = 65536 };
        static ucontext_t outside, within;
        static void allocate(void) { for (int i = 0; i < 10; i++) free(malloc(60000)); }
        static void *work(void *unused) {
            pthread_attr_t about;
            void *lowest;
            size_t bytes, guard;
            pthread_getattr_np(pthread_self(), &about);
            pthread_attr_getstack(&about, &lowest, &bytes);
            pthread_attr_getguardsize(&about, &guard);
            char *end = (char *)lowest;
            if (mprotect(end - guard, guard, PROT_NONE) == 0) end -= guard;
            char *stack = mmap(end - ROOM, ROOM, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (stack != end - ROOM) exit(77);
            getcontext(&within);
            within.uc_stack.ss_sp = stack;
            within.uc_stack.ss_size = ROOM;
            within.uc_link = &outside;
            makecontext(&within, allocate, 0);
            swapcontext(&outside, &within);
            return unused;
        }
        int main(void) {
            pthread_attr_t small;
            pthread_t thread;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 2 * ROOM);
            pthread_create(&thread, &small, work, 0);
            pthread_join(thread, 0);
        }";
    let program = trial.build("coroutine", source, &["-fno-builtin", "-pthread"]);
    let (output, logs) = trial.run(&program, &[]);
    if output.status.code() == Some(77) {
        prerequisites::skip(prerequisites::Need::StackRoom, "there is no room beside the stack of a thread");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(&logs[0], |note| note.size_bytes == 60_000), 10);
}

/// Without the C library's knowledge: nothing that it would do at a fork is done.
#[test]
fn raw_clones_are_told_apart() {
    let trial = Trial::new();
    let source = r"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 20; i++) {
                if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) { malloc(60000 + i); syscall(SYS_exit_group, 0); }
                malloc(50000);
            }
            while (wait(0) > 0);
            malloc(70000);
        }";
    let program = trial.build("raw", source, &["-fno-builtin"]);
    let (output, logs) = trial.run(&program, &[]);
    assert!(output.status.success(), "{output:?}");
    let log = &logs[0];
    let children: BTreeSet<u32> = log
        .notes
        .iter()
        .filter(|note| (60_000..60_020).contains(&note.size_bytes))
        .map(|note| note.pid)
        .collect();
    assert_eq!((children.len(), children.contains(&log.pid)), (20, false));
    assert_eq!(count(log, |note| note.size_bytes == 50_000 && note.pid == log.pid), 20);
    assert_eq!(count(log, |note| note.size_bytes == 70_000 && note.pid == log.pid), 1);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let trial = Trial::new();
    // Beyond what is ever thinned.
    let source =
        "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100000; i++) free(malloc(50000000)); }";
    let program = trial.build("many", source, &["-fno-builtin"]);
    let (output, logs) = trial.run(&program, &[]);
    assert!(output.status.success(), "{output:?}");
    let log = &logs[0];
    assert!(log.notes.len() > 10_000, "{}", log.notes.len());
    assert!(log.notes.len() as u64 + log.dropped >= 100_000, "{} {}", log.notes.len(), log.dropped);
}

#[test]
fn those_that_write_nothing_are_counted_and_silent() {
    let trial = Trial::new();
    let shell = |script: &str| {
        let (output, logs) = trial.run(Path::new("bash"), &["-c", script]);
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"fine\n"[..], &b""[..]),
            "{script}"
        );
        logs.len()
    };
    assert_eq!(shell("echo fine"), 1);
    assert_eq!(trial.file.absences(), Absences::default());
    assert_eq!(shell("ulimit -v 4000000; env echo fine"), 1, "the shell alone");
    let both = Absences { limited: 2, ..Absences::default() };
    assert_eq!(trial.file.absences(), both, "env and echo");
    let number = trial.file.variable().into_string().unwrap().split(':').next().unwrap().to_owned();
    assert_eq!(shell(&format!("exec {number}>&-; env echo fine")), 1);
    assert_eq!(shell(&format!("exec {number}</dev/null; env echo fine")), 1, "another file has its number");
    assert_eq!(trial.file.absences(), both);
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
    assert!(built.status.success(), "{built:?}");
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
fn nonsense_in_the_variable_harms_nothing() {
    let trial = Trial::new();
    let right = trial.file.variable().into_string().unwrap();
    let behind = [format!("{right}:"), format!("{right}:1:"), format!("{right}:1:1"), format!("{right}x")];
    let nonsense =
        ["", "x", "190", "190:1", "190:1:2", "-1:0:0", "99999999999999999999:1:1", "1:2:3:4", "::", "/tmp"];
    for value in nonsense.into_iter().chain(behind.iter().map(String::as_str)) {
        let mut command = trial.command(Path::new("/bin/sh"), &["-c", "echo fine; exit 3"]);
        let output = command.env(VARIABLE, value).output().unwrap();
        assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"fine\n"[..], Some(3)));
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    assert_eq!(trial.file.claimed(), 0);
}
