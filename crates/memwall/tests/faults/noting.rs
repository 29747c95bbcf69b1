//! Programs that leave the library no room to write allocations down, and processes it has to tell apart.

use std::path::PathBuf;

use prerequisites::Need;
use record::{data::HeapBlock, file::read, run::Run};

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, said},
};

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "the address space is limited (ulimit -v)",
        must_hold: "what could be allocated alone still can, and that is said",
        held: little_address_space,
    },
    Fault {
        name: "a program limits its own address space (setrlimit, prlimit)",
        must_hold: "what could be allocated alone still can, and that is said",
        held: own_limit,
    },
    Fault {
        name: "all memory is locked, and little may be (mlockall)",
        must_hold: "it is locked as alone",
        held: locked_memory,
    },
    Fault {
        name: "a program takes away memory that it does not know",
        must_hold: "same exit code as alone, and that is said",
        held: memory_taken_away,
    },
    Fault {
        name: "twenty forked processes allocate at once",
        must_hold: "every block is known, with its own process",
        held: fork_storm,
    },
    Fault {
        name: "processes are made by the bare system call (clone)",
        must_hold: "every block is known, with its own process",
        held: raw_clones,
    },
    Fault {
        name: "one process executes five programs in turn",
        must_hold: "the blocks of all five are known",
        held: exec_chain,
    },
    Fault {
        name: "a program runs in a pid namespace of its own",
        must_hold: "its blocks are known, with the process as we number it",
        held: pid_namespace,
    },
    Fault {
        name: "a program closes all descriptors and executes another",
        must_hold: "not a word on stderr, and it is counted",
        held: closed_descriptors,
    },
    Fault {
        name: "a program changes its root and executes another (chroot)",
        must_hold: "not a word on stderr",
        held: changed_root,
    },
    Fault {
        name: "a sanitized program is behind a shell",
        must_hold: "same output and exit code as alone",
        held: sanitized_behind_a_shell,
    },
    Fault {
        name: "memwall's notes take more time than the program itself",
        must_hold: "that is said once, and none of it is in the shares",
        held: busy_noting,
    },
    Fault {
        name: "the program is killed by a signal",
        must_hold: "the report says how to rule memwall out",
        held: killed_program,
    },
];

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

/// Records a command; it must end well and say what it says alone, except for numbers of processes.
fn recorded(place: &Place, command: &[&str]) -> (String, Run) {
    let file = place.path("a.mw");
    let arguments = [&["record", "-o", text(&file), "--"], command].concat();
    let output = place.memwall(&arguments).output().expect("memwall starts");
    assert!(output.status.success(), "{output:?}");
    (said(&output.stdout), read(&file).expect("a recording"))
}

fn block_of(run: &Run, size_bytes: u64) -> &HeapBlock {
    let all: Vec<&HeapBlock> =
        run.data.blocks.iter().filter(|block| block.size_bytes == size_bytes).collect();
    let [block] = all[..] else { panic!("{} blocks of {size_bytes} bytes: {:?}", all.len(), run.remarks) };
    block
}

/// The site of the block must be this function.
fn check_site(run: &Run, block: &HeapBlock, function: &str) {
    let site = block.site.map(|site| run.data.sites[site as usize].function.as_str());
    assert_eq!(site, Some(function), "{block:?} {:?}", run.remarks);
}

fn little_address_space() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            int blocks = 0;
            for (char *block; blocks < 60 && (block = malloc(1 << 20)) != NULL; blocks++) *block = 1;
            printf("%d\n", blocks);
        }"#;
    let Some(program) = place.build("cc", "hungry", source, &[]) else { return Missing(Need::Program("cc")) };
    let script = format!("ulimit -v 80000; exec {}", text(&program));
    let report = place.same_as_alone(&["bash", "-c", &script]);
    assert!(report.contains("with a limit on the address space"), "{report}");
    Held
}

