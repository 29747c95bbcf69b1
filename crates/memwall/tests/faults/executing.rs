//! How programs execute others: memwall's library looks at each.

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, said},
};

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
        return Missing("C compiler");
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
    let Some(program) = place.build("cc", "little", source, &[]) else { return Missing("C compiler") };
    let report = place.same_as_alone(&[program.to_str().expect("text")]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}

fn sanitized_by_descriptor() -> Tried {
    let place = Place::new();
    let code = place.path("sane.c");
    std::fs::write(&code, "int main(void) { return 9; }").expect("written");
    let sane = place.path("sane");
    let built = place.command("cc").args(["-fsanitize=address", "-o"]).arg(&sane).arg(&code).output();
    if !built.is_ok_and(|built| built.status.success()) {
        return Missing("address sanitizer");
    }
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <unistd.h>
        extern char **environ;
        int main(int count, char **words) {
            fexecve(open(words[1], O_RDONLY | O_CLOEXEC), (char *[]){words[1], NULL}, environ);
            return 1;
        }"#;
    let Some(program) = place.build("cc", "opens", source, &[]) else { return Missing("C compiler") };
    let report = place.same_as_alone(&[program.to_str().expect("text"), sane.to_str().expect("text")]);
    assert!(report.contains("exit code 9"), "{report}");
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
    let Some(program) = place.build("cc", "looks", source, &[]) else { return Missing("C compiler") };
    let made = place.shell(
        "mkdir -p sub/folder closed && echo 'echo here $0 $*' > bare && printf '#!/bin/sh\necho script $*\n' > sub/script && \
         echo > sub/denied && echo > sub/file && cp bare sub/ && cp bare denied && chmod +x bare denied sub/bare sub/script sub/file && chmod 0 closed",
    );
    assert!(made.status.success(), "{made:?}");
    let report = place.same_as_alone(&[program.to_str().expect("text")]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}
