/* Writes down who allocated what, and where regions begin and end, from inside the program: loaded in front of its own
 * libraries.
 *
 * What it promises: the program gets exactly what its own allocator gives, errno included, and never waits for us. After
 * the start nothing is opened, mapped or grown, unless events are to be counted at marks, and nothing is done at a fork.
 * Large blocks and mappings are all written down, unless there are very many. Of small ones only some, because a note for
 * each would cost more than the allocation. Frees are not looked at: a block is gone when another one is written down in
 * its place, and nobody reads memory that was freed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>

#include "notes.h"

#include "draw.h"
#include "preloading.h"

enum {
    LARGE_MANY = 512,     /* of large blocks a thread may have so many: then only those twice as large as the last are, and so on */
    LARGE_MOST = 1 << 17, /* up to here; beyond, who works on its blocks is busy with them far longer than we are with a note */
    HUGE_MOST = 1 << 25,  /* who does not: up to here, where the C library keeps what is freed. The kernel's work on larger ones costs far
                           * more than a note */
};

PER_THREAD uint32_t large_notes;
PER_THREAD uint64_t many_since_ns;

/* ---- the allocator behind us ---- */

/* glibc's own names: what dlsym itself may need before the next allocator is known. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));

static void *first_malloc(size_t), *first_calloc(size_t, size_t), *first_realloc(void *, size_t);
static void *first_aligned_alloc(size_t, size_t), *first_memalign(size_t, size_t);

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const *, char *const *);

/* Each is looked up when it is first called: most programs call few of them. Those that are called most begin as functions that
 * find them, so that no call has to ask whether it was found. */
static struct {
    void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t), *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t), *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    int (*mprotect)(void *, size_t, int);
    void *(*mremap)(void *, size_t, size_t, int, void *);
    int (*execve)(const char *, char *const *, char *const *), (*execvpe)(const char *, char *const *, char *const *);
    int (*execv)(const char *, char *const *), (*execvp)(const char *, char *const *);
    int (*fexecve)(int, char *const *, char *const *), (*execveat)(int, const char *, char *const *, char *const *, int);
    spawn_function *posix_spawn, *posix_spawnp;
    int (*setrlimit)(__rlimit_resource_t, const struct rlimit *), (*setrlimit64)(__rlimit_resource_t, const struct rlimit64 *);
    int (*prlimit)(pid_t, enum __rlimit_resource, const struct rlimit *, struct rlimit *);
    int (*prlimit64)(pid_t, enum __rlimit_resource, const struct rlimit64 *, struct rlimit64 *);
    int (*posix_spawn_file_actions_addchdir_np)(posix_spawn_file_actions_t *, const char *);
    int (*posix_spawn_file_actions_addfchdir_np)(posix_spawn_file_actions_t *, int);
} next = {.malloc = first_malloc, .calloc = first_calloc, .realloc = first_realloc,
          .aligned_alloc = first_aligned_alloc, .memalign = first_memalign};

PER_THREAD bool finding;

/* The next function of a name; none if there is none, or if who looks it up calls it. Threads that look for the same find the same. */
static __attribute__((noinline, cold)) void *find(const char *name) {
    if (finding) return NULL;
    finding = true;
    int error = errno;
    void *found = dlsym(RTLD_NEXT, name);
    errno = error;
    finding = false;
    return found;
}

#define KNOWN(name) (next.name != NULL || (next.name = find(#name)) != NULL)

#define FIRST(name, parameters, arguments, instead)               \
    static void *first_##name parameters {                        \
        void *(*found) parameters = find(#name);                  \
        if (found == NULL) return instead;                        \
        next.name = found;                                        \
        return found arguments;                                   \
    }
FIRST(malloc, (size_t size), (size), __libc_malloc != NULL ? __libc_malloc(size) : NULL)
FIRST(calloc, (size_t count, size_t size), (count, size), __libc_calloc != NULL ? __libc_calloc(count, size) : NULL)
FIRST(realloc, (void *block, size_t size), (block, size), __libc_realloc != NULL ? __libc_realloc(block, size) : NULL)
FIRST(aligned_alloc, (size_t alignment, size_t size), (alignment, size), (errno = ENOMEM, NULL))
FIRST(memalign, (size_t alignment, size_t size), (alignment, size), (errno = ENOMEM, NULL))

/* ---- which are written down ---- */

#define FRAME ((uintptr_t)__builtin_frame_address(0))
#define CALLER __builtin_return_address(0)