fn own_limit() -> Tried {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        #include <unistd.h>
        int main(int count, char **words) {
            free(malloc(100000));
            rlim_t most = atol(words[2]) * 1024ul;
            struct rlimit limit = {most, most};
            struct rlimit64 limit64 = {most, most};
            int failed = 1;
            switch (*words[1]) {
                case 'a': failed = setrlimit(RLIMIT_AS, &limit); break;
                case 'b': failed = setrlimit64(RLIMIT_AS, &limit64); break;
                case 'c': failed = prlimit(0, RLIMIT_AS, &limit, NULL); break;
                case 'd': failed = prlimit64(getpid(), RLIMIT_AS, &limit64, NULL); break;
            }
            int pieces = 0;
            while (mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) pieces++;
            printf("%d %d\n", failed, pieces);
            free(malloc(100000));
        }"#;
    let Some(program) = place.build("cc", "limits", source, &[]) else { return Missing(Need::Program("cc")) };
    let size = place.shell("grep VmSize /proc/self/status | tr -dc 0-9");
    let size_kib: u64 = said(&size.stdout).parse().expect("a number");
    let pieces = |kib: u64| {
        let output = place.command(&program).args(["a", &kib.to_string()]).output().expect("it starts");
        said(&output.stdout)
    };
    let one_more =
        (0..32).map(|step| size_kib + 8192 + 64 * step).find(|kib| pieces(*kib) != pieces(kib - 64));
    // Alone half a piece is left: the library's code has room in it, its memory has not.
    let most = (one_more.expect("one more piece") + 512).to_string();
    for way in ["a", "b", "c", "d"] {
        let file = place.path(way);
        place.same_as_alone(&[text(&program), way, &most]);
        let output = place.memwall(&["record", "-o", text(&file), "--", text(&program), way, &most]).output();
        assert!(output.expect("it starts").status.success());
        let run = read(&file).expect("a recording");
        let problems: Vec<_> = run.data.heap.iter().filter_map(|log| log.problem.clone()).collect();
        assert!(
            problems.iter().any(|problem| problem.contains("limited its address space")),
            "{way}: {problems:?}"
        );
    }
    Held
}

fn locked_memory() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/resource.h>
        #include <unistd.h>
        int main(int n, char **v) {
            if (n < 2) { execlp("grep", "grep", "VmSize", "/proc/self/status", (char *)0); return 1; }
            struct rlimit most = {(atol(v[1]) + 600) * 1024ul, (atol(v[1]) + 600) * 1024ul};
            free(malloc(100000));
            if (setrlimit(RLIMIT_MEMLOCK, &most)) return 1;
            if (geteuid() == 0 && setuid(65534)) return 1;
            puts(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "locked" : "not locked");
            free(malloc(100000));
        }"#;
    let Some(program) = place.build("cc", "locks", source, &[]) else { return Missing(Need::Program("cc")) };
    // What it takes alone: tried upwards, in steps that are smaller than what we would add.
    let locks = |kib: &str| {
        let output = place.command(&program).arg(kib).output().expect("it starts");
        said(&output.stdout) == "locked\n"
    };
    let enough =
        (0..200).map(|step| (step * 200).to_string()).find(|kib| locks(kib)).expect("a limit it fits in");
    let report = place.same_as_alone(&[text(&program), &enough]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}

