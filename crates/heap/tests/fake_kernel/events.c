/* A kernel below the system call: hardware events as they would be opened, mapped and read with rdpmc, on machines that have none.
 *
 * Loaded beside the library, which calls the kernel itself: a filter hands its calls to us, and what rdpmc would give comes from a
 * handler of the fault that it makes where it is not allowed. The event's number says how it behaves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { ON_COUNTER = 0, OFF_COUNTER = 1, INTERRUPTED = 2, UNREADABLE = 3, NARROW = 4, HALF = 5, LATE = 7 };
enum { MOST = 4096, COUNTER = 2 };

static struct perf_event_mmap_page *pages[MOST];
static int files[MOST], behaviours[MOST], opened;
static volatile int interruptions;
static volatile uint64_t counter; /* what the hardware has counted */

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return answer;
}

static long open_event(const struct perf_event_attr *attr, int group) {
    if (attr->type != PERF_TYPE_HARDWARE || attr->disabled || attr->inherit) return -EINVAL;
    if ((attr->config > HALF && attr->config != LATE) || opened == MOST) return -ENOENT;
    /* As if others had the CPU meanwhile. */
    struct timespec wait = {.tv_nsec = 12000000};
    if (attr->config == LATE) raw(SYS_nanosleep, (long)&wait, 0, 0, 0, 0, 0);
    /* Whoever follows must follow one that is open. */
    if (group >= 0 && raw(SYS_fcntl, group, 1 /* F_GETFD */, 0, 0, 0, 0) < 0) return -EBADF;
    int file = (int)raw(SYS_memfd_create, (long)"event", 1, 0, 0, 0, 0);
    raw(SYS_ftruncate, file, 4096, 0, 0, 0, 0);
    struct perf_event_mmap_page *page = (void *)raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    page->cap_user_time = 1;
    page->cap_user_rdpmc = attr->config != UNREADABLE;
    page->index = attr->config == OFF_COUNTER ? 0 : COUNTER + 1 + (unsigned)attr->config;
    page->pmc_width = attr->config == NARROW ? 32 : 48;
    page->offset = 1000 + (long)attr->config;
    page->time_enabled = 50, page->time_running = 40;
    page->time_mult = 1, page->time_shift = 63, page->time_offset = 5;
    int number = __atomic_fetch_add(&opened, 1, __ATOMIC_SEQ_CST);
    pages[number] = page, files[number] = file, behaviours[number] = (int)attr->config;
    return file;
}

/* With a flag that changes nothing, or it would come back to us. Pages of events do not follow a fork. */
static long map_page(long file, long at) {
    long mapped = raw(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, at);
    for (int event = 0; event < opened; event++)
        if (files[event] == (int)file && mapped > 0) raw(SYS_madvise, mapped, 4096, MADV_DONTFORK, 0, 0, 0);
    return mapped;
}

static void on_call(int signal, siginfo_t *about, void *given) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
    long answer = 0; /* to whether there may be a filter: ours is none of the program's */
    if (about->si_syscall == SYS_perf_event_open) answer = open_event((void *)registers[REG_RDI], (int)registers[REG_R10]);
    if (about->si_syscall == SYS_mmap) answer = map_page(registers[REG_R8], registers[REG_R9]);
    registers[REG_RAX] = answer;
}

/* Calls that are answered here: opening an event, mapping its page, asking for what a filter needs. */
static void hand_over_calls(void) {
#define WORD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW_UNLESS(value, behind) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, behind)
    struct sock_filter steps[] = {
        WORD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 11, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 2),
        WORD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_NO_NEW_PRIVS, 8, 7),
        ALLOW_UNLESS(SYS_mmap, 6),
        WORD(args[1]),
        ALLOW_UNLESS(4096, 4),
        WORD(args[2]),
        ALLOW_UNLESS(PROT_READ, 2),
        WORD(args[3]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_SHARED, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
    if (raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0) != 0) _exit(98);
    if (raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&filter, 0, 0, 0) != 0) _exit(98);
}

/* Time passes, and the hardware counts. */
void pass(uint64_t count, uint64_t ns) {
    counter += count;
    for (int event = 0; event < opened; event++) {
        pages[event]->time_enabled += ns;
        if (behaviours[event] != OFF_COUNTER) pages[event]->time_running += behaviours[event] == HALF ? ns / 2 : ns;
    }
}

int is_open(int event) { return event < opened && raw(SYS_fcntl, files[event], 1, 0, 0, 0, 0) >= 0; }

int events_opened(void) { return opened; }

/* rdpmc is two bytes. Of the event that is interrupted, the first reading finds the page changed behind it. */
static void on_fault(int signal, siginfo_t *about, void *given) {
    (void)signal, (void)about;
    greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    long behaviour = registers[REG_RCX] - COUNTER;
    if (code[0] != 0x0f || code[1] != 0x33 || behaviour < ON_COUNTER || behaviour > LATE) _exit(99);
    /* It stands below zero, as counters do that are to overflow. */
    uint64_t value = counter - 300;
    if (behaviour == INTERRUPTED && interruptions++ % 2 == 0) {
        value += 7777;
        for (int event = 0; event < opened; event++)
            if (behaviours[event] == INTERRUPTED) pages[event]->lock++;
    }
    registers[REG_RAX] = (greg_t)(value & 0xffffffff);
    registers[REG_RDX] = (greg_t)(value >> 32 & 0xffff);
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_call;
    sigaction(SIGSYS, &action, NULL);
    hand_over_calls();
}
