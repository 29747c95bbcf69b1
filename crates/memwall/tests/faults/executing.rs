//! How programs execute others: memwall's library looks at each.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, said},
};
use prerequisites::Need;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a library that the user preloads watches what is executed",
        must_hold: "it sees what it sees alone",
        held: watched_executions,
    },
    Fault {
        name: "a process on a stack of one page executes a program",
        must_hold: "it is executed as alone",
        held: little_stack,
    },
    Fault {
        name: "a sanitized program is executed by its descriptor",
        must_hold: "same exit code as alone",
        held: sanitized_by_descriptor,
    },
    Fault {
        name: "a sanitized program interprets a script",
        must_hold: "same output and exit code as alone",
        held: sanitized_interpreter,
    },
    Fault {
        name: "a sanitized program is executed by calls that few know (execveat)",
        must_hold: "same output and exit code as alone",
        held: sanitized_by_rare_calls,
    },
    Fault {
        name: "a sanitized program is started by one without a loader",
        must_hold: "same output and exit code as alone, and what is missing is said",
        held: sanitized_below_static,
    },
    Fault {
        name: "a sanitized program is started in another folder (posix_spawn)",
        must_hold: "same output and exit code as alone",
        held: sanitized_elsewhere,
    },
    Fault {
        name: "a program for a narrower processor is behind a shell",
        must_hold: "its loader finds nothing to complain of",
        held: other_class,
    },
    Fault {
        name: "a program without a loader gives its rights up and executes another",
        must_hold: "not a word on stderr",
        held: rights_given_up,
    },
    Fault {
        name: "programs are looked for in PATH",
        must_hold: "found, refused and interpreted as alone",
        held: looked_for,
    },
];