fn memory_taken_away() -> Tried {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        static char maps[1 << 18];
        int main(int count, char **words) {
            for (int i = 0; i < 100; i++) free(malloc(20000));
            int file = open("/proc/self/maps", O_RDONLY);
            for (ssize_t had = 0, more; (more = read(file, maps + had, sizeof maps - 1 - had)) > 0;) had += more;
            for (char *line = strtok(maps, "\n"); line != NULL; line = strtok(NULL, "\n")) {
                unsigned long begin, end;
                if (strstr(line, " /memfd:") == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
                void *at = (void *)begin;
                switch (*words[1]) {
                    case 'u': munmap(at, end - begin); break;
                    case 'p': mprotect(at, end - begin, PROT_READ); break;
                    case 'm': mmap(at, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
                    case 'r': mremap(at, end - begin, 4096, 0); break;
                }
            }
            for (int i = 0; i < 1000; i++) free(malloc(20000));
            return 4;
        }"#;
    let Some(program) = place.build("cc", "takes", source, &[]) else { return Missing(Need::Program("cc")) };
    for how in ["unmaps", "protects", "maps", "resizes"] {
        let file = place.path(how);
        let report = place.same_as_alone(&[text(&program), how]);
        assert!(report.contains("exit code 4"), "{how}: {report}");
        let output = place.memwall(&["record", "-o", text(&file), "--", text(&program), how]).output();
        assert_eq!(output.expect("it starts").status.code(), Some(4), "{how}");
        let run = read(&file).expect("a recording");
        let problems: Vec<_> = run.data.heap.iter().filter_map(|log| log.problem.clone()).collect();
        assert!(problems.iter().any(|problem| problem.contains("took the memory")), "{how}: {problems:?}");
    }
    Held
}

/// A program that makes twenty processes by `fork_call`, each of which allocates a size of its own and prints itself.
fn family(place: &Place, name: &str, fork_call: &str) -> Option<PathBuf> {
    let source = r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        __attribute__((noinline)) void own(int i) {
            void *volatile block = malloc(600000 + i);
            char line[40];
            int size = snprintf(line, sizeof line, "%d %ld\n", i, (long)syscall(SYS_getpid));
            if (write(1, line, size) != size) syscall(SYS_exit_group, 1);
            free(block);
        }
        int main(void) {
            for (int i = 0; i < 20; i++) if (FORK == 0) { own(i); syscall(SYS_exit_group, 0); }
            while (wait(0) > 0);
        }"#;
    place.build("cc", name, &source.replace("FORK", fork_call), &[])
}

fn check_family(place: &Place, name: &str, fork_call: &str) -> Tried {
    let Some(program) = family(place, name, fork_call) else { return Missing(Need::Program("cc")) };
    let (shown, run) = recorded(place, &[text(&program)]);
    assert_eq!(shown.lines().count(), 20);
    for line in shown.lines() {
        let (number, pid) = line.split_once(' ').expect("two numbers");
        let block = block_of(&run, 600_000 + number.parse::<u64>().expect("a number"));
        assert_eq!(run.processes[block.process.index()].pid.to_string(), pid);
        check_site(&run, block, "own");
    }
    Held
}

fn fork_storm() -> Tried {
    check_family(&Place::new(), "storm", "fork()")
}

fn raw_clones() -> Tried {
    check_family(&Place::new(), "clones", "syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)")
}

const CHAIN: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((noinline)) void own(int i) { void *volatile block = malloc(700000 + i); free(block); }
    int main(int n, char **v) {
        int left = atoi(v[1]);
        own(left);
        char text[20];
        snprintf(text, sizeof text, "%d", left - 1);
        if (left > 1) execl(v[0], v[0], text, (char *)0);
        return n != 2;
    }"#;

fn exec_chain() -> Tried {
    let place = Place::new();
    let Some(program) = place.build("cc", "chain", CHAIN, &[]) else { return Missing(Need::Program("cc")) };
    let (_, run) = recorded(&place, &[text(&program), "5"]);
    for number in 1..=5 {
        check_site(&run, block_of(&run, 700_000 + number), "own");
    }
    assert_eq!((run.data.heap.len(), run.processes.len()), (5, 1), "{:?}", run.data.heap);
    Held
}

fn pid_namespace() -> Tried {
    let place = Place::new();
    let can = place.command("unshare").args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return Missing(Need::Namespaces);
    }
    let Some(chain) = place.build("cc", "chain", CHAIN, &[]) else { return Missing(Need::Program("cc")) };
    let Some(family) = family(&place, "storm", "fork()") else { return Missing(Need::Program("cc")) };
    let script = format!("{} 3; sleep 0.5; {}", text(&chain), text(&family));
    let (_, run) = recorded(&place, &["unshare", "--pid", "--fork", "sh", "-c", &script]);
    let executable = |block: &HeapBlock| run.processes[block.process.index()].executable.clone();
    for number in 1..=3 {
        let block = block_of(&run, 700_000 + number);
        check_site(&run, block, "own");
        assert_eq!(executable(block).as_deref(), Some(text(&chain)));
    }
    // Forked processes that were gone before they could be asked for their number are left out, and counted.
    let blocks: Vec<&HeapBlock> =
        run.data.blocks.iter().filter(|block| (600_000..600_020).contains(&block.size_bytes)).collect();
    let processes: std::collections::BTreeSet<record::ids::ProcessId> =
        blocks.iter().map(|block| block.process).collect();
    assert_eq!(processes.len(), blocks.len());
    assert!(blocks.iter().all(|block| executable(block).as_deref() == Some(text(&family))));
    let is_told = run.remarks.iter().any(|remark| remark.contains("could not be told whose"));
    assert!(blocks.len() == 20 || is_told, "{} {:?}", blocks.len(), run.remarks);
    Held
}

fn closed_descriptors() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            for (int file = 3; file < 1024; file++) close(file);
            free(malloc(500000));
            execlp("sh", "sh", "-c", "echo out; sort --version > /dev/null; exit 5", (char *)0);
            return 1;
        }"#;
    let Some(program) = place.build("cc", "closes", source, &[]) else { return Missing(Need::Program("cc")) };
    let report = place.same_as_alone(&[text(&program)]);
    assert!(report.contains("2 that had closed the descriptor"), "{report}");
    Held
}

