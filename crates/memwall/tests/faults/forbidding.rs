//! Programs that forbid themselves system calls, in every way there is to set a filter: what memwall's library needs may be among
//! them.

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::Place,
};
use prerequisites::Need;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a filter kills whoever opens a file (seccomp)",
        must_hold: "same exit code as alone, while it allocates a lot",
        held: no_file_may_be_opened,
    },
    Fault {
        name: "a filter kills for calls that a thread does not need",
        must_hold: "same exit code as alone, however the filter was set",
        held: threads_behind_a_filter,
    },
    Fault {
        name: "a filter kills for calls that a forked process does not need",
        must_hold: "same exit code as alone, and what is missing is said",
        held: forks_behind_a_filter,
    },
    Fault {
        name: "a filter kills for calls that no program needs to start",
        must_hold: "what is executed behind it runs as alone, and that is said",
        held: programs_behind_a_filter,
    },
    Fault {
        name: "a filter refuses calls and kills nobody",
        must_hold: "what is executed behind it is known all the same",
        held: programs_behind_a_harmless_filter,
    },
    Fault {
        name: "all but four system calls are forbidden (strict seccomp)",
        must_hold: "same exit code as alone, by whichever call",
        held: strict_mode,
    },
];

/// `forbids HOW WHAT` sets a filter by an instruction of its own, through the C library's function for any call or that for this
/// one, and allocates in a thread, a forked process or another program. `forbids HOW WHAT KIND` with a filter of another kind.
const FORBIDS: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <pthread.h>
    #include <stddef.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>

    static const int FORBIDDEN[] = {SYS_gettid, SYS_getpid, SYS_clock_gettime, SYS_lseek, SYS_fcntl, SYS_getrusage};
    enum { MANY = sizeof FORBIDDEN / sizeof FORBIDDEN[0] };

    static long bare(long number, long a, long b, long c) {
    #ifdef __x86_64__
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
        return result;
    #else
        return syscall(number, a, b, c);
    #endif
    }

    static long set(const char *how, unsigned mode, struct sock_fprog *filter) {
        if (strcmp(how, "bare") == 0) return bare(SYS_seccomp, mode, 0, (long)filter);
        if (strcmp(how, "call") == 0) return syscall(SYS_seccomp, mode, 0, filter);
        unsigned as_prctl = mode == SECCOMP_SET_MODE_STRICT ? SECCOMP_MODE_STRICT : SECCOMP_MODE_FILTER;
        if (strcmp(how, "both") == 0) return syscall(SYS_prctl, PR_SET_SECCOMP, as_prctl, filter);
        return prctl(PR_SET_SECCOMP, as_prctl, filter);
    }

    static void forbid(const char *how, unsigned verdict) {
        struct sock_filter rules[2 * MANY + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        /* Refused to us too, the first of them would keep us from writing down. */
        int first = verdict == SECCOMP_RET_KILL_PROCESS ? 0 : MANY - 1;
        for (int i = 0; i < MANY; i++) {
            rules[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FORBIDDEN[i < first ? first : i], 0, 1);
            rules[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
        }
        rules[2 * MANY + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog filter = {2 * MANY + 2, rules};
        /* Whether there are filters at all is asked like this. */
        if (set(how, SECCOMP_SET_MODE_FILTER, NULL) != -1 && strcmp(how, "bare") != 0) exit(3);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || set(how, SECCOMP_SET_MODE_FILTER, &filter)) exit(4);
    }

    static void *work(void *unused) {
        for (int i = 0; i < 5000; i++) free(malloc(100)), free(malloc(20000));
        return unused;
    }

    int main(int count, char **words) {
        if (count < 3) return work(NULL), 6;
        int refuses = count > 3 && strcmp(words[3], "refuses") == 0;
        work(NULL);
        if (strcmp(words[2], "strict") == 0) {
            if (set(words[1], SECCOMP_SET_MODE_STRICT, NULL)) return 4;
            work(NULL);
            bare(SYS_exit, 6, 0, 0);
        }
        forbid(words[1], refuses ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
        if (strcmp(words[2], "thread") == 0) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL)) return 5;
        } else if (strcmp(words[2], "fork") == 0) {
            pid_t child = fork();
            if (child == 0) work(NULL), _exit(6);
            int status;
            return wait(&status) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
        } else if (strcmp(words[2], "program") == 0) {
            execlp(words[0], words[0], (char *)0);
            return 8;
        }
        work(NULL);
        return 6;
    }"#;

/// Tries each way to set a filter; gives the reports.
fn tried(ways: &[&str], more: &[&str]) -> Option<Vec<String>> {
    let place = Place::new();
    let program = place.build("cc", "forbids", FORBIDS, &["-pthread"])?;
    let report = |way: &&str| {
        let command = [&[program.to_str().expect("text"), way][..], more].concat();
        let report = place.same_as_alone(&command);
        assert!(report.contains("exit code 6"), "{command:?}: {report}");
        report
    };
    Some(ways.iter().map(report).collect())
}

fn no_file_may_be_opened() -> Tried {
    let place = Place::new();
    let source = r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <stdlib.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #define KILL_AT(number) \
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
        int main(void) {
            struct sock_filter rules[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                KILL_AT(SYS_openat), KILL_AT(SYS_open), KILL_AT(SYS_creat), KILL_AT(SYS_ftruncate), KILL_AT(SYS_fallocate),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 3;
            for (int i = 0; i < 100000; i++) free(malloc(200000));
            return 7;
        }"#;
    let Some(program) = place.build("cc", "filtered", source, &[]) else {
        return Missing(Need::Program("cc"));
    };
    place.same_as_alone(&[program.to_str().expect("text")]);
    Held
}

fn threads_behind_a_filter() -> Tried {
    tried(&["bare", "call", "both", "prctl"], &["thread"]).map_or(Missing(Need::Program("cc")), |_| Held)
}

/// One that was set by an instruction of the program's own is not seen: it still harms here.
const SEEN: [&str; 3] = ["call", "both", "prctl"];

fn forks_behind_a_filter() -> Tried {
    let Some(reports) = tried(&SEEN, &["fork"]) else { return Missing(Need::Program("cc")) };
    let is_said = |report: &String| report.contains("1 processes that were forked behind a filter");
    assert!(reports.iter().all(is_said), "{reports:?}");
    Held
}

fn programs_behind_a_filter() -> Tried {
    let Some(reports) = tried(&SEEN, &["program"]) else { return Missing(Need::Program("cc")) };
    let is_said = |report: &String| report.contains("1 behind a filter of system calls");
    assert!(reports.iter().all(is_said), "{reports:?}");
    Held
}

fn programs_behind_a_harmless_filter() -> Tried {
    let Some(reports) = tried(&SEEN, &["program", "refuses"]) else { return Missing(Need::Program("cc")) };
    assert!(reports.iter().all(|report| !report.contains("are not known")), "{reports:?}");
    Held
}

fn strict_mode() -> Tried {
    tried(&SEEN, &["strict"]).map_or(Missing(Need::Program("cc")), |_| Held)
}
