/* Programs that forbid themselves system calls, or the clock. What a filter kills for is nobody's business but theirs: once one is in
 * place, we make no call at all, and what they start does not get us.
 *
 * A filter that is set without the C library, by an instruction of the program's own, is not seen. Threads go on behind it all the same,
 * since their notes need no call. What we ask for in a process that is forked behind it, at the start of a program, at marks of regions,
 * and the clock in strict mode, may still end it.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* Whether a filter that is in place does no more than to refuse calls. */
static bool only_refuses(const struct sock_fprog *filter) {
    for (unsigned short index = 0; index < filter->len; index++) {
        const struct sock_filter *rule = &filter->filter[index];
        if (BPF_CLASS(rule->code) != BPF_RET) continue;
        unsigned action = rule->k & SECCOMP_RET_ACTION_FULL;
        bool refuses = action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO;
        if (BPF_RVAL(rule->code) != BPF_K || !refuses) return false;
    }
    return true;
}

struct system_call {
    long number, words[6];
};

static long made(const struct system_call *call) {
    const long *words = call->words;
    return plain_call(call->number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* Asks for a filter. What it says is looked at when the kernel has read it. */
static long made_filter(const struct system_call *call, const struct sock_fprog *filter) {
    atomic_store(&counts_are_off, true);
    atomic_fetch_add(&filters, 1);
    long result = made(call);
    if (result == -1 || only_refuses(filter)) atomic_fetch_sub(&filters, 1);
    return result;
}

/* This thread forbids itself the clock, if the kernel agrees: meanwhile it writes nothing down, nor does a handler of signals. */
static long made_ban(const struct system_call *call) {
    bool was_inside = inside;
    inside = true;
    long result = made(call);
    inside = was_inside;
    if (result != -1) fall_silent();
    return result;
}

static long made_prctl(const struct system_call *call) {
    long option = call->words[0], argument = call->words[1];
    if (option == PR_SET_NO_NEW_PRIVS) atomic_store(&counts_are_off, true); /* a filter may follow */
    if (option == PR_SET_SECCOMP && argument == SECCOMP_MODE_FILTER)
        return made_filter(call, (const struct sock_fprog *)call->words[2]);
    bool is_strict = option == PR_SET_SECCOMP && argument == SECCOMP_MODE_STRICT; /* the time stamp counter goes with it */
    return is_strict || (option == PR_SET_TSC && argument == PR_TSC_SIGSEGV) ? made_ban(call) : made(call);
}

SHOWN int prctl(int option, ...) {
    struct system_call call = {SYS_prctl, {option}};
    va_list list;
    va_start(list, option);
    for (int word = 1; word < 5; word++) call.words[word] = va_arg(list, long);
    va_end(list);
    return (int)made_prctl(&call);
}

#ifdef __x86_64__
/* The C library's function for any system call. It is to cost nothing, and who calls it may have given fewer words than it takes: those
 * on the stack are not even copied, since they may be somebody's variables. */
static __attribute__((noinline, cold, used)) long watched_call(long number, long a, long b, long c, long d, long e) {
    struct system_call call = {number, {a, b, c, d, e}};
    if (number == SYS_prctl) return made_prctl(&call);
    if (number == SYS_execve) return call_execve((const char *)a, (char *const *)b, (char *const *)c);
    if (number == SYS_execveat) return call_execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e);
    return a == SECCOMP_SET_MODE_FILTER ? made_filter(&call, (const struct sock_fprog *)c)
         : a == SECCOMP_SET_MODE_STRICT ? made_ban(&call)
                                        : made(&call);
}

static __attribute__((noinline, cold, used)) long failed_call(long result) {
    errno = (int)-result;
    return -1;
}

extern const char unwatched_call[] __attribute__((visibility("hidden")));
static const void *next_call __attribute__((used)) = unwatched_call;

static void find_next_call(void) {
    const void *found = find("syscall");
    if (found != NULL) next_call = found;
}

__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "    cmpl $317, %edi\n" /* SYS_seccomp */
        "    je watched_call\n"
        "    cmpl $157, %edi\n" /* SYS_prctl */
        "    je watched_call\n"
        "    cmpl $59, %edi\n" /* SYS_execve */
        "    je watched_call\n"
        "    cmpl $322, %edi\n" /* SYS_execveat */
        "    je watched_call\n"
        "    jmp *next_call(%rip)\n"
        ".cfi_endproc\n"
        ".size syscall, . - syscall\n"
        ".globl unwatched_call\n"
        ".hidden unwatched_call\n"
        ".type unwatched_call, @function\n"
        "unwatched_call:\n"
        ".cfi_startproc\n"
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    movq %rdx, %rsi\n"
        "    movq %rcx, %rdx\n"
        "    movq %r8, %r10\n"
        "    movq %r9, %r8\n"
        "    movq 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmpq $-4095, %rax\n"
        "    movq %rax, %rdi\n"
        "    jae failed_call\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size unwatched_call, . - unwatched_call\n");

_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157 && SYS_execve == 59 && SYS_execveat == 322, "as compared above");
#else
static void find_next_call(void) {}
#endif