fn changed_root() -> Tried {
    if !rustix::process::geteuid().is_root() {
        return Missing(Need::Root);
    }
    let place = Place::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(int n, char **v) {
            if (n == 1) { puts("inside"); return 6; }
            if (chroot(v[1]) || chdir("/")) return 1;
            fflush(stdout);
            execl("/rooted", "rooted", (char *)0);
            return 2;
        }"#;
    let Some(program) = place.build("cc", "rooted", source, &[]) else { return Missing(Need::Program("cc")) };
    let root = place.path("root");
    let script = format!(
        "mkdir {root} && cp {program} {root}/ && ldd {program} | grep -o '/[^ ]*' | xargs -I LIB cp --parents LIB {root}",
        root = text(&root),
        program = text(&program)
    );
    let copied = place.shell(&script);
    assert!(copied.status.success(), "{copied:?}");
    place.same_as_alone(&[text(&program), text(&root)]);
    Held
}

fn sanitized_behind_a_shell() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) { void *volatile block = malloc(100000); puts("sane"); free(block); return 9; }"#;
    let code = place.path("sane.c");
    std::fs::write(&code, source).expect("written");
    let program = place.path("sane");
    let built = place.command("cc").args(["-fsanitize=address", "-o"]).arg(&program).arg(&code).output();
    if !built.is_ok_and(|built| built.status.success()) {
        return Missing(Need::AddressSanitizer);
    }
    let program = text(&program);
    let script = format!(
        "{program}; echo $?; (exec {program}); env {program}; cd $(dirname {program}); PATH=.:$PATH sane; sort --version \
         | head -n 1"
    );
    for shell in ["sh", "bash"] {
        place.same_as_alone(&[shell, "-c", &script]);
    }
    let script = format!(
        "import os, subprocess\nsubprocess.run(['{program}'])\nos.system('{program}')\nos.execv('{program}', ['sane'])"
    );
    if place.command("python3").arg("--version").output().is_ok() {
        place.same_as_alone(&["python3", "-c", &script]);
    }
    Held
}

fn busy_noting() -> Tried {
    let place = Place::new();
    // Of the time in user mode nearly all is ours: the rest is the kernel's.
    let source = r#"
        #include <sys/mman.h>
        #include <time.h>
        int main(void) {
            for (clock_t end = clock() + 2 * CLOCKS_PER_SEC; clock() < end;)
                for (int i = 0; i < 500; i++)
                    munmap(mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 16);
        }"#;
    let Some(program) = place.build("cc", "maps", source, &[]) else { return Missing(Need::Program("cc")) };
    let (_, run) = recorded(&place, &[text(&program)]);
    let own = run.remarks.iter().filter(|remark| remark.contains("memwall's own notes")).count();
    assert_eq!(own, 1, "{:?}", run.remarks);
    let ours: Vec<_> = run.modules.iter().filter(|module| module.path.contains("memwall-heap")).collect();
    assert!(ours.is_empty(), "{ours:?}");
    Held
}

fn killed_program() -> Tried {
    let place = Place::new();
    // By the program itself, or one that a shell waits for.
    for script in ["kill -SEGV $$", "sh -c 'kill -SEGV $$'; exit $?"] {
        let report = place.same_as_alone(&["sh", "-c", script]);
        assert!(report.contains("--no-heap"), "{script}: {report}");
    }
    for code in ["1", "127", "128", "255"] {
        let report = place.same_as_alone(&["sh", "-c", &format!("exit {code}")]);
        assert!(!report.contains("--no-heap"), "{code}: {report}");
    }
    place
        .memwall(&["run", "--no-heap", "--to", "plain.txt", "--", "sh", "-c", "kill -SEGV $$"])
        .output()
        .expect("runs");
    let report = std::fs::read_to_string(place.path("plain.txt")).expect("a report");
    assert!(!report.contains("--no-heap"), "{report}");
    Held
}