/* So many large blocks were written down that the smaller of them need not be, from now on. */
static __attribute__((noinline, cold)) void thin_large(size_t size) {
    large_notes = 0;
    uint64_t most = points.small_most < LARGE_MOST - 1 ? LARGE_MOST - 1 : HUGE_MOST - 1;
    if (most > LARGE_MOST && !come_fast(&many_since_ns, LARGE_MANY)) return;
    while (points.small_most < 2 * size && points.small_most < most) points.small_most = points.small_most * 2 + 1;
}

static __attribute__((noinline)) void *noted(void *block, size_t size, void *caller, uintptr_t frame) {
    points.countdown += size;
    uint64_t what = WHAT(ALLOCATED, 0);
    if (size > points.small_most) {
        if (++large_notes == LARGE_MANY) thin_large(size);
    } else {
        unsigned chosen_at = pass_point(block, size);
        if (chosen_at == 0) return block;
        what = WHAT(SAMPLED, chosen_at);
    }
    if (block != NULL) put_note(what, block, size, caller, frame);
    return block;
}

/* ---- start ---- */

static void find_next_call(void);

/* Whether a list of libraries has others than us. */
static bool names_others(const char *list) {
    while (list != NULL && *list != 0 && *list != ':' && *list != ' ') list++;
    return list == NULL || *list != 0;
}

/* Other libraries may stand between the program and the C library for what is called between fork and exec, or by a handler, where
 * others may hold the lock that looking it up takes. */
static __attribute__((noinline, cold)) void find_others(void) {
    next.execve = find("execve");
    next.execv = find("execv");
    next.execvp = find("execvp");
    next.execvpe = find("execvpe");
    next.fexecve = find("fexecve");
    next.execveat = find("execveat");
    next.mprotect = find("mprotect");
    next.setrlimit = find("setrlimit");
    next.setrlimit64 = find("setrlimit64");
    next.prlimit = find("prlimit");
    next.prlimit64 = find("prlimit64");
    find_next_call();
}

__attribute__((constructor)) static void start(void) {
    inside = is_first_thread = true;
    uint64_t told = begin_log(value_of("MEMWALL_HEAP="));
    if (told & OTHERS_COME_FIRST || names_others(value_of(PRELOAD))) find_others();
    thread_id = (uint32_t)program_pid;
    inside = false;
}

/* ---- what the program calls ----
 *
 * Only what hands out memory itself. C++'s operators and reallocarray are left to whoever the program would have had:
 * they call malloc and realloc, and one of ours in between would choose for a program that brings its own (a plugin
 * with a private libstdc++, an allocator inside the executable).
 */

#define SHOWN __attribute__((visibility("default")))

SHOWN void *malloc(size_t size) {
    if (ends_countdown(size)) return noted(next.malloc(size), size, CALLER, FRAME);
    return next.malloc(size);
}

/* Apart, so that others need not keep what only this one needs. */
static __attribute__((noinline, cold)) void *calloc_noted(size_t items, size_t size, void *caller, uintptr_t frame) {
    return noted(next.calloc(items, size), items * size, caller, frame);
}

SHOWN void *calloc(size_t items, size_t size) {
    size_t all;
    if (!__builtin_mul_overflow(items, size, &all) && ends_countdown(all)) return calloc_noted(items, size, CALLER, FRAME);
    return next.calloc(items, size);
}

SHOWN void *realloc(void *block, size_t size) {
    if (ends_countdown(size)) return noted(next.realloc(block, size), size, CALLER, FRAME);
    return next.realloc(block, size);
}

SHOWN int posix_memalign(void **block, size_t alignment, size_t size) {
    if (!KNOWN(posix_memalign)) return ENOMEM;
    int failed = next.posix_memalign(block, alignment, size);
    if (failed == 0 && ends_countdown(size)) noted(*block, size, CALLER, FRAME);
    return failed;
}

#define ALIGNED(name)                                                                    \
    SHOWN void *name(size_t alignment, size_t size) {                                    \
        if (ends_countdown(size)) return noted(next.name(alignment, size), size, CALLER, FRAME); \
        return next.name(alignment, size);                                               \
    }
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(name)                                                                      \
    SHOWN void *name(size_t size) {                                                      \
        if (!KNOWN(name)) return errno = ENOMEM, NULL;                                   \
        if (ends_countdown(size)) return noted(next.name(size), size, CALLER, FRAME);          \
        return next.name(size);                                                          \
    }
PAGED(valloc)
PAGED(pvalloc)

static void *mapped(void *block, size_t size, int flags, void *caller, uintptr_t frame) {
    if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) && size >= LARGE) write_note(WHAT(MAPPED, 0), block, size, caller, frame);
    return block;
}