fn watched_executions() -> Tried {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <unistd.h>
        /* memwall itself goes through here too. */
        #define SAY(name) (getenv("WATCH") != NULL && write(2, name "\n", sizeof name) < 0)
        #define WATCH(name, parameters, arguments) \
            int name parameters { \
                if (SAY(#name)) return -1; \
                return ((int (*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
            }
        WATCH(execve, (const char *path, char *const words[], char *const more[]), (path, words, more))
        WATCH(execvpe, (const char *path, char *const words[], char *const more[]), (path, words, more))
        WATCH(execv, (const char *path, char *const words[]), (path, words))
        WATCH(execvp, (const char *path, char *const words[]), (path, words))
        WATCH(fexecve, (int file, char *const words[], char *const more[]), (file, words, more))
        long any_call(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
        long any_call(long number, long a, long b, long c, long d, long e, long f) {
            if (SAY("syscall")) return -1;
            return ((long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
        }"#;
    let flags = ["-shared", "-fPIC", "-ldl", "-Wno-nonnull"];
    let Some(watcher) = place.build("cc", "watcher.so", source, &flags) else {
        return Missing(Need::Program("cc"));
    };
    let calls = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **words) {
            char *another[] = {words[0], words[1] + 1, NULL};
            if (syscall(SYS_getpid) != getpid()) return 2;
            switch (*words[1]) {
                case 'a': execve(words[0], another, environ); break;
                case 'b': execv(words[0], another); break;
                case 'c': execvp(words[0], another); break;
                case 'd': execvpe(words[0], another, environ); break;
                case 'e': fexecve(open(words[0], O_RDONLY), another, environ); break;
                default: return 7;
            }
            return 1;
        }"#;
    let program = place.build("cc", "calls", calls, &[]).expect("as before");
    let program = program.to_str().expect("text");
    let run = |command: &mut std::process::Command| {
        command.args(["WATCH=1", program, "abcde"]).env("LD_PRELOAD", &watcher).output().expect("it starts")
    };
    // Both are started by `env`, which the watcher sees too.
    let alone = run(&mut place.command("env"));
    let with = run(place.memwall(&["run", "--to", "report.txt", "--"]).arg("env"));
    let count = |output: &std::process::Output| said(&output.stderr).lines().count();
    assert_eq!((said(&with.stderr), with.status.code()), (said(&alone.stderr), alone.status.code()));
    assert_eq!((alone.status.code(), count(&alone)), (Some(7), 1 + 5 + 6), "{alone:?}");
    Held
}

fn little_stack() -> Tried {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <sched.h>
        #include <signal.h>
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        enum { GUARD = 1 << 16, STACK = 4096 };
        static int is_named;
        static int child(void *unused) {
            char *words[] = {"true", NULL};
            (void)(is_named ? execvp("true", words) : execv("/bin/true", words));
            _exit(3);
        }
        int main(void) {
            execv("/nothing", (char *[]){"nothing", NULL}), execvp("no-such", (char *[]){"no-such", NULL});
            char *room = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (room == MAP_FAILED || mprotect(room, GUARD, PROT_NONE)) return 1;
            for (; is_named < 2; is_named++) {
                int status;
                pid_t started = clone(child, room + GUARD + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
                if (started < 0 || waitpid(started, &status, 0) != started) return 2;
                printf("%x\n", status);
            }
        }"#;
    let Some(program) = place.build("cc", "little", source, &[]) else { return Missing(Need::Program("cc")) };
    let report = place.same_as_alone(&[text(&program)]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}

/// A program with the address sanitizer, of that name.
fn sanitized(place: &Place, name: &str) -> Option<String> {
    let code = place.path("sane.c");
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) { void *volatile block = malloc(100000); puts("sane"); free(block); return 9; }"#;
    std::fs::write(&code, source).expect("written");
    let sane = place.path(name);
    let built = place.command("cc").args(["-fsanitize=address", "-o"]).arg(&sane).arg(&code).output();
    built.is_ok_and(|built| built.status.success()).then(|| text(&sane).to_owned())
}

const NO_SANITIZER: Tried = Missing(Need::AddressSanitizer);

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A report without its breaks of lines.
fn unwrapped(report: &str) -> String {
    report.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn sanitized_by_descriptor() -> Tried {
    let place = Place::new();
    let Some(sane) = sanitized(&place, "sane") else { return NO_SANITIZER };
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **words) {
            fexecve(open(words[1], (count > 2 ? O_PATH : O_RDONLY) | O_CLOEXEC), (char *[]){words[1], NULL}, environ);
            return 1;
        }"#;
    let Some(program) = place.build("cc", "opens", source, &[]) else { return Missing(Need::Program("cc")) };
    for more in [&[][..], &["not to be read"]] {
        let report = place.same_as_alone(&[&[text(&program), &sane], more].concat());
        assert!(report.contains("exit code 9"), "{report}");
    }
    Held
}

fn sanitized_interpreter() -> Tried {
    let place = Place::new();
    let Some(sane) = sanitized(&place, "sane") else { return NO_SANITIZER };
    // Scripts that interpret scripts, as many as the kernel allows.
    let mut interpreter = sane;
    for (number, gap) in ["", " ", "\t", "  ", " \t "].iter().enumerate() {
        let script = place.path(&format!("script{number}"));
        std::fs::write(&script, format!("#!{gap}{interpreter} with words\n")).expect("written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
        interpreter = text(&script).to_owned();
    }
    let report = place.same_as_alone(&["bash", "-c", "./script0; ./script1; ./script4; exit $?"]);
    assert!(report.contains("exit code 9"), "{report}");
    place.same_as_alone(&[&interpreter]);
    Held
}

fn sanitized_by_rare_calls() -> Tried {
    let place = Place::new();
    let Some(sane) = sanitized(&place, "sane") else { return NO_SANITIZER };
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdlib.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **words) {
            char *path = words[2], *given[] = {path, NULL};
            switch (*words[1]) {
                case 'a': execveat(AT_FDCWD, path, given, environ, 0); break;
                case 'b': execveat(open(path, O_PATH | O_CLOEXEC), "", given, environ, AT_EMPTY_PATH); break;
                case 'c': execveat(open(path, O_RDONLY), "", given, environ, AT_EMPTY_PATH); break;
                case 'd': execveat(open("..", O_PATH), path, given, environ, AT_SYMLINK_NOFOLLOW); break;
                case 'e': syscall(SYS_execve, path, given, environ); break;
                case 'f': syscall(SYS_execveat, AT_FDCWD, path, given, environ, 0); break;
                case 'g': syscall(SYS_execveat, open(path, O_RDONLY), "", given, environ, AT_EMPTY_PATH); break;
            }
            return 1;
        }"#;
    let Some(program) = place.build("cc", "calls", source, &[]) else { return Missing(Need::Program("cc")) };
    for way in ["a", "b", "c", "d", "e", "f", "g"] {
        let report = place.same_as_alone(&[text(&program), way, &sane]);
        assert!(report.contains("exit code 9"), "{way}: {report}");
    }
    Held
}

/// Executes what its words say.
const STATIC: &str = r#"
    #include <stdlib.h>
    #include <unistd.h>
    int main(int count, char **words) {
        if (*words[1] == 'd' && (setgid(65534) || setuid(65534))) return 1;
        execv(words[2], words + 2);
        return 2;
    }"#;

fn without_loader(place: &Place) -> Option<String> {
    place.build("cc", "executes", STATIC, &["-static"]).map(|path| text(&path).to_owned())
}

fn sanitized_below_static() -> Tried {
    let place = Place::new();
    let Some(sane) = sanitized(&place, "sane") else { return NO_SANITIZER };
    let Some(program) = without_loader(&place) else { return Missing(Need::Program("cc")) };
    let report = place.same_as_alone(&[&program, "keeps", &sane]);
    assert!(
        report.contains("exit code 9") && unwrapped(&report).contains("what it starts is not looked at"),
        "{report}"
    );
    let report = place.same_as_alone(&["sh", "-c", &format!("{program} keeps {sane}; exit $?")]);
    assert!(
        report.contains("exit code 9") && unwrapped(&report).contains("what it starts is not looked at"),
        "{report}"
    );
    Held
}

fn rights_given_up() -> Tried {
    if !rustix::process::geteuid().is_root() {
        return Missing(Need::Root);
    }
    let place = Place::new();
    let Some(program) = without_loader(&place) else { return Missing(Need::Program("cc")) };
    place.same_as_alone(&[&program, "drops", "/bin/echo", "here"]);
    place.same_as_alone(&["sh", "-c", &format!("{program} drops /bin/echo here; exit $?")]);
    Held
}

fn sanitized_elsewhere() -> Tried {
    let place = Place::new();
    std::fs::create_dir(place.path("below")).expect("a folder");
    let Some(_) = sanitized(&place, "below/tool") else { return NO_SANITIZER };
    // Another one of that name lies here.
    let source = "int main(void) { return 3; }";
    let Some(_) = place.build("cc", "tool", source, &[]) else { return Missing(Need::Program("cc")) };
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <spawn.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        extern char **environ;
        int main(int count, char **words) {
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            if (*words[1] == 'p') posix_spawn_file_actions_addchdir_np(&actions, "below");
            else posix_spawn_file_actions_addfchdir_np(&actions, open("below", O_RDONLY | O_CLOEXEC));
            pid_t child;
            int status, failed;
            if (*words[2] == 's') failed = posix_spawn(&child, "./tool", &actions, NULL, words, environ);
            else if (*words[2] == 'n') failed = posix_spawnp(&child, "./tool", &actions, NULL, words, environ);
            else setenv("PATH", "/no:.", 1), failed = posix_spawnp(&child, "tool", &actions, NULL, words, environ);
            return failed || waitpid(child, &status, 0) != child ? 1 : WEXITSTATUS(status);
        }"#;
    let program = place.build("cc", "moves", source, &[]).expect("as before");
    for by in ["path", "descriptor"] {
        for how in ["spawn", "named", "looked for"] {
            let report = place.same_as_alone(&[text(&program), by, how]);
            assert!(report.contains("exit code 9"), "{by}, {how}: {report}");
        }
    }
    Held
}

/// A loader that complains as that of the C library does, which not every machine has.
const NARROW_LOADER: &str = r#"
    static int begins(const char *text, const char *begin) { while (*begin && *text == *begin) text++, begin++; return *begin == 0; }
    static void call(int number, int a, const void *b, int c) {
        int result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    }
    void begin(char **stack) {
        char **each = stack + 1;
        while (*each++ != 0) {}
        for (; *each != 0; each++) if (begins(*each, "LD_PRELOAD=")) call(4, 2, "wrong class\n", 12);
        call(1, 5, 0, 0);
    }
    __asm__(".globl _start\n_start: mov %esp, %eax\n push %eax\n call begin\n");"#;

fn other_class() -> Tried {
    const WHAT: Tried = Missing(Need::NarrowPrograms);
    let place = Place::new();
    let code = place.path("narrow.c");
    std::fs::write(&code, NARROW_LOADER).expect("written");
    let (loader, program) = (place.path("loader"), place.path("narrow"));
    let build = |to: &Path, flags: &[&str]| {
        let mut command = place.command("cc");
        command
            .args(["-m32", "-ffreestanding", "-fno-stack-protector", "-nostdlib", "-o"])
            .arg(to)
            .arg(&code);
        command.args(flags).output().is_ok_and(|built| built.status.success())
    };
    let names_it = format!("-Wl,--dynamic-linker={}", text(&loader));
    let is_built =
        build(&loader, &["-static", "-fno-pie", "-no-pie"]) && build(&program, &["-fPIE", "-pie", &names_it]);
    if !is_built || place.command(&program).status().ok().and_then(|status| status.code()) != Some(5) {
        return WHAT;
    }
    for shell in ["sh", "bash"] {
        let report = place.same_as_alone(&[shell, "-c", &format!("{}; exit $?", text(&program))]);
        assert!(
            report.contains("exit code 5") && unwrapped(&report).contains("another kind of processor"),
            "{report}"
        );
    }
    Held
}

fn looked_for() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <errno.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void try(const char *path, const char *name) {
            if (path != NULL) setenv("PATH", path, 1); else unsetenv("PATH");
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                char *words[] = {(char *)name, "one", "two", NULL};
                execvp(name, words);
                printf("%s\n", strerror(errno));
                exit(1);
            }
            int status;
            waitpid(child, &status, 0);
            printf("%s in %s: %x\n", name, path == NULL ? "nothing" : path, status);
        }
        int main(void) {
            static char longest[400], folders[6000];
            memset(longest, 'x', sizeof longest - 1);
            memset(folders, 'y', sizeof folders - 1);
            const char *paths[] = {"/bin", "sub", "", ":", "/no:sub:", "sub/file:/bin", "closed:/no", "/no:.", "sub:.", NULL, folders};
            const char *names[] = {"script", "bare", "echo", "denied", "folder", "sub/script", "", "no-such", longest};
            for (size_t path = 0; path < sizeof paths / sizeof paths[0]; path++)
                for (size_t name = 0; name < sizeof names / sizeof names[0]; name++) try(paths[path], names[name]);
        }"#;
    let Some(program) = place.build("cc", "looks", source, &[]) else { return Missing(Need::Program("cc")) };
    let made = place.shell(
        "mkdir -p sub/folder closed && echo 'echo here $0 $*' > bare && printf '#!/bin/sh\necho script $*\n' > sub/script && \
         echo > sub/denied && echo > sub/file && cp bare sub/ && cp bare denied && chmod +x bare denied sub/bare sub/script sub/file && chmod 0 closed",
    );
    assert!(made.status.success(), "{made:?}");
    let report = place.same_as_alone(&[text(&program)]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}