SHOWN void *mmap(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (flags & MAP_FIXED) let_go(hint, size);
    if (!KNOWN(mmap))
        return (void *)plain_call(SYS_mmap, (long)hint, (long)size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN void *mmap64(void *hint, size_t size, int access, int flags, int file, off_t offset) {
    if (flags & MAP_FIXED) let_go(hint, size);
    if (!KNOWN(mmap))
        return (void *)plain_call(SYS_mmap, (long)hint, (long)size, access, flags, file, offset);
    return mapped(next.mmap(hint, size, access, flags, file, offset), size, flags, CALLER, FRAME);
}

SHOWN int munmap(void *block, size_t size) {
    let_go(block, size);
    if (!KNOWN(munmap)) return (int)plain_call(SYS_munmap, (long)block, (long)size, 0, 0, 0, 0);
    int failed = next.munmap(block, size);
    if (failed == 0 && size >= LARGE) write_note(WHAT(UNMAPPED, 0), block, size, NULL, 0);
    return failed;
}

SHOWN void *mremap(void *block, size_t before, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    let_go(block, before);
    if (flags & MREMAP_FIXED) let_go(wanted, size);
    if (!KNOWN(mremap)) return (void *)plain_call(SYS_mremap, (long)block, (long)before, (long)size, flags, (long)wanted, 0);
    void *moved = next.mremap(block, before, size, flags, wanted);
    if (moved != MAP_FAILED && before >= LARGE) write_note(WHAT(UNMAPPED, 0), block, before, NULL, 0);
    return mapped(moved, size, MAP_ANONYMOUS, CALLER, FRAME);
}

/* Called from handlers of signals, too: the next one is not looked up here. */
SHOWN int mprotect(void *block, size_t size, int access) {
    if ((access & PROT_READ) == 0 || (access & PROT_WRITE) == 0) let_go(block, size);
    return next.mprotect != NULL ? next.mprotect(block, size, access) : (int)plain_call(SYS_mprotect, (long)block, (long)size, access, 0, 0, 0);
}

/* Locks all memory, or fails where the limit does not allow for all of it: ours must not count. */
SHOWN int mlockall(int flags) {
    close_region(LOCKED);
    int (*next_mlockall)(int) = (int (*)(int))dlsym(RTLD_NEXT, "mlockall");
    return next_mlockall != NULL ? next_mlockall(flags) : (int)plain_call(SYS_mlockall, flags, 0, 0, 0, 0, 0);
}

/* What we have in the address space counts against a limit on it. A process that was made by vfork has its parent's. */
static int after_limit(int failed, int resource, const void *limit) {
    bool is_limit = failed == 0 && resource == RLIMIT_AS && limit != NULL && ((const struct rlimit *)limit)->rlim_cur != RLIM_INFINITY;
    if (!is_limit || atomic_load(&ring) == NULL || is_filtered()) return failed;
    uint32_t known = atomic_load(&self->pid);
    if (known == 0 || known == (uint32_t)CALL0(SYS_getpid)) close_region(CONFINED);
    return failed;
}

/* Between fork and exec, too: the next ones are not looked up here. The kernel knows one form of limits, whatever their name. */
#define SETRLIMIT(name, limit_type)                                                                    \
    SHOWN int name(__rlimit_resource_t resource, const struct limit_type *limit) {                     \
        int failed = next.name != NULL ? next.name(resource, limit)                                    \
                                       : (int)plain_call(SYS_prlimit64, 0, resource, (long)limit, 0, 0, 0); \
        return after_limit(failed, resource, limit);                                                   \
    }
SETRLIMIT(setrlimit, rlimit)
SETRLIMIT(setrlimit64, rlimit64)

#define PRLIMIT(name, limit_type)                                                                      \
    SHOWN int name(pid_t whose, enum __rlimit_resource resource, const struct limit_type *limit, struct limit_type *before) { \
        int failed = next.name != NULL ? next.name(whose, resource, limit, before)                     \
                                       : (int)plain_call(SYS_prlimit64, whose, resource, (long)limit, (long)before, 0, 0); \
        bool is_own = whose == 0 || (uint64_t)whose == program_pid;                                    \
        return is_own ? after_limit(failed, resource, limit) : failed;                                 \
    }
PRLIMIT(prlimit, rlimit)
PRLIMIT(prlimit64, rlimit64)

SHOWN int chroot(const char *path) {
    int (*next_chroot)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "chroot");
    int failed = next_chroot != NULL ? next_chroot(path) : (int)plain_call(SYS_chroot, (long)path, 0, 0, 0, 0, 0);
    if (failed == 0) leave_environment();
    return failed;
}

#include "executing.h"
#include "counters.h"
#include "marks.h"
#include "filters.h"
#include "openmp.h"
